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

/// Which items of a scratchbook are wanted. An empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BookFilter {
    /// Kinds, of which an item must have one.
    pub kinds: Vec<EntryKind>,
    /// Statuses, of which an item must have one. Empty: everything that is not archived.
    pub status: Vec<Status>,
    /// Tags, all of which an item must have.
    pub tags: Vec<Tag>,
    /// How many items at most; 0 means as many as fit in one answer.
    pub limit: usize,
    /// Where to continue: the `next` of an earlier answer to the same filter.
    pub cursor: Option<String>,
}

/// How many items are shown beside a view.
const MAX_ITEMS_BESIDE_VIEW: usize = 40;

impl BookFilter {
    /// The filter for the items beside a view: the first forty that are live.
    #[must_use]
    pub fn beside_a_view() -> Self {
        let live = Status::ALL.into_iter().filter(|status| status.state() == State::Live);
        Self {
            status: live.collect(),
            limit: MAX_ITEMS_BESIDE_VIEW,
            ..Self::default()
        }
    }
}

/// Where a list of items continues, and the state of memory that its first page was read from.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BookCursor {
    as_of: Seq,
    after: BookPlace,
}

impl BookCursor {
    /// The cursor as handed out, bound to the query `bound`.
    fn to_text(self, bound: &str) -> String {
        format!("{bound}.{}.{}", self.as_of, self.after.to_text())
    }

    /// Reads a cursor that [`BookCursor::to_text`] made for the same query.
    fn parse(text: &str, bound: &str) -> Result<Self, StoreError> {
        let mut parts = text.splitn(3, '.');
        let binding = parts.next();
        let as_of = parts.next().and_then(|seq| seq.parse().ok()).map(Seq);
        let after = parts.next().and_then(BookPlace::parse);
        match (as_of, after) {
            (Some(as_of), Some(after)) if binding == Some(bound) => Ok(Self { as_of, after }),
            (Some(_), Some(_)) => Err(StoreError::other_query(text)),
            _ => Err(StoreError::no_cursor(text)),
        }
    }
}

impl Workspace {
    /// Lists the items of the scratchbook of `thread`, most urgent first: pinned, tasks, todos, notes, done.
    ///
    /// A scratchbook that nobody has written to is empty. Without a limit and a cursor, the answer holds the newest
    /// 1,000 matching items. With either of them all matching items are considered, and if there are more, `next`
    /// continues after the last one. All pages show the scratchbook as it was for the first page: what is written in
    /// between neither moves nor repeats an item (M7.2.15).
    ///
    /// # Errors
    ///
    /// `Invalid` if the cursor belongs to another list; `Unavailable` or `Corrupt`.
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
        let cursor = filter.cursor.as_deref().map(|text| BookCursor::parse(text, &bound));
        let cursor = cursor.transpose()?;
        let wants_items = filter.limit > 0 || cursor.is_some();
        let query = EntryQuery {
            as_of: cursor.map(|cursor| cursor.as_of),
            ..query
        };
        let answer = self.items_that_match(query.clone(), wants_items).await;
        let noted_query = EntryQuery {
            kinds: vec![EntryKind::Note, EntryKind::Todo, EntryKind::Task],
            ..query
        };
        self.note_query(None, &noted_query, &watch, &answer);
        let mut answer = answer?;
        let now = self.now();
        answer.items.sort_by(|a, b| by_urgency(now, a, b));
        if let Some(cursor) = cursor {
            // An item whose lifetime has ended since the first page is not shown on any later page.
            let all = answer.items.len();
            answer.items.retain(|item| item.state(now) != State::Expired);
            answer.total -= (all - answer.items.len()) as u64;
            answer.items.retain(|item| BookPlace::of(now, item) > cursor.after);
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
            answer.next = last.map(|after| BookCursor { as_of, after }.to_text(&bound));
        }
        answer.returned = answer.items.len();
        Ok(answer)
    }

    /// What matches `query`: one answer's worth, or everything.
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

    /// Adds an item to the scratchbook of `thread`, creating the scratchbook with the first one.
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
        // Drafting needs to know which tools the policy declares.
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
            expected: Vec::new(),
        };
        Ok(self.add(actor, Box::new(new), adding).await?.after(warnings))
    }

    /// Drafts an item for the scratchbook of `thread`, written by `actor`, with the page that it needs and the
    /// warnings.
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
    /// `Invalid` names the first field that is wrong; `Conflict` if the item is archived, if the actor may not change
    /// it, or if its version is not the expected one; `NotFound`.
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

    /// Like [`Workspace::update_item`], under a [`Guard`]: the version that the caller had read, a key, a reason.
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

    /// Marks an entry as done, or as resolved if it is knowledge (M7.5.41). Doing so twice has no further effect.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is a step, a block of a log or a summary, which only their writers change; `Conflict` if it is
    /// archived or the actor may not change it; `NotFound`.
    pub async fn complete_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.complete_item_under(actor, item, Guard::default()).await
    }

    /// Like [`Workspace::complete_item`], under a [`Guard`].
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
            let done = current.is_unchanged_by(&changes);
            Ok((if done { Vec::new() } else { changes }, Vec::new()))
        };
        self.patch_under(actor, item, guard, Trying::to("complete"), &[], changes)
            .await
    }

    /// Pins an entry to its page, after those already pinned. A pinned entry keeps its place.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is archived or the actor may not change it; `NotFound`.
    pub async fn pin_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.pin_item_under(actor, item, Guard::default()).await
    }

    /// Like [`Workspace::pin_item`], under a [`Guard`].
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::pin_item`], and `Conflict` if the entry has another version.
    pub async fn pin_item_under(&self, actor: &Actor, item: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let page = self.read_entry(item).await?.page;
        let rank = self.next_pin(page).await?;
        let changes = |current: &Entry| {
            check_not_archived(current)?;
            // No view shows it, pinned or not.
            if current.fields.superseded_by.is_some() {
                let message = format!(
                    "{} was superseded, so no view would show it; pin what took its place",
                    current.handle
                );
                return Err(Invalid::new("superseded", "pinned", message).into());
            }
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

    /// The rank for a new pin on `page`, after all existing ones.
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
        // The seq of the log grows with every pin, so two concurrent pins rarely get the same rank. Entries brought in
        // from a longer log may have higher ranks.
        let head = u32::try_from(self.head().await?.0).unwrap_or(u32::MAX);
        Ok(head.max(last.unwrap_or(0)).saturating_add(1))
    }

    /// Removes a pin. An entry that is not pinned stays unchanged.
    ///
    /// # Errors
    ///
    /// `Conflict` if the actor may not change it; `NotFound`.
    pub async fn unpin_item(&self, actor: &Actor, item: EntryRef) -> Result<Written, WorkspaceError> {
        self.unpin_item_under(actor, item, Guard::default()).await
    }

    /// Like [`Workspace::unpin_item`], under a [`Guard`].
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
