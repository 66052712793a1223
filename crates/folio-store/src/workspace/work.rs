//! Work that several owners share: what is ready, and how it is claimed, delegated and reported (M7.4.35).

use std::time::Duration;

use folio_memory::entry::Status;
use folio_memory::id::{EntryHandle, EntryRef, Ref};
use folio_memory::lifecycle::{self, Report, is_blocking, is_free_for};
use folio_memory::roles::Operation;
use folio_memory::scratchbook::{ItemInput, short_title};
use folio_memory::view::is_blank;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, FieldChange, Invalid, Link, NewEntry, Owner, Relation, ThreadKey,
};
use serde::Serialize;

use super::book::BookFilter;
use super::observations::Adding;
use super::patch::{Guard, Trying};
use super::{Workspace, WorkspaceError, Written};
use crate::commit::Expected;
use crate::error::{ErrorKind, StoreError};

/// How many pieces of work are read at a time.
const AT_A_TIME: usize = 100;
/// The states of work that somebody can begin or continue.
const TO_DO: [Status; 2] = [Status::Open, Status::InProgress];
/// How many pieces of work one may be made to wait for at once.
const MAX_AFTER: usize = 32;
/// The tag of the note with the result of a piece of work.
const RESULT_TAG: &str = "result";

/// What is ready to be begun, and what waits.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct ReadyWork {
    /// What can be begun now: first what is in progress, then most urgent first.
    pub items: Vec<Entry>,
    /// What would be free but has to wait for other work, and for which. Includes only what was checked until there
    /// were enough items.
    pub waiting: Vec<(Entry, Vec<EntryHandle>)>,
}

/// Work to be delegated.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegation {
    /// What is to be done: new work, or existing work.
    pub what: Delegated,
    /// The owner; anybody if `None`.
    pub to: Option<Owner>,
    /// What has to be done before it.
    pub after: Vec<EntryRef>,
    /// What has to wait for it: the work that it is a part of.
    pub part_of: Option<EntryRef>,
}

/// What is delegated.
#[derive(Debug, Clone, PartialEq)]
pub enum Delegated {
    /// A todo or a task to be added to the scratchbook.
    New(Box<ItemInput>),
    /// An existing item.
    There(EntryRef),
}

/// A report on a piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkReport {
    /// The piece of work.
    pub item: EntryRef,
    /// Its progress.
    pub said: Report,
    /// The result, or why it cannot go on: becomes a note that replies to the work. Empty: no note.
    pub result: String,
    /// What has to be done before it can go on.
    pub after: Vec<EntryRef>,
}

impl Workspace {
    /// Returns up to `limit` pieces of work of the scratchbook of `thread` that `owner` can begin or continue now:
    /// everything that they wait for is done, and nobody else has claimed them. Open and begun work is read in order,
    /// until there is enough.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn ready_work(
        &self,
        thread: &ThreadKey,
        owner: &Owner,
        limit: usize,
    ) -> Result<ReadyWork, WorkspaceError> {
        let mut ready = ReadyWork::default();
        let mut cursor = None;
        loop {
            let (free, next) = self.free_work(thread, &TO_DO, owner, cursor).await?;
            for entry in free {
                if ready.items.len() >= limit {
                    return Ok(ready);
                }
                let before = self.open_blockers_of(&entry).await?;
                if before.is_empty() {
                    ready.items.push(entry);
                } else {
                    ready.waiting.push((entry, before));
                }
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(ready);
            }
        }
    }

    /// A page of the work of the scratchbook of `thread` that has one of `status` and is free for `owner`, whatever it waits
    /// for: first what is in progress, then most urgent first; and where the next page continues.
    async fn free_work(
        &self,
        thread: &ThreadKey,
        status: &[Status],
        owner: &Owner,
        cursor: Option<String>,
    ) -> Result<(Vec<Entry>, Option<String>), WorkspaceError> {
        if cursor.is_none() {
            self.keep_up().await?;
        }
        let filter = BookFilter {
            kinds: vec![EntryKind::Todo, EntryKind::Task],
            status: status.to_vec(),
            limit: AT_A_TIME,
            cursor,
            ..BookFilter::default()
        };
        let now = self.now();
        let work = self.book_items(thread, filter).await?;
        let mut free = work.items;
        free.retain(|entry| is_free_for(entry, owner, now));
        Ok((free, work.next))
    }

    /// Claims a piece of work of the scratchbook of `thread` for `owner`, for as long as `lease` says or until it is
    /// done: the one named, or else the first that is ready and that nobody else claims at the same moment. `None` if
    /// none is ready.
    ///
    /// # Errors
    ///
    /// As [`Workspace::claim`] for the one named; `not_claimable` names what has to be done before.
    pub async fn claim_work(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        item: Option<EntryRef>,
        owner: &Owner,
        lease: Option<Duration>,
    ) -> Result<Option<Written>, WorkspaceError> {
        if let Some(item) = item {
            self.work_of(actor, thread, item).await?;
            let claimed = self.claim(actor, item, owner, lease, Guard::default()).await?;
            return Ok(Some(claimed));
        }
        // Whoever asks again gets what they have, whatever is more urgent by now: nobody holds a second item because an
        // answer was lost.
        if let Some(begun) = self.begun_by(thread, owner).await? {
            match self.try_claim(actor, &begun, owner, lease).await {
                Err(error) if is_gone(&error) => {}
                claimed => return claimed.map(Some),
            }
        }
        loop {
            let (mut was_too_late, mut cursor) = (false, None);
            loop {
                let (free, next) = self.free_work(thread, &TO_DO, owner, cursor).await?;
                for entry in free {
                    if !self.open_blockers_of(&entry).await?.is_empty() {
                        continue;
                    }
                    match self.try_claim(actor, &entry, owner, lease).await {
                        // Somebody else was faster. They do not ask for this one again, so the next may still be free.
                        Err(error) if is_gone(&error) => was_too_late = true,
                        claimed => return claimed.map(Some),
                    }
                }
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            // Each time that it was too late, others got work; what they have finished may have set other work free.
            if !was_too_late {
                return Ok(None);
            }
        }
    }

    /// The first piece of work of `thread` that `owner` has begun and that waits for nothing.
    async fn begun_by(&self, thread: &ThreadKey, owner: &Owner) -> Result<Option<Entry>, WorkspaceError> {
        let mut cursor = None;
        loop {
            let (begun, next) = self.free_work(thread, &[Status::InProgress], owner, cursor).await?;
            for entry in begun.into_iter().filter(|entry| entry.fields.owner == *owner) {
                if self.open_blockers_of(&entry).await?.is_empty() {
                    return Ok(Some(entry));
                }
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(None);
            }
        }
    }

    /// Claims `entry` like [`Workspace::claim`], but does not note that somebody else was faster.
    async fn try_claim(
        &self,
        actor: &Actor,
        entry: &Entry,
        owner: &Owner,
        lease: Option<Duration>,
    ) -> Result<Written, WorkspaceError> {
        let id = Ref::Id(entry.id);
        let expected = [Expected::MayBegin { entry: entry.id }];
        let trying = Trying::to("claim").expecting(&expected);
        let changes = |current: &Entry| Ok((lifecycle::claim(current, owner, lease, self.now())??, Vec::new()));
        let claimed = self.try_patch(actor, id, Guard::default(), trying, &[], changes).await;
        if let Err(error) = &claimed
            && !is_gone(error)
        {
            self.note_failed_patch(actor, trying.verb, id, error).await;
        }
        claimed
    }

    /// Delegates work of the scratchbook of `thread` in the name of `by`: adds it or sets its owner, and links what it
    /// waits for and what waits for it.
    ///
    /// # Errors
    ///
    /// `blocks_itself` if it would end up waiting for itself; `Invalid` names the first field that is wrong; `Taken` if
    /// somebody else has claimed it; `NotFound`.
    pub async fn delegate_work(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        by: &Owner,
        delegation: Delegation,
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let after = self.works_of(actor, thread, &delegation.after).await?;
        let part_of = match delegation.part_of {
            Some(whole) => Some(self.work_of(actor, thread, whole).await?),
            None => None,
        };
        let to = delegation.to.unwrap_or_else(Owner::agent);
        let mut expected = Vec::new();
        if let Some(whole) = &part_of {
            expected.extend(may_wait(whole, &after));
        }
        match delegation.what {
            Delegated::New(input) => {
                let kind = input.kind;
                if !matches!(kind, EntryKind::Todo | EntryKind::Task) {
                    let message = format!("{kind} is neither todo nor task");
                    return Err(Invalid::new("kind_invalid", "kind", message).into());
                }
                let now = self.now();
                let (mut new, page_fields, warnings) = self.item(actor, thread, *input, now)?;
                new.fields.owner = to;
                let adding = Adding {
                    before: self.ensured(new.page, || page_fields).await?.into_iter().collect(),
                    after: order_of(new.id, &after, part_of.as_ref()),
                    at: now,
                    idempotency_key,
                    drafted_under: None,
                    expected,
                };
                Ok(self.add(actor, Box::new(new), adding).await?.after(warnings))
            }
            Delegated::There(item) => {
                let entry = self.work_of(actor, thread, item).await?;
                expected.extend(may_wait(&entry, &after));
                if let Some(whole) = &part_of {
                    expected.extend(may_wait(whole, std::slice::from_ref(&entry)));
                }
                let more = order_of(entry.id, &after, part_of.as_ref());
                let said = (by, Report::HandedTo(to));
                self.record_work_report(actor, &entry, said, (&more, &expected), idempotency_key)
                    .await
            }
        }
    }

    /// Records how far `owner` is with a piece of work, and its result as a note that replies to it, both or nothing.
    /// Returns the work and the note.
    ///
    /// # Errors
    ///
    /// As [`lifecycle::report`]; `blocks_itself` if it would end up waiting for itself; `NotFound`.
    pub async fn report_work(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        owner: &Owner,
        report: WorkReport,
        idempotency_key: Option<String>,
    ) -> Result<(Written, Option<Entry>), WorkspaceError> {
        let entry = self.work_of(actor, thread, report.item).await?;
        let after = self.works_of(actor, thread, &report.after).await?;
        let expected: Vec<_> = may_wait(&entry, &after).into_iter().collect();
        let mut more = order_of(entry.id, &after, None);
        let (mut note_id, mut warnings) = (None, Vec::new());
        let note = result_note(&entry, report.result).map(|input| self.item(actor, thread, input, self.now()));
        if let Some((new, page_fields, of_note)) = note.transpose()?
            && !self.is_answered_by(&entry, &new).await?
        {
            warnings = of_note;
            let answers = Link {
                src: new.id.to_string(),
                rel: Relation::RepliesTo,
                dst: entry.id.to_string(),
            };
            note_id = Some(new.id);
            more.extend(self.ensured(new.page, || page_fields).await?);
            more.extend([Change::AddEntry(Box::new(new)), Change::AddLink(answers)]);
        }
        let written = self
            .record_work_report(actor, &entry, (owner, report.said), (&more, &expected), idempotency_key)
            .await?;
        let note = match note_id {
            Some(id) if !written.replayed => Some(self.read_entry(Ref::Id(id)).await?),
            _ => None,
        };
        Ok((written.after(warnings), note))
    }

    /// Records a report on `entry`, together with the changes `more`, if `expected` holds.
    async fn record_work_report(
        &self,
        actor: &Actor,
        entry: &Entry,
        (owner, said): (&Owner, Report),
        (more, expected): (&[Change], &[Expected]),
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let guard = Guard {
            idempotency_key,
            ..Guard::default()
        };
        let changes = |current: &Entry| {
            let mut changes = lifecycle::report(current, owner, said.clone(), self.now())??;
            if changes.is_empty() && !more.is_empty() {
                // The state is not new, but the changes that come with it are.
                changes.push(FieldChange::Owner(current.fields.owner.clone()));
            }
            Ok((changes, Vec::new()))
        };
        let trying = Trying::to("update").expecting(expected);
        self.patch_under(actor, Ref::Id(entry.id), guard, trying, more, changes)
            .await
    }

    /// The named todo or task, if callers in `thread` may use it.
    async fn work_of(&self, actor: &Actor, thread: &ThreadKey, item: EntryRef) -> Result<Entry, WorkspaceError> {
        let entry = self
            .changeable_entry(actor, thread, item, Operation::SetStatusOfOthers)
            .await?;
        if matches!(entry.kind, EntryKind::Todo | EntryKind::Task) {
            return Ok(entry);
        }
        let message = format!("{} is of kind {}, not a todo or task", entry.handle, entry.kind);
        Err(Invalid::new("kind_invalid", "id", message).into())
    }

    async fn works_of(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        items: &[EntryRef],
    ) -> Result<Vec<Entry>, WorkspaceError> {
        if items.len() > MAX_AFTER {
            let message = format!("{} are more than {MAX_AFTER}", items.len());
            return Err(Invalid::new("arguments_invalid", "after", message).into());
        }
        let mut works = Vec::with_capacity(items.len());
        for item in items {
            works.push(self.work_of(actor, thread, *item).await?);
        }
        Ok(works)
    }

    /// What `entry` has to wait for and is not done.
    async fn open_blockers_of(&self, entry: &Entry) -> Result<Vec<EntryHandle>, WorkspaceError> {
        let now = self.now();
        let mut before = Vec::new();
        for id in self.leading_to(entry.id, Relation::Blocks).await? {
            if id != entry.id
                && let Some(blocker) = self.entry_if_there(id).await?
                && is_blocking(&blocker, now)
            {
                before.push(blocker.handle);
            }
        }
        before.sort();
        Ok(before)
    }

    /// The entries at which the links of `rel` begin that lead to `entry`.
    async fn leading_to(&self, entry: EntryId, rel: Relation) -> Result<Vec<EntryId>, StoreError> {
        let name = entry.to_string();
        let links = self.inner.store.links(self.space(), &name).await?;
        let found = links.into_iter().filter(|link| link.rel == rel && link.dst == name);
        Ok(found.filter_map(|link| link.src.parse().ok()).collect())
    }

    /// Whether an earlier reply to `entry` says the same as `note`, as both are kept.
    async fn is_answered_by(&self, entry: &Entry, note: &NewEntry) -> Result<bool, WorkspaceError> {
        let kept = self.as_read(note, 0).await?.fields;
        for id in self.leading_to(entry.id, Relation::RepliesTo).await? {
            let reply = self.entry_if_there(id).await?.map(|reply| reply.fields);
            if reply.is_some_and(|reply| (&reply.body, &reply.body_ref) == (&kept.body, &kept.body_ref)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The note with `text` that replies to `entry`; `None` if the text is blank.
fn result_note(entry: &Entry, text: String) -> Option<ItemInput> {
    (!is_blank(&text)).then(|| ItemInput {
        kind: EntryKind::Note,
        // What it is the result of; the body has the result.
        title: Some(short_title(&format!("{}: {}", entry.handle, entry.fields.title))),
        body: text,
        tags: vec![RESULT_TAG.to_owned()],
        phase: None,
        progress: None,
    })
}

/// Whether a claim failed because the work is not free any more.
fn is_gone(error: &WorkspaceError) -> bool {
    match error {
        WorkspaceError::Taken(_) => true,
        WorkspaceError::Invalid(invalid) => matches!(&*invalid.code, "not_claimable" | "archived"),
        error => error.kind() == ErrorKind::NotFound,
    }
}

/// What must hold so that `entry` does not come to wait for itself if it waits for `others`.
fn may_wait(entry: &Entry, others: &[Entry]) -> Option<Expected> {
    let others: Vec<EntryId> = others.iter().map(|other| other.id).collect();
    (!others.is_empty()).then_some(Expected::MayWait {
        entry: entry.id,
        others,
    })
}

/// The links that make `entry` wait for each of `after`, and `whole` for `entry`.
fn order_of(entry: EntryId, after: &[Entry], whole: Option<&Entry>) -> Vec<Change> {
    let blocks = |src: EntryId, dst: EntryId| {
        Change::AddLink(Link {
            src: src.to_string(),
            rel: Relation::Blocks,
            dst: dst.to_string(),
        })
    };
    let before = after.iter().map(|other| blocks(other.id, entry));
    before.chain(whole.map(|whole| blocks(entry, whole.id))).collect()
}
