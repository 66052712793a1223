//! What of a tool's result goes into a prompt when all of it would be too much (M7.8 V9).
//!
//! The result is read once, piece by piece, by a [`Sampler`], which keeps its beginning, its end and, if it is JSON, an
//! outline. The whole is kept elsewhere under a name; [`preview`] makes of the [`Sample`] and that name a text that costs at
//! most what was allowed, the notice with the name included.

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

/// Tokens that a result may cost if nobody says otherwise.
pub const LIMIT_TOKENS: u32 = 2_000;

/// Bytes of the beginning and of the end that are kept for one token that may be shown. More would not be shown: most texts
/// have less for a token, and what has more is mostly white space.
const BYTES_PER_TOKEN: usize = 8;
const SAMPLE_BYTES_MIN: usize = 4 * 1024;
const SAMPLE_BYTES_MAX: usize = 1024 * 1024;

/// What a result is of. Only those of tools are put away: the others can be read again where they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultOf {
    /// A tool.
    #[default]
    Tool,
    /// A file that was read, and is still there.
    File,
    /// Folio itself: memory, or a part of a result that was put away.
    Memory,
}

/// The page with the results of a space that were put away: the same id wherever it is asked for.
#[must_use]
pub fn page_of(space: &SpaceName) -> (PageId, PageFields) {
    (
        PageId::derived(&["tool_results", space.as_str()]),
        PageFields::new(PageRole::ToolResults, "Results of tools", Owner::agent()),
    )
}

/// How often a result may be forgotten and come again, and still be kept once.
pub const GENERATIONS: u32 = 16;

/// The entry of the result whose text is kept under `hash`: a result that comes twice is kept once. One that was forgotten is
/// another entry when it comes again, of the next of [`GENERATIONS`], counted from 0.
#[must_use]
pub fn entry_of(space: &SpaceName, hash: &str, generation: u32) -> EntryId {
    let result = ["tool_result", space.as_str(), hash];
    match generation {
        0 => EntryId::derived(&result),
        _ => EntryId::derived(&[&result[..], &[&generation.to_string()]].concat()),
    }
}

/// What is kept of a result while it goes by.
#[derive(Debug)]
pub struct Sampler {
    /// Bytes of the beginning, and of the end, that are kept.
    room: usize,
    bytes: u64,
    newlines: u64,
    ends_with_newline: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    outline: Outline,
}

impl Sampler {
    /// For a preview of at most `limit_tokens`.
    #[must_use]
    pub fn new(limit_tokens: u32) -> Self {
        let wanted = usize::try_from(limit_tokens)
            .unwrap_or(usize::MAX)
            .saturating_mul(BYTES_PER_TOKEN);
        Self {
            room: wanted.clamp(SAMPLE_BYTES_MIN, SAMPLE_BYTES_MAX),
            bytes: 0,
            newlines: 0,
            ends_with_newline: false,
            head: Vec::new(),
            tail: Vec::new(),
            outline: Outline::default(),
        }
    }

    /// Bytes from which on a result is certainly put away, since it is longer than what is kept of its beginning.
    #[must_use]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Looks at the next bytes of the result.
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
        self.outline.feed(bytes);
    }

    /// What was kept, when all has gone by.
    #[must_use]
    pub fn finish(self) -> Sample {
        Sample {
            bytes: self.bytes,
            lines: self.newlines + u64::from(self.bytes > 0 && !self.ends_with_newline),
            head: self.head,
            tail: self.tail,
            outline: self.outline.finish(),
        }
    }
}

/// What is known of a result that went by.
#[derive(Debug)]
pub struct Sample {
    bytes: u64,
    lines: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
    outline: Option<outline::Node>,
}

impl Sample {
    /// Bytes of the result.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lines of the result.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Its beginning, or all of it.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The result itself, if it costs at most `limit_tokens`: then nothing has to be put away.
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
