//! Reads parts of the texts of entries, also of those that are kept in pieces.

use folio_memory::Entry;
use folio_memory::entry::{BodyPiece, BodyRef};
use folio_memory::id::EntryRef;
use folio_memory::keeping::Redaction;
use folio_memory::passage::{
    self, Part, PartRead, Passage, Reading, Search, SearchResult, Window, cut_out, line_start, piece_with_end_of,
    pieces_for, start_of,
};

use super::redact::recall;
use super::{Workspace, WorkspaceError};
use crate::commit::BlobHash;
use crate::error::StoreError;

impl Workspace {
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
        let reading = match part {
            Part::Search { words, from } => {
                Reading::Found(self.search_pieces(body, words, *from, max_bytes, mode).await?)
            }
            part => Reading::Passage(self.cut_out_of_pieces(body, part, max_bytes, mode).await?),
        };
        Ok(PartRead {
            reading,
            total_bytes: body.bytes,
            total_lines,
        })
    }

    /// The lines of a text in pieces that contain `words`.
    async fn search_pieces(
        &self,
        body: &BodyRef,
        words: &str,
        from: u64,
        max_bytes: usize,
        mode: Redaction,
    ) -> Result<SearchResult, WorkspaceError> {
        let mut search = Search::new(words, from, max_bytes);
        for piece in &body.pieces {
            search.feed(&self.piece(piece).await?);
        }
        let mut found = search.finish();
        for line in &mut found.matches {
            let clean = recall::bytes(std::mem::take(&mut line.text).into_bytes(), mode);
            line.text = String::from_utf8_lossy(&clean).into_owned();
        }
        Ok(found)
    }

    /// At most `max_bytes` of `part` of a text in pieces.
    async fn cut_out_of_pieces(
        &self,
        body: &BodyRef,
        part: &Part,
        max_bytes: usize,
        mode: Redaction,
    ) -> Result<Passage, WorkspaceError> {
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
        // A text kept by an older version may hold what would be redacted now; positions still refer to the kept text.
        passage.bytes = recall::bytes(passage.bytes, mode);
        Ok(passage)
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
