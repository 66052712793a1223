//! Locks on what the calls of a runner's runs write: calls of different runs that write the same resource are made one
//! after the other, like those of one run (E9.15). Names mean what they mean to the engine: a path whose parts are
//! separated by `/`.
//!
//! A call takes all of its names at once, at the moment when its beginning is recorded, and never waits for one while
//! it has another, so there is no deadlock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use std::time::Duration;

use folio_engine::Run;
use folio_engine::run::WrittenElsewhere;
use folio_memory::{RunId, Seq};
use folio_store::workspace::Workspace;
use serde::Serialize;
use tokio::sync::Notify;

/// How long a name that the store refused is waited for until the store is asked again, if nothing is committed: its
/// driver may be gone.
const FOREIGN_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The minimum interval between these questions.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The names that runs have taken. Several runs may have one: what a call had taken before its driver died stays taken.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    taken: Mutex<BTreeMap<String, Vec<RunId>>>,
    /// The names of runs that other processes drive, known from the store's refusals.
    elsewhere: Mutex<BTreeMap<String, Vec<RunId>>>,
    released: Notify,
}

/// The locks of one run, until this is dropped.
#[derive(Debug)]
pub(crate) struct RunLocks {
    locks: Arc<Locks>,
    run: RunId,
    /// The names that it has taken here.
    names: Mutex<Vec<String>>,
    /// The names that it has in the store, sorted; `None` if that is unknown.
    stored: Mutex<Option<Vec<String>>>,
    /// Whether a call had to wait for another run.
    has_waited: Arc<AtomicBool>,
    /// What the last call that had to wait is waiting for.
    waiting_for: Arc<Mutex<Option<HeldUp>>>,
}

/// Why a call of one run waits: a call of another run writes the same resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct HeldUp {
    /// The resource, as a path or another name.
    pub name: String,
    /// The run whose call writes it.
    pub by: RunId,
}

/// The operation in the trace for a run that waits for another one.
pub(crate) const WAIT_FOR_RUN: &str = "wait_for_run";

impl HeldUp {
    /// The form for the trace.
    pub(crate) fn words(&self) -> String {
        format!("{} writes {}", self.by, self.name)
    }

    /// Parses what [`HeldUp::words`] wrote.
    pub(crate) fn from_words(words: &str) -> Option<Self> {
        let (by, name) = words.split_once(" writes ")?;
        Some(Self {
            name: name.to_owned(),
            by: by.parse().ok()?,
        })
    }
}

impl Locks {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, Vec<RunId>>> {
        self.taken.lock()
    }

    fn elsewhere(&self) -> MutexGuard<'_, BTreeMap<String, Vec<RunId>>> {
        self.elsewhere.lock()
    }

    /// The first lock of a run other than `run` that conflicts with one of `names`, here or, as far as the store said,
    /// elsewhere.
    fn find_conflict(&self, locked: &BTreeMap<String, Vec<RunId>>, run: RunId, names: &[String]) -> Option<HeldUp> {
        let elsewhere = self.elsewhere();
        names
            .iter()
            .find_map(|name| conflicting_lock(locked, run, name).or_else(|| conflicting_lock(&elsewhere, run, name)))
    }

    /// Notes that `run`, which another process drives, had `name` at commit `head`, until the store says that it has it
    /// no more.
    ///
    /// Whoever waits does not just try again with every commit of that run: each refusal folds a run anew.
    fn note_elsewhere(self: &Arc<Self>, workspace: &Workspace, name: String, run: RunId, head: Seq) {
        {
            let mut elsewhere = self.elsewhere();
            let runs = elsewhere.entry(name.clone()).or_default();
            if runs.contains(&run) {
                return;
            }
            runs.push(run);
        }
        let (locks, workspace) = (Arc::downgrade(self), workspace.clone());
        tokio::spawn(async move {
            let mut seen = head;
            let locks = loop {
                // Nobody may be left who waits.
                if locks.strong_count() == 0 {
                    return;
                }
                let held_names = workspace.store().written_names(workspace.space(), run).await;
                // Store errors surface at the next commit of a driver.
                if held_names.is_ok_and(|names| names.contains(&name)) {
                    let next = workspace.store().wait(workspace.space(), seen);
                    if let Ok(Ok(head)) = tokio::time::timeout(FOREIGN_LOCK_TIMEOUT, next).await {
                        seen = head;
                    }
                    tokio::time::sleep(MIN_POLL_INTERVAL).await;
                } else if let Some(locks) = locks.upgrade() {
                    break locks;
                }
            };
            let mut elsewhere = locks.elsewhere();
            if let Some(runs) = elsewhere.get_mut(&name) {
                runs.retain(|owner| *owner != run);
            }
            elsewhere.retain(|_, runs| !runs.is_empty());
            drop(elsewhere);
            locks.released.notify_waiters();
        });
    }
}

/// The lock of a run other than `run` on `name`, on something that contains it, or on something inside it.
fn conflicting_lock(locked: &BTreeMap<String, Vec<RunId>>, run: RunId, name: &str) -> Option<HeldUp> {
    let others = |name: &str, owners: &[RunId]| {
        let by = owners.iter().copied().find(|owner| *owner != run)?;
        Some(HeldUp {
            name: name.to_owned(),
            by,
        })
    };
    let mut ancestors = std::iter::successors(Some(name), |at| Some(at.rsplit_once('/')?.0));
    let prefix = format!("{name}/");
    ancestors.find_map(|at| others(at, locked.get(at)?)).or_else(|| {
        let descendants = locked.range(prefix.clone()..);
        let mut descendants = descendants.take_while(|(name, _)| name.starts_with(&prefix));
        descendants.find_map(|(name, owners)| others(name, owners))
    })
}

impl RunLocks {
    /// The locks of `run`. Takes those names of its calls in flight that are free.
    pub(crate) fn of(locks: &Arc<Locks>, run: &Run) -> Self {
        let written: Vec<String> = run
            .held_resource_names()
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        let run_locks = Self {
            locks: Arc::clone(locks),
            run: run.id(),
            names: Mutex::default(),
            // The first commit that writes the names of this run replaces what another driver of it left in the store.
            stored: Mutex::new(written.is_empty().then(Vec::new)),
            has_waited: Arc::default(),
            waiting_for: Arc::default(),
        };
        for name in written {
            run_locks.take(&[name]);
        }
        run_locks.take_waited();
        run_locks
    }

    /// Tells the engine whether calls of other runs have conflicting names: then the call waits, and so does the driver
    /// of the run.
    pub(crate) fn elsewhere(&self) -> WrittenElsewhere {
        let (locks, run, wait_flag) = (Arc::clone(&self.locks), self.run, Arc::clone(&self.has_waited));
        let last_conflict = Arc::clone(&self.waiting_for);
        Arc::new(move |names| {
            let conflict = locks.find_conflict(&locks.taken(), run, names);
            let is_blocked = conflict.is_some();
            if is_blocked {
                wait_flag.store(true, Ordering::Relaxed);
                *last_conflict.lock() = conflict;
            }
            is_blocked
        })
    }

    /// What the last call that had to wait for another run is waiting for.
    pub(crate) fn held_up(&self) -> Option<HeldUp> {
        self.waiting_for.lock().clone()
    }

    /// Takes all of `names`, or none of them if another run was faster.
    pub(crate) fn take(&self, names: &[String]) -> bool {
        if names.is_empty() {
            return true;
        }
        let mut owned = self.names();
        let mut locked = self.locks.taken();
        if let Some(conflict) = self.locks.find_conflict(&locked, self.run, names) {
            self.has_waited.store(true, Ordering::Relaxed);
            *self.waiting_for.lock() = Some(conflict);
            return false;
        }
        for name in names {
            if !owned.contains(name) {
                locked.entry(name.clone()).or_default().push(self.run);
                owned.push(name.clone());
            }
        }
        true
    }

    /// Releases what `run` no longer writes, once the store knows.
    pub(crate) fn follow(&self, run: &Run) {
        let mut names = self.names();
        if names.is_empty() {
            return;
        }
        let written = run.held_resource_names();
        let stored = self.stored();
        let is_held = |name: &String| {
            written.iter().any(|(written_name, _)| written_name == name)
                || stored.as_ref().is_some_and(|stored| stored.contains(name))
        };
        let held: Vec<String> = names.iter().filter(|name| is_held(name)).cloned().collect();
        drop(stored);
        if held.len() != names.len() {
            self.replace(&mut names, held);
        }
    }

    /// The names that `run` has taken for its calls, sorted, if the store does not know them yet: for the commit that
    /// stores them.
    pub(crate) fn names_to_store(&self, run: &Run) -> Option<Vec<String>> {
        let names = self.names();
        let stored = self.stored();
        if names.is_empty() && stored.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let written = run.held_resource_names();
        let held = names
            .iter()
            .filter(|name| written.iter().any(|(written_name, _)| written_name == name));
        let mut held: Vec<String> = held.cloned().collect();
        held.sort_unstable();
        (stored.as_ref() != Some(&held)).then_some(held)
    }

    /// Notes that the store knows that `run` has `names`, and releases what is no longer written.
    pub(crate) fn mark_stored(&self, names: Vec<String>, run: &Run) {
        *self.stored() = Some(names);
        self.follow(run);
    }

    /// Notes that the store refused a name that conflicts with `name`: a call of `other`, which another process drives,
    /// writes it. `head` was the last commit of the space at that time.
    pub(crate) fn note_refusal(&self, workspace: &Workspace, name: &str, other: RunId, head: Seq) {
        let mut names = self.names();
        let conflicts = BTreeMap::from([(name.to_owned(), vec![other])]);
        let kept = names
            .iter()
            .filter(|held_name| conflicting_lock(&conflicts, self.run, held_name).is_none())
            .cloned()
            .collect();
        self.locks.note_elsewhere(workspace, name.to_owned(), other, head);
        self.replace(&mut names, kept);
    }

    fn replace(&self, names: &mut Vec<String>, by: Vec<String>) {
        let mut locked = self.locks.taken();
        for name in std::mem::replace(names, by) {
            if let Some(owners) = locked.get_mut(&name) {
                owners.retain(|owner| *owner != self.run);
            }
        }
        locked.retain(|_, owners| !owners.is_empty());
        for name in names.iter() {
            locked.entry(name.clone()).or_default().push(self.run);
        }
        drop(locked);
        self.locks.released.notify_waiters();
    }

    fn stored(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.stored.lock()
    }

    /// Whether a call had to wait since the last time this was called.
    pub(crate) fn take_waited(&self) -> bool {
        self.has_waited.swap(false, Ordering::Relaxed)
    }

    /// The shared locks, to wait for a release.
    pub(crate) fn locks(&self) -> Arc<Locks> {
        Arc::clone(&self.locks)
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock()
    }
}

impl Locks {
    /// Waits until some run releases names; counts from the moment when this is polled or enabled.
    pub(crate) fn wait_for_release(&self) -> tokio::sync::futures::Notified<'_> {
        self.released.notified()
    }
}

impl Drop for RunLocks {
    fn drop(&mut self) {
        let mut names = std::mem::take(self.names.get_mut());
        if !names.is_empty() {
            self.replace(&mut names, Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_engine::template::Templates;
    use folio_memory::Timestamp;
    use folio_testkit::SeededIds;

    use super::*;

    fn run(ids: &SeededIds) -> Run {
        let id = RunId::draw(ids, Timestamp::from_millis(1));
        Run::new(id, Arc::new(Templates::new()))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn run_locks_are_taken_all_or_none_until_released_e9_15() {
        let (locks, ids) = (Arc::new(Locks::default()), SeededIds::new(1));
        let (one, other) = (run(&ids), run(&ids));
        let first = RunLocks::of(&locks, &one);
        let second = RunLocks::of(&locks, &other);
        assert!(first.take(&names(&["/repo/src"])));
        assert!(
            first.take(&names(&["/repo/src/main.rs"])),
            "its own does not keep it waiting"
        );
        for met in [&["/repo"][..], &["/repo/src/lib.rs"], &[""], &["desk", "/repo/src"]] {
            assert!(!second.take(&names(met)), "{met:?}");
            assert!((second.elsewhere())(&names(met)), "{met:?}");
            let by = one.id();
            let name = "/repo/src".to_owned();
            assert_eq!(second.held_up(), Some(HeldUp { name, by }), "{met:?}");
        }
        assert!(second.take_waited() && !second.take_waited());
        assert!(second.take(&names(&["/repo/src2", "desk"])));
        assert!(
            !first.take(&names(&["desk"])),
            "none of the names that were refused was kept"
        );
        // Nothing of it is written any more, as its journal says.
        first.follow(&one);
        assert!(second.take(&names(&["/repo/src/lib.rs"])));
        drop(second);
        assert!(first.take(&names(&["/repo", "desk"])));
    }
}
