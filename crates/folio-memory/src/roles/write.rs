//! Whether a whole write is within what its writer may do (M7.7).

use std::collections::{HashMap, HashSet};

use super::{Denied, Operation, Reach, is_own, is_within, may, may_patch, reach};
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

/// What is there already of what a write touches.
#[derive(Debug, Default)]
pub struct Known {
    /// Entries that it changes or links.
    pub entries: HashMap<EntryId, Entry>,
    /// Pages that it is about, and those that contain them.
    pub pages: HashMap<PageId, PageFields>,
    /// The thread that the writer works in: the one that was named when the connection was made.
    pub thread: ThreadKey,
}

/// What has to be known of a write before it can be judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Entries that it changes: without one of them there is nothing to change.
    pub entries: HashSet<EntryId>,
    /// Entries that it links.
    pub linked: HashSet<EntryId>,
    /// Pages, with all pages that contain them.
    pub pages: HashSet<PageId>,
}

/// What [`may_write`] has to know to judge `changes` by `actor`.
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

/// Whether `actor` may make `changes` in `space`, all of them. `known` is what [`needs`] asks for, as far as it is there.
///
/// Turns and what happens in a run are not in the table: whoever holds the run writes its journal.
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
    let mut write = Judged {
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

struct Judged<'a> {
    actor: &'a Actor,
    space: &'a SpaceName,
    types: &'a TypeRegistry,
    known: &'a Known,
    added: HashSet<EntryId>,
    patched: HashSet<EntryId>,
    ensured: HashMap<PageId, &'a PageFields>,
    /// The written ids of what is said to be derived from something.
    derived: HashSet<&'a str>,
}

impl Judged<'_> {
    fn judge(&self, change: &Change) -> Result<(), Denied> {
        let actor = self.actor;
        match change {
            Change::EnsurePage(new) => self.judge_page(new),
            Change::SetPageStatus { page, .. } => {
                may(actor, Operation::Pages, self.is_own_page(*page), &page.to_string())
            }
            Change::AddEntry(new) => self.judge_add(new),
            Change::PatchEntry { entry, fields, .. } => self.judge_patch(*entry, fields),
            Change::AddLink(link) => self.judge_link(link),
            Change::SetPolicy { .. } => may(actor, Operation::SetPolicy, false, "the policy of the space"),
            // Part of adding something of that type.
            Change::RegisterType { .. } => may(actor, Operation::Add, true, "a type"),
            Change::EraseEntry { entry, why, .. } => {
                // What is due by the policy is taken out by those who tidy up.
                let operation = match why {
                    ErasedFor::Forgotten => Operation::Forget,
                    _ => Operation::Archive,
                };
                may(actor, operation, false, &entry.to_string())
            }
            Change::BeginTurn(_) | Change::EndTurn { .. } => Ok(()),
        }
    }

    fn judge_page(&self, new: &NewPage) -> Result<(), Denied> {
        let what = format!("the {} page {:?}", new.fields.role, new.fields.title);
        if new.fields.brought.is_some() {
            may(self.actor, Operation::Import, false, &what)?;
        }
        // The scratch page and the books begin to exist with what is added to them.
        if self.is_standing(new) {
            return Ok(());
        }
        let within = self.is_own_fields(&new.fields);
        may(self.actor, Operation::Pages, within, &what)
    }

    fn is_standing(&self, new: &NewPage) -> bool {
        let standing = page::standing(self.space, new.fields.role, new.fields.thread.as_ref());
        standing.is_some_and(|(id, _)| id == new.id)
    }

    fn judge_add(&self, new: &NewEntry) -> Result<(), Denied> {
        let actor = self.actor;
        let class = || self.types.class_of(new.fields.type_name.as_deref());
        let within = match (actor.role, new.kind) {
            (Role::Clarifier, EntryKind::PendingAction) | (Role::Reflector | Role::Cleaner, EntryKind::Summary) => true,
            (Role::Clarifier, EntryKind::Observation) => class() == Class::PendingConfirmation,
            (Role::Reflector | Role::Cleaner, _) => self.derived.contains(new.id.to_string().as_str()),
            // What it puts away goes onto the page for that.
            (Role::Compactor, EntryKind::Log) => self.is_history(new.page),
            (Role::Compactor, EntryKind::Summary | EntryKind::Note | EntryKind::Todo) => self.is_own_page(new.page),
            _ => false,
        };
        let what = match &new.fields.type_name {
            Some(name) => format!("an entry of kind {} and type {name}", new.kind),
            None => format!("an entry of kind {}", new.kind),
        };
        may(actor, Operation::Add, within, &what)?;
        if new.fields.brought.is_some() {
            may(actor, Operation::Import, false, &what)?;
        }
        // What a compactor leaves behind is pinned until the next does so.
        if new.fields.pin_rank.is_some() && actor.role != Role::Compactor {
            let within = match actor.role {
                Role::Executor => self.is_own_page(new.page),
                Role::Client => !self.is_other_book(new.page),
                _ => actor.run.is_some(),
            };
            may(actor, Operation::Pin, within, "what it adds")?;
        }
        Ok(())
    }

    fn judge_patch(&self, id: EntryId, fields: &[FieldChange]) -> Result<(), Denied> {
        let actor = self.actor;
        if is_allowed_anyhow(actor, fields) || self.added.contains(&id) {
            return Ok(());
        }
        // To put what one has derived in the place of what it was derived from is to put that away (M7.4.37).
        if let [FieldChange::SupersededBy(Some(by))] = fields
            && reach(actor.role, Operation::Archive) == Reach::Yes
            && self.added.contains(by)
        {
            return Ok(());
        }
        match self.known.entries.get(&id) {
            Some(entry) => {
                let within = |operation| match (actor.role, operation) {
                    (Role::Executor, Operation::Pin) => self.is_own_page(entry.page),
                    (Role::Client, Operation::Pin) => !self.is_other_book(entry.page),
                    _ => self.is_within(entry),
                };
                may_patch(actor, entry, within, fields)
            }
            None => may(actor, Operation::PatchOthers, false, &id.to_string()),
        }
    }

    /// Of which run an entry of its tree is, its page says.
    fn is_within(&self, entry: &Entry) -> bool {
        let actor = self.actor;
        let is_of_run = |page: &PageFields| page.run.is_some() && page.run == actor.run;
        is_within(actor, entry)
            || actor.role == Role::Client && entry.page == scratchbook::page_of(self.space, &self.known.thread).0
            || matches!(actor.role, Role::Planner | Role::Executor) && self.fields_of(entry.page).is_some_and(is_of_run)
    }

    fn judge_link(&self, link: &Link) -> Result<(), Denied> {
        let actor = self.actor;
        let pages: Vec<PageId> = ends(link).filter_map(|end| end.parse().ok()).collect();
        if !pages.is_empty() {
            let within = pages.iter().all(|page| self.is_own_page(*page));
            return may(actor, Operation::Pages, within, "a link of pages");
        }
        // It says something of what the write adds or changes, which is judged by itself, or of what is the writer's.
        let is_theirs = |entry: EntryId| {
            let is_known = |entry: &Entry| is_own(actor, entry) || self.is_within(entry);
            self.added.contains(&entry)
                || self.patched.contains(&entry)
                || self.known.entries.get(&entry).is_some_and(is_known)
        };
        if ends(link).filter_map(|end| end.parse().ok()).any(is_theirs) {
            return Ok(());
        }
        may(actor, Operation::PatchOthers, false, &link.src)
    }

    fn is_history(&self, page: PageId) -> bool {
        let fields = self.fields_of(page);
        fields.is_some_and(|fields| fields.role == PageRole::History && self.is_of_thread(fields))
    }

    /// Whether `page` is the scratchbook of another thread than the writer's.
    fn is_other_book(&self, page: PageId) -> bool {
        let fields = self.fields_of(page);
        fields.is_some_and(|fields| fields.role == PageRole::Scratchbook && !self.is_of_thread(fields))
    }

    fn is_own_page(&self, page: PageId) -> bool {
        self.fields_of(page).is_some_and(|fields| self.is_own_fields(fields))
    }

    /// Whether a page with these fields is within what the column of pages says of the role.
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
            // Its thread has no run's pages, but for a run that it started.
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
        // A page that is there stays as it is, whatever the write says.
        let known = self.known.pages.get(&page);
        known.or_else(|| self.ensured.get(&page).copied())
    }
}

/// Whether `actor` may set `fields` whosever the entry is, so that nobody has to look at it.
fn is_allowed_anyhow(actor: &Actor, fields: &[FieldChange]) -> bool {
    super::operation_whoever(fields).is_some_and(|operation| {
        reach(actor.role, operation) == Reach::Yes && fields.iter().all(|field| super::belongs_to(operation, field))
    })
}

fn ends(link: &Link) -> impl Iterator<Item = &str> {
    [link.src.as_str(), link.dst.as_str()].into_iter()
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
