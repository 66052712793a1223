//! Exports a space, line by line.

use std::collections::HashSet;
use std::io::Write;

use folio_memory::transfer::{EntryLine, FORMAT, Line, PageLine};
use folio_memory::{Entry, EntryId, EntryQuery, Order, PageId, PageQuery, Seq, Status, query};

use super::super::{Workspace, WorkspaceError};
use super::pieces::piece_of;
use crate::commit::BlobHash;

/// How many entries are read at once.
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

/// The output of lines.
struct Lines<'a> {
    out: &'a mut (dyn Write + Send),
    written: Outgoing,
    /// The commit of which everything is written: what is newer is left out.
    as_of: Seq,
}

impl Lines<'_> {
    fn line(&mut self, line: &Line) -> Result<(), WorkspaceError> {
        let mut text = line.to_json();
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(WorkspaceError::Output)
    }
}

impl Workspace {
    /// Writes every page, every entry in its present version with its whole text, and every link to `out`, in the
    /// format of [`folio_memory::transfer`]. `progress` receives the counts so far, repeatedly.
    ///
    /// Holds a few hundred entries, or one piece of a text, in memory at a time, and the ids of what was written. What
    /// is added meanwhile is left out, except for links between what was there, and so are links to entries that are
    /// gone (M7.6.46); the same state gives the same bytes.
    ///
    /// # Errors
    ///
    /// `Refused` if the asker may not read the whole space; `Output` if the file cannot be written; `Unavailable` or
    /// `Corrupt`.
    pub async fn export_space(
        &self,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<Outgoing, WorkspaceError> {
        self.require_space_read("the space as a file")?;
        let mut query = all_entries();
        // Everything is as of the first answer. The pages of its entries exist by now.
        let mut answer = self.read_entries(&query).await?;
        let mut lines = Lines {
            out,
            written: Outgoing::default(),
            as_of: answer.as_of,
        };
        lines.line(&Line::Space {
            format: FORMAT,
            space: self.space().clone(),
            as_of: answer.as_of,
        })?;
        let policy = self.policy().await?;
        if policy.version() > 0 {
            let policy = Box::new(policy.document().clone());
            lines.line(&Line::Policy { policy })?;
        }
        let pages = self.write_pages(&mut lines).await?;
        let mut entries = Vec::new();
        loop {
            for entry in answer.items {
                entries.push(entry.id);
                self.write_entry(&mut lines, entry).await?;
            }
            progress(lines.written);
            let Some(next) = answer.next else { break };
            query.cursor = Some(next);
            answer = self.read_entries(&query).await?;
        }
        self.write_links(&mut lines, &pages, &entries, progress).await?;
        let Outgoing { pages, entries, links } = lines.written;
        lines.line(&Line::End { pages, entries, links })?;
        lines.out.flush().map_err(WorkspaceError::Output)?;
        Ok(lines.written)
    }

    /// Writes every page, and returns their ids.
    async fn write_pages(&self, lines: &mut Lines<'_>) -> Result<Vec<PageId>, WorkspaceError> {
        let mut query = PageQuery {
            limit: CHUNK,
            ..PageQuery::default()
        };
        let mut written = Vec::new();
        loop {
            let pages = self.pages(&query).await?;
            let Some(last) = pages.last() else { return Ok(written) };
            query.after = Some(last.handle.0);
            let as_of = lines.as_of;
            for page in pages.into_iter().filter(|page| page.created_seq <= as_of) {
                written.push(page.id);
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

    /// Writes every link between `pages` and `entries`, in their order.
    async fn write_links(
        &self,
        lines: &mut Lines<'_>,
        pages: &[PageId],
        entries: &[EntryId],
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<(), WorkspaceError> {
        let ends = Ends {
            pages: pages.iter().copied().collect(),
            entries: entries.iter().copied().collect(),
        };
        for page in pages {
            self.write_links_of(lines, &page.to_string(), &ends).await?;
        }
        for chunk in entries.chunks(CHUNK as usize) {
            for entry in chunk {
                self.write_links_of(lines, &entry.to_string(), &ends).await?;
            }
            progress(lines.written);
        }
        Ok(())
    }

    /// Writes the links that lead from `src` to one of `ends`.
    async fn write_links_of(&self, lines: &mut Lines<'_>, src: &str, ends: &Ends) -> Result<(), WorkspaceError> {
        for link in self.inner.store.links(self.space(), src).await? {
            if link.src == src && ends.have(&link.dst) {
                lines.written.links += 1;
                lines.line(&Line::Link(link))?;
            }
        }
        Ok(())
    }
}

/// What was written, and can be at the end of a link: what is newer is not in the file, and what is gone nowhere.
struct Ends {
    pages: HashSet<PageId>,
    entries: HashSet<EntryId>,
}

impl Ends {
    fn have(&self, end: &str) -> bool {
        if end.starts_with(EntryId::PREFIX) {
            end.parse().is_ok_and(|entry| self.entries.contains(&entry))
        } else {
            end.parse().is_ok_and(|page| self.pages.contains(&page))
        }
    }
}

/// The query for every entry, whatever its state, oldest first.
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
