//! Places that the spaces of a server share, so that no space takes all of them from the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio::SpaceName;
use parking_lot::Mutex;

use crate::spaces::Spaces;

/// Whether a space that holds `held` places may take one of the `free` ones. The only space of a server may take them
/// all; otherwise none holds more than it leaves free. So the first takes half of them, the next half of the rest, and
/// there is something left for those that come later.
pub(crate) const fn may_take(held: usize, free: usize, is_only: bool) -> bool {
    free > 0 && (is_only || held < free)
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All of them are taken.
    Full,
    /// The space holds its share.
    Share,
}

/// A number of places for all spaces of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedPlaces {
    capacity: usize,
    spaces: Spaces,
    held: Arc<Mutex<BTreeMap<SpaceName, usize>>>,
}

/// A place that a space holds until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: SharedPlaces,
    space: SpaceName,
}

impl SharedPlaces {
    /// Creates `capacity` places, all free, for `spaces`.
    pub(crate) fn new(capacity: usize, spaces: Spaces) -> Self {
        Self {
            capacity,
            spaces,
            held: Arc::default(),
        }
    }

    /// Takes a place for `space`.
    pub(crate) fn take(&self, space: &SpaceName) -> Result<Place, NoPlace> {
        let mut counts = self.held.lock();
        let free = self.capacity.saturating_sub(counts.values().sum());
        let count = counts.get(space).copied().unwrap_or_default();
        if !may_take(count, free, self.spaces.is_only_one()) {
            return Err(if free == 0 { NoPlace::Full } else { NoPlace::Share });
        }
        counts.insert(space.clone(), count + 1);
        drop(counts);
        Ok(Place {
            places: self.clone(),
            space: space.clone(),
        })
    }

    /// Returns how many places are taken.
    #[cfg(test)]
    pub(crate) fn taken_count(&self) -> usize {
        self.held.lock().values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.held.lock();
        if let Some(count) = counts.get_mut(&self.space) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.space);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> SpaceName {
        SpaceName::parse(name).unwrap()
    }

    /// Takes places for `space` until it gets none.
    fn take_all(places: &SharedPlaces, space: &str) -> (Vec<Place>, NoPlace) {
        let mut taken = Vec::new();
        loop {
            match places.take(&named(space)) {
                Ok(place) => taken.push(place),
                Err(why) => return (taken, why),
            }
        }
    }

    #[tokio::test]
    async fn only_space_takes_every_place() {
        let places = SharedPlaces::new(8, Spaces::for_tests().await);
        let (taken, why) = take_all(&places, "main");
        assert_eq!((taken.len(), why), (8, NoPlace::Full));
    }

    #[tokio::test]
    async fn each_space_takes_half_of_what_others_left_and_returns_it() {
        let spaces = Spaces::for_tests().await;
        let places = SharedPlaces::new(8, spaces.clone());
        spaces.runner_in(&named("other")).unwrap();
        let (first, why) = take_all(&places, "main");
        assert_eq!((first.len(), why), (4, NoPlace::Share));
        let (second, why) = take_all(&places, "other");
        assert_eq!((second.len(), why), (2, NoPlace::Share));
        let (third, _) = take_all(&places, "third");
        let (fourth, _) = take_all(&places, "fourth");
        assert_eq!((third.len(), fourth.len()), (1, 1));
        let (fifth, why) = take_all(&places, "fifth");
        assert_eq!((fifth.len(), why), (0, NoPlace::Full));
        drop((first, third, fourth));
        let (more, _) = take_all(&places, "other");
        assert_eq!(second.len() + more.len(), 4);
        drop((second, more));
        assert_eq!(places.taken_count(), 0);
        assert!(places.held.lock().is_empty(), "no space is kept that holds nothing");
    }
}
