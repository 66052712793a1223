//! Brings in a space, line by line.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use folio_memory::entry::BodyRef;
use folio_memory::evict::LIMIT_TOKENS;
use folio_memory::id::Ref;
use folio_memory::keeping::{ErasedFor, Redaction};
use folio_memory::roles::Operation;
use folio_memory::transfer::{EntryLine, Line, PageLine, check_entry, check_page};
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryId, Invalid, Link, NewEntry, NewPage, PageFields, PageId, PageRole,
    SpaceName, SpacePolicy, Status, Trust, Warning, depth_exceeds, page,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::super::pages::checked_page_title;
use super::super::record::Cleaned;
use super::super::redact::{self, recall};
use super::super::{Workspace, WorkspaceError, Write, long_text};
use super::books::brought_in;
use super::circles::{Circles, Leads};
use super::difference;
use super::lines::{AHEAD, Lines, TEXT_DAMAGED};
use super::pieces::Arriving;
use super::report::{Fate, Imported};
use crate::commit::Blob;
use crate::error::StoreError;
use crate::prepare::VALUE_DEPTH_MAX;

/// How many changes one commit makes.
const BATCH: usize = 200;
/// Approximate bytes of texts that one commit adds.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of the beginning that an entry shows of a text from which something was redacted.
const SHOWN_BYTES: usize = 2 * 1024;

/// How a file is brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Writes nothing, and only reports what would happen.
    pub dry_run: bool,
    /// Ignores what the file says about trust: all of its content counts as imported.
    pub distrusted: bool,
    /// Also brings in what somebody changed in the file since it was written here, unless it was changed here since,
    /// too.
    pub merge: bool,
}

impl ImportOptions {
    /// Whether the file's content may replace existing content: never for a file of a stranger.
    fn merges(self) -> bool {
        self.merge && !self.distrusted
    }
}

/// Where an entry of the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// It was not taken in.
    Nowhere,
    /// It was here before.
    Here,
    /// It was brought in just now, or would be in a dry run.
    New,
}

/// What was read and is not written yet, and what is known about the file.
pub(super) struct Incoming<'a> {
    pub(super) actor: &'a Actor,
    pub(super) options: ImportOptions,
    pub(super) report: Imported,
    changes: Vec<Change>,
    bytes: u64,
    /// The names that the report uses for entries that are not written yet.
    names: HashMap<EntryId, String>,
    /// For every page of the file that is here, or will be: the page here.
    pages: HashMap<PageId, PageId>,
    /// The ids of the pages in the file.
    own_pages: HashSet<PageId>,
    /// The entries in the file.
    pub(super) entries: HashMap<EntryId, Whereabouts>,
    /// Links that were read and are not checked yet, with the names that the report uses.
    pub(super) links: Vec<(String, Link)>,
    /// Links that were checked and are not written yet; in a dry run, all of them.
    pub(super) linked: HashSet<Link>,
    /// Entries that are here but not in the file.
    pub(super) elsewhere: HashSet<EntryId>,
    pub(super) circles: Circles,
    /// Entries with what superseded them, which may follow later in the file, and the names that the report uses.
    pub(super) superseded: Vec<(EntryId, EntryId, String)>,
    /// Entries whose content was erased.
    tombstones: Vec<(EntryId, ErasedFor)>,
    /// How many pages, entries and links were read.
    pub(super) read: (u64, u64, u64),
}

impl<'a> Incoming<'a> {
    pub(super) fn new(actor: &'a Actor, options: ImportOptions) -> Self {
        Self {
            actor,
            options,
            report: Imported::default(),
            changes: Vec::new(),
            bytes: 0,
            names: HashMap::new(),
            pages: HashMap::new(),
            own_pages: HashSet::new(),
            entries: HashMap::new(),
            links: Vec::new(),
            linked: HashSet::new(),
            elsewhere: HashSet::new(),
            circles: Circles::default(),
            superseded: Vec::new(),
            tombstones: Vec::new(),
            read: (0, 0, 0),
        }
    }

    /// Whether anything except links waits to be written.
    pub(super) fn has_other_than_links(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| !matches!(change, Change::AddLink(_)))
    }

    /// Whether the content of `entry` was erased in the other store.
    pub(super) fn is_erased(&self, entry: EntryId) -> bool {
        self.tombstones.iter().any(|(erased, _)| *erased == entry)
    }

    pub(super) fn push(&mut self, change: Change) {
        self.bytes = self.bytes.saturating_add(change.bytes());
        self.changes.push(change);
    }
}

impl Workspace {
    /// Brings in a file that [`Workspace::export_space`] wrote. Entries and pages keep their ids and times, what exists
    /// already stays as it is, and everything is redacted by the policy of this space. In an empty store the handles
    /// are the same as before, unless numbers were missing.
    ///
    /// Each line is judged by itself. Lines are written in batches, so after an interruption, bring in the same file
    /// again. `progress` receives the report so far, repeatedly.
    ///
    /// # Errors
    ///
    /// `Invalid` if the first line is not that of such a file; `Input` if the file cannot be read; `Refused` unless the
    /// actor is a person; otherwise as [`Workspace::record`].
    pub async fn import_space(
        &self,
        actor: &Actor,
        source: impl BufRead + Send + 'static,
        options: ImportOptions,
        progress: &mut (dyn FnMut(&Imported) + Send),
    ) -> Result<Imported, WorkspaceError> {
        self.authorise(actor, Operation::Import, "a space", ("transfer", "import"))?;
        let mut lines = Lines::of(source);
        let from = match lines.next().await? {
            Some(Ok(Line::Space { space, .. })) => space,
            Some(Err(invalid)) if invalid.code == "transfer_unknown" => return Err(invalid.into()),
            _ => {
                let message = "the first line is not that of a file that `folio export` wrote";
                return Err(Invalid::new("transfer_malformed", "line 1", message).into());
            }
        };
        let mut incoming = Incoming::new(actor, options);
        let mut counted = None;
        while let Some(line) = lines.next().await? {
            let place = format!("line {}", lines.number);
            if counted.is_some() {
                let message = "comes after the end of the file, and nothing from here on is read: a file holds one space; import \
                               joined exports one by one";
                incoming.report.remark(Fate::Refused, &place, "file_goes_on", message);
                break;
            }
            let name = match &line {
                Ok(line) => name_of(&place, line),
                Err(_) => place,
            };
            // The links before this line are reported before it, in the order of the file.
            if !matches!(line, Ok(Line::Link(_))) || !lines.unknown.is_empty() {
                self.judge_links(&mut incoming).await?;
            }
            if !lines.unknown.is_empty() {
                let message = format!("nothing reads {}", lines.unknown.join(", "));
                incoming.report.remark(Fate::Changed, &name, "key_unknown", message);
            }
            match line {
                Err(invalid) => incoming.report.refuse(&name, &invalid),
                Ok(Line::Policy { policy }) => self.import_policy(&mut incoming, *policy).await?,
                Ok(Line::Page(page)) => {
                    if let Some(page) = written_here(&mut incoming, &name, *page) {
                        self.import_page(&mut incoming, name, page, &from).await?;
                    }
                }
                Ok(Line::Entry(entry)) => self.import_entry(&mut incoming, name, *entry, &mut lines).await?,
                Ok(Line::Link(link)) => incoming.take_link(name, link),
                Ok(Line::End { pages, entries, links }) => {
                    counted = Some((pages, entries, links));
                }
                Ok(Line::Piece(_) | Line::Space { .. }) => {
                    let invalid = Invalid::new("line_malformed", "record", "a line of this kind does not belong here");
                    incoming.report.refuse(&name, &invalid);
                }
            }
            self.write_full_batch(&mut incoming, progress).await?;
        }
        self.write_batch(&mut incoming).await?;
        self.drop_missing_successors(&mut incoming).await?;
        self.erase_again(&mut incoming).await?;
        if counted != Some(incoming.read) {
            let message = match (counted, incoming.read) {
                (None, _) => "the file is incomplete: its end is missing".to_owned(),
                (Some((all_pages, all_entries, all_links)), (pages, entries, links)) => format!(
                    "the file is incomplete: of {all_pages} pages, {all_entries} entries and {all_links} links it has {pages}, \
                     {entries} and {links}"
                ),
            };
            let name = format!("line {}", lines.number);
            incoming.report.remark(Fate::Refused, &name, "file_incomplete", message);
        }
        progress(&incoming.report);
        Ok(incoming.report)
    }

    /// Writes what was read if it is enough for a commit.
    pub(super) async fn write_full_batch(
        &self,
        incoming: &mut Incoming<'_>,
        progress: &mut (dyn FnMut(&Imported) + Send),
    ) -> Result<(), WorkspaceError> {
        if incoming.changes.len() + incoming.links.len() >= BATCH || incoming.bytes >= BATCH_BYTES {
            self.write_batch(incoming).await?;
            progress(&incoming.report);
        }
        Ok(())
    }

    pub(super) async fn write_batch(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        self.judge_links(incoming).await?;
        self.write_changes(incoming).await
    }

    /// Writes the changes that were checked.
    pub(super) async fn write_changes(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        let changes = std::mem::take(&mut incoming.changes);
        let names = std::mem::take(&mut incoming.names);
        incoming.bytes = 0;
        if !incoming.options.dry_run {
            incoming.linked.clear();
        }
        if changes.is_empty() {
            return Ok(());
        }
        let Incoming {
            actor, options, report, ..
        } = incoming;
        self.bring_in(actor, changes, options.dry_run, &names, report).await
    }

    /// Takes over the policy of the file if none was set here, and otherwise only the types that are not registered
    /// here. A file never weakens the redaction of texts.
    async fn import_policy(
        &self,
        incoming: &mut Incoming<'_>,
        mut new_policy: SpacePolicy,
    ) -> Result<(), WorkspaceError> {
        let report = &mut incoming.report;
        if let Err(invalid) = new_policy.check() {
            report.refuse("policy", &invalid);
            return Ok(());
        }
        let here = self.policy().await?;
        if here.redaction != new_policy.redaction && new_policy.redaction != Redaction::Pii {
            new_policy.redaction = here.redaction;
            let message = format!("redaction stays {}", here.redaction.as_str());
            report.remark(Fate::Changed, "policy", "redaction_kept", message);
        }
        if *here.document() == new_policy {
            report.present += 1;
            return Ok(());
        }
        if here.version() == 0 {
            report.policy = true;
            if !incoming.options.dry_run {
                let reason = Some("brought in from a file".to_owned());
                self.set_policy(incoming.actor, new_policy, Some(0), reason).await?;
            }
            return Ok(());
        }
        let mut rest = new_policy.clone();
        rest.types = here.types.clone();
        let mut differs = rest != *here.document();
        for (name, as_type) in new_policy.types.iter() {
            match here.types.get(name) {
                None => incoming.changes.push(Change::RegisterType {
                    name: name.to_owned(),
                    as_type: as_type.clone(),
                }),
                Some(known) => differs |= known != as_type,
            }
        }
        if differs {
            let message = "the policy of this space stays as it is";
            incoming.report.remark(Fate::Differs, "policy", "differs", message);
        }
        self.write_batch(incoming).await
    }

    pub(super) async fn import_page(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut line: PageLine,
        from: &SpaceName,
    ) -> Result<(), WorkspaceError> {
        incoming.read.0 += 1;
        let original_id = line.id;
        if !incoming.own_pages.insert(original_id) {
            incoming.report.refuse(&name, &twice());
            return Ok(());
        }
        // Standing pages, of which a space or a thread has one of each role, become those of this space.
        let standing = |space| page::standing(space, line.fields.role, line.fields.thread.as_ref());
        if standing(from).is_some_and(|(id, _)| id == original_id)
            && let Some((id, _)) = standing(self.space())
        {
            line.id = id;
        }
        if let Some(parent) = line.fields.parent {
            match self.page_here(incoming, parent).await? {
                Some(parent) => line.fields.parent = Some(parent),
                None => {
                    let message = format!("its parent page {parent} does not exist");
                    incoming.report.remark(Fate::Refused, &name, "parent_missing", message);
                    return Ok(());
                }
            }
        }
        let id = line.id;
        let mut new = line.into_new();
        let warnings = match self.judge_page(&mut new).await? {
            Ok(warnings) => warnings,
            Err(invalid) => {
                incoming.report.refuse(&name, &invalid);
                return Ok(());
            }
        };
        incoming.pages.insert(original_id, id);
        match self.inner.store.page(self.space(), Ref::Id(id)).await {
            Ok(page) => {
                self.remember(id);
                let plain = |fields: PageFields| PageFields {
                    brought: None,
                    ..fields
                };
                let mut imported = folio_memory::Page {
                    fields: plain(new.fields),
                    ..page.clone()
                };
                recall::page(&mut imported, self.redaction().await?);
                if imported.fields == plain(page.fields) {
                    incoming.report.present += 1;
                } else {
                    let message = format!("{} stays as it is", page.handle);
                    incoming.report.remark(Fate::Differs, &name, "differs", message);
                }
            }
            Err(StoreError::NotFound { .. }) => {
                incoming.report.pages += 1;
                incoming.report.adapted(&name, &warnings);
                incoming.push(Change::EnsurePage(Box::new(new)));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Checks that `new` could be written here.
    async fn judge_page(&self, new: &mut NewPage) -> Result<Result<Vec<Warning>, Invalid>, WorkspaceError> {
        let warnings = match check_page(new, self.now()) {
            Ok(warnings) => warnings,
            Err(invalid) => return Ok(Err(invalid)),
        };
        if let Err(invalid) = check_depths([("props", &new.fields.props)]) {
            return Ok(Err(invalid));
        }
        let as_written = [Change::EnsurePage(Box::new(new.clone()))];
        let refused = redact::refuse_secret_threads(&as_written, self.redaction().await?);
        Ok(refused.map(|()| warnings))
    }

    /// The page here that corresponds to `page` of the file.
    pub(super) async fn page_here(
        &self,
        incoming: &mut Incoming<'_>,
        page: PageId,
    ) -> Result<Option<PageId>, WorkspaceError> {
        if let Some(known) = incoming.pages.get(&page) {
            return Ok(Some(*known));
        }
        match self.inner.store.page(self.space(), Ref::Id(page)).await {
            Ok(_) => {
                incoming.pages.insert(page, page);
                Ok(Some(page))
            }
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in an entry, which the report calls `name`.
    pub(super) async fn import_entry(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        line: EntryLine,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        incoming.read.1 += 1;
        let (id, as_of) = (line.id, (line.version, line.updated_at));
        let text = line.fields.body_ref.clone();
        let text = text.as_ref();
        if incoming.entries.contains_key(&id) {
            incoming.report.refuse(&name, &twice());
            return lines.skip_text(id, text).await;
        }
        incoming.entries.insert(id, Whereabouts::Nowhere);
        let Some(page) = self.page_here(incoming, line.page).await? else {
            let message = format!("its page {} does not exist", line.page);
            incoming.report.remark(Fate::Refused, &name, "page_missing", message);
            return lines.skip_text(id, text).await;
        };
        let mut new = line.into_new(page);
        let existing = self.stored_entry_if_there(id).await?;
        let warnings = match self.judge_entry(incoming, &name, &mut new, existing.as_ref()).await? {
            Ok(warnings) => warnings,
            Err(invalid) => {
                incoming.report.refuse(&name, &invalid);
                return lines.skip_text(id, text).await;
            }
        };
        if incoming.options.distrusted {
            new.fields.trust = Trust::Imported;
        }
        if let Some(existing) = existing {
            incoming.entries.insert(id, Whereabouts::Here);
            if let Err(invalid) = lines.check_text(id, text).await?
                && invalid.code == TEXT_DAMAGED
                && let Some(body) = &mut new.fields.body_ref
            {
                // The text is not the one that the file claims.
                body.hash.clear();
            }
            if let Some(why) = new.fields.erased
                && is_left_empty(&new, &existing)
            {
                incoming.tombstones.push((id, why));
                incoming.report.present += 1;
                return Ok(());
            }
            if incoming.options.merges() && self.merge(incoming, &name, as_of, &new, &existing).await? {
                return Ok(());
            }
            let by = async |new: &NewEntry, existing: &Entry| {
                let mut fields = new.fields.clone();
                long_text::shorten(&mut fields);
                Ok(difference::between(&fields, &existing.fields))
            };
            return self.compare(&name, new, &existing, &mut incoming.report, by).await;
        }
        incoming.report.adapted(&name, &warnings);
        if let Some(why) = new.fields.erased.take() {
            incoming.tombstones.push((id, why));
            new.fields.status = Status::Archived;
        }
        let Some(body) = new.fields.body_ref.clone() else {
            incoming.entries.insert(id, Whereabouts::New);
            incoming.names.insert(id, name);
            incoming.push(Change::AddEntry(Box::new(new)));
            return Ok(());
        };
        self.write_batch(incoming).await?;
        if incoming.options.dry_run {
            match lines.check_text(id, text).await? {
                Ok(()) => {
                    incoming.report.entries += 1;
                    incoming.entries.insert(id, Whereabouts::New);
                }
                Err(invalid) => incoming.report.refuse(&name, &invalid),
            }
            return Ok(());
        }
        self.import_long(incoming, name, new, &body, lines).await
    }

    /// Checks that `new` could be written here, where it may exist as `existing`, and brings it into the form that
    /// writing would give it. Returns the corrections.
    async fn judge_entry(
        &self,
        incoming: &mut Incoming<'_>,
        name: &str,
        new: &mut NewEntry,
        existing: Option<&Entry>,
    ) -> Result<Result<Vec<Warning>, Invalid>, WorkspaceError> {
        let EntryFields {
            parts,
            metadata,
            claimed_source,
            ..
        } = &new.fields;
        let values = [
            ("parts", parts),
            ("metadata", metadata),
            ("claimed_source", claimed_source),
        ];
        let policy = self.policy_as_known().await?;
        let checked = check_depths(values).and_then(|()| check_entry(new, policy.types(), self.now()));
        if checked.is_ok()
            && let Some(by) = new.fields.superseded_by
        {
            let is_so_here = existing.is_some_and(|existing| existing.fields.superseded_by == Some(by));
            if !is_so_here && self.leads_back(incoming, by, new.id).await? {
                let message = format!("{by} superseded it, and it superseded {by}");
                return Ok(Err(Invalid::new("supersede_cycle", "superseded_by", message)));
            }
            incoming.circles.successors.add(new.id, by);
            incoming.superseded.push((new.id, by, name.to_owned()));
        }
        Ok(checked)
    }

    /// Whether `by` is `entry`, or its successors lead there.
    async fn leads_back(
        &self,
        incoming: &mut Incoming<'_>,
        by: EntryId,
        entry: EntryId,
    ) -> Result<bool, WorkspaceError> {
        let mut from = by;
        loop {
            match incoming.circles.successors.lead(from, entry) {
                Leads::There(leads_there) => return Ok(leads_there),
                Leads::Ask(last) => {
                    let is_new = incoming.entries.get(&last) == Some(&Whereabouts::New);
                    let here = if is_new {
                        None
                    } else {
                        self.stored_entry_if_there(last).await?
                    };
                    let by = here.and_then(|here| here.fields.superseded_by);
                    incoming.circles.successors.learn(last, by);
                    from = last;
                }
            }
        }
    }

    /// Adds an entry whose text follows in pieces.
    async fn import_long(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut new: NewEntry,
        body: &BodyRef,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        let id = new.id;
        let (kept, rest, drafted_under, start) = if body.pieces.is_empty() {
            let bytes = match lines.next_bytes(id, 1, &body.hash).await? {
                Ok(bytes) => bytes,
                Err(invalid) => {
                    incoming.report.refuse(&name, &invalid);
                    return Ok(());
                }
            };
            let policy = self.policy().await?;
            let blob = Blob::new(recall::bytes(bytes, policy.redaction));
            let kept = BodyRef {
                hash: blob.hash().0.clone(),
                bytes: blob.bytes().len() as u64,
                pieces: Vec::new(),
            };
            let start = blob.bytes()[..blob.bytes().len().min(SHOWN_BYTES)].to_vec();
            let pii = new.fields.pii.clone();
            let rest = Cleaned { blobs: vec![blob], pii };
            (kept, rest, Some(policy.version()), start)
        } else {
            let (sender, arriving) = mpsc::channel(AHEAD);
            let feed = async {
                for (number, piece) in (1..).zip(&body.pieces) {
                    match lines.next_bytes(id, number, &piece.hash).await? {
                        Ok(bytes) => {
                            if sender.send(bytes).await.is_err() {
                                // The receiver has failed, and reports why.
                                break;
                            }
                        }
                        Err(invalid) => {
                            lines.skip_behind(id, number, body, &invalid).await?;
                            return Ok(Err(invalid));
                        }
                    }
                }
                drop(sender);
                Ok::<_, WorkspaceError>(Ok(()))
            };
            let taking = self.keep_text(incoming.actor, Arriving::new(arriving), LIMIT_TOKENS);
            let (feed_result, stored_result) = tokio::join!(feed, taking);
            if let Err(invalid) = feed_result? {
                incoming.report.refuse(&name, &invalid);
                return Ok(());
            }
            let stored = stored_result?;
            let start = stored.sample.head().to_vec();
            (stored.body, stored.rest, stored.drafted_under, start)
        };
        if kept.hash != body.hash {
            new.fields.body = String::from_utf8_lossy(&start[..start.len().min(SHOWN_BYTES)])
                .trim_end_matches('\u{fffd}')
                .to_owned();
            let message = "secrets, or personal data that the space does not store, were removed";
            incoming.report.remark(Fate::Changed, &name, "redacted", message);
        }
        new.fields.body_ref = Some(kept);
        let write = Write {
            drafted_under,
            ..brought_in(vec![Change::AddEntry(Box::new(new))])
        };
        match self.record_cleaned(incoming.actor, write, None, rest).await {
            Ok(_) => {
                incoming.report.entries += 1;
                incoming.entries.insert(id, Whereabouts::New);
            }
            // Somebody else brings in the same file at this moment.
            Err(WorkspaceError::Store(StoreError::Invalid(_))) if self.stored_entry_if_there(id).await?.is_some() => {
                incoming.report.present += 1;
                incoming.entries.insert(id, Whereabouts::Here);
            }
            Err(WorkspaceError::Invalid(invalid)) => incoming.report.refuse(&name, &invalid),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Erases again what was erased in the other store: its number is taken, and nothing else of it remains.
    async fn erase_again(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        if incoming.options.dry_run {
            return Ok(());
        }
        for batch in incoming.tombstones.chunks(BATCH) {
            let erase = |(entry, why): &(EntryId, ErasedFor)| Change::EraseEntry {
                entry: *entry,
                why: *why,
                expected_version: None,
            };
            let write = Write {
                reason: Some("was forgotten where it was brought from".to_owned()),
                ..Write::of(batch.iter().map(erase).collect())
            };
            self.record(incoming.actor, write).await?;
        }
        Ok(())
    }
}

/// The name that the report uses for `line`, which is at `place`.
fn name_of(place: &str, line: &Line) -> String {
    match line {
        Line::Page(page) => format!("{place}: {}", page.id),
        Line::Entry(entry) => format!("{place}: {}", entry.id),
        Line::Link(Link { src, rel, dst }) => format!("{place}: {src} {} {dst}", rel.as_str()),
        _ => place.to_owned(),
    }
}

/// Whether `existing` is what an interrupted import left of `new`, whose content was erased: added, and not yet erased
/// again.
fn is_left_empty(new: &NewEntry, existing: &Entry) -> bool {
    let mut expected = new.fields.clone();
    expected.status = Status::Archived;
    let is_same = (existing.page, existing.kind) == (new.page, new.kind)
        && difference::between(&expected, &existing.fields).is_empty();
    is_same && existing.fields.erased.is_none()
}

/// Returns `page` with its title in the form that a new page has here. Pages of runs and standing pages keep their
/// titles.
fn written_here(incoming: &mut Incoming<'_>, name: &str, mut page: PageLine) -> Option<PageLine> {
    if page.fields.role == PageRole::Note && page.fields.run.is_none() {
        match checked_page_title(&page.fields.title) {
            Ok(title) => page.fields.title = title,
            Err(invalid) => {
                incoming.read.0 += 1;
                incoming.report.refuse(name, &invalid);
                return None;
            }
        }
    }
    Some(page)
}

fn twice() -> Invalid {
    Invalid::new("item_twice", "id", "is there twice; the first one is taken")
}

/// Checks that none of `values`, each with the name of its field, is nested more deeply than can be written.
fn check_depths<'v>(values: impl IntoIterator<Item = (&'static str, &'v Option<Value>)>) -> Result<(), Invalid> {
    for (field, value) in values {
        if value
            .as_ref()
            .is_some_and(|value| depth_exceeds(value, VALUE_DEPTH_MAX))
        {
            let message = format!("is deeper than {VALUE_DEPTH_MAX} levels");
            return Err(Invalid::new("value_too_deep", field, message));
        }
    }
    Ok(())
}
