//! Exports a space, line by line.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io::Write;

use folio_memory::id::{EntryHandle, PageHandle, Ref};
use folio_memory::transfer::{EntryLine, FORMAT, Line, PageLine};
use folio_memory::{
    Entry, EntryId, EntryQuery, Link, ListAnswer, Order, Page, PageId, PageQuery, Relation, Seq, Status, query,
};

use super::super::{Workspace, WorkspaceError};
use super::pieces::piece_of;
use crate::commit::BlobHash;
use crate::error::{ErrorKind, StoreError};

/// How many entries are read at once.
const CHUNK: u32 = 200;

/// How many handles in a row may be unknown or unreadable before the search for the pages or entries of a damaged store
/// ends.
const MAX_UNREAD_IN_A_ROW: u32 = 1_000;

/// How much was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Pages.
    pub pages: u64,
    /// Entries.
    pub entries: u64,
    /// Links.
    pub links: u64,
    /// How far the export has come, if it is known: how many of how many steps are done. An entry is one when it is
    /// written, and another one when its links are.
    pub steps: Option<(u64, u64)>,
}

/// The output of lines.
struct Lines<'a> {
    out: &'a mut (dyn Write + Send),
    written: Outgoing,
    /// The commit of which everything is written: what is newer is left out.
    as_of: Seq,
    /// What superseded the entries that were written.
    successors: HashMap<EntryId, EntryId>,
    /// What could not be read and was left out; `None` if damage ends the export.
    left_out: Option<Vec<String>>,
}

impl Lines<'_> {
    /// Returns the value, or `None` if it is damaged and the export goes on without it: `what` is then reported.
    fn unless_damaged<T>(
        &mut self,
        what: &dyn Display,
        read: Result<T, WorkspaceError>,
    ) -> Result<Option<T>, WorkspaceError> {
        match (read, &mut self.left_out) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(error), Some(left_out)) if error.kind() == ErrorKind::Corrupt => {
                left_out.push(format!("{what}: {error}"));
                Ok(None)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Writes a page, and notes it among those `written`, unless it is newer than the rest of the file.
    fn page(&mut self, page: Page, written: &mut Vec<PageId>) -> Result<(), WorkspaceError> {
        if page.created_seq > self.as_of {
            return Ok(());
        }
        written.push(page.id);
        self.written.pages += 1;
        self.line(&Line::Page(Box::new(PageLine::of(page))))
    }

    /// Whether `link` says that its source superseded an entry that something else has superseded since. Like an earlier
    /// version, it is not part of the present state; together with the newer links it may seem to be a cycle.
    fn is_outdated(&self, link: &Link) -> bool {
        let by = link
            .dst
            .parse()
            .ok()
            .and_then(|entry: EntryId| self.successors.get(&entry));
        link.rel == Relation::Supersedes && by.is_some_and(|by| by.to_string() != link.src)
    }

    fn line(&mut self, line: &Line) -> Result<(), WorkspaceError> {
        let mut text = line.to_json();
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(WorkspaceError::Output)
    }
}

impl Workspace {
    /// Writes every page, every entry in its present version with its whole text, and every link that still holds to
    /// `out`, in the format of [`folio_memory::transfer`]. `progress` receives the counts so far, repeatedly.
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
        self.export(out, progress, None).await.map(|(written, _)| written)
    }

    /// Exports as [`Workspace::export_space`], but goes on where the store is damaged. Of an entry whose long text
    /// cannot be read, the beginning is written; what cannot be read at all is left out. Returns also what was left
    /// out, and why: empty if nothing was.
    ///
    /// # Errors
    ///
    /// As [`Workspace::export_space`]; `Corrupt` only if the store does not even tell what the space has.
    pub async fn rescue_space(
        &self,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Outgoing) + Send),
    ) -> Result<(Outgoing, Vec<String>), WorkspaceError> {
        self.export(out, progress, Some(Vec::new())).await
    }

    async fn export(
        &self,
        out: &mut (dyn Write + Send),
        progress: &mut (dyn FnMut(Outgoing) + Send),
        left_out: Option<Vec<String>>,
    ) -> Result<(Outgoing, Vec<String>), WorkspaceError> {
        self.require_space_read("the space as a file")?;
        let as_of = self.head().await?;
        let mut lines = Lines {
            out,
            written: Outgoing::default(),
            as_of,
            successors: HashMap::new(),
            left_out,
        };
        let mut query = all_entries();
        // Everything is as of the first answer. The pages of its entries exist by now.
        let first = self.read_entries(&query).await;
        let mut answer = lines.unless_damaged(&"a list of entries", first)?;
        if let Some(answer) = &answer {
            lines.as_of = answer.as_of;
        }
        lines.line(&Line::Space {
            format: FORMAT,
            space: self.space().clone(),
            as_of: lines.as_of,
        })?;
        let policy = lines.unless_damaged(&"the policy", self.policy().await)?;
        if let Some(policy) = policy.filter(|policy| policy.version() > 0) {
            let policy = Box::new(policy.document().clone());
            lines.line(&Line::Policy { policy })?;
        }
        let pages = self.write_pages(&mut lines).await?;
        let (mut written, mut last) = (Vec::new(), 0);
        loop {
            let Some(ListAnswer { items, next, total, .. }) = answer else {
                lines.written.steps = None;
                self.write_entries_one_by_one(&mut lines, last, &mut written).await?;
                break;
            };
            for entry in items {
                last = entry.handle.0;
                written.push(entry.id);
                self.write_entry(&mut lines, entry).await?;
            }
            lines.written.steps = Some((lines.written.entries, total.saturating_mul(2)));
            progress(lines.written);
            if next.is_none() {
                break;
            }
            query.cursor = next;
            let batch = self.read_entries(&query).await;
            answer = lines.unless_damaged(&"a list of entries", batch)?;
        }
        self.write_links(&mut lines, &pages, &written, progress).await?;
        let Outgoing {
            pages, entries, links, ..
        } = lines.written;
        lines.line(&Line::End { pages, entries, links })?;
        lines.out.flush().map_err(WorkspaceError::Output)?;
        Ok((lines.written, lines.left_out.unwrap_or_default()))
    }

    /// Writes every page; returns the ids of those written.
    async fn write_pages(&self, lines: &mut Lines<'_>) -> Result<Vec<PageId>, WorkspaceError> {
        let mut written = Vec::new();
        let mut query = PageQuery {
            limit: CHUNK,
            ..PageQuery::default()
        };
        loop {
            let batch = self.pages(&query).await;
            let Some(pages) = lines.unless_damaged(&"a list of pages", batch)? else {
                self.write_pages_one_by_one(lines, query.after.unwrap_or(0), &mut written)
                    .await?;
                return Ok(written);
            };
            let Some(last) = pages.last() else { return Ok(written) };
            query.after = Some(last.handle.0);
            for page in pages {
                lines.page(page, &mut written)?;
            }
        }
    }

    /// Writes the pages after number `after`, as far as each can be read by its handle.
    async fn write_pages_one_by_one(
        &self,
        lines: &mut Lines<'_>,
        after: u64,
        written: &mut Vec<PageId>,
    ) -> Result<(), WorkspaceError> {
        let mut unread_in_a_row = 0;
        for handle in (after + 1..).map(PageHandle) {
            let read = match self.page(Ref::Handle(handle)).await {
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => None,
                read => lines.unless_damaged(&handle, read)?,
            };
            match read {
                Some(page) => {
                    unread_in_a_row = 0;
                    lines.page(page, written)?;
                }
                None if unread_in_a_row >= MAX_UNREAD_IN_A_ROW => break,
                None => unread_in_a_row += 1,
            }
        }
        Ok(())
    }

    /// Writes the entries after number `after`, as far as each can be read by its handle.
    async fn write_entries_one_by_one(
        &self,
        lines: &mut Lines<'_>,
        after: u64,
        written: &mut Vec<EntryId>,
    ) -> Result<(), WorkspaceError> {
        // A large part of the entries may be gone from the middle, so the newest one tells how many there were.
        let newest = EntryQuery {
            order: Order::Newest,
            limit: 1,
            ..all_entries()
        };
        let newest = self.read_entries(&newest).await.ok();
        let last = newest.and_then(|answer| answer.items.first().map(|entry| entry.handle.0));
        let mut unread_in_a_row = 0;
        for handle in (after + 1..).map(EntryHandle) {
            let read = match self.read_entry(Ref::Handle(handle)).await {
                Err(WorkspaceError::Store(StoreError::NotFound { .. })) => None,
                read => lines.unless_damaged(&handle, read)?,
            };
            let Some(entry) = read else {
                if unread_in_a_row >= MAX_UNREAD_IN_A_ROW && last.is_none_or(|last| handle.0 >= last) {
                    break;
                }
                unread_in_a_row += 1;
                continue;
            };
            unread_in_a_row = 0;
            if entry.created_seq <= lines.as_of {
                written.push(entry.id);
                self.write_entry(lines, entry).await?;
            }
        }
        Ok(())
    }

    async fn write_entry(&self, lines: &mut Lines<'_>, mut entry: Entry) -> Result<(), WorkspaceError> {
        let (id, mut hashes) = (entry.id, pieces_of(&entry));
        if lines.left_out.is_some() {
            // The line of the entry says how its text continues, so it has to be known beforehand.
            for hash in &hashes {
                let what = format!("the text of {} after its beginning", entry.handle);
                if lines.unless_damaged(&what, self.read_blob(hash).await)?.is_none() {
                    entry.fields.body_ref = None;
                    hashes.clear();
                    break;
                }
            }
        }
        lines.successors.extend(entry.fields.superseded_by.map(|by| (id, by)));
        lines.line(&Line::Entry(Box::new(EntryLine::of(entry))))?;
        lines.written.entries += 1;
        for (hash, number) in hashes.into_iter().zip(1..) {
            let bytes = self.read_blob(&hash).await?;
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
        let mut done = entries.len() as u64;
        for chunk in entries.chunks(CHUNK as usize) {
            for entry in chunk {
                self.write_links_of(lines, &entry.to_string(), &ends).await?;
            }
            done += chunk.len() as u64;
            lines.written.steps = Some((done, 2 * entries.len() as u64));
            progress(lines.written);
        }
        Ok(())
    }

    /// Writes the links that lead from `src` to one of `ends`.
    async fn write_links_of(&self, lines: &mut Lines<'_>, src: &str, ends: &Ends) -> Result<(), WorkspaceError> {
        let links = self.inner.store.links(self.space(), src).await;
        let what = format!("the links of {src}");
        let links = lines.unless_damaged(&what, links.map_err(WorkspaceError::from))?;
        for link in links.unwrap_or_default() {
            if link.src == src && ends.have(&link.dst) && !lines.is_outdated(&link) {
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

/// The pieces of the long text of `entry`, by the hashes that they are kept under; none if it has no long text.
fn pieces_of(entry: &Entry) -> Vec<BlobHash> {
    match &entry.fields.body_ref {
        None => Vec::new(),
        Some(body) if body.pieces.is_empty() => vec![BlobHash(body.hash.clone())],
        Some(body) => body.pieces.iter().map(|piece| BlobHash(piece.hash.clone())).collect(),
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
