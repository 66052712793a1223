//! Looks in the store for runs that nobody drives, and hands them in.
//!
//! A run that was submitted by somebody who did not hand it in, one that waits and whose question was answered by such a
//! somebody, all runs after Restate lost what it had: what is to be driven follows from the store.

use std::collections::HashMap;
use std::time::Duration;

use folio::Folio;
use folio::memory::{RunId, Seq, SpaceName};
use folio::runner::RunnerError;
use folio::store::{RunQuery, RunRow, StoreError};

use crate::ingress::{HandedIn, Ingress, request_at};
use crate::place::RunKey;

/// Runs that are looked at in one go, of each space.
const AT_A_TIME: u32 = 500;
/// How long Restate remembers what was handed in.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a walk through the runs of the spaces is, and what was seen on it.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The run behind which each space is gone on with; not there: from the newest.
    from: HashMap<SpaceName, u64>,
    /// Runs that nobody drove at the last look, and where their journals ended.
    seen: HashMap<RunId, Seq>,
    /// What was handed in at which end of its journal.
    handed_in: HashMap<RunId, Seq>,
}

impl Sweep {
    /// Looks every `pause`, until Restate turns out to know of no worker: it is new, or has lost what it had.
    pub(crate) async fn go_on(mut self, folio: &Folio, ingress: &Ingress, pause: Duration) {
        let mut again = tokio::time::interval(pause);
        again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut since = tokio::time::Instant::now();
        loop {
            again.tick().await;
            if since.elapsed() > REMEMBERED {
                since = tokio::time::Instant::now();
                self.handed_in.clear();
            }
            // A store or an ingress that is away is asked again.
            if let Ok(HandedIn::NoWorkerKnown) = self.look(folio, ingress).await {
                return;
            }
        }
    }

    /// Looks at the next runs of each space.
    async fn look(&mut self, folio: &Folio, ingress: &Ingress) -> Result<HandedIn, RunnerError> {
        for space in folio.store().spaces().await? {
            for row in self.next_rows(folio, &space).await? {
                if let Some(row) = self.is_left(row) {
                    let key = RunKey {
                        space: space.clone(),
                        run: row.id,
                    };
                    if ingress.hand_in(&key, &request_at(&key, row.head)).await? == HandedIn::NoWorkerKnown {
                        return Ok(HandedIn::NoWorkerKnown);
                    }
                    self.handed_in.insert(row.id, row.head);
                }
            }
        }
        Ok(HandedIn::Taken)
    }

    async fn next_rows(&mut self, folio: &Folio, space: &SpaceName) -> Result<Vec<RunRow>, StoreError> {
        let query = RunQuery {
            status: vec!["running".to_owned()],
            before: self.from.get(space).copied(),
            limit: AT_A_TIME,
        };
        let rows = folio.store().runs(space, &query).await?;
        match rows.last() {
            Some(last) if rows.len() >= AT_A_TIME as usize => drop(self.from.insert(space.clone(), last.handle.0)),
            _ => drop(self.from.remove(space)),
        }
        Ok(rows)
    }

    /// The run if nobody drives it and nothing has happened in it from one look to the next, and it was not handed in like this: one
    /// that was submitted just now has a driver in a moment.
    fn is_left(&mut self, row: RunRow) -> Option<RunRow> {
        if row.driven {
            self.seen.remove(&row.id);
            self.handed_in.remove(&row.id);
            return None;
        }
        let before = self.seen.insert(row.id, row.head);
        let is_left = before == Some(row.head) && self.handed_in.get(&row.id) != Some(&row.head);
        is_left.then_some(row)
    }
}
