//! Observations: what tools, roles and people noticed, on the scratch page of the space.

use folio_memory::actor::{Role, Source, Trust};
use folio_memory::entry::Status;
use folio_memory::id::{EntryRef, Ref};
use folio_memory::observation::{self, ObservationInput, ObservationPatch, UnknownType, page_of};
use folio_memory::query::MAX_LIMIT;
use folio_memory::tool_exchange::Bound;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryKind, EntryQuery, FieldChange, ListAnswer, NewEntry, Order, PageId, ThreadKey,
    Timestamp, Warning,
};

use super::notes::Stopwatch;
use super::patch::{Guard, Trying};
use super::{Moment, Workspace, WorkspaceError, Write, Written, source_of, trust_of_role};
use crate::commit::Expected;
use crate::error::StoreError;
use crate::store::MemoryMark;

/// How many observations [`Workspace::active_observations`] returns at most (M7.2.14).
pub const MAX_ACTIVE: usize = 100;

/// How often an observation is drafted again because the policy of its space changed meanwhile.
const DRAFTS_MAX: u32 = 8;

/// An observation that is ready to be written, alone or with others.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DraftedObservation {
    /// The change that adds it. It needs the scratch page: see [`Workspace::scratch_page`].
    pub new: Box<NewEntry>,
    /// The change that registers its type, if it is not registered yet (M7.3.22). It comes first.
    pub registers: Option<Change>,
    /// The instant from which its lifetime counts: the commit's own.
    pub at: Timestamp,
    /// Values that were corrected.
    pub warnings: Vec<Warning>,
    /// The version of the policy that it was drafted under.
    pub drafted_under: u32,
}

/// How one entry is added.
#[derive(Debug)]
pub(super) struct Adding {
    /// Changes that must come first: its page, its type.
    pub(super) before: Vec<Change>,
    /// Changes that follow: its links.
    pub(super) after: Vec<Change>,
    pub(super) at: Timestamp,
    pub(super) idempotency_key: Option<String>,
    /// The version of the policy that it was drafted under, unless that was read from the store just now.
    pub(super) drafted_under: Option<u32>,
    /// What must hold.
    pub(super) expected: Vec<Expected>,
}

/// Whose visibility applies to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The asker's: only what it may read.
    AsAsked,
    /// That of the stages of a turn, which see the whole space (M7.11).
    Stages,
}

impl Workspace {
    /// The scratch page of the space, and the change that adds it if it does not exist yet.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn scratch_page(&self) -> Result<(PageId, Option<Change>), WorkspaceError> {
        let (id, fields) = page_of(self.space());
        let change = self.ensured(id, || fields).await?;
        Ok((id, change))
    }

    /// Drafts an observation from `input` with source `source`, without writing it, for a commit that also makes other
    /// changes.
    ///
    /// # Errors
    ///
    /// The first field that is wrong.
    pub async fn draft_observation(
        &self,
        actor: &Actor,
        input: ObservationInput,
        source: Source,
        trust: Trust,
    ) -> Result<DraftedObservation, WorkspaceError> {
        let policy = self.policy_as_known().await?;
        let now = self.now();
        let unknown = UnknownType::under(&policy, actor.role);
        let input_bound = Bound::of(&input);
        let manifest = (actor.role == Role::Tool).then(|| policy.manifests.of(&actor.name));
        let trust = manifest.as_ref().map_or(trust, |manifest| trust.min(manifest.trust()));
        let mut draft = observation::draft(input, policy.types(), unknown, trust, source, now)?;
        if let Some(manifest) = manifest {
            let name = draft.fields.type_name.as_deref().unwrap_or_default();
            policy.manifests.check_adds(&actor.name, name)?;
            let ttl = policy.types().get(name).and_then(|known| known.default_ttl);
            draft
                .warnings
                .extend(manifest.bound(&mut draft.fields, &input_bound, ttl, now));
        }
        let registers = draft.registers.map(|as_type| Change::RegisterType {
            name: draft.fields.type_name.clone().unwrap_or_default(),
            as_type,
        });
        let new = NewEntry {
            id: EntryId::draw(&*self.inner.ids, now),
            page: page_of(self.space()).0,
            kind: EntryKind::Observation,
            fields: draft.fields,
        };
        Ok(DraftedObservation {
            new: Box::new(new),
            registers,
            at: now,
            warnings: draft.warnings,
            drafted_under: policy.version(),
        })
    }

    /// Adds an observation to the scratch page of the space. Its source is the actor, whatever the input says.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is wrong; otherwise as [`Workspace::record`].
    pub async fn add_observation(
        &self,
        actor: &Actor,
        input: ObservationInput,
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let added = self.try_add_observation(actor, input, idempotency_key).await;
        added.inspect_err(|error| self.note_failed_add(actor, EntryKind::Observation, error))
    }

    async fn try_add_observation(
        &self,
        actor: &Actor,
        input: ObservationInput,
        idempotency_key: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let mut attempt = 1;
        let (drafted_warnings, mut written) = loop {
            let known = self.policy_as_known().await?.version();
            let drafted = self
                .draft_observation(actor, input.clone(), source_of(actor), trust_of_role(actor))
                .await;
            let drafted = match drafted {
                Err(error) if attempt < DRAFTS_MAX => {
                    // The draft may be valid under the present policy.
                    if self.policy().await?.version() == known {
                        return Err(error);
                    }
                    attempt += 1;
                    continue;
                }
                drafted => drafted?,
            };
            let (_, page) = self.scratch_page().await?;
            let before = drafted.registers.into_iter().chain(page).collect();
            let write = Adding {
                before,
                after: Vec::new(),
                at: drafted.at,
                idempotency_key: idempotency_key.clone(),
                drafted_under: Some(drafted.drafted_under),
                expected: Vec::new(),
            };
            match self.add(actor, drafted.new, write).await {
                // The registered types or their lifetimes were changed meanwhile.
                Err(WorkspaceError::Store(StoreError::OtherPolicy { .. })) if attempt < DRAFTS_MAX => {
                    attempt += 1;
                    self.policy().await?;
                }
                written => break (drafted.warnings, written?),
            }
        };
        written = written.after(drafted_warnings);
        self.note_warnings(actor, "add", &written.entry, &written.warnings);
        Ok(written)
    }

    /// Adds one entry.
    pub(super) async fn add(
        &self,
        actor: &Actor,
        new: Box<NewEntry>,
        adding: Adding,
    ) -> Result<Written, WorkspaceError> {
        let (before, after) = (adding.before, adding.after);
        let changes = before.into_iter().chain([Change::AddEntry(new)]).chain(after).collect();
        let recorded = self
            .record(
                actor,
                Write {
                    at: Some(adding.at),
                    idempotency_key: adding.idempotency_key,
                    drafted_under: adding.drafted_under,
                    expected: adding.expected,
                    ..Write::of(changes)
                },
            )
            .await?;
        let (committed, warnings) = (recorded.committed, recorded.warnings);
        let added = recorded.record.changes.into_iter().find_map(|change| match change {
            Change::AddEntry(new) => Some(*new),
            _ => None,
        });
        let entry = match (added, committed.entries.first()) {
            // Nobody can have changed the entry before this first read.
            (Some(new), Some(entry)) if new.id == entry.id => {
                Entry::added(new, entry.handle, committed.seq, committed.at)
            }
            // The key was used before: this is the entry that was added then.
            (_, Some(entry)) => self.read_entry(Ref::Id(entry.id)).await?,
            (_, None) => {
                let message = "the idempotency key was used before, for something that added no entry";
                return Err(folio_memory::Invalid::new("key_reused", "idempotency_key", message).into());
            }
        };
        Ok(Written {
            entry,
            conflicts: Vec::new(),
            warnings,
            replayed: committed.replayed,
        })
    }

    /// Returns the observations that match `query`, whatever kinds it names.
    ///
    /// # Errors
    ///
    /// `Invalid` for a cursor of another query; `Unavailable` or `Corrupt`.
    pub async fn observations(&self, query: EntryQuery) -> Result<ListAnswer<Entry>, WorkspaceError> {
        self.entries(&EntryQuery {
            kinds: vec![EntryKind::Observation],
            ..query
        })
        .await
    }

    /// Changes an observation. Without `expected_version` the last writer of a field wins.
    ///
    /// # Errors
    ///
    /// `Invalid` names the first field that is wrong; `Conflict` if the observation is archived, if the actor may not
    /// change it, or if its version is not the expected one; `NotFound`.
    pub async fn update_observation(
        &self,
        actor: &Actor,
        observation: EntryRef,
        patch: ObservationPatch,
        expected_version: Option<u32>,
    ) -> Result<Written, WorkspaceError> {
        self.update_observation_under(actor, observation, patch, expected_version.into())
            .await
    }

    /// Like [`Workspace::update_observation`], under a [`Guard`]: the version that the caller had read, a key, a
    /// reason.
    ///
    /// # Errors
    ///
    /// As [`Workspace::update_observation`].
    pub async fn update_observation_under(
        &self,
        actor: &Actor,
        observation: EntryRef,
        patch: ObservationPatch,
        guard: Guard,
    ) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| Ok(observation::patch(current, patch.clone())?);
        self.patch_under(actor, observation, guard, Trying::to_update(), &[], changes)
            .await
    }

    /// Archives an entry of any kind. Archiving twice has no further effect, except that an entry archived
    /// automatically is kept from then on like one that somebody archived.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Conflict` if the actor may not change it.
    pub async fn archive(
        &self,
        actor: &Actor,
        entry: EntryRef,
        reason: Option<String>,
    ) -> Result<Written, WorkspaceError> {
        let guard = Guard {
            reason,
            ..Guard::default()
        };
        self.archive_under(actor, entry, guard).await
    }

    /// Like [`Workspace::archive`], under a [`Guard`]. A version is hardly needed: a later change does not bring an
    /// entry back.
    ///
    /// # Errors
    ///
    /// As [`Workspace::archive`].
    pub async fn archive_under(&self, actor: &Actor, entry: EntryRef, guard: Guard) -> Result<Written, WorkspaceError> {
        let changes = |current: &Entry| {
            let fields = &current.fields;
            let is_kept = fields.status == Status::Archived && fields.archived_for.is_none();
            // Nothing is left to keep of an erased entry.
            let change = (!is_kept && fields.erased.is_none()).then_some(FieldChange::Status(Status::Archived));
            Ok((change.into_iter().collect(), Vec::new()))
        };
        self.patch_under(actor, entry, guard, Trying::to("archive"), &[], changes)
            .await
    }

    /// Returns the live observations that matter most: by class, then by confidence, then the newest (M7.2.14).
    ///
    /// Returns at most `limit`, and never more than [`MAX_ACTIVE`].
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn active_observations(&self, limit: usize) -> Result<ListAnswer<Entry>, WorkspaceError> {
        self.active_observations_at(Moment(None), limit).await
    }

    /// Like [`Workspace::active_observations`], for callers that ask for more than this at one `moment`.
    ///
    /// # Errors
    ///
    /// As [`Workspace::active_observations`].
    pub async fn active_observations_at(
        &self,
        moment: Moment,
        limit: usize,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let Moment(mark) = moment;
        let watch = Stopwatch::start();
        let answer = self.read_active(mark, limit, Whose::AsAsked).await;
        if mark.is_some() {
            // It is part of a larger answer, which notes what it shows.
            return answer;
        }
        let query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            limit: u32::try_from(limit.min(MAX_ACTIVE)).unwrap_or(u32::MAX),
            ..EntryQuery::default()
        };
        self.note_query(Some("get_active_observations"), &query, &watch, &answer);
        answer
    }

    /// What `query` finds with the visibility of `audience`.
    pub(super) async fn entries_as(
        &self,
        audience: Whose,
        query: &EntryQuery,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        match audience {
            Whose::AsAsked => self.visible_entries(query).await,
            Whose::Stages => self.read_entries(query).await,
        }
    }

    /// The active observations that matter most, with the visibility of `audience`.
    pub(super) async fn read_active(
        &self,
        mark: Option<MemoryMark>,
        limit: usize,
        audience: Whose,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let limit = limit.min(MAX_ACTIVE);
        let query = by_priority(limit.max(1));
        let mut active = (*self.cached_entries(mark, audience, &query).await?).clone();
        active.items.truncate(limit);
        // This is always a single answer: to get all of them, list them.
        (active.returned, active.next) = (active.items.len(), None);
        Ok(active)
    }

    /// Like [`Workspace::read_active`], for what is decided or shown in `thread`: without the questions of the clarifier
    /// about inputs of other threads, unless `input` names them.
    pub(super) async fn read_active_in(
        &self,
        (thread, input): (&ThreadKey, &str),
        mark: Option<MemoryMark>,
        limit: usize,
        audience: Whose,
    ) -> Result<ListAnswer<Entry>, WorkspaceError> {
        let limit = limit.clamp(1, MAX_ACTIVE);
        let query = by_priority(limit);
        let mut active = (*self.cached_entries(mark, audience, &query).await?).clone();
        let mut elsewhere = self.clarifications_elsewhere(thread, input, &active.items).await?;
        if !elsewhere.is_empty() && active.next.is_some() {
            // What those have displaced is looked for behind them.
            let query = by_priority(MAX_LIMIT as usize);
            active = (*self.cached_entries(mark, audience, &query).await?).clone();
            elsewhere = self.clarifications_elsewhere(thread, input, &active.items).await?;
        }
        active.items.retain(|entry| !elsewhere.contains(&entry.id));
        active.items.truncate(limit);
        active.total = active.total.saturating_sub(elsewhere.len() as u64);
        (active.returned, active.next) = (active.items.len(), None);
        Ok(active)
    }
}

/// The query for the active observations that matter most.
fn by_priority(limit: usize) -> EntryQuery {
    EntryQuery {
        kinds: vec![EntryKind::Observation],
        status: vec![Status::Active, Status::PendingReview],
        order: Order::Priority,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        ..EntryQuery::default()
    }
}
