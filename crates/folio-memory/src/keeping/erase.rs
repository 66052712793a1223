//! What remains of an entry, a turn or a run, and of the changes that made it, once its content is erased.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::ErasedFor;
use crate::change::{Change, FieldChange};
use crate::entry::{Entry, EntryFields, Status};
use crate::id::{EntryId, RunId, Seq, TurnId};
use crate::page::{Page, PageFields};
use crate::time::Timestamp;
use crate::turn::{Decision, NewTurn, Turn, TurnEnd};

impl EntryFields {
    /// Removes everything that somebody wrote.
    fn without_content(&mut self) {
        self.title.clear();
        self.body.clear();
        self.parts = None;
        self.tags.clear();
        self.context = None;
        self.metadata = None;
        self.phase = None;
        self.body_ref = None;
        self.claimed_source = None;
        self.pii.clear();
    }
}

impl Entry {
    /// Erases the content, increments the version, and returns whether anything changed. Erased content stays erased,
    /// and the first reason is kept, unless somebody now wants it forgotten.
    pub fn erase(&mut self, why: ErasedFor, seq: Seq, at: Timestamp) -> bool {
        let fields = &mut self.fields;
        if fields
            .erased
            .is_some_and(|before| before == why || why != ErasedFor::Forgotten)
        {
            return false;
        }
        fields.without_content();
        fields.status = Status::Archived;
        fields.pin_rank = None;
        fields.progress = None;
        fields.erased = Some(why);
        self.version += 1;
        self.updated_at = at;
        self.updated_seq = seq;
        true
    }
}

impl NewTurn {
    /// Removes what was said, and returns whether there was anything.
    fn remove_content(&mut self) -> bool {
        let said_something = !std::mem::take(&mut self.input).is_empty();
        remove_reasons(&mut self.decisions) || said_something
    }
}

impl TurnEnd {
    /// Removes what was said, and returns whether there was anything.
    fn remove_content(&mut self) -> bool {
        remove_reasons(&mut self.decisions)
    }
}

/// Removes why something was decided, which may quote the input. What was decided, and from which entries, stays.
fn remove_reasons(decisions: &mut [Decision]) -> bool {
    let mut had_any = false;
    for decision in decisions {
        had_any |= !std::mem::take(&mut decision.reasons).is_empty();
    }
    had_any
}

impl Turn {
    /// Erases what was said in the turn so far, and returns whether anything changed.
    pub fn erase(&mut self) -> bool {
        let at_its_end = self.ended.as_mut().is_some_and(|ended| ended.end.remove_content());
        self.begun.remove_content() || at_its_end
    }
}

/// What stays known of a run whose content is erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTombstone {
    /// How it had ended: its status before.
    pub status: String,
    /// When it had ended.
    pub ended_at: Timestamp,
    /// How many events its journal had.
    pub events: u64,
    /// How many of its nodes were done.
    pub nodes: u64,
}

impl PageFields {
    /// Removes what says what the page is about, and returns whether there was anything.
    fn remove_content(&mut self) -> bool {
        let said_something = !std::mem::take(&mut self.title).is_empty();
        let had_tags = !std::mem::take(&mut self.tags).is_empty();
        let had_props = self.props.take().is_some();
        // It is made of the names of steps.
        self.branch_id.take().is_some() || said_something || had_tags || had_props
    }
}

impl Page {
    /// Erases the title and everything else that says what the page is about, and returns whether anything changed. As
    /// the log no longer has it either, this is no change of the page: its version and its times stay.
    pub fn erase(&mut self) -> bool {
        self.fields.remove_content()
    }
}

/// Erases the content of entries, turns and runs from the changes in the log.
///
/// Replaying what remains, followed by [`Change::EraseEntry`], [`Change::EraseTurn`] and [`Change::EraseRun`], gives the
/// same entries in the same versions, and the same turns, pages and runs, as replaying the original changes.
#[derive(Debug, Default)]
pub struct Eraser {
    /// The entries, in their form after the changes seen so far.
    states: HashMap<EntryId, Option<EntryFields>>,
    turns: HashSet<TurnId>,
    run: Option<RunId>,
}

impl Eraser {
    /// Creates an eraser for the content of the entries `erased_ids` and of `turns`.
    pub fn of(erased_ids: impl IntoIterator<Item = EntryId>, turns: impl IntoIterator<Item = TurnId>) -> Self {
        Self {
            states: erased_ids.into_iter().map(|id| (id, None)).collect(),
            turns: turns.into_iter().collect(),
            run: None,
        }
    }

    /// Creates an eraser for what `run` says: of its pages, what they are about. Its entries and its turns are erased by
    /// their own.
    #[must_use]
    pub fn of_run(run: RunId) -> Self {
        Self {
            run: Some(run),
            ..Self::default()
        }
    }

    /// Whether the events of `run` are erased.
    #[must_use]
    pub fn erases_run(&self, run: RunId) -> bool {
        self.run == Some(run)
    }

    /// Erases the content from `change` and returns whether there was any. Changes of one entry must come in the order
    /// of the log.
    pub fn clean(&mut self, change: &mut Change) -> bool {
        match change {
            Change::AddEntry(new) => {
                let Some(state) = self.states.get_mut(&new.id) else {
                    return false;
                };
                *state = Some(new.fields.clone());
                new.fields.without_content();
                state.as_ref() != Some(&new.fields)
            }
            Change::PatchEntry { entry, fields, .. } => {
                let Some(Some(state)) = self.states.get_mut(entry) else {
                    return false;
                };
                let counts = !state.is_unchanged_by(fields);
                state.set(fields);
                let before = fields.len();
                fields.retain(|field| !is_content(field));
                let had_content = fields.len() < before;
                if had_content && counts && !fields.contains(&FieldChange::Erased) {
                    fields.push(FieldChange::Erased);
                }
                had_content
            }
            Change::BeginTurn(new) if self.turns.contains(&new.id) => new.remove_content(),
            Change::EndTurn { turn, end } if self.turns.contains(turn) => end.remove_content(),
            Change::EnsurePage(new) if new.fields.run.is_some_and(|run| self.erases_run(run)) => {
                new.fields.remove_content()
            }
            _ => false,
        }
    }
}

/// Whether `field` carries what somebody wrote.
fn is_content(field: &FieldChange) -> bool {
    match field {
        FieldChange::Title(_)
        | FieldChange::Body(_)
        | FieldChange::BodyRef(_)
        | FieldChange::Parts(_)
        | FieldChange::Tags(_)
        | FieldChange::Context(_)
        | FieldChange::Metadata(_)
        | FieldChange::Phase(_)
        | FieldChange::PiiFound(_) => true,
        FieldChange::Status(_)
        | FieldChange::Restored(_)
        | FieldChange::Confidence(_)
        | FieldChange::Owner(_)
        | FieldChange::Progress(_)
        | FieldChange::PinRank(_)
        | FieldChange::LeaseUntil(_)
        | FieldChange::Lifetime(_)
        | FieldChange::Ended(_)
        | FieldChange::Expired(_)
        | FieldChange::ValidatedAt(_)
        | FieldChange::SupersededBy(_)
        | FieldChange::Outcome(_)
        | FieldChange::ArchivedFor(_)
        | FieldChange::Trust(_)
        | FieldChange::Erased => false,
    }
}
