//! Changes one entry while others may change it, too.

use folio_memory::history::{FieldConflict, Version, operation_of};
use folio_memory::id::{EntryRef, Ref};
use folio_memory::{Actor, Change, Entry, EntryKind, FieldChange, Invalid, RunId, Seq, Status, Warning, lifecycle};

use super::reads::if_there;
use super::{Workspace, WorkspaceError, Write, Written, long_text};
use crate::commit::{Committed, Expected};
use crate::error::StoreError;

/// How often a change that depends on the entry is decided again because of concurrent changes.
const ATTEMPTS: u32 = 64;

/// The conditions under which an entry is changed, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// The version that the entry must have, unless it is already as wanted (M7.4.34).
    pub expected_version: Option<u32>,
    /// The version that the caller had read. By default, within a turn, the one that the caller itself left in the
    /// turn, or the one at the beginning of the turn (M7.4.33); outside a turn, the one at the beginning of the call.
    pub base_version: Option<u32>,
    /// The idempotency key: a second change with the same key does nothing.
    pub idempotency_key: Option<String>,
    /// The reason, in the caller's words.
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

/// What to do if somebody else changes the entry between reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    /// The change does not depend on what was read: it is made anyway, and what it overwrites is reported (M7.4.33).
    LaterHolds,
    /// The change depends on what was read: it is decided again.
    DecideAgain,
}

/// An attempted change of one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trying<'a> {
    /// Its name in the trace if it fails before it is known which fields it changes.
    pub(super) verb: &'static str,
    pub(super) race: Race,
    /// What else must hold, apart from the entry's own version.
    pub(super) expected: &'a [Expected],
}

impl<'a> Trying<'a> {
    /// A change that depends on what was read.
    pub(super) const fn to(verb: &'static str) -> Self {
        Self {
            verb,
            race: Race::DecideAgain,
            expected: &[],
        }
    }

    /// A change that sets fields whatever their values were.
    pub(super) const fn to_update() -> Self {
        Self {
            verb: "update",
            race: Race::LaterHolds,
            expected: &[],
        }
    }

    /// The same change, which is made only if `expected` holds.
    pub(super) const fn expecting(self, expected: &'a [Expected]) -> Self {
        Self { expected, ..self }
    }
}

/// The changes of one entry that were decided.
struct Decided {
    fields: Vec<FieldChange>,
    warnings: Vec<Warning>,
    /// Whether they were made before.
    replayed: bool,
}

impl Workspace {
    /// Like [`Workspace::try_patch`], and notes failures.
    pub(super) async fn patch_under(
        &self,
        actor: &Actor,
        entry: EntryRef,
        guard: Guard,
        trying: Trying<'_>,
        more: &[Change],
        changes_for: impl FnMut(&Entry) -> Result<(Vec<FieldChange>, Vec<Warning>), WorkspaceError> + Send,
    ) -> Result<Written, WorkspaceError> {
        let written = self.try_patch(actor, entry, guard, trying, more, changes_for).await;
        if let Err(error) = &written {
            self.note_failed_patch(actor, trying.verb, entry, error).await;
        }
        written
    }

    /// Changes the fields of one entry as `changes_for` decides, and makes the changes `more` in the same commit.
    /// Concurrent changes never make it fail unless a version is expected.
    pub(super) async fn try_patch(
        &self,
        actor: &Actor,
        entry: EntryRef,
        guard: Guard,
        trying: Trying<'_>,
        more: &[Change],
        mut changes_for: impl FnMut(&Entry) -> Result<(Vec<FieldChange>, Vec<Warning>), WorkspaceError> + Send,
    ) -> Result<Written, WorkspaceError> {
        let verb = trying.verb;
        let mut attempt = 1;
        loop {
            let current = self.read_entry(entry).await?;
            self.check_change(actor, verb, &current).await?;
            let decided = changes_for(&current);
            let Decided {
                fields,
                mut warnings,
                replayed,
            } = self.decided_or_made(actor, &guard, &current, more, decided).await?;
            if !replayed {
                refuse_future_base(&guard, &current)?;
            }
            if fields.is_empty() {
                return Ok(unchanged(current, warnings, replayed));
            }
            let rewritten = lifecycle::trust_after(&current, &long_text::as_kept(&fields), self.trust_of(actor));
            let fields: Vec<FieldChange> = fields.into_iter().chain(rewritten).collect();
            let authorised = self.authorise_patch(actor, &current, &fields).await;
            authorised.inspect_err(|refused| {
                self.note_refusal(actor, operation_of(Some(&current), &fields), Some(&current), refused);
            })?;
            // A commit that changes nothing would use up the idempotency key, and others would wait for it.
            if is_needless(&current, &fields, more) {
                self.note_warnings(actor, verb, &current, &warnings);
                return Ok(unchanged(current, warnings, replayed));
            }
            let change = self
                .guarded_change(actor, &guard, trying.race, &current, fields)
                .await?;
            let write = Write {
                expected: trying.expected.to_vec(),
                reason: guard.reason.clone(),
                idempotency_key: guard.idempotency_key.clone(),
                ..Write::of([&[change], more].concat())
            };
            match self.record_seen(actor, write, Some(&current)).await {
                Ok(recorded) => {
                    warnings.extend(recorded.warnings);
                    let conflicts = named_conflicts(&recorded.committed, current.kind);
                    warnings.extend(conflicts.iter().map(conflict_warning));
                    let entry = self.entry_after(current.id, &recorded.committed).await?;
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
                Err(error) => return Err(self.reason_not_made(error, &current).await?),
            }
        }
    }

    /// What is decided for `current`, and whether the change was made before, under the same idempotency key: then it
    /// may look impossible or needless only because of that.
    async fn decided_or_made(
        &self,
        actor: &Actor,
        guard: &Guard,
        current: &Entry,
        more: &[Change],
        decided: Result<(Vec<FieldChange>, Vec<Warning>), WorkspaceError>,
    ) -> Result<Decided, WorkspaceError> {
        let may_be_made = match &decided {
            Err(_) => true,
            Ok((fields, _)) => fields.is_empty() || is_needless(current, fields, more),
        };
        let replayed = match &guard.idempotency_key {
            Some(key) if may_be_made => self.replayed(actor, key).await?.is_some(),
            _ => false,
        };
        let (fields, warnings) = match decided {
            Err(_) if replayed => (Vec::new(), Vec::new()),
            decided => decided?,
        };
        Ok(Decided {
            fields,
            warnings,
            replayed,
        })
    }

    /// The change of `current` to `fields`, with the versions that it depends on.
    async fn guarded_change(
        &self,
        actor: &Actor,
        guard: &Guard,
        race: Race,
        current: &Entry,
        fields: Vec<FieldChange>,
    ) -> Result<Change, WorkspaceError> {
        let (expected_version, base_version) = match race {
            Race::DecideAgain => (guard.expected_version.or(Some(current.version)), None),
            Race::LaterHolds => {
                let base = match (guard.base_version, guard.expected_version) {
                    (Some(base), _) => base,
                    (None, Some(_)) => current.version,
                    (None, None) => self.known_in_turn(actor, current).await?,
                };
                (guard.expected_version, Some(base))
            }
        };
        Ok(Change::PatchEntry {
            entry: current.id,
            fields,
            expected_version,
            base_version,
        })
    }

    /// The failure for a change of `current` that the store did not make because of `error`.
    async fn reason_not_made(&self, error: WorkspaceError, current: &Entry) -> Result<WorkspaceError, WorkspaceError> {
        Ok(match error {
            WorkspaceError::Store(stale @ StoreError::StaleVersion { .. }) => {
                let current = Box::new(self.read_entry(Ref::Id(current.id)).await?);
                let at = self.now();
                WorkspaceError::Stale {
                    current,
                    at,
                    source: stale,
                }
            }
            WorkspaceError::Store(StoreError::Invalid(message)) => {
                // Somebody may have archived the entry in between.
                let now = self.read_entry(Ref::Id(current.id)).await?;
                if now.fields.status == Status::Archived && current.fields.status != Status::Archived {
                    Invalid::new("archived", "status", message).into()
                } else {
                    StoreError::Invalid(message).into()
                }
            }
            error => error,
        })
    }

    /// The version of `current` that an actor working in a turn can be assumed to know: the last one that it made
    /// itself in that turn, or else the last one before the turn began, or else the first one, of an entry that others
    /// added since. It may not have seen later changes by others. Outside a turn this is the present version.
    async fn known_in_turn(&self, actor: &Actor, current: &Entry) -> Result<u32, WorkspaceError> {
        let Some(turn) = actor.turn.filter(|_| current.version > 1) else {
            return Ok(current.version);
        };
        let Some(begun) = if_there(self.stored_turn(Ref::Id(turn)).await)? else {
            // Other programs may keep turns of their own; here it is unknown when this one began.
            return Ok(current.version);
        };
        let began = begun.started_seq;
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

    /// The run that the commit with `key` began or wrote to, if there is such a commit.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn recorded_run(&self, actor: &Actor, key: &str) -> Result<Option<RunId>, WorkspaceError> {
        let committed = self.replayed(actor, key).await?;
        Ok(committed.and_then(|committed| committed.run).map(|(run, _)| run))
    }

    /// The outcome of the commit with `key`, if there is one.
    pub(super) async fn replayed(&self, actor: &Actor, key: &str) -> Result<Option<Committed>, WorkspaceError> {
        // An unused space has no commits, and the probe below would write one.
        if self.head().await? == Seq(0) {
            return Ok(None);
        }
        // The key is checked before any expectation, and this expectation never holds in a space that is used.
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

/// Refuses a version of `current` as read before that is yet to come.
fn refuse_future_base(guard: &Guard, current: &Entry) -> Result<(), Invalid> {
    let Some(base) = guard.base_version.filter(|base| *base > current.version) else {
        return Ok(());
    };
    let message = format!(
        "{} is at version {}; there is no version {base} yet",
        current.handle, current.version
    );
    Err(Invalid::new("base_version_invalid", "base_version", message))
}

/// Whether a commit of `fields` and `more` would leave everything as it is.
fn is_needless(current: &Entry, fields: &[FieldChange], more: &[Change]) -> bool {
    more.is_empty() && current.is_unchanged_by(&long_text::as_kept(fields))
}

/// The answer to a change for which nothing was written.
fn unchanged(entry: Entry, warnings: Vec<Warning>, replayed: bool) -> Written {
    Written {
        entry,
        warnings,
        conflicts: Vec::new(),
        replayed,
    }
}

/// What a commit overwrote in an entry of `kind`, with the names that the fields have for their readers.
fn named_conflicts(committed: &Committed, kind: EntryKind) -> Vec<FieldConflict> {
    let conflicts = committed.entries.iter().flat_map(|entry| entry.conflicts.clone());
    match kind {
        EntryKind::Observation => conflicts.map(FieldConflict::with_observation_names).collect(),
        _ => conflicts.collect(),
    }
}

fn conflict_warning(conflict: &FieldConflict) -> Warning {
    let message = format!(
        "somebody else had changed {} meanwhile, in version {}; this change overwrote that",
        conflict.field, conflict.overwrote_version
    );
    Warning::new("conflict", message, conflict.theirs.clone(), conflict.ours.clone())
}
