//! Texts that are too long for an entry: kept beside it as bodies, read as one (M7.3.29).

use std::borrow::Cow;

use folio_memory::entry::{BodyRef, MAX_TEXT_BYTES, preview_of};
use folio_memory::text::{INDEXED_BYTES, TextQuery, snippet};
use folio_memory::{Change, Entry, EntryFields, FieldChange, ListAnswer};

use super::{Workspace, WorkspaceError};
use crate::commit::{Blob, BlobHash, Commit};
use crate::error::ErrorKind;

/// How many characters are kept of the part of a long text where words were found; surfaces show less of it.
const MATCH_CHARS: usize = 400;

/// Moves every text of `commit` that is too long out of its entry: the entry keeps the beginning and says where the
/// whole text is. Runs after redaction, so that the hash of the body is that of the kept text.
pub(super) fn move_out(commit: &mut Commit) {
    let blobs = &mut commit.blobs;
    for change in &mut commit.record.changes {
        match change {
            Change::AddEntry(new) => {
                if let Some((preview, body)) = split(&new.fields.body, blobs) {
                    (new.fields.body, new.fields.body_ref) = (preview, Some(body));
                }
            }
            Change::PatchEntry { fields, .. } => move_out_of_patch(fields, blobs),
            _ => {}
        }
    }
}

fn move_out_of_patch(fields: &mut Vec<FieldChange>, blobs: &mut Vec<Blob>) {
    let mut at = 0;
    while let Some(field) = fields.get_mut(at) {
        at += 1;
        if let FieldChange::Body(text) = field
            && let Some((preview, body)) = split(text, blobs)
        {
            *text = preview;
            fields.insert(at, FieldChange::BodyRef(Some(body)));
        }
    }
}

/// `fields` as they will be kept: a text that is too long is replaced by its beginning.
pub(super) fn as_kept(fields: &[FieldChange]) -> Cow<'_, [FieldChange]> {
    let is_long = |field: &FieldChange| matches!(field, FieldChange::Body(text) if preview_of(text).is_some());
    if !fields.iter().any(is_long) {
        return Cow::Borrowed(fields);
    }
    let mut kept = fields.to_vec();
    move_out_of_patch(&mut kept, &mut Vec::new());
    Cow::Owned(kept)
}

/// Shortens `fields` as they will be kept: a text that is too long is replaced by its beginning.
pub(super) fn shorten(fields: &mut EntryFields) {
    let mut unwritten = Vec::new();
    if let Some((preview, body)) = split(&fields.body, &mut unwritten) {
        (fields.body, fields.body_ref) = (preview, Some(body));
    }
}

/// The beginning of `text` and the reference to the whole of it, if it is too long for an entry.
fn split(text: &str, blobs: &mut Vec<Blob>) -> Option<(String, BodyRef)> {
    let preview = preview_of(text)?.to_owned();
    let blob = Blob::new(text.as_bytes().to_vec());
    let body = BodyRef {
        hash: blob.hash().0.clone(),
        bytes: blob.bytes().len() as u64,
        pieces: Vec::new(),
    };
    blobs.push(blob);
    Some((preview, body))
}

impl Workspace {
    /// Returns the whole text of `entry`; a long one shows only its beginning in the entry (M7.3.29).
    ///
    /// # Errors
    ///
    /// `Unavailable`; `Corrupt` or `NotFound` if the body is damaged or missing.
    ///
    /// For a result that was put away and has more than 16 MiB, this is the beginning: [`Workspace::read_body`] reads
    /// it in parts.
    pub async fn whole_text(&self, entry: &Entry) -> Result<String, WorkspaceError> {
        match &entry.fields.body_ref {
            Some(body) => self.body_text(body).await,
            None => Ok(entry.fields.body.clone()),
        }
    }

    /// Lets the long texts in `answer` begin with the part that has most of `words`: an entry shows the beginning of
    /// such a text, and that need not be why it was found.
    ///
    /// # Errors
    ///
    /// `Unavailable`. A text that is damaged or missing is left as it is.
    pub async fn begin_with_matches(
        &self,
        answer: &mut ListAnswer<Entry>,
        words: &TextQuery,
    ) -> Result<(), WorkspaceError> {
        for entry in answer.items.iter_mut().filter(|entry| entry.fields.body_ref.is_some()) {
            let whole = match self.whole_text(entry).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(_) => continue,
                Ok(whole) => whole,
            };
            let searched = &whole[..whole.floor_char_boundary(INDEXED_BYTES)];
            entry.fields.body = snippet(searched, words, MATCH_CHARS).text();
        }
        Ok(())
    }

    /// Returns `entry` with its whole text.
    ///
    /// # Errors
    ///
    /// As [`Workspace::whole_text`].
    pub async fn in_whole(&self, mut entry: Entry) -> Result<Entry, WorkspaceError> {
        if entry.fields.body_ref.is_some() {
            entry.fields.body = self.whole_text(&entry).await?;
        }
        Ok(entry)
    }

    /// The text kept as `body`; of a body in pieces, the first 16 MiB. Bytes that are not UTF-8 are replaced by
    /// `U+FFFD`.
    pub(super) async fn body_text(&self, body: &BodyRef) -> Result<String, WorkspaceError> {
        if body.pieces.is_empty() {
            let bytes = self.read_blob(&BlobHash(body.hash.clone())).await?;
            return Ok(text_of(bytes));
        }
        let mut bytes = Vec::new();
        for piece in &body.pieces {
            if bytes.len() >= MAX_TEXT_BYTES {
                break;
            }
            bytes.extend(self.read_blob(&BlobHash(piece.hash.clone())).await?);
        }
        bytes.truncate(MAX_TEXT_BYTES);
        Ok(text_of(bytes))
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
