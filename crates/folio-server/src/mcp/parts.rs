//! Long texts that a model reads in several answers. A cursor says how far it has read, and what it has read, so that a
//! text that changed meanwhile is not continued in the middle of something else.

use data_encoding::HEXLOWER;
use folio::memory::Invalid;
use folio::memory::tokens::Tokens;
use sha2::{Digest as _, Sha256};

use super::answer::truncate_to_tokens;
use super::tools::invalid_argument;

/// Bytes of the hash by which a cursor identifies what was read.
const STATE_BYTES: usize = 8;

/// A part of a text.
#[derive(Debug)]
pub(super) struct Part<'t> {
    pub(super) text: &'t str,
    /// The cursor after it, if there is more.
    pub(super) next: Option<String>,
    /// The bytes after it.
    left: usize,
}

impl<'t> Part<'t> {
    /// Returns the part of `whole` from byte `from` on that costs at most `room` tokens.
    pub(super) fn of(whole: &'t str, from: usize, room: u32, tokens: &dyn Tokens) -> Self {
        let text = truncate_to_tokens(&whole[from..], room, tokens);
        let end = from + text.len();
        Self {
            text,
            next: (end < whole.len()).then(|| format!("{}@{end}", state(&whole[..end]))),
            left: whole.len() - end,
        }
    }

    /// Returns the line that says how to go on, if there is more.
    pub(super) fn go_on(&self) -> String {
        match &self.next {
            Some(next) => format!("\n(+{} bytes; go on with cursor {next:?})", self.left),
            None => String::new(),
        }
    }
}

/// Returns the byte of `whole` at which the part after `cursor` begins; `name` says what is read.
pub(super) fn start_after(whole: &str, cursor: Option<&str>, name: &str) -> Result<usize, Invalid> {
    let Some(cursor) = cursor else { return Ok(0) };
    let (of, at) = cursor.split_once('@').unwrap_or_default();
    let at = at.parse().map_err(|_| {
        let message = format!("{cursor:?} is not the `next` of an earlier answer");
        invalid_argument("cursor", message)
    })?;
    if whole.get(..at).is_none_or(|read| state(read) != of) {
        let message = format!("the part of {name} that was read has changed; read it again without a cursor");
        return Err(invalid_argument("cursor", message));
    }
    Ok(at)
}

/// Returns the hash of what was read so far. Text that is added after it does not invalidate a cursor.
fn state(read: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(read)[..STATE_BYTES])
}
