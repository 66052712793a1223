//! Lines of the log: which commits are read, in parts, and how far.

use std::collections::HashMap;

use folio_memory::{EntryId, Seq, Timestamp};

use super::super::{Workspace, WorkspaceError};
use super::lines::Kind;
use super::paging::Way;
use super::{TraceEntry, TracePart, Wanted};
use crate::cursor::timeline::TimelineCursor;

/// How many commits are read at a time: at first, and at most. Each may have thousands of changes.
const CHUNK_MIN: u64 = 4;
const CHUNK_MAX: u64 = 256;

/// What was read of the log.
#[derive(Debug, Default)]
pub(super) struct LogLines {
    pub(super) lines: Vec<TraceEntry>,
    /// Where reading ended, if neither the log nor the wish for lines did.
    pub(super) unread: Option<TimelineCursor>,
}

/// Commits that were read in order, and their lines.
#[derive(Debug, Default)]
struct Chunk {
    lines: Vec<TraceEntry>,
    first: Option<(Timestamp, Seq)>,
    last: Option<(Timestamp, Seq)>,
}

impl Workspace {
    /// The wanted lines of the commits after `from`, up to `to`: the first ones or the last ones, depending on the way.
    pub(super) async fn lines_of_log(
        &self,
        (mut from, mut to): (Seq, Seq),
        head: Seq,
        filter: &Wanted,
    ) -> Result<LogLines, WorkspaceError> {
        let mut known = HashMap::new();
        if let Some(edge) = filter.edge {
            // Commits of the same instant come in their order.
            let (at, seq, is_note) = edge.key;
            let before = self.last_before(at, head).await?;
            match filter.way {
                Way::Back => to = to.min(before.max(seq)),
                Way::On if is_note => from = from.max(before),
                Way::On => from = from.max(before).max(Seq(seq.0.saturating_sub(1))),
            }
        }
        match filter.way {
            Way::Back => self.last_lines(from, to, filter, &mut known).await,
            Way::On => self.first_lines(from, to, filter, &mut known).await,
        }
    }

    /// The first lines after `from`, up to `to`.
    async fn first_lines(
        &self,
        from: Seq,
        to: Seq,
        filter: &Wanted,
        known: &mut HashMap<EntryId, Kind>,
    ) -> Result<LogLines, WorkspaceError> {
        let (mut at, mut read, mut count) = (from, LogLines::default(), CHUNK_MIN);
        while at < to && read.lines.len() < filter.limit {
            let end = Seq(at.0.saturating_add(count)).min(to);
            let chunk = self.lines_between(at, end, filter, known).await?;
            read.lines.extend(chunk.lines);
            (at, count) = (end, CHUNK_MAX.min(count * 2));
            if let Some((instant, last)) = chunk
                .last
                .filter(|_| at.0 - from.0 >= TracePart::COMMITS_MAX && at < to)
            {
                read.unread = Some(TimelineCursor {
                    key: (instant, Seq(last.0 + 1), false),
                    given: 0,
                });
                break;
            }
        }
        Ok(read)
    }

    /// The last lines up to `to`, all after `from`. The log is read from its end: a long run may have thousands of
    /// events in one commit, and nobody wants them all.
    async fn last_lines(
        &self,
        from: Seq,
        to: Seq,
        filter: &Wanted,
        known: &mut HashMap<EntryId, Kind>,
    ) -> Result<LogLines, WorkspaceError> {
        let (mut end, mut read, mut count) = (to, LogLines::default(), CHUNK_MIN);
        while end > from && read.lines.len() < filter.limit {
            let begin = Seq(end.0.saturating_sub(count)).max(from);
            let mut chunk = self.lines_between(begin, end, filter, known).await?;
            chunk.lines.append(&mut read.lines);
            read.lines = chunk.lines;
            (end, count) = (begin, CHUNK_MAX.min(count * 2));
            if let Some((instant, first)) = chunk
                .first
                .filter(|_| to.0 - end.0 >= TracePart::COMMITS_MAX && end > from)
            {
                read.unread = Some(TimelineCursor {
                    key: (instant, Seq(first.0.saturating_sub(1)), true),
                    given: 0,
                });
                break;
            }
        }
        Ok(read)
    }

    /// The lines of the commits after `from`, up to `to`.
    async fn lines_between(
        &self,
        from: Seq,
        to: Seq,
        filter: &Wanted,
        known: &mut HashMap<EntryId, Kind>,
    ) -> Result<Chunk, WorkspaceError> {
        let (mut at, mut read) = (from, Chunk::default());
        while at < to {
            let count = u32::try_from(to.0 - at.0).unwrap_or(u32::MAX);
            let rows = self.changes(at, count).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq;
            for row in rows.into_iter().filter(|row| row.seq <= to) {
                read.last = Some((row.at, row.seq));
                read.first = read.first.or(read.last);
                if let Some(row) = self.wanted_part(row, filter).await? {
                    self.read_row(row, known, filter, &mut read.lines).await?;
                }
            }
        }
        Ok(read)
    }

    /// The last commit before `at`: instants of a space never run backwards.
    pub(super) async fn last_before(&self, at: Timestamp, head: Seq) -> Result<Seq, WorkspaceError> {
        let (mut before, mut from) = (0, head.0);
        while before < from {
            let middle = before + (from - before) / 2;
            match self.changes(Seq(middle), 1).await?.first() {
                Some(row) if row.at < at => before = middle + 1,
                _ => from = middle,
            }
        }
        Ok(Seq(before))
    }
}
