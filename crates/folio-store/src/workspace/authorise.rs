//! Checks who may write what before anything is written, and notes refusals (M7.7).

use std::collections::hash_map;

use folio_memory::id::Ref;
use folio_memory::roles::{self, Known, Operation};
use folio_memory::{Actor, Change, Entry, EntryId, FieldChange, PageId, PageRole, Role, RunId, scratchbook};

use super::trace::tried;
use super::{PolicyInForce, Workspace, WorkspaceError};
use crate::error::StoreError;

impl Workspace {
    /// Checks that `actor` may make all of `changes`. `run` is the run that they are written with; `seen` is an entry
    /// that was already read. A refusal is noted.
    pub(super) async fn authorise_write(
        &self,
        actor: &Actor,
        changes: &[Change],
        run: Option<RunId>,
        seen: Option<&Entry>,
        policy: &PolicyInForce,
    ) -> Result<(), WorkspaceError> {
        if actor.role == Role::Human || changes.is_empty() {
            return Ok(());
        }
        // An actor that writes to the journal of a run acts within that run.
        let actor = Actor {
            run: actor.run.or(run),
            ..actor.clone()
        };
        let known = self.known_of(&actor, changes, seen).await?;
        roles::may_write(&actor, &self.inner.space, changes, policy.types(), &known).map_err(|denied| {
            let refused = WorkspaceError::Refused(denied);
            let kind = |id: &EntryId| known.entries.get(id).map(|entry| entry.kind);
            let (component, operation) = tried(changes, kind).unwrap_or(("memory", "write".to_owned()));
            self.note_refusal_of(&actor, component, &operation, &refused);
            refused
        })
    }

    /// Checks that `actor` may make `changes` to `entry`.
    pub(super) async fn authorise_patch(
        &self,
        actor: &Actor,
        entry: &Entry,
        changes: &[FieldChange],
    ) -> Result<(), WorkspaceError> {
        let own_book = scratchbook::page_of(self.space(), &self.thread).0;
        let within = |operation| match (actor.role, operation) {
            // Whose page the entry is on is checked when it is written.
            (Role::Executor, Operation::Pin) => actor.run.is_some(),
            (Role::Client, Operation::Pin) => true,
            (Role::Client, _) => entry.page == own_book,
            _ => roles::is_in_own_scope(actor, entry),
        };
        let Err(denied) = roles::may_patch(actor, entry, within, changes) else {
            return Ok(());
        };
        let is_in_a_book = async || {
            let page = self.page(Ref::Id(entry.page)).await;
            page.is_ok_and(|page| page.fields.role == PageRole::Scratchbook)
        };
        let is_of_other_thread = actor.role == Role::Client && entry.page != own_book && is_in_a_book().await;
        Err(denied.because_of_thread(is_of_other_thread).into())
    }

    async fn known_of(&self, actor: &Actor, changes: &[Change], seen: Option<&Entry>) -> Result<Known, WorkspaceError> {
        let (store, space) = (&self.inner.store, &self.inner.space);
        let needs = roles::needs(actor, changes);
        let mut known = Known {
            thread: (*self.thread).clone(),
            ..Known::default()
        };
        known.entries.extend(seen.map(|entry| (entry.id, entry.clone())));
        for id in needs.entries {
            if let hash_map::Entry::Vacant(place) = known.entries.entry(id) {
                place.insert(store.entry(space, Ref::Id(id)).await?);
            }
        }
        for id in needs.linked {
            let entry = self.stored_entry_if_there(id).await?;
            known.entries.extend(entry.map(|entry| (id, entry)));
        }
        let mut page_ids: Vec<PageId> = needs.pages.into_iter().collect();
        let pins = |id: EntryId| {
            changes.iter().any(|change| match change {
                Change::PatchEntry { entry, fields, .. } if *entry == id => {
                    fields.iter().any(|field| matches!(field, FieldChange::PinRank(_)))
                }
                _ => false,
            })
        };
        if actor.role == Role::Client {
            let pinned = known.entries.values().filter(|entry| pins(entry.id));
            page_ids.extend(pinned.map(|entry| entry.page));
        }
        if matches!(actor.role, Role::Planner | Role::Executor) && actor.run.is_some() {
            let outside = known
                .entries
                .values()
                .filter(|entry| !roles::is_in_own_scope(actor, entry) || pins(entry.id));
            page_ids.extend(outside.map(|entry| entry.page));
        }
        while let Some(id) = page_ids.pop() {
            if known.pages.contains_key(&id) {
                continue;
            }
            match store.page(space, Ref::Id(id)).await {
                Ok(page) => {
                    if actor.role == Role::Executor {
                        page_ids.extend(page.fields.parent);
                    }
                    known.pages.insert(id, page.fields);
                }
                // The page is added by this write, or the store reports that it does not exist.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(known)
    }

    /// Checks that `actor` may do `operation` anywhere in the space. A refusal is noted as operation `noted` of
    /// `component`.
    pub(super) fn authorise(
        &self,
        actor: &Actor,
        operation: Operation,
        target: &str,
        (component, noted): (&str, &str),
    ) -> Result<(), WorkspaceError> {
        roles::check_permission(actor, operation, false, target).map_err(|denied| {
            let refused = WorkspaceError::Refused(denied);
            self.note_refusal_of(actor, component, noted, &refused);
            refused
        })
    }
}
