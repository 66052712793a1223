//! What became of what was brought in.

use folio_memory::keeping::Redaction;
use folio_memory::{Invalid, Warning};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::redact::Cleaner;

/// Remarks that a report keeps; more are only counted.
const REMARKS_MAX: usize = 1_000;
/// Bytes of what a remark calls something, and of what it says.
const ITEM_BYTES: usize = 256;
const MESSAGE_BYTES: usize = 1024;
/// Bytes of the longest secret of a known shape, about.
const SECRET_BYTES: usize = 4 * 1024;

/// What became of something that a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was taken in, not quite as it stood.
    Changed,
    /// It was there, and is now as the file says.
    Merged,
    /// It is there, and otherwise: what is there stays.
    Differs,
    /// It was not taken in.
    Refused,
}

impl Fate {
    /// The name as it is written.
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

/// Something about one item of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remark {
    /// What became of it.
    pub fate: Fate,
    /// Which: its id in the file, with its thread before it if there is one, or the number of its line.
    pub item: String,
    /// A stable name of the reason.
    pub code: String,
    /// The reason, in words.
    pub message: String,
}

/// What was brought in, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
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
    /// What was there already, just so.
    pub present: u64,
    /// What was taken in, not quite as it stood.
    pub changed: u64,
    /// What was there, and is now as the file says.
    pub merged: u64,
    /// What is there otherwise, and stays as it is.
    pub differs: u64,
    /// What was not taken in.
    pub refused: u64,
    /// Which, and why: the first thousand.
    pub remarks: Vec<Remark>,
}

impl Imported {
    /// Takes in what became of more of it.
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

    /// The same about something that was counted. Names and texts of a file may be of any length, and have what is kept nowhere.
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

    pub(super) fn refuse(&mut self, item: &str, why: &Invalid) {
        self.remark(Fate::Refused, item, &why.code, why.to_string());
    }

    /// That `item` was not taken in quite as it stood, if anything was put right.
    pub(super) fn adapted(&mut self, item: &str, warnings: &[Warning]) {
        self.changed += u64::from(!warnings.is_empty());
        for warning in warnings {
            self.say(Fate::Changed, item, &warning.code, warning.told());
        }
    }
}

/// `text` without secrets, and its beginning if it has more than `most` bytes.
fn printable(text: &str, most: usize) -> String {
    // A secret that is cut off is none that is known: with so much of what follows that it is whole.
    let mut clean = text[..text.floor_char_boundary(most.saturating_add(SECRET_BYTES))].to_owned();
    Cleaner::new(Redaction::Secrets).text(&mut clean, "report");
    if clean.len() > most {
        clean.truncate(clean.floor_char_boundary(most));
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_short_and_has_no_secret() {
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
