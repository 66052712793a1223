//! Archives patterns and facts whose observations were refuted, replaced or forgotten.

use std::collections::BTreeSet;

use folio_memory::entry::Status;
use folio_memory::patterns::{FACT, FoundPattern, News, PATTERN, is_reflection, is_withdrawn};
use folio_memory::query::MAX_LIMIT;
use folio_memory::turn::Used;
use folio_memory::{Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Relation};

use super::super::{Workspace, WorkspaceError};

impl Workspace {
    /// The changes that archive the patterns and facts that no longer hold, where there is `news`. What `found` replaces
    /// or confirms stays.
    pub(super) async fn unlearned(&self, found: &[FoundPattern], news: &News) -> Result<Vec<Change>, WorkspaceError> {
        let replaced = found
            .iter()
            .flat_map(|pattern| pattern.replaces.iter().chain(&pattern.replaces_facts));
        let kept: BTreeSet<EntryId> = replaced.map(|used| used.id).collect();
        let mut changes = Vec::new();
        for known in self.recorded(news).await? {
            if !kept.contains(&known.id) && is_withdrawn(&self.members_of(&known).await?) {
                changes.push(archived(Used::of(&known)));
            }
        }
        Ok(changes)
    }

    /// The patterns and facts that are recorded where there is `news`.
    async fn recorded(&self, news: &News) -> Result<Vec<Entry>, WorkspaceError> {
        let everywhere = EntryQuery {
            kinds: vec![EntryKind::Observation],
            types: vec![PATTERN.to_owned(), FACT.to_owned()],
            limit: MAX_LIMIT,
            uncounted: true,
            ..EntryQuery::default()
        };
        let queries = match news {
            News::Anywhere => vec![everywhere],
            News::In(groups) => groups.iter().map(|group| group.recorded()).collect(),
        };
        let mut recorded: Vec<Entry> = Vec::new();
        for mut query in queries {
            loop {
                let answer = self.read_entries(&query).await?;
                let is_new = |entry: &Entry| is_reflection(entry) && recorded.iter().all(|known| known.id != entry.id);
                let new: Vec<Entry> = answer.items.into_iter().filter(is_new).collect();
                recorded.extend(new);
                query.cursor = answer.next;
                if query.cursor.is_none() {
                    break;
                }
            }
        }
        Ok(recorded)
    }

    /// The observations that a pattern, or the pattern of a fact, was derived from, as they are now.
    async fn members_of(&self, known: &Entry) -> Result<Vec<Option<Entry>>, WorkspaceError> {
        let sources = self.sources_of(known.id).await?;
        if known.fields.type_name.as_deref() != Some(FACT) {
            return Ok(sources);
        }
        let mut members = Vec::new();
        for pattern in sources.iter().flatten() {
            members.extend(self.sources_of(pattern.id).await?);
        }
        Ok(members)
    }

    async fn sources_of(&self, entry: EntryId) -> Result<Vec<Option<Entry>>, WorkspaceError> {
        let name = entry.to_string();
        let mut sources = Vec::new();
        for link in self.inner.store.links(self.space(), &name).await? {
            if link.rel == Relation::DerivedFrom
                && link.src == name
                && let Ok(source) = link.dst.parse::<EntryId>()
            {
                sources.push(self.entry_if_there(source).await?);
            }
        }
        Ok(sources)
    }
}

/// The change that archives `entry`.
pub(super) fn archived(entry: Used) -> Change {
    Change::PatchEntry {
        entry: entry.id,
        fields: vec![FieldChange::Status(Status::Archived)],
        expected_version: Some(entry.version),
        base_version: None,
    }
}
