//! Pages of the tree, and the entries on them.

use std::collections::HashMap;

use folio_memory::entry::{check_text, without_nul};
use folio_memory::excerpt::one_line;
use folio_memory::id::{PageRef, Ref};
use folio_memory::markdown::PageText;
use folio_memory::page_tree::{TreePlace, in_tree_order};
use folio_memory::query::{MAX_LIMIT, Order};
use folio_memory::roles::Visibility;
use folio_memory::scratchbook::ItemInput;
use folio_memory::view::is_blank;
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryId, EntryKind, EntryQuery, Invalid, NewEntry, NewPage, Owner, Page,
    PageFields, PageHandle, PageId, PageQuery, PageRole, Seq, Tag, Warning, scratchbook,
};
use serde::Serialize;
use serde_json::json;

use super::notes::Stopwatch;
use super::observations::Adding;
use super::redact::recall;
use super::{Recorded, Workspace, WorkspaceError, Write, Written, source_of};
use crate::error::not_found;

/// Limit in bytes for the title of a page or a block.
const MAX_TITLE_BYTES: usize = 512;

/// How many pages are read one by one.
const MANY_PAGES: usize = 1_000;

/// The input for a new page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageInput {
    /// The title.
    pub title: String,
    /// The page that contains it.
    pub parent: Option<PageRef>,
    /// The role; a note by default.
    pub role: Option<PageRole>,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// A page that was added.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedPage {
    /// The page.
    pub page: Page,
    /// Whether an earlier call with the same idempotency key added it, and this one did nothing.
    pub replayed: bool,
    /// Values that were corrected on input.
    pub warnings: Vec<Warning>,
}

/// A page with its place in a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TreeNode {
    /// How many ancestors the page has in the tree.
    pub depth: usize,
    /// The page.
    pub page: Page,
}

impl Workspace {
    /// Adds a page. It belongs to the same run and thread as its parent.
    ///
    /// # Errors
    ///
    /// `Invalid` names the field that is wrong; `NotFound` if there is no such parent.
    pub async fn new_page(&self, actor: &Actor, input: PageInput) -> Result<Page, WorkspaceError> {
        Ok(self.new_page_under(actor, input, None).await?.page)
    }

    /// Like [`Workspace::new_page`], under a key: a second call with the key returns the page that the first one added.
    ///
    /// # Errors
    ///
    /// As [`Workspace::new_page`]; `Invalid` if the key was used before for something that added no page.
    pub async fn new_page_under(
        &self,
        actor: &Actor,
        input: PageInput,
        idempotency_key: Option<String>,
    ) -> Result<AddedPage, WorkspaceError> {
        let mut warnings = Vec::new();
        let title = checked_page_title(&without_nul(input.title, &mut warnings))?;
        let parent = match input.parent {
            Some(parent) => Some(self.page(parent).await?),
            None => None,
        };
        let mut fields = PageFields::new(input.role.unwrap_or(PageRole::Note), title, owner_for(actor));
        fields.tags = Tag::parse_all(input.tags.iter().map(String::as_str))?;
        if let Some(parent) = parent {
            fields.parent = Some(parent.id);
            fields.run = parent.fields.run;
            fields.thread = parent.fields.thread;
        }
        let id = PageId::draw(&*self.inner.ids, self.now());
        let change = Change::EnsurePage(Box::new(NewPage { id, fields }));
        let write = Write {
            idempotency_key,
            ..Write::of(vec![change])
        };
        let Recorded { committed, record, .. } = self.record(actor, write).await?;
        let added = record.changes.into_iter().find_map(|change| match change {
            Change::EnsurePage(new) => Some(*new),
            _ => None,
        });
        let page = match (added, committed.pages.first()) {
            // An actor that may add a page may not necessarily read it.
            (Some(new), Some((id, handle))) if new.id == *id => Ok(Page {
                id: *id,
                handle: *handle,
                version: 1,
                created_at: committed.at,
                updated_at: committed.at,
                created_seq: committed.seq,
                fields: new.fields,
            }),
            (_, Some((id, _))) => self.page_made_before(actor, *id, committed.seq).await,
            (_, None) => {
                let message = "the idempotency key was used before, for something that added no page";
                Err(Invalid::new("key_reused", "idempotency_key", message).into())
            }
        }?;
        let replayed = committed.replayed;
        Ok(AddedPage {
            page,
            replayed,
            warnings,
        })
    }

    /// Returns the page that `seq` added, when its key is used again: to its writer, and to others who may read it.
    async fn page_made_before(&self, actor: &Actor, id: PageId, seq: Seq) -> Result<Page, WorkspaceError> {
        let before = Seq(seq.0.saturating_sub(1));
        let rows = self.inner.store.changes(&self.inner.space, before, 1).await?;
        let is_writer =
            |writer: &Actor| (writer.role, &writer.name, writer.run) == (actor.role, &actor.name, actor.run);
        if !rows.first().is_some_and(|row| is_writer(&row.actor)) {
            return self.page(Ref::Id(id)).await;
        }
        let mut page = self.inner.store.page(&self.inner.space, Ref::Id(id)).await?;
        recall::page(&mut page, self.redaction_of_reads().await?);
        Ok(page)
    }

    /// Adds a log block to a page. Blocks on a page are never rewritten. On the scratchbook of a thread it adds a note:
    /// no view of a scratchbook shows a block.
    ///
    /// # Errors
    ///
    /// `Invalid` names the field that is wrong; `NotFound` if there is no such page.
    pub async fn append(
        &self,
        actor: &Actor,
        page: PageRef,
        title: &str,
        body: String,
        tags: &[String],
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let page = self.page(page).await?;
        if let Some(thread) = page
            .fields
            .thread
            .as_ref()
            .filter(|_| page.fields.role == PageRole::Scratchbook)
            && scratchbook::page_of(self.space(), thread).0 == page.id
        {
            let note = ItemInput {
                title: Some(title.to_owned()),
                body,
                tags: tags.to_vec(),
                ..ItemInput::new(EntryKind::Note, "")
            };
            return self.add_item(actor, thread, note, idempotency_key).await;
        }
        let mut fields = EntryFields::new(EntryKind::Log, owner_for(actor), self.trust_of(actor));
        let mut warnings = Vec::new();
        fields.title = checked_title(&without_nul(title.to_owned(), &mut warnings))?;
        fields.body = without_nul(body, &mut warnings);
        if is_blank(&fields.body) && is_blank(&fields.title) {
            return Err(Invalid::new("body_empty", "body", "there is neither a title nor a text").into());
        }
        check_text(&fields.body, "body")?;
        fields.tags = Tag::parse_all(tags.iter().map(String::as_str))?;
        fields.iteration = page.fields.iteration;
        fields.source = source_of(actor);
        let now = self.now();
        let id = EntryId::draw(&*self.inner.ids, now);
        let new = NewEntry {
            id,
            page: page.id,
            kind: EntryKind::Log,
            fields,
        };
        let adding = Adding {
            before: Vec::new(),
            after: Vec::new(),
            at: now,
            idempotency_key,
            drafted_under: None,
            expected: Vec::new(),
        };
        Ok(self.add(actor, Box::new(new), adding).await?.after(warnings))
    }

    /// Returns the last `n` entries of a page that are neither archived nor expired, the oldest of them first. At most
    /// 1,000.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such page; `Unavailable` or `Corrupt`.
    pub async fn tail(&self, page: PageRef, n: u32) -> Result<Vec<Entry>, WorkspaceError> {
        let page = self.page(page).await?;
        let tails = self.tails_of([page.id], n).await?;
        Ok(tails.into_iter().flatten().collect())
    }

    /// The last `n` entries of each of `pages`, the oldest of them first.
    pub(super) async fn tails_of(
        &self,
        pages: impl IntoIterator<Item = PageId>,
        n: u32,
    ) -> Result<Vec<Vec<Entry>>, WorkspaceError> {
        let newest = |page| EntryQuery {
            limit: n,
            ..on_page(page, Order::Newest)
        };
        if n == 0 {
            return Ok(pages.into_iter().map(|_| Vec::new()).collect());
        }
        let answers = self
            .read_entries_of_each(pages.into_iter().map(newest).collect())
            .await?;
        let tails = answers.into_iter().map(|answer| {
            let mut tail = answer.items;
            tail.reverse();
            tail
        });
        Ok(tails.collect())
    }

    /// Returns every entry of a page that is neither archived nor expired, oldest first.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such page; `Unavailable` or `Corrupt`.
    pub async fn page_entries(&self, page: PageRef) -> Result<Vec<Entry>, WorkspaceError> {
        let page = self.page(page).await?;
        let mut query = all_on_page(page.id);
        let mut entries = Vec::new();
        loop {
            let answer = self.read_entries(&query).await?;
            entries.extend(answer.items);
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(entries),
            }
        }
    }

    /// Renders a page as Markdown: its entries, oldest first, and the titles of its child pages.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such page; `Unavailable` or `Corrupt`.
    pub async fn page_markdown(&self, page: PageRef) -> Result<String, WorkspaceError> {
        Ok(self.rendered_page(page).await?.1)
    }

    /// Returns the line that models read above a page, or a part of it, and [`Workspace::page_markdown`].
    ///
    /// # Errors
    ///
    /// As [`Workspace::page_markdown`].
    pub async fn page_for_models(&self, page: PageRef) -> Result<(String, String), WorkspaceError> {
        self.rendered_page(page).await
    }

    /// The line that models read above the page, and the page. Only a part of its entries is in memory at a time.
    async fn rendered_page(&self, page: PageRef) -> Result<(String, String), WorkspaceError> {
        let watch = Stopwatch::start();
        let page = self.page(page).await?;
        let children = self.children(page.id).await?;
        let mut text = PageText::begin(&page, &children);
        let (mut query, mut count) = (all_on_page(page.id), 0);
        let mut waiting = Vec::new();
        loop {
            let answer = self.read_entries(&query).await?;
            waiting.extend(answer.items);
            let added = text.add(&waiting, answer.next.is_none());
            waiting.drain(..added);
            count += added;
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        let (heading, text) = (text.heading_for_models(), text.end());
        let detail = json!({"page": page.handle, "entries": count, "bytes": text.len()});
        self.note_render("page", "render_page", &watch, detail);
        Ok((heading, text))
    }

    /// Returns the child pages of a page, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn children(&self, page: PageId) -> Result<Vec<Page>, WorkspaceError> {
        self.all_pages(PageQuery {
            parent: Some(page),
            ..PageQuery::default()
        })
        .await
    }

    /// Returns the pages under `root` with their depth, each before its children; without a root, all pages of the
    /// space.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such page; `Unavailable` or `Corrupt`.
    pub async fn tree(&self, root: Option<PageRef>) -> Result<Vec<TreeNode>, WorkspaceError> {
        let mut waiting: Vec<TreeNode>;
        let mut children: HashMap<PageId, Vec<Page>> = HashMap::new();
        match root {
            Some(root) => {
                waiting = vec![TreeNode {
                    depth: 0,
                    page: self.page(root).await?,
                }];
            }
            None => {
                let mut roots = Vec::new();
                for page in self.all_pages(PageQuery::default()).await? {
                    match page.fields.parent {
                        Some(parent) => children.entry(parent).or_default().push(page),
                        None => roots.push(page),
                    }
                }
                waiting = roots
                    .into_iter()
                    .rev()
                    .map(|page| TreeNode { depth: 0, page })
                    .collect();
            }
        }
        let mut tree = Vec::new();
        while let Some(node) = waiting.pop() {
            // Below a root, one query per page is proportionate to the answer; the whole space may be a thousand times
            // as large.
            let inner = match root {
                Some(_) => self.children(node.page.id).await?,
                None => children.remove(&node.page.id).unwrap_or_default(),
            };
            let depth = node.depth + 1;
            waiting.extend(inner.into_iter().rev().map(|page| TreeNode { depth, page }));
            tree.push(node);
        }
        Ok(tree)
    }

    /// Returns the places of the pages that [`Workspace::tree`] returns, in the same order, without reading the pages.
    ///
    /// # Errors
    ///
    /// As [`Workspace::tree`].
    pub async fn tree_places(&self, root: Option<PageRef>) -> Result<Vec<TreePlace>, WorkspaceError> {
        if self.visibility().await? != Visibility::Space {
            // It may see few of them, and each is looked at to know which.
            let place = |node: TreeNode| TreePlace {
                depth: node.depth,
                page: node.page.handle,
            };
            return Ok(self.tree(root).await?.into_iter().map(place).collect());
        }
        let root = match root {
            Some(root) => Some(self.page(root).await?.handle),
            None => None,
        };
        let parents = self.inner.store.page_parents(self.space(), root).await?;
        Ok(in_tree_order(&parents, root))
    }

    /// Returns the pages with these handles, in the same order.
    ///
    /// # Errors
    ///
    /// `NotFound` if one of them does not exist; `Unavailable` or `Corrupt`.
    pub async fn pages_called(&self, handles: Vec<PageHandle>) -> Result<Vec<Page>, WorkspaceError> {
        if handles.len() <= MANY_PAGES {
            let mut pages = Vec::with_capacity(handles.len());
            for handle in handles {
                pages.push(self.page(Ref::Handle(handle)).await?);
            }
            return Ok(pages);
        }
        // So many are read faster in the order in which they are stored, with others between them.
        let (first, last) = (handles.iter().min(), handles.iter().max().copied());
        let mut query = PageQuery {
            after: first.map(|first| first.0.saturating_sub(1)),
            ..PageQuery::default()
        };
        let mut found: HashMap<PageHandle, Option<Page>> = handles.iter().map(|handle| (*handle, None)).collect();
        while query.after < last.map(|last| last.0) {
            let pages = self.pages(&query).await?;
            let Some(end) = pages.last() else { break };
            query.after = Some(end.handle.0);
            for page in pages {
                if let Some(place) = found.get_mut(&page.handle) {
                    *place = Some(page);
                }
            }
        }
        let taken = handles.into_iter().map(|handle| {
            let page = found.get_mut(&handle).and_then(Option::take);
            page.ok_or_else(|| not_found("page", PageRef::Handle(handle)).into())
        });
        taken.collect()
    }

    /// Returns all pages that match `query`, however many there are.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn all_pages(&self, query: PageQuery) -> Result<Vec<Page>, WorkspaceError> {
        self.first_pages(query, usize::MAX).await
    }

    /// Returns the first `limit` pages that match `query`, whose own limit does not count.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn first_pages(&self, mut query: PageQuery, limit: usize) -> Result<Vec<Page>, WorkspaceError> {
        let mut pages = Vec::new();
        loop {
            query.limit = u32::try_from(limit - pages.len()).map_or(MAX_LIMIT, |left| left.min(MAX_LIMIT));
            let batch = self.pages(&query).await?;
            let is_full = batch.len() >= query.limit as usize;
            pages.extend(batch);
            match pages.last() {
                Some(last) if is_full && pages.len() < limit => query.after = Some(last.handle.0),
                _ => return Ok(pages),
            }
        }
    }
}

/// The entries of a page, oldest first, as many at a time as one question may ask for.
fn all_on_page(page: PageId) -> EntryQuery {
    EntryQuery {
        limit: MAX_LIMIT,
        ..on_page(page, Order::Oldest)
    }
}

fn on_page(page: PageId, order: Order) -> EntryQuery {
    EntryQuery {
        page: Some(page),
        include_superseded: true,
        order,
        ..EntryQuery::default()
    }
}

fn owner_for(actor: &Actor) -> Owner {
    match actor.role {
        folio_memory::Role::Human => Owner::user(),
        folio_memory::Role::Planner => Owner::planner(),
        folio_memory::Role::Executor => Owner::executor(),
        _ => Owner::agent(),
    }
}

/// The title of a new page, on one line; it must not be empty.
pub(super) fn checked_page_title(title: &str) -> Result<String, Invalid> {
    match checked_title(title)? {
        title if is_blank(&title) => Err(Invalid::new("title_empty", "title", "is empty")),
        title => Ok(title),
    }
}

fn checked_title(title: &str) -> Result<String, Invalid> {
    let line = one_line(title);
    if line.len() > MAX_TITLE_BYTES {
        let message = format!("{} bytes are more than {MAX_TITLE_BYTES}", line.len());
        return Err(Invalid::new("title_too_long", "title", message));
    }
    Ok(line)
}
