//! The scratchbook of a thread: notes, todos and tasks.

use folio_memory::entry::{State, Status};
use folio_memory::id::EntryRef;
use folio_memory::lifecycle;
use folio_memory::query::MAX_LIMIT;
use folio_memory::scratchbook::{self, BookPlace, ItemInput, ItemPatch, by_urgency};
use folio_memory::{
    Actor, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Invalid, ListAnswer, NewEntry, PageFields, PageId, Seq,
    Tag, ThreadKey, Timestamp, Warning,
};

use super::notes::Stopwatch;
use super::observations::Adding;
use super::patch::{Guard, Trying};
use super::{Workspace, WorkspaceError, Written, source_of};
use crate::cursor;
use crate::error::StoreError;

/// Which items of a book are wanted. An empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BookFilter {
    /// Of one of these kinds.
    pub kinds: Vec<EntryKind>,
    /// In one of these statuses. Empty: everything that is not archived.
    pub status: Vec<Status>,
    /// With all of these tags.
    pub tags: Vec<Tag>,
    /// How many at most; 0 is as many as one answer gives.
    pub limit: usize,
    /// Where to go on: what `next` of an answer to the same filter was.
    pub cursor: Option<String>,
}

/// Items that stand beside a view.
const BESIDE_A_VIEW: usize = 40;

impl BookFilter {
    /// What stands beside a view: the first forty of what is live.
    #[must_use]
    pub fn beside_a_view() -> Self {
        let live = Status::ALL.into_iter().filter(|status| status.state() == State::Live);
        Self {
            status: live.collect(),
            limit: BESIDE_A_VIEW,
            ..Self::default()
        }
    }
}

/// Where a list of items goes on, and the state of memory that its first page was given from.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Going {
    as_of: Seq,
    after: BookPlace,
}

impl Going {
    /// As it is handed out with a list that is bound like this.
    fn to_text(self, bound: &str) -> String {
        format!("{bound}.{}.{}", self.as_of, self.after.to_text())
    }

    /// Reads what was handed out with it.
    fn parse(text: &str, bound: &str) -> Result<Self, StoreError> {
        let mut parts = text.splitn(3, '.');
        let of = parts.next();
        let as_of = parts.next().and_then(|seq| seq.parse().ok()).map(Seq);
        let after = parts.next().and_then(BookPlace::parse);
        match (as_of, after) {
            (Some(as_of), Some(after)) if of == Some(bound) => Ok(Self { as_of, after }),
            (Some(_), Some(_)) => Err(StoreError::Invalid(format!(
                "the cursor {text:?} belongs to another query"
            ))),
            _ => Err(StoreError::no_cursor(text)),
        }
    }
}

impl Workspace {
    /// The items of the scratchbook of `thread`, most urgent first: pinned, tasks, todos, notes, done.
    ///
    /// A book that nobody has written to is empty. Without a limit, and without a place to go on from, it is the newest 1,000 items that match; with
    /// one of them, all that match are looked at, and where there are more, `next` goes on after the last. All pages are of the book as it
    /// stood at the first one: what is written in between neither moves nor repeats an item (M7.2.15).
    ///
    /// # Errors
    ///
    /// `Invalid` if the cursor is of another list; `Unavailable` or `Corrupt`.
    pub async fn book_items(
        &self,
        thread: &ThreadKey,
        filter: BookFilter,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let (page, _) = scratchbook::page_of(self.space(), thread);
        let watch = Stopwatch::start();
        let query = EntryQuery {
            page: Some(page),
            kinds: filter.kinds,
            status: filter.status,
            tags: filter.tags,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let bound = cursor::binding(self.space(), &query)?;
        let going = filter.cursor.as_deref().map(|text| Going::parse(text, &bound));
        let going = going.transpose()?;
        let goes_on = filter.limit > 0 || going.is_some();
        let query = EntryQuery {
            as_of: going.map(|going| going.as_of),
            ..query
        };
        let answer = self.items_that_match(query.clone(), goes_on).await;
        let asked = EntryQuery {
            kinds: vec![EntryKind::Note, EntryKind::Todo, EntryKind::Task],
            ..query
        };
        self.note_query(None, &asked, &watch, &answer);
        let mut answer = answer?;
        let now = self.now();
        answer.items.sort_by(|a, b| by_urgency(now, a, b));
        if let Some(going) = going {
            // What stood in the book then and has ended since is shown by no page of it.
            let all = answer.items.len();
            answer.items.retain(|item| item.state(now) != State::Expired);
            answer.total -= (all - answer.items.len()) as u64;
            answer.items.retain(|item| BookPlace::of(now, item) > going.after);
        }
        let limit = match filter.limit {
            0 => MAX_LIMIT as usize,
            limit => limit,
        };
        answer.next = None;
        if answer.items.len() > limit {
            answer.items.truncate(limit);
            let as_of = answer.as_of;
            let last = answer.items.last().map(|item| BookPlace::of(now, item));
            answer.next = last.map(|after| Going { as_of, after }.to_text(&bound));
        }
        answer.returned = answer.items.len();
        Ok(answer)
    }

    /// What matches `query`: one answer, or all of it.
    async fn items_that_match(&self, mut query: EntryQuery, all: bool) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let mut answer = self.visible_entries(&query).await?;
        while all && let Some(next) = answer.next.take() {
            query.cursor = Some(next);
            let more = self.visible_entries(&query).await?;
            answer.items.extend(more.items);
            answer.next = more.next;
        }
        Ok(answer)
    }

    /// Adds an item to the scratchbook of `thread`, which begins to exist with it.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is wrong; otherwise as [`Workspace::record`].
    pub async fn add_item(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        input: ItemInput,
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let added = self.try_add_item(actor, thread, input, idempotency_key).await;
        added.inspect_err(|error| self.note_failed_add(actor, EntryKind::Note, error))
    }

    async fn try_add_item(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        input: ItemInput,
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        // What is declared of a tool is known by then.
        self.policy_as_known().await?;
        let now = self.now();
        let (new, page_fields, warnings) = self.item(actor, thread, input, now)?;
        let page = self.ensured(new.page, || page_fields).await?;
        let adding = Adding {
            before: page.into_iter().collect(),
            after: Vec::new(),
            at: now,
            idempotency_key,
            drafted_under: None,
        };
        Ok(self.add(actor, Box::new(new), adding).await?.after(warnings))
    }

    /// An item to be of the scratchbook of `thread`, written by `actor`, the page that it needs, and what was put right.
    pub(super) fn item(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        input: ItemInput,
        now: Timestamp,
    ) -> Result<(NewEntry, PageFields, Vec<Warning>), Invalid> {
        let kind = input.kind;
        let (mut fields, warnings) = scratchbook::draft(input, self.trust_of(actor))?;
        fields.source = source_of(actor);
        let (page, page_fields) = scratchbook::page_of(self.space(), thread);
        let id = EntryId::draw(&*self.inner.ids, now);
        Ok((NewEntry { id, page, kind, fields }, page_fields, warnings))
    }

    /// Changes an item. Without `expected_version` the last writer of a field wins.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is wrong; `Conflict` if it is archived, not the actor's
    /// to change, or at another version than expected; `NotFound`.
    pub async fn update_item(
        &self,
        actor: &Actor,
        item: EntryRef,
        patch: ItemPatch,
        expected_version: Option<u32>,
    ) -> Result<Written, WorkspaceError> {
        self.update_item_under(actor, item, patch, expected_version.into())
            .await
    }

    /// The same under a [`Guard`]: with the version that the caller had read, a key, a reason.
    ///
    /// # Errors
    ///
    /// As [`Workspace::update_item`].
    pub async fn update_item_under(
        &self,
        actor: &Actor,
        item: EntryRef,
        patch: ItemPatch,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| {
            check_item(current)?;
            Ok(scratchbook::patch(current, patch.clone())?)
        };
        self.patch_under(actor, item, guard, Trying::to_update(), &[], changes)
            .await
    }

    /// Marks an entry as done, or as resolved if it is knowledge (M7.5.41). Doing it twice is doing
    /// it once.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is a step, a block of a log or a summary, which only what wrote them changes;
    /// `Conflict` if it is archived or not the actor's to change; `NotFound`.
    pub async fn complete_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.complete_item_under(actor, item, Guard::default()).await
    }

    /// The same under conditions.
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::complete_item`], and `Conflict` if the entry has another version.
    pub async fn complete_item_under(
        &self,
        actor: &Actor,
        item: EntryRef,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| {
            check_not_archived(current)?;
            check_can_be_done(current)?;
            let changes = scratchbook::complete(current);
            let done = current.already_has(&changes);
            Ok((if done { Vec::new() } else { changes }, Vec::new()))
        };
        self.patch_under(actor, item, guard, Trying::to("complete"), &[], changes)
            .await
    }

    /// Pins an entry to its page, after those that are pinned already. A pinned one stays where it is.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is archived or not the actor's to change; `NotFound`.
    pub async fn pin_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.pin_item_under(actor, item, Guard::default()).await
    }

    /// The same under conditions.
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::pin_item`], and `Conflict` if the entry has another version.
    pub async fn pin_item_under(&self, actor: &Actor, item: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let page = self.read_entry(item).await?.page;
        let rank = self.next_pin(page).await?;
        let changes = |current: &Entry| {
            check_not_archived(current)?;
            let change = current
                .fields
                .pin_rank
                .is_none()
                .then_some(FieldChange::PinRank(Some(rank)));
            Ok((change.into_iter().collect(), Vec::new()))
        };
        self.patch_under(actor, item, guard, Trying::to("pin"), &[], changes)
            .await
    }

    /// The rank of a pin on `page` that comes after all that are there.
    pub(super) async fn next_pin(&self, page: PageId) -> Result<u32, WorkspaceError> {
        let query = EntryQuery {
            page: Some(page),
            pinned: Some(true),
            status: Status::ALL.to_vec(),
            include_superseded: true,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let pinned = self.read_entries(&query).await?.items;
        let last = pinned.iter().filter_map(|entry| entry.fields.pin_rank).max();
        // The log's number grows with every pin, so that two who pin at the same time seldom give the same rank; what was
        // brought in from a longer log may have higher ones.
        let head = u32::try_from(self.head().await?.0).unwrap_or(u32::MAX);
        Ok(head.max(last.unwrap_or(0)).saturating_add(1))
    }

    /// Takes a pin away. What is not pinned stays as it is.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not the actor's to change; `NotFound`.
    pub async fn unpin_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.unpin_item_under(actor, item, Guard::default()).await
    }

    /// The same under conditions.
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::unpin_item`], and `Conflict` if the entry has another version.
    pub async fn unpin_item_under(
        &self,
        actor: &Actor,
        item: EntryRef,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| Ok((lifecycle::unpin(current), Vec::new()));
        self.patch_under(actor, item, guard, Trying::to("unpin"), &[], changes)
            .await
    }
}

fn check_item(entry: &Entry) -> Result<(), Invalid> {
    if entry.kind.is_item() {
        return Ok(());
    }
    let message = format!(
        "{} is of kind {}; this is for notes, todos and tasks",
        entry.handle, entry.kind
    );
    Err(Invalid::new("kind_invalid", "kind", message))
}

fn check_can_be_done(entry: &Entry) -> Result<(), Invalid> {
    if !matches!(entry.kind, EntryKind::Step | EntryKind::Log | EntryKind::Summary) {
        return Ok(());
    }
    let message = format!(
        "{} is of kind {}; this is for observations, notes, todos, tasks, goals and pending actions",
        entry.handle, entry.kind
    );
    Err(Invalid::new("kind_invalid", "kind", message))
}

fn check_not_archived(entry: &Entry) -> Result<(), Invalid> {
    if entry.fields.status == Status::Archived {
        let message = format!("{} is archived, which is final", entry.handle);
        return Err(Invalid::new("archived", "status", message));
    }
    Ok(())
}
