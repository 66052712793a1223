//! What the cases share: a space with a clock and ids, and shorthands for common changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_engine::Event;
use folio_engine::run::RunSummary;
use folio_memory::{
    Actor, Change, Clock, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, ListAnswer, NewEntry,
    NewPage, Owner, PageFields, PageId, PageRole, Role, RunId, Seq, SpaceName, Tag, Timestamp, Trust,
};
use folio_store::{Commit, Committed, Expected, Record, RunAppend, Store, StoreError};
use serde_json::json;

use super::Home;
use crate::{SeededIds, SimClock};

/// One space of a store, and a writer.
#[derive(Debug)]
pub struct Scene {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The space.
    pub space: SpaceName,
    /// The writer's clock.
    pub clock: SimClock,
    /// The writer's ids.
    pub ids: SeededIds,
}

impl Scene {
    /// The space `main` of a store in `home`.
    #[must_use]
    pub fn of(home: &dyn Home) -> Self {
        Self::on(home.open())
    }

    /// The space `main` of `store`.
    #[must_use]
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            space: SpaceName::main(),
            clock: SimClock::default(),
            ids: SeededIds::default(),
        }
    }

    /// Another space of the same store.
    #[must_use]
    pub fn other_space(&self, name: &str) -> Self {
        let space = SpaceName::parse(name).expect("the name of a space");
        Self {
            store: Arc::clone(&self.store),
            space,
            clock: self.clock.clone(),
            ids: SeededIds::new(1),
        }
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A commit of `record`, without expectations and without a key.
    #[must_use]
    pub fn commit_of(&self, record: Record) -> Commit {
        Commit {
            space: self.space.clone(),
            at: self.now(),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: None,
            expected: Vec::new(),
            record,
            blobs: Vec::new(),
        }
    }

    /// Commits `changes`.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn try_commit(&self, changes: Vec<Change>) -> Result<Committed, StoreError> {
        self.store.commit(self.commit_of(Record::of(changes))).await
    }

    /// Commits `changes`, which must succeed.
    pub async fn commit(&self, changes: Vec<Change>) -> Committed {
        self.try_commit(changes).await.expect("a commit")
    }

    /// Commits `changes` under `key`.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn commit_as(&self, key: &str, changes: Vec<Change>) -> Result<Committed, StoreError> {
        let commit = self.commit_of(Record::of(changes));
        self.store
            .commit(Commit {
                idempotency_key: Some(key.to_owned()),
                ..commit
            })
            .await
    }

    /// The last commit of the space.
    pub async fn head(&self) -> Seq {
        self.store.head(&self.space).await.expect("the head")
    }

    /// A new page without a parent, not committed.
    #[must_use]
    pub fn page(&self, role: PageRole) -> NewPage {
        NewPage {
            id: PageId::draw(&self.ids, self.now()),
            fields: PageFields::new(role, "A page", Owner::agent()),
        }
    }

    /// Commits a page and returns its id.
    pub async fn a_page(&self) -> PageId {
        let page = self.page(PageRole::Note);
        let id = page.id;
        self.commit(vec![Change::EnsurePage(Box::new(page))]).await;
        id
    }

    /// A new entry, not committed.
    #[must_use]
    pub fn entry(&self, page: PageId, kind: EntryKind, title: &str) -> NewEntry {
        let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
        title.clone_into(&mut fields.title);
        NewEntry {
            id: EntryId::draw(&self.ids, self.now()),
            page,
            kind,
            fields,
        }
    }

    /// A new note, not committed.
    #[must_use]
    pub fn note(&self, page: PageId, title: &str) -> NewEntry {
        self.entry(page, EntryKind::Note, title)
    }

    /// Commits an entry.
    pub async fn add(&self, new: NewEntry) -> EntryId {
        let id = new.id;
        self.commit(vec![Change::AddEntry(Box::new(new))]).await;
        id
    }

    /// Commits a note on a new page.
    pub async fn a_note(&self, title: &str) -> EntryId {
        let page = self.a_page().await;
        self.add(self.note(page, title)).await
    }

    /// Reads an entry, which must exist.
    pub async fn read(&self, id: EntryId) -> Entry {
        self.store
            .entry(&self.space, folio_memory::id::Ref::Id(id))
            .await
            .expect("an entry")
    }

    /// Queries the current entries.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn list(&self, query: &EntryQuery) -> Result<ListAnswer<Entry>, StoreError> {
        self.store.entries(&self.space, query, self.now()).await
    }

    /// The titles of the entries that match `query`.
    pub async fn titles(&self, query: &EntryQuery) -> Vec<String> {
        let answer = self.list(query).await.expect("a list");
        answer.items.into_iter().map(|entry| entry.fields.title).collect()
    }

    /// Commits the first event of a run, and returns its id.
    pub async fn a_run(&self, title: &str) -> RunId {
        let run = RunId::draw(&self.ids, self.now());
        self.append(run, vec![started(title)], None, Vec::new())
            .await
            .expect("a run");
        run
    }

    /// Commits events of a run.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn append(
        &self,
        run: RunId,
        events: Vec<Event>,
        status: Option<&str>,
        expected: Vec<Expected>,
    ) -> Result<Committed, StoreError> {
        let title = match events.first() {
            Some(Event::RunStarted { goal, .. }) => Some(goal.clone()),
            _ => None,
        };
        let append = RunAppend {
            run,
            events,
            status: status.map(str::to_owned),
            title,
            so_far: None,
        };
        self.commit_append(append, expected).await
    }

    /// Commits events of a running run, with the values that lists show from then on.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn append_saying(
        &self,
        run: RunId,
        events: Vec<Event>,
        so_far: RunSummary,
    ) -> Result<Committed, StoreError> {
        let append = RunAppend {
            run,
            events,
            status: None,
            title: None,
            so_far: Some(so_far),
        };
        self.commit_append(append, Vec::new()).await
    }

    async fn commit_append(&self, append: RunAppend, expected: Vec<Expected>) -> Result<Committed, StoreError> {
        let commit = self.commit_of(Record {
            run: Some(append),
            ..Record::of(Vec::new())
        });
        self.store.commit(Commit { expected, ..commit }).await
    }
}

/// The first event of a run.
#[must_use]
pub fn started(goal: &str) -> Event {
    Event::RunStarted {
        format: folio_engine::event::FORMAT,
        goal: goal.to_owned(),
        plan: json!({"steps": []}),
        inputs: BTreeMap::new(),
        deadline: None,
        run: json!({"title": goal}),
    }
}

/// An event that is distinguishable by `name`.
#[must_use]
pub fn asked_by(name: &str) -> Event {
    Event::CancelRequested {
        node: None,
        by: name.to_owned(),
    }
}

/// A patch without an expected version.
#[must_use]
pub fn patch(entry: EntryId, fields: Vec<FieldChange>) -> Change {
    Change::PatchEntry {
        entry,
        fields,
        expected_version: None,
        base_version: None,
    }
}

/// A tag.
#[must_use]
pub fn tag(text: &str) -> Tag {
    Tag::parse(text).expect("a tag")
}
