//! What was shown, shortened and left out.

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// By what it can be asked for: `e42`, `p7`.
    pub name: String,
    /// `budget`: there was no room. `limit`: others of its section come first, and a section has so many lines.
    pub reason: String,
}

/// What is shown by the line of something equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Folded {
    /// By what it can be asked for.
    pub name: String,
    /// The line that stands for it.
    pub into: String,
}

/// What became of a section.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SectionReceipt {
    /// Which: `tasks`, `scratch_page`.
    pub section: String,
    /// Its share of the budget in per cent.
    pub share: u32,
    /// What that is in tokens.
    pub reserved: u32,
    /// What it took.
    pub tokens: u32,
    /// What is shown whole.
    pub shown: Vec<String>,
    /// What is shown shortened.
    pub shortened: Vec<String>,
    /// What is not shown.
    pub omitted: Vec<Omitted>,
    /// What is shown by the line of something equal (M7.3.27).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<Folded>,
    /// How many more there are that nobody looked at, because a section has so many lines.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub beyond: u64,
}

impl SectionReceipt {
    /// What became of `name` in this section: `shown`, `shortened`, `folded into e7`, or why it was left out.
    #[must_use]
    pub fn fate_of(&self, name: &str) -> Option<String> {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        if has(&self.shown) {
            return Some("shown".to_owned());
        }
        if has(&self.shortened) {
            return Some("shortened".to_owned());
        }
        let folded = self.folded.iter().find(|folded| folded.name == name);
        let omitted = self.omitted.iter().find(|omitted| omitted.name == name);
        folded
            .map(|folded| format!("folded into {}", folded.into))
            .or_else(|| omitted.map(|omitted| format!("left out: {}", omitted.reason)))
    }
}

/// What was shown, shortened and left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The SHA-256 of the text.
    pub hash: String,
    /// The tokens that it could have.
    pub budget: u32,
    /// The tokens that it has.
    pub tokens: u32,
    /// How they were counted: `o200k_base`, `estimated`.
    pub counted: String,
    /// Section by section.
    pub sections: Vec<SectionReceipt>,
}

impl Receipt {
    /// How many are left out, those included that nobody looked at.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        let sections = self.sections.iter();
        sections
            .map(|section| section.beyond + u64::try_from(section.omitted.len()).unwrap_or(u64::MAX))
            .sum()
    }

    /// The names that are shown, whole or shortened, in order.
    pub fn shown(&self) -> impl Iterator<Item = &str> {
        let sections = self.sections.iter();
        sections
            .flat_map(|section| section.shown.iter().chain(&section.shortened))
            .map(String::as_str)
    }

    /// The section that had `name`, and what became of it there.
    #[must_use]
    pub fn fate_of(&self, name: &str) -> Option<(&str, String)> {
        self.sections
            .iter()
            .find_map(|section| Some((section.section.as_str(), section.fate_of(name)?)))
    }
}

/// A text that fits its budget, and what it holds and what not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// What goes into the prompt.
    pub text: String,
    /// What it holds and what not.
    pub receipt: Receipt,
    /// Where in the text each section of the receipt ends, in bytes; the next one begins there.
    pub(super) ends: Vec<usize>,
}

impl Rendered {
    /// What each section of the receipt says, in order; nothing for those that say nothing.
    pub fn sections(&self) -> impl Iterator<Item = (&SectionReceipt, &str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let texts = begins.zip(&self.ends).map(|(begin, end)| &self.text[begin..*end]);
        self.receipt.sections.iter().zip(texts)
    }
}

/// The SHA-256 of what is read, as 64 hexadecimal digits.
pub(super) fn hash_of(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
