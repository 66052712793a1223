//! The receipt of a view or a context: what was shown, shortened and left out.

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why something was left out that the reader was told before.
pub const TOLD: &str = "told";

/// An entry that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// The name by which it can be requested: `e42`, `p7`.
    pub name: String,
    /// `budget`: there was no room. `limit`: the section had reached its maximum number of lines. `told`: the reader was
    /// told it before.
    pub reason: String,
}

/// An entry that is shown by the line of an equal one, or by another line that says the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Folded {
    /// The name by which it can be requested.
    pub name: String,
    /// The name of the line that stands for it.
    pub into: String,
}

/// The account of one section.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SectionReceipt {
    /// The name of the section: `tasks`, `scratch_page`.
    pub section: String,
    /// The section's share of the budget, in percent.
    pub share: u32,
    /// The tokens reserved for the section.
    pub reserved: u32,
    /// The tokens that the section used.
    pub tokens: u32,
    /// The names of entries that are shown whole.
    pub shown: Vec<String>,
    /// The names of entries that are shown shortened.
    pub shortened: Vec<String>,
    /// The entries that are not shown.
    pub omitted: Vec<Omitted>,
    /// The entries that are shown by the line of an equal one (M7.3.27), or by a line of another section that says the
    /// same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<Folded>,
    /// The number of further entries that were not looked at, because the section had reached its maximum number of
    /// lines.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub beyond: u64,
}

impl SectionReceipt {
    /// What happened to `name` in this section: `shown`, `shortened`, `folded into e7`, or why it was left out.
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

/// The account of a view or a context: what was shown, shortened and left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The SHA-256 of the rendered text.
    pub hash: String,
    /// The budget in tokens.
    pub budget: u32,
    /// The tokens used.
    pub tokens: u32,
    /// How tokens were counted: `o200k_base`, `estimated`.
    pub counted: String,
    /// The account of each section.
    pub sections: Vec<SectionReceipt>,
}

impl Receipt {
    /// The number of entries left out, including those that were not looked at.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        let sections = self.sections.iter();
        sections
            .map(|section| section.beyond + u64::try_from(section.omitted.len()).unwrap_or(u64::MAX))
            .sum()
    }

    /// The names of entries shown whole or shortened, in order.
    pub fn shown(&self) -> impl Iterator<Item = &str> {
        let sections = self.sections.iter();
        sections
            .flat_map(|section| section.shown.iter().chain(&section.shortened))
            .map(String::as_str)
    }

    /// The section that contains `name`, and what happened to it there.
    #[must_use]
    pub fn fate_of(&self, name: &str) -> Option<(&str, String)> {
        self.sections
            .iter()
            .find_map(|section| Some((section.section.as_str(), section.fate_of(name)?)))
    }
}

/// A text that fits its budget, with its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// The text for the prompt.
    pub text: String,
    /// The receipt of the text.
    pub receipt: Receipt,
    /// The byte offset at which each section of the receipt ends; the next one begins there.
    #[serde(skip)]
    pub(super) ends: Vec<usize>,
}

impl Rendered {
    /// The text of each section of the receipt, in order; empty for sections that show nothing.
    pub fn sections(&self) -> impl Iterator<Item = (&SectionReceipt, &str)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let texts = begins.zip(&self.ends).map(|(begin, end)| &self.text[begin..*end]);
        self.receipt.sections.iter().zip(texts)
    }
}

/// The SHA-256 of the text, as 64 hexadecimal digits.
pub(super) fn hash_of(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
