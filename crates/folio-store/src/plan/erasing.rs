//! Erases the content of an entry, a turn or a run, as one of the changes of a commit.

use folio_engine::Run;
use folio_memory::id::RunHandle;
use folio_memory::keeping::ErasedFor;
use folio_memory::{EntryId, RunId, TurnId};

use super::planned::{ErasedRun, ErasedTurn};
use super::{ErasedEntry, Facts, Plan};
use crate::error::{StoreError, not_found};

impl<F: Facts> Plan<'_, '_, F> {
    /// Erases content from before this commit.
    pub(super) fn erase_entry(&mut self, id: EntryId, why: ErasedFor, expected: Option<u32>) -> Result<(), F::Failure> {
        let index = self.find_entry(id)?.ok_or_else(|| not_found("entry", id))?;
        let (seq, at) = (self.seq, self.at);
        if self.entries.items[index].new.is_some() {
            let message = format!("{id} cannot be added and erased in one commit");
            return Err(StoreError::Invalid(message).into());
        }
        let entry = self.current(index, id)?;
        let found = entry.version;
        let mut erased = entry.clone();
        let is_changed = erased.erase(why, seq, at);
        if let Some(expected) = expected.filter(|expected| is_changed && *expected != found) {
            return Err(StoreError::StaleVersion {
                entry: erased.handle.to_string(),
                found,
                expected,
            }
            .into());
        }
        if is_changed {
            self.gone.entries.push(ErasedEntry {
                id,
                place: self.entries.items[index].place,
                created: erased.created_seq,
            });
            *self.current(index, id)? = erased;
            self.entries.items[index].is_changed = true;
        }
        self.named_entries.push((id, index, is_changed, Vec::new()));
        Ok(())
    }

    /// Erases what was said in a turn before this commit.
    pub(super) fn erase_turn(&mut self, id: TurnId) -> Result<(), F::Failure> {
        let seq = self.seq;
        let turn = self.named_turn(id)?;
        let (began, ended) = (turn.started_seq, turn.ended.as_ref().map(|ended| ended.seq));
        if began == seq || ended == Some(seq) {
            let message = format!("{id} cannot begin or end and be erased in one commit");
            return Err(StoreError::Invalid(message).into());
        }
        if turn.erase() {
            self.gone.turns.push(ErasedTurn { id, began, ended });
        }
        Ok(())
    }

    /// Forgets a run that has ended. Does nothing if it was forgotten before.
    pub(super) fn erase_run(&mut self, id: RunId) -> Result<(), F::Failure> {
        let place = self.facts.run_place(id)?.ok_or_else(|| not_found("run", id))?;
        match self.facts.run_status(place)?.as_str() {
            Run::FORGOTTEN => return Ok(()),
            Run::RUNNING => {
                let run = RunHandle(place.number()).to_string();
                return Err(StoreError::RunNotEnded { run }.into());
            }
            _ => {}
        }
        self.gone.runs.push(ErasedRun { id, place });
        Ok(())
    }
}
