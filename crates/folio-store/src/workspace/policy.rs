//! What holds in the space: read when it is needed, set by people.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use folio_memory::observation::TypeRegistry;
use folio_memory::roles::Operation;
use folio_memory::{Actor, Change, KeptPolicy, Role, Seq, SpacePolicy, Trust, Warning};

use super::{Workspace, WorkspaceError, Write, trust_of};

/// What holds in a space, with what follows from it. Sections are read right from it: `policy.strict_types`.
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

    /// Counts its revisions; zero is the policy of a space where nobody has set one.
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

    /// The observation types that the space knows.
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
    /// What holds now, whoever set it: costs one row, and nothing else as long as nobody changes it.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn policy(&self) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        self.keep_up().await?;
        let kept = self.inner.store.policy(&self.inner.space).await?;
        let mut known = self.inner.policy.lock();
        if kept.version > known.version() {
            if kept.policy.quota != known.quota {
                // Until it is looked again, as many may come as there was room for.
                self.inner.adds_left.store(0, Ordering::Relaxed);
            }
            *known = Arc::new(PolicyInForce::of(kept));
        }
        self.inner.policy_was_read.store(true, Ordering::Release);
        Ok(Arc::clone(&known))
    }

    /// What held when this process last looked: for writes that carry [`Expected::Policy`](crate::Expected::Policy), and so
    /// find out whether it still does. Asks the store the first time only.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn policy_as_known(&self) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        self.keep_to_lineage();
        if self.inner.policy_was_read.load(Ordering::Acquire) {
            return Ok(Arc::clone(&self.inner.policy.lock()));
        }
        self.policy().await
    }

    /// How far what `actor` writes may be believed, by what this process knows to be declared of it if it is a tool.
    pub(super) fn trust_of(&self, actor: &Actor) -> Trust {
        if actor.role != Role::Tool {
            return trust_of(actor);
        }
        let known = self.inner.policy.lock();
        known.manifests.of(&actor.name).trust()
    }

    /// How far what the tool `name` says may be believed; of one without a name, as little as of any.
    pub(super) fn trust_of_tool(&self, name: &str) -> Trust {
        if name.is_empty() {
            return Trust::ToolExternal;
        }
        let known = self.inner.policy.lock();
        known.manifests.of(name).trust()
    }

    /// Replaces what holds in the space, all of it. Only for people.
    ///
    /// # Errors
    ///
    /// `Invalid` names the section that is wrong; `Conflict` if the actor is no person, or somebody else set another
    /// version than `expected_version`; otherwise as [`Workspace::record`].
    pub async fn set_policy(
        &self,
        actor: &Actor,
        policy: SpacePolicy,
        expected_version: Option<u32>,
        reason: Option<String>,
    ) -> Result<(Arc<PolicyInForce>, Vec<Warning>), WorkspaceError> {
        let noted = ("policy", "set_policy");
        self.authorise(actor, Operation::SetPolicy, "the policy of the space", noted)?;
        policy.check()?;
        let change = Change::SetPolicy {
            policy: Box::new(policy),
            expected_version,
        };
        let write = Write {
            reason,
            ..Write::of(vec![change])
        };
        let recorded = self.record(actor, write).await?;
        Ok((self.policy().await?, recorded.warnings))
    }
}
