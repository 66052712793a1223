//! Whether the rows of runs follow from the log.

use rusqlite::OptionalExtension;

use super::super::journal::Touched;
use super::super::place::Place;
use super::super::run::{self, RUNNING};
use super::Replay;
use crate::commit::RunAppend;
use crate::sqlite::error::Failure;
use crate::store::LogRow;

/// What the row of a run says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    title: String,
    status: String,
}

impl Replay<'_, '_> {
    /// Begins a run, or takes in what a commit says of it.
    pub(super) fn append(&mut self, row: &LogRow, append: &RunAppend) -> Result<(), Failure> {
        let run = append.run;
        let starts = matches!(append.events.first(), Some(folio_engine::Event::RunStarted { .. }));
        if starts {
            self.counts.runs += 1;
        }
        let Some(place) = run::place_of(self.conn, self.space, run)? else {
            self.problem(|| format!("{run} of commit {} is missing", row.seq));
            return Ok(());
        };
        let wanted = self.counts.runs;
        if starts && place.number() != wanted {
            self.problem(|| format!("{run} is r{}, not r{wanted}", place.number()));
        }
        if starts {
            let told = Told {
                title: append.title.clone().unwrap_or_default(),
                status: append.status.clone().unwrap_or_else(|| RUNNING.to_owned()),
            };
            self.runs.insert(place.number(), told);
        } else if let (Some(told), Some(status)) = (self.runs.get_mut(&place.number()), &append.status) {
            told.status.clone_from(status);
        }
        self.expect_touch(Touched::Run, place.number(), folio_memory::Seq(0), row.seq)
    }

    /// Compares what the rows of runs say with what the log makes of them.
    pub(super) fn compare_runs(&mut self) -> Result<(), Failure> {
        for (number, made) in std::mem::take(&mut self.runs) {
            let found = self
                .conn
                .prepare_cached("SELECT title, status FROM run WHERE place = ?1")?
                .query_row([Place::of(self.space, number)], |row| {
                    let (title, status) = (row.get(0)?, row.get(1)?);
                    Ok(Told { title, status })
                });
            if found.optional()? != Some(made) {
                self.problem(|| format!("run r{number} is not what the log makes of it"));
            }
        }
        Ok(())
    }
}
