//! Brings in texts that follow their entries in pieces.

use folio_memory::entry::BodyRef;
use folio_memory::evict::LIMIT_TOKENS;
use folio_memory::{Actor, Change, EntryId, Invalid, NewEntry};
use tokio::sync::mpsc;

use super::super::super::record::Cleaned;
use super::super::super::redact::recall;
use super::super::super::{Workspace, WorkspaceError, Write};
use super::super::books::brought_in;
use super::super::lines::{AHEAD, Lines};
use super::super::pieces::Arriving;
use super::super::report::Fate;
use super::{Incoming, Whereabouts};
use crate::commit::Blob;
use crate::error::StoreError;

/// Bytes of the beginning that an entry shows of a text from which something was redacted.
const SHOWN_BYTES: usize = 2 * 1024;

/// A text that was read and redacted.
struct TextRead {
    /// Where it is kept.
    body: BodyRef,
    /// What of it is still to be written with the entry.
    rest: Cleaned,
    /// The version of the policy by which it was redacted.
    drafted_under: Option<u32>,
    /// Its beginning.
    start: Vec<u8>,
}

impl Workspace {
    /// Adds an entry whose text follows in pieces.
    pub(super) async fn import_long(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut new: Box<NewEntry>,
        body: &BodyRef,
        lines: &mut Lines,
    ) -> Result<(), WorkspaceError> {
        let id = new.id;
        let text = if body.pieces.is_empty() {
            self.read_whole(&new, body, lines).await?
        } else {
            self.read_pieces(incoming.actor, id, body, lines).await?
        };
        let text = match text {
            Ok(text) => text,
            Err(invalid) => {
                incoming.report.refuse(&name, &invalid);
                return Ok(());
            }
        };
        if text.body.hash != body.hash {
            let shown = &text.start[..text.start.len().min(SHOWN_BYTES)];
            new.fields.body = String::from_utf8_lossy(shown).trim_end_matches('\u{fffd}').to_owned();
            let message = "secrets, or personal data that the space does not store, were removed";
            incoming.report.remark(Fate::Changed, &name, "redacted", message);
        }
        new.fields.body_ref = Some(text.body);
        let write = Write {
            drafted_under: text.drafted_under,
            ..brought_in(vec![Change::AddEntry(new)])
        };
        match self.record_cleaned(incoming.actor, write, None, text.rest).await {
            Ok(_) => {
                incoming.report.entries += 1;
                incoming.entries.insert(id, Whereabouts::New);
            }
            // Somebody else brings in the same file at this moment.
            Err(WorkspaceError::Store(StoreError::Invalid(_))) if self.stored_entry_if_there(id).await?.is_some() => {
                incoming.report.present += 1;
                incoming.entries.insert(id, Whereabouts::Here);
            }
            Err(WorkspaceError::Invalid(invalid)) => incoming.report.refuse(&name, &invalid),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads the text of `new`, which is in one line.
    async fn read_whole(
        &self,
        new: &NewEntry,
        body: &BodyRef,
        lines: &mut Lines,
    ) -> Result<Result<TextRead, Invalid>, WorkspaceError> {
        let bytes = match lines.next_bytes(new.id, 1, &body.hash).await? {
            Ok(bytes) => bytes,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let policy = self.policy().await?;
        let blob = Blob::new(recall::bytes(bytes, policy.redaction));
        let bytes = blob.bytes();
        Ok(Ok(TextRead {
            body: BodyRef {
                hash: blob.hash().0.clone(),
                bytes: bytes.len() as u64,
                pieces: Vec::new(),
            },
            start: bytes[..bytes.len().min(SHOWN_BYTES)].to_vec(),
            drafted_under: Some(policy.version()),
            rest: Cleaned {
                pii: new.fields.pii.clone(),
                blobs: vec![blob],
            },
        }))
    }

    /// Reads the text of `entry` piece by piece, and keeps each before the next one is read.
    async fn read_pieces(
        &self,
        actor: &Actor,
        entry: EntryId,
        body: &BodyRef,
        lines: &mut Lines,
    ) -> Result<Result<TextRead, Invalid>, WorkspaceError> {
        let (sender, arriving) = mpsc::channel(AHEAD);
        let feeding = async {
            for (number, piece) in (1..).zip(&body.pieces) {
                match lines.next_bytes(entry, number, &piece.hash).await? {
                    Ok(bytes) => {
                        if sender.send(bytes).await.is_err() {
                            // The receiver has failed, and reports why.
                            break;
                        }
                    }
                    Err(invalid) => {
                        lines.skip_behind(entry, number, body, &invalid).await?;
                        return Ok(Err(invalid));
                    }
                }
            }
            drop(sender);
            Ok::<_, WorkspaceError>(Ok(()))
        };
        let keeping = self.keep_text(actor, Arriving::new(arriving), LIMIT_TOKENS);
        let (fed, kept) = tokio::join!(feeding, keeping);
        if let Err(invalid) = fed? {
            return Ok(Err(invalid));
        }
        let kept = kept?;
        Ok(Ok(TextRead {
            start: kept.sample.head().to_vec(),
            body: kept.body,
            rest: kept.rest,
            drafted_under: kept.drafted_under,
        }))
    }
}
