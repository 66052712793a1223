//! Changing one entry while others may change it, too.

use folio_memory::history::{FieldConflict, Version};
use folio_memory::id::{EntryRef, Ref};
use folio_memory::{Actor, Change, Entry, EntryKind, FieldChange, Invalid, Seq, Status, Warning};

use super::trace::verb_of;
use super::{Workspace, WorkspaceError, Write, Written};
use crate::commit::{Committed, Expected};
use crate::error::StoreError;

/// How often something that was decided on an entry is decided again because others change it meanwhile.
const ATTEMPTS: u32 = 64;

/// Under which conditions an entry is changed, and how that is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// The version that the entry must have, unless it is as wished already (M7.4.34).
    pub expected_version: Option<u32>,
    /// The version that the caller had read. Whoever says nothing knows what he himself left in his turn, or what was there when it
    /// began (M7.4.33); outside of a turn, what is there when the call begins.
    pub base_version: Option<u32>,
    /// Makes a second change with the same key do nothing.
    pub idempotency_key: Option<String>,
    /// Why, in the caller's words.
    pub reason: Option<String>,
}

impl From<Option<u32>> for Guard {
    fn from(expected_version: Option<u32>) -> Self {
        Self {
            expected_version,
            ..Self::default()
        }
    }
}

/// What is done if somebody else changes the entry between reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    /// The change does not depend on what was read: it is made all the same, and what it writes over is told (M7.4.33).
    LaterHolds,
    /// The change was decided on what was read: it is decided again.
    DecideAgain,
}

/// A change of one entry that somebody tries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trying {
    /// What it is called in the trace, if it fails before anybody knows which fields it changes.
    pub(super) verb: &'static str,
    pub(super) race: Race,
}

impl Trying {
    /// To do what was decided on what was read.
    pub(super) const fn to(verb: &'static str) -> Self {
        let race = Race::DecideAgain;
        Self { verb, race }
    }

    /// To set fields, whatever stood in them.
    pub(super) const fn to_update() -> Self {
        let race = Race::LaterHolds;
        Self { verb: "update", race }
    }
}

impl Workspace {
    /// Changes one entry as [`Workspace::try_patch`] does, and notes it if that fails.
    pub(super) async fn patch_under(
        &self,
        actor: &Actor,
        entry: EntryRef,
        guard: Guard,
        trying: Trying,
        more: &[Change],
        changes_for: impl FnMut(&Entry) -> Result<(Vec<FieldChange>, Vec<Warning>), WorkspaceError> + Send,
    ) -> Result<Written, WorkspaceError> {
        let written = self.try_patch(actor, entry, guard, trying, more, changes_for).await;
        if let Err(error) = &written {
            self.note_failed_patch(actor, trying.verb, entry, error).await;
        }
        written
    }

    /// Changes the fields of one entry to what `changes_for` makes of it, and does `more` in the same commit. Nobody is refused because of others, unless he
    /// expects a version.
    pub(super) async fn try_patch(
        &self,
        actor: &Actor,
        entry: EntryRef,
        guard: Guard,
        Trying { verb, race }: Trying,
        more: &[Change],
        mut changes_for: impl FnMut(&Entry) -> Result<(Vec<FieldChange>, Vec<Warning>), WorkspaceError> + Send,
    ) -> Result<Written, WorkspaceError> {
        let mut attempt = 1;
        loop {
            let current = self.read_entry(entry).await?;
            self.check_change(actor, verb, &current).await?;
            let decided = match (changes_for(&current), &guard.idempotency_key) {
                // It may look impossible, or needless, because it was done before.
                (Err(_), Some(key)) if self.replayed(actor, key).await?.is_some() => Ok((Vec::new(), Vec::new(), true)),
                (Ok((fields, warnings)), Some(key)) if fields.is_empty() => {
                    Ok((fields, warnings, self.replayed(actor, key).await?.is_some()))
                }
                (decided, _) => decided.map(|(fields, warnings)| (fields, warnings, false)),
            };
            let (fields, mut warnings, replayed) = decided?;
            if let Some(base) = guard.base_version.filter(|base| *base > current.version && !replayed) {
                let message = format!(
                    "{} is at version {}; nobody can have read {base}",
                    current.handle, current.version
                );
                return Err(Invalid::new("base_version_invalid", "base_version", message).into());
            }
            if fields.is_empty() {
                return Ok(Written {
                    entry: current,
                    warnings,
                    conflicts: Vec::new(),
                    replayed,
                });
            }
            self.authorise_patch(actor, &current, &fields).inspect_err(|refused| {
                self.note_refusal(actor, verb_of(&fields), Some(&current), refused);
            })?;
            let change = Change::PatchEntry {
                entry: current.id,
                fields,
                expected_version: match race {
                    Race::LaterHolds => guard.expected_version,
                    Race::DecideAgain => guard.expected_version.or(Some(current.version)),
                },
                base_version: match race {
                    Race::LaterHolds => Some(match (guard.base_version, guard.expected_version) {
                        (Some(base), _) => base,
                        (None, Some(_)) => current.version,
                        (None, None) => self.known_in_turn(actor, &current).await?,
                    }),
                    Race::DecideAgain => None,
                },
            };
            let write = Write {
                reason: guard.reason.clone(),
                idempotency_key: guard.idempotency_key.clone(),
                ..Write::of([&[change], more].concat())
            };
            match self.record_seen(actor, write, Some(&current)).await {
                Ok(recorded) => {
                    warnings.extend(recorded.warnings);
                    let mut conflicts = conflicts_of(&recorded.committed);
                    if current.kind == EntryKind::Observation {
                        conflicts = conflicts.into_iter().map(FieldConflict::of_observation).collect();
                    }
                    warnings.extend(conflicts.iter().map(|lost| {
                        let message = format!(
                            "somebody else had changed {} meanwhile, in version {}; this one holds",
                            lost.field, lost.overwrote_version
                        );
                        Warning::new("conflict", message, lost.theirs.clone(), lost.ours.clone())
                    }));
                    let entry = self.read_entry(entry).await?;
                    self.note_warnings(actor, verb, &entry, &warnings);
                    return Ok(Written {
                        entry,
                        warnings,
                        conflicts,
                        replayed: recorded.committed.replayed,
                    });
                }
                Err(WorkspaceError::Store(StoreError::StaleVersion { .. }))
                    if guard.expected_version.is_none() && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(WorkspaceError::Store(stale @ StoreError::StaleVersion { .. })) => {
                    let current = Box::new(self.read_entry(entry).await?);
                    return Err(WorkspaceError::Stale { current, source: stale });
                }
                Err(WorkspaceError::Store(StoreError::Invalid(message))) => {
                    // Somebody may have archived it in between.
                    let now = self.read_entry(entry).await?;
                    if now.fields.status == Status::Archived && current.fields.status != Status::Archived {
                        return Err(Invalid::new("archived", "status", message).into());
                    }
                    return Err(StoreError::Invalid(message).into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The version of `current` that whoever works in a turn can be taken to know: the last one that he made himself in that turn, or
    /// else the last one before it began. What others have changed since, he may not have seen. Outside of a turn it is the
    /// version that is there, and of what was added since, the first one.
    async fn known_in_turn(&self, actor: &Actor, current: &Entry) -> Result<u32, WorkspaceError> {
        let Some(turn) = actor.turn.filter(|_| current.version > 1) else {
            return Ok(current.version);
        };
        let began = match self.read_turn(Ref::Id(turn)).await {
            Ok(turn) => turn.started_seq,
            // Others may keep turns; when this one began nobody here knows.
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => return Ok(current.version),
            Err(error) => return Err(error),
        };
        if current.updated_seq < began {
            return Ok(current.version);
        }
        let versions = self.versions(Ref::Id(current.id)).await?;
        let is_known = |version: &&Version| {
            let is_own = version.actor.turn == Some(turn) && version.actor.to_string() == actor.to_string();
            version.seq < began || is_own
        };
        let known = versions.iter().rev().find(is_known);
        Ok(known.map_or(1, |version| version.entry.version).min(current.version))
    }

    /// Whether a commit with `key` was written.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn is_recorded(&self, actor: &Actor, key: &str) -> Result<bool, WorkspaceError> {
        Ok(self.replayed(actor, key).await?.is_some())
    }

    /// What the commit with `key` came to, if there is one.
    pub(super) async fn replayed(&self, actor: &Actor, key: &str) -> Result<Option<Committed>, WorkspaceError> {
        // In a space that nobody has used there is none, and asking as below would make one.
        if self.head().await? == Seq(0) {
            return Ok(None);
        }
        // A key is honoured before anything that is expected, and this cannot be expected of a space that is used.
        let write = Write {
            idempotency_key: Some(key.to_owned()),
            expected: vec![Expected::SpaceHead(Seq(0))],
            ..Write::default()
        };
        match self.record(actor, write).await {
            Ok(recorded) => Ok(Some(recorded.committed).filter(|committed| committed.replayed)),
            Err(WorkspaceError::Store(StoreError::StaleSpace { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn conflicts_of(committed: &Committed) -> Vec<FieldConflict> {
    committed
        .entries
        .iter()
        .flat_map(|entry| entry.conflicts.clone())
        .collect()
}
