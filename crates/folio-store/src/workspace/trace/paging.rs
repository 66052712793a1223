//! One part of a timeline.

use super::TraceEntry;
use crate::cursor::timeline::{LineKey, TimelineCursor};

fn key_of(line: &TraceEntry) -> LineKey {
    (line.at, line.seq, !line.is_logged)
}

/// The direction in which a timeline is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From its end backwards.
    Back,
    /// From a given commit on.
    On,
}

/// Whether `line` may come after `edge`, the last line that was read, in reading direction.
pub(super) fn may_follow(edge: TimelineCursor, way: Way, line: &TraceEntry) -> bool {
    match way {
        Way::Back => key_of(line) <= edge.key,
        Way::On => key_of(line) >= edge.key,
    }
}

/// Sorts `lines`, removes those that were returned before by `edge`, and cuts the rest to `limit`. Returns the cursor
/// if there are more.
pub(super) fn part(
    lines: &mut Vec<TraceEntry>,
    (way, edge): (Way, Option<TimelineCursor>),
    limit: usize,
    binding: &str,
) -> Option<String> {
    // The sort is stable, so that lines of one commit, and notes made at one instant, keep their order.
    lines.sort_by_key(key_of);
    let same = |lines: &[TraceEntry], key: LineKey| match way {
        Way::Back => lines.iter().rev().take_while(|line| key_of(line) == key).count(),
        Way::On => lines.iter().take_while(|line| key_of(line) == key).count(),
    };
    let skipped = edge.map_or(0, |edge| same(lines, edge.key).min(edge.given));
    let count = lines.len();
    let has_more = count - skipped > limit;
    match way {
        Way::Back => {
            lines.truncate(count - skipped);
            lines.drain(..lines.len().saturating_sub(limit));
        }
        Way::On => {
            lines.drain(..skipped);
            lines.truncate(limit);
        }
    }
    let last = match way {
        Way::Back => lines.first(),
        Way::On => lines.last(),
    };
    let key = key_of(last.filter(|_| has_more)?);
    let here = lines.iter().filter(|line| key_of(line) == key).count();
    let before = edge.filter(|edge| edge.key == key).map_or(0, |edge| edge.given);
    let next = TimelineCursor {
        key,
        given: here + before,
    };
    Some(next.to_text(binding))
}
