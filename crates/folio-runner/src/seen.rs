//! What lists show of runs that nobody drives, as it was when somebody last looked for such runs: a server looks every
//! few seconds, and most of what it finds has not changed since.

use std::collections::HashMap;

use folio_engine::run::RunSummary;
use folio_memory::{RunId, Seq};
use folio_store::RunRow;
use parking_lot::Mutex;

/// Of how many runs this is kept: some 200 bytes for each. What is beyond that is read each time.
const KEPT_MAX: usize = 50_000;

/// The runs of the last look.
#[derive(Debug, Default)]
pub(crate) struct SeenRuns(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The lineage of the store that was read: another one may have other commits under the same numbers.
    lineage: u64,
    /// By run: the commit with which its journal ended, and what was shown of it.
    runs: HashMap<RunId, (Seq, RunSummary)>,
}

impl SeenRuns {
    /// What is known of those of `rows` that have not changed since the last look.
    pub(crate) fn known(&self, rows: &[RunRow], lineage: u64) -> HashMap<RunId, RunSummary> {
        let seen = self.0.lock();
        if seen.lineage != lineage {
            return HashMap::new();
        }
        let unchanged = rows.iter().filter_map(|row| {
            let (head, summary) = seen.runs.get(&row.id)?;
            (*head == row.head).then(|| (row.id, summary.clone()))
        });
        unchanged.collect()
    }

    /// Keeps what is shown of these runs, and forgets all others.
    pub(crate) fn keep<'r>(&self, runs: impl Iterator<Item = (&'r RunRow, RunSummary)>, lineage: u64) {
        let kept = runs.take(KEPT_MAX).map(|(row, summary)| (row.id, (row.head, summary)));
        let kept = Seen {
            lineage,
            runs: kept.collect(),
        };
        *self.0.lock() = kept;
    }
}
