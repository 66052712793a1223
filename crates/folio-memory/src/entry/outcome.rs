//! Whether an observation came true.

use serde::{Deserialize, Serialize};

/// Whether an observation came true. It is set when the observation is resolved or superseded, and calibration counts
/// it (M7.11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It came true.
    Confirmed,
    /// It did not come true.
    Refuted,
}

impl Outcome {
    /// The outcome's name in its written and stored form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
        }
    }
}
