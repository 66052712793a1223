//! The original times of what was brought in from elsewhere.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// When something was made and last changed in the place that it was brought from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTimes {
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl ImportedTimes {
    /// Returns when something that is added at `at` was made and last changed: at `at`, or at its original times if it
    /// was `imported`. No time is later than `at`, and no change is earlier than the making.
    #[must_use]
    pub fn times(imported: Option<Self>, at: Timestamp) -> (Timestamp, Timestamp) {
        let Some(imported) = imported else { return (at, at) };
        let created = imported.created_at.min(at);
        (created, imported.updated_at.min(at).max(created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_times_are_ordered_and_not_in_the_future() {
        let at = Timestamp::from_nanos;
        let times = |created, updated| {
            let brought = ImportedTimes {
                created_at: at(created),
                updated_at: at(updated),
            };
            ImportedTimes::times(Some(brought), at(100))
        };
        assert_eq!(ImportedTimes::times(None, at(100)), (at(100), at(100)));
        assert_eq!(times(3, 7), (at(3), at(7)));
        assert_eq!(times(7, 3), (at(7), at(7)));
        assert_eq!(times(200, 300), (at(100), at(100)));
    }
}
