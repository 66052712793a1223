//! Whether the rows of turns follow from the log.

use folio_memory::id::TurnHandle;
use folio_memory::{Change, Turn};

use super::super::place::Place;
use super::super::turn;
use super::{Replay, read};
use crate::sqlite::error::Failure;
use crate::store::LogRow;

impl Replay<'_, '_> {
    /// Makes a turn again, or ends it.
    pub(super) fn turn(&mut self, row: &LogRow, change: &Change) {
        match change {
            Change::BeginTurn(new) => {
                self.counts.turns += 1;
                let made = Turn::begun((**new).clone(), TurnHandle(self.counts.turns), row.seq, row.at);
                self.turns.insert(new.id, made);
            }
            Change::EndTurn { turn, end } => {
                let ended = self
                    .turns
                    .get_mut(turn)
                    .map(|made| made.end((**end).clone(), row.seq, row.at));
                match ended {
                    Some(true) => {}
                    Some(false) => self.problem(|| format!("commit {} ends {turn}, which had ended", row.seq)),
                    None => self.problem(|| format!("commit {} ends {turn}, which is not there", row.seq)),
                }
            }
            _ => {}
        }
    }

    /// Compares the turns that were made again with those that are there.
    pub(super) fn compare_turns(&mut self) -> Result<(), Failure> {
        for made in std::mem::take(&mut self.turns).into_values() {
            let handle = made.handle;
            let place = Place::of(self.space, handle.0);
            match read(turn::by_id(self.conn, self.space, made.begun.id))? {
                Ok(Some(found)) if found == made => {}
                Ok(Some(_)) => self.problem(|| format!("turn {handle} is not what the log makes of it")),
                Ok(None) => self.problem(|| format!("turn {handle} is missing")),
                Err(reason) => self.problem(|| reason),
            }
            if !turn::has_columns(self.conn, place, &made)? {
                self.problem(|| format!("turn {handle} is filed under something that it is not"));
            }
        }
        Ok(())
    }
}
