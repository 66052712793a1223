//! The scratchbook of a thread: notes, todos and tasks.

mod items;

use folio_memory::entry::{State, Status};
use folio_memory::id::EntryRef;
use folio_memory::lifecycle;
use folio_memory::query::MAX_LIMIT;
use folio_memory::scratchbook::{self, ItemInput, ItemPatch};
use folio_memory::{
    Actor, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Invalid, NewEntry, PageFields, PageId, Tag, ThreadKey,
    Timestamp, Warning,
};

use super::observations::Adding;
use super::patch::{Guard, Trying};
use super::{Workspace, WorkspaceError, Written, source_of};

/// Which items of a scratchbook are wanted. An empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BookFilter {
    /// Kinds, of which an item must have one.
    pub kinds: Vec<EntryKind>,
    /// Statuses, of which an item must have one. Empty: everything that is not archived.
    pub status: Vec<Status>,
    /// Tags, all of which an item must have.
    pub tags: Vec<Tag>,
    /// How many items at most; 0 means 1,000.
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

/// The rank of a pin that comes after all that people and models pin, whenever they do.
pub(super) const LAST_PIN: u32 = u32::MAX;

impl Workspace {
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
            lifecycle::check_not_archived(current)?;
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
        let ranks = pinned.iter().filter_map(|entry| entry.fields.pin_rank);
        let last = ranks.filter(|rank| *rank < LAST_PIN).max();
        // The seq of the log grows with every pin, so two concurrent pins rarely get the same rank. Entries brought in
        // from a longer log may have higher ranks.
        let head = u32::try_from(self.head().await?.0).unwrap_or(u32::MAX);
        Ok(head.max(last.unwrap_or(0)).saturating_add(1).min(LAST_PIN - 1))
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
