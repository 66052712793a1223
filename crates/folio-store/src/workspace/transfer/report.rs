//! The report of what happened to what was brought in.

use folio_memory::keeping::Redaction;
use folio_memory::{Invalid, Warning};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::redact::Cleaner;

/// How many remarks a report keeps; more are only counted.
const REMARKS_MAX: usize = 1_000;
/// Limits in bytes for the name of an item in a remark, and for its message.
const ITEM_BYTES: usize = 256;
const MESSAGE_BYTES: usize = 1024;
/// Approximate bytes of the longest secret of a known shape.
const SECRET_BYTES: usize = 4 * 1024;

/// What happened to an item of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was taken in, with changes.
    Changed,
    /// It existed, and now is as the file says.
    Merged,
    /// It exists in a different form, which stays.
    Differs,
    /// It was not taken in.
    Refused,
}

impl Fate {
    /// The name of the fate, as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Merged => "merged",
            Self::Differs => "differs",
            Self::Refused => "refused",
        }
    }
}

/// A remark about one item of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Remark {
    /// What happened to the item.
    pub fate: Fate,
    /// The item: its id in the file, with its thread before it if there is one, or the number of its line.
    pub item: String,
    /// A stable code for the reason.
    pub code: String,
    /// The reason, in words.
    pub message: String,
}

/// What was brought in, or would be in a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Imported {
    /// Scratchbooks that were read.
    pub threads: u64,
    /// Pages that were added.
    pub pages: u64,
    /// Entries that were added.
    pub entries: u64,
    /// Links that were added.
    pub links: u64,
    /// Whether the policy of the file was taken over.
    pub policy: bool,
    /// How many items existed already in the same form.
    pub present: u64,
    /// How many items were taken in with changes.
    pub changed: u64,
    /// How many items existed and now are as the file says.
    pub merged: u64,
    /// How many items exist in a different form, which stays.
    pub differs: u64,
    /// How many items were not taken in.
    pub refused: u64,
    /// Remarks about single items, with the reasons: the first thousand.
    pub remarks: Vec<Remark>,
}

impl Imported {
    /// Adds the report of a further part.
    pub fn add(&mut self, more: Self) {
        self.threads += more.threads;
        self.pages += more.pages;
        self.entries += more.entries;
        self.links += more.links;
        self.policy |= more.policy;
        self.present += more.present;
        self.changed += more.changed;
        self.merged += more.merged;
        self.differs += more.differs;
        self.refused += more.refused;
        let room = REMARKS_MAX.saturating_sub(self.remarks.len());
        self.remarks.extend(more.remarks.into_iter().take(room));
    }

    pub(super) fn remark(&mut self, fate: Fate, item: &str, code: &str, message: impl Into<String>) {
        let count = match fate {
            Fate::Changed => &mut self.changed,
            Fate::Merged => &mut self.merged,
            Fate::Differs => &mut self.differs,
            Fate::Refused => &mut self.refused,
        };
        *count += 1;
        self.say(fate, item, code, message);
    }

    /// Adds a remark without counting it. Names and texts of a file may have any length, and may contain secrets.
    fn say(&mut self, fate: Fate, item: &str, code: &str, message: impl Into<String>) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(Remark {
                fate,
                item: printable(item, ITEM_BYTES),
                code: code.to_owned(),
                message: printable(&message.into(), MESSAGE_BYTES),
            });
        }
    }

    pub(super) fn refuse(&mut self, item: &str, invalid: &Invalid) {
        self.remark(Fate::Refused, item, &invalid.code, invalid.to_string());
    }

    /// Reports that `item` was taken in with changes, if there are any `warnings`.
    pub(super) fn adapted(&mut self, item: &str, warnings: &[Warning]) {
        self.changed += u64::from(!warnings.is_empty());
        for warning in warnings {
            self.say(Fate::Changed, item, &warning.code, warning.display_line());
        }
    }
}

/// Returns `text` without secrets, cut to its beginning if it has more than `max_bytes` bytes.
fn printable(text: &str, max_bytes: usize) -> String {
    // A secret that is cut off is not recognised, so enough of what follows is kept to make it whole.
    let mut clean = text[..text.floor_char_boundary(max_bytes.saturating_add(SECRET_BYTES))].to_owned();
    Cleaner::new(Redaction::Secrets).text(&mut clean, "report");
    if clean.len() > max_bytes {
        clean.truncate(clean.floor_char_boundary(max_bytes));
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_remark_is_truncated_and_redacted() {
        // Assembled at run time, so that no scanner takes this file for a leak.
        let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
        let mut report = Imported::default();
        let name = format!("{} {token} {}", "n".repeat(ITEM_BYTES - 20), "n".repeat(70_000));
        report.remark(Fate::Changed, &name, "code", format!("tags: {token} became x"));
        let Remark { item, message, .. } = &report.remarks[0];
        assert!(item.len() <= ITEM_BYTES + 3 && item.ends_with('…'), "{item}");
        assert!(!item.contains("ghp_"), "{item}");
        assert_eq!(message, "tags: [redacted:github_token] became x");
        assert_eq!(printable("line 7: obs_1", ITEM_BYTES), "line 7: obs_1");
    }
}
