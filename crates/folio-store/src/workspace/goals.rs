//! Goals and pending actions of a thread (M7.11.3).

use folio_memory::entry::Status;
use folio_memory::goals::{
    ACTION_PATH, GOAL_PATH, GoalInput, GoalNames, Linked, LinkedCounts, Progress, Reference, settle_action,
};
use folio_memory::id::EntryRef;
use folio_memory::observation::Class;
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::Visibility;
use folio_memory::scratchbook::{self, ItemInput};
use folio_memory::turn::Turn;
use folio_memory::view::is_blank;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Invalid, Link, ListAnswer, NewEntry, Relation,
    Role, Seq, State, ThreadKey,
};
use serde::Serialize;
use serde_json::json;

use super::observations::Whose;
use super::{Workspace, WorkspaceError, Write, Written, source_of};
use crate::error::StoreError;
use crate::store::MemoryMark;

/// How often goals are settled again because of concurrent changes to them.
const ATTEMPTS: u32 = 8;

/// A goal or a pending action, and its progress.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GoalState {
    /// The goal or pending action.
    pub entry: Entry,
    /// The progress, from the entries linked to it.
    pub progress: Progress,
}

/// A goal or a pending action, and how many entries are linked to it.
struct Told {
    entry: Entry,
    linked: LinkedCounts,
}

impl Told {
    fn state(self) -> GoalState {
        GoalState {
            progress: self.linked.progress(),
            entry: self.entry,
        }
    }
}

impl Workspace {
    /// Lists the goals and pending actions of `thread`, or of all threads, newest first, with their present progress.
    ///
    /// Those that are done are included if `all` is set.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn goals(&self, thread: Option<&ThreadKey>, all: bool) -> Result<Vec<GoalState>, WorkspaceError> {
        let found = self.goals_as(None, Whose::AsAsked, thread, all).await?;
        Ok(found.into_iter().map(Told::state).collect())
    }

    /// Lists a part of the goals and pending actions that [`Workspace::goals`] lists: the first `limit` after `cursor`,
    /// which an earlier answer gave as `next`. Only their progress is computed.
    ///
    /// # Errors
    ///
    /// `Invalid` for a cursor of another list; `Unavailable` or `Corrupt`.
    pub async fn goals_part(
        &self,
        thread: Option<&ThreadKey>,
        all: bool,
        limit: u32,
        cursor: Option<String>,
    ) -> Result<ListAnswer<GoalState>, WorkspaceError> {
        let query = EntryQuery {
            limit,
            cursor,
            ..self.query_for_goals(thread, all)
        };
        let answer = self.visible_entries(&query).await?;
        let told = self.with_counts(Whose::AsAsked, answer.items).await?;
        Ok(ListAnswer {
            items: told.into_iter().map(Told::state).collect(),
            returned: answer.returned,
            total: answer.total,
            next: answer.next,
            ..ListAnswer::empty(answer.as_of)
        })
    }

    fn query_for_goals(&self, thread: Option<&ThreadKey>, all: bool) -> EntryQuery {
        let mut query = EntryQuery {
            page: thread.map(|thread| scratchbook::page_of(self.space(), thread).0),
            ..open_goals()
        };
        if all {
            query.status.push(Status::Done);
        }
        query
    }

    /// The same with the visibility of `audience`, as of `mark` if memory has not changed since.
    async fn goals_as(
        &self,
        mark: Option<MemoryMark>,
        audience: Whose,
        thread: Option<&ThreadKey>,
        all: bool,
    ) -> Result<Vec<Told>, WorkspaceError> {
        let query = self.query_for_goals(thread, all);
        let found = self.all_entries(mark, audience, &query).await?;
        self.with_counts(audience, found).await
    }

    /// Those of other threads that entries name which changed since `turn` began, as its stages see them.
    async fn goals_elsewhere(&self, turn: &Turn, mark: Option<MemoryMark>) -> Result<Vec<Told>, WorkspaceError> {
        let named = self.named_since(turn.started_seq, mark).await?;
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let (own, _) = scratchbook::page_of(self.space(), &turn.begun.thread);
        let mut goals = self.all_entries(mark, Whose::Stages, &open_goals()).await?;
        goals.retain(|goal| goal.page != own && named.iter().any(|reference| reference.is_to(goal)));
        self.with_counts(Whose::Stages, goals).await
    }

    /// The goals and pending actions that entries name which changed after commit `since`. Whatever else these entries
    /// say is read in parts and not kept.
    async fn named_since(&self, since: Seq, mark: Option<MemoryMark>) -> Result<Vec<Reference>, WorkspaceError> {
        let mut named = Vec::new();
        if mark.is_some_and(|mark| mark.since <= since) {
            return Ok(named);
        }
        let mut changed = EntryQuery {
            kinds: EntryKind::memory().collect(),
            since: Some(since),
            status: Status::ALL.into(),
            limit: MAX_LIMIT,
            uncounted: true,
            ..EntryQuery::default()
        };
        loop {
            let answer = self.entries_as(Whose::Stages, &changed).await?;
            for reference in answer.items.iter().flat_map(Reference::all_of) {
                if !named.contains(&reference) {
                    named.push(reference);
                }
            }
            changed.cursor = answer.next;
            if changed.cursor.is_none() {
                return Ok(named);
            }
        }
    }

    /// Each of `goals`, and how many of the entries that `audience` may see are linked to it. The store counts them,
    /// unless each one has to be looked at to know whether it may be seen.
    async fn with_counts(&self, audience: Whose, goals: Vec<Entry>) -> Result<Vec<Told>, WorkspaceError> {
        let names: Vec<GoalNames> = goals.iter().map(GoalNames::of).collect();
        let sees_all = audience == Whose::Stages || self.visibility().await? == Visibility::Space;
        let counts = if names.is_empty() {
            Vec::new()
        } else if sees_all {
            self.keep_up().await?;
            let store = &self.inner.store;
            store.linked_counts(self.space(), names, self.now()).await?
        } else {
            let mut counts = Vec::with_capacity(names.len());
            for goal in &names {
                counts.push(LinkedCounts::of(&self.visible_linked_to(goal).await?, self.now()));
            }
            counts
        };
        let told = goals.into_iter().zip(counts);
        Ok(told.map(|(entry, linked)| Told { entry, linked }).collect())
    }

    /// Adds a goal or a pending action to a thread. `from` is an observation that it is made from, which becomes
    /// evidence for it.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is wrong; `NotFound` if there is no such observation.
    pub async fn add_goal(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        kind: EntryKind,
        input: GoalInput,
        from: Option<EntryRef>,
    ) -> Result<Written, WorkspaceError> {
        let path = match kind {
            EntryKind::Goal => GOAL_PATH,
            EntryKind::PendingAction => ACTION_PATH,
            _ => {
                let message = format!("{kind} is neither goal nor pending_action");
                return Err(Invalid::new("kind_invalid", "kind", message).into());
            }
        };
        let from = match from {
            Some(from) => {
                let from = self.read_entry(from).await?;
                self.check_entry(&from).await?;
                Some(from)
            }
            None => None,
        };
        // Its texts follow the rules for a todo.
        let item = ItemInput {
            kind: EntryKind::Todo,
            title: Some(input.title).filter(|title| !is_blank(title)),
            body: match &from {
                Some(from) if input.body.is_empty() => from.fields.body.clone(),
                _ => input.body,
            },
            tags: input.tags,
            phase: None,
            progress: None,
        };
        let (mut fields, warnings) = scratchbook::draft(item, self.trust_of(actor))?;
        fields.source = source_of(actor);
        if let Some(key) = input.key {
            if key.trim().is_empty() || key.len() > 256 {
                return Err(Invalid::new("goal_key_invalid", "key", "is empty or longer than 256 bytes").into());
            }
            fields.context = Some(json!({path: key}));
        }
        let (page, page_fields) = scratchbook::page_of(self.space(), thread);
        let now = self.now();
        let id = EntryId::draw(&*self.inner.ids, now);
        let mut changes: Vec<Change> = self.ensured(page, || page_fields).await?.into_iter().collect();
        if let Some(from) = &from {
            fields.trust = fields.trust.min(from.fields.trust);
        }
        changes.push(Change::AddEntry(Box::new(NewEntry { id, page, kind, fields })));
        if let Some(from) = &from {
            for (src, rel, dst) in [
                (from.id, Relation::EvidenceFor, id),
                (id, Relation::DerivedFrom, from.id),
            ] {
                changes.push(Change::AddLink(Link {
                    src: src.to_string(),
                    rel,
                    dst: dst.to_string(),
                }));
            }
        }
        let recorded = self
            .record(
                actor,
                Write {
                    at: Some(now),
                    ..Write::of(changes)
                },
            )
            .await?;
        Ok(Written {
            entry: self.entry_after(id, &recorded.committed).await?,
            conflicts: Vec::new(),
            warnings: recorded.warnings,
            replayed: recorded.committed.replayed,
        }
        .after(warnings))
    }

    /// Updates goals and pending actions from the entries linked to them: the progress of a goal, and the end of a
    /// pending action whose confirmations are resolved. Those are the ones of the thread of `turn`, which are returned,
    /// and those of other threads that entries name which changed since it began.
    pub(super) async fn settle_goals(&self, actor: &Actor, turn: &Turn) -> Result<Vec<GoalState>, WorkspaceError> {
        let mut attempt = 1;
        loop {
            match self.try_to_settle_goals(actor, turn).await {
                // Somebody has changed one of them since it was read.
                Err(WorkspaceError::Store(StoreError::StaleVersion { .. })) if attempt < ATTEMPTS => attempt += 1,
                settled => return settled,
            }
        }
    }

    async fn try_to_settle_goals(&self, actor: &Actor, turn: &Turn) -> Result<Vec<GoalState>, WorkspaceError> {
        let mark = self.mark().await?;
        let thread = Some(&turn.begun.thread);
        let mut goals = self.goals_as(mark, Whose::Stages, thread, false).await?;
        let elsewhere = self.goals_elsewhere(turn, mark).await?;
        let (mut changes, mut put_away) = (Vec::new(), Vec::new());
        for goal in goals.iter().chain(&elsewhere) {
            let entry = &goal.entry;
            let fields = match entry.kind {
                EntryKind::PendingAction => self.settled(goal).await?.unwrap_or_default(),
                _ => match goal.linked.progress().progress {
                    Some(progress) => vec![FieldChange::Progress(Some(progress))],
                    None => Vec::new(),
                },
            };
            if !fields.is_empty() && !entry.is_unchanged_by(&fields) {
                let archives = fields.contains(&FieldChange::Status(Status::Archived));
                let of_its_sort = if archives { &mut put_away } else { &mut changes };
                of_its_sort.push(Change::PatchEntry {
                    entry: entry.id,
                    fields,
                    expected_version: Some(entry.version),
                    base_version: None,
                });
            }
        }
        // The judging actor updates states; archiving is left to the reflector.
        let reflector = Actor {
            role: Role::Reflector,
            ..actor.clone()
        };
        let is_news = !changes.is_empty() || !put_away.is_empty();
        for (actor, changes) in [(actor, changes), (&reflector, put_away)] {
            if !changes.is_empty() {
                self.record(actor, Write::of(changes)).await?;
            }
        }
        if is_news {
            for goal in &mut goals {
                goal.entry = self.read_entry(EntryRef::Id(goal.entry.id)).await?;
            }
        }
        Ok(goals.into_iter().map(Told::state).collect())
    }

    async fn settled(&self, action: &Told) -> Result<Option<Vec<FieldChange>>, WorkspaceError> {
        let policy = self.policy().await?;
        let types = policy.types();
        let confirmations = action.linked.clone().only(|linked: &Linked| {
            linked.kind == EntryKind::Observation
                && types.class_of(linked.type_name.as_deref()) == Class::PendingConfirmation
                && linked.answer_state() != State::Expired
        });
        Ok(settle_action(&action.entry, &confirmations, self.now()))
    }

    /// The entries linked to `goal` that the asker may see, archived or not.
    async fn visible_linked_to(&self, goal: &GoalNames) -> Result<Vec<Entry>, WorkspaceError> {
        let mut linked: Vec<Entry> = Vec::new();
        for query in goal.queries() {
            let found = self.all_entries(None, Whose::AsAsked, &query).await?;
            linked.extend(found.into_iter().filter(|entry| entry.kind != goal.kind));
        }
        // The evidence for a goal also counts as linked to it.
        for link in self.inner.store.links(self.space(), &goal.id.to_string()).await? {
            if link.rel == Relation::EvidenceFor
                && link.dst == goal.id.to_string()
                && let Ok(id) = link.src.parse::<EntryId>()
                && self.is_visible(id).await?
            {
                linked.extend(self.entry_if_there(id).await?);
            }
        }
        linked.sort_by_key(|entry| entry.handle);
        linked.dedup_by_key(|entry| entry.handle);
        Ok(linked)
    }
}

/// All goals and pending actions that are not done.
fn open_goals() -> EntryQuery {
    EntryQuery {
        kinds: vec![EntryKind::Goal, EntryKind::PendingAction],
        status: vec![Status::Open, Status::InProgress, Status::Blocked],
        limit: MAX_LIMIT,
        ..EntryQuery::default()
    }
}
