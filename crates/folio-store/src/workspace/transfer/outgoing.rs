//! A space, written line by line.

use std::io::Write;

use folio_memory::transfer::{EntryLine, FORMAT, Line, PageLine};
use folio_memory::{Entry, EntryQuery, Order, PageQuery, Status, query};

use super::super::{Workspace, WorkspaceError};
use super::pieces::piece_of;
use crate::commit::BlobHash;

/// Entries that are read at once.
const CHUNK: u32 = 200;

/// How much was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Pages.
    pub pages: u64,
    /// Entries.
    pub entries: u64,
    /// Links.
    pub links: u64,
}

/// Where the lines go.
struct Lines<'a> {
    out: &'a mut (dyn Write + Send),
    written: Outgoing,
    /// The number of the last page that was written.
    last_page: u64,
}

impl Lines<'_> {
    fn line(&mut self, line: &Line) -> Result<(), WorkspaceError> {
        let mut text = line.to_json();
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(WorkspaceError::Output)
    }
}

impl Workspace {
    /// Writes every page, every entry as it stands with its whole text, and every link to `out`, in the form of
    /// [`folio_memory::transfer`]. `progress` is told what was written, again and again.
    ///
    /// Holds a few hundred entries, or one piece of a text, at a time. What is added meanwhile may be in it; the same state gives
    /// the same bytes.
    ///
    /// # Errors
    ///
    /// `Refused` for those who may not read all of the space; `Output` if it cannot be written; `Unavailable` or `Corrupt`.
    pub async fn export_space(
        &self,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<Outgoing, WorkspaceError> {
        self.needs_the_space("the space as a file")?;
        let mut lines = Lines {
            out,
            written: Outgoing::default(),
            last_page: 0,
        };
        lines.line(&Line::Space {
            format: FORMAT,
            space: self.space().clone(),
            as_of: self.head().await?,
        })?;
        let policy = self.policy().await?;
        if policy.version() > 0 {
            let policy = Box::new(policy.document().clone());
            lines.line(&Line::Policy { policy })?;
        }
        self.write_new_pages(&mut lines).await?;
        let mut query = all_entries();
        loop {
            let answer = self.read_entries(&query).await?;
            // Those that the entries stand on may have been added since.
            self.write_new_pages(&mut lines).await?;
            for entry in answer.items {
                self.write_entry(&mut lines, entry).await?;
            }
            progress(lines.written);
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        self.write_links(&mut lines, progress).await?;
        let Outgoing { pages, entries, links } = lines.written;
        lines.line(&Line::End { pages, entries, links })?;
        lines.out.flush().map_err(WorkspaceError::Output)?;
        Ok(lines.written)
    }

    async fn write_new_pages(&self, lines: &mut Lines<'_>) -> Result<(), WorkspaceError> {
        loop {
            let query = PageQuery {
                after: Some(lines.last_page),
                limit: CHUNK,
                ..PageQuery::default()
            };
            let pages = self.pages(&query).await?;
            if pages.is_empty() {
                return Ok(());
            }
            for page in pages {
                lines.last_page = page.handle.0;
                lines.written.pages += 1;
                lines.line(&Line::Page(Box::new(PageLine::of(page))))?;
            }
        }
    }

    async fn write_entry(&self, lines: &mut Lines<'_>, entry: Entry) -> Result<(), WorkspaceError> {
        let (id, body) = (entry.id, entry.fields.body_ref.clone());
        lines.line(&Line::Entry(Box::new(EntryLine::of(entry))))?;
        lines.written.entries += 1;
        let Some(body) = body else { return Ok(()) };
        let pieces = body.pieces.into_iter().map(|piece| piece.hash);
        let hashes: Vec<String> = if pieces.len() == 0 {
            vec![body.hash]
        } else {
            pieces.collect()
        };
        for (hash, number) in hashes.into_iter().zip(1..) {
            let bytes = self.read_blob(&BlobHash(hash)).await?;
            lines.line(&Line::Piece(piece_of(id, number, bytes)))?;
        }
        Ok(())
    }

    /// Every link, at the page or the entry that it begins at.
    async fn write_links(
        &self,
        lines: &mut Lines<'_>,
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<(), WorkspaceError> {
        let mut pages = PageQuery {
            limit: CHUNK,
            ..PageQuery::default()
        };
        loop {
            let some = self.pages(&pages).await?;
            let Some(last) = some.last() else { break };
            pages.after = Some(last.handle.0);
            for page in some {
                self.write_links_of(lines, &page.id.to_string()).await?;
            }
        }
        let mut query = all_entries();
        loop {
            let answer = self.read_entries(&query).await?;
            for entry in answer.items {
                self.write_links_of(lines, &entry.id.to_string()).await?;
            }
            progress(lines.written);
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn write_links_of(&self, lines: &mut Lines<'_>, end: &str) -> Result<(), WorkspaceError> {
        for link in self.inner.store.links(self.space(), end).await? {
            if link.src == end {
                lines.written.links += 1;
                lines.line(&Line::Link(link))?;
            }
        }
        Ok(())
    }
}

/// Every entry, whatever its state, the oldest first.
fn all_entries() -> EntryQuery {
    EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        include_superseded: true,
        order: Order::Oldest,
        limit: CHUNK.min(query::MAX_LIMIT),
        ..EntryQuery::default()
    }
}
