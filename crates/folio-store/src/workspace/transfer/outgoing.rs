//! Exports a space, line by line.

use std::io::Write;

use folio_memory::id::Ref;
use folio_memory::transfer::{EntryLine, FORMAT, Line, PageLine};
use folio_memory::{Entry, EntryId, EntryQuery, Link, Order, PageId, PageQuery, Seq, Status, query};

use super::super::{Workspace, WorkspaceError};
use super::pieces::piece_of;
use crate::commit::BlobHash;
use crate::error::StoreError;

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
    /// Holds a few hundred entries, or one piece of a text, in memory at a time, and the ids of the entries written.
    /// What is added meanwhile is left out, except for links between what was there; the same state gives the same
    /// bytes.
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
        self.write_pages(&mut lines).await?;
        let mut written = Vec::new();
        loop {
            for entry in answer.items {
                written.push(entry.id);
                self.write_entry(&mut lines, entry).await?;
            }
            progress(lines.written);
            let Some(next) = answer.next else { break };
            query.cursor = Some(next);
            answer = self.read_entries(&query).await?;
        }
        self.write_links(&mut lines, &written, progress).await?;
        let Outgoing { pages, entries, links } = lines.written;
        lines.line(&Line::End { pages, entries, links })?;
        lines.out.flush().map_err(WorkspaceError::Output)?;
        Ok(lines.written)
    }

    async fn write_pages(&self, lines: &mut Lines<'_>) -> Result<(), WorkspaceError> {
        let mut query = all_pages();
        loop {
            let pages = self.pages(&query).await?;
            let Some(last) = pages.last() else { return Ok(()) };
            query.after = Some(last.handle.0);
            let as_of = lines.as_of;
            for page in pages.into_iter().filter(|page| page.created_seq <= as_of) {
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

    /// Writes every link, with the page or the one of `entries` at which it begins.
    async fn write_links(
        &self,
        lines: &mut Lines<'_>,
        entries: &[EntryId],
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<(), WorkspaceError> {
        let mut pages = all_pages();
        loop {
            let batch = self.pages(&pages).await?;
            let Some(last) = batch.last() else { break };
            pages.after = Some(last.handle.0);
            let old = batch.into_iter().filter(|page| page.created_seq <= lines.as_of);
            let ids = old.map(|page| page.id.to_string()).collect();
            self.write_links_of(lines, ids).await?;
        }
        for chunk in entries.chunks(CHUNK as usize) {
            let ids = chunk.iter().map(ToString::to_string).collect();
            self.write_links_of(lines, ids).await?;
            progress(lines.written);
        }
        Ok(())
    }

    /// Writes the links that begin at `ends`, except for those that lead to something newer than the rest of the file.
    async fn write_links_of(&self, lines: &mut Lines<'_>, ends: Vec<String>) -> Result<(), WorkspaceError> {
        let mut links = Vec::new();
        for end in ends {
            let of_end = self.inner.store.links(self.space(), &end).await?;
            links.extend(of_end.into_iter().filter(|link| link.src == end));
        }
        // While nothing was written since, all of them lead to old things.
        let is_quiet = links.is_empty() || self.head().await? == lines.as_of;
        for link in links {
            if is_quiet || self.leads_to_old(&link, lines.as_of).await? {
                lines.written.links += 1;
                lines.line(&Line::Link(link))?;
            }
        }
        Ok(())
    }

    /// Whether the end of `link` existed at `as_of`.
    async fn leads_to_old(&self, link: &Link, as_of: Seq) -> Result<bool, WorkspaceError> {
        let dst = &link.dst;
        if let Ok(entry) = dst.parse::<EntryId>()
            && dst.starts_with(EntryId::PREFIX)
        {
            let existing = self.if_there(entry).await?;
            return Ok(existing.is_some_and(|existing| existing.created_seq <= as_of));
        }
        let Ok(page) = dst.parse::<PageId>() else {
            return Ok(true);
        };
        match self.inner.store.page(self.space(), Ref::Id(page)).await {
            Ok(page) => Ok(page.created_seq <= as_of),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn all_pages() -> PageQuery {
    PageQuery {
        limit: CHUNK,
        ..PageQuery::default()
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
