//! Archives patterns and facts whose observations were refuted, replaced or forgotten.

use std::collections::BTreeSet;

use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::patterns::{FACT, FoundPattern, News, PATTERN, is_reflection, is_withdrawn};
use folio_memory::query::MAX_LIMIT;
use folio_memory::turn::Used;
use folio_memory::{Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, Relation};

use super::super::reads::if_there;
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
        let groups = match news {
            News::Anywhere => return self.all_found_by(everywhere, is_reflection).await,
            News::In(groups) => groups,
        };
        let mut recorded = Vec::new();
        for group in groups {
            recorded.extend(
                self.all_found_by(group.recorded(), |entry| group.has_recorded(entry))
                    .await?,
            );
        }
        Ok(recorded)
    }

    /// All entries that `query` finds and that are `wanted`.
    async fn all_found_by(
        &self,
        mut query: EntryQuery,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let mut found = Vec::new();
        loop {
            let answer = self.read_entries(&query).await?;
            found.extend(answer.items.into_iter().filter(&wanted));
            query.cursor = answer.next;
            if query.cursor.is_none() {
                return Ok(found);
            }
        }
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
                // Only what became of it counts, so nothing is taken out of its texts.
                let entry = self.inner.store.entry(self.space(), Ref::Id(source)).await;
                sources.push(if_there(entry)?);
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
