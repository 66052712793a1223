//! What a commit does to turns.

use folio_memory::id::TurnHandle;
use folio_memory::turn::{NewTurn, TurnEnd};
use folio_memory::{Turn, TurnId};

use super::{Facts, Plan, PlannedTurn};
use crate::error::{StoreError, not_found};
use crate::place::Place;

impl<F: Facts> Plan<'_, '_, F> {
    pub(super) fn begin_turn(&mut self, new: &NewTurn) -> Result<(), F::Failure> {
        let is_planned = self.turns.iter().any(|planned| planned.turn.begun.id == new.id);
        if is_planned || self.facts.turn(new.id)?.is_some() {
            return Err(StoreError::Invalid(format!("turn {} exists already", new.id)).into());
        }
        self.ends.turns += 1;
        let handle = TurnHandle(self.ends.turns);
        self.turns.push(PlannedTurn {
            place: Place::of(self.space, handle.0),
            turn: Turn::begun(new.clone(), handle, self.seq, self.at),
            is_new: true,
        });
        Ok(())
    }

    pub(super) fn end_turn(&mut self, id: TurnId, end: &TurnEnd) -> Result<(), F::Failure> {
        let (seq, at) = (self.seq, self.at);
        let turn = self.named_turn(id)?;
        if turn.end(end.clone(), seq, at) {
            Ok(())
        } else {
            let turn = turn.handle.to_string();
            Err(StoreError::TurnEnded { turn }.into())
        }
    }

    /// The turn with the id `id`, in the state after the changes so far.
    pub(super) fn named_turn(&mut self, id: TurnId) -> Result<&mut Turn, F::Failure> {
        let index = match self.turns.iter().position(|planned| planned.turn.begun.id == id) {
            Some(index) => index,
            None => {
                let found = self.facts.turn(id)?;
                let turn = found.ok_or_else(|| not_found("turn", id))?;
                let place = Place::of(self.space, turn.handle.0);
                self.turns.push(PlannedTurn {
                    place,
                    turn,
                    is_new: false,
                });
                self.turns.len() - 1
            }
        };
        Ok(&mut self.turns[index].turn)
    }
}
