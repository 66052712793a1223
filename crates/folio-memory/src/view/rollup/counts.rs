//! How many pages are not shown, in words, and which statuses need attention.

use std::collections::BTreeMap;

use super::super::line::one_line;
use super::PageLines;
use crate::excerpt::cut;

/// The status of a page whose work continues.
const OPEN: &str = "open";
/// The maximum number of characters of a counted status, and of distinct statuses: pages may carry any status.
const STATUS_CHARS: usize = 20;
const STATUSES: usize = 8;
/// The rank of pages that need no attention.
pub(super) const SETTLED: u8 = 2;

/// Whether a page with `status` needs no attention: its work ended well, or another plan superseded it.
#[must_use]
pub fn is_settled(status: &str) -> bool {
    matches!(status, "ok" | "superseded")
}

/// The rank of a status: what did not end well before what is open before what is settled.
pub(super) fn rank(status: &str) -> u8 {
    match status {
        settled if is_settled(settled) => SETTLED,
        OPEN => 1,
        _ => 0,
    }
}

/// The pages that are not shown individually: how many have each status, and how many need no attention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageCounts {
    by_status: BTreeMap<String, usize>,
    settled: usize,
}

impl PageCounts {
    pub(super) fn of<'a>(pages: impl IntoIterator<Item = &'a PageLines>) -> Self {
        let mut counts = Self::default();
        for page in pages {
            counts.add(page.status());
        }
        counts
    }

    /// Counts `count` pages that need no attention.
    #[must_use]
    pub fn settled(count: usize) -> Self {
        Self {
            settled: count,
            ..Self::default()
        }
    }

    /// Adds a page with `status`.
    pub fn add(&mut self, status: &str) {
        if is_settled(status) {
            self.settled += 1;
        } else {
            let status = cut(&one_line(status), STATUS_CHARS);
            *self.by_status.entry(status).or_default() += 1;
        }
    }

    /// The number of pages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.settled + self.by_status.values().sum::<usize>()
    }

    /// The counts in words, what needs attention first: `2 failed, 1 open, 9 ok or superseded`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut by_status: Vec<_> = self.by_status.iter().collect();
        by_status.sort_by_key(|(status, _)| rank(status));
        let other_count: usize = by_status.iter().skip(STATUSES).map(|(_, count)| **count).sum();
        let mut words: Vec<_> = by_status
            .into_iter()
            .take(STATUSES)
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let rest = [(other_count, "otherwise"), (self.settled, "ok or superseded")];
        words.extend(
            rest.iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, label)| format!("{count} {label}")),
        );
        words.join(", ")
    }
}

/// The line that stands for what is not shown.
pub(super) fn notice_of(pages: &PageCounts, entries: usize) -> String {
    match (pages.count(), entries) {
        (0, entries) => format!("+{entries} more entries"),
        (count, 0) => format!("+{count} more pages ({})", pages.in_words()),
        (count, entries) => format!("+{count} more pages ({}), +{entries} more entries", pages.in_words()),
    }
}
