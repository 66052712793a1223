//! What a space keeps, and for how long: the sections of the policy that this folder reads.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::from_object::read_from_an_object;
use crate::warning::Invalid;

/// What is redacted from texts before they are stored (M7.6.48).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// Nothing. Personal data is still flagged.
    Off,
    /// Keys, tokens and passwords. Personal data is flagged.
    #[default]
    Secrets,
    /// Keys, tokens, passwords and personal data.
    Pii,
}

impl Redaction {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Secrets => "secrets",
            Self::Pii => "pii",
        }
    }
}

/// How long content is kept. Times are in minutes; `null` means forever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct RetentionPolicy {
    /// How long after its last change an expired observation is archived (M7.6.44).
    pub archive_after_minutes: Option<u64>,
    /// How long after its resolution a resolved observation is archived (M7.5.42).
    pub archive_resolved_after_minutes: Option<u64>,
    /// How long after its end the content of an entry is kept (M7.1.10).
    pub purge_after_minutes: Option<u64>,
    /// After how long an entry with personal data is archived, pinned or not (M7.6.49).
    pub pii_archive_after_minutes: Option<u64>,
    /// How long after that its content is erased.
    pub pii_erase_after_minutes: Option<u64>,
    /// How long the tombstone of purged content is kept before only its numbers remain.
    pub tombstone_minutes: Option<u64>,
}

const DAY: u64 = 24 * 60;

read_from_an_object!(RetentionPolicy, QuotaPolicy);

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            archive_after_minutes: Some(7 * DAY),
            archive_resolved_after_minutes: Some(DAY),
            purge_after_minutes: Some(30 * DAY),
            pii_archive_after_minutes: Some(30 * DAY),
            pii_erase_after_minutes: Some(30 * DAY),
            tombstone_minutes: Some(30 * DAY),
        }
    }
}

/// Converts minutes to a duration; `None` means forever.
pub(super) fn minutes(minutes: Option<u64>) -> Option<Duration> {
    minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)))
}

impl RetentionPolicy {
    /// How long after its last sign of use an expired observation is archived.
    #[must_use]
    pub fn archive_after(&self) -> Option<Duration> {
        minutes(self.archive_after_minutes)
    }

    /// How long after its resolution a resolved observation is archived.
    #[must_use]
    pub fn archive_resolved_after(&self) -> Option<Duration> {
        minutes(self.archive_resolved_after_minutes)
    }

    /// How long after its end content is kept.
    #[must_use]
    pub fn purge_after(&self) -> Option<Duration> {
        minutes(self.purge_after_minutes)
    }

    /// After how long an entry with personal data is archived.
    #[must_use]
    pub fn pii_archive_after(&self) -> Option<Duration> {
        minutes(self.pii_archive_after_minutes)
    }

    /// How long the tombstone of purged content is kept.
    #[must_use]
    pub fn tombstone(&self) -> Option<Duration> {
        minutes(self.tombstone_minutes)
    }
}

/// The quotas of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct QuotaPolicy {
    /// The maximum number of observations that are neither archived nor expired (M7.6.46).
    pub live_observations: u64,
}

impl QuotaPolicy {
    /// What is wrong with the quota: it may not be zero.
    pub(crate) fn mistake(&self) -> Option<Invalid> {
        let message =
            "live_observations is 0: every observation would be archived at once; for no limit, give 1000000000000";
        (self.live_observations == 0).then(|| Invalid::new("policy_invalid", "quota", message))
    }
}

impl Default for QuotaPolicy {
    fn default() -> Self {
        Self {
            live_observations: 10_000,
        }
    }
}
