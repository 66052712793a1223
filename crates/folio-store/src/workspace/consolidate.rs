//! Replaces several entries by one, provided that each is still at the version that was read (M7.4.37).

use folio_memory::entry::Outcome;
use folio_memory::id::{EntryRef, Ref};
use folio_memory::observation::ObservationInput;
use folio_memory::{
    Actor, Change, Entry, EntryId, FieldChange, Invalid, Link, NewEntry, Relation, Status, Timestamp, Warning,
};

use super::{Workspace, WorkspaceError, Write, source_of, trust_of_role};
use crate::commit::Expected;
use crate::error::StoreError;

/// How many entries may be consolidated at once.
const SOURCES_MAX: usize = 1_000;

/// The entry that takes the place of others.
#[derive(Debug, Clone, PartialEq)]
pub enum Successor {
    /// An existing entry.
    There(EntryRef),
    /// An observation that is added in the same commit, with the least trust among the entries it stands for.
    New(Box<ObservationInput>),
}

/// The outcome of a consolidation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Consolidated {
    /// The entry that stands for the others; `None` if it was to be added and there is nothing for it to stand for.
    pub by: Option<Entry>,
    /// The entries whose place it took.
    pub superseded: Vec<Entry>,
    /// Entries that were left alone because they were changed meanwhile or are archived.
    pub left: Vec<Entry>,
    /// Values that were corrected in the added entry.
    pub warnings: Vec<Warning>,
}

/// A drafted observation, and the changes that must come before it.
struct Draft {
    new: Box<NewEntry>,
    before: Vec<Change>,
    at: Timestamp,
}

impl Workspace {
    /// Puts `by` in the place of all of `sources` in one commit. A source is left alone if it is archived, or no longer
    /// at the version given with it (by default the one it has when the call begins).
    ///
    /// # Errors
    ///
    /// `Invalid` if there are more than 1,000 sources, or if `by` leads back to one of them, is archived or is past its
    /// lifetime; `Conflict` if the actor may not change one of them, in which case nothing is done; `NotFound`.
    pub async fn consolidate(
        &self,
        actor: &Actor,
        sources: &[(EntryRef, Option<u32>)],
        by: Successor,
        reason: Option<String>,
    ) -> Result<Consolidated, WorkspaceError> {
        self.consolidate_as(actor, sources, by, None, reason).await
    }

    /// Like [`Workspace::consolidate`], and records whether what the sources said came true, if known: calibration
    /// counts this (M7.11.6).
    ///
    /// # Errors
    ///
    /// As [`Workspace::consolidate`].
    pub async fn consolidate_as(
        &self,
        actor: &Actor,
        sources: &[(EntryRef, Option<u32>)],
        by: Successor,
        outcome: Option<Outcome>,
        reason: Option<String>,
    ) -> Result<Consolidated, WorkspaceError> {
        if sources.len() > SOURCES_MAX {
            let message = format!("{} are more than {SOURCES_MAX}; do it in parts", sources.len());
            return Err(Invalid::new("sources_too_many", "sources", message).into());
        }
        let mut expected: Vec<(EntryId, u32)> = Vec::new();
        let mut trust = trust_of_role(actor);
        for (source, version) in sources {
            let entry = self.read_entry(*source).await?;
            trust = trust.min(entry.fields.trust);
            if expected.iter().all(|(id, _)| *id != entry.id) {
                expected.push((entry.id, version.unwrap_or(entry.version)));
            }
        }
        let mut warnings = Vec::new();
        let (by, draft) = match by {
            Successor::There(by) => {
                let by = self.read_entry(by).await?;
                (by.id, None)
            }
            Successor::New(input) => {
                let drafted = self.draft_observation(actor, *input, source_of(actor), trust).await?;
                warnings = drafted.warnings;
                let page = self.scratch_page().await?.1;
                let before = drafted.registers.into_iter().chain(page).collect();
                let (new, at) = (drafted.new, drafted.at);
                (new.id, Some(Draft { new, before, at }))
            }
        };
        // A source that changes between reading and writing is left out next time, so there are at most as many rounds
        // as sources.
        let mut rounds = expected.len();
        loop {
            let mut done = Consolidated {
                warnings: warnings.clone(),
                ..Consolidated::default()
            };
            let mut changes = draft.as_ref().map_or_else(Vec::new, |draft| draft.before.clone());
            changes.extend(draft.as_ref().map(|draft| Change::AddEntry(draft.new.clone())));
            let added = changes.len();
            let mut replaced = Vec::new();
            for (id, version) in &expected {
                let source = self.read_entry(Ref::Id(*id)).await?;
                if source.fields.superseded_by == Some(by) {
                    done.superseded.push(source);
                } else if source.version != *version || source.fields.status == Status::Archived {
                    done.left.push(source);
                } else {
                    changes.push(Change::PatchEntry {
                        entry: *id,
                        fields: [FieldChange::SupersededBy(Some(by))]
                            .into_iter()
                            .chain(outcome.map(|outcome| FieldChange::Outcome(Some(outcome))))
                            .collect(),
                        expected_version: Some(*version),
                        base_version: None,
                    });
                    changes.extend(links(by, *id, draft.is_some()));
                    replaced.push(*id);
                    done.superseded.push(source);
                }
            }
            if changes.len() > added {
                let may_replace = Expected::MayReplace { by, entries: replaced };
                let write = Write {
                    // What is added with this commit leads nowhere yet.
                    expected: Vec::from_iter(draft.is_none().then_some(may_replace)),
                    at: draft.as_ref().map(|draft| draft.at),
                    reason: reason.clone(),
                    ..Write::of(changes)
                };
                match self.record(actor, write).await {
                    Ok(recorded) => done.warnings.extend(recorded.warnings),
                    Err(WorkspaceError::Store(StoreError::StaleVersion { .. })) if rounds > 0 => {
                        rounds -= 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            } else if draft.is_some() {
                return Ok(done);
            }
            for entry in &mut done.superseded {
                *entry = self.read_entry(Ref::Id(entry.id)).await?;
            }
            done.by = Some(self.read_entry(Ref::Id(by)).await?);
            return Ok(done);
        }
    }
}

/// The links that say that `by` took the place of `source` and, if `derived`, came from it.
fn links(by: EntryId, source: EntryId, derived: bool) -> impl Iterator<Item = Change> {
    let derived = derived.then_some(Relation::DerivedFrom);
    [Relation::Supersedes].into_iter().chain(derived).map(move |rel| {
        Change::AddLink(Link {
            src: by.to_string(),
            rel,
            dst: source.to_string(),
        })
    })
}
