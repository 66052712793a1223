//! Texts that are kept beside their entries, as lines of a file.

use std::io::{self, Read};

use data_encoding::BASE64;
use folio_memory::transfer::PieceLine;
use folio_memory::{EntryId, Invalid};
use tokio::sync::mpsc;

/// The line of the piece `number` of the text of `of`.
pub(super) fn piece_of(of: EntryId, number: u64, bytes: Vec<u8>) -> PieceLine {
    let (text, base64) = match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(BASE64.encode(error.as_bytes()))),
    };
    PieceLine {
        of,
        number,
        text,
        base64,
    }
}

/// The bytes of `piece`.
///
/// # Errors
///
/// `line_malformed` if it has none, or they cannot be read.
pub(super) fn bytes_of(piece: PieceLine) -> Result<Vec<u8>, Invalid> {
    match (piece.text, piece.base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(code)) => BASE64
            .decode(code.as_bytes())
            .map_err(|error| Invalid::new("line_malformed", "base64", error.to_string())),
        _ => Err(Invalid::new(
            "line_malformed",
            "text",
            "must have either `text` or `base64`",
        )),
    }
}

/// Makes what comes through a channel a blocking reader, for a thread that may wait.
pub(super) struct Arriving {
    pieces: mpsc::Receiver<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
}

impl Arriving {
    pub(super) fn new(pieces: mpsc::Receiver<Vec<u8>>) -> Self {
        Self {
            pieces,
            rest: io::Cursor::default(),
        }
    }
}

impl Read for Arriving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.rest.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            match self.pieces.blocking_recv() {
                Some(piece) => self.rest = io::Cursor::new(piece),
                None => return Ok(0),
            }
        }
    }
}
