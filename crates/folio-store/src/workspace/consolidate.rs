//! Replaces several entries by one, provided that each is still at the version that was read (M7.4.37).

use folio_memory::entry::Outcome;
use folio_memory::id::{EntryRef, Ref};
use folio_memory::observation::ObservationInput;
use folio_memory::{
    Actor, Change, Entry, EntryId, FieldChange, Invalid, Link, NewEntry, Relation, Status, Timestamp, Trust, Warning,
};
use serde::Serialize;

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
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
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

/// The successor, as it was chosen.
struct Chosen {
    id: EntryId,
    /// The observation, if it is to be added.
    draft: Option<Draft>,
    /// Values that were corrected in it.
    warnings: Vec<Warning>,
}

/// One attempt, decided by what is there now.
struct Round {
    /// What it comes to.
    done: Consolidated,
    /// Everything that it writes.
    changes: Vec<Change>,
    /// The sources that it replaces.
    replaced: Vec<EntryId>,
}

impl Chosen {
    /// The write of `changes`, which put the successor in the place of `replaced`.
    fn write(&self, changes: Vec<Change>, replaced: Vec<EntryId>, reason: Option<String>) -> Write {
        let may_replace = Expected::MayReplace {
            by: self.id,
            entries: replaced,
        };
        Write {
            // What is added with this commit leads nowhere yet.
            expected: Vec::from_iter(self.draft.is_none().then_some(may_replace)),
            at: self.draft.as_ref().map(|draft| draft.at),
            reason,
            ..Write::of(changes)
        }
    }
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
        let (versions, trust) = self.versions_and_trust(actor, sources).await?;
        let successor = match by {
            Successor::There(by) => Chosen {
                id: self.read_entry(by).await?.id,
                draft: None,
                warnings: Vec::new(),
            },
            Successor::New(input) => self.drafted_successor(actor, *input, trust).await?,
        };
        // A source that changes between reading and writing is left out next time, so there are at most as many rounds
        // as sources.
        let mut rounds = versions.len();
        loop {
            let Round {
                mut done,
                changes,
                replaced,
            } = self.look_at_sources(&versions, &successor, outcome).await?;
            if replaced.is_empty() && successor.draft.is_some() {
                return Ok(done);
            }
            let mut committed = None;
            if !replaced.is_empty() {
                let write = successor.write(changes, replaced, reason.clone());
                match self.record(actor, write).await {
                    Ok(recorded) => {
                        done.warnings.extend(recorded.warnings);
                        committed = Some(recorded.committed);
                    }
                    Err(WorkspaceError::Store(StoreError::StaleVersion { .. })) if rounds > 0 => {
                        rounds -= 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(committed) = committed else {
                done.by = Some(self.read_entry(Ref::Id(successor.id)).await?);
                return Ok(done);
            };
            for entry in &mut done.superseded {
                *entry = self.entry_after(entry.id, &committed).await?;
            }
            done.by = Some(self.entry_after(successor.id, &committed).await?);
            return Ok(done);
        }
    }

    /// The version at which each of `sources` may be replaced, each once, and the trust of what stands for all of them.
    async fn versions_and_trust(
        &self,
        actor: &Actor,
        sources: &[(EntryRef, Option<u32>)],
    ) -> Result<(Vec<(EntryId, u32)>, Trust), WorkspaceError> {
        let mut versions: Vec<(EntryId, u32)> = Vec::new();
        let mut trust = trust_of_role(actor);
        for (source, version) in sources {
            let entry = self.read_entry(*source).await?;
            trust = trust.min(entry.fields.trust);
            if versions.iter().all(|(id, _)| *id != entry.id) {
                versions.push((entry.id, version.unwrap_or(entry.version)));
            }
        }
        Ok((versions, trust))
    }

    async fn drafted_successor(
        &self,
        actor: &Actor,
        input: ObservationInput,
        trust: Trust,
    ) -> Result<Chosen, WorkspaceError> {
        let drafted = self.draft_observation(actor, input, source_of(actor), trust).await?;
        let page = self.scratch_page().await?.1;
        Ok(Chosen {
            id: drafted.new.id,
            warnings: drafted.warnings,
            draft: Some(Draft {
                before: drafted.registers.into_iter().chain(page).collect(),
                new: drafted.new,
                at: drafted.at,
            }),
        })
    }

    /// Reads the sources, and decides which of them `successor` replaces.
    async fn look_at_sources(
        &self,
        versions: &[(EntryId, u32)],
        successor: &Chosen,
        outcome: Option<Outcome>,
    ) -> Result<Round, WorkspaceError> {
        let by = successor.id;
        let mut round = Round {
            done: Consolidated {
                warnings: successor.warnings.clone(),
                ..Consolidated::default()
            },
            changes: Vec::new(),
            replaced: Vec::new(),
        };
        if let Some(draft) = &successor.draft {
            round.changes.extend(draft.before.iter().cloned());
            round.changes.push(Change::AddEntry(draft.new.clone()));
        }
        for (id, version) in versions {
            let source = self.read_entry(Ref::Id(*id)).await?;
            if source.fields.superseded_by == Some(by) {
                round.done.superseded.push(source);
            } else if source.version != *version || source.fields.status == Status::Archived {
                round.done.left.push(source);
            } else {
                let outcome = outcome.map(|outcome| FieldChange::Outcome(Some(outcome)));
                round.changes.push(Change::PatchEntry {
                    entry: *id,
                    fields: [FieldChange::SupersededBy(Some(by))]
                        .into_iter()
                        .chain(outcome)
                        .collect(),
                    expected_version: Some(*version),
                    base_version: None,
                });
                round.changes.extend(links(by, *id, successor.draft.is_some()));
                round.replaced.push(*id);
                round.done.superseded.push(source);
            }
        }
        Ok(round)
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
