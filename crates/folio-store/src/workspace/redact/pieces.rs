//! Cleans bodies that are too long for memory, in pieces.
//!
//! A piece ends where nothing that has to go crosses its end. What follows is scanned together with the end of the
//! piece before, so that a secret is recognised by its name even if a piece ends between the two.

use std::io::{self, Read};

use folio_memory::keeping::Redaction;
use folio_memory::{Pii, Warning};

use super::{Cleaner, placeholder_of};

/// Approximate bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 1024 * 1024;
/// Bytes scanned beyond a piece: more than any secret has.
const AHEAD: usize = 64 * 1024;
/// Bytes before a piece that are scanned again: more than any name of a secret has.
const BEHIND: usize = 1024;

/// The field name of a body in warnings.
const FIELD: &str = "body";

/// Splits a body into pieces, without what a space does not want stored. The pieces of a body are the same however it
/// is read.
#[derive(Debug)]
pub(crate) struct CleanPieces<R> {
    source: R,
    cleaner: Cleaner,
    /// What was read; the first `behind` bytes were already returned.
    buffer: Vec<u8>,
    behind: usize,
    is_at_end: bool,
}

impl<R: Read> CleanPieces<R> {
    /// Reads `source`, and takes out what `mode` says.
    pub(crate) fn new(source: R, mode: Redaction) -> Self {
        Self {
            source,
            cleaner: Cleaner::new(mode),
            buffer: Vec::with_capacity(BEHIND + PIECE_BYTES + AHEAD),
            behind: 0,
            is_at_end: false,
        }
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// Any error of the source.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let full = self.behind + PIECE_BYTES + AHEAD;
        if !self.is_at_end {
            let missing = full - self.buffer.len();
            let read = (&mut self.source).take(missing as u64).read_to_end(&mut self.buffer)?;
            self.is_at_end = read < missing;
        }
        if self.buffer.len() == self.behind {
            return Ok(None);
        }
        let spans = self.spans();
        let end = self.end_of_piece(&spans);
        let mut piece = Vec::with_capacity(end - self.behind);
        let mut rest = self.behind;
        for (start, stop, placeholder) in &spans {
            if *stop <= self.behind || *start >= end {
                continue;
            }
            piece.extend_from_slice(&self.buffer[rest..(*start).max(rest)]);
            piece.extend_from_slice(placeholder.as_bytes());
            rest = *stop;
        }
        piece.extend_from_slice(&self.buffer[rest.min(end)..end]);
        let kept_from = end.saturating_sub(BEHIND);
        self.behind = end - kept_from;
        self.buffer.drain(..kept_from);
        Ok(Some(piece))
    }

    /// Whether there are no more pieces.
    pub(crate) fn is_over(&self) -> bool {
        self.is_at_end && self.buffer.len() == self.behind
    }

    /// The warnings about what was taken out, and the kinds of personal data in the pieces.
    pub(crate) fn finish(mut self) -> (Vec<Warning>, Vec<Pii>) {
        let pii = self.cleaner.take_pii();
        (self.cleaner.into_warnings(), pii)
    }

    /// What has to go from the buffer: start, end, and the placeholder.
    fn spans(&mut self) -> Vec<(usize, usize, String)> {
        let mut spans = Vec::new();
        let mut at = 0;
        // Most bodies are valid text, and finding that out at once is ten times as fast as looking for invalid parts.
        let chunks: Vec<(&str, usize)> = match std::str::from_utf8(&self.buffer) {
            Ok(text) => vec![(text, 0)],
            Err(_) => self
                .buffer
                .utf8_chunks()
                .map(|chunk| (chunk.valid(), chunk.invalid().len()))
                .collect(),
        };
        for (text, others) in chunks {
            for span in self.cleaner.spans(text) {
                let placeholder = placeholder_of(&span);
                if at + span.end > self.behind {
                    let kind = if super::personal::kind_of(&span).is_some() {
                        "pii"
                    } else {
                        "secret"
                    };
                    self.cleaner.warn(FIELD, placeholder.clone(), kind);
                }
                spans.push((at + span.start, at + span.end, placeholder));
            }
            at += text.len() + others;
        }
        spans
    }

    /// Where the piece at the beginning of the buffer ends: at the end of a line, or at least between two characters.
    fn end_of_piece(&self, spans: &[(usize, usize, String)]) -> usize {
        if self.is_at_end && self.buffer.len() - self.behind <= PIECE_BYTES {
            return self.buffer.len();
        }
        let max_end = (self.behind + PIECE_BYTES).min(self.buffer.len());
        let min_end = self.behind + PIECE_BYTES / 2;
        let line = self.buffer[min_end.min(max_end)..max_end]
            .iter()
            .rposition(|byte| *byte == b'\n');
        let is_inside = |at: usize| {
            self.buffer
                .get(at)
                .is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000)
        };
        let end = match line {
            Some(at) => min_end + at + 1,
            None => (max_end.saturating_sub(3)..=max_end)
                .rev()
                .find(|at| !is_inside(*at))
                .unwrap_or(max_end),
        };
        match spans.iter().find(|(start, stop, _)| *start < end && end < *stop) {
            Some((start, ..)) if *start > self.behind => *start,
            Some((_, stop, _)) => *stop,
            None => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &[u8]) -> Vec<u8> {
        let mut pieces = CleanPieces::new(text, Redaction::Secrets);
        let mut all = Vec::new();
        while let Some(piece) = pieces.next().unwrap() {
            assert!(piece.len() <= PIECE_BYTES + AHEAD);
            all.extend(piece);
        }
        all
    }

    #[test]
    fn secret_across_a_piece_boundary_is_redacted_m7_6_48() {
        // Assembled at run time, so that no scanner takes this file for a leak.
        let token = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
        let password = ["\"password\": \"", "s3cr3t-Horse-99\""].concat();
        for secret in [&token, &password] {
            for before in (PIECE_BYTES - 60..PIECE_BYTES + 10).step_by(7) {
                let text = format!("{} {secret} {}", "x".repeat(before), "y ".repeat(PIECE_BYTES));
                let clean = String::from_utf8(cleaned(text.as_bytes())).unwrap();
                assert!(
                    !clean.contains("0123456789abcdefghij") && !clean.contains("s3cr3t"),
                    "{before}"
                );
                assert_eq!(clean.matches("[redacted:").count(), 1);
                assert!(clean.len() > text.len() - 60);
            }
        }
    }

    #[test]
    fn pieces_without_a_secret_pass_unchanged_m7_6_48() {
        let mut bytes: Vec<u8> = (0..3 * PIECE_BYTES / 8)
            .flat_map(|n| format!("{n:07}\n").into_bytes())
            .collect();
        bytes.extend([0xff, 0xfe, 0]);
        bytes.extend("é日🙂".repeat(PIECE_BYTES / 4).into_bytes());
        assert!(cleaned(&bytes) == bytes);
        assert_eq!(cleaned(b""), b"");
    }
}
