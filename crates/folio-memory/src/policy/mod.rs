//! The policy of a space: one JSON document, kept in the log like everything else.
//!
//! Every section has defaults, so an empty document is the policy of a new space. A person replaces the document as a
//! whole. A type that an open space meets for the first time is added automatically.

mod edit;
mod in_force;
mod registered;
mod scratchbook;

use serde::{Deserialize, Serialize};

pub use edit::{PolicyEdit, PolicyMistakes};
pub use in_force::PolicyValue;
pub use registered::{DEFAULT_TTL_MINUTES, MAX_TTL_MINUTES, MAX_TYPES, StrictTypes, TypePolicy, TypesPolicy};
pub use scratchbook::{Profile, SCRATCHBOOKS_OFF, SMALL_WINDOW, ScratchbookPolicy, within_share};

use crate::change::Change;
use crate::from_object::read_from_an_object;
use crate::id::Seq;
use crate::keeping::{QuotaPolicy, Redaction, RetentionPolicy};
use crate::tool_exchange::ManifestsPolicy;
use crate::trace::TracePolicy;
use crate::warning::Invalid;

/// The rules of a space. Each section is a file of this folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct SpacePolicy {
    /// Observation types registered in addition to the built-in ones, or overriding them (M7.3.22).
    #[serde(skip_serializing_if = "TypesPolicy::is_empty")]
    pub types: TypesPolicy,
    /// For whom an unregistered type is an error.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub strict_types: StrictTypes,
    /// What is redacted from texts before they are stored (M7.6.48).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub redaction: Redaction,
    /// How long content is kept (M7.6.44, M7.6.49).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub retention: RetentionPolicy,
    /// How much the space may hold (M7.6.46).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub quota: QuotaPolicy,
    /// What tools may add and see (M7.3.23).
    #[serde(skip_serializing_if = "ManifestsPolicy::is_empty")]
    pub manifests: ManifestsPolicy,
    /// How much of a scratchbook a model reads, and where (M7.8).
    #[serde(alias = "scratchbook_policy", skip_serializing_if = "crate::is_default")]
    pub scratchbook: ScratchbookPolicy,
    /// Which notes of the trace are kept, and for how long (M7.10).
    #[serde(skip_serializing_if = "crate::is_default")]
    pub trace: TracePolicy,
}

read_from_an_object!(SpacePolicy);

impl SpacePolicy {
    /// Checks that every section is valid.
    ///
    /// # Errors
    ///
    /// The first section that is wrong, with the reason.
    pub fn check(&self) -> Result<(), Invalid> {
        self.mistakes().into_iter().next().map_or(Ok(()), Err)
    }

    /// What is wrong with the values, in all sections.
    fn mistakes(&self) -> Vec<Invalid> {
        let mut all = self.types.mistakes();
        all.extend(self.manifests.mistakes());
        all.extend(self.quota.mistake());
        all.extend(self.scratchbook.mistakes());
        all
    }
}

/// A policy with its place in the log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeptPolicy {
    /// The number of revisions; zero for a space whose policy was never set.
    pub version: u32,
    /// The commit that last changed the policy; zero if none did.
    pub changed_seq: Seq,
    /// The policy itself.
    pub policy: SpacePolicy,
}

impl KeptPolicy {
    /// Applies `change`, made by commit `seq`, and returns whether anything changed. A document equal to the current
    /// one, or a type that is registered already, changes nothing.
    pub fn apply(&mut self, change: &Change, seq: Seq) -> bool {
        let changed = match change {
            Change::SetPolicy { policy, .. } if **policy != self.policy => {
                self.policy.clone_from(policy);
                true
            }
            Change::RegisterType { name, as_type } => self.policy.types.register(name, as_type.clone()),
            _ => false,
        };
        if changed {
            self.version += 1;
            self.changed_seq = seq;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observation::Class;

    fn policy(value: serde_json::Value) -> SpacePolicy {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn default_policy_is_an_empty_document() {
        assert_eq!(policy(json!({})), SpacePolicy::default());
        assert_eq!(serde_json::to_value(SpacePolicy::default()).unwrap(), json!({}));
    }

    #[test]
    fn quota_of_zero_is_refused_m7_6_46() {
        let told = policy(json!({"quota": {"live_observations": 0}})).check().unwrap_err();
        assert_eq!(told.code, "policy_invalid");
        assert!(told.message.contains("for no limit, give"), "{told}");
        assert!(policy(json!({"quota": {"live_observations": 1}})).check().is_ok());
        assert!(
            policy(json!({"quota": {"live_observations": u64::MAX}}))
                .check()
                .is_ok()
        );
    }

    #[test]
    fn unknown_policy_keys_are_refused() {
        for (policy, key) in [
            (json!({"typs": {}}), "typs"),
            (json!({"types": {"x": {"clas": "alert"}}}), "clas"),
        ] {
            let error = serde_json::from_value::<SpacePolicy>(policy).unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown field `{key}`")), "{error}");
        }
    }

    #[test]
    fn list_in_place_of_a_policy_object_is_refused() {
        for list in [
            json!([]),
            json!([{"weather": {}}]),
            json!({"retention": []}),
            json!({"quota": [5]}),
            json!({"scratchbook": []}),
            json!({"trace": []}),
            json!({"types": {"weather": ["alert", 5]}}),
            json!({"manifests": {"x": []}}),
            json!({"manifests": {"x": {"reads": []}}}),
        ] {
            let error = serde_json::from_value::<SpacePolicy>(list.clone()).unwrap_err();
            assert!(error.to_string().contains("expected an object"), "{list}: {error}");
        }
    }

    #[test]
    fn set_policy_replaces_the_document_and_types_register_once() {
        let mut kept = KeptPolicy::default();
        let set = |value| Change::SetPolicy {
            policy: Box::new(policy(value)),
            expected_version: None,
        };
        let register = |class| Change::RegisterType {
            name: "weather".to_owned(),
            as_type: TypePolicy::of(class),
        };
        assert!(!kept.apply(&set(json!({})), Seq(1)), "it is as wished");
        assert!(kept.apply(&set(json!({"strict_types": "nobody"})), Seq(2)));
        assert!(kept.apply(&register(Class::Insight), Seq(3)));
        assert!(
            !kept.apply(&register(Class::Alert), Seq(4)),
            "the first who needs a type registers it"
        );
        assert_eq!((kept.version, kept.changed_seq), (2, Seq(3)));
        assert_eq!(kept.policy.strict_types, StrictTypes::Nobody);
        assert_eq!(kept.policy.types.get("weather").unwrap().class, Class::Insight);
    }
}
