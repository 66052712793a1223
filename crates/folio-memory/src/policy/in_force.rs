//! The effective policy, with built-in values wherever nothing is set: for people who want to see what applies.

use serde_json::{Map, Value, json};

use super::{SpacePolicy, TypePolicy};
use crate::observation::TypeRegistry;
use crate::query::path_of;

/// One value of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyValue {
    /// The key of the value as `folio policy set` takes it: `retention.archive_after_minutes`.
    pub key: String,
    /// The effective value; `null` means forever, or what the note says.
    pub value: Value,
    /// Whether the document sets it, be it to the built-in value.
    pub is_set: bool,
    /// What applies if nothing is set and no single value does.
    pub note: Option<&'static str>,
}

/// The key of the place of a view, which has no built-in value.
const PLACEMENT: &str = "scratchbook.placement";
/// What decides on the place of a view unless the policy does.
const BY_THE_WINDOW: &str = "by the window of the model";

impl SpacePolicy {
    /// The whole effective policy as one document, as if every value were written down.
    #[must_use]
    pub fn whole(&self) -> Value {
        let mut types = Map::new();
        let registry = TypeRegistry::default();
        for name in registry.names() {
            let known = registry.get(name).map(|built_in| TypePolicy::of(built_in.class));
            types.extend(known.map(|known| (name.to_owned(), with_priority(known))));
        }
        let set = self.types.iter();
        types.extend(set.map(|(name, known)| (name.to_owned(), with_priority(known.clone()))));
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
                // Without a value, it depends on the window of the model.
                "placement": scratchbook.placement,
            },
            "trace": self.trace,
        })
    }

    /// The effective policy value by value, in the order of the keys.
    #[must_use]
    pub fn in_force(&self) -> Vec<PolicyValue> {
        let mut all = Vec::new();
        add(&mut all, String::new(), &self.whole(), Some(&json!(self)));
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }
}

/// A type with the priority that it has, be it that of its class.
fn with_priority(mut known: TypePolicy) -> Value {
    known.priority.get_or_insert(known.class.priority());
    json!(known)
}

/// Adds the values below `key`; `set` is what the document sets there.
fn add(all: &mut Vec<PolicyValue>, key: String, value: &Value, set: Option<&Value>) {
    let Value::Object(inside) = value else {
        let is_set = set.is_some();
        return all.push(PolicyValue {
            note: (!is_set && key == PLACEMENT).then_some(BY_THE_WINDOW),
            is_set,
            key,
            value: value.clone(),
        });
    };
    let separator = if key.is_empty() { "" } else { "." };
    for (name, value) in inside {
        let set = set.and_then(|set| set.get(name));
        let name = path_of([name.as_str()]);
        add(all, format!("{key}{separator}{name}"), value, set);
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
    fn policy_marks_exactly_what_its_document_sets() {
        assert_eq!(set(json!({})), Vec::<String>::new());
        let types = json!({"types": {"tide": {}, "alert": {"class": "alert"}}});
        assert_eq!(
            set(types),
            [
                "types.alert.class",
                "types.alert.default_ttl_minutes",
                "types.tide.class",
                "types.tide.default_ttl_minutes"
            ]
        );
        // What the profile decides is not set by anybody.
        let profile = json!({"scratchbook": {"profile": "on_device"}});
        let beside = ["scratchbook.enabled", "scratchbook.path_prefix", "scratchbook.profile"];
        assert_eq!(set(profile), beside);
        // One of its keys sets a section as a whole.
        let retention = set(json!({"retention": {"purge_after_minutes": null}}));
        assert_eq!(retention.len(), 6, "{retention:?}");
    }

    #[test]
    fn unset_placement_of_a_view_is_left_to_the_window() {
        for (policy, value, note) in [
            (json!({}), Value::Null, Some(BY_THE_WINDOW)),
            (json!({"profile": "on_device"}), Value::Null, Some(BY_THE_WINDOW)),
            (json!({"placement": "tail"}), json!("tail"), None),
        ] {
            let policy: SpacePolicy = serde_json::from_value(json!({ "scratchbook": policy })).unwrap();
            let all = policy.in_force();
            let noted: Vec<_> = all
                .iter()
                .filter(|one| one.note.is_some() || one.key == PLACEMENT)
                .collect();
            assert_eq!(noted.len(), 1, "{noted:?}");
            assert_eq!((&noted[0].value, noted[0].note), (&value, note));
        }
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
