//! Forks: a new run from a moment of another one. The journal of the source is read part by part, twice: to find the
//! moment, and to be rewritten for the fork. What is rewritten is stored as it comes, and counts once all of it is
//! there.

mod journal;

use std::collections::HashMap;

use folio_engine::event::{FORMAT, NewLimits};
use folio_engine::run::{ForkAt, ForkBuilder, ForkError, ForkSearch, ForkSearchOutcome, JournalError, Moment};
use folio_engine::{Event, NodeId, Run};
use folio_memory::id::RunHandle;
use folio_memory::trace::WARNING;
use folio_memory::{Actor, RunId, ThreadKey, Timestamp, TraceNote, roles};
use folio_store::{CommittedParts, in_parts};
use serde::Serialize;
use serde_json::{Value, json};

use self::journal::{FirstLimits, ForkJournal};

use crate::error::RunnerError;
use crate::grants;
use crate::journal::JournalReader;
use crate::run_variable::UNPRICED;
use crate::runner::{Runner, person};
use crate::takeover::{self, FolderAtMoment};

/// New limits of a node; of the whole run for `None`.
type LimitsOfNode = (Option<NodeId>, NewLimits);

/// How a fork differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForkOptions {
    /// None of its calls begins before somebody continues it.
    pub paused: bool,
    /// Whether models without a known price may be called although a budget limits dollars; otherwise what was said for
    /// the source holds.
    pub allow_unpriced: bool,
}

/// A run that was forked from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Forked {
    /// Its id.
    pub id: RunId,
    /// Its short name.
    pub handle: RunHandle,
    /// The files that the folder of the source had at that moment and that are missing or different in the folder of
    /// the new run, as text; `None` if all are the same.
    pub files: Option<String>,
    /// Whether an earlier call with the same key had recorded it.
    pub replayed: bool,
}

/// A run at a moment, according to its journal.
struct RunAtMoment {
    moment: Moment,
    /// Its first event.
    first: Event,
    /// Whether a person had allowed something by then that only people may allow.
    is_beyond_usual: bool,
    /// What it had in its folder by then.
    folder: FolderAtMoment,
}

impl Runner {
    /// Records a new run that is what `source` was at the moment `at`. Finished work is not repeated, and the files in
    /// the run folder of `source` are copied into that of the new run. Nobody drives it yet.
    ///
    /// # Errors
    ///
    /// `Fork` if there is no such moment; `NeedsModel` or `NotEquipped` if it cannot be driven here and is not to be
    /// paused; `NotAPerson` if `source` may do what only people allow, and `actor` is not a person; `Store`, `Journal`.
    pub async fn fork(
        &self,
        source: RunId,
        at: ForkAt,
        thread: ThreadKey,
        actor: Actor,
        options: ForkOptions,
    ) -> Result<Forked, RunnerError> {
        self.fork_limited(source, at, thread, actor, (options, None)).await
    }

    /// The same with new limits from its beginning: those that `limits` gives of the fork as it is then, each for the
    /// run or a node of it. If one cannot be used, nothing is recorded.
    ///
    /// # Errors
    ///
    /// As [`Runner::fork`]; `NotAPerson` if `actor` is not a person; `Limit`.
    pub async fn fork_with_limits(
        &self,
        source: RunId,
        at: ForkAt,
        thread: ThreadKey,
        actor: Actor,
        options: ForkOptions,
        limits: &(dyn Fn(&Run) -> Vec<LimitsOfNode> + Sync),
    ) -> Result<Forked, RunnerError> {
        let by = person(&actor)?;
        let limits = Some(FirstLimits { limits, by });
        self.fork_limited(source, at, thread, actor, (options, limits)).await
    }

    async fn fork_limited(
        &self,
        source: RunId,
        at: ForkAt,
        thread: ThreadKey,
        actor: Actor,
        (options, limits): (ForkOptions, Option<FirstLimits<'_>>),
    ) -> Result<Forked, RunnerError> {
        let ForkOptions { paused, allow_unpriced } = options;
        let workspace = self.workspace();
        workspace.keep_up().await?;
        let now = workspace.now();
        let id = RunId::draw(&**workspace.ids(), now);
        let RunAtMoment {
            moment,
            first,
            is_beyond_usual,
            folder: then,
        } = self.find_moment(source, at).await?;
        let goal = match &first {
            Event::RunStarted { goal, .. } => goal.clone(),
            _ => String::new(),
        };
        let (actor, turn, turn_change) = self.turn_of(actor, thread, &goal, id).await?;
        if is_beyond_usual {
            // The person allowed it for the run that they saw.
            person(&actor)?;
        }
        if !paused && !self.has_dispatcher() {
            self.shared.check_needs(&moment.run.needs())?;
        }
        roles::may_steer(&actor)?;
        let folders = self.shared.options.run_folders.as_deref();
        let files = takeover::take_over(folders, workspace, source, then, id).await;
        let from = json!({"run": source.to_string(), "node": moment.path, "files": files});
        let title = moment.run.plan().title.clone();
        let mut first = fork_begun_event(first, id, now, (&turn.to_string(), from));
        if let (true, Event::RunStarted { run, .. }) = (allow_unpriced, &mut first) {
            run[UNPRICED] = json!(true);
        }
        let by = actor.to_string();
        let telling = ForkJournal {
            source,
            forking: ForkBuilder::new(moment, id, first, now),
            begins: turn_change,
            title: Some(title),
            key: self.key(),
            actor: actor.clone().in_run(id),
            now,
            limits,
            paused_by: paused.then_some(by),
            origins: HashMap::new(),
        };
        let committed = Box::pin(self.record(telling)).await;
        let is_recorded = committed.as_ref().is_ok_and(|committed| !committed.first.replayed);
        takeover::finish_copy(folders, id, is_recorded).await;
        let committed = committed?.first;
        let (recorded, handle) = committed.run.unwrap_or((id, RunHandle(0)));
        if let Some(words) = files.as_ref().filter(|_| !committed.replayed) {
            let note = TraceNote::new(workspace.now(), &actor.in_run(id), "run", "fork_run");
            workspace.note(note.with_status(WARNING).with_detail(json!({ "text": words })));
        }
        Ok(Forked {
            id: recorded,
            handle,
            files: files.filter(|_| !committed.replayed),
            replayed: committed.replayed,
        })
    }

    /// Finds a moment of `source`.
    async fn find_moment(&self, source: RunId, at: ForkAt) -> Result<RunAtMoment, RunnerError> {
        let unreadable = |error| RunnerError::Journal {
            run: source,
            source: error,
        };
        let refused = |error| match error {
            ForkError::Journal(error) => unreadable(error),
            other => RunnerError::Fork(other),
        };
        let folder = self.shared.options.run_folders.as_deref();
        let folder = folder.map(|folders| folders.join(source.to_string()));
        let mut search = ForkSearch::new(source, at, self.templates());
        loop {
            let mut first = None;
            let mut folder_state = FolderAtMoment::of(folder.clone());
            let mut journal = JournalReader::of(self.workspace(), source);
            'parts: while let Some(events) = journal.next().await? {
                for (at, event) in events {
                    let is_later = search.take(at, &event).map_err(unreadable)?;
                    if search.is_too_far() {
                        break 'parts;
                    }
                    if is_later {
                        folder_state.apply_later_event(at, &event);
                    } else {
                        folder_state.apply_earlier_event(&event);
                        first = first.or(Some(event));
                    }
                }
            }
            match search.end().map_err(refused)? {
                ForkSearchOutcome::Earlier(again) => search = *again,
                ForkSearchOutcome::Found(moment) => {
                    let first = first.ok_or_else(|| unreadable(JournalError::Start))?;
                    return Ok(RunAtMoment {
                        is_beyond_usual: grants::has_human_grants(&moment.run),
                        moment: *moment,
                        first,
                        folder: folder_state,
                    });
                }
            }
        }
    }

    /// Writes the rewritten journal.
    async fn record(&self, telling: ForkJournal<'_>) -> Result<CommittedParts, RunnerError> {
        let workspace = self.workspace_for_write();
        let (sender, parts) = in_parts();
        let (sent, written) = tokio::join!(telling.send_journal(self, sender), workspace.commit_parts(parts));
        // The writer only knows that no more came.
        sent?;
        Ok(written?)
    }
}

/// The first event of the fork `id`, which begins at `now` in `turn`; `from` names the source and the moment, and
/// `first` is the first event of the source.
fn fork_begun_event(first: Event, id: RunId, now: Timestamp, (turn, from): (&str, Value)) -> Event {
    let Event::RunStarted {
        goal,
        plan,
        inputs,
        run: mut variable,
        ..
    } = first
    else {
        return first;
    };
    variable["id"] = json!(id.to_string());
    variable["started_at"] = json!(now.to_string());
    variable["turn"] = json!(turn);
    variable["forked_from"] = from;
    let limits = folio_engine::plan::from_stored(&plan).map(|plan| folio_engine::Limits::of(&plan));
    Event::RunStarted {
        format: FORMAT,
        goal,
        plan,
        inputs,
        deadline: limits.ok().map(|limits| now.plus(limits.deadline)),
        run: variable,
    }
}
