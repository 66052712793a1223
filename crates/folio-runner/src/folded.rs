//! Runs that are looked at: folded once for all who ask at one time, a few at a time, and kept for whoever asks next.
//!
//! A run that is kept is read on from where it was. What is kept is bounded, and so is how many journals are read from their beginning
//! at one moment: whoever asks for more waits.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_engine::Run;
use folio_memory::{RunId, Seq, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::error::RunnerError;
use crate::runner::Shared;
use crate::watch::Watch;

/// Journals that are read from their beginning at a time.
const FOLDING_MAX: usize = 4;
/// Nodes of the runs that are kept, together: some hundred megabytes.
const NODES_MAX: usize = 50_000;
/// What a run takes beside its nodes, as so many of them.
const NODES_OF_A_RUN: usize = 100;

/// A run as its journal said when it was asked for. Others may look at the same one.
#[derive(Debug)]
pub struct Folded(Arc<Watch>);

impl Folded {
    /// The last commit of its journal.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.0.head()
    }

    /// When the last event was recorded; `None` if there is none.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.0.at()
    }
}

impl Deref for Folded {
    type Target = Run;

    fn deref(&self) -> &Run {
        self.0.run()
    }
}

/// The runs that are kept.
#[derive(Debug)]
pub(crate) struct Folds {
    folding: Semaphore,
    kept: Mutex<Kept>,
}

impl Default for Folds {
    fn default() -> Self {
        Self {
            folding: Semaphore::new(FOLDING_MAX),
            kept: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Kept {
    runs: HashMap<RunId, One>,
    /// How often any of them was asked for.
    asked: u64,
}

/// Where a run is kept. Held by whoever brings it to where its journal is: everybody else who asks waits for that.
pub(crate) type Slot = AsyncMutex<Option<Arc<Watch>>>;

#[derive(Debug, Default)]
struct One {
    slot: Arc<Slot>,
    asked: u64,
    size: usize,
}

impl Folds {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where `run` is kept.
    pub(crate) fn slot(&self, run: RunId) -> Arc<Slot> {
        let mut kept = self.kept();
        kept.asked += 1;
        let asked = kept.asked;
        let one = kept.runs.entry(run).or_default();
        one.asked = asked;
        Arc::clone(&one.slot)
    }

    /// Nobody asks for `run` through `slot` any more, where so many `nodes` are kept, if any. Lets go of what was asked for longest ago
    /// until there is room for the others.
    pub(crate) fn leave(&self, run: RunId, slot: Arc<Slot>, nodes: Option<usize>) {
        drop(slot);
        let mut kept = self.kept();
        if let Some(one) = kept.runs.get_mut(&run) {
            one.size = nodes.map_or(0, |nodes| nodes + NODES_OF_A_RUN);
        }
        let is_left = |one: &One| Arc::strong_count(&one.slot) == 1;
        kept.runs.retain(|_, one| one.size > 0 || !is_left(one));
        let mut size: usize = kept.runs.values().map(|one| one.size).sum();
        while size > NODES_MAX {
            // One that somebody waits for goes when he has it.
            let left = kept.runs.iter().filter(|(_, one)| is_left(one));
            let Some(oldest) = left.min_by_key(|(_, one)| one.asked).map(|(run, _)| *run) else {
                return;
            };
            size -= kept.runs.remove(&oldest).map_or(0, |one| one.size);
        }
    }
}

impl Shared {
    /// The run as its journal says now, for whoever looks at it.
    pub(crate) async fn folded(&self, run: RunId) -> Result<Folded, RunnerError> {
        let slot = self.folds.slot(run);
        let folded = self.look_into(run, &slot).await;
        let nodes = folded.as_ref().ok().map(|folded| folded.len());
        self.folds.leave(run, slot, nodes);
        folded
    }

    async fn look_into(&self, run: RunId, slot: &Slot) -> Result<Folded, RunnerError> {
        let mut kept = slot.lock().await;
        // What fails half-way is not kept.
        let watch = match kept.take() {
            Some(watch) if Arc::strong_count(&watch) > 1 && self.is_at_the_end(run, watch.head()).await? => watch,
            kept => Arc::new(self.own(run, kept).await?),
        };
        *kept = Some(Arc::clone(&watch));
        Ok(Folded(watch))
    }

    /// The run as its journal says now, for whoever changes it: `kept`, read on, if nobody looks at that.
    pub(crate) async fn own(&self, run: RunId, kept: Option<Arc<Watch>>) -> Result<Watch, RunnerError> {
        if let Some(mut watch) = kept.and_then(Arc::into_inner) {
            watch.catch_up().await?;
            return Ok(watch);
        }
        // Never closed.
        let _place = self.folds.folding.acquire().await;
        let mut watch = self.watch(run);
        watch.catch_up().await?;
        Ok(watch)
    }

    /// Whether the journal of `run` ends with commit `head`.
    async fn is_at_the_end(&self, run: RunId, head: Seq) -> Result<bool, RunnerError> {
        let workspace = &self.workspace;
        let heads = workspace.store().run_heads(workspace.space(), vec![run]).await?;
        Ok(heads.contains(&(run, head)))
    }
}

#[cfg(test)]
mod tests {
    use folio_engine::plan;
    use folio_memory::{Actor, Role, SpaceName};
    use folio_store::sqlite::OpenOptions;
    use folio_store::{RandomIds, SqliteStore, SystemClock, Workspace};
    use folio_tools::Registry;
    use serde_json::json;

    use super::*;
    use crate::{NewRun, Runner, RunnerOptions};

    fn ada() -> Actor {
        Actor::new(Role::Human, "ada")
    }

    /// A runner, and a run of it that nobody drives.
    async fn submitted() -> (Runner, RunId) {
        let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
        let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
        let step = json!({"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}});
        let plan = json!({"version": 1, "title": "Echo", "steps": [step]});
        let plan = plan::from_value(&plan, &plan::Known::default()).unwrap();
        let (run, _) = runner.submit(NewRun::of(plan, ada())).await.unwrap();
        (runner, run)
    }

    fn is_kept(runner: &Runner, run: RunId) -> bool {
        runner.shared.folds.kept().runs.contains_key(&run)
    }

    #[tokio::test]
    async fn who_asks_at_the_same_time_gets_the_same_run() {
        let (runner, run) = submitted().await;
        let (one, other) = (runner.load(run).await.unwrap(), runner.load(run).await.unwrap());
        assert!(Arc::ptr_eq(&one.0, &other.0));
        // Whoever has it is not shown what came since, and whoever asks now is.
        runner.pause(run, None, &ada()).await.unwrap();
        let (row, now) = runner.seen(run).await.unwrap();
        assert!(!one.is_paused_whole() && now.is_paused_whole());
        assert_eq!(now.head(), row.head);
        assert!(now.head() > one.head());
        let alone = runner.shared.fold(run).await.unwrap();
        assert_eq!((alone.0.is_paused_whole(), alone.1), (true, now.head()));
    }

    #[tokio::test]
    async fn what_is_written_of_a_run_is_read_on_from_it() {
        let (runner, run) = submitted().await;
        for _ in 0..3 {
            runner.pause(run, None, &ada()).await.unwrap();
            let paused = runner.load(run).await.unwrap();
            assert!(paused.is_paused_whole());
            drop(paused);
            runner.go_on(run, None, &ada()).await.unwrap();
            let slot = runner.shared.folds.slot(run);
            let kept = slot.lock().await;
            let kept = kept.as_deref().expect("what was written was applied to it");
            let (alone, head) = runner.shared.fold(run).await.unwrap();
            assert_eq!((kept.run().is_paused_whole(), kept.head()), (false, head));
            assert_eq!(format!("{:?}", kept.run().so_far()), format!("{:?}", alone.so_far()));
        }
    }

    #[tokio::test]
    async fn what_was_asked_for_longest_ago_goes_when_there_is_no_room_for_all() {
        let (runner, run) = submitted().await;
        let folds = &runner.shared.folds;
        runner.load(run).await.unwrap();
        let [large, larger] = [1, 2].map(|number| RunId::derived(&[&number.to_string()]));
        folds.leave(large, folds.slot(large), Some(NODES_MAX / 2));
        assert!(is_kept(&runner, run) && is_kept(&runner, large));
        let waited_for = folds.slot(larger);
        folds.leave(larger, folds.slot(larger), Some(NODES_MAX));
        assert!(!is_kept(&runner, run) && !is_kept(&runner, large) && is_kept(&runner, larger));
        folds.leave(larger, waited_for, Some(NODES_MAX));
        assert!(!is_kept(&runner, larger));
        runner.load(larger).await.expect_err("it is not there");
        assert!(!is_kept(&runner, larger));
    }
}
