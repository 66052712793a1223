//! Whether what somebody noticed turned out to be so.

use serde::{Deserialize, Serialize};

/// Whether what an observation said came true. Given when it is resolved or superseded; calibration counts it (M7.11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was so.
    Confirmed,
    /// It was not so.
    Refuted,
}

impl Outcome {
    /// The name as it is written and stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
        }
    }
}
