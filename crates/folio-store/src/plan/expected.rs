//! What must hold for a commit; `order` and `written` have the expectations about their subjects.

use folio_memory::{RunId, Seq, TurnId};

use super::{Facts, Plan};
use crate::commit::Expected;
use crate::error::{StoreError, not_found};

impl<'c, F: Facts> Plan<'_, 'c, F> {
    pub(super) fn expect(&mut self, expected: &'c [Expected]) -> Result<(), F::Failure> {
        for expected in expected {
            match expected {
                Expected::RunHead { run, head, fence } => {
                    self.expect_run(*run, *head, *fence)?;
                }
                Expected::SpaceHead(head) if self.ends.head > *head => {
                    return Err(StoreError::StaleSpace {
                        found: self.ends.head,
                        expected: *head,
                    }
                    .into());
                }
                Expected::TurnHead { turn, head } => self.expect_turn(*turn, *head)?,
                // What the commit adds is looked at once all of it is there.
                Expected::SpaceHead(_) | Expected::NoCircle => {}
                Expected::Writes { run, names } => self.expect_to_write(*run, names)?,
                Expected::MayReplace { by, entries } => self.expect_to_replace(*by, entries)?,
                Expected::MayWait { entry, others } => self.expect_to_wait(*entry, others)?,
                Expected::MayBegin { entry } => self.expect_to_begin(*entry)?,
                Expected::Policy(expected) => {
                    let (found, expected) = (self.facts.policy_version()?, *expected);
                    if found != expected {
                        return Err(StoreError::OtherPolicy { found, expected }.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Requires that memory was not changed in `turn` after commit `head`.
    fn expect_turn(&mut self, turn: TurnId, head: Seq) -> Result<(), F::Failure> {
        if self.ends.head <= head {
            return Ok(());
        }
        match self.facts.turn_written(turn, head)? {
            Some(found) => Err(StoreError::StaleSpace { found, expected: head }.into()),
            None => Ok(()),
        }
    }

    /// Requires that the journal of a run ends at `head`, and that `fence`, if given, is still the current one.
    fn expect_run(&mut self, run: RunId, head: Seq, fence: Option<u64>) -> Result<(), F::Failure> {
        let place = self.facts.run_place(run)?.ok_or_else(|| not_found("run", run))?;
        if let Some(fence) = fence {
            let (owner, current) = self.facts.driver(place)?;
            // Checked first, because a driver that lost the run must stop, and not read again.
            if owner.is_none() || current != fence {
                let detail = if owner.is_none() {
                    "it was given up"
                } else {
                    "it was taken over"
                };
                return Err(StoreError::RunTaken {
                    run: run.to_string(),
                    detail: Some(detail.to_owned()),
                }
                .into());
            }
        }
        let found = self.facts.run_head(place)?;
        if found == head {
            Ok(())
        } else {
            Err(StoreError::StaleRun {
                run: run.to_string(),
                found,
                expected: head,
            }
            .into())
        }
    }
}
