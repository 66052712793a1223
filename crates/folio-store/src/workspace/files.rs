//! Shows memory as read-only files under paths, for models and programs that know files best: scratchbooks,
//! conversations, results that were put away, and pages. What a reader may not see is absent or refused (M7.7).

use folio_memory::files::{FileEntry, FileKind, FilePath, Hits, is_past};
use folio_memory::id::Ref;
use folio_memory::passage::{self, Part, PartRead};
use folio_memory::query::MAX_LIMIT;
use folio_memory::scratchbook::colony::{name_of, thread_of};
use folio_memory::{
    EntryQuery, Order, PageHandle, PageQuery, PageRole, Status, ThreadKey, evict, offload, page, scratchbook,
};

use super::{Workspace, WorkspaceError};
use crate::error::StoreError;

/// How many files one search reads.
const SEARCHED_MAX: u64 = 1_000;
/// How many messages are joined into one file.
const MESSAGES_MAX: u64 = 10_000;

/// What a path refers to.
enum PathTarget {
    /// A folder above the folders of files, with the names in it.
    Above(Vec<String>),
    /// The folder of all files of one sort.
    Folder(Sort),
    /// The blocks of a thread's history.
    Blocks(ThreadKey),
    File(Leaf),
}

/// The sort of files in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Books,
    History,
    Results,
    Pages,
}

/// A file.
enum Leaf {
    BookText(ThreadKey),
    BookJson(ThreadKey),
    Messages(ThreadKey, u64, u64),
    Result(String),
    Page(PageHandle),
}

impl Workspace {
    /// Lists the folder at `path`, by name.
    ///
    /// # Errors
    ///
    /// `path_escapes` if the path is not valid; `NotFound` if it is not a folder; `Unavailable` or `Corrupt`.
    pub async fn list_files(&self, path: &str) -> Result<Vec<FileEntry>, WorkspaceError> {
        let path = FilePath::parse(path)?;
        let entry = |name: String, kind| FileEntry {
            path: path.joined(&name).to_string(),
            kind,
        };
        let folders = |names: Vec<String>| names.into_iter().map(|name| entry(name, FileKind::Folder)).collect();
        let files = |names: Vec<String>| names.into_iter().map(|name| entry(name, FileKind::File)).collect();
        let mut listed: Vec<FileEntry> = match self.resolve_path(&path).await? {
            Some(PathTarget::Above(names)) => folders(names),
            Some(PathTarget::Folder(Sort::History)) => folders(self.threads_with(PageRole::History).await?),
            Some(PathTarget::Folder(Sort::Books)) => {
                let threads = self.threads_with(PageRole::Scratchbook).await?;
                let both = |name: String| [format!("{name}.json"), format!("{name}.md")];
                files(threads.into_iter().flat_map(both).collect())
            }
            Some(PathTarget::Folder(Sort::Results)) => files(self.results().await?),
            Some(PathTarget::Folder(Sort::Pages)) => {
                let pages = self.all_pages(PageQuery::default()).await?;
                files(pages.iter().map(|page| format!("{}.md", page.handle)).collect())
            }
            Some(PathTarget::Blocks(thread)) => {
                let names = self.block_names(&thread).await;
                files(names.map_err(|error| as_missing("folder", error, &path))?)
            }
            Some(PathTarget::File(_)) | None => return Err(no_such("folder", &path)),
        };
        listed.sort();
        Ok(listed)
    }

    /// Reads a part of the file at `path`: at most `max_bytes`, with the cursor for the next part.
    ///
    /// # Errors
    ///
    /// `path_escapes` if the path is not valid; `NotFound` if it is not a file; `Refused` if the asker may not read it;
    /// `Unavailable` or `Corrupt`.
    pub async fn read_file(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, WorkspaceError> {
        let path = FilePath::parse(path)?;
        let leaf = match self.resolve_path(&path).await? {
            Some(PathTarget::File(leaf)) => leaf,
            // The whole conversation as one file.
            Some(PathTarget::Blocks(thread)) => Leaf::Messages(thread, 1, MESSAGES_MAX),
            _ => return Err(no_such("file", &path)),
        };
        self.read_leaf(leaf, &path, part, max_bytes).await
    }

    /// Finds the lines that contain `words` in the file at `path`, or in all files below the folder at `path`: at most
    /// about `max_bytes` of lines. `after` is the file after which the search continues. Searches 1,000 files at a
    /// time.
    ///
    /// # Errors
    ///
    /// As [`Workspace::read_file`]; files in a folder that may not be read are skipped.
    pub async fn search_files(
        &self,
        path: &str,
        words: &str,
        after: Option<&str>,
        max_bytes: usize,
    ) -> Result<Hits, WorkspaceError> {
        let path = FilePath::parse(path)?;
        let mut found = Hits::default();
        let (mut room, mut waiting) = (max_bytes, Vec::new());
        let is_file = matches!(self.resolve_path(&path).await?, Some(PathTarget::File(_)));
        if is_file {
            waiting.push((path.to_string(), FileKind::File));
        } else {
            let listed = self.list_files(&path.to_string()).await?;
            waiting.extend(listed.into_iter().rev().map(|entry| (entry.path, entry.kind)));
        }
        let mut last = None;
        while let Some((name, kind)) = waiting.pop() {
            if kind == FileKind::Folder {
                let listed = self.list_files(&name).await?;
                waiting.extend(listed.into_iter().rev().map(|entry| (entry.path, entry.kind)));
                continue;
            }
            if is_past(&name, after) {
                continue;
            }
            if room == 0 || found.searched >= SEARCHED_MAX {
                found.next = last;
                return Ok(found);
            }
            let part = Part::Search {
                words: words.to_owned(),
                from: 0,
            };
            let read = match self.read_file(&name, &part, room).await {
                // The file disappeared during the search, or the asker may not read it.
                Err(WorkspaceError::Store(StoreError::NotFound { .. }) | WorkspaceError::Refused(_)) if !is_file => {
                    continue;
                }
                read => read?,
            };
            room = found.take_in(&name, read.reading, room);
            last = Some(name);
        }
        Ok(found)
    }

    async fn resolve_path(&self, path: &FilePath) -> Result<Option<PathTarget>, WorkspaceError> {
        let prefix = FilePath::parse(&self.policy().await?.scratchbook.path_prefix)?;
        let fixed = |name| FilePath::default().joined(name);
        let roots = [
            (prefix, Sort::Books),
            (fixed("conversation_history"), Sort::History),
            (fixed("large_tool_results"), Sort::Results),
            (fixed("pages"), Sort::Pages),
        ];
        for (root, sort) in &roots {
            if let Some(rest) = path.below(root) {
                return Ok(meant_below(*sort, rest));
            }
        }
        let mut names: Vec<String> = Vec::new();
        for (root, _) in &roots {
            names.extend(root.below(path).and_then(|rest| rest.first()).cloned());
        }
        names.sort();
        names.dedup();
        Ok((!names.is_empty()).then_some(PathTarget::Above(names)))
    }

    async fn read_leaf(
        &self,
        leaf: Leaf,
        path: &FilePath,
        part: &Part,
        max_bytes: usize,
    ) -> Result<PartRead, WorkspaceError> {
        let text = match leaf {
            Leaf::BookText(thread) => {
                let (page, _) = scratchbook::page_of(self.space(), &thread);
                self.page_markdown(Ref::Id(page)).await
            }
            Leaf::BookJson(thread) => {
                let (page, _) = scratchbook::page_of(self.space(), &thread);
                match self.page(Ref::Id(page)).await {
                    Ok(_) => Ok(self.book_of(&thread).await?.0.to_json()),
                    Err(error) => Err(error),
                }
            }
            Leaf::Messages(thread, from, to) => {
                let (page, _) = offload::page_of(self.space(), &thread);
                match self.page(Ref::Id(page)).await {
                    Ok(_) => {
                        let history = self.said(&thread, from, to).await?;
                        let lines = history.messages.into_iter().map(|(_, message)| format!("{message}\n"));
                        Ok(lines.collect())
                    }
                    Err(error) => Err(error),
                }
            }
            Leaf::Page(page) => self.page_markdown(Ref::Handle(page)).await,
            Leaf::Result(handle) => {
                let read = self.result_at(&handle, part, max_bytes).await;
                return read.map_err(|error| as_missing("file", error, path));
            }
        };
        let text = text.map_err(|error| as_missing("file", error, path))?;
        Ok(passage::read(text.as_bytes(), part, max_bytes))
    }

    /// Reads a part of the result called `handle`; entries that are not results do not count.
    async fn result_at(&self, handle: &str, part: &Part, max_bytes: usize) -> Result<PartRead, WorkspaceError> {
        let missing = || StoreError::NotFound {
            what: "result",
            name: handle.to_owned(),
        };
        let entry = self.read_entry(handle.parse().map_err(|_| missing())?).await?;
        if entry.page != evict::page_of(self.space()).0 {
            return Err(missing().into());
        }
        self.check_entry(&entry).await?;
        self.read_body_of(&entry, part, max_bytes).await
    }

    /// The names of the threads with a page of `role` that the asker may read.
    async fn threads_with(&self, role: PageRole) -> Result<Vec<String>, WorkspaceError> {
        let query = PageQuery {
            roles: vec![role],
            ..PageQuery::default()
        };
        let mut names = Vec::new();
        for found in self.all_pages(query).await? {
            let thread = found.fields.thread.unwrap_or_default();
            let is_standing = page::standing(self.space(), role, Some(&thread)).is_some_and(|(id, _)| id == found.id);
            names.extend(name_of(&thread).filter(|_| is_standing));
        }
        Ok(names)
    }

    /// The names of the results that still exist.
    async fn results(&self) -> Result<Vec<String>, WorkspaceError> {
        let mut query = EntryQuery {
            page: Some(evict::page_of(self.space()).0),
            status: Status::ALL.to_vec(),
            order: Order::Oldest,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut names = Vec::new();
        loop {
            let answer = self.visible_entries(&query).await?;
            let kept = answer.items.iter().filter(|entry| entry.fields.body_ref.is_some());
            names.extend(kept.map(|entry| entry.handle.to_string()));
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(names),
            }
        }
    }

    /// The names of the blocks in the history of `thread`, such as `1-40`.
    async fn block_names(&self, thread: &ThreadKey) -> Result<Vec<String>, WorkspaceError> {
        let (page, _) = offload::page_of(self.space(), thread);
        self.page(Ref::Id(page)).await?;
        let blocks = self.blocks(thread).await?;
        Ok(blocks
            .iter()
            .map(|block| format!("{}-{}", block.from, block.to))
            .collect())
    }
}

fn meant_below(sort: Sort, rest: &[String]) -> Option<PathTarget> {
    let thread = |name: &str| thread_of(&format!("{name}.json"));
    Some(match (sort, rest) {
        (_, []) => PathTarget::Folder(sort),
        (Sort::Books, [name]) => match (name.strip_suffix(".md"), name.strip_suffix(".json")) {
            (Some(name), _) => PathTarget::File(Leaf::BookText(thread(name)?)),
            (_, Some(name)) => PathTarget::File(Leaf::BookJson(thread(name)?)),
            _ => return None,
        },
        (Sort::History, [name]) => PathTarget::Blocks(thread(name)?),
        (Sort::History, [name, range]) => match Part::lines(range)? {
            Part::Lines { from, to } => PathTarget::File(Leaf::Messages(thread(name)?, from, to)),
            _ => return None,
        },
        (Sort::Results, [name]) => PathTarget::File(Leaf::Result(name.clone())),
        (Sort::Pages, [name]) => PathTarget::File(Leaf::Page(name.strip_suffix(".md")?.parse().ok()?)),
        _ => return None,
    })
}

fn no_such(kind: &'static str, path: &FilePath) -> WorkspaceError {
    let name = path.to_string();
    StoreError::NotFound { what: kind, name }.into()
}

/// Reports a missing file by its path.
fn as_missing(kind: &'static str, error: WorkspaceError, path: &FilePath) -> WorkspaceError {
    match error {
        WorkspaceError::Store(StoreError::NotFound { .. }) => no_such(kind, path),
        error => error,
    }
}
