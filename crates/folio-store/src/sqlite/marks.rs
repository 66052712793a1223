//! Marks of what lists of memory show: the same mark means that nothing in them has changed.
//!
//! The writer of this process knows what its commits change. Commits of other processes may have changed anything.
//! While a commit that changes something is on its way to the disk there is no mark, because it is uncertain which
//! state a reader will see.

use std::collections::HashMap;

use folio_memory::Seq;
use parking_lot::{Mutex, MutexGuard};

use super::place::SpaceId;
use crate::store::MemoryMark;

/// The marks of a store's spaces.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<HashMap<SpaceId, State>>);

/// A written commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrote {
    pub(super) space: SpaceId,
    pub(super) seq: Seq,
    /// Whether the commit changes what lists of memory show.
    pub(super) changes_memory: bool,
    /// Whether the commit writes to pages of runs in another way than the run itself does.
    pub(super) changes_pages: bool,
}

/// The changes of a transaction that is about to become durable.
#[derive(Debug)]
pub(super) struct Changing {
    space: SpaceId,
    seq: Seq,
    memory: bool,
    pages: bool,
}

#[derive(Debug, Default)]
struct State {
    /// The last commit up to which all changes are known.
    through: Seq,
    number: u64,
    /// The last commit that may have changed something.
    since: Seq,
    /// The same for what others wrote to pages of runs.
    pages: u64,
    /// How many transactions that change something are under way.
    under_way: u32,
}

impl Marks {
    /// Announces that a transaction with these commits is about to become durable. The result must be passed to
    /// [`Self::settle`].
    pub(super) fn begin(&self, wrote: &[Wrote]) -> Vec<Changing> {
        if wrote.is_empty() {
            return Vec::new();
        }
        let mut states = self.states();
        let mut changing = Vec::new();
        for Wrote {
            space,
            seq,
            changes_memory,
            changes_pages,
        } in wrote
        {
            let state = states.entry(*space).or_default();
            let follows = state.through.0 + 1 == seq.0;
            if *changes_memory || *changes_pages || !follows {
                state.under_way += 1;
                changing.push(Changing {
                    space: *space,
                    seq: *seq,
                    memory: *changes_memory || !follows,
                    pages: *changes_pages || !follows,
                });
            }
            state.through = *seq;
        }
        changing
    }

    /// Reports the outcome of that transaction.
    pub(super) fn settle(&self, changing: &[Changing], wrote: &[Wrote], is_committed: bool) {
        if wrote.is_empty() {
            return;
        }
        let mut states = self.states();
        for Changing {
            space,
            seq,
            memory,
            pages,
        } in changing
        {
            let state = states.entry(*space).or_default();
            if *memory {
                state.number += 1;
                state.since = *seq;
            }
            state.pages += u64::from(*pages);
            state.under_way = state.under_way.saturating_sub(1);
        }
        if !is_committed {
            for Wrote { space, .. } in wrote {
                // These numbers will be given to other commits.
                states.entry(*space).or_default().through = Seq(0);
            }
        }
    }

    /// The mark of `space` for a reader that sees it up to commit `head` and reads after this call; `None` if there is
    /// none now.
    pub(super) fn at(&self, space: SpaceId, head: Seq) -> Option<MemoryMark> {
        let mut states = self.states();
        let state = states.entry(space).or_default();
        if head > state.through {
            state.through = head;
            state.number += 1;
            state.pages += 1;
            state.since = head;
        }
        (state.under_way == 0).then_some(MemoryMark {
            number: state.number,
            pages: state.pages,
            since: state.since,
            as_of: head,
        })
    }

    fn states(&self) -> MutexGuard<'_, HashMap<SpaceId, State>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(1);

    fn wrote(seq: u64, changes_memory: bool) -> [Wrote; 1] {
        [Wrote {
            space: SPACE,
            seq: Seq(seq),
            changes_memory,
            changes_pages: false,
        }]
    }

    /// The mark's numbers for memory and for pages.
    fn at(marks: &Marks, head: u64) -> Option<(u64, u64)> {
        marks.at(SPACE, Seq(head)).map(|mark| (mark.number, mark.pages))
    }

    fn commit(marks: &Marks, wrote: &[Wrote], is_committed: bool) {
        let changing = marks.begin(wrote);
        marks.settle(&changing, wrote, is_committed);
    }

    #[test]
    fn memory_mark_changes_only_with_commits_that_change_memory() {
        let marks = Marks::default();
        let first = at(&marks, 3);
        commit(&marks, &wrote(4, false), true);
        assert_eq!(at(&marks, 4), first);
        commit(&marks, &wrote(5, true), true);
        assert_ne!(at(&marks, 5), first);
        commit(&marks, &wrote(6, false), true);
        let mark = marks.at(SPACE, Seq(6)).unwrap();
        assert_eq!((mark.since, mark.as_of), (Seq(5), Seq(6)));
    }

    #[test]
    fn commit_that_only_changes_pages_moves_only_the_page_mark() {
        let marks = Marks::default();
        let first = at(&marks, 3).unwrap();
        let mut onto_a_page = wrote(4, false);
        onto_a_page[0].changes_pages = true;
        let changing = marks.begin(&onto_a_page);
        assert_eq!(at(&marks, 3), None, "it is on its way");
        marks.settle(&changing, &onto_a_page, true);
        let second = at(&marks, 4).unwrap();
        assert_eq!((second.0, second.1 > first.1), (first.0, true));
    }

    #[test]
    fn commits_of_other_processes_change_the_memory_mark() {
        let marks = Marks::default();
        let first = at(&marks, 3);
        let second = at(&marks, 4);
        assert_ne!(first, second, "commit 4 is not ours");
        // Commit 5 is not ours, either, and nobody asked for a mark between it and ours.
        commit(&marks, &wrote(6, false), true);
        assert_ne!(at(&marks, 6), second);
    }

    #[test]
    fn memory_mark_is_absent_while_a_change_is_in_progress() {
        let marks = Marks::default();
        assert!(at(&marks, 3).is_some());
        let wrote = wrote(4, true);
        let changing = marks.begin(&wrote);
        assert_eq!(at(&marks, 3), None);
        marks.settle(&changing, &wrote, true);
        assert!(at(&marks, 4).is_some());
    }

    #[test]
    fn memory_mark_changes_when_a_failed_commit_number_is_reused() {
        let marks = Marks::default();
        let first = at(&marks, 3);
        commit(&marks, &wrote(4, false), false);
        assert_ne!(at(&marks, 4), first, "somebody else wrote commit 4");
    }
}
