//! Reads a result once, piece by piece, without its secrets.

use std::io::{self, Cursor, Read};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

use folio_memory::entry::{BodyPiece, BodyRef};
use folio_memory::evict::{Preview, Sample, Sampler};
use folio_memory::keeping::Redaction;
use folio_memory::passage::newlines;
use folio_memory::tokens::Tokens;
use folio_memory::{Pii, Warning};
use tokio::sync::mpsc;

use super::super::record::Cleaned;
use super::super::redact::CleanPieces;
use crate::commit::Blob;

/// Bytes that one commit takes while a result is read.
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// How many clean pieces may wait to be hashed and packed.
const PIECES_AHEAD: usize = 2;
/// A text that was read to its end; its last pieces are not written yet.
#[derive(Debug)]
pub(in super::super) struct Stored {
    pub(in super::super) body: BodyRef,
    pub(in super::super) sample: Sample,
    pub(in super::super) rest: Cleaned,
    pub(in super::super) warnings: Vec<Warning>,
    /// The version of the policy by which it was cleaned.
    pub(in super::super) drafted_under: Option<u32>,
}

/// The outcome of reading a result.
pub(super) enum Taken {
    Fits(Preview, Sample),
    Stored(Stored),
}

/// Reads `source`, and sends on the batches that are written before the last pieces.
pub(super) fn take_pieces(
    mut source: impl Read + Send,
    mode: Redaction,
    limit: u32,
    tokens: Option<&dyn Tokens>,
    batches: &mpsc::Sender<Vec<Blob>>,
) -> io::Result<Taken> {
    let mut start = Vec::new();
    if let Some(tokens) = tokens
        && let Some(whole) = whole_if_it_fits(&mut source, &mut start, limit, tokens)?
    {
        return Ok(whole);
    }
    let mut sampler = Sampler::new(limit);
    let mut body = BodyRef {
        hash: String::new(),
        bytes: 0,
        pieces: Vec::new(),
    };
    let mut batch: Vec<Blob> = Vec::new();
    let mut waiting = 0;
    let source = Cursor::new(start).chain(source);
    let (warnings, pii) = clean_in_pieces(source, mode, Builder::new(), |piece| {
        sampler.feed(&piece);
        if waiting + piece.len() > BATCH_BYTES {
            waiting = 0;
            let stopped = |_| io::Error::other("writing it to the store has failed");
            batches.blocking_send(std::mem::take(&mut batch)).map_err(stopped)?;
        }
        waiting += piece.len();
        body.bytes += piece.len() as u64;
        let newlines = newlines(&piece);
        let blob = Blob::new(piece);
        body.pieces.push(BodyPiece {
            hash: blob.hash().0.clone(),
            bytes: blob.bytes().len() as u64,
            newlines,
        });
        batch.push(blob);
        Ok(())
    })?;
    name_whole(&mut body, &mut batch);
    Ok(Taken::Stored(Stored {
        body,
        sample: sampler.finish(),
        rest: Cleaned { blobs: batch, pii },
        warnings,
        drafted_under: None,
    }))
}

/// Reads the `start` of `source`; returns all of it if it costs no more than `limit` tokens.
fn whole_if_it_fits(
    source: impl Read,
    start: &mut Vec<u8>,
    limit: u32,
    tokens: &dyn Tokens,
) -> io::Result<Option<Taken>> {
    let mut sampler = Sampler::new(limit);
    let room = sampler.room() as u64;
    source.take(room + 1).read_to_end(start)?;
    if start.len() as u64 > room {
        return Ok(None);
    }
    sampler.feed(start);
    let sample = sampler.finish();
    let whole = sample.whole_within(limit, tokens);
    Ok(whole.map(|whole| Taken::Fits(whole, sample)))
}

/// Sets the hash of a text whose pieces were all read; the last ones are in `batch`. A text of one piece has no list of
/// pieces.
fn name_whole(body: &mut BodyRef, batch: &mut Vec<Blob>) {
    if batch.is_empty() && body.pieces.is_empty() {
        batch.push(Blob::new(Vec::new()));
    }
    if let [one] = batch.as_slice()
        && body.pieces.len() <= 1
    {
        body.hash.clone_from(&one.hash().0);
        body.pieces.clear();
    } else {
        let hashes: Vec<&str> = body.pieces.iter().map(|piece| piece.hash.as_str()).collect();
        body.hash
            .clone_from(&Blob::new(hashes.join("\n").into_bytes()).hash().0);
    }
}

/// Reads `source` piece by piece, redacted by `mode`, and passes each piece to `take` while `another` thread cleans the
/// next. Returns what was taken out, and which personal data was found.
fn clean_in_pieces(
    source: impl Read + Send,
    mode: Redaction,
    another: Builder,
    mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<(Vec<Warning>, Vec<Pii>)> {
    let mut pieces = CleanPieces::new(source, mode);
    // A short text is done before another thread would have started.
    let Some(first) = pieces.next()? else {
        return Ok(pieces.finish());
    };
    if pieces.is_over() {
        take(first)?;
        return Ok(pieces.finish());
    }
    let (cleaned, read) = sync_channel(PIECES_AHEAD);
    let (hand_over, handed_over) = sync_channel(1);
    std::thread::scope(|scope| {
        let cleaning = another.spawn_scoped(scope, move || {
            let (mut pieces, first): (CleanPieces<_>, Vec<u8>) = handed_over.recv().map_err(io::Error::other)?;
            let mut next = Some(first);
            while let Some(piece) = next {
                // After a failure the receiver is gone.
                if cleaned.send(piece).is_err() {
                    break;
                }
                next = pieces.next()?;
            }
            Ok(pieces.finish())
        });
        let Ok(cleaning) = cleaning else {
            // The system cannot start a thread, so each piece is cleaned and taken in turn.
            let mut next = Some(first);
            while let Some(piece) = next {
                take(piece)?;
                next = pieces.next()?;
            }
            return Ok(pieces.finish());
        };
        // If the thread is gone, joining it below says why.
        drop(hand_over.send((pieces, first)));
        let read_result = read.iter().try_for_each(&mut take);
        drop(read);
        let cleaned_result = cleaning
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the scan for secrets failed")));
        read_result.and(cleaned_result)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::no_thread;

    #[test]
    fn text_is_redacted_on_the_calling_thread_without_new_threads_m7_6_48() {
        let token = ["ghp", "_", &"0123456789abcdefghij".repeat(2)[..36]].concat();
        let text = format!("a line of an output\n{token}\n").repeat(40_000);
        let cleaned = |another| {
            let mut all = Vec::new();
            let said = clean_in_pieces(text.as_bytes(), Redaction::Secrets, another, |piece| {
                all.extend(piece);
                Ok(())
            });
            (String::from_utf8(all).unwrap(), said.unwrap())
        };
        let alone = cleaned(no_thread());
        assert_eq!(alone, cleaned(Builder::new()));
        assert!(!alone.0.contains(&token));
    }
}
