//! Texts that are too long to stand in an entry: kept beside it as bodies, read as one (M7.3.29).

use folio_memory::entry::{BodyRef, preview_of};
use folio_memory::{Change, Entry, FieldChange};

use super::{Workspace, WorkspaceError};
use crate::commit::{Blob, BlobHash, Commit};
use crate::error::StoreError;

/// Moves every text of `commit` that is too long out of its entry: the entry keeps the beginning and says where the whole
/// is. After redaction, so that the body is named by what is kept.
pub(super) fn move_out(commit: &mut Commit) {
    let blobs = &mut commit.blobs;
    for change in &mut commit.record.changes {
        match change {
            Change::AddEntry(new) => {
                if let Some((preview, body)) = split(&new.fields.body, blobs) {
                    (new.fields.body, new.fields.body_ref) = (preview, Some(body));
                }
            }
            Change::PatchEntry { fields, .. } => {
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
            _ => {}
        }
    }
}

/// The beginning of `text` and where the whole of it is, if it is too long to stand in an entry.
fn split(text: &str, blobs: &mut Vec<Blob>) -> Option<(String, BodyRef)> {
    let preview = preview_of(text)?.to_owned();
    let blob = Blob::new(text.as_bytes().to_vec());
    let body = BodyRef {
        hash: blob.hash.0.clone(),
        bytes: blob.bytes.len() as u64,
    };
    blobs.push(blob);
    Some((preview, body))
}

impl Workspace {
    /// The whole text of `entry`, of which a long one shows only its beginning (M7.3.29).
    ///
    /// # Errors
    ///
    /// `Unavailable`; `Corrupt` or `NotFound` if it is not there as it should be.
    pub async fn whole_text(&self, entry: &Entry) -> Result<String, WorkspaceError> {
        match &entry.fields.body_ref {
            Some(body) => self.body_text(body).await,
            None => Ok(entry.fields.body.clone()),
        }
    }

    /// `entry` with its whole text in it.
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

    /// The text that is kept as `body`.
    pub(super) async fn body_text(&self, body: &BodyRef) -> Result<String, WorkspaceError> {
        let bytes = self.blob(&BlobHash(body.hash.clone())).await?;
        String::from_utf8(bytes).map_err(|error| {
            let store = StoreError::Corrupt {
                location: self.inner.store.location(),
                reason: format!("the body {} is no text: {error}", body.hash),
                source: None,
            };
            store.into()
        })
    }
}
