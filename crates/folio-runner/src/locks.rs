//! What calls of the runs of one runner write: calls of different runs that write the same are made one after the other, as those of one
//! run are (E9.15). Names mean what they mean to the engine: a path, whose parts stand between `/`.
//!
//! A call takes all of its names at once, in the moment in which its beginning is recorded, and waits for none while it has one: so nobody waits for ever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_engine::Run;
use folio_engine::run::WrittenElsewhere;
use folio_memory::RunId;
use tokio::sync::Notify;

/// The names that runs have. One may be had by several: what had begun before its driver died is not taken away.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    taken: Mutex<BTreeMap<String, Vec<RunId>>>,
    given_back: Notify,
}

/// Those of one run, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunLocks {
    locks: Arc<Locks>,
    run: RunId,
    /// The names that it has here.
    names: Mutex<Vec<String>>,
    /// Whether a call was kept waiting because of another run.
    waits: Arc<AtomicBool>,
}

impl Locks {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, Vec<RunId>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a run other than `run` has `name`, something around it or something inside of it.
fn meets(taken: &BTreeMap<String, Vec<RunId>>, run: RunId, name: &str) -> bool {
    let is_others = |owners: &Vec<RunId>| owners.iter().any(|owner| *owner != run);
    let around = std::iter::successors(Some(name), |at| Some(at.rsplit_once('/')?.0));
    if around.filter_map(|at| taken.get(at)).any(is_others) {
        return true;
    }
    let below = format!("{name}/");
    let mut inside = taken
        .range(below.clone()..)
        .take_while(|(name, _)| name.starts_with(&below));
    inside.any(|(_, owners)| is_others(owners))
}

impl RunLocks {
    /// Of `run`, which has what its journal says that it has.
    pub(crate) fn of(locks: &Arc<Locks>, run: &Run) -> Self {
        let own = Self {
            locks: Arc::clone(locks),
            run: run.id(),
            names: Mutex::default(),
            waits: Arc::default(),
        };
        own.follow(run);
        own
    }

    /// Whether calls of other runs have names that meet these, for the engine: then the call waits, and so does whoever drives the run.
    pub(crate) fn elsewhere(&self) -> WrittenElsewhere {
        let (locks, run, waits) = (Arc::clone(&self.locks), self.run, Arc::clone(&self.waits));
        Arc::new(move |names| {
            let taken = locks.taken();
            let is_met = names.iter().any(|name| meets(&taken, run, name));
            waits.fetch_or(is_met, Ordering::Relaxed);
            is_met
        })
    }

    /// Takes all of `names`, or none of them if another run was quicker.
    pub(crate) fn take(&self, names: &[String]) -> bool {
        if names.is_empty() {
            return true;
        }
        let mut taken = self.locks.taken();
        if names.iter().any(|name| meets(&taken, self.run, name)) {
            self.waits.store(true, Ordering::Relaxed);
            return false;
        }
        for name in names {
            taken.entry(name.clone()).or_default().push(self.run);
        }
        self.names().extend_from_slice(names);
        true
    }

    /// Gives back what `run` does not write any more, and has what it writes.
    pub(crate) fn follow(&self, run: &Run) {
        let mut names = self.names();
        let written = run.written();
        if names.is_empty() && written.is_empty() {
            return;
        }
        let written: Vec<String> = written.into_iter().map(|(name, _)| name.to_owned()).collect();
        names.sort_unstable();
        if *names != written {
            self.replace(&mut names, written);
        }
    }

    fn replace(&self, names: &mut Vec<String>, by: Vec<String>) {
        let mut taken = self.locks.taken();
        for name in std::mem::replace(names, by) {
            if let Some(owners) = taken.get_mut(&name) {
                owners.retain(|owner| *owner != self.run);
            }
        }
        taken.retain(|_, owners| !owners.is_empty());
        for name in names.iter() {
            taken.entry(name.clone()).or_default().push(self.run);
        }
        drop(taken);
        self.locks.given_back.notify_waiters();
    }

    /// Whether a call was kept waiting since somebody last asked.
    pub(crate) fn has_waited(&self) -> bool {
        self.waits.swap(false, Ordering::Relaxed)
    }

    /// What gives names back, for whoever waits.
    pub(crate) fn locks(&self) -> Arc<Locks> {
        Arc::clone(&self.locks)
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locks {
    /// Waits until some run gives names back; from the moment when this is polled, or enabled.
    pub(crate) fn given_back(&self) -> tokio::sync::futures::Notified<'_> {
        self.given_back.notified()
    }
}

impl Drop for RunLocks {
    fn drop(&mut self) {
        let mut names = std::mem::take(self.names.get_mut().unwrap_or_else(PoisonError::into_inner));
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
    fn a_run_has_all_of_its_names_or_none_until_it_gives_them_back_e9_15() {
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
        }
        assert!(second.has_waited() && !second.has_waited());
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
