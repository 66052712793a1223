//! A space, read line by line.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Read};

use folio_memory::entry::{BodyRef, Confidence, Tag, check_text};
use folio_memory::evict::LIMIT_TOKENS;
use folio_memory::id::Ref;
use folio_memory::keeping::{ErasedFor, Redaction};
use folio_memory::roles::Operation;
use folio_memory::transfer::{EntryLine, Line, PageLine, PieceLine};
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryId, Invalid, Link, NewEntry, PageFields, PageId, SpaceName, SpacePolicy,
    Status, Trust, page,
};
use tokio::sync::mpsc;

use super::super::record::Cleaned;
use super::super::redact::recall;
use super::super::{Workspace, WorkspaceError, Write, long_text};
use super::difference;
use super::pieces::{Arriving, bytes_of};
use super::report::{Fate, Imported};
use crate::commit::Blob;
use crate::error::StoreError;

/// Changes that one commit makes.
const BATCH: usize = 200;
/// Bytes of texts that one commit adds, about.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the longest line: the longest text, with every character written as a code.
const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Lines, or pieces, that are read ahead of what is written.
const AHEAD: usize = 2;
/// Bytes of the beginning that an entry shows of a text from which something was taken out.
const SHOWN_BYTES: usize = 2 * 1024;

/// How a file is brought in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportOptions {
    /// Nothing is written; only what would become of it is told.
    pub dry_run: bool,
    /// What it says of how far its content may be believed is not: all of it counts as imported.
    pub distrusted: bool,
}

/// Lines with their numbers, from 1, as they are read.
pub(super) struct Lines {
    read: mpsc::Receiver<io::Result<(u64, String)>>,
    /// The number of the last one.
    number: u64,
}

impl Lines {
    /// Reads `source` on a thread where that may take its time.
    fn of(source: impl BufRead + Send + 'static) -> Self {
        let (lines, read) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || read_lines(source, &lines));
        Self { read, number: 0 }
    }

    /// No lines.
    pub(super) fn none() -> Self {
        let (_, read) = mpsc::channel(1);
        Self { read, number: 0 }
    }

    async fn next(&mut self) -> Result<Option<Result<Line, Invalid>>, WorkspaceError> {
        loop {
            let Some(line) = self.read.recv().await else {
                return Ok(None);
            };
            let (number, text) = line.map_err(WorkspaceError::Input)?;
            self.number = number;
            if !text.trim().is_empty() {
                return Ok(Some(Line::parse(&text)));
            }
        }
    }
}

fn read_lines(mut source: impl BufRead, lines: &mpsc::Sender<io::Result<(u64, String)>>) {
    for number in 1.. {
        let mut bytes = Vec::new();
        let read = (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) => return,
            Ok(_) if bytes.len() as u64 == LINE_BYTES_MAX => Err(io::Error::other(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes"
            ))),
            // What is no text is no JSON either, and is told with its place.
            Ok(_) => Ok((number, String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) => Err(error),
        };
        let is_last = line.is_err();
        if lines.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}

/// What was read and is not written yet, and what is known of the file.
pub(super) struct Incoming<'a> {
    actor: &'a Actor,
    options: ImportOptions,
    pub(super) report: Imported,
    changes: Vec<Change>,
    bytes: usize,
    /// The page here for every page of the file that is there, or will be.
    pages: HashMap<PageId, PageId>,
    /// With nothing written, what would be there.
    would_be: HashSet<EntryId>,
    /// Entries whose content was gone.
    tombstones: Vec<(EntryId, ErasedFor)>,
    /// Pages, entries and links that were read.
    read: (u64, u64, u64),
}

impl<'a> Incoming<'a> {
    pub(super) fn new(actor: &'a Actor, options: ImportOptions) -> Self {
        Self {
            actor,
            options,
            report: Imported::default(),
            changes: Vec::new(),
            bytes: 0,
            pages: HashMap::new(),
            would_be: HashSet::new(),
            tombstones: Vec::new(),
            read: (0, 0, 0),
        }
    }
}

impl Workspace {
    /// Brings in what [`Workspace::export_space`] wrote. Entries and pages keep their ids and times, what is there already stays
    /// as it is, and everything goes by the redaction of this space. Into a store with nothing in it handles are as they were, unless
    /// numbers were missing.
    ///
    /// Every line is judged by itself. They are written in batches, so that whoever is interrupted brings the same file in again.
    /// `progress` is told what became of it so far, again and again.
    ///
    /// # Errors
    ///
    /// `Invalid` if the first line is not that of a file of this form; `Input` if it cannot be read; `Refused` if the actor is no
    /// person; otherwise as [`Workspace::record`].
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
        let mut is_whole = false;
        while let Some(line) = lines.next().await? {
            let name = format!("line {}", lines.number);
            match line {
                Err(invalid) => incoming.report.refuse(&name, &invalid),
                Ok(Line::Policy { policy }) => self.import_policy(&mut incoming, *policy).await?,
                Ok(Line::Page(page)) => self.import_page(&mut incoming, *page, &from).await?,
                Ok(Line::Entry(entry)) => {
                    let name = entry.id.to_string();
                    self.import_entry(&mut incoming, name, *entry, &mut lines).await?;
                }
                Ok(Line::Link(link)) => {
                    let name = format!("{} {} {}", link.src, link.rel.as_str(), link.dst);
                    self.import_link(&mut incoming, name, link).await?;
                }
                Ok(Line::End { pages, entries, links }) => {
                    is_whole = incoming.read == (pages, entries, links);
                    break;
                }
                Ok(Line::Piece(_) | Line::Space { .. }) => {
                    let invalid = Invalid::new("line_malformed", "record", "nothing of its kind belongs here");
                    incoming.report.refuse(&name, &invalid);
                }
            }
            self.write_full_batch(&mut incoming, progress).await?;
        }
        self.write_batch(&mut incoming).await?;
        self.erase_again(&mut incoming).await?;
        if !is_whole {
            let message = "the file is not whole: its end is missing, or not all that it counts was read";
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
        if incoming.changes.len() >= BATCH || incoming.bytes >= BATCH_BYTES {
            self.write_batch(incoming).await?;
            progress(&incoming.report);
        }
        Ok(())
    }

    pub(super) async fn write_batch(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        let changes = std::mem::take(&mut incoming.changes);
        incoming.bytes = 0;
        if changes.is_empty() {
            return Ok(());
        }
        let Incoming {
            actor, options, report, ..
        } = incoming;
        self.bring_in(actor, changes, options.dry_run, &HashMap::new(), report)
            .await
    }

    /// Takes over what held there where nobody has set anything here, and otherwise only types that are not known. Less than here is
    /// never taken out of texts because a file says so.
    async fn import_policy(&self, incoming: &mut Incoming<'_>, mut given: SpacePolicy) -> Result<(), WorkspaceError> {
        let report = &mut incoming.report;
        if let Err(invalid) = given.check() {
            report.refuse("policy", &invalid);
            return Ok(());
        }
        let here = self.policy().await?;
        if here.redaction != given.redaction && given.redaction != Redaction::Pii {
            given.redaction = here.redaction;
            let message = format!("redaction stays {}", here.redaction.as_str());
            report.remark(Fate::Changed, "policy", "redaction_kept", message);
        }
        if *here.document() == given {
            report.present += 1;
            return Ok(());
        }
        if here.version() == 0 {
            report.policy = true;
            if !incoming.options.dry_run {
                let reason = Some("brought in from a file".to_owned());
                self.set_policy(incoming.actor, given, Some(0), reason).await?;
            }
            return Ok(());
        }
        let mut rest = given.clone();
        rest.types = here.types.clone();
        let mut differs = rest != *here.document();
        for (name, as_type) in given.types.iter() {
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
        mut line: PageLine,
        from: &SpaceName,
    ) -> Result<(), WorkspaceError> {
        incoming.read.0 += 1;
        let (there, name) = (line.id, line.id.to_string());
        // The page of its kind, of which a space or a thread has one.
        let standing = |space| page::standing(space, line.fields.role, line.fields.thread.as_ref());
        if standing(from).is_some_and(|(id, _)| id == there)
            && let Some((id, _)) = standing(self.space())
        {
            line.id = id;
        }
        if let Some(parent) = line.fields.parent {
            match self.page_here(incoming, parent).await? {
                Some(parent) => line.fields.parent = Some(parent),
                None => {
                    let message = format!("the page {parent} that contains it is not there");
                    incoming.report.remark(Fate::Refused, &name, "parent_missing", message);
                    return Ok(());
                }
            }
        }
        let id = line.id;
        incoming.pages.insert(there, id);
        match self.inner.store.page(self.space(), Ref::Id(id)).await {
            Ok(page) => {
                self.remember(id);
                let plain = |fields: PageFields| PageFields {
                    brought: None,
                    ..fields
                };
                let mut given = folio_memory::Page {
                    fields: plain(line.fields),
                    ..page.clone()
                };
                recall::page(&mut given, self.redaction().await?);
                if given.fields == plain(page.fields) {
                    incoming.report.present += 1;
                } else {
                    let message = format!("{} stays as it is", page.handle);
                    incoming.report.remark(Fate::Differs, &name, "differs", message);
                }
            }
            Err(StoreError::NotFound { .. }) => {
                incoming.report.pages += 1;
                incoming.changes.push(Change::EnsurePage(Box::new(line.into_new())));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The page here that the file calls `page`.
    async fn page_here(&self, incoming: &mut Incoming<'_>, page: PageId) -> Result<Option<PageId>, WorkspaceError> {
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

    /// Takes in an entry, which a report calls `name`.
    pub(super) async fn import_entry(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        line: EntryLine,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        incoming.read.1 += 1;
        let pieces = line.pieces();
        let Some(page) = self.page_here(incoming, line.page).await? else {
            let message = format!("the page {} that it stands on is not there", line.page);
            incoming.report.remark(Fate::Refused, &name, "page_missing", message);
            return skip_pieces(lines, pieces).await;
        };
        let mut new = line.into_new(page);
        if let Err(invalid) = checked(&mut new) {
            incoming.report.refuse(&name, &invalid);
            return skip_pieces(lines, pieces).await;
        }
        if incoming.options.distrusted {
            new.fields.trust = Trust::Imported;
        }
        if let Some(there) = self.if_there(new.id).await? {
            let by = async |new: &NewEntry, there: &Entry| {
                let mut fields = new.fields.clone();
                long_text::shorten(&mut fields);
                Ok(difference::between(&fields, &there.fields))
            };
            self.compare(&name, new, &there, &mut incoming.report, by).await?;
            return skip_pieces(lines, pieces).await;
        }
        incoming.would_be.extend(incoming.options.dry_run.then_some(new.id));
        if let Some(why) = new.fields.erased.take() {
            incoming.tombstones.push((new.id, why));
            new.fields.status = Status::Archived;
        }
        let Some(body) = new.fields.body_ref.clone() else {
            incoming.bytes += new.fields.body.len();
            incoming.changes.push(Change::AddEntry(Box::new(new)));
            return Ok(());
        };
        self.write_batch(incoming).await?;
        if incoming.options.dry_run {
            incoming.report.entries += 1;
            return skip_pieces(lines, pieces).await;
        }
        self.import_long(incoming, new, &body, lines).await
    }

    /// Adds an entry whose text follows in pieces.
    async fn import_long(
        &self,
        incoming: &mut Incoming<'_>,
        mut new: NewEntry,
        body: &BodyRef,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        let name = new.id.to_string();
        let (kept, rest, drafted_under, start) = if body.pieces.is_empty() {
            let bytes = match next_piece(lines, new.id, 1).await? {
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
                for number in 1..=body.pieces.len() as u64 {
                    match next_piece(lines, new.id, number).await? {
                        Ok(bytes) => {
                            if sender.send(bytes).await.is_err() {
                                // Whoever reads has failed, and says why.
                                break;
                            }
                        }
                        Err(invalid) => return Ok(Err(invalid)),
                    }
                }
                drop(sender);
                Ok::<_, WorkspaceError>(Ok(()))
            };
            let taking = self.keep_text(incoming.actor, Arriving::new(arriving), LIMIT_TOKENS);
            let (fed, taken) = tokio::join!(feed, taking);
            if let Err(invalid) = fed? {
                incoming.report.refuse(&name, &invalid);
                return Ok(());
            }
            let stored = taken?;
            let start = stored.sample.head().to_vec();
            (stored.body, stored.rest, stored.drafted_under, start)
        };
        if kept.hash != body.hash {
            new.fields.body = String::from_utf8_lossy(&start[..start.len().min(SHOWN_BYTES)])
                .trim_end_matches('\u{fffd}')
                .to_owned();
            let message = "secrets, or what the space does not keep of persons, were taken out";
            incoming.report.remark(Fate::Changed, &name, "redacted", message);
        }
        new.fields.body_ref = Some(kept);
        let write = Write {
            reason: Some("brought in from a file".to_owned()),
            drafted_under,
            ..Write::of(vec![Change::AddEntry(Box::new(new))])
        };
        self.record_cleaned(incoming.actor, write, None, rest).await?;
        incoming.report.entries += 1;
        Ok(())
    }

    /// Takes in a link, which a report calls `name`.
    pub(super) async fn import_link(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut link: Link,
    ) -> Result<(), WorkspaceError> {
        incoming.read.2 += 1;
        if incoming
            .changes
            .iter()
            .any(|change| !matches!(change, Change::AddLink(_)))
        {
            self.write_batch(incoming).await?;
        }
        for end in [&mut link.src, &mut link.dst] {
            let is_there = if let Ok(page) = end.parse::<PageId>()
                && end.starts_with(PageId::PREFIX)
            {
                let here = self.page_here(incoming, page).await?;
                here.map(|page| *end = page.to_string()).is_some()
            } else if let Ok(entry) = end.parse::<EntryId>()
                && end.starts_with(EntryId::PREFIX)
            {
                incoming.would_be.contains(&entry) || self.if_there(entry).await?.is_some()
            } else {
                false
            };
            if !is_there {
                let message = format!("{end} is not there");
                incoming.report.remark(Fate::Refused, &name, "end_missing", message);
                return Ok(());
            }
        }
        if self.inner.store.links(self.space(), &link.src).await?.contains(&link) {
            incoming.report.present += 1;
        } else {
            incoming.report.links += 1;
            incoming.changes.push(Change::AddLink(link));
        }
        Ok(())
    }

    /// What had no content there has none here: its number is taken, and nothing else is left of it.
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

/// Puts right in `new` what a file can say and an entry cannot hold.
///
/// # Errors
///
/// The first field that is wrong.
fn checked(new: &mut NewEntry) -> Result<(), Invalid> {
    let EntryFields {
        body,
        status,
        tags,
        confidence,
        ..
    } = &mut new.fields;
    check_text(body, "body")?;
    if !status.is_of(new.kind.family()) {
        let message = format!("a {} cannot be {status}", new.kind);
        return Err(Invalid::new("status_invalid", "status", message));
    }
    *tags = Tag::parse_all(tags.iter().map(Tag::as_str))?;
    *confidence = confidence.map(|given| Confidence::clamped(given.value()).0);
    Ok(())
}

/// The bytes of the piece `number` of `of`, which comes next.
async fn next_piece(lines: &mut Lines, of: EntryId, number: u64) -> Result<Result<Vec<u8>, Invalid>, WorkspaceError> {
    Ok(match lines.next().await? {
        Some(Ok(Line::Piece(piece @ PieceLine { .. }))) if piece.of == of && piece.number == number => bytes_of(piece),
        Some(Err(invalid)) => Err(invalid),
        _ => {
            let message = format!("piece {number} of its text does not follow");
            Err(Invalid::new("line_malformed", "record", message))
        }
    })
}

/// Passes over the pieces of an entry that is not taken in.
async fn skip_pieces(lines: &mut Lines, pieces: u64) -> Result<(), WorkspaceError> {
    for _ in 0..pieces {
        // What is wrong with them makes no difference any more.
        let _skipped = lines.next().await?;
    }
    Ok(())
}
