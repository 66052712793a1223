//! Puts away results that are too large for a prompt, with a short preview in their place (M7.8 V9, seed 003 A7).

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Builder;

use folio_memory::actor::Trust;
use folio_memory::entry::{BodyPiece, BodyRef, Owner};
use folio_memory::evict::{self, GENERATIONS, Preview, ResultOf, Sample, Sampler, entry_of, page_of, preview};
use folio_memory::id::EntryRef;
use folio_memory::keeping::Redaction;
use folio_memory::passage::{
    self, Part, PartRead, Passage, Reading, Search, Window, cut_out, line_start, newlines, piece_with_end_of,
    pieces_for, start_of,
};
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryHandle, EntryId, EntryKind, Invalid, NewEntry, Pii, Warning,
};
use serde_json::json;
use tokio::sync::mpsc;

use super::record::Cleaned;
use super::redact::{CleanPieces, recall};
use super::{PolicyInForce, Workspace, WorkspaceError, Write, source_of};
use crate::commit::{Blob, BlobHash};
use crate::error::StoreError;

/// Bytes that one commit takes while a result is read.
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// How many commits may wait for the disk while the next batch is read.
const BATCHES_AHEAD: usize = 1;
/// How many clean pieces may wait to be hashed and packed.
const PIECES_AHEAD: usize = 2;
/// Bytes of a result that can be handed back unchanged.
const UNCHANGED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of the beginning that the entry itself shows.
const SHOWN_BYTES: usize = 2 * 1024;

/// How a result is put away.
#[derive(Debug, Clone)]
pub struct Eviction {
    /// The tool that gave the result; empty if unknown.
    pub tool: String,
    /// What the result comes from: only results of tools are put away.
    pub of: ResultOf,
    /// Limit in tokens for the result, or for the preview in its place.
    pub limit_tokens: u32,
    /// The counter of tokens.
    pub tokens: Arc<dyn Tokens>,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            tool: String::new(),
            of: ResultOf::Tool,
            limit_tokens: evict::LIMIT_TOKENS,
            tokens: Arc::new(Estimate),
        }
    }
}

/// What goes into the prompt, and where the rest is.
#[derive(Debug, Clone, PartialEq)]
pub struct Evicted {
    /// The result itself, or its preview.
    pub text: String,
    /// Tokens of that text.
    pub tokens: u32,
    /// Bytes of the result.
    pub bytes: u64,
    /// Lines of the result.
    pub lines: u64,
    /// Where the result is kept, if it was put away.
    pub kept: Option<KeptResult>,
    /// What was redacted before it was kept.
    pub warnings: Vec<Warning>,
}

/// A result that was put away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptResult {
    /// The handle to read it by.
    pub handle: EntryHandle,
    /// The hash that its text is kept under.
    pub hash: String,
}

/// A text that was read to its end; its last pieces are not written yet.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) body: BodyRef,
    pub(super) sample: Sample,
    pub(super) rest: Cleaned,
    pub(super) warnings: Vec<Warning>,
    /// The version of the policy by which it was cleaned.
    pub(super) drafted_under: Option<u32>,
}

/// The outcome of reading a result.
enum Taken {
    Fits(Preview, Sample),
    Stored(Stored),
}

impl Workspace {
    /// Returns what of `result` goes into a prompt: the result itself if it fits the limit or comes from a file or from
    /// memory. Otherwise the result is put away, without its secrets, and a preview with its beginning and end or its
    /// structure takes its place.
    ///
    /// The result is read once and never held in memory as a whole. The same result is kept only once, however often it
    /// comes. The preview keeps within the limit; with limit 0 it is empty. Everything that it names is durable.
    ///
    /// # Errors
    ///
    /// `Input` if the result cannot be read; `Refused` if the actor may not add; `Unavailable`.
    pub async fn evict(
        &self,
        actor: &Actor,
        result: impl Read + Send + 'static,
        eviction: Eviction,
    ) -> Result<Evicted, WorkspaceError> {
        if eviction.of != ResultOf::Tool {
            return unchanged(result, eviction).await;
        }
        let (limit, tokens) = (eviction.limit_tokens, Arc::clone(&eviction.tokens));
        let counting = Some((eviction.tool.as_str(), Arc::clone(&tokens)));
        let stored = match self.take_in(actor, result, limit, counting).await? {
            Taken::Fits(Preview { text, tokens }, sample) => {
                return Ok(Evicted {
                    text,
                    tokens,
                    bytes: sample.bytes(),
                    lines: sample.lines(),
                    kept: None,
                    warnings: Vec::new(),
                });
            }
            Taken::Stored(stored) => stored,
        };
        let hash = stored.body.hash.clone();
        let handle = self.keep_result(actor, &eviction.tool, &stored).await?;
        let Stored { sample, warnings, .. } = stored;
        let Preview { text, tokens } = preview(&sample, &handle.to_string(), limit, &*tokens);
        Ok(Evicted {
            text,
            tokens,
            bytes: sample.bytes(),
            lines: sample.lines(),
            kept: Some(KeptResult { handle, hash }),
            warnings,
        })
    }

    /// Adds the entry of a result whose text was read.
    async fn keep_result(&self, actor: &Actor, tool: &str, stored: &Stored) -> Result<EntryHandle, WorkspaceError> {
        let Stored {
            body,
            sample,
            rest,
            drafted_under,
            ..
        } = stored;
        let hash = &body.hash;
        if let Some(entry) = self.kept_entry(entry_of(self.space(), hash, 0)).await? {
            return Ok(entry.handle);
        }
        let mut fields = self.result_of(actor, tool);
        let origin = if tool.is_empty() { "a tool" } else { tool };
        fields.title = format!("Result of {origin}, {} bytes", body.bytes);
        let head = String::from_utf8_lossy(&sample.head()[..sample.head().len().min(SHOWN_BYTES)]);
        head.trim_end_matches('\u{fffd}').clone_into(&mut fields.body);
        fields.parts = Some(json!({"tool": tool, "lines": sample.lines()}));
        fields.body_ref = Some(body.clone());
        let (page, page_fields) = page_of(self.space());
        let ensured = self.ensured(page, || page_fields).await?;
        let write = |id, idempotency_key| {
            let entry = NewEntry {
                id,
                page,
                kind: EntryKind::Log,
                fields: fields.clone(),
            };
            let changes = ensured.clone().into_iter();
            Write {
                idempotency_key,
                drafted_under: *drafted_under,
                ..Write::of(changes.chain([Change::AddEntry(Box::new(entry))]).collect())
            }
        };
        let (mut generation, mut key) = (0, format!("evict:{hash}"));
        let committed = loop {
            let id = entry_of(self.space(), hash, generation);
            let once = write(id, Some(key));
            let committed = self.record_cleaned(actor, once, None, rest.clone()).await?.committed;
            if !committed.replayed || self.kept_entry(id).await?.is_some() {
                break committed;
            }
            // The entry existed and was forgotten; the result is now kept again as another entry.
            generation += 1;
            if generation == GENERATIONS {
                let retry = write(EntryId::draw(&*self.inner.ids, self.now()), None);
                break self.record_cleaned(actor, retry, None, rest.clone()).await?.committed;
            }
            key = format!("evict:{hash}:{generation}");
        };
        match committed.entries.first() {
            Some(entry) => Ok(entry.handle),
            None => {
                let message = "the idempotency key was used before, for something that added no entry";
                Err(Invalid::new("key_reused", "idempotency_key", message).into())
            }
        }
    }

    /// The entry of the result whose text is kept under `hash`, if any.
    async fn kept_result(&self, hash: &str) -> Result<Option<Entry>, WorkspaceError> {
        for generation in 0..GENERATIONS {
            let entry = self.kept_entry(entry_of(self.space(), hash, generation)).await?;
            if entry.is_some() {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    /// The entry `id`, if it exists and still has its text.
    async fn kept_entry(&self, id: EntryId) -> Result<Option<Entry>, WorkspaceError> {
        let entry = self.stored_entry_if_there(id).await?;
        Ok(entry.filter(|entry| entry.fields.body_ref.is_some()))
    }

    /// The fields of the entry of a result of `tool`, without its content.
    fn result_of(&self, actor: &Actor, tool: &str) -> EntryFields {
        let trust = self.trust_of(actor).min(match tool {
            "" => Trust::ToolInternal,
            tool => self.trust_of_tool(tool),
        });
        EntryFields {
            source: source_of(actor),
            ..EntryFields::new(EntryKind::Log, Owner::agent(), trust)
        }
    }

    /// Refuses actors that may not keep a result of `tool`: its first pieces are written before there is an entry to
    /// check.
    async fn check_may_keep(&self, actor: &Actor, tool: &str, policy: &PolicyInForce) -> Result<(), WorkspaceError> {
        let (page, page_fields) = page_of(self.space());
        let mut changes: Vec<Change> = self.ensured(page, || page_fields).await?.into_iter().collect();
        changes.push(Change::AddEntry(Box::new(NewEntry {
            id: entry_of(self.space(), "", 0),
            page,
            kind: EntryKind::Log,
            fields: self.result_of(actor, tool),
        })));
        self.authorise_write(actor, &changes, None, None, policy).await
    }

    /// Reads `source` to its end and writes its pieces, except for the last ones, which are written with the entry that
    /// names them. With `counting`, a text that costs at most `limit` tokens is returned as it is.
    async fn take_in(
        &self,
        actor: &Actor,
        source: impl Read + Send + 'static,
        limit: u32,
        counting: Option<(&str, Arc<dyn Tokens>)>,
    ) -> Result<Taken, WorkspaceError> {
        let policy = self.policy().await?;
        let (mode, drafted_under) = (policy.redaction, Some(policy.version()));
        let (batches, mut read) = mpsc::channel(BATCHES_AHEAD);
        let (mut judged, tokens) = counting.unzip();
        let reading =
            tokio::task::spawn_blocking(move || take_pieces(source, mode, limit, tokens.as_deref(), &batches));
        while let Some(blobs) = read.recv().await {
            if let Some(tool) = judged.take() {
                self.check_may_keep(actor, tool, &policy).await?;
            }
            let write = Write {
                reason: Some("pieces of a result that is being put away".to_owned()),
                drafted_under,
                ..Write::default()
            };
            let cleaned = Cleaned { blobs, pii: Vec::new() };
            self.record_cleaned(actor, write, None, cleaned).await?;
        }
        let joined = reading
            .await
            .map_err(|error| WorkspaceError::Input(io::Error::other(error)))?;
        let mut evicted = joined.map_err(WorkspaceError::Input)?;
        if let Taken::Stored(stored) = &mut evicted {
            stored.drafted_under = drafted_under;
        }
        Ok(evicted)
    }

    /// Keeps the text of `source` in pieces, without its secrets. The last pieces are written with the entry that names
    /// them.
    pub(super) async fn keep_text(
        &self,
        actor: &Actor,
        source: impl Read + Send + 'static,
        limit: u32,
    ) -> Result<Stored, WorkspaceError> {
        match self.take_in(actor, source, limit, None).await? {
            Taken::Stored(stored) => Ok(stored),
            // Without a counter, nothing is returned as fitting.
            Taken::Fits(..) => Err(WorkspaceError::Input(io::Error::other("it was counted"))),
        }
    }

    /// Reads a part of any entry's text, or of a text kept beside its entry: at most `max_bytes`, with the cursor for
    /// the next part.
    ///
    /// `name` is a handle (`e42`), an id, the hash of a text, or the path of a result (`/large_tool_results/e42`).
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unavailable` or `Corrupt`.
    pub async fn read_body(&self, name: &str, part: &Part, max_bytes: usize) -> Result<PartRead, WorkspaceError> {
        let bare = name.strip_prefix("/large_tool_results/").unwrap_or(name);
        let bare = bare.strip_prefix("blob:").unwrap_or(bare);
        let is_hash = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let entry = match bare.parse::<EntryRef>() {
            _ if is_hash => match self.kept_result(bare).await? {
                Some(entry) => entry,
                None => {
                    let bytes = self.blob(&BlobHash(bare.to_owned())).await?;
                    return Ok(passage::read(&bytes, part, max_bytes));
                }
            },
            Ok(entry) => self.read_entry(entry).await?,
            Err(_) => {
                return Err(StoreError::NotFound {
                    what: "result",
                    name: name.to_owned(),
                }
                .into());
            }
        };
        self.check_entry(&entry).await?;
        self.read_body_of(&entry, part, max_bytes).await
    }

    /// The same for an entry that was already read.
    pub(super) async fn read_body_of(
        &self,
        entry: &Entry,
        part: &Part,
        max_bytes: usize,
    ) -> Result<PartRead, WorkspaceError> {
        let Some(body) = &entry.fields.body_ref else {
            return Ok(passage::read(entry.fields.body.as_bytes(), part, max_bytes));
        };
        if body.pieces.is_empty() {
            let bytes = self.read_blob(&BlobHash(body.hash.clone())).await?;
            return Ok(passage::read(&bytes, part, max_bytes));
        }
        let total_lines = self.lines_of(body).await?;
        let mode = self.redaction_of_reads().await?;
        let reading = if let Part::Search { words, from } = part {
            let mut search = Search::new(words, *from, max_bytes);
            for piece in &body.pieces {
                search.feed(&self.piece(piece).await?);
            }
            let mut found = search.finish();
            for line in &mut found.matches {
                let clean = recall::bytes(std::mem::take(&mut line.text).into_bytes(), mode);
                line.text = String::from_utf8_lossy(&clean).into_owned();
            }
            Reading::Found(found)
        } else {
            let pieces = pieces_for(&body.pieces, part, max_bytes);
            let (at, newlines_before) = start_of(body, &pieces);
            let goes_on = pieces.end < body.pieces.len();
            let mut bytes = Vec::new();
            for piece in &body.pieces[pieces] {
                bytes.extend(self.piece(piece).await?);
            }
            let window = Window {
                bytes: &bytes,
                at,
                newlines_before,
                goes_on,
            };
            let mut passage = cut_out(window, part, max_bytes);
            if let (Part::Lines { to: last, .. }, Some(Part::Bytes { to, .. })) = (part, &mut passage.next)
                && *to == u64::MAX
            {
                *to = self.end_of_line(body, *last).await?.unwrap_or(u64::MAX);
            }
            // A text kept by an older version may hold what would be redacted now; positions still refer to the kept
            // text.
            Reading::Passage(Passage {
                bytes: recall::bytes(passage.bytes.clone(), mode),
                ..passage
            })
        };
        Ok(PartRead {
            reading,
            total_bytes: body.bytes,
            total_lines,
        })
    }

    /// The offset just after the end of the line with this number, newline included, if the line has one.
    async fn end_of_line(&self, body: &BodyRef, line: u64) -> Result<Option<u64>, WorkspaceError> {
        let Some((index, before)) = piece_with_end_of(&body.pieces, line) else {
            return Ok(None);
        };
        let (begins, _) = start_of(body, &(index..index + 1));
        let piece = self.piece(&body.pieces[index]).await?;
        Ok(Some(begins + line_start(&piece, before + 2) as u64))
    }

    async fn lines_of(&self, body: &BodyRef) -> Result<u64, WorkspaceError> {
        let newline_count = body.pieces.iter().map(|piece| piece.newlines).sum::<u64>();
        let Some(last) = body.pieces.last() else {
            return Ok(newline_count);
        };
        let ends_with_line = self.piece(last).await?.ends_with(b"\n");
        Ok(newline_count + u64::from(!ends_with_line))
    }

    async fn piece(&self, piece: &BodyPiece) -> Result<Vec<u8>, WorkspaceError> {
        let hash = BlobHash(piece.hash.clone());
        Ok(self.inner.store.blob(self.space(), &hash).await?)
    }
}

/// Returns the result unchanged.
async fn unchanged(result: impl Read + Send + 'static, eviction: Eviction) -> Result<Evicted, WorkspaceError> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        result.take(UNCHANGED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > UNCHANGED_BYTES_MAX {
            return Err(io::Error::other(format!(
                "it has more than {UNCHANGED_BYTES_MAX} bytes; read it in parts"
            )));
        }
        Ok(bytes)
    });
    let bytes = read
        .await
        .map_err(|error| WorkspaceError::Input(io::Error::other(error)))?;
    let bytes = bytes.map_err(WorkspaceError::Input)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Evicted {
        tokens: eviction.tokens.count(&text),
        bytes: bytes.len() as u64,
        lines: newlines(&bytes) + u64::from(bytes.last().is_some_and(|last| *last != b'\n')),
        text,
        kept: None,
        warnings: Vec::new(),
    })
}

/// Reads `source`, and sends on the batches that are written before the last pieces.
fn take_pieces(
    mut source: impl Read + Send,
    mode: Redaction,
    limit: u32,
    tokens: Option<&dyn Tokens>,
    batches: &mpsc::Sender<Vec<Blob>>,
) -> io::Result<Taken> {
    let mut start = Vec::new();
    if let Some(tokens) = tokens {
        let mut sampler = Sampler::new(limit);
        let room = sampler.room() as u64;
        (&mut source).take(room + 1).read_to_end(&mut start)?;
        if start.len() as u64 <= room {
            sampler.feed(&start);
            let sample = sampler.finish();
            if let Some(whole) = sample.whole_within(limit, tokens) {
                return Ok(Taken::Fits(whole, sample));
            }
        }
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
    Ok(Taken::Stored(Stored {
        body,
        sample: sampler.finish(),
        rest: Cleaned { blobs: batch, pii },
        warnings,
        drafted_under: None,
    }))
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
