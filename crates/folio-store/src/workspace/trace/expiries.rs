//! Expiries as part of a turn. Whoever looks at an entry after its end notes it, in nobody's turn, but a turn that rests
//! on the entry is told of it.

use std::collections::HashSet;

use folio_memory::turn::Turn;
use folio_memory::{Change, EntryId, FieldChange, Timestamp, TurnId};

use super::super::{Workspace, WorkspaceError};
use crate::store::LogRow;

/// When a turn took place, and what its decisions used.
#[derive(Debug)]
pub(super) struct Span {
    turn: TurnId,
    begun: Timestamp,
    ended: Option<Timestamp>,
    used: HashSet<EntryId>,
}

impl Span {
    pub(super) fn of(turn: &Turn) -> Self {
        let ended = turn.ended.as_ref();
        let at_end = ended.map_or(&[][..], |ended| &ended.end.decisions);
        let decisions = turn.begun.decisions.iter().chain(at_end);
        Self {
            turn: turn.begun.id,
            begun: turn.started_at,
            ended: ended.map(|ended| ended.at),
            used: decisions
                .flat_map(|decision| &decision.used)
                .map(|used| used.id)
                .collect(),
        }
    }

    /// The entry whose lifetime ended within the turn, if that is what `change` notes.
    fn expired(&self, change: &Change) -> Option<EntryId> {
        let Change::PatchEntry { entry, fields, .. } = change else {
            return None;
        };
        let [FieldChange::Ended(at) | FieldChange::Expired(at)] = fields[..] else {
            return None;
        };
        (at >= self.begun && self.ended.is_none_or(|ended| at <= ended)).then_some(*entry)
    }
}

impl Workspace {
    /// What of `row` notes that entries expired within `span` that its turn touched or used; `None` if nothing does.
    pub(super) async fn expiries_within(&self, mut row: LogRow, span: &Span) -> Result<Option<LogRow>, WorkspaceError> {
        let mut expiries = Vec::new();
        for change in std::mem::take(&mut row.record.changes) {
            let Some(entry) = span.expired(&change) else { continue };
            if span.used.contains(&entry) || self.has_touched(span.turn, entry).await? {
                expiries.push(change);
            }
        }
        row.record.changes = expiries;
        row.record.run = None;
        Ok((!row.record.changes.is_empty()).then_some(row))
    }

    async fn has_touched(&self, turn: TurnId, entry: EntryId) -> Result<bool, WorkspaceError> {
        let revisions = self.inner.store.history(&self.inner.space, entry).await?;
        Ok(revisions.iter().any(|revision| revision.actor.turn == Some(turn)))
    }
}
