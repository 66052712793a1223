//! Long things in parts: results that were put away, passages of texts, conversations.

use folio::memory::passage::{FoundLine, Part, PartRead, Reading};
use folio::store::workspace::{Block, Evicted, Offloaded, Said};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// What goes into a prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EvictedShape {
    /// The result itself, or what stands for it.
    pub preview: String,
    /// What that costs.
    pub tokens: u32,
    /// What it is read by; nothing if the result stands here itself.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The SHA-256 of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// How long it is.
    pub bytes: u64,
    /// How many lines it has.
    pub lines: u64,
}

impl EvictedShape {
    /// `evicted` as programs read it.
    #[must_use]
    pub fn of(evicted: Evicted) -> Self {
        let kept = evicted.kept;
        Self {
            preview: evicted.text,
            tokens: evicted.tokens,
            reference: kept.as_ref().map(|kept| kept.handle.to_string()),
            hash: kept.map(|kept| kept.hash),
            bytes: evicted.bytes,
            lines: evicted.lines,
        }
    }
}

/// A part of a text.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PassageShape {
    /// What was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The byte after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The line of the first byte, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_line: Option<u64>,
    /// The lines that hold what was searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<FoundLine>>,
    /// How many lines hold it, as far as was looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How long the whole is.
    pub total_bytes: u64,
    /// And how many lines it has.
    pub total_lines: u64,
    /// Whether there is more of what was asked for.
    pub truncated: bool,
    /// What reads on; null at the end.
    pub next: Option<String>,
}

/// In which language an answer says how to read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOn {
    /// As options of the program.
    Options,
    /// As the query of an address.
    Query,
}

impl ReadOn {
    /// How `part` is asked for; of a search, `words` are what is searched for.
    fn ask(self, part: &Part, words: &str) -> String {
        let fields = match part {
            Part::Lines { from, to: u64::MAX } => vec![("lines", format!("{from}:"))],
            Part::Lines { from, to } => vec![("lines", format!("{from}:{to}"))],
            Part::Bytes { from, to: u64::MAX } => vec![("from", from.to_string())],
            Part::Bytes { from, to } => vec![("from", from.to_string()), ("to", to.to_string())],
            Part::Search { from, .. } => vec![("search", words.to_owned()), ("from", from.to_string())],
        };
        let field = |(name, value): &(&str, String)| match self {
            Self::Options if *name == "search" => format!("--{name} {value:?}"),
            Self::Options => format!("--{name} {value}"),
            Self::Query => format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)),
        };
        let fields: Vec<String> = fields.iter().map(field).collect();
        fields.join(if self == Self::Query { "&" } else { " " })
    }
}

impl PassageShape {
    /// What was read, with the `words` that were searched for.
    #[must_use]
    pub fn of(read: PartRead, words: Option<&str>, read_on: ReadOn) -> Self {
        let words = words.unwrap_or_default();
        let (total_bytes, total_lines) = (read.total_bytes, read.total_lines);
        let empty = Self {
            text: None,
            from: None,
            to: None,
            from_line: None,
            matches: None,
            count: None,
            total_bytes,
            total_lines,
            truncated: false,
            next: None,
        };
        match read.reading {
            Reading::Found(found) => {
                let part = |from| Part::Search {
                    words: words.to_owned(),
                    from,
                };
                Self {
                    truncated: found.next.is_some(),
                    next: found.next.map(|from| read_on.ask(&part(from), words)),
                    matches: Some(found.matches),
                    count: Some(found.count),
                    ..empty
                }
            }
            Reading::Passage(passage) => Self {
                text: Some(passage.text().into_owned()),
                from: Some(passage.from),
                to: Some(passage.to),
                from_line: Some(passage.from_line),
                truncated: passage.next.is_some(),
                next: passage.next.map(|part| read_on.ask(&part, words)),
                ..empty
            },
        }
    }
}

/// The conversation as it goes on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Value>,
    /// What was put away, and where it is.
    pub receipt: OffloadReceipt,
}

/// What was put away, and where it is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OffloadReceipt {
    /// How many messages were put away.
    pub offloaded: u64,
    /// What the messages cost before.
    pub tokens_before: u32,
    /// What those cost that are left.
    pub tokens_after: u32,
    /// The numbers in the history of the first and the last message that was put away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Value>,
    /// The entry with the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The entry with what is to be done next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_actions: Option<String>,
    /// Whether an earlier call had put them away.
    pub replayed: bool,
}

impl Conversation {
    /// `offloaded` as programs read it.
    #[must_use]
    pub fn of(offloaded: Offloaded) -> Self {
        let block: Option<Block> = offloaded.block;
        let of = |block: &Block| json!({"from": block.from, "to": block.to, "ref": block.handle.to_string()});
        Self {
            receipt: OffloadReceipt {
                offloaded: block.as_ref().map_or(0, |block| block.to + 1 - block.from),
                tokens_before: offloaded.tokens.0,
                tokens_after: offloaded.tokens.1,
                history: block.as_ref().map(of),
                summary: block.as_ref().map(|block| block.summary.to_string()),
                next_actions: block.as_ref().map(|block| block.next_actions.to_string()),
                replayed: block.is_some_and(|block| block.replayed),
            },
            messages: offloaded.messages,
        }
    }
}

/// What was said.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SaidShape {
    /// The messages.
    pub messages: Vec<Numbered>,
    /// How many there are.
    pub total: u64,
    /// The first that is not given here.
    pub next: Option<u64>,
}

/// A message with its number.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Numbered {
    /// Its place in the history, counted from 1.
    pub number: u64,
    /// As it was given.
    pub message: Value,
}

impl SaidShape {
    /// `said` as programs read it.
    #[must_use]
    pub fn of(said: Said) -> Self {
        let numbered = |(number, message)| Numbered { number, message };
        Self {
            messages: said.messages.into_iter().map(numbered).collect(),
            total: said.total,
            next: said.next,
        }
    }
}
