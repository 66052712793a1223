//! The effective policy, with built-in values wherever nothing is set: for people who want to see what applies.

use serde_json::{Map, Value, json};

use super::{SpacePolicy, TypePolicy};
use crate::observation::TypeRegistry;

/// One value of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyValue {
    /// The key of the value as `folio policy set` takes it: `retention.archive_after_minutes`.
    pub key: String,
    /// The effective value; `null` means forever.
    pub value: Value,
    /// Whether the value differs from the built-in one.
    pub is_set: bool,
}

impl SpacePolicy {
    /// The whole effective policy as one document, as if every value were written down.
    #[must_use]
    pub fn whole(&self) -> Value {
        let mut types = Map::new();
        let registry = TypeRegistry::default();
        for name in registry.names() {
            let known = registry.get(name).map(|built_in| TypePolicy::of(built_in.class));
            types.insert(name.to_owned(), json!(known));
        }
        types.extend(self.types.iter().map(|(name, known)| (name.to_owned(), json!(known))));
        let scratchbook = &self.scratchbook;
        json!({
            "types": types,
            "strict_types": self.strict_types,
            "redaction": self.redaction,
            "retention": self.retention,
            "quota": self.quota,
            "manifests": self.manifests,
            "scratchbook": {
                "enabled": scratchbook.enabled,
                "profile": scratchbook.profile,
                "path_prefix": scratchbook.path_prefix,
                "view_token_limit": scratchbook.view_tokens(),
                "max_rendered_items": scratchbook.max_rendered_items(),
                "auto_compact": scratchbook.auto_compact(),
                "include_tool_list_in_system_prompt": scratchbook.includes_tool_list(),
                "placement": scratchbook.placement(None),
            },
            "trace": self.trace,
        })
    }

    /// The effective policy value by value, in the order of the keys.
    #[must_use]
    pub fn in_force(&self) -> Vec<PolicyValue> {
        let built_in = Self::default().whole();
        let mut all = Vec::new();
        add(&mut all, String::new(), &self.whole(), Some(&built_in));
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }
}

/// Adds the values below `key`; `built_in` is the value that applies if nothing is set.
fn add(all: &mut Vec<PolicyValue>, key: String, value: &Value, built_in: Option<&Value>) {
    let Value::Object(inside) = value else {
        return all.push(PolicyValue {
            is_set: built_in != Some(value),
            key,
            value: value.clone(),
        });
    };
    let separator = if key.is_empty() { "" } else { "." };
    for (name, value) in inside {
        let built_in = built_in.and_then(|built_in| built_in.get(name));
        add(all, format!("{key}{separator}{name}"), value, built_in);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(policy: Value) -> Vec<String> {
        let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
        let all = policy.in_force().into_iter();
        all.filter(|one| one.is_set).map(|one| one.key).collect()
    }

    #[test]
    fn policy_lists_only_settings_that_differ_from_built_in_ones() {
        assert_eq!(set(json!({})), Vec::<String>::new());
        let one =
            json!({"retention": {"archive_after_minutes": 5}, "types": {"tide": {}, "alert": {"class": "alert"}}});
        assert_eq!(
            set(one),
            [
                "retention.archive_after_minutes",
                "types.tide.class",
                "types.tide.default_ttl_minutes"
            ]
        );
    }

    #[test]
    fn whole_policy_parses_back_to_an_equivalent_policy() {
        for policy in [
            json!({}),
            json!({"scratchbook": {"profile": "on_device"}, "quota": {"live_observations": 3}}),
        ] {
            let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
            let again: SpacePolicy = serde_json::from_value(policy.whole()).unwrap();
            assert_eq!(again.whole(), policy.whole());
            assert_eq!(again.check(), Ok(()));
        }
    }
}
