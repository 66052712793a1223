//! The policy of the space: read when it is needed, set by people.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use folio_memory::observation::TypeRegistry;
use folio_memory::policy::PolicyEdit;
use folio_memory::roles::Operation;
use folio_memory::{Actor, Change, KeptPolicy, Role, Seq, SpacePolicy, Trust, Warning};

use super::{Guard, Workspace, WorkspaceError, Write, trust_of_role};
use crate::error::StoreError;

/// How often a change of single keys is made again because somebody else changes the policy meanwhile.
const ATTEMPTS: u32 = 8;

/// The policy in force in a space, with what is derived from it. Its sections are read directly: `policy.strict_types`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyInForce {
    kept: KeptPolicy,
    types: TypeRegistry,
}

impl PolicyInForce {
    fn of(kept: KeptPolicy) -> Self {
        Self {
            types: TypeRegistry::of(&kept.policy),
            kept,
        }
    }

    /// The number of its revision; zero for the policy of a space where nobody has set one.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.kept.version
    }

    /// The commit that last changed it; zero if none did.
    #[must_use]
    pub fn changed_seq(&self) -> Seq {
        self.kept.changed_seq
    }

    /// The whole document.
    #[must_use]
    pub fn document(&self) -> &SpacePolicy {
        &self.kept.policy
    }

    /// The observation types known in the space.
    #[must_use]
    pub fn types(&self) -> &TypeRegistry {
        &self.types
    }
}

impl Deref for PolicyInForce {
    type Target = SpacePolicy;

    fn deref(&self) -> &SpacePolicy {
        &self.kept.policy
    }
}

impl Workspace {
    /// Returns the policy in force now, whoever set it. Costs a look at its version, and nothing else while nobody
    /// changes it.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn policy(&self) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        self.keep_up().await?;
        let version = self.inner.policy.lock().version();
        let newer = self.inner.store.newer_policy(&self.inner.space, version).await?;
        let mut known = self.inner.policy.lock();
        // Somebody else may have read it meanwhile.
        if let Some(kept) = newer.filter(|newer| newer.version > known.version()) {
            if kept.policy.quota != known.quota {
                // The remaining room was counted for the old quota: the next add checks again.
                self.inner.adds_left.store(0, Ordering::Relaxed);
            }
            *known = Arc::new(PolicyInForce::of(kept));
        }
        self.inner.policy_was_read.store(true, Ordering::Release);
        let read_at = self.inner.clock.now().as_nanos();
        self.inner.policy_read_at.store(read_at, Ordering::Release);
        Ok(Arc::clone(&known))
    }

    /// Returns the policy as this process last read it, for writes that carry
    /// [`Expected::Policy`](crate::Expected::Policy) and so find out whether it still holds. Reads the store only the
    /// first time.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn policy_as_known(&self) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        self.drop_caches_of_other_lineage();
        if self.inner.policy_was_read.load(Ordering::Acquire) {
            return Ok(Arc::clone(&self.inner.policy.lock()));
        }
        self.policy().await
    }

    /// The trust of what `actor` writes: for a tool, by its manifest as known to this process.
    pub(super) fn trust_of(&self, actor: &Actor) -> Trust {
        if actor.role != Role::Tool {
            return trust_of_role(actor);
        }
        let known = self.inner.policy.lock();
        known.manifests.of(&actor.name).trust()
    }

    /// The trust of what the tool `name` says; without a name, the least that any tool has.
    pub(super) fn trust_of_tool(&self, name: &str) -> Trust {
        if name.is_empty() {
            return Trust::ToolExternal;
        }
        let known = self.inner.policy.lock();
        known.manifests.of(name).trust()
    }

    /// Whether a summary may quote results of the tool `name`.
    pub(super) fn may_quote_tool(&self, name: &str) -> bool {
        self.inner.policy.lock().manifests.may_be_quoted(name)
    }

    /// Returns the policy in force to somebody who wants to see it.
    ///
    /// # Errors
    ///
    /// `Refused` for those who may not read the whole space; `Unavailable` or `Corrupt`.
    pub async fn policy_to_read(&self) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        self.require_space_read("the policy of the space")?;
        self.policy().await
    }

    /// Replaces the policy of the space as a whole. Only for people.
    ///
    /// # Errors
    ///
    /// As [`Workspace::set_policy_under`].
    pub async fn set_policy(
        &self,
        actor: &Actor,
        policy: SpacePolicy,
        expected_version: Option<u32>,
        reason: Option<String>,
    ) -> Result<(Arc<PolicyInForce>, Vec<Warning>), WorkspaceError> {
        let guard = Guard {
            expected_version,
            reason,
            ..Guard::default()
        };
        let set = self.set_policy_under(actor, policy, guard).await?;
        Ok((set.in_force, set.warnings))
    }

    /// The same under the conditions of `guard`.
    ///
    /// # Errors
    ///
    /// `Invalid` names what is wrong; `Conflict` unless the actor is a person, or if the version in force is not the
    /// expected one; otherwise as [`Workspace::record`].
    pub async fn set_policy_under(
        &self,
        actor: &Actor,
        policy: SpacePolicy,
        guard: Guard,
    ) -> Result<PolicySet, WorkspaceError> {
        self.check_may_set_policy(actor)?;
        policy.check()?;
        let change = Change::SetPolicy {
            policy: Box::new(policy),
            expected_version: guard.expected_version,
        };
        let write = Write {
            reason: guard.reason,
            idempotency_key: guard.idempotency_key,
            ..Write::of(vec![change])
        };
        let recorded = self.record(actor, write).await?;
        Ok(PolicySet {
            in_force: self.policy().await?,
            warnings: recorded.warnings,
            replayed: recorded.committed.replayed,
        })
    }

    /// Changes single keys of the policy. Only for people. Without an expected version, the change is made to whatever
    /// is in force.
    ///
    /// # Errors
    ///
    /// `Policy` names all mistakes; otherwise as [`Workspace::set_policy_under`].
    pub async fn change_policy(
        &self,
        actor: &Actor,
        edit: &PolicyEdit,
        guard: Guard,
    ) -> Result<PolicySet, WorkspaceError> {
        self.check_may_set_policy(actor)?;
        // What the request did once may be impossible now.
        if let Some(key) = &guard.idempotency_key
            && self.is_recorded(actor, key).await?
        {
            return Ok(PolicySet {
                in_force: self.policy().await?,
                warnings: Vec::new(),
                replayed: true,
            });
        }
        let mut attempt = 1;
        loop {
            let now = self.policy().await?;
            let policy = now.document().edited(edit)?;
            let guarded = Guard {
                expected_version: guard.expected_version.or(Some(now.version())),
                ..guard.clone()
            };
            match self.set_policy_under(actor, policy, guarded).await {
                Err(WorkspaceError::Store(StoreError::StalePolicy { .. }))
                    if guard.expected_version.is_none() && attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Refuses everybody who may not set the policy.
    ///
    /// # Errors
    ///
    /// `Refused` unless the actor is a person.
    pub fn check_may_set_policy(&self, actor: &Actor) -> Result<(), WorkspaceError> {
        let note_name = ("policy", "set_policy");
        self.authorise(actor, Operation::SetPolicy, "the policy of the space", note_name)
    }
}

/// A policy that was set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PolicySet {
    /// The policy now in force.
    pub in_force: Arc<PolicyInForce>,
    /// What was redacted.
    pub warnings: Vec<Warning>,
    /// Whether an earlier call with the same key had set it already.
    pub replayed: bool,
}
