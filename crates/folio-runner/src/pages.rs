//! What planners are told about the pages of a run. Its driver, which writes the pages, keeps it up to date, so that
//! nobody reads them from the store before each call of a model. A step's entries are included while they are still
//! being written, so a step is one commit.

use std::collections::HashMap;

use folio_engine::{Run, projection};
use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::query::MAX_LIMIT;
use folio_memory::tokens::Tokens;
use folio_memory::view::{PageCounts, PageLines, is_settled, planner_block};
use folio_memory::{Change, FieldChange, PageHandle, PageId, PageQuery, PageRole};
use folio_store::workspace::{Moment, Workspace, WorkspaceError};
use folio_store::{ErrorKind, StoreError};

/// How many pages of executors are described: those that did not end well and were not superseded first, then the
/// newest (E9.16). The rest is only counted.
const MAX_EXECUTOR_PAGES: usize = 20;
/// How many of its last entries stand for a page.
const TAIL_ENTRIES: u32 = 4;

/// The description of the pages of a run with everything that its driver has applied, durable or not.
#[derive(Debug)]
pub(crate) struct RunPages {
    /// The mark of others' writes up to which it is valid; `None` if the store keeps no such mark, and then it is valid
    /// only for the question that it was read for.
    mark: Option<u64>,
    /// The main scratchpad, followed by those of executors.
    ids: Vec<PageId>,
    lines: Vec<PageLines>,
    /// How many pages of executors are left out that need nobody's attention.
    settled: usize,
    /// The other pages that are left out, with their statuses.
    unsettled: HashMap<PageId, String>,
}

/// The effect of a change on the pages is unknown; they have to be read once it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MustReread;

impl RunPages {
    /// Reads the pages of `run` from the store; `None` if it has none yet.
    ///
    /// What is written after `moment` changes the mark.
    pub(crate) async fn read(workspace: &Workspace, moment: Moment, run: &Run) -> Result<Option<Self>, WorkspaceError> {
        let main = match workspace.page(Ref::Id(projection::main_page(run.id()))).await {
            Ok(main) => main,
            // The run has no pages yet.
            Err(WorkspaceError::Store(error)) if StoreError::kind(&error) == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let query = PageQuery {
            run: Some(run.id()),
            roles: vec![PageRole::ScratchpadExec],
            newest_first: true,
            ..PageQuery::default()
        };
        let mark = moment.mark_of_pages();
        // Without a mark the pages are read before each call, so only the newest are read, and the older ones counted.
        let (mut executors, older) = if mark.is_some() {
            (workspace.all_pages(query).await?, 0)
        } else {
            let newest = workspace.pages(&query).await?;
            let all = if newest.len() < MAX_LIMIT as usize {
                0
            } else {
                workspace.page_count(&query).await?
            };
            let older = all.saturating_sub(newest.len() as u64);
            (newest, older)
        };
        // The pages are listed in the order in which they were made.
        executors.sort_by_key(|page| is_settled(&page.fields.status));
        let omitted = executors.split_off(executors.len().min(MAX_EXECUTOR_PAGES));
        executors.sort_by_key(|page| page.handle);
        let pages = std::iter::once(main).chain(executors).collect();
        let tails = workspace.tails(pages, TAIL_ENTRIES).await?;
        let entries = tails
            .iter()
            .map(|page| (page.page.id, PageLines::for_planner(&page.page, &page.tail)));
        let (ids, lines) = entries.unzip();
        let mut run_pages = Self {
            mark,
            ids,
            lines,
            settled: usize::try_from(older).unwrap_or(usize::MAX),
            unsettled: HashMap::new(),
        };
        for page in omitted {
            run_pages.count_omitted_page(page.id, &page.fields.status);
        }
        Ok(Some(run_pages))
    }

    /// The pages of a new `run` as `changes`, its first ones, are about to make them. `None` if the store keeps no mark
    /// of what others write.
    pub(crate) async fn of_new(workspace: &Workspace, run: &Run, changes: &[Change]) -> Option<Self> {
        let mark = workspace.moment().await.ok()?.mark_of_pages();
        let main = projection::main_page(run.id());
        let lines = changes.iter().find_map(|change| match change {
            Change::EnsurePage(new) if new.id == main => Some(PageLines::of_new(&new.fields)),
            _ => None,
        });
        let mut pages = Self {
            mark: Some(mark?),
            ids: vec![main],
            lines: vec![lines?],
            settled: 0,
            unsettled: HashMap::new(),
        };
        for change in changes {
            pages.apply_change(workspace, run, change).await.ok()?;
        }
        Some(pages)
    }

    /// Whether nobody else had written to the pages by `moment` since they were read.
    pub(crate) fn is_current(&self, moment: Moment) -> bool {
        self.mark.is_some() && self.mark == moment.mark_of_pages()
    }

    /// Applies a change that the projection of the run's own events writes.
    pub(crate) async fn apply_change(
        &mut self,
        workspace: &Workspace,
        run: &Run,
        change: &Change,
    ) -> Result<(), MustReread> {
        match change {
            Change::EnsurePage(new) if new.fields.role == PageRole::ScratchpadExec => {
                if !self.ids.contains(&new.id) && new.fields.run == Some(run.id()) {
                    self.evict_excess_page();
                    self.ids.push(new.id);
                    self.lines.push(PageLines::of_new(&new.fields));
                }
            }
            Change::SetPageStatus { page, status } => {
                if let Some(lines) = self.lines_of(*page) {
                    lines.set_status(status);
                } else if self.unsettled.remove(page).is_some() {
                    self.count_omitted_page(*page, status);
                } else if self.settled > 0 && !is_settled(status) {
                    // It may be one of the counted pages, of which the ids are unknown.
                    return Err(MustReread);
                }
            }
            Change::AddEntry(new) => {
                let last = self.lines.iter().map(PageLines::last_at).max().unwrap_or(0);
                if self.lines_of(new.page).is_some() {
                    let entry = workspace.as_read(new, last + 1).await.map_err(|_| MustReread)?;
                    if let Some(lines) = self.lines_of(new.page) {
                        lines.add(&entry, TAIL_ENTRIES as usize);
                    }
                }
            }
            Change::PatchEntry { entry, fields, .. } => {
                // A status is not shown, but archived entries are no longer described.
                let is_kept = |field: &FieldChange| match field {
                    FieldChange::Status(status) => *status != Status::Archived,
                    FieldChange::Phase(_) => true,
                    _ => false,
                };
                if !fields.iter().all(is_kept) && self.lines.iter().any(|lines| lines.has_entry(*entry)) {
                    return Err(MustReread);
                }
            }
            Change::EnsurePage(_) => {}
            _ => return Err(MustReread),
        }
        Ok(())
    }

    /// Sets the handles of pages.
    pub(crate) fn set_handles(&mut self, pages: &[(PageId, PageHandle)]) {
        for (page, handle) in pages {
            if let Some(lines) = self.lines_of(*page) {
                lines.set_handle(*handle);
            }
        }
    }

    /// The same pages with the handles that they got.
    pub(crate) fn named(mut self, pages: &[(PageId, PageHandle)]) -> Self {
        self.set_handles(pages);
        self
    }

    /// The planner's block of seed 000, once a page has something besides the goal.
    ///
    /// # Errors
    ///
    /// If a page has no handle yet.
    pub(crate) fn render_planner_block(&self, budget: u32, tokens: &dyn Tokens) -> Result<String, MustReread> {
        if !self.lines.iter().all(PageLines::has_handle) {
            return Err(MustReread);
        }
        match self.lines.split_first() {
            Some((main, executors)) if !executors.is_empty() => {
                Ok(planner_block(main, executors, &self.omitted_counts(), budget, tokens))
            }
            _ => Ok(String::new()),
        }
    }

    /// If there are too many pages, moves the oldest executor page that ended well to the counted ones, or else the
    /// oldest of all.
    fn evict_excess_page(&mut self) {
        if self.lines.len() <= MAX_EXECUTOR_PAGES {
            return;
        }
        let executors = &self.lines[1..];
        let index = 1 + executors.iter().position(PageLines::is_settled).unwrap_or(0);
        let (id, lines) = (self.ids.remove(index), self.lines.remove(index));
        self.count_omitted_page(id, lines.status());
    }

    /// Counts a page that is left out. For pages that ended well only the number is kept: there may be very many.
    fn count_omitted_page(&mut self, page: PageId, status: &str) {
        if is_settled(status) {
            self.settled += 1;
        } else {
            self.unsettled.insert(page, status.to_owned());
        }
    }

    /// The statuses of the pages that are left out.
    fn omitted_counts(&self) -> PageCounts {
        let mut more = PageCounts::settled(self.settled);
        for status in self.unsettled.values() {
            more.add(status);
        }
        more
    }

    fn lines_of(&mut self, page: PageId) -> Option<&mut PageLines> {
        let at = self.ids.iter().position(|id| *id == page)?;
        self.lines.get_mut(at)
    }
}

#[cfg(test)]
mod tests;
