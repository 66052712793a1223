//! Reads the lines of a file ahead.

use std::io::{self, BufRead, Read as _};

use data_encoding::HEXLOWER;
use folio_memory::entry::BodyRef;
use folio_memory::transfer::{Line, PieceLine, without_mark};
use folio_memory::{EntryId, Invalid};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::super::{WorkspaceError, redact};
use super::pieces::bytes_of;

/// Bytes of the longest line: the longest text, with every character escaped.
const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// The error code for a text that is not the one that the file claims.
pub(super) const TEXT_DAMAGED: &str = "text_damaged";
/// Replaces a line that is not valid UTF-8: [`Line::parse`] takes it for the reason.
const NOT_TEXT: &str = "\"is not valid UTF-8\"";
/// How many lines or pieces are read ahead of writing.
pub(super) const AHEAD: usize = 2;

/// Lines with their numbers, from 1, as they are read.
pub(super) struct Lines {
    read: mpsc::Receiver<io::Result<(u64, String)>>,
    /// The number of the last line.
    pub(super) number: u64,
    /// Unknown keys of the last line.
    pub(super) unknown: Vec<String>,
    /// A line that was read too early, with its number.
    back: Option<(u64, String)>,
}

impl Lines {
    /// Reads `source` on a thread that may block.
    pub(super) fn of(source: impl BufRead + Send + 'static) -> Self {
        let (lines, read) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || read_lines(source, &lines));
        Self::from(read)
    }

    /// An empty source.
    pub(super) fn none() -> Self {
        Self::from(mpsc::channel(1).1)
    }

    fn from(read: mpsc::Receiver<io::Result<(u64, String)>>) -> Self {
        Self {
            read,
            number: 0,
            unknown: Vec::new(),
            back: None,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Result<Line, Invalid>>, WorkspaceError> {
        Ok(self.next_text().await?.map(|text| {
            let line = Line::parse(&text);
            self.unknown = line.as_ref().map(|line| line.unknown_keys(&text)).unwrap_or_default();
            line
        }))
    }

    /// The next line that is not empty.
    pub(super) async fn next_text(&mut self) -> Result<Option<String>, WorkspaceError> {
        if let Some((number, text)) = self.back.take() {
            self.number = number;
            return Ok(Some(text));
        }
        loop {
            let Some(line) = self.read.recv().await else {
                return Ok(None);
            };
            let (number, text) = line.map_err(WorkspaceError::Input)?;
            self.number = number;
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
    }

    /// The piece `number` of the text of `entry`, if it comes next. If another line comes, that is kept as the next
    /// one.
    pub(super) async fn next_piece(
        &mut self,
        entry: EntryId,
        number: u64,
    ) -> Result<Result<PieceLine, Invalid>, WorkspaceError> {
        if let Some(text) = self.next_text().await? {
            match Line::parse(&text) {
                Ok(Line::Piece(piece)) if piece.of == entry && piece.number == number => return Ok(Ok(piece)),
                _ => self.back = Some((self.number, text)),
            }
        }
        let message = format!("piece {number} of its text is missing here");
        Ok(Err(Invalid::new("line_malformed", "record", message)))
    }

    /// The bytes of that piece, which must have the hash `hash`. If something was redacted when the file was written,
    /// the text has a placeholder and another hash: then other changes cannot be detected.
    pub(super) async fn next_bytes(
        &mut self,
        entry: EntryId,
        number: u64,
        hash: &str,
    ) -> Result<Result<Vec<u8>, Invalid>, WorkspaceError> {
        let bytes = match self.next_piece(entry, number).await?.and_then(bytes_of) {
            Ok(bytes) => bytes,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let is_whole = HEXLOWER.encode(&Sha256::digest(&bytes)) == hash || redact::has_placeholder(&bytes);
        let message = format!(
            "piece {number} of its text is not what was written: the file is damaged, or somebody changed the text in it; a text \
             of that length can only be changed in the store"
        );
        Ok(is_whole
            .then_some(bytes)
            .ok_or_else(|| Invalid::new(TEXT_DAMAGED, "text", message)))
    }

    /// Skips the text of `entry`, an entry that is not taken in, as far as it is there.
    pub(super) async fn skip_text(&mut self, entry: EntryId, text: Option<&BodyRef>) -> Result<(), WorkspaceError> {
        self.check_text(entry, text).await.map(drop)
    }

    /// Skips the text, and checks that all of it is there, as it was written.
    pub(super) async fn check_text(
        &mut self,
        entry: EntryId,
        text: Option<&BodyRef>,
    ) -> Result<Result<(), Invalid>, WorkspaceError> {
        for (number, hash) in (1..).zip(text.iter().flat_map(|text| text.hashes())) {
            if let Err(invalid) = self.next_bytes(entry, number, hash).await? {
                if let Some(text) = text {
                    self.skip_behind(entry, number, text, &invalid).await?;
                }
                return Ok(Err(invalid));
            }
        }
        Ok(Ok(()))
    }

    /// Skips the pieces of `text` after the piece `number`, which is `wrong`: if that is damaged and not missing, the
    /// others follow.
    pub(super) async fn skip_behind(
        &mut self,
        entry: EntryId,
        number: u64,
        text: &BodyRef,
        wrong: &Invalid,
    ) -> Result<(), WorkspaceError> {
        if wrong.code == TEXT_DAMAGED {
            for next in number + 1..=text.hashes().count() as u64 {
                if self.next_piece(entry, next).await?.is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn read_lines(mut source: impl BufRead, lines: &mpsc::Sender<io::Result<(u64, String)>>) {
    for number in 1.. {
        let mut bytes = Vec::new();
        let read = (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) => return,
            Ok(_) if bytes.len() as u64 == LINE_BYTES_MAX => Err(io::Error::other(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes"
            ))),
            Ok(_) => {
                // Decoding invalid UTF-8 loosely would change the text. The line is reported with its place, like any
                // line that cannot be read.
                let text = String::from_utf8(bytes).unwrap_or_else(|_| NOT_TEXT.to_owned());
                // Some editors put a byte order mark at the beginning.
                let text = match without_mark(&text) {
                    bare if number == 1 && bare.len() < text.len() => bare.to_owned(),
                    _ => text,
                };
                Ok((number, text))
            }
            Err(error) => Err(error),
        };
        let is_last = line.is_err();
        if lines.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}
