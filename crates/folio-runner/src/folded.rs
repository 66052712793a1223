//! A cache of runs that somebody looked at: whoever looks again pays only for what happened since.
//!
//! A cached run belongs to one reader at a time. Another reader waits for it, but no longer than it takes to fold the
//! journal anew, and no lock is held while the store is queried. The number of readers that fold at once, the memory
//! (beside the largest run) and the time are bounded.

use std::collections::HashMap;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use folio_engine::run::JournalError;
use folio_engine::{Event, Run};
use folio_memory::{RunId, Seq, SpaceName, Timestamp};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error::RunnerError;
use crate::runner::Shared;
use crate::watch::Watch;

/// How many journals are read from their beginning at the same time.
const FOLDING_MAX: usize = 4;
/// How often a run is read for one request, if one store after the other takes over while it is read.
const HISTORIES_MAX: usize = 3;
/// The approximate memory limit of all cached runs but the largest, in bytes. However large a run is, whoever looks at
/// it does so again a moment later, and folding it anew takes as much memory, and seconds.
const BYTES_MAX: usize = 128 << 20;
/// How much of a journal is folded in a second, roughly.
const FOLDED_BYTES_PER_S: usize = 64 << 20;
/// How long a run stays cached after its last use.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A run as its journal described it when it was asked for.
#[derive(Debug)]
pub struct Folded {
    /// `None` only while it is dropped.
    watch: Option<Watch>,
    lineage: u64,
    folds: Arc<Folds>,
    /// Whether it has events that are not recorded. Then it is not cached again.
    is_ahead: bool,
}

impl Folded {
    /// Applies `event`, which is about to be recorded at `at`.
    pub(crate) fn apply_ahead(&mut self, at: Timestamp, event: &Event) -> Result<(), JournalError> {
        self.is_ahead = true;
        self.watch
            .as_mut()
            .expect("nobody has dropped it")
            .apply_ahead(at, event)
    }

    /// Notes that commit `head` has recorded the last `count` events, which were applied ahead, at the time at which they
    /// were applied.
    pub(crate) fn note_recorded(&mut self, head: Seq, at: Timestamp, count: u64) {
        self.is_ahead = false;
        let watch = self.watch.as_mut().expect("nobody has dropped it");
        watch.note_recorded(head, at, count);
    }

    fn watch(&self) -> &Watch {
        self.watch
            .as_ref()
            .expect("it is given back only when nobody has it any more")
    }

    /// Folds what is new. If this is dropped before it is done, as when a request takes too long, the next reader goes
    /// on from there.
    async fn catch_up(&mut self) -> Result<(), RunnerError> {
        let watch = self.watch.as_mut().expect("nobody has dropped it");
        let caught_up = watch.catch_up().await;
        if caught_up.is_err() {
            // An event may be applied in part.
            self.watch = None;
        }
        caught_up
    }

    /// The last commit of its journal.
    #[must_use]
    pub fn head(&self) -> Seq {
        self.watch().head()
    }

    /// How many events its journal has.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.watch().events()
    }

    /// When the last event was recorded; `None` if there is none.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.watch().at()
    }
}

impl Deref for Folded {
    type Target = Run;

    fn deref(&self) -> &Run {
        self.watch().run()
    }
}

impl Drop for Folded {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            let key = (watch.space().clone(), watch.run().id(), self.lineage);
            // If an event panicked, it may be applied in part.
            if !self.is_ahead && !std::thread::panicking() {
                self.folds.put(watch, self.lineage);
            }
            self.folds.lent.lock().remove(&key);
            self.folds.given_back.notify_waiters();
        }
    }
}

/// The cached runs, of all spaces of a process: each is found by its space and its id.
#[derive(Debug)]
pub(crate) struct Folds {
    folding: Semaphore,
    /// The most recently used are at the end.
    kept: Mutex<Vec<Kept>>,
    /// The sizes of runs that readers have, each by its lineage.
    lent: Mutex<HashMap<(SpaceName, RunId, u64), usize>>,
    /// Notified when a reader has given one back.
    given_back: Notify,
    /// Whether a task evicts what nobody uses.
    is_tidied: AtomicBool,
}

#[derive(Debug)]
struct Kept {
    watch: Watch,
    /// The lineage of the store when it was read: another store can have other commits under the same numbers.
    lineage: u64,
    since: Instant,
}

impl Kept {
    fn is_of_run(&self, space: &SpaceName, run: RunId) -> bool {
        self.watch.run().id() == run && self.watch.space() == space
    }
}

impl Default for Folds {
    fn default() -> Self {
        Self {
            folding: Semaphore::new(FOLDING_MAX),
            kept: Mutex::default(),
            lent: Mutex::default(),
            given_back: Notify::new(),
            is_tidied: AtomicBool::new(false),
        }
    }
}

impl Folds {
    /// Takes the cached `run` out.
    fn take(&self, space: &SpaceName, run: RunId, lineage: u64) -> Option<Watch> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|kept| kept.is_of_run(space, run))?;
        let found = kept.remove(at);
        (found.lineage == lineage).then_some(found.watch)
    }

    /// Takes the cached `run` out; if another reader has it, waits for as long as folding it anew would take.
    async fn take_soon(&self, space: &SpaceName, run: RunId, lineage: u64) -> Option<Watch> {
        let since = Instant::now();
        loop {
            let mut given_back = pin!(self.given_back.notified());
            given_back.as_mut().enable();
            let found = self.take(space, run, lineage);
            let lent = self.lent.lock().get(&(space.clone(), run, lineage)).copied();
            let Some(bytes) = lent.filter(|_| found.is_none()) else {
                return found;
            };
            let until = since + Duration::from_secs(1) * u32::try_from(bytes / FOLDED_BYTES_PER_S).unwrap_or(u32::MAX);
            if timeout_at(until, given_back).await.is_err() {
                return None;
            }
        }
    }

    /// Caches `watch` in place of an older state of the same run. If there is no room, the least recently used runs are
    /// evicted.
    fn put(self: &Arc<Self>, watch: Watch, lineage: u64) {
        let mut evicted = Vec::new();
        {
            let mut kept = self.kept.lock();
            let (space, run) = (watch.space(), watch.run().id());
            if let Some(at) = kept.iter().position(|kept| kept.is_of_run(space, run)) {
                if kept[at].lineage == lineage && kept[at].watch.head() >= watch.head() {
                    return;
                }
                evicted.push(kept.remove(at));
            }
            while bytes_besides_largest(&kept, &watch) > BYTES_MAX {
                evicted.push(kept.remove(0));
            }
            kept.push(Kept {
                watch,
                lineage,
                since: Instant::now(),
            });
        }
        // Dropping a large run takes a while, so it happens without the lock.
        drop(evicted);
        if let Ok(runtime) = Handle::try_current()
            && !self.is_tidied.swap(true, Ordering::AcqRel)
        {
            runtime.spawn(evict_idle_until_empty(Arc::downgrade(self)));
        }
    }

    /// Evicts what nobody used lately; returns whether anything is left.
    fn evict_idle(&self) -> bool {
        let mut kept = self.kept.lock();
        let old = kept
            .iter()
            .take_while(|kept| kept.since.elapsed() >= IDLE_TIMEOUT)
            .count();
        let evicted: Vec<Kept> = kept.drain(..old).collect();
        let is_left = !kept.is_empty();
        if !is_left {
            // The next `put` starts a new task.
            self.is_tidied.store(false, Ordering::Release);
        }
        drop(kept);
        drop(evicted);
        is_left
    }
}

/// The bytes of `kept` and `new` together, without the largest of them.
fn bytes_besides_largest(kept: &[Kept], new: &Watch) -> usize {
    let sizes = || kept.iter().map(|kept| kept.watch.bytes()).chain([new.bytes()]);
    sizes().sum::<usize>() - sizes().max().unwrap_or_default()
}

/// Evicts what nobody uses until nothing is left.
async fn evict_idle_until_empty(folds: Weak<Folds>) {
    let mut stopped = Stopped(Some(folds));
    while let Some(folds) = &stopped.0 {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        if folds.upgrade().is_none_or(|folds| !folds.evict_idle()) {
            stopped.0 = None;
        }
    }
}

/// Makes the next cached run start [`evict_idle_until_empty`] again if that ends early: its runtime can end before the
/// runner does.
#[derive(Debug)]
struct Stopped(Option<Weak<Folds>>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(folds) = self.0.take().and_then(|folds| folds.upgrade()) {
            folds.is_tidied.store(false, Ordering::Release);
        }
    }
}

impl Shared {
    /// The run as its journal describes it now, for a reader.
    pub(crate) async fn folded(&self, run: RunId) -> Result<Folded, RunnerError> {
        let lineage = self.workspace.store().lineage();
        let mut kept = self.folds.take_soon(self.workspace.space(), run, lineage).await;
        let _place;
        if kept.is_none() {
            // The semaphore is never closed.
            _place = self.folds.folding.acquire().await;
            // Another reader may have folded it meanwhile and put it back.
            kept = self.folds.take(self.workspace.space(), run, lineage);
        }
        let mut folded = Folded {
            watch: Some(kept.unwrap_or_else(|| self.watch(run))),
            lineage,
            folds: Arc::clone(&self.folds),
            is_ahead: false,
        };
        folded.catch_up().await?;
        for _ in 1..HISTORIES_MAX {
            let now = self.workspace.store().lineage();
            if now == folded.lineage {
                break;
            }
            // Another store took over meanwhile. It may lack commits that were read, and have others in their place.
            folded.lineage = now;
            folded.watch = Some(self.watch(run));
            folded.catch_up().await?;
        }
        let key = (self.workspace.space().clone(), run, folded.lineage);
        self.folds.lent.lock().insert(key, folded.watch().bytes());
        Ok(folded)
    }
}

#[cfg(test)]
mod tests {
    use folio_engine::plan;
    use folio_memory::{Actor, Role, SpaceName};
    use folio_store::sqlite::OpenOptions;
    use folio_store::{ErrorKind, RandomIds, SqliteStore, Store, SystemClock, Workspace};
    use folio_testkit::{Fault, FaultyStore};
    use folio_tools::Registry;
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::{NewRun, Runner, RunnerOptions};

    fn ada() -> Actor {
        Actor::new(Role::Human, "ada")
    }

    /// A runner, and a run of it that nobody drives.
    async fn submitted() -> (Runner, RunId) {
        submitted_to(SqliteStore::open(&OpenOptions::in_memory()).unwrap()).await
    }

    async fn submitted_to(store: Arc<dyn Store>) -> (Runner, RunId) {
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(store, Arc::new(SystemClock), ids, SpaceName::main());
        let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
        let step = json!({"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}});
        let plan = json!({"version": 1, "title": "Echo", "steps": [step]});
        let plan = plan::from_value(&plan, &plan::Known::default()).unwrap();
        let (run, _) = runner.submit(NewRun::of(plan, ada())).await.unwrap();
        (runner, run)
    }

    fn heads(runner: &Runner) -> Vec<(RunId, Seq)> {
        let kept = runner.shared.folds.kept.lock();
        kept.iter()
            .map(|kept| (kept.watch.run().id(), kept.watch.head()))
            .collect()
    }

    #[tokio::test]
    async fn run_that_a_request_has_read_stays_cached_with_what_it_recorded() {
        let (runner, run) = submitted().await;
        runner.pause(run, None, &ada()).await.unwrap();
        let recorded = fold_uncached(&runner, run).await;
        assert_eq!(heads(&runner), [(run, recorded.1)]);
        let folded = runner.load(run).await.unwrap();
        let cached = (format!("{:?}", folded.summary()), folded.head(), folded.events());
        assert_eq!(cached, recorded);
        assert!(folded.is_run_paused());
    }

    #[tokio::test]
    async fn request_that_cannot_be_recorded_leaves_nothing_in_the_cache() {
        let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
        let (runner, run) = submitted_to(Arc::clone(&store) as _).await;
        drop(runner.load(run).await.unwrap());
        store.fail_next(Fault::NotWritten);
        runner.pause(run, None, &ada()).await.unwrap_err();
        assert!(!runner.load(run).await.unwrap().is_run_paused());
    }

    /// The same as nobody kept it.
    async fn fold_uncached(runner: &Runner, run: RunId) -> (String, Seq, u64) {
        let mut watch = runner.watch(run);
        watch.catch_up().await.unwrap();
        (format!("{:?}", watch.run().summary()), watch.head(), watch.events())
    }

    #[tokio::test]
    async fn cached_fold_catches_up_and_matches_a_fresh_fold() {
        let (runner, run) = submitted().await;
        // What this one reads is cached elsewhere.
        let registry = Registry::with_builtins();
        let beside = Runner::new(runner.workspace().clone(), registry, RunnerOptions::default());
        for is_paused in [true, false, true] {
            let before = runner.load(run).await.unwrap();
            let (head, so_far) = (before.head(), before.is_run_paused());
            if is_paused {
                beside.pause(run, None, &ada()).await.unwrap();
            } else {
                beside.go_on(run, None, &ada()).await.unwrap();
            }
            // Whoever has it is not shown what came since.
            assert_eq!((before.head(), before.is_run_paused()), (head, so_far));
            drop(before);
            assert_eq!(heads(&runner), [(run, head)]);
            let now = runner.load(run).await.unwrap();
            assert_eq!(heads(&runner), []);
            assert_eq!(now.is_run_paused(), is_paused);
            let told = (format!("{:?}", now.summary()), now.head(), now.events());
            assert_eq!(told, fold_uncached(&runner, run).await);
        }
    }

    #[tokio::test]
    async fn later_of_two_concurrent_folds_is_kept() {
        let (runner, run) = submitted().await;
        let early = runner.load(run).await.unwrap();
        runner.pause(run, None, &ada()).await.unwrap();
        let late = runner.load(run).await.unwrap();
        let head = late.head();
        assert!(early.head() < head);
        drop(late);
        drop(early);
        assert_eq!(heads(&runner), [(run, head)]);
    }

    #[tokio::test]
    async fn fold_of_a_dropped_request_is_continued_by_the_next() {
        let (runner, run) = submitted().await;
        let mut slow = Box::pin(runner.load(run));
        assert!(slow.as_mut().now_or_never().is_none_or(|folded| folded.is_ok()));
        drop(slow);
        assert_eq!(heads(&runner).len(), 1);
        let now = runner.load(run).await.unwrap();
        let told = (format!("{:?}", now.summary()), now.head(), now.events());
        assert_eq!(told, fold_uncached(&runner, run).await);
    }

    #[tokio::test(start_paused = true)]
    async fn large_run_that_another_reader_has_is_waited_for() {
        let (runner, run) = submitted().await;
        let folds = &runner.shared.folds;
        let mut large = runner.watch(run);
        large.catch_up().await.unwrap();
        large.pretend_to_have_read(FOLDED_BYTES_PER_S * 3);
        folds.put(large, 0);
        let first = runner.load(run).await.unwrap();
        let given_back = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(first);
        };
        let main = SpaceName::main();
        let (taken, ()) = tokio::join!(folds.take_soon(&main, run, 0), given_back);
        folds.put(taken.expect("it was waited for"), 0);
        // Folding it anew takes three seconds.
        let first = runner.load(run).await.unwrap();
        let begun = Instant::now();
        assert!(folds.take_soon(&main, run, 0).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
        drop(first);
        assert!(folds.take_soon(&main, run, 0).await.is_some());
    }

    #[tokio::test]
    async fn cached_fold_of_a_replaced_store_is_discarded() {
        let (runner, run) = submitted().await;
        let folds = &runner.shared.folds;
        drop(runner.load(run).await.unwrap());
        assert!(folds.take(&SpaceName::main(), run, 1).is_none());
        assert_eq!(heads(&runner), []);
    }

    #[tokio::test]
    async fn cached_fold_is_not_visible_in_another_space() {
        let (runner, run) = submitted().await;
        let other = SpaceName::parse("other").unwrap();
        drop(runner.load(run).await.unwrap());
        assert!(runner.shared.folds.take(&other, run, 0).is_none());
        let elsewhere = runner.in_space(other).shared.folded(run).await.map(drop).unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::NotFound, "{elsewhere}");
        assert_eq!(heads(&runner).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_fold_expires_after_a_minute() {
        let (runner, run) = submitted().await;
        drop(runner.load(run).await.unwrap());
        tokio::time::sleep(IDLE_TIMEOUT / 2).await;
        drop(runner.load(run).await.unwrap());
        tokio::time::sleep(IDLE_TIMEOUT * 3 / 4).await;
        assert_eq!(heads(&runner).len(), 1);
        tokio::time::sleep(IDLE_TIMEOUT).await;
        assert_eq!(heads(&runner), []);
        // And what comes afterwards goes, too.
        drop(runner.load(run).await.unwrap());
        tokio::time::sleep(IDLE_TIMEOUT * 2).await;
        assert_eq!(heads(&runner), []);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_fold_expires_after_the_tidying_task_was_aborted() {
        let (runner, run) = submitted().await;
        let folds = Arc::clone(&runner.shared.folds);
        let janitor = tokio::spawn(evict_idle_until_empty(Arc::downgrade(&folds)));
        folds.is_tidied.store(true, Ordering::Release);
        tokio::task::yield_now().await;
        janitor.abort();
        assert!(janitor.await.unwrap_err().is_cancelled());
        drop(runner.load(run).await.unwrap());
        tokio::time::sleep(IDLE_TIMEOUT * 2).await;
        assert_eq!(heads(&runner), []);
    }

    #[tokio::test]
    async fn fold_cache_evicts_the_least_recent_and_counts_all_but_the_largest() {
        let (runner, run) = submitted().await;
        let of_bytes = |number: u32, bytes: usize| {
            let mut watch = runner.watch(RunId::derived(&[&number.to_string()]));
            watch.pretend_to_have_read(bytes);
            watch
        };
        let folds = &runner.shared.folds;
        drop(runner.load(run).await.unwrap());
        for number in [1, 2] {
            folds.put(of_bytes(number, BYTES_MAX / 2 - (1 << 20)), 0);
        }
        assert_eq!(heads(&runner).len(), 3);
        let kept = || -> Vec<RunId> { heads(&runner).into_iter().map(|(run, _)| run).collect() };
        let runs = |numbers: &[u32]| -> Vec<RunId> {
            let run = |number: &u32| RunId::derived(&[&number.to_string()]);
            numbers.iter().map(run).collect()
        };
        for number in [3, 4] {
            folds.put(of_bytes(number, BYTES_MAX / 2), 0);
        }
        assert_eq!(kept(), runs(&[2, 3, 4]));
        folds.put(of_bytes(5, BYTES_MAX * 2), 0);
        assert_eq!(kept(), runs(&[3, 4, 5]), "the largest does not count");
        folds.put(of_bytes(6, BYTES_MAX * 3), 0);
        assert_eq!(kept(), runs(&[6]));
        drop(runner.load(run).await.unwrap());
        assert_eq!(heads(&runner).len(), 2);
    }
}
