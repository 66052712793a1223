//! What calls of runs write: the names that a run takes, and the runs with overlapping names (E9.15).

use folio_memory::RunId;

use super::{Facts, Plan};
use crate::error::{StoreError, not_found};
use crate::place::Place;

/// A name of another run that overlaps with what a commit takes, with that run's fence.
#[derive(Debug, Clone)]
pub(crate) struct OverlappingName {
    pub(crate) name: String,
    pub(crate) run: RunId,
    pub(crate) place: Place,
    /// Whether the driver of that run may write.
    pub(crate) is_driven: bool,
}

/// What calls of a run write from a commit on.
#[derive(Debug, Clone)]
pub(crate) struct PlannedWrites<'c> {
    pub(crate) run: RunId,
    pub(crate) place: Place,
    pub(crate) fence: u64,
    pub(crate) names: &'c [String],
    /// Runs that held overlapping names and whose drivers may no longer write: they are released.
    pub(crate) overtaken: Vec<Place>,
}

impl<'c, F: Facts> Plan<'_, 'c, F> {
    /// Requires that nobody else writes what calls of `run` write.
    pub(super) fn expect_to_write(&mut self, run: RunId, names: &'c [String]) -> Result<(), F::Failure> {
        let place = self.facts.run_place(run)?.ok_or_else(|| not_found("run", run))?;
        let (_, fence) = self.facts.driver(place)?;
        let mut overtaken = Vec::new();
        let met = if names.is_empty() {
            Vec::new()
        } else {
            self.facts.overlapping_names(place, names)?
        };
        for OverlappingName {
            name,
            run,
            place,
            is_driven,
        } in met
        {
            if is_driven {
                let head = self.ends.head;
                return Err(StoreError::WrittenElsewhere { name, run, head }.into());
            }
            overtaken.push(place);
        }
        overtaken.sort_unstable();
        overtaken.dedup();
        self.writes = Some(PlannedWrites {
            run,
            place,
            fence,
            names,
            overtaken,
        });
        Ok(())
    }
}

/// `name` and all paths around it, from the inside out.
pub(crate) fn enclosing_paths(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |at| Some(at.rsplit_once('/')?.0))
}

/// Whether two names are the same, or one lies inside the other.
pub(crate) fn names_overlap(name: &str, other: &str) -> bool {
    let is_in = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_in(name, other) || is_in(other, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_names_overlap_if_equal_or_nested_paths_e9_15() {
        for (one, other) in [("/a", "/a"), ("/a/b", "/a"), ("", "/a"), ("desk", "desk/x/y")] {
            assert!(names_overlap(one, other) && names_overlap(other, one), "{one} {other}");
        }
        for (one, other) in [("/a", "/b"), ("/a/b", "/a/c"), ("/ab", "/a"), ("desk", "/desk")] {
            assert!(
                !names_overlap(one, other) && !names_overlap(other, one),
                "{one} {other}"
            );
        }
        assert_eq!(enclosing_paths("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
    }
}
