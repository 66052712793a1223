//! A run looked at again from its first event: another one from a moment of it, and whether its pages say what it says.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_engine::event::FORMAT;
use folio_engine::run::{ForkAt, ForkError, forked};
use folio_engine::{Event, Output, Run, projection};
use folio_memory::entry::{EntryFields, Status};
use folio_memory::id::{Ref, RunHandle};
use folio_memory::trace::WARNING;
use folio_memory::{Actor, Change, EntryId, FieldChange, PageId, RunId, Seq, ThreadKey, TraceNote};
use folio_store::workspace::WorkspaceError;
use folio_store::{BlobHash, StoreError};
use serde_json::{Value, json};

use crate::error::RunnerError;
use crate::grants;
use crate::runner::{Runner, person};
use crate::steps::needed_model;
use crate::takeover;

/// A run that begins at a moment of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// Its id.
    pub id: RunId,
    /// Its short name.
    pub handle: RunHandle,
    /// What its folder lacks of that which the other run had in its own by then, or has otherwise, in words; nothing if all is as it was.
    pub files: Option<String>,
    /// Whether an earlier call with the same key had recorded it.
    pub replayed: bool,
}

/// What a look at a run's journal from its first event found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Events that were folded.
    pub events: usize,
    /// Pages that were compared.
    pub pages: usize,
    /// Entries that were compared.
    pub entries: usize,
    /// What is not as the journal says, a line each.
    pub differences: Vec<String>,
}

/// An entry as the journal says that it is.
struct Expected {
    fields: Box<EntryFields>,
}

impl Runner {
    /// Records another run that is what `source` was at the moment `at`. Finished work is not done again, and what `source` has in its own
    /// folder is copied into that of the new run. Nobody drives it yet; with `paused`, none of its calls begins before somebody has it go on.
    ///
    /// # Errors
    ///
    /// `Fork` if there is no such moment; `NeedsModel` if it cannot be driven here and is not to be paused; `NotAPerson` if `source` may do what only people allow, and `actor` is none; `Store`, `Journal`.
    pub async fn fork(
        &self,
        source: RunId,
        at: ForkAt,
        thread: ThreadKey,
        actor: Actor,
        paused: bool,
    ) -> Result<Forked, RunnerError> {
        let workspace = self.workspace();
        let journal = workspace.store().journal(workspace.space(), source, Seq(0)).await?;
        let now = workspace.clock().now();
        let id = RunId::draw(&**workspace.ids(), now);
        let Some((
            _,
            Event::RunStarted {
                goal,
                plan,
                inputs,
                run,
                ..
            },
        )) = journal.events.first()
        else {
            let source_error = folio_engine::run::JournalError::Start;
            return Err(RunnerError::Journal {
                run: source,
                source: source_error,
            });
        };
        let now_there = self.load(source).await?;
        let path_of = |node| now_there.node(node).map(|view| view.path.to_owned());
        let (cut, node) = at.moment(source, &journal.events).map_err(|error| match (error, at) {
            (ForkError::NotBegun { part }, ForkAt::Node(node)) => ForkError::NotBegun {
                part: path_of(node).unwrap_or(part),
            },
            (error, _) => error,
        })?;
        let (actor, turn, begins) = self.turn_of(actor, thread, goal, id).await?;
        let path = path_of(node).unwrap_or_default();
        let limits = folio_engine::plan::from_stored(plan).map(|plan| folio_engine::Limits::of(&plan));
        let deadline = limits.ok().map(|limits| now.plus(limits.deadline));
        let mut variable = run.clone();
        variable["id"] = json!(id.to_string());
        variable["started_at"] = json!(now.to_string());
        variable["turn"] = json!(turn.to_string());
        variable["forked_from"] = json!({"run": source.to_string(), "node": path});
        let first = Event::RunStarted {
            format: FORMAT,
            goal: goal.clone(),
            plan: plan.clone(),
            inputs: inputs.clone(),
            deadline,
            run: variable,
        };
        let mut bodies = Vec::new();
        for (_, event) in &journal.events {
            bodies.extend(self.large_output(event).await?);
        }
        let mut fork = forked(
            (source, &journal.events),
            at,
            id,
            first,
            now,
            (self.templates(), &bodies),
        )?;
        if grants::are_beyond_usual(&fork.run, &fork.events) {
            // They were for what that person saw.
            person(&actor)?;
        }
        if !paused
            && !self.has_model()
            && let Some(tasks) = needed_model(&fork.run)
        {
            return Err(RunnerError::NeedsModel { tasks });
        }
        if paused {
            let event = Event::Paused {
                node: None,
                by: actor.to_string(),
            };
            let unreadable = |source| RunnerError::Journal { run: id, source };
            fork.run.apply(now, &event).map_err(unreadable)?;
            fork.changes.extend(projection::changes(&fork.run, &event));
            fork.events.push(event);
        }
        let changes = begins.into_iter().chain(fork.changes).collect();
        let title = fork.run.plan().title.clone();
        let folders = self.shared.options.run_folders.as_deref();
        let files = takeover::take_over(folders, (source, &journal.events, cut), id).await;
        if let Some(Event::RunStarted { run, .. }) = fork.events.first_mut() {
            run["forked_from"]["files"] = json!(files);
        }
        let begun = self.begin(&fork.run, now, (fork.events, changes), title, actor.clone());
        let begun = begun.await;
        if !begun.as_ref().is_ok_and(|committed| !committed.replayed) {
            takeover::give_up(folders, id).await;
        }
        let committed = begun?;
        let (recorded, handle) = committed.run.unwrap_or((id, RunHandle(0)));
        if let Some(words) = files.as_ref().filter(|_| !committed.replayed) {
            let note = TraceNote::new(workspace.now(), &actor.in_run(id), "run", "fork_run");
            workspace.note(note.with_status(WARNING).with_detail(words.clone()));
        }
        Ok(Forked {
            id: recorded,
            handle,
            files: files.filter(|_| !committed.replayed),
            replayed: committed.replayed,
        })
    }

    /// Folds the journal of a run from its first event, and compares what it says with the pages and the row that are kept. What
    /// was forgotten since is no difference.
    ///
    /// # Errors
    ///
    /// `Store`; `Journal` if it cannot be folded.
    pub async fn replay(&self, id: RunId) -> Result<Replayed, RunnerError> {
        let workspace = self.workspace();
        let journal = workspace.store().journal(workspace.space(), id, Seq(0)).await?;
        let mut run = Run::new(id, Arc::clone(self.templates()));
        let mut pages: BTreeMap<PageId, String> = BTreeMap::new();
        let mut entries: BTreeMap<EntryId, Expected> = BTreeMap::new();
        for (at, event) in &journal.events {
            if let Some((hash, value)) = self.large_output(event).await? {
                run.supply(&hash, value);
            }
            run.apply(*at, event)
                .map_err(|source| RunnerError::Journal { run: id, source })?;
            for change in projection::changes(&run, event) {
                expect(change, &mut pages, &mut entries);
            }
        }
        let mut found = Replayed {
            events: journal.events.len(),
            pages: pages.len(),
            entries: entries.len(),
            differences: Vec::new(),
        };
        let row = workspace.store().run(workspace.space(), Ref::Id(id)).await?;
        let status = run.result().map_or("running", |result| result.status.as_str());
        if row.status != status {
            let line = format!("the row says {}, the journal {status}", row.status);
            found.differences.push(line);
        }
        let said = workspace.store().runs_so_far(workspace.space(), vec![id]).await?;
        if said.first().is_some_and(|(_, said)| *said != run.so_far()) {
            let line = "what lists tell of it is not what the journal says: what it used up, whether it is paused, or how much it asks";
            found.differences.push(line.to_owned());
        }
        for (page, title) in &pages {
            match workspace.page(Ref::Id(*page)).await {
                Ok(kept) if kept.fields.title == *title => {}
                Ok(kept) => {
                    let line = format!(
                        "page {}: it is called {:?}, not {title:?}",
                        kept.handle, kept.fields.title
                    );
                    found.differences.push(line);
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    found.differences.push(format!("page {page} ({title}) is not there"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        for (entry, expected) in &entries {
            match workspace.entry(Ref::Id(*entry)).await {
                // What was forgotten has no content to compare.
                Ok(kept) if kept.fields.erased.is_some() => {}
                Ok(kept) => {
                    let differs = differing(&expected.fields, &kept.fields);
                    let lines = differs
                        .into_iter()
                        .map(|what| format!("entry {}: its {what} is another", kept.handle));
                    found.differences.extend(lines);
                }
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => {
                    let line = format!("entry {entry} ({}) is not there", expected.fields.title);
                    found.differences.push(line);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// The output that an event names and that is kept beside the journal, as its driver had it at hand.
    pub(crate) async fn large_output(&self, event: &Event) -> Result<Option<(String, Arc<Value>)>, RunnerError> {
        let output = match event {
            Event::Finished { result, .. } => &result.output,
            Event::Proposed { proposal, .. } => &proposal.output,
            _ => return Ok(None),
        };
        let Output::Blob { hash, .. } = output else {
            return Ok(None);
        };
        let workspace = self.workspace();
        let bytes = workspace.store().blob(workspace.space(), &BlobHash(hash.clone())).await;
        match bytes {
            Ok(bytes) => {
                let value = serde_json::from_slice::<Value>(&bytes).ok();
                Ok(value.map(|value| (hash.clone(), Arc::new(value))))
            }
            // What was forgotten is not there any more.
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes in what a change makes of the pages of a run.
fn expect(change: Change, pages: &mut BTreeMap<PageId, String>, entries: &mut BTreeMap<EntryId, Expected>) {
    match change {
        Change::EnsurePage(page) => {
            pages.entry(page.id).or_insert(page.fields.title);
        }
        Change::AddEntry(entry) => {
            entries.insert(
                entry.id,
                Expected {
                    fields: Box::new(entry.fields),
                },
            );
        }
        Change::PatchEntry { entry, fields, .. } => {
            let Some(expected) = entries.get_mut(&entry) else {
                return;
            };
            for field in fields {
                match field {
                    FieldChange::Status(status) => expected.fields.status = status,
                    FieldChange::Phase(phase) => expected.fields.phase = phase,
                    FieldChange::Parts(parts) => expected.fields.parts = parts,
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// What of an entry is not as it was written. What people may change of it since, its status in the archive, is none of it.
fn differing(expected: &EntryFields, kept: &EntryFields) -> Vec<&'static str> {
    let is_beginning = kept.body_ref.is_some() && expected.body.starts_with(&*kept.body);
    let mut differs = Vec::new();
    if expected.title != kept.title {
        differs.push("title");
    }
    if expected.body != kept.body && !is_beginning {
        differs.push("text");
    }
    if expected.status != kept.status && kept.status != Status::Archived {
        differs.push("status");
    }
    if expected.parts != kept.parts {
        differs.push("list of parts");
    }
    differs
}
