//! Runs that were submitted here and are not driven yet, as their journals describe them: the driver need not read the
//! journal.

use std::collections::VecDeque;

use folio_engine::Run;
use folio_memory::{RunId, Seq, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::pages::RunPages;

/// The maximum number of kept runs.
const MAX_RUNS: usize = 1_024;
/// The maximum number of nodes of all of them together, except for the last one, which is kept whatever its size.
const MAX_NODES: usize = 20_000;

/// A run as its journal describes it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) run: Run,
    /// Where the journal ends.
    pub(crate) head: Seq,
    /// The time of the commit at which it ends; `None` if there is none.
    pub(crate) at: Option<Timestamp>,
    /// The description of its pages, if that is known without reading them.
    pub(crate) pages: Option<RunPages>,
}

/// The most recent ones, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Submitted(Mutex<VecDeque<Opened>>);

impl Submitted {
    /// Adds a run.
    pub(crate) fn keep(&self, opened: Opened) {
        let mut runs = self.runs();
        runs.push_back(opened);
        let mut nodes: usize = runs.iter().map(|opened| opened.run.len()).sum();
        while runs.len() > MAX_RUNS || (runs.len() > 1 && nodes > MAX_NODES) {
            nodes -= runs.pop_front().map_or(0, |opened| opened.run.len());
        }
    }

    /// Removes and returns `run`, if it is there. Somebody may have written to its journal since: a commit that expects
    /// its end detects that.
    pub(crate) fn take(&self, run: RunId) -> Option<Opened> {
        let mut runs = self.runs();
        let at = runs.iter().position(|opened| opened.run.id() == run)?;
        runs.remove(at)
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Opened>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use folio_engine::plan;
    use folio_engine::template::Templates;
    use folio_memory::{Actor, Role, SpaceName};
    use folio_store::sqlite::{OpenOptions, SqliteStore};
    use folio_store::{RandomIds, SystemClock, Workspace};
    use folio_testkit::SeededIds;
    use folio_tools::Registry;

    use super::*;
    use crate::{Dispatch, Fate, NewRun, Runner, RunnerError, RunnerOptions};

    /// Others, who take what they are given.
    #[derive(Debug)]
    struct Elsewhere;

    #[async_trait]
    impl Dispatch for Elsewhere {
        async fn dispatch(&self, _: &SpaceName, _: RunId, _: Seq) -> Result<(), RunnerError> {
            Ok(())
        }

        async fn fate(&self, _: &SpaceName, _: RunId, _: Seq) -> Result<Fate, RunnerError> {
            Ok(Fate::Taken)
        }
    }

    #[tokio::test]
    async fn submitted_run_is_kept_only_without_a_dispatcher() {
        for dispatch in [None, Some(Arc::new(Elsewhere) as Arc<dyn Dispatch>)] {
            let is_here = dispatch.is_none();
            let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
            let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
            let options = RunnerOptions {
                dispatch,
                ..RunnerOptions::default()
            };
            let workspace = Workspace::new(store, clock, ids, SpaceName::main());
            let runner = Runner::new(workspace, Registry::with_builtins(), options);
            let text = "title: One\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
            let plan = plan::parse(text, &runner.known()).unwrap();
            let new = NewRun::of(plan, Actor::new(Role::Human, "ada"));
            let (run, _) = runner.submit(new).await.unwrap();
            assert_eq!(runner.shared.submitted.take(run).is_some(), is_here);
        }
    }

    #[test]
    fn submitted_runs_are_taken_once_and_the_oldest_are_evicted() {
        let (ids, templates) = (SeededIds::new(1), Arc::new(Templates::new()));
        let submitted = Submitted::default();
        let runs: Vec<RunId> = (0..MAX_RUNS + 2)
            .map(|_| {
                let id = RunId::draw(&ids, Timestamp::from_millis(1));
                submitted.keep(Opened {
                    run: Run::new(id, Arc::clone(&templates)),
                    head: Seq(7),
                    at: None,
                    pages: None,
                });
                id
            })
            .collect();
        assert!(submitted.take(runs[1]).is_none());
        assert_eq!(submitted.take(runs[2]).unwrap().head, Seq(7));
        assert!(submitted.take(runs[2]).is_none());
        assert!(submitted.take(runs[MAX_RUNS + 1]).is_some());
    }
}
