//! Previews: the part of a tool's result that goes into a prompt for which the whole is too large (M7.8 V9).
//!
//! A [`Sampler`] reads the result once, piece by piece, and keeps its beginning, its end, the lines that report a
//! failure and, if it is JSON, an outline. The whole is stored elsewhere under a name. From the [`Sample`] and that
//! name, [`preview`] makes a text within a budget of tokens, including a notice with the name.

mod failing;
mod outline;
mod preview;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use preview::{Preview, preview};

use self::outline::Outline;
use crate::entry::Owner;
use crate::id::{EntryId, PageId};
use crate::page::{PageFields, PageRole};
use crate::passage::newlines;
use crate::space::SpaceName;
use crate::tokens::Tokens;

/// The default maximum number of tokens of a result in a prompt.
pub const LIMIT_TOKENS: u32 = 2_000;

/// The bytes of the beginning and of the end that are kept per token of the budget. More could not be shown: most texts
/// have fewer bytes per token, and those with more consist mostly of white space.
const BYTES_PER_TOKEN: usize = 8;
const SAMPLE_BYTES_MIN: usize = 4 * 1024;
const SAMPLE_BYTES_MAX: usize = 1024 * 1024;

/// The origin of a result. Only results of tools are put away: the others can be read again from their origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultOf {
    /// A tool.
    #[default]
    Tool,
    /// A file, which can be read again.
    File,
    /// Folio itself: memory, or a part of a result that was put away.
    Memory,
}

/// The page with the results that a space has put away. Its id is the same wherever it is computed.
#[must_use]
pub fn page_of(space: &SpaceName) -> (PageId, PageFields) {
    (
        PageId::derived(&["tool_results", space.as_str()]),
        PageFields::new(PageRole::ToolResults, "Results of tools", Owner::agent()),
    )
}

/// How often the same result may be forgotten and put away again, still being kept once.
pub const GENERATIONS: u32 = 16;

/// The id of the entry for the result whose text is kept under `hash`, so that a repeated result is kept once. A result
/// that returns after it was forgotten gets another entry, of the next generation, counted from 0 and below
/// [`GENERATIONS`].
#[must_use]
pub fn entry_of(space: &SpaceName, hash: &str, generation: u32) -> EntryId {
    let result = ["tool_result", space.as_str(), hash];
    match generation {
        0 => EntryId::derived(&result),
        _ => EntryId::derived(&[&result[..], &[&generation.to_string()]].concat()),
    }
}

/// Collects what is kept of a result while it streams by.
#[derive(Debug)]
pub struct Sampler {
    /// The maximum number of bytes kept of the beginning, and of the end.
    room: usize,
    bytes: u64,
    newlines: u64,
    ends_with_newline: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    failing: failing::Reader,
    outline: Outline,
}

impl Sampler {
    /// Creates a sampler for a preview of at most `limit_tokens`.
    #[must_use]
    pub fn new(limit_tokens: u32) -> Self {
        let target_bytes = usize::try_from(limit_tokens)
            .unwrap_or(usize::MAX)
            .saturating_mul(BYTES_PER_TOKEN);
        Self {
            room: target_bytes.clamp(SAMPLE_BYTES_MIN, SAMPLE_BYTES_MAX),
            bytes: 0,
            newlines: 0,
            ends_with_newline: false,
            head: Vec::new(),
            tail: Vec::new(),
            failing: failing::Reader::default(),
            outline: Outline::default(),
        }
    }

    /// The number of bytes beyond which a result is certainly put away, because its beginning is no longer kept
    /// completely.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Takes the next bytes of the result.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.bytes += bytes.len() as u64;
        self.newlines += newlines(bytes);
        self.ends_with_newline = *last == b'\n';
        let of_head = self.room.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..of_head]);
        let of_tail = &bytes[bytes.len().saturating_sub(self.room)..];
        let kept = self.tail.len().min(self.room - of_tail.len());
        self.tail.drain(..self.tail.len() - kept);
        self.tail.extend_from_slice(of_tail);
        self.failing.feed(bytes);
        self.outline.feed(bytes);
    }

    /// Returns the sample once the whole result was fed.
    #[must_use]
    pub fn finish(self) -> Sample {
        Sample {
            bytes: self.bytes,
            lines: self.newlines + u64::from(self.bytes > 0 && !self.ends_with_newline),
            head: self.head,
            tail: self.tail,
            failures: self.failing.finish(),
            outline: self.outline.finish(),
        }
    }
}

/// What is known of a result that was read.
#[derive(Debug)]
pub struct Sample {
    bytes: u64,
    lines: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    failures: failing::Failures,
    outline: Option<outline::Node>,
}

impl Sample {
    /// The length of the result in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of lines of the result.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The beginning of the result, or all of it.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The result itself, if it costs at most `limit_tokens` and need not be put away.
    #[must_use]
    pub fn whole_within(&self, limit_tokens: u32, tokens: &dyn Tokens) -> Option<Preview> {
        if self.head.len() as u64 != self.bytes {
            return None;
        }
        let text = String::from_utf8_lossy(&self.head).into_owned();
        let tokens = tokens.count(&text);
        (tokens <= limit_tokens).then_some(Preview { text, tokens })
    }
}

#[cfg(test)]
mod tests;
