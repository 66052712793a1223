//! Looks in the store for runs that nobody drives, and submits them.
//!
//! Such a run may have been created, or its question answered, by a process that did not submit it; or Restate has lost
//! its data: what is to be driven follows from the store. A submitted run that Restate keeps offering in vain is driven
//! here: Restate may hold on to a worker that refuses the run, because that worker is older than the one that last
//! drove it. So is a run for which a worker on another store was called, because Restate offers it to nobody else.

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

/// How many runs of each space are looked at in one pass.
const RUNS_PER_PASS: u32 = 500;
/// How long Restate remembers requests.
const REQUEST_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// After how many passes a request that nobody took is looked up.
const LOOKUP_AFTER_PASSES: u32 = 3;

/// The progress of a walk through the runs of all spaces, and what was seen.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The run after which the walk continues in each space; a space that is missing here starts with its newest run.
    from: HashMap<SpaceName, u64>,
    /// Runs that nobody drove at the last pass, with the ends of their journals.
    seen: HashMap<RunId, Seq>,
    /// The runs that were submitted.
    handed_in: HashMap<RunId, Request>,
    /// Whether Restate took anything since the walk began.
    has_accepted_requests: bool,
    /// The code of the problem of the last pass, which was reported; empty if there was none.
    last_problem: String,
}

/// A run that was submitted.
#[derive(Debug)]
struct Request {
    /// The end of its journal at that time.
    head: Seq,
    call: Call,
    /// The number of passes since then, or since it was last looked up, at which nobody drove it; `None` if nobody will
    /// be called for it any more.
    open: Option<u32>,
}

/// The outcome of a pass.
#[derive(Debug, PartialEq, Eq)]
enum PassOutcome {
    Through,
    NoWorkerKnown,
}

/// What to do about a run.
#[derive(Debug, PartialEq, Eq)]
enum RunDecision {
    Nothing,
    HandIn,
    AskAfter(Call),
}

impl Sweep {
    /// Makes a pass every `pause`, until Restate turns out to know of no worker: it is new, or has lost its data.
    /// `report` is called whenever the problem differs from the previous one, and when there is none any more;
    /// `to_register` is the address that somebody has to register with Restate, if nobody does so by itself. Returns whether Restate took anything before.
    pub(crate) async fn run_passes<S: Fn(&str)>(
        &mut self,
        drives: &Arc<Drives>,
        ingress: &Ingress,
        to_register: Option<&str>,
        pause: Duration,
        report: &S,
    ) -> bool {
        self.has_accepted_requests = false;
        let mut again = tokio::time::interval(pause);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut since = tokio::time::Instant::now();
        loop {
            again.tick().await;
            if since.elapsed() > REQUEST_RETENTION {
                since = tokio::time::Instant::now();
                self.seen.clear();
                self.handed_in.clear();
            }
            match self.make_pass(drives, ingress).await {
                Ok(PassOutcome::NoWorkerKnown) => {
                    // What Restate took before is lost.
                    self.handed_in.clear();
                    let advice = to_register.map_or_else(String::new, |address| {
                        format!("; register {address} with it (--restate-admin)")
                    });
                    self.report_problem(&ingress.failed(format!("it knows of no worker{advice}")), report);
                    return self.has_accepted_requests;
                }
                Ok(PassOutcome::Through) if self.last_problem.is_empty() => {}
                Ok(PassOutcome::Through) => {
                    report("runs that nobody drives are submitted again");
                    self.last_problem.clear();
                }
                // A store or an ingress that cannot be reached is asked again.
                Err(error) => self.report_problem(&error, report),
            }
        }
    }

    /// Reports `problem` unless it is of the same kind as the last one: its words may say how long it lasts.
    fn report_problem<S: Fn(&str)>(&mut self, problem: &RunnerError, report: &S) {
        if problem.code() != self.last_problem {
            report(&format!(
                "runs that nobody drives are not submitted: {}",
                with_causes(problem)
            ));
            problem.code().clone_into(&mut self.last_problem);
        }
    }

    /// Looks at the next runs of each space.
    async fn make_pass(&mut self, drives: &Arc<Drives>, ingress: &Ingress) -> Result<PassOutcome, RunnerError> {
        let folio = drives.folio();
        for space in folio.store().spaces().await? {
            for row in self.next_rows(folio, &space).await? {
                let key = RunKey {
                    space: space.clone(),
                    run: row.id,
                };
                let (call, open) = match self.decide(&row) {
                    RunDecision::Nothing => continue,
                    RunDecision::HandIn => match ingress.hand_in(&key, &request_at(&key, row.head)).await? {
                        HandedIn::NoWorkerKnown => return Ok(PassOutcome::NoWorkerKnown),
                        HandedIn::Taken(call) => {
                            self.has_accepted_requests = true;
                            (call, Some(0))
                        }
                    },
                    RunDecision::AskAfter(call) => {
                        let is_taken = ingress.fetch_call_fate(&call, row.id).await? == Fate::Taken;
                        if !is_taken {
                            // Nobody waits for the result here: it is in the store.
                            drop(drives.drive(&key));
                        }
                        (call, (!is_taken).then_some(0))
                    }
                };
                let head = row.head;
                self.handed_in.insert(row.id, Request { head, call, open });
            }
        }
        Ok(PassOutcome::Through)
    }

    async fn next_rows(&mut self, folio: &Folio, space: &SpaceName) -> Result<Vec<RunRow>, StoreError> {
        let query = RunQuery {
            before: self.from.get(space).copied(),
            ..RunQuery::running(RUNS_PER_PASS)
        };
        let rows = folio.store().runs(space, &query).await?;
        match rows.last() {
            Some(last) if rows.len() >= RUNS_PER_PASS as usize => drop(self.from.insert(space.clone(), last.handle.0)),
            _ => drop(self.from.remove(space)),
        }
        Ok(rows)
    }

    /// Submits a run, once, if nobody drives it and its journal did not grow between two passes: a run that was just
    /// submitted gets a driver in a moment.
    fn decide(&mut self, row: &RunRow) -> RunDecision {
        if row.driven {
            self.seen.remove(&row.id);
            self.handed_in.remove(&row.id);
            return RunDecision::Nothing;
        }
        let before = self.seen.insert(row.id, row.head);
        match self.handed_in.get_mut(&row.id) {
            Some(request) if request.head == row.head => match &mut request.open {
                Some(look_count) if *look_count + 1 < LOOKUP_AFTER_PASSES => {
                    *look_count += 1;
                    RunDecision::Nothing
                }
                Some(_) => RunDecision::AskAfter(request.call.clone()),
                None => RunDecision::Nothing,
            },
            _ if before == Some(row.head) => RunDecision::HandIn,
            _ => RunDecision::Nothing,
        }
    }
}
