//! Following the log of a space as it grows.

use folio_memory::{Seq, Timestamp};

use super::{Workspace, WorkspaceError};
use crate::store::LogRow;

/// Reads the commits of a space as they come. Notices if the last one that it has read is not there any more: after a
/// failover, a server may lack the last commits and assign their numbers again.
#[derive(Debug)]
pub struct LogFollower {
    workspace: Workspace,
    /// The last commit that was read.
    seen: Seq,
    /// When that commit was made; `None` as long as nobody has looked.
    at: Option<Timestamp>,
    /// The lineage of the store that has it.
    lineage: u64,
}

/// What is new in a log that somebody follows.
#[derive(Debug, Clone, PartialEq)]
pub enum LogNews {
    /// These commits follow the last one that was read. Never empty.
    Commits(Vec<LogRow>),
    /// What was read last is not there any more, and maybe more than that. Commits that follow the present one come
    /// next.
    Lost {
        /// The present last commit.
        head: Seq,
    },
}

impl Workspace {
    /// Follows the log after commit `after`.
    #[must_use]
    pub fn follow(&self, after: Seq) -> LogFollower {
        LogFollower {
            workspace: self.clone(),
            seen: after,
            at: None,
            lineage: self.inner.store.lineage(),
        }
    }
}

impl LogFollower {
    /// The last commit that was read.
    #[must_use]
    pub fn seen(&self) -> Seq {
        self.seen
    }

    /// Waits until there is something new, and returns it: up to `limit` commits.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`; `Refused` if the asker may not read the log.
    pub async fn next(&mut self, limit: u32) -> Result<LogNews, WorkspaceError> {
        loop {
            if self.at.is_none() && self.seen > Seq(0) {
                match self.last_read(1).await?.first() {
                    Some(row) if stands_for(row, self.seen) => self.at = Some(row.at),
                    _ => return self.lost().await,
                }
            }
            let store = self.workspace.store();
            tokio::select! {
                head = self.workspace.wait(self.seen) => drop(head?),
                () = store.wait_for_other_lineage(self.lineage) => {}
            }
            let lineage = store.lineage();
            let mut rows = Vec::new();
            if self.seen > Seq(0) {
                // One more than is wanted, to see that the log goes on where it was read.
                rows = self.last_read(limit.saturating_add(1)).await?;
                let goes_on = |row: &LogRow| {
                    stands_for(row, self.seen) && (Some(row.at) == self.at || row.record.folded.is_some())
                };
                if !rows.first().is_some_and(goes_on) {
                    return self.lost().await;
                }
                rows.retain(|row| row.seq > self.seen);
            }
            self.lineage = lineage;
            if rows.is_empty() {
                // The last one that was read may be so large that it comes alone.
                rows = self.workspace.changes(self.seen, limit).await?;
            }
            if let Some(last) = rows.last() {
                (self.seen, self.at) = (last.seq, Some(last.at));
                return Ok(LogNews::Commits(rows));
            }
        }
    }

    /// Up to `limit` commits, of which the first is the one that was read last.
    async fn last_read(&self, limit: u32) -> Result<Vec<LogRow>, WorkspaceError> {
        self.workspace.changes(Seq(self.seen.0.saturating_sub(1)), limit).await
    }

    /// Goes on from the present end of the log.
    async fn lost(&mut self) -> Result<LogNews, WorkspaceError> {
        self.lineage = self.workspace.store().lineage();
        self.seen = self.workspace.head().await?;
        self.at = None;
        Ok(LogNews::Lost { head: self.seen })
    }
}

/// Whether `row` is commit `seq`, or one into which it was merged because nothing but numbers was left of it.
fn stands_for(row: &LogRow, seq: Seq) -> bool {
    row.seq == seq || row.seq > seq && row.record.folded.is_some_and(|folded| folded.from <= seq)
}
