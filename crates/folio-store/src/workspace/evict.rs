//! Puts away results that are too large for a prompt, with a short preview in their place (M7.8 V9, seed 003 A7).

mod pieces;

use std::io::{self, Read};
use std::sync::Arc;

use folio_memory::actor::Trust;
use folio_memory::entry::Owner;
use folio_memory::evict::{self, GENERATIONS, Preview, ResultOf, entry_of, page_of, preview};
use folio_memory::passage::newlines;
use folio_memory::tokens::{Estimate, Tokens};
use folio_memory::{Actor, Change, Entry, EntryFields, EntryHandle, EntryId, EntryKind, Invalid, NewEntry, Warning};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

pub(super) use self::pieces::Stored;
use self::pieces::{Taken, take_pieces};
use super::record::Cleaned;
use super::{PolicyInForce, Workspace, WorkspaceError, Write, source_of};
use crate::error::StoreError;

/// How many commits may wait for the disk while the next batch is read.
const BATCHES_AHEAD: usize = 1;
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeptResult {
    /// The handle to read it by.
    pub handle: EntryHandle,
    /// The hash that its text is kept under.
    pub hash: String,
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
        let hash = &stored.body.hash;
        if let Some(entry) = self.kept_entry(entry_of(self.space(), hash, 0)).await? {
            return Ok(entry.handle);
        }
        let fields = self.fields_of_result(actor, tool, stored);
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
                drafted_under: stored.drafted_under,
                ..Write::of(changes.chain([Change::AddEntry(Box::new(entry))]).collect())
            }
        };
        let record = async |write| self.record_cleaned(actor, write, None, stored.rest.clone()).await;
        let mut generation = 0;
        let committed = loop {
            let id = entry_of(self.space(), hash, generation);
            let key = self.asked_key_or(|| match generation {
                0 => format!("evict:{hash}"),
                more => format!("evict:{hash}:{more}"),
            });
            match record(write(id, Some(key))).await {
                // The request was made before: that it was kept then is enough, whatever has become of it.
                Ok(recorded) if recorded.committed.replayed && self.asked.is_some() => break recorded.committed,
                Ok(recorded) if !recorded.committed.replayed => break recorded.committed,
                Ok(_) | Err(WorkspaceError::Store(StoreError::Invalid(_))) => {}
                Err(error) => return Err(error),
            }
            // It is there, perhaps kept by another request just now.
            if let Some(entry) = self.kept_entry(id).await? {
                return Ok(entry.handle);
            }
            // The entry existed and was forgotten; the result is now kept again as another entry.
            generation += 1;
            if generation == GENERATIONS {
                let id = EntryId::draw(&*self.inner.ids, self.now());
                break record(write(id, None)).await?.committed;
            }
        };
        match committed.entries.first() {
            Some(entry) => Ok(entry.handle),
            None => {
                let message = "the idempotency key was used before, for something that added no entry";
                Err(Invalid::new("key_reused", "idempotency_key", message).into())
            }
        }
    }

    /// The fields of the entry of a result whose text was read.
    fn fields_of_result(&self, actor: &Actor, tool: &str, stored: &Stored) -> EntryFields {
        let Stored { body, sample, .. } = stored;
        let mut fields = self.result_of(actor, tool);
        let origin = if tool.is_empty() { "a tool" } else { tool };
        fields.title = format!("Result of {origin}, {} bytes", body.bytes);
        let head = String::from_utf8_lossy(&sample.head()[..sample.head().len().min(SHOWN_BYTES)]);
        head.trim_end_matches('\u{fffd}').clone_into(&mut fields.body);
        fields.parts = Some(json!({"tool": tool, "lines": sample.lines()}));
        fields.body_ref = Some(body.clone());
        fields
    }

    /// The entry of the result whose text is kept under `hash`, if any.
    pub(super) async fn kept_result(&self, hash: &str) -> Result<Option<Entry>, WorkspaceError> {
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
