//! What the pages of a run tell its planners: kept by its driver, which writes them, so that nobody asks the store for them before each call
//! of a model. What a step wrote is told while it is still on its way into the log: so a step is one commit.

use std::collections::HashMap;

use folio_engine::{Run, projection};
use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::query::MAX_LIMIT;
use folio_memory::tokens::Tokens;
use folio_memory::view::{PageLines, Standing, is_settled, planner_block};
use folio_memory::{Change, FieldChange, PageHandle, PageId, PageQuery, PageRole};
use folio_store::workspace::{Moment, Workspace, WorkspaceError};
use folio_store::{ErrorKind, StoreError};

/// Pages of executors that are told of: those that did not end well and still count first, then the newest (E9.16). The rest is counted.
const PAGES: usize = 20;
/// Entries at the end of a page that stand for it.
const TAIL: u32 = 4;

/// What is told of the pages of a run, with everything that its driver has applied, durable or not.
#[derive(Debug)]
pub(crate) struct RunPages {
    /// Until when it is true of what others wrote; only for the question that it was read for if nobody keeps account.
    mark: Option<u64>,
    /// The main scratchpad, and then those of executors.
    ids: Vec<PageId>,
    lines: Vec<PageLines>,
    /// Pages of executors that are not among them and have nothing that anybody has to look at.
    settled: usize,
    /// The others that are not, as they stand.
    unsettled: HashMap<PageId, String>,
}

/// Nobody knows what a change makes of the pages; they have to be read once it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HasToBeRead;

impl RunPages {
    /// The pages of `run` as they stand in the store; none if it has none yet.
    ///
    /// What is written after `moment` makes another mark.
    pub(crate) async fn read(workspace: &Workspace, moment: Moment, run: &Run) -> Result<Option<Self>, WorkspaceError> {
        let main = match workspace.page(Ref::Id(projection::main_page(run.id()))).await {
            Ok(main) => main,
            // There is none yet.
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
        // Where there is no mark they are read before each call: then of the newest of them, and those before are only counted.
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
        // What is told of stands in the order in which it was made.
        executors.sort_by_key(|page| is_settled(&page.fields.status));
        let left_out = executors.split_off(executors.len().min(PAGES));
        executors.sort_by_key(|page| page.handle);
        let pages = std::iter::once(main).chain(executors).collect();
        let tails = workspace.tails(pages, TAIL).await?;
        let told = tails
            .iter()
            .map(|page| (page.page.id, PageLines::told(&page.page, &page.tail)));
        let (ids, lines) = told.unzip();
        let mut told = Self {
            mark,
            ids,
            lines,
            settled: usize::try_from(older).unwrap_or(usize::MAX),
            unsettled: HashMap::new(),
        };
        for page in left_out {
            told.leave_out(page.id, &page.fields.status);
        }
        Ok(Some(told))
    }

    /// The pages of `run` as `changes`, its first, are about to make them. None if nobody keeps account of what others write onto them.
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
            pages.take(workspace, run, change).await.ok()?;
        }
        Some(pages)
    }

    /// Whether others had written nothing onto them at `moment` since they were read.
    pub(crate) fn stand(&self, moment: Moment) -> bool {
        self.mark.is_some() && self.mark == moment.mark_of_pages()
    }

    /// Takes in what the projection of the run's own events writes.
    pub(crate) async fn take(&mut self, workspace: &Workspace, run: &Run, change: &Change) -> Result<(), HasToBeRead> {
        match change {
            Change::EnsurePage(new) if new.fields.role == PageRole::ScratchpadExec => {
                if !self.ids.contains(&new.id) && new.fields.run == Some(run.id()) {
                    self.make_room();
                    self.ids.push(new.id);
                    self.lines.push(PageLines::of_new(&new.fields));
                }
            }
            Change::SetPageStatus { page, status } => {
                if let Some(lines) = self.lines_of(*page) {
                    lines.set_status(status);
                } else if self.unsettled.remove(page).is_some() {
                    self.leave_out(*page, status);
                } else if self.settled > 0 && !is_settled(status) {
                    // It may be one of those, and nobody knows which they are.
                    return Err(HasToBeRead);
                }
            }
            Change::AddEntry(new) => {
                let last = self.lines.iter().map(PageLines::last_at).max().unwrap_or(0);
                if self.lines_of(new.page).is_some() {
                    let entry = workspace.as_read(new, last + 1).await.map_err(|_| HasToBeRead)?;
                    if let Some(lines) = self.lines_of(new.page) {
                        lines.add(&entry, TAIL as usize);
                    }
                }
            }
            Change::PatchEntry { entry, fields, .. } => {
                // A state does not show, but what is put away is not told of any more.
                let stays = |field: &FieldChange| match field {
                    FieldChange::Status(status) => *status != Status::Archived,
                    FieldChange::Phase(_) => true,
                    _ => false,
                };
                if !fields.iter().all(stays) && self.lines.iter().any(|lines| lines.tells_of(*entry)) {
                    return Err(HasToBeRead);
                }
            }
            Change::EnsurePage(_) => {}
            _ => return Err(HasToBeRead),
        }
        Ok(())
    }

    /// Says under which handles pages stand in the log.
    pub(crate) fn name(&mut self, pages: &[(PageId, PageHandle)]) {
        for (page, handle) in pages {
            if let Some(lines) = self.lines_of(*page) {
                lines.name_it(*handle);
            }
        }
    }

    /// The same pages under the handles that they got.
    pub(crate) fn named(mut self, pages: &[(PageId, PageHandle)]) -> Self {
        self.name(pages);
        self
    }

    /// The planner's block of seed 000, once there is something on a page besides the goal.
    ///
    /// # Errors
    ///
    /// If a page has no handle yet.
    pub(crate) fn told(&self, budget: u32, tokens: &dyn Tokens) -> Result<String, HasToBeRead> {
        if !self.lines.iter().all(PageLines::is_named) {
            return Err(HasToBeRead);
        }
        match self.lines.split_first() {
            Some((main, executors)) if !executors.is_empty() => {
                Ok(planner_block(main, executors, &self.more(), budget, tokens))
            }
            _ => Ok(String::new()),
        }
    }

    /// Leaves the oldest page of an executor that ended well to be counted, or else the oldest of all, if there are as many as may be.
    fn make_room(&mut self) {
        if self.lines.len() <= PAGES {
            return;
        }
        let executors = &self.lines[1..];
        let gone = 1 + executors.iter().position(PageLines::is_settled).unwrap_or(0);
        let (id, lines) = (self.ids.remove(gone), self.lines.remove(gone));
        self.leave_out(id, lines.status());
    }

    /// Counts a page that is not told of. Of what ended well nobody keeps which it was: there may be very many.
    fn leave_out(&mut self, page: PageId, status: &str) {
        if is_settled(status) {
            self.settled += 1;
        } else {
            self.unsettled.insert(page, status.to_owned());
        }
    }

    /// How the pages stand that are not told of.
    fn more(&self) -> Standing {
        let mut more = Standing::settled(self.settled);
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
