//! Whether a commit changes what lists of memory show. Most commits of runs do not: they write the logs, steps and
//! summaries of their pages.

use folio_memory::EntryKind;

use super::{Decided, PlannedEntry};
use crate::commit::Record;

impl Decided<'_> {
    /// Whether observations, notes, knowledge or facts may differ after this commit, which was made of `record`.
    ///
    /// Blocks of logs, steps and the summaries of a run's own pages do not count as memory here, and neither does a
    /// page that belongs to no thread. In doubt, true.
    pub(crate) fn changes_memory(&self, record: &Record) -> bool {
        let is_told_elsewhere = |entry: &PlannedEntry<'_>| {
            let kind = match (&entry.entry, entry.new) {
                (Some(entry), _) => Some(entry.kind),
                (None, Some((new, ..))) => Some(new.kind),
                (None, None) => None,
            };
            match kind {
                Some(EntryKind::Log | EntryKind::Step) => true,
                Some(EntryKind::Summary) => entry.new.is_some_and(|(new, ..)| {
                    let page = self.pages.iter().filter_map(|page| page.new);
                    let mut page = page.filter(|(page, ..)| page.id == new.page);
                    page.any(|(page, ..)| page.fields.run.is_some())
                }),
                _ => false,
            }
        };
        let mut written = self
            .entries
            .iter()
            .filter(|entry| entry.new.is_some() || entry.is_changed);
        let mut pages = self.pages.iter().filter_map(|page| page.new);
        self.policy.is_some()
            || !self.gone.is_empty()
            || record.folded.is_some()
            || pages.any(|(page, ..)| page.fields.thread.is_some())
            || !written.all(is_told_elsewhere)
    }
}
