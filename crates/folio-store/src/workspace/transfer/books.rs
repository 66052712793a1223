//! Exports and imports scratchbooks in the format of seed 003.

use std::collections::HashMap;

use folio_memory::roles::Operation;
use folio_memory::scratchbook::colony::{Book, Incoming, Item, Read, has_place, item_of, take_in};
use folio_memory::transfer::without_mark;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryQuery, NewEntry, Order, PageQuery, PageRole, Relation, Status, ThreadKey,
    query, scratchbook,
};

use super::super::{Workspace, WorkspaceError, Write, long_text, redact, source_of};
use super::report::{Fate, Imported};
use crate::commit::Expected;
use crate::error::StoreError;

/// How many items one commit adds.
const BATCH: usize = 200;
/// Approximate bytes of texts that one commit adds.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// An item to be added, with its name in the file.
struct Waiting {
    name: String,
    new: NewEntry,
}

impl Workspace {
    /// Returns the threads that have a scratchbook, in the order in which these were created.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn book_threads(&self) -> Result<Vec<ThreadKey>, WorkspaceError> {
        let query = PageQuery {
            roles: vec![PageRole::Scratchbook],
            ..PageQuery::default()
        };
        let pages = self.all_pages(query).await?;
        Ok(pages
            .into_iter()
            .map(|page| page.fields.thread.unwrap_or_default())
            .collect())
    }

    /// Returns the scratchbook of `thread` in the format of seed 003, and how many of its entries have no place in
    /// that: goals, pending actions and forgotten entries. A scratchbook that nobody has written to is empty.
    ///
    /// # Errors
    ///
    /// `Refused` if the asker may not read the whole space; `Unavailable` or `Corrupt`.
    pub async fn export_book(&self, thread: &ThreadKey) -> Result<(Book, u64), WorkspaceError> {
        self.require_space_read("a scratchbook as a file")?;
        self.book_of(thread).await
    }

    /// The same for internal use, where the asker may read the scratchbook.
    pub(in crate::workspace) async fn book_of(&self, thread: &ThreadKey) -> Result<(Book, u64), WorkspaceError> {
        let (page, _) = scratchbook::page_of(self.space(), thread);
        let mut query = EntryQuery {
            page: Some(page),
            status: Status::ALL.to_vec(),
            include_expired: true,
            include_superseded: true,
            order: Order::Oldest,
            limit: query::MAX_LIMIT,
            ..EntryQuery::default()
        };
        let (mut entries, mut left_out) = (Vec::new(), 0);
        loop {
            let answer = self.read_entries(&query).await?;
            for entry in answer.items {
                if has_place(&entry) {
                    entries.push(self.in_whole(entry).await?);
                } else {
                    left_out += 1;
                }
            }
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok((Book::of(&entries, self.now()), left_out)),
            }
        }
    }

    /// Brings in the scratchbook of `thread` from the text of a file in the format of seed 003. An item whose id
    /// already exists stays as it is. Each item is judged by itself, and its fate is reported. Valid items are written
    /// in batches, so after an interruption, bring in the same file again. With `dry_run` nothing is written.
    ///
    /// # Errors
    ///
    /// `Invalid` if the text is not such a file; `Refused` unless the actor is a person; otherwise as
    /// [`Workspace::record`].
    pub async fn import_book(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        text: &str,
        dry_run: bool,
    ) -> Result<Imported, WorkspaceError> {
        self.authorise(actor, Operation::Import, "a scratchbook", ("transfer", "import"))?;
        let (read, lost_pins) = Book::read(without_mark(text))?;
        let mut report = Imported {
            threads: 1,
            ..Imported::default()
        };
        let named = |name: &str| format!("{thread}: {name}");
        for id in lost_pins {
            let message = "is pinned in the file, but there is no such item";
            report.remark(Fate::Refused, &named(&id), "pin_without_item", message);
        }
        // After the existing pins, like every later pin.
        let first_pin = self.next_pin(scratchbook::page_of(self.space(), thread).0).await?;
        let source = source_of(actor);
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        for Read {
            name,
            item,
            pin,
            unknown,
        } in read
        {
            let name = named(&name);
            let converted = item.and_then(|item| take_in(&item, self.space(), thread, &source, self.now()));
            let Incoming { mut new, changed } = match converted {
                Ok(converted_item) => converted_item,
                Err(invalid) => {
                    report.refuse(&name, &invalid);
                    continue;
                }
            };
            new.fields.pin_rank = pin.map(|place| first_pin.saturating_add(place));
            if let Some(existing) = self.stored_entry_if_there(new.id).await? {
                let by = async |new: &NewEntry, existing: &Entry| {
                    let imported = Entry::added(new.clone(), existing.handle, existing.created_seq, self.now());
                    let whole_entry = self.in_whole(existing.clone()).await?;
                    Ok(items_differ(
                        &item_of(&imported, self.now()),
                        &item_of(&whole_entry, self.now()),
                        new,
                        &whole_entry,
                    ))
                };
                self.compare(&name, new, &existing, &mut report, by).await?;
                continue;
            }
            report.adapted(&name, &changed);
            if !unknown.is_empty() {
                let message = format!("nothing reads {}", unknown.join(", "));
                report.remark(Fate::Changed, &name, "key_unknown", message);
            }
            bytes += new.fields.body.len();
            waiting.push(Waiting { name, new });
            if waiting.len() >= BATCH || bytes >= BATCH_BYTES {
                bytes = 0;
                let batch = std::mem::take(&mut waiting);
                self.add_items(actor, thread, batch, dry_run, &mut report).await?;
            }
        }
        self.add_items(actor, thread, waiting, dry_run, &mut report).await?;
        Ok(report)
    }

    /// Reports whether `new`, as it would be stored, is the same as `existing`, which has its id: `by` returns the
    /// fields that differ.
    pub(super) async fn compare(
        &self,
        name: &str,
        mut new: NewEntry,
        existing: &Entry,
        report: &mut Imported,
        by: impl AsyncFn(&NewEntry, &Entry) -> Result<Vec<&'static str>, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        if existing.fields.erased.is_some() && new.fields.erased.is_none() {
            let message = format!("was forgotten here, as {}", existing.handle);
            report.remark(Fate::Refused, name, "forgotten", message);
            return Ok(());
        }
        if existing.page != new.page || existing.kind != new.kind {
            let message = format!("{} has this id, but is something else", existing.handle);
            report.remark(Fate::Refused, name, "id_taken", message);
            return Ok(());
        }
        redact::clean_new(&mut new, None, self.redaction().await?);
        let fields = by(&new, existing).await?;
        if fields.is_empty() {
            report.present += 1;
        } else {
            let message = format!(
                "{} stays as it is; the file differs in: {}",
                existing.handle,
                fields.join(", ")
            );
            report.remark(Fate::Differs, name, "differs", message);
        }
        Ok(())
    }

    async fn add_items(
        &self,
        actor: &Actor,
        thread: &ThreadKey,
        batch: Vec<Waiting>,
        dry_run: bool,
        report: &mut Imported,
    ) -> Result<(), WorkspaceError> {
        if batch.is_empty() {
            return Ok(());
        }
        let names: HashMap<EntryId, String> = batch
            .iter()
            .map(|waiting| (waiting.new.id, waiting.name.clone()))
            .collect();
        let (page, fields) = scratchbook::page_of(self.space(), thread);
        let page = self.ensured(page, || fields).await?;
        report.pages += u64::from(page.is_some() && !(dry_run && report.pages > 0));
        let items = batch.into_iter().map(|waiting| waiting.new);
        let changes = page.into_iter().chain(items.map(|new| Change::AddEntry(Box::new(new))));
        self.bring_in(actor, changes.collect(), dry_run, &names, report).await
    }

    /// Writes `changes`, except for entries that somebody else brings in meanwhile.
    pub(super) async fn bring_in(
        &self,
        actor: &Actor,
        mut changes: Vec<Change>,
        dry_run: bool,
        names: &HashMap<EntryId, String>,
        report: &mut Imported,
    ) -> Result<(), WorkspaceError> {
        let added = |changes: &[Change]| {
            let is_added = |change: &&Change| matches!(change, Change::AddEntry(_));
            changes.iter().filter(is_added).count() as u64
        };
        if dry_run {
            report.entries += added(&changes);
            return Ok(());
        }
        let mut attempt = 1;
        loop {
            let write = brought_in(changes.clone());
            match self.record(actor, write).await {
                Ok(recorded) => {
                    report.entries += added(&changes);
                    tell_losses(&changes, &recorded.record.changes, names, report);
                    return Ok(());
                }
                Err(WorkspaceError::Store(StoreError::Invalid(message))) if attempt < ATTEMPTS => {
                    attempt += 1;
                    let before = changes.len();
                    let mut left = Vec::with_capacity(before);
                    for change in changes {
                        match &change {
                            Change::AddEntry(new) if self.stored_entry_if_there(new.id).await?.is_some() => {
                                report.present += 1;
                            }
                            _ => left.push(change),
                        }
                    }
                    if left.len() == before {
                        // One of the changes cannot be written, and must not affect the others.
                        let error = StoreError::Invalid(message).into();
                        return self.bring_in_each(actor, left, (error, names), report).await;
                    }
                    changes = left;
                }
                // Somebody else has written the other half of a cycle since the changes were checked.
                Err(error @ WorkspaceError::Invalid(_)) => {
                    return self.bring_in_each(actor, changes, (error, names), report).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes each of `changes`, which were refused together with `refusal`, by itself, and reports those that cannot
    /// be written.
    async fn bring_in_each(
        &self,
        actor: &Actor,
        changes: Vec<Change>,
        (refusal, names): (WorkspaceError, &HashMap<EntryId, String>),
        report: &mut Imported,
    ) -> Result<(), WorkspaceError> {
        let mut refusal = Some(refusal).filter(|_| changes.len() == 1);
        for change in changes {
            let written = match refusal.take() {
                Some(refusal) => Err(refusal),
                None => self.record(actor, brought_in(vec![change.clone()])).await,
            };
            match written {
                Ok(recorded) => {
                    report.entries += u64::from(matches!(change, Change::AddEntry(_)));
                    tell_losses(&[change], &recorded.record.changes, names, report);
                }
                Err(
                    error @ (WorkspaceError::Store(StoreError::Invalid(_) | StoreError::NotFound { .. })
                    | WorkspaceError::Invalid(_)),
                ) => {
                    let code = match &error {
                        WorkspaceError::Invalid(invalid) => invalid.code.clone(),
                        _ => "not_kept".to_owned(),
                    };
                    let name = match &change {
                        Change::AddEntry(new) => named(names, &new.id),
                        Change::EnsurePage(new) => {
                            report.pages -= 1;
                            new.id.to_string()
                        }
                        Change::AddLink(link) => {
                            report.links -= 1;
                            format!("{} {} {}", link.src, link.rel.as_str(), link.dst)
                        }
                        _ => return Err(error),
                    };
                    report.remark(Fate::Refused, &name, &code, error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A write of `changes` of a file. They were checked against what was there when they were read.
pub(super) fn brought_in(changes: Vec<Change>) -> Write {
    let may_close_a_circle = |change: &Change| match change {
        Change::AddEntry(new) => new.fields.superseded_by.is_some(),
        Change::AddLink(link) => matches!(link.rel, Relation::Blocks | Relation::Supersedes),
        _ => false,
    };
    Write {
        reason: Some("brought in from a file".to_owned()),
        keeps_pii: true,
        expected: changes
            .iter()
            .any(may_close_a_circle)
            .then_some(Expected::NoCircle)
            .into_iter()
            .collect(),
        ..Write::of(changes)
    }
}

fn named(names: &HashMap<EntryId, String>, id: &EntryId) -> String {
    names.get(id).cloned().unwrap_or_else(|| id.to_string())
}

/// Reports the entries from which something was redacted between `changes` and what was `written`.
fn tell_losses(changes: &[Change], written: &[Change], names: &HashMap<EntryId, String>, report: &mut Imported) {
    for change in written {
        let Change::AddEntry(new) = change else { continue };
        let original = changes.iter().find_map(|change| match change {
            Change::AddEntry(before) if before.id == new.id => Some(before),
            _ => None,
        });
        if original.is_some_and(|original| has_lost_something(original, new)) {
            let message = "secrets, or personal data that the space does not store, were removed";
            report.remark(Fate::Changed, &named(names, &new.id), "redacted", message);
        }
    }
}

/// The fields in which an imported item differs from the existing one, in the format of the file. The time of the last
/// change does not count.
fn items_differ(imported: &Item, existing_item: &Item, new: &NewEntry, existing: &Entry) -> Vec<&'static str> {
    let pairs = [
        ("title", imported.title == existing_item.title),
        ("body", imported.body == existing_item.body),
        ("status", imported.status == existing_item.status),
        ("tags", imported.tags == existing_item.tags),
        ("phase", imported.phase == existing_item.phase),
        ("progress", imported.progress == existing_item.progress),
        (
            "pin",
            new.fields.pin_rank.is_some() == existing.fields.pin_rank.is_some(),
        ),
    ];
    let different = pairs.into_iter().filter(|(_, is_same)| !is_same);
    different.map(|(name, _)| name).collect()
}

/// How often a batch is retried because others bring in the same items.
const ATTEMPTS: u32 = 8;

/// Whether something was redacted between `before` and `after`.
fn has_lost_something(before: &NewEntry, after: &NewEntry) -> bool {
    let (fields_before, fields_after) = (&before.fields, &after.fields);
    let body_is_same = match &fields_after.body_ref {
        Some(_) if fields_before.body_ref.is_none() => {
            let mut kept = fields_before.clone();
            long_text::shorten(&mut kept);
            kept.body_ref == fields_after.body_ref
        }
        _ => fields_before.body == fields_after.body,
    };
    !body_is_same
        || fields_before.title != fields_after.title
        || fields_before.tags != fields_after.tags
        || fields_before.context != fields_after.context
        || fields_before.metadata != fields_after.metadata
        || fields_before.parts != fields_after.parts
        || fields_before.phase != fields_after.phase
}
