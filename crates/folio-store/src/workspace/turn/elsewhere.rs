//! Confirmations that another thread waits for: an input in this thread does not answer them, and the questions of the
//! clarifier among them are not shown in it, nor do they count there (M7.11.1, M7.11.2).

use std::borrow::Cow;
use std::collections::HashSet;

use folio_memory::entry::Status;
use folio_memory::goals::{ACTION_PATH, spellings};
use folio_memory::id::{EntryRef, Ref};
use folio_memory::observation::{Class, TypeRegistry};
use folio_memory::query::{MAX_LIMIT, at_path};
use folio_memory::turn::is_clarification;
use folio_memory::{Entry, EntryId, EntryKind, EntryQuery, PageId, State, ThreadKey, scratchbook};
use serde_json::Value;

use super::super::observations::Whose;
use super::super::reads::if_there;
use super::super::{Workspace, WorkspaceError};

impl Workspace {
    /// Returns `active` for the clarifier of `thread`: without the confirmations that other threads wait for, unless
    /// `input` names them.
    pub(super) async fn without_foreign_confirmations<'a>(
        &self,
        thread: &ThreadKey,
        input: &str,
        active: &'a [Entry],
        types: &TypeRegistry,
    ) -> Result<Cow<'a, [Entry]>, WorkspaceError> {
        let named = names_in(input);
        let now = self.now();
        let (book, _) = scratchbook::page_of(self.space(), thread);
        let mut elsewhere: HashSet<EntryId> = HashSet::new();
        for entry in active {
            let waits = types.class_of(entry.fields.type_name.as_deref()) == Class::PendingConfirmation
                && entry.kind == EntryKind::Observation
                && entry.state(now) == State::Live;
            if waits && !named.contains(&entry.handle.to_string()) && self.waits_elsewhere(entry, book, thread).await? {
                elsewhere.insert(entry.id);
            }
        }
        if elsewhere.is_empty() {
            return Ok(Cow::Borrowed(active));
        }
        let here = active.iter().filter(|entry| !elsewhere.contains(&entry.id));
        Ok(Cow::Owned(here.cloned().collect()))
    }

    /// The questions of the clarifier among `entries` about inputs of other threads than `thread`, unless `input` names
    /// them: each belongs to the thread of its turn.
    pub(in super::super) async fn clarifications_elsewhere(
        &self,
        thread: &ThreadKey,
        input: &str,
        entries: &[Entry],
    ) -> Result<HashSet<EntryId>, WorkspaceError> {
        let (named, (book, _)) = (names_in(input), scratchbook::page_of(self.space(), thread));
        let mut elsewhere = HashSet::new();
        for entry in entries {
            if entry.kind == EntryKind::Observation
                && is_clarification(entry)
                && !named.contains(&entry.handle.to_string())
                && self.waits_elsewhere(entry, book, thread).await?
            {
                elsewhere.insert(entry.id);
            }
        }
        Ok(elsewhere)
    }

    /// Whether `confirmation` is waited for in another thread than `thread`, whose scratchbook is `book`: the clarifier
    /// asked it in a turn of another thread, its pending action is in another scratchbook, or else it was added in a
    /// turn of another thread. One that belongs to no thread can be answered anywhere; nor does one that was added in a
    /// turn of another program or store.
    async fn waits_elsewhere(
        &self,
        confirmation: &Entry,
        book: PageId,
        thread: &ThreadKey,
    ) -> Result<bool, WorkspaceError> {
        let turn = match confirmation.fields.source.turn {
            Some(turn) => if_there(self.stored_turn(Ref::Id(turn)).await)?,
            None => None,
        };
        let is_of_other_thread = turn.map(|turn| turn.begun.thread != *thread);
        if let (Some(is_of_other_thread), true) = (is_of_other_thread, is_clarification(confirmation)) {
            return Ok(is_of_other_thread);
        }
        if let Some(key) = at_path(confirmation.fields.context.as_ref(), ACTION_PATH) {
            let books = self.books_with(key).await?;
            if !books.is_empty() {
                return Ok(!books.contains(&book));
            }
        }
        Ok(is_of_other_thread.unwrap_or(false))
    }

    /// The scratchbooks with a pending action that `key` names: by its name, its handle or its id.
    async fn books_with(&self, key: &Value) -> Result<HashSet<PageId>, WorkspaceError> {
        let mut books: HashSet<PageId> = HashSet::new();
        for key in spellings(key) {
            let by_name = EntryQuery {
                kinds: vec![EntryKind::PendingAction],
                context: vec![(ACTION_PATH.to_owned(), key)],
                status: Status::ALL.into(),
                limit: MAX_LIMIT,
                ..EntryQuery::default()
            };
            let found = self.entries_as(Whose::Stages, &by_name).await?.items;
            books.extend(found.iter().map(|action| action.page));
        }
        if let Some(entry) = key.as_str().and_then(|key| key.parse::<EntryRef>().ok()) {
            let action = if_there(self.read_entry(entry).await)?;
            books.extend(
                action
                    .filter(|action| action.kind == EntryKind::PendingAction)
                    .map(|action| action.page),
            );
        }
        Ok(books)
    }
}

/// The words of `input` that may be the handle of a confirmation.
fn names_in(input: &str) -> HashSet<String> {
    let lower = input.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect()
}
