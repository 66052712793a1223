//! Looks in the store for runs that nobody drives, and hands them in.
//!
//! A run that was submitted by somebody who did not hand it in, one that waits and whose question was answered by such a
//! somebody, all runs after Restate lost what it had: what is to be driven follows from the store. One that was handed in and that
//! Restate still offers in vain is driven here: it may keep a connection to a worker that refuses it, because that one is older
//! than whoever went on with the run. So is one that a worker on another store was called for, which Restate offers to nobody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use folio::Folio;
use folio::memory::causes::with_causes;
use folio::memory::{RunId, Seq, SpaceName};
use folio::runner::{Fate, RunnerError};
use folio::store::{RunQuery, RunRow, StoreError};

use crate::drives::Drives;
use crate::ingress::{Call, HandedIn, Ingress, request_at};
use crate::place::RunKey;

/// Runs that are looked at in one go, of each space.
const AT_A_TIME: u32 = 500;
/// How long Restate remembers what was handed in.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// Looks from which on a request that nobody took is asked after.
const ASKED_AFTER: u32 = 3;

/// Where a walk through the runs of the spaces is, and what was seen on it.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The run behind which each space is gone on with; not there: from the newest.
    from: HashMap<SpaceName, u64>,
    /// Runs that nobody drove at the last look, and where their journals ended.
    seen: HashMap<RunId, Seq>,
    /// What was handed in.
    handed_in: HashMap<RunId, Request>,
    /// Whether Restate took anything since it was begun to look.
    took: bool,
    /// What was wrong at the last look, as it was said; empty: nothing.
    wrong: String,
}

/// A run that was handed in.
#[derive(Debug)]
struct Request {
    /// Where its journal ended.
    head: Seq,
    call: Call,
    /// Looks since then, or since it was asked after, at which nobody drove it; `None`: nobody is called for it any more.
    open: Option<u32>,
}

/// What came of looking.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    Through,
    NoWorkerKnown,
}

/// What is to be done about a run.
#[derive(Debug, PartialEq, Eq)]
enum ToDo {
    Nothing,
    HandIn,
    AskAfter(Call),
}

impl Sweep {
    /// Looks every `pause`, until Restate turns out to know of no worker: it is new, or has lost what it had. `said` is told whenever
    /// another thing is wrong than the time before, and when nothing is any more; `reached` is where Restate would have to call.
    /// Gives whether it took anything before.
    pub(crate) async fn go_on<S: Fn(&str)>(
        &mut self,
        drives: &Arc<Drives>,
        ingress: &Ingress,
        reached: &str,
        pause: Duration,
        said: &S,
    ) -> bool {
        self.took = false;
        let mut again = tokio::time::interval(pause);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut since = tokio::time::Instant::now();
        loop {
            again.tick().await;
            if since.elapsed() > REMEMBERED {
                since = tokio::time::Instant::now();
                self.seen.clear();
                self.handed_in.clear();
            }
            match self.look(drives, ingress).await {
                Ok(Looked::NoWorkerKnown) => {
                    // What it took before it has lost.
                    self.handed_in.clear();
                    let wrong = format!("it knows of no worker; it has to be told of {reached} (--restate-admin)");
                    self.is_wrong(with_causes(&ingress.failed(wrong)), said);
                    return self.took;
                }
                Ok(Looked::Through) if self.wrong.is_empty() => {}
                Ok(Looked::Through) => {
                    said("runs that nobody drives are handed in again");
                    self.wrong.clear();
                }
                // A store or an ingress that is away is asked again.
                Err(error) => self.is_wrong(with_causes(&error), said),
            }
        }
    }

    fn is_wrong<S: Fn(&str)>(&mut self, wrong: String, said: &S) {
        if wrong != self.wrong {
            said(&format!("runs that nobody drives are not handed in: {wrong}"));
            self.wrong = wrong;
        }
    }

    /// Looks at the next runs of each space.
    async fn look(&mut self, drives: &Arc<Drives>, ingress: &Ingress) -> Result<Looked, RunnerError> {
        let folio = drives.folio();
        for space in folio.store().spaces().await? {
            for row in self.next_rows(folio, &space).await? {
                let key = RunKey {
                    space: space.clone(),
                    run: row.id,
                };
                let (call, open) = match self.decide(&row) {
                    ToDo::Nothing => continue,
                    ToDo::HandIn => match ingress.hand_in(&key, &request_at(&key, row.head)).await? {
                        HandedIn::NoWorkerKnown => return Ok(Looked::NoWorkerKnown),
                        HandedIn::Taken(call) => {
                            self.took = true;
                            (call, Some(0))
                        }
                    },
                    ToDo::AskAfter(call) => {
                        let is_taken = ingress.asked_after(&call, row.id).await? == Fate::Taken;
                        if !is_taken {
                            // Nobody waits for it here: what comes of it is in the store.
                            drop(drives.drive(&key));
                        }
                        (call, (!is_taken).then_some(0))
                    }
                };
                let head = row.head;
                self.handed_in.insert(row.id, Request { head, call, open });
            }
        }
        Ok(Looked::Through)
    }

    async fn next_rows(&mut self, folio: &Folio, space: &SpaceName) -> Result<Vec<RunRow>, StoreError> {
        let query = RunQuery {
            before: self.from.get(space).copied(),
            ..RunQuery::running(AT_A_TIME)
        };
        let rows = folio.store().runs(space, &query).await?;
        match rows.last() {
            Some(last) if rows.len() >= AT_A_TIME as usize => drop(self.from.insert(space.clone(), last.handle.0)),
            _ => drop(self.from.remove(space)),
        }
        Ok(rows)
    }

    /// Hands in a run that nobody drives and in which nothing has happened from one look to the next, once: one that was submitted
    /// just now has a driver in a moment.
    fn decide(&mut self, row: &RunRow) -> ToDo {
        if row.driven {
            self.seen.remove(&row.id);
            self.handed_in.remove(&row.id);
            return ToDo::Nothing;
        }
        let before = self.seen.insert(row.id, row.head);
        match self.handed_in.get_mut(&row.id) {
            Some(request) if request.head == row.head => match &mut request.open {
                Some(looks) if *looks + 1 < ASKED_AFTER => {
                    *looks += 1;
                    ToDo::Nothing
                }
                Some(_) => ToDo::AskAfter(request.call.clone()),
                None => ToDo::Nothing,
            },
            _ if before == Some(row.head) => ToDo::HandIn,
            _ => ToDo::Nothing,
        }
    }
}
