//! Long texts in parts: results put away, passages of texts, and conversations.

use folio::memory::Warning;
use folio::memory::passage::{FoundLine, Part, PartRead, Reading};
use folio::store::workspace::{Block, Evicted, Offloaded, Said};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::List;

/// What takes the place of a tool's result in a prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EvictedShape {
    /// The result itself if it is small enough, otherwise a preview of it.
    pub preview: String,
    /// The number of tokens of the preview.
    pub tokens: u32,
    /// The handle of the entry by which the result is read; null if `preview` is the result itself.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The SHA-256 hash of the result; null if `preview` is the result itself.
    pub hash: Option<String>,
    /// The length of the result in bytes.
    pub bytes: u64,
    /// The number of lines of the result.
    pub lines: u64,
    /// Warnings about the turn in which it was put away: that it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_warnings: Vec<Warning>,
}

impl EvictedShape {
    /// Returns `evicted` in its wire form.
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
            turn_warnings: Vec::new(),
        }
    }
}

/// A part of a long text, or the lines of it that a search found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PassageShape {
    /// The text that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The position of the first byte of `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The position after the last byte of `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The number of the line with the first byte, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_line: Option<u64>,
    /// The lines that contain the text searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<FoundLine>>,
    /// How many lines contain it in the part that was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The length of the whole text in bytes.
    pub total_bytes: u64,
    /// The number of lines of the whole text.
    pub total_lines: u64,
    /// Whether more of what was requested follows.
    pub truncated: bool,
    /// The query, or the command line options, that read the next part; null at the end.
    pub next: Option<String>,
}

/// The form in which an answer says how to read the next part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOn {
    /// As options of the command line program.
    Options,
    /// As the query of a URL.
    Query,
}

impl ReadOn {
    /// Returns how to request `part`; for a search, `words` is the text searched for.
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
    /// Returns `read` in its wire form; `words` is the text that was searched for.
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

/// A conversation after its older messages were offloaded.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conversation {
    /// The messages with which the conversation continues.
    pub messages: Vec<Value>,
    /// The account of what was put away, and where it is.
    pub receipt: OffloadReceipt,
    /// Warnings about the turn in which they were put away: that it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_warnings: Vec<Warning>,
}

/// The account of what was put away, and where it is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OffloadReceipt {
    /// The number of messages that were put away.
    pub offloaded: u64,
    /// The number of tokens of all messages before.
    pub tokens_before: u32,
    /// The number of tokens of the messages that are left.
    pub tokens_after: u32,
    /// The numbers in the history of the first and the last message that was put away, and the handle of their block;
    /// null if none was put away.
    pub history: Option<Value>,
    /// The handle of the entry with the summary; null if no message was put away.
    pub summary: Option<String>,
    /// The handle of the entry with the next actions; null if there are none.
    pub next_actions: Option<String>,
    /// Whether an earlier call had put them away already.
    pub replayed: bool,
}

impl Conversation {
    /// Returns `offloaded` in its wire form.
    #[must_use]
    pub fn of(offloaded: Offloaded) -> Self {
        let block: Option<Block> = offloaded.block;
        let block_json = |block: &Block| json!({"from": block.from, "to": block.to, "ref": block.handle.to_string()});
        Self {
            receipt: OffloadReceipt {
                offloaded: block.as_ref().map_or(0, |block| block.to + 1 - block.from),
                tokens_before: offloaded.tokens.0,
                tokens_after: offloaded.tokens.1,
                history: block.as_ref().map(block_json),
                summary: block.as_ref().map(|block| block.summary.to_string()),
                next_actions: block.as_ref().and_then(|block| Some(block.next_actions?.to_string())),
                replayed: block.is_some_and(|block| block.replayed),
            },
            messages: offloaded.messages,
            turn_warnings: Vec::new(),
        }
    }
}

/// How many messages one search of a history returns.
pub const FOUND_MAX: usize = 100;

/// Messages of the history of a thread: a list like all others.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SaidShape {
    /// The messages, oldest first.
    pub items: Vec<Numbered>,
    /// The same as `items`, under the name that they had before, unless they are not wanted twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Numbered>")]
    pub messages: Option<Vec<Numbered>>,
    /// The number of messages in this answer.
    pub returned: usize,
    /// The number of messages in the history.
    pub total: u64,
    /// The number of the first message after those given here, which continues as `cursor` or as `from`; null at the
    /// end.
    pub next: Option<u64>,
    /// The last commit that the answer takes into account.
    pub as_of: u64,
    /// The estimated number of tokens that a model needs to read the items as JSON.
    pub tokens: u64,
}

/// A message of the history with its number.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Numbered {
    /// Its place in the history, counted from 1.
    pub number: u64,
    /// The message as it was given to Folio.
    pub message: Value,
}

impl SaidShape {
    /// Returns `passage`, which was read as of the commit `as_of`, in its wire form.
    #[must_use]
    pub fn of(passage: Said, as_of: u64) -> Self {
        let numbered = |(number, message)| Numbered { number, message };
        let list = List::whole(passage.messages.into_iter().map(numbered).collect(), as_of);
        Self {
            messages: Some(list.items.clone()),
            items: list.items,
            returned: list.returned,
            total: passage.total,
            next: passage.next,
            as_of,
            tokens: list.tokens,
        }
    }

    /// Returns the same with the messages once.
    #[must_use]
    pub fn once(self) -> Self {
        Self { messages: None, ..self }
    }
}
