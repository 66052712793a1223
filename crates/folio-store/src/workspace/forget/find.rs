//! Finds what is to be forgotten.

use std::collections::BTreeSet;

use folio_memory::entry::Status;
use folio_memory::keeping::ErasedFor;
use folio_memory::query::MAX_LIMIT;
use folio_memory::text::Needle;
use folio_memory::turn::TurnQuery;
use folio_memory::{Entry, EntryId, EntryQuery, Order, Turn};

use super::super::{Workspace, WorkspaceError};
use super::ForgetFilter;
use super::said::{Said, few_versions_at_a_time, texts_of};

/// What a filter finds.
pub(super) struct Fitting {
    /// The entries to be forgotten, in the order of their handles.
    pub(super) entries: Vec<Entry>,
    /// Entries that were forgotten before and are requested again.
    pub(super) gone: BTreeSet<EntryId>,
}

impl Workspace {
    pub(super) async fn find_forgettable(&self, filter: &ForgetFilter) -> Result<Fitting, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        self.keep_up().await?;
        let found = match filter.names_something() {
            false => self.all_fitting(filter).await?,
            true => self.named_fitting(filter).await?,
        };
        let is_gone = |entry: &Entry| entry.fields.erased == Some(ErasedFor::Forgotten);
        let (forgotten, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(is_gone);
        let mut forgotten_ids: BTreeSet<_> = forgotten.iter().map(|entry| entry.id).collect();
        found.sort_by_key(|entry| entry.handle);
        found.dedup_by_key(|entry| entry.handle);
        let is_named = filter.names_something();
        // A search by what entries have in common means existing ones; and whether erased entries contained a text,
        // nobody knows.
        if !is_named && (filter.text.is_some() || !found.is_empty()) {
            forgotten_ids.clear();
        }
        Ok(Fitting {
            entries: found,
            gone: forgotten_ids,
        })
    }

    /// The entries of the space that fit, in the order of the list.
    async fn all_fitting(&self, filter: &ForgetFilter) -> Result<Vec<Entry>, WorkspaceError> {
        let mut query = EntryQuery {
            // A list by relevance is cut off somewhere, a list by age is not.
            order: Order::Newest,
            limit: MAX_LIMIT,
            cursor: None,
            ..whatever_their_state(&filter.query)
        };
        let mut found = Vec::new();
        loop {
            let answer = self.inner.store.entries(self.space(), &query, self.now()).await?;
            found.extend(self.entries_containing(filter, answer.items).await?);
            match answer.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// The turns whose input, or the reason for one of whose decisions, contains the text of `filter`, newest first; none
    /// if it requires anything else.
    pub(super) async fn turns_mentioning(&self, filter: &ForgetFilter) -> Result<Vec<Turn>, WorkspaceError> {
        let Some(text) = filter.text_alone().map(Needle::new) else {
            return Ok(Vec::new());
        };
        let mut query = TurnQuery {
            limit: MAX_LIMIT,
            ..TurnQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let turns = self.inner.store.turns(self.space(), &query).await?;
            let is_last = turns.len() < MAX_LIMIT as usize;
            query.before = turns.last().map(|turn| turn.handle.0);
            found.extend(turns.into_iter().filter(|turn| {
                let mut reasons = turn.decisions().flat_map(|decision| &decision.reasons);
                text.is_in(&turn.begun.input) || reasons.any(|reason| text.is_in(reason))
            }));
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Those of the entries named by `filter` that fit.
    async fn named_fitting(&self, filter: &ForgetFilter) -> Result<Vec<Entry>, WorkspaceError> {
        let selection = whatever_their_state(&filter.query);
        let mut found = Vec::new();
        for entry in &filter.entries {
            let entry = self.inner.store.entry(self.space(), *entry).await?;
            if selection.matches(&entry, self.now()) {
                found.extend(self.entries_containing(filter, vec![entry]).await?);
            }
        }
        Ok(found)
    }

    /// Those of `entries` that contain the text of `filter`, if it has one, or were erased. The others are not kept in
    /// memory while the whole space is read.
    async fn entries_containing(
        &self,
        filter: &ForgetFilter,
        entries: Vec<Entry>,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let Some(text) = &filter.text else {
            return Ok(entries);
        };
        let text = Needle::new(text);
        let is_found = |entry: &Entry| {
            entry.fields.erased == Some(ErasedFor::Forgotten)
                || texts_of(&entry.fields).iter().any(|said| text.is_in(said))
        };
        let (mut matching, others): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_found);
        let changed = |entry: &&Entry| entry.version > 1 || entry.fields.body_ref.is_some();
        let changed: Vec<&Entry> = others.iter().filter(changed).collect();
        for some in few_versions_at_a_time(&changed) {
            for (entry, said) in some.iter().zip(self.texts_of_all_versions(some).await?) {
                if self.is_in_any(&text, &said).await? {
                    matching.push((*entry).clone());
                }
            }
        }
        Ok(matching)
    }

    /// Whether `text` is in something that was `said`.
    async fn is_in_any(&self, text: &Needle, said: &Said) -> Result<bool, WorkspaceError> {
        if said
            .texts
            .iter()
            .chain(&said.reasons)
            .any(|candidate| text.is_in(candidate))
        {
            return Ok(true);
        }
        for body in &said.bodies {
            if text.is_in(&self.kept_text(body).await?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `query` for entries in any state.
fn whatever_their_state(query: &EntryQuery) -> EntryQuery {
    EntryQuery {
        status: Status::ALL.to_vec(),
        include_expired: true,
        include_superseded: true,
        ..query.clone()
    }
}
