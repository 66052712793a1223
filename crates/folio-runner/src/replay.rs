//! Replays a run from its first event and compares its pages with the journal.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use folio_engine::run::RunSummary;
use folio_engine::{Run, projection};
use folio_memory::canonical::canonical;
use folio_memory::entry::{EntryFields, Status, preview_of};
use folio_memory::id::Ref;
use folio_memory::{Change, EntryId, FieldChange, PageId, RunId};
use folio_store::StoreError;
use folio_store::workspace::WorkspaceError;
use serde::Serialize;
use serde_json::Value;

use crate::error::RunnerError;
use crate::journal::JournalReader;
use crate::runner::Runner;

/// The result of replaying a run from its first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// How many events were folded.
    pub events: usize,
    /// How many pages were compared.
    pub pages: usize,
    /// How many entries were compared.
    pub entries: usize,
    /// What differs from the journal, one line each.
    pub differences: Vec<String>,
    /// Whether the run went on during every comparison. The differences may then come from changes made in the
    /// meantime.
    pub goes_on: bool,
}

/// How often differences are compared again after reading what was added to the journal in the meantime.
const MAX_RECHECKS: u32 = 16;

/// An entry as the journal describes it. Texts are kept only as far as needed to tell them apart, since a run has as
/// many entries as events.
struct Expected {
    title: Box<str>,
    /// Hash of the text. A long text also keeps its `beginning`.
    body: u64,
    beginning: Option<Box<str>>,
    status: Status,
    parts: u64,
}

impl Expected {
    fn of(fields: &EntryFields) -> Self {
        Self {
            title: fields.title.as_str().into(),
            body: hash_of(&fields.body),
            beginning: preview_of(&fields.body).map(Box::from),
            status: fields.status,
            parts: hash_of_parts(fields.parts.as_ref()),
        }
    }

    /// The parts of an entry that differ from what was written. An archived status does not count, since people may
    /// archive an entry afterwards.
    fn differing(&self, kept: &EntryFields) -> Vec<&'static str> {
        let is_prefix = |text: &str| text.starts_with(&*kept.body);
        let is_beginning = kept.body_ref.is_some() && self.beginning.as_deref().is_some_and(is_prefix);
        let mut differences = Vec::new();
        if *self.title != *kept.title {
            differences.push("title");
        }
        if self.body != hash_of(&kept.body) && !is_beginning {
            differences.push("text");
        }
        if self.status != kept.status && kept.status != Status::Archived {
            differences.push("status");
        }
        if self.parts != hash_of_parts(kept.parts.as_ref()) {
            differences.push("list of parts");
        }
        differences
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn hash_of_parts(parts: Option<&Value>) -> u64 {
    parts.map_or(0, |parts| hash_of(&canonical(parts.clone()).to_string()))
}

impl Runner {
    /// Folds the journal of a run from its first event, and compares the result with the stored pages and row. Content
    /// that was erased since does not count as a difference, nor does what was added during the comparison.
    ///
    /// # Errors
    ///
    /// `Store`; `Journal` if it cannot be folded.
    pub async fn replay(&self, id: RunId) -> Result<Replayed, RunnerError> {
        let mut folded = ReplayedJournal::of(self, id);
        folded.read_to_end().await?;
        let (events, pages, entries) = (folded.events, folded.pages.len(), folded.entries.len());
        let first = folded.find_differences(None).await?;
        let (differing, goes_on) = folded.recheck_differences(first).await?;
        Ok(Replayed {
            events,
            pages,
            entries,
            differences: differing.lines(),
            goes_on,
        })
    }
}

/// A journal as far as it was read, and what follows from it.
struct ReplayedJournal<'r> {
    runner: &'r Runner,
    journal: JournalReader<'r>,
    run: Run,
    events: usize,
    pages: BTreeMap<PageId, String>,
    entries: BTreeMap<EntryId, Expected>,
}

/// The differences between the stored state and a journal, as text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differing {
    row: Vec<String>,
    pages: BTreeMap<PageId, String>,
    entries: BTreeMap<EntryId, Vec<String>>,
}

impl Differing {
    fn is_empty(&self) -> bool {
        self.row.is_empty() && self.pages.is_empty() && self.entries.is_empty()
    }

    fn lines(self) -> Vec<String> {
        let entries = self.entries.into_values().flatten();
        self.row
            .into_iter()
            .chain(self.pages.into_values())
            .chain(entries)
            .collect()
    }
}

impl<'r> ReplayedJournal<'r> {
    /// Starts with nothing read.
    fn of(runner: &'r Runner, id: RunId) -> Self {
        Self {
            runner,
            journal: JournalReader::of(runner.workspace(), id),
            run: Run::new(id, Arc::clone(runner.templates())),
            events: 0,
            pages: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    /// Reads the journal up to its current end.
    async fn read_to_end(&mut self) -> Result<(), RunnerError> {
        let bodies = self.runner.bodies();
        self.journal.continue_reading();
        while let Some(part) = self.journal.next().await? {
            self.events += part.len();
            for (at, event) in part {
                let run = self.run.id();
                self.run
                    .apply(at, &event)
                    .map_err(|source| RunnerError::Journal { run, source })?;
                // The driver had the bodies at hand that titles and reports refer to.
                for change in bodies
                    .with_outputs_loaded(&self.run, |run| projection::changes(run, &event))
                    .await?
                {
                    expect(change, &mut self.pages, &mut self.entries);
                }
                bodies.evict_excess(&self.run);
            }
        }
        Ok(())
    }

    /// Whether `stored` is what the journal says; whether the run waits, and what it was forked from, are left out by
    /// versions that did not write it.
    fn is_summary(&self, stored: &RunSummary) -> bool {
        let mut expected = self.run.summary();
        if !stored.waits {
            (expected.waits, expected.due_at) = (false, None);
        }
        if stored.forked_from.is_none() {
            expected.forked_from = None;
        }
        if stored.forked_at.is_none() {
            expected.forked_at = None;
        }
        *stored == expected
    }

    /// Compares the stored state with the journal: everything, or only the differences found `before`.
    async fn find_differences(&self, before: Option<&Differing>) -> Result<Differing, RunnerError> {
        let (workspace, id) = (self.runner.workspace(), self.run.id());
        let mut found = Differing::default();
        let row = workspace.store().run(workspace.space(), Ref::Id(id)).await?;
        let status = self.run.status();
        if row.status != status {
            found
                .row
                .push(format!("the row says {}, the journal {status}", row.status));
        }
        let summaries = workspace.store().runs_so_far(workspace.space(), vec![id]).await?;
        if summaries.first().is_some_and(|(_, summary)| !self.is_summary(summary)) {
            let line = "what lists show differs from the journal: what it used up, whether it is paused, or how many answers it waits for";
            found.row.push(line.to_owned());
        }
        for (page, title) in &self.pages {
            if before.is_some_and(|before| !before.pages.contains_key(page)) {
                continue;
            }
            let line = match workspace.page(Ref::Id(*page)).await {
                Ok(kept) if kept.fields.title == *title => continue,
                Ok(kept) => format!(
                    "page {}: it is called {:?}, not {title:?}",
                    kept.handle, kept.fields.title
                ),
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    format!("page {page} ({title}) is not there")
                }
                Err(error) => return Err(error.into()),
            };
            found.pages.insert(*page, line);
        }
        for (entry, expected) in &self.entries {
            if before.is_some_and(|before| !before.entries.contains_key(entry)) {
                continue;
            }
            let lines = match workspace.entry(Ref::Id(*entry)).await {
                // Erased entries have no content to compare.
                Ok(kept) if kept.fields.erased.is_some() => continue,
                Ok(kept) => {
                    let fields = expected.differing(&kept.fields).into_iter();
                    fields
                        .map(|field| format!("entry {}: its {field} differs", kept.handle))
                        .collect()
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    vec![format!("entry {entry} ({}) is not there", expected.title)]
                }
                Err(error) => return Err(error.into()),
            };
            if !lines.is_empty() {
                found.entries.insert(*entry, lines);
            }
        }
        Ok(found)
    }

    /// The differences that remain of `differing` once the journal was read as far as the stored state, and whether the
    /// journal grew on every try.
    async fn recheck_differences(&mut self, mut differing: Differing) -> Result<(Differing, bool), RunnerError> {
        let workspace = self.runner.workspace();
        for _ in 0..MAX_RECHECKS {
            if differing.is_empty() {
                return Ok((differing, false));
            }
            let row = workspace.store().run(workspace.space(), Ref::Id(self.run.id())).await?;
            if row.head <= self.journal.head() {
                return Ok((differing, false));
            }
            self.read_to_end().await?;
            differing = self.find_differences(Some(&differing)).await?;
        }
        let goes_on = !differing.is_empty();
        Ok((differing, goes_on))
    }
}

/// Applies a change to the expected pages and entries of a run.
fn expect(change: Change, pages: &mut BTreeMap<PageId, String>, entries: &mut BTreeMap<EntryId, Expected>) {
    match change {
        Change::EnsurePage(page) => {
            pages.entry(page.id).or_insert(page.fields.title);
        }
        Change::AddEntry(entry) => {
            entries.insert(entry.id, Expected::of(&entry.fields));
        }
        Change::PatchEntry { entry, fields, .. } => {
            let Some(expected) = entries.get_mut(&entry) else {
                return;
            };
            for field in fields {
                match field {
                    FieldChange::Status(status) => expected.status = status,
                    FieldChange::Parts(parts) => expected.parts = hash_of_parts(parts.as_ref()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use folio_engine::plan;
    use folio_memory::{Actor, Role, SpaceName};
    use folio_store::commit::RECORD_FORMAT;
    use folio_store::sqlite::OpenOptions;
    use folio_store::{Commit, RandomIds, Record, SqliteStore, SystemClock, Workspace};
    use folio_tools::Registry;
    use serde_json::json;

    use super::*;
    use crate::{NewRun, RunnerOptions};

    fn runner(folder: &tempfile::TempDir) -> Runner {
        let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
        Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default())
    }

    async fn submit(runner: &Runner) -> RunId {
        let step = json!({"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}});
        let plan = json!({"version": 1, "title": "Echo", "steps": [step]});
        let plan = plan::from_value(&plan, &plan::Known::default()).unwrap();
        let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
        runner.submit(new).await.unwrap().0
    }

    /// Gives `entry` another title by hand.
    async fn damage(workspace: &Workspace, entry: EntryId) {
        let change = Change::PatchEntry {
            entry,
            fields: vec![FieldChange::Title("Something else".to_owned())],
            expected_version: None,
            base_version: None,
        };
        let commit = Commit {
            space: workspace.space().clone(),
            at: workspace.now(),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: None,
            expected: Vec::new(),
            record: Record {
                format: RECORD_FORMAT,
                changes: vec![change],
                run: None,
                reason: None,
                request: None,
                folded: None,
                copied_from: None,
            },
            blobs: Vec::new(),
        };
        workspace.commit(commit).await.unwrap();
    }

    #[tokio::test]
    async fn replay_ignores_concurrent_commits_but_reports_damage() {
        let folder = tempfile::tempdir().unwrap();
        let runner = runner(&folder);
        let run = submit(&runner).await;
        let mut folded = ReplayedJournal::of(&runner, run);
        folded.read_to_end().await.unwrap();
        let events = folded.events;
        runner.drive(run).await.unwrap();
        let differing = folded.find_differences(None).await.unwrap();
        assert!(!differing.row.is_empty(), "{differing:?}");
        let settled = folded.recheck_differences(differing).await.unwrap();
        assert_eq!(settled, (Differing::default(), false));
        assert!(folded.events > events);

        let main = Ref::Id(projection::main_page(run));
        let entry = &runner.workspace().page_entries(main).await.unwrap()[0];
        let mut folded = ReplayedJournal::of(&runner, run);
        folded.read_to_end().await.unwrap();
        damage(runner.workspace(), entry.id).await;
        let differing = folded.find_differences(None).await.unwrap();
        let (differing, goes_on) = folded.recheck_differences(differing).await.unwrap();
        let line = format!("entry {}: its title differs", entry.handle);
        assert_eq!((differing.lines(), goes_on), (vec![line], false));
    }
}
