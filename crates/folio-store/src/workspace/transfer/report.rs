//! What became of what was brought in.

use folio_memory::{Invalid, Warning};
use schemars::JsonSchema;
use serde::Serialize;

/// Remarks that a report keeps; more are only counted.
const REMARKS_MAX: usize = 1_000;

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

    /// The same about something that was counted.
    fn say(&mut self, fate: Fate, item: &str, code: &str, message: impl Into<String>) {
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(Remark {
                fate,
                item: item.to_owned(),
                code: code.to_owned(),
                message: message.into(),
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
