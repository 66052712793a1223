//! Write permissions: whether its writer may make a write as a whole (M7.7).

use std::collections::{HashMap, HashSet};

use super::{Denied, Operation, Reach, check_permission, is_in_own_scope, is_own, may_patch, reach};
use crate::actor::{Actor, Role};
use crate::change::{Change, FieldChange, NewEntry, NewPage};
use crate::entry::{Entry, EntryKind};
use crate::id::{EntryId, PageId};
use crate::keeping::ErasedFor;
use crate::link::{Link, Relation};
use crate::observation::{Class, TypeRegistry};
use crate::page::{self, PageFields, PageRole};
use crate::scratchbook;
use crate::space::{SpaceName, ThreadKey};

/// The existing pages and entries that a write touches.
#[derive(Debug, Default)]
pub struct Known {
    /// The entries that the write changes or links.
    pub entries: HashMap<EntryId, Entry>,
    /// The pages that the write concerns, and the pages that contain them.
    pub pages: HashMap<PageId, PageFields>,
    /// The thread that the writer works in, as named when the connection was made.
    pub thread: ThreadKey,
}

/// What has to be looked up before a write can be judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The entries that the write changes; each of them must exist.
    pub entries: HashSet<EntryId>,
    /// The entries that the write links.
    pub linked: HashSet<EntryId>,
    /// The pages that the write concerns, with all pages that contain them.
    pub pages: HashSet<PageId>,
}

/// What [`may_write`] needs to know to judge `changes` by `actor`.
#[must_use]
pub fn needs(actor: &Actor, changes: &[Change]) -> Needs {
    let mut needs = Needs::default();
    if actor.role == Role::Human {
        return needs;
    }
    let pages_anywhere = reach(actor.role, Operation::Pages) == Reach::Yes;
    for change in changes {
        match change {
            Change::PatchEntry { entry, fields, .. } if !is_allowed_anyhow(actor, fields) => {
                needs.entries.insert(*entry);
            }
            Change::AddEntry(new) if actor.role == Role::Compactor => drop(needs.pages.insert(new.page)),
            Change::AddEntry(new)
                if matches!(actor.role, Role::Executor | Role::Client) && new.fields.pin_rank.is_some() =>
            {
                needs.pages.insert(new.page);
            }
            Change::EnsurePage(new) if !pages_anywhere => needs.pages.extend(new.fields.parent),
            Change::SetPageStatus { page, .. } if !pages_anywhere => drop(needs.pages.insert(*page)),
            Change::AddLink(link) => {
                needs
                    .linked
                    .extend(ends(link).filter_map(|end| end.parse::<EntryId>().ok()));
                if !pages_anywhere {
                    needs
                        .pages
                        .extend(ends(link).filter_map(|end| end.parse::<PageId>().ok()));
                }
            }
            _ => {}
        }
    }
    for change in changes {
        match change {
            Change::AddEntry(new) => {
                needs.entries.remove(&new.id);
                needs.linked.remove(&new.id);
            }
            Change::PatchEntry { entry, .. } => drop(needs.linked.remove(entry)),
            _ => {}
        }
    }
    needs
}

/// Checks that `actor` may make all of `changes` in `space`. `known` holds what [`needs`] asks for, as far as it
/// exists.
///
/// The table does not cover turns and the events of runs: whoever holds a run writes its journal.
///
/// # Errors
///
/// The first change that is not allowed, and who may make it.
pub fn may_write(
    actor: &Actor,
    space: &SpaceName,
    changes: &[Change],
    types: &TypeRegistry,
    known: &Known,
) -> Result<(), Denied> {
    if actor.role == Role::Human {
        return Ok(());
    }
    let mut write = WriteCheck {
        actor,
        space,
        types,
        known,
        added: HashSet::new(),
        patched: HashSet::new(),
        ensured: HashMap::new(),
        derived: HashSet::new(),
    };
    for change in changes {
        match change {
            Change::AddEntry(new) => drop(write.added.insert(new.id)),
            Change::PatchEntry { entry, .. } => drop(write.patched.insert(*entry)),
            Change::EnsurePage(new) => drop(write.ensured.insert(new.id, &new.fields)),
            Change::AddLink(link) if link.rel == Relation::DerivedFrom => drop(write.derived.insert(&link.src)),
            _ => {}
        }
    }
    changes.iter().try_for_each(|change| write.judge(change))
}

struct WriteCheck<'a> {
    actor: &'a Actor,
    space: &'a SpaceName,
    types: &'a TypeRegistry,
    known: &'a Known,
    added: HashSet<EntryId>,
    patched: HashSet<EntryId>,
    ensured: HashMap<PageId, &'a PageFields>,
    /// The written ids of entries that the write declares to be derived from others.
    derived: HashSet<&'a str>,
}

impl WriteCheck<'_> {
    fn judge(&self, change: &Change) -> Result<(), Denied> {
        let actor = self.actor;
        match change {
            Change::EnsurePage(new) => self.judge_page(new),
            Change::SetPageStatus { page, .. } => {
                check_permission(actor, Operation::Pages, self.is_own_page(*page), &page.to_string())
            }
            Change::AddEntry(new) => self.judge_add(new),
            Change::PatchEntry { entry, fields, .. } => self.judge_patch(*entry, fields),
            Change::AddLink(link) => self.judge_link(link),
            Change::SetPolicy { .. } => check_permission(actor, Operation::SetPolicy, false, "the policy of the space"),
            // Registering a type is part of adding an entry of that type.
            Change::RegisterType { .. } => check_permission(actor, Operation::Add, true, "a type"),
            Change::EraseEntry { entry, why, .. } => {
                // Erasing what is due by the policy is part of tidying.
                let operation = match why {
                    ErasedFor::Forgotten => Operation::Forget,
                    _ => Operation::Archive,
                };
                check_permission(actor, operation, false, &entry.to_string())
            }
            Change::EraseTurn { turn } => check_permission(actor, Operation::Forget, false, &turn.to_string()),
            Change::EraseRun { run, .. } => check_permission(actor, Operation::Forget, false, &run.to_string()),
            Change::BeginTurn(_) | Change::EndTurn { .. } => Ok(()),
        }
    }

    fn judge_page(&self, new: &NewPage) -> Result<(), Denied> {
        let subject = format!("the {} page {:?}", new.fields.role, new.fields.title);
        if new.fields.brought.is_some() {
            check_permission(self.actor, Operation::Import, false, &subject)?;
        }
        // The scratch page and the scratchbooks are created by the first entry added to them.
        if self.is_standing(new) {
            return Ok(());
        }
        let is_in_scope = self.is_own_fields(&new.fields);
        check_permission(self.actor, Operation::Pages, is_in_scope, &subject)
    }

    fn is_standing(&self, new: &NewPage) -> bool {
        let standing_page = page::standing(self.space, new.fields.role, new.fields.thread.as_ref());
        standing_page.is_some_and(|(id, _)| id == new.id)
    }

    fn judge_add(&self, new: &NewEntry) -> Result<(), Denied> {
        let actor = self.actor;
        let class = || self.types.class_of(new.fields.type_name.as_deref());
        let is_in_scope = match (actor.role, new.kind) {
            (Role::Clarifier, EntryKind::PendingAction) | (Role::Reflector | Role::Cleaner, EntryKind::Summary) => true,
            (Role::Clarifier, EntryKind::Observation) => class() == Class::PendingConfirmation,
            (Role::Reflector | Role::Cleaner, _) => self.derived.contains(new.id.to_string().as_str()),
            // A compactor adds the messages that it offloads to the history page.
            (Role::Compactor, EntryKind::Log) => self.is_history(new.page),
            (Role::Compactor, EntryKind::Summary | EntryKind::Note | EntryKind::Todo) => self.is_own_page(new.page),
            _ => false,
        };
        let subject = match &new.fields.type_name {
            Some(name) => format!("an entry of kind {} and type {name}", new.kind),
            None => format!("an entry of kind {}", new.kind),
        };
        check_permission(actor, Operation::Add, is_in_scope, &subject)?;
        if new.fields.brought.is_some() {
            check_permission(actor, Operation::Import, false, &subject)?;
        }
        // A compactor pins its summary until the next summary replaces it.
        if new.fields.pin_rank.is_some() && actor.role != Role::Compactor {
            let is_in_scope = match actor.role {
                Role::Executor => self.is_own_page(new.page),
                Role::Client => !self.is_foreign_scratchbook(new.page),
                _ => actor.run.is_some(),
            };
            check_permission(actor, Operation::Pin, is_in_scope, "what it adds")
                .map_err(|denied| self.with_thread(denied, new.page))?;
        }
        Ok(())
    }

    fn judge_patch(&self, id: EntryId, fields: &[FieldChange]) -> Result<(), Denied> {
        let actor = self.actor;
        if is_allowed_anyhow(actor, fields) || self.added.contains(&id) {
            return Ok(());
        }
        // To supersede an entry by one that was derived from it is to archive it (M7.4.37).
        if let [FieldChange::SupersededBy(Some(by))] = fields
            && reach(actor.role, Operation::Archive) == Reach::Yes
            && self.added.contains(by)
        {
            return Ok(());
        }
        match self.known.entries.get(&id) {
            Some(entry) => {
                let is_in_scope = |operation| match (actor.role, operation) {
                    (Role::Executor, Operation::Pin) => self.is_own_page(entry.page),
                    (Role::Client, Operation::Pin) => !self.is_foreign_scratchbook(entry.page),
                    _ => self.is_in_own_scope(entry),
                };
                may_patch(actor, entry, is_in_scope, fields).map_err(|denied| self.with_thread(denied, entry.page))
            }
            None => check_permission(actor, Operation::PatchOthers, false, &id.to_string()),
        }
    }

    /// Whether `entry` is within the actor's own scope. For an entry in a run's tree, the page says which run it
    /// belongs to.
    fn is_in_own_scope(&self, entry: &Entry) -> bool {
        let actor = self.actor;
        let is_of_run = |page: &PageFields| page.run.is_some() && page.run == actor.run;
        is_in_own_scope(actor, entry)
            || actor.role == Role::Client && entry.page == scratchbook::page_of(self.space, &self.known.thread).0
            || matches!(actor.role, Role::Planner | Role::Executor) && self.fields_of(entry.page).is_some_and(is_of_run)
    }

    fn judge_link(&self, link: &Link) -> Result<(), Denied> {
        let actor = self.actor;
        let pages: Vec<PageId> = ends(link).filter_map(|end| end.parse().ok()).collect();
        if !pages.is_empty() {
            let is_in_scope = pages.iter().all(|page| self.is_own_page(*page));
            return check_permission(actor, Operation::Pages, is_in_scope, "a link of pages");
        }
        // A link says something about entries that the write adds or changes, which are judged by themselves, or about
        // the writer's own.
        let is_theirs = |entry: EntryId| {
            let is_known = |entry: &Entry| is_own(actor, entry) || self.is_in_own_scope(entry);
            self.added.contains(&entry)
                || self.patched.contains(&entry)
                || self.known.entries.get(&entry).is_some_and(is_known)
        };
        if ends(link).filter_map(|end| end.parse().ok()).any(is_theirs) {
            return Ok(());
        }
        check_permission(actor, Operation::PatchOthers, false, &link.src)
    }

    fn is_history(&self, page: PageId) -> bool {
        let fields = self.fields_of(page);
        fields.is_some_and(|fields| fields.role == PageRole::History && self.is_of_thread(fields))
    }

    /// Whether `page` is the scratchbook of a thread other than the writer's.
    fn is_foreign_scratchbook(&self, page: PageId) -> bool {
        let fields = self.fields_of(page);
        fields.is_some_and(|fields| fields.role == PageRole::Scratchbook && !self.is_of_thread(fields))
    }

    /// Has the refusal of a client say so if something on `page` belongs to another thread.
    fn with_thread(&self, denied: Denied, page: PageId) -> Denied {
        let is_of_other_thread = self.actor.role == Role::Client && self.is_foreign_scratchbook(page);
        denied.because_of_thread(is_of_other_thread)
    }

    fn is_own_page(&self, page: PageId) -> bool {
        self.fields_of(page).is_some_and(|fields| self.is_own_fields(fields))
    }

    /// Whether a page with these fields is within the scope that the column of pages gives the role.
    fn is_own_fields(&self, fields: &PageFields) -> bool {
        match self.actor.role {
            Role::Executor => {
                let of_run = self.actor.run.is_some() && fields.run == self.actor.run;
                let is_work = !matches!(
                    fields.role,
                    PageRole::Workspace | PageRole::ScratchpadRoot | PageRole::Plan
                );
                of_run && is_work && (fields.role == PageRole::ScratchpadExec || self.is_in_branch(fields))
            }
            Role::Reflector | Role::Cleaner => fields.role == PageRole::IterationSummary,
            Role::Compactor => fields.role == PageRole::Scratchbook && self.is_of_thread(fields),
            // A client's thread has no pages of runs, except of a run that it started.
            Role::Client => {
                (fields.run.is_none() || fields.run == self.actor.run)
                    && (fields.thread.is_none() || self.is_of_thread(fields))
            }
            _ => false,
        }
    }

    fn is_of_thread(&self, fields: &PageFields) -> bool {
        fields.thread.as_ref() == Some(&self.known.thread)
    }

    fn is_in_branch(&self, fields: &PageFields) -> bool {
        let mut at = fields;
        let mut seen = HashSet::new();
        while let Some(parent) = at.parent.filter(|parent| seen.insert(*parent))
            && let Some(fields) = self.fields_of(parent)
        {
            if fields.role == PageRole::ScratchpadExec {
                return fields.run == self.actor.run;
            }
            at = fields;
        }
        false
    }

    fn fields_of(&self, page: PageId) -> Option<&PageFields> {
        // A page that exists stays as it is, whatever the write says about it.
        let known = self.known.pages.get(&page);
        known.or_else(|| self.ensured.get(&page).copied())
    }
}

/// Whether `actor` may set `fields` whoever wrote the entry, so that the entry need not be looked up.
fn is_allowed_anyhow(actor: &Actor, fields: &[FieldChange]) -> bool {
    super::author_independent_operation(fields).is_some_and(|operation| {
        reach(actor.role, operation) == Reach::Yes && fields.iter().all(|field| super::belongs_to(operation, field))
    })
}

fn ends(link: &Link) -> impl Iterator<Item = &str> {
    [link.src.as_str(), link.dst.as_str()].into_iter()
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
