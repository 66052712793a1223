//! What a commit does to pages.

use folio_memory::{NewPage, Page, PageHandle, PageId};

use super::{Facts, Plan, PlannedPage};
use crate::error::not_found;
use crate::place::Place;

impl<'c, F: Facts> Plan<'_, 'c, F> {
    pub(super) fn ensure_page(&mut self, new: &'c NewPage, fields_json: &'c str) -> Result<(), F::Failure> {
        let index = match self.find_page(new.id)? {
            Some(index) => {
                if new.fields.names_next_iteration() {
                    self.load_page(index, new.id)?;
                    let planned = &mut self.pages.items[index];
                    let at = self.at;
                    planned.is_changed |= planned.page.as_mut().is_some_and(|page| page.ensure(&new.fields, at));
                }
                index
            }
            None => {
                let parent = new.fields.parent.map(|parent| self.page_place(parent)).transpose()?;
                self.ends.pages += 1;
                let place = Place::of(self.space, self.ends.pages);
                let new_page = Some((new, fields_json, parent));
                self.pages.add(
                    new.id,
                    PlannedPage {
                        place,
                        new: new_page,
                        page: None,
                        is_changed: false,
                    },
                )
            }
        };
        self.named_pages
            .push((new.id, PageHandle(self.pages.items[index].place.number())));
        Ok(())
    }

    pub(super) fn set_page_status(&mut self, id: PageId, status: &str) -> Result<(), F::Failure> {
        let index = self.find_page(id)?.ok_or_else(|| not_found("page", id))?;
        self.load_page(index, id)?;
        let planned = &mut self.pages.items[index];
        if let Some(page) = planned.page.as_mut().filter(|page| page.fields.status != status) {
            page.set_status(status, self.at);
            planned.is_changed = true;
        }
        Ok(())
    }

    /// Has the page `id` at `index` at hand, to be changed.
    fn load_page(&mut self, index: usize, id: PageId) -> Result<(), F::Failure> {
        let planned = &mut self.pages.items[index];
        if planned.page.is_none() {
            planned.page = match planned.new {
                Some((new, ..)) => Some(Page::added(
                    new.clone(),
                    PageHandle(planned.place.number()),
                    self.seq,
                    self.at,
                )),
                None => self.facts.page(id)?,
            };
        }
        Ok(())
    }

    /// The place of a page that must exist.
    pub(super) fn page_place(&mut self, id: PageId) -> Result<Place, F::Failure> {
        let index = self.find_page(id)?.ok_or_else(|| not_found("page", id))?;
        Ok(self.pages.items[index].place)
    }

    /// The index of a page in this commit; `None` if there is no such page.
    fn find_page(&mut self, id: PageId) -> Result<Option<usize>, F::Failure> {
        if let Some(index) = self.pages.by_id.get(&id) {
            return Ok(Some(*index));
        }
        let found = self.facts.page_place(id)?;
        Ok(found.map(|place| {
            self.pages.add(
                id,
                PlannedPage {
                    place,
                    new: None,
                    page: None,
                    is_changed: false,
                },
            )
        }))
    }
}
