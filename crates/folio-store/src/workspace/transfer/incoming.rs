//! Brings in a space, line by line.

mod entries;
mod long_texts;
mod pages;
mod policy;

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use folio_memory::keeping::ErasedFor;
use folio_memory::roles::Operation;
use folio_memory::transfer::Line;
use folio_memory::{Actor, Change, EntryId, Invalid, Link, PageId, SpaceName, depth_exceeds};
use serde_json::Value;

use super::super::{Workspace, WorkspaceError, Write};
use super::circles::Circles;
use super::lines::Lines;
use super::report::{Fate, Imported};
use crate::prepare::VALUE_DEPTH_MAX;

/// How many changes one commit makes.
const BATCH: usize = 200;
/// Approximate bytes of texts that one commit adds.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;

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

    /// Reports that lines of the file are missing, of which the last one, with the number `last_line`, says how many
    /// there are of each kind.
    fn compare_counts(&mut self, counted: Option<(u64, u64, u64)>, last_line: u64) {
        if counted == Some(self.read) {
            return;
        }
        let message = match (counted, self.read) {
            (None, _) => "the file is incomplete: its end is missing".to_owned(),
            (Some((all_pages, all_entries, all_links)), (pages, entries, links)) => format!(
                "the file is incomplete: of {all_pages} pages, {all_entries} entries and {all_links} links it has {pages}, \
                 {entries} and {links}"
            ),
        };
        let name = format!("line {last_line}");
        self.report.remark(Fate::Refused, &name, "file_incomplete", message);
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
        let from = first_line(&mut lines).await?;
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
                Ok(Line::Page(page)) => self.import_written_page(&mut incoming, name, *page, &from).await?,
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
        incoming.compare_counts(counted, lines.number);
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

/// The space of the file, from its first line.
async fn first_line(lines: &mut Lines) -> Result<SpaceName, WorkspaceError> {
    match lines.next().await? {
        Some(Ok(Line::Space { space, .. })) => Ok(space),
        Some(Err(invalid)) if invalid.code == "transfer_unknown" => Err(invalid.into()),
        _ => {
            let message = "the first line is not that of a file that `folio export` wrote";
            Err(Invalid::new("transfer_malformed", "line 1", message).into())
        }
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
