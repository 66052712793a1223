//! Links of a file: checked in batches, and written unless they close a cycle.

use folio_memory::{Change, EntryId, Invalid, Link, PageId, Relation};

use super::super::{Workspace, WorkspaceError};
use super::incoming::{Incoming, Whereabouts};
use super::report::Fate;

impl Incoming<'_> {
    /// Takes in a link, which the report calls `name`; it is checked later, together with others.
    pub(super) fn take_link(&mut self, name: String, link: Link) {
        self.read.2 += 1;
        self.links.push((name, link));
    }
}

impl Workspace {
    /// Checks the links that were taken in, in their order: which exist, which have a missing end, which would close a
    /// cycle.
    pub(super) async fn judge_links(&self, incoming: &mut Incoming<'_>) -> Result<(), WorkspaceError> {
        let links = std::mem::take(&mut incoming.links);
        if links.is_empty() {
            return Ok(());
        }
        if incoming.has_other_than_links() {
            self.write_changes(incoming).await?;
        }
        let mut judged = Vec::with_capacity(links.len());
        for (name, mut link) in links {
            let missing = self.find_ends(incoming, &mut link).await?;
            judged.push((name, link, missing));
        }
        let whole = judged.iter().filter(|(_, _, missing)| missing.is_none());
        let whole = whole.map(|(_, link, _)| link.clone()).collect();
        let kept = self.inner.store.kept_links(self.space(), whole).await?;
        for (name, link, missing) in judged {
            if let Some(end) = missing {
                let message = format!("{end} does not exist");
                incoming.report.remark(Fate::Refused, &name, "end_missing", message);
            } else if kept.contains(&link) || incoming.linked.contains(&link) {
                incoming.report.present += 1;
            } else if let Some(invalid) = self.closes_circle(incoming, &link).await? {
                incoming.report.refuse(&name, &invalid);
            } else {
                incoming.linked.insert(link.clone());
                incoming.report.links += 1;
                incoming.push(Change::AddLink(link));
            }
        }
        Ok(())
    }

    /// Replaces the ends of `link` by their ids here; returns the first end that does not exist.
    async fn find_ends(&self, incoming: &mut Incoming<'_>, link: &mut Link) -> Result<Option<String>, WorkspaceError> {
        for end in [&mut link.src, &mut link.dst] {
            let is_there = if let Ok(page) = end.parse::<PageId>()
                && end.starts_with(PageId::PREFIX)
            {
                let here = self.page_here(incoming, page).await?;
                here.map(|page| *end = page.to_string()).is_some()
            } else if let Ok(entry) = end.parse::<EntryId>()
                && end.starts_with(EntryId::PREFIX)
            {
                self.has_entry(incoming, entry).await?
            } else {
                false
            };
            if !is_there {
                return Ok(Some(end.clone()));
            }
        }
        Ok(None)
    }

    async fn has_entry(&self, incoming: &mut Incoming<'_>, entry: EntryId) -> Result<bool, WorkspaceError> {
        let of_file = incoming.entries.get(&entry);
        if matches!(of_file, Some(Whereabouts::Here | Whereabouts::New)) || incoming.elsewhere.contains(&entry) {
            return Ok(true);
        }
        let is_there = self.stored_entry_if_there(entry).await?.is_some();
        if is_there {
            incoming.elsewhere.insert(entry);
        }
        Ok(is_there)
    }

    /// Why `link` cannot be added, if it would close a cycle with the others; otherwise it counts from now on.
    async fn closes_circle(&self, incoming: &mut Incoming<'_>, link: &Link) -> Result<Option<Invalid>, WorkspaceError> {
        let (code, consequence) = match link.rel {
            Relation::Blocks => ("blocks_itself", "wait for itself"),
            Relation::Supersedes => ("supersede_cycle", "take its own place"),
            _ => return Ok(None),
        };
        let (Ok(src), Ok(dst)) = (link.src.parse::<EntryId>(), link.dst.parse::<EntryId>()) else {
            return Ok(None);
        };
        if self.leads_around(incoming, link.rel, (src, dst)).await? {
            return Ok(Some(Invalid::new(code, "dst", format!("{dst} would {consequence}"))));
        }
        incoming.circles.add(link.rel, (src, dst));
        Ok(None)
    }

    /// Whether a link of `rel` between these two would lead back to its beginning.
    async fn leads_around(
        &self,
        incoming: &mut Incoming<'_>,
        rel: Relation,
        ends: (EntryId, EntryId),
    ) -> Result<bool, WorkspaceError> {
        let mut search = incoming.circles.search(ends);
        loop {
            if let Some(next) = search.next()
                && incoming.entries.get(&next) != Some(&Whereabouts::New)
                && !incoming.circles.knows(next)
            {
                // An entry that was just brought in has only the links of the file.
                let links = self.inner.store.links(self.space(), &next.to_string()).await?;
                incoming.circles.learn(next, &links);
            }
            if let Some(found) = search.step(&incoming.circles, rel) {
                return Ok(found);
            }
        }
    }
}
