//! Brings in pages.

use folio_memory::id::Ref;
use folio_memory::transfer::{PageLine, check_page};
use folio_memory::{Change, Invalid, NewPage, PageFields, PageId, PageRole, SpaceName, Warning, page};

use super::super::super::pages::checked_page_title;
use super::super::super::redact::{self, recall};
use super::super::super::{Workspace, WorkspaceError};
use super::super::report::Fate;
use super::{Incoming, check_depths, twice};
use crate::error::StoreError;

impl Workspace {
    /// Takes in a page of a file that was written in this format. Its title gets the form that a new page has here;
    /// pages of runs and standing pages keep theirs.
    pub(super) async fn import_written_page(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut page: PageLine,
        from: &SpaceName,
    ) -> Result<(), WorkspaceError> {
        if page.fields.role == PageRole::Note && page.fields.run.is_none() {
            match checked_page_title(&page.fields.title) {
                Ok(title) => page.fields.title = title,
                Err(invalid) => {
                    incoming.read.0 += 1;
                    incoming.report.refuse(&name, &invalid);
                    return Ok(());
                }
            }
        }
        self.import_page(incoming, name, page, from).await
    }

    /// Takes in a page, which the report calls `name`.
    pub(in super::super) async fn import_page(
        &self,
        incoming: &mut Incoming<'_>,
        name: String,
        mut line: PageLine,
        from: &SpaceName,
    ) -> Result<(), WorkspaceError> {
        incoming.read.0 += 1;
        let original_id = line.id;
        if !incoming.own_pages.insert(original_id) {
            incoming.report.refuse(&name, &twice());
            return Ok(());
        }
        // Standing pages, of which a space or a thread has one of each role, become those of this space.
        let standing = |space| page::standing(space, line.fields.role, line.fields.thread.as_ref());
        if standing(from).is_some_and(|(id, _)| id == original_id)
            && let Some((id, _)) = standing(self.space())
        {
            line.id = id;
        }
        if let Some(parent) = line.fields.parent {
            match self.page_here(incoming, parent).await? {
                Some(parent) => line.fields.parent = Some(parent),
                None => {
                    let message = format!("its parent page {parent} does not exist");
                    incoming.report.remark(Fate::Refused, &name, "parent_missing", message);
                    return Ok(());
                }
            }
        }
        let id = line.id;
        let mut new = line.into_new();
        let warnings = match self.judge_page(&mut new).await? {
            Ok(warnings) => warnings,
            Err(invalid) => {
                incoming.report.refuse(&name, &invalid);
                return Ok(());
            }
        };
        incoming.pages.insert(original_id, id);
        match self.inner.store.page(self.space(), Ref::Id(id)).await {
            Ok(page) => {
                self.remember(id);
                let plain = |fields: PageFields| PageFields {
                    brought: None,
                    ..fields
                };
                let mut imported = folio_memory::Page {
                    fields: plain(new.fields),
                    ..page.clone()
                };
                recall::page(&mut imported, self.redaction().await?);
                if imported.fields == plain(page.fields) {
                    incoming.report.present += 1;
                } else {
                    let message = format!("{} stays as it is", page.handle);
                    incoming.report.remark(Fate::Differs, &name, "differs", message);
                }
            }
            Err(StoreError::NotFound { .. }) => {
                incoming.report.pages += 1;
                incoming.report.adapted(&name, &warnings);
                incoming.push(Change::EnsurePage(Box::new(new)));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Checks that `new` could be written here.
    async fn judge_page(&self, new: &mut NewPage) -> Result<Result<Vec<Warning>, Invalid>, WorkspaceError> {
        let warnings = match check_page(new, self.now()) {
            Ok(warnings) => warnings,
            Err(invalid) => return Ok(Err(invalid)),
        };
        if let Err(invalid) = check_depths([("props", &new.fields.props)]) {
            return Ok(Err(invalid));
        }
        let as_written = [Change::EnsurePage(Box::new(new.clone()))];
        let refused = redact::refuse_secret_threads(&as_written, self.redaction().await?);
        Ok(refused.map(|()| warnings))
    }

    /// The page here that corresponds to `page` of the file.
    pub(in super::super) async fn page_here(
        &self,
        incoming: &mut Incoming<'_>,
        page: PageId,
    ) -> Result<Option<PageId>, WorkspaceError> {
        if let Some(known) = incoming.pages.get(&page) {
            return Ok(Some(*known));
        }
        match self.inner.store.page(self.space(), Ref::Id(page)).await {
            Ok(_) => {
                incoming.pages.insert(page, page);
                Ok(Some(page))
            }
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
