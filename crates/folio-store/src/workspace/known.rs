//! Ids that are known to exist.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::{Mutex, MutexGuard};

/// How many ids are remembered at most: about 64 KiB. Forgotten ones are looked up again.
const KNOWN_MAX: usize = 4_096;

/// Ids of things that exist and are never removed, so that the knowledge stays true within one lineage of the store.
#[derive(Debug)]
pub(super) struct KnownIds<T>(Mutex<HashSet<T>>);

impl<T> Default for KnownIds<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash> KnownIds<T> {
    pub(super) fn contains(&self, id: &T) -> bool {
        self.locked().contains(id)
    }

    pub(super) fn insert(&self, id: T) {
        let mut known = self.locked();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id);
    }

    pub(super) fn forget(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<T>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ids_stay_limited_and_include_the_latest() {
        let known = KnownIds::default();
        for id in 0..2 * KNOWN_MAX {
            known.insert(id);
            assert!(known.contains(&id));
        }
        assert!(!known.contains(&0));
        assert!(known.locked().len() <= KNOWN_MAX);
    }
}
