//! The life cycle (M7.5.39): two families of statuses, and one state that they share.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::lifetime::Lifetime;
use crate::time::Timestamp;

/// Where an entry stands, as its writers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Knowledge that holds.
    Active,
    /// Knowledge that somebody should review.
    PendingReview,
    /// Knowledge that has done its work.
    Resolved,
    /// Work that has not begun.
    Open,
    /// Work that has begun.
    InProgress,
    /// Work that waits for something.
    Blocked,
    /// Work that is finished.
    Done,
    /// Archived. Final, except for `restore`.
    Archived,
}

/// The statuses that a kind of entry goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `active`, `pending_review`, `resolved`.
    Knowledge,
    /// `open`, `in_progress`, `blocked`, `done`.
    Work,
}

/// Where an entry stands from the reader's side: computed, never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Still counts.
    Live,
    /// Done or resolved.
    Settled,
    /// Archived.
    Archived,
    /// Past the end of its lifetime (M7.1.10): kept, but queries leave it out by default.
    Expired,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Active,
        Self::PendingReview,
        Self::Resolved,
        Self::Open,
        Self::InProgress,
        Self::Blocked,
        Self::Done,
        Self::Archived,
    ];

    /// The status's canonical name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::PendingReview => "pending_review",
            Self::Resolved => "resolved",
            Self::Open => "open",
            Self::InProgress => "in_progress",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Archived => "archived",
        }
    }

    /// Parses a canonical name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Parses a canonical name or one of the accepted synonyms (M7.5.40) for an entry of `family`.
    #[must_use]
    pub fn parse_in(text: &str, family: Family) -> Option<Self> {
        let status = match (text, family) {
            ("pending" | "active" | "todo", Family::Work) => Self::Open,
            // As seed 003 writes it.
            ("inProgress", Family::Work) => Self::InProgress,
            ("completed" | "complete" | "closed", Family::Work) => Self::Done,
            ("completed" | "closed" | "done", Family::Knowledge) => Self::Resolved,
            _ => Self::parse(text)?,
        };
        status.is_of(family).then_some(status)
    }

    /// Returns the statuses that `text` means in a filter for entries of both families: the one with this canonical
    /// name, or else those that it is a synonym for (M7.5.40). Empty if it means none.
    #[must_use]
    pub fn parse_filter(text: &str) -> Vec<Self> {
        let synonyms = || [Family::Work, Family::Knowledge].map(|family| Self::parse_in(text, family));
        match Self::parse(text) {
            Some(status) => vec![status],
            None => synonyms().into_iter().flatten().collect(),
        }
    }

    /// Whether entries of `family` can have this status.
    #[must_use]
    pub fn is_of(self, family: Family) -> bool {
        match self {
            Self::Active | Self::PendingReview | Self::Resolved => family == Family::Knowledge,
            Self::Open | Self::InProgress | Self::Blocked | Self::Done => family == Family::Work,
            Self::Archived => true,
        }
    }

    /// Whether an ordinary update may change this status to `next`. Archived is final; `restore` is a separate
    /// operation.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        self == next || self.next().contains(&next)
    }

    /// The statuses that an ordinary update may set from here (M7.5.39). What is settled may be reopened.
    #[must_use]
    pub fn next(self) -> &'static [Self] {
        use Status::{Active, Archived, Blocked, Done, InProgress, Open, PendingReview, Resolved};
        match self {
            Active => &[PendingReview, Resolved, Archived],
            PendingReview => &[Active, Resolved, Archived],
            Resolved => &[Active, PendingReview, Archived],
            Open => &[InProgress, Blocked, Done, Archived],
            InProgress => &[Open, Blocked, Done, Archived],
            Blocked => &[Open, InProgress, Done, Archived],
            Done => &[Open, InProgress, Blocked, Archived],
            Archived => &[],
        }
    }

    /// Whether the status is live, settled or archived, regardless of expiry.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Active | Self::PendingReview | Self::Open | Self::InProgress | Self::Blocked => State::Live,
            Self::Resolved | Self::Done => State::Settled,
            Self::Archived => State::Archived,
        }
    }

    /// As [`Self::state`], but with expiry: a pinned entry does not expire (M7.1.7), and an archived one stays
    /// archived.
    #[must_use]
    pub fn state_at(self, lifetime: Lifetime, pinned: bool, now: Timestamp) -> State {
        let state = self.state();
        if state != State::Archived && !pinned && !lifetime.is_live(now) {
            State::Expired
        } else {
            state
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_synonyms_are_accepted_only_on_input_m7_5_40() {
        for (text, family, status) in [
            ("pending", Family::Work, Status::Open),
            ("active", Family::Work, Status::Open),
            ("completed", Family::Work, Status::Done),
            ("closed", Family::Work, Status::Done),
            ("active", Family::Knowledge, Status::Active),
            ("closed", Family::Knowledge, Status::Resolved),
        ] {
            assert_eq!(Status::parse_in(text, family), Some(status), "{text}");
        }
        assert_eq!(Status::parse_in("resolved", Family::Work), None);
        assert_eq!(Status::parse("pending"), None);
    }

    #[test]
    fn synonym_in_a_filter_means_the_statuses_of_both_families_m7_5_40() {
        for (text, statuses) in [
            ("pending", vec![Status::Open]),
            ("inProgress", vec![Status::InProgress]),
            ("completed", vec![Status::Done, Status::Resolved]),
            // A canonical name means itself, so that what a list shows is found by what it shows.
            ("active", vec![Status::Active]),
            ("done", vec![Status::Done]),
            ("none", vec![]),
        ] {
            assert_eq!(Status::parse_filter(text), statuses, "{text}");
        }
    }

    #[test]
    fn archived_entry_cannot_become_active_but_resolved_one_can_m7_5_39() {
        assert!(!Status::Archived.may_become(Status::Active));
        assert!(Status::Resolved.may_become(Status::Active));
    }

    #[test]
    fn status_changes_only_within_its_family_until_archived_m7_5_39() {
        for from in Status::ALL {
            for to in Status::ALL {
                let same_family = [Family::Knowledge, Family::Work]
                    .into_iter()
                    .any(|family| from.is_of(family) && to.is_of(family));
                let wanted = from == to || (from != Status::Archived && same_family);
                assert_eq!(from.may_become(to), wanted, "{from} to {to}");
            }
        }
    }
}
