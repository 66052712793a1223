//! The section `types`: the registered observation types, and who may use others (M7.3.22).

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::actor::Role;
use crate::from_object::read_from_an_object;
use crate::observation::{Class, TypeRegistry};
use crate::warning::Invalid;

/// The lifetime of an observation if neither its writer nor its type sets one (M7.1.5): seven days.
pub const DEFAULT_TTL_MINUTES: u32 = 7 * 24 * 60;

/// The longest lifetime that can be set: a year.
pub const MAX_TTL_MINUTES: u32 = 525_600;

/// The maximum number of types that a space registers. More types than this are really tags.
pub const MAX_TYPES: usize = 1000;

/// The settings of a registered type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct TypePolicy {
    /// The class of the type.
    #[serde(default)]
    pub class: Class,
    /// The lifetime of its observations if their writer gives none; `null` means forever.
    #[serde(default = "default_ttl_minutes")]
    pub default_ttl_minutes: Option<u32>,
    /// The type's priority, lower first; if left out, that of its class (M7.2.14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

read_from_an_object!(TypePolicy);

impl TypePolicy {
    /// A type of `class` with the default lifetime.
    #[must_use]
    pub fn of(class: Class) -> Self {
        Self {
            class,
            default_ttl_minutes: default_ttl_minutes(),
            priority: None,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "none would be for ever")]
fn default_ttl_minutes() -> Option<u32> {
    Some(DEFAULT_TTL_MINUTES)
}

/// For whom an unregistered type is an error. For everybody else its first use registers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrictTypes {
    /// For tools and everybody else who is not a person.
    #[default]
    Tools,
    /// For people as well.
    Everybody,
    /// For nobody.
    Nobody,
}

impl StrictTypes {
    /// Whether an unregistered type is an error for `role`.
    #[must_use]
    pub fn holds_for(self, role: Role) -> bool {
        match self {
            Self::Tools => role != Role::Human,
            Self::Everybody => true,
            Self::Nobody => false,
        }
    }
}

/// Registered types by name. A document that says nothing of the class of a built-in type leaves it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct TypesPolicy(BTreeMap<String, TypePolicy>);

impl<'de> Deserialize<'de> for TypesPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let with_class = |(name, mut settings): (String, Value)| {
            if let (Some(class), Value::Object(settings)) = (TypeRegistry::built_in_class(&name), &mut settings) {
                settings.entry("class").or_insert_with(|| json!(class));
            }
            let known: TypePolicy = Deserialize::deserialize(settings).map_err(D::Error::custom)?;
            Ok((name, known))
        };
        given.into_iter().map(with_class).collect::<Result<_, _>>().map(Self)
    }
}

impl TypesPolicy {
    /// Whether no type is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many types are registered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no further type can be registered.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= MAX_TYPES
    }

    /// The settings of the type `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&TypePolicy> {
        self.0.get(name)
    }

    /// All registered types, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TypePolicy)> {
        self.0.iter().map(|(name, known)| (name.as_str(), known))
    }

    /// Registers `name` unless it is registered; returns whether it was added.
    pub fn register(&mut self, name: &str, as_type: TypePolicy) -> bool {
        let is_new = !self.0.contains_key(name);
        if is_new {
            self.0.insert(name.to_owned(), as_type);
        }
        is_new
    }

    /// What is wrong with the types.
    pub(super) fn mistakes(&self) -> Vec<Invalid> {
        let wrong = |message| Invalid::new("policy_invalid", "types", message);
        let mut all = Vec::new();
        if self.0.len() > MAX_TYPES {
            all.push(wrong(format!("{} types are more than {MAX_TYPES}", self.0.len())));
        }
        for (name, known) in &self.0 {
            if !TypeRegistry::is_well_formed(name) {
                all.push(wrong(format!(
                    "{name:?} is not a type name: a-z, 0-9 and _, beginning with a letter"
                )));
            }
            if let Some(minutes) = known.default_ttl_minutes.filter(|minutes| *minutes > MAX_TTL_MINUTES) {
                all.push(wrong(format!(
                    "{minutes} minutes of {name} are more than {MAX_TTL_MINUTES}"
                )));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(types: Value, message: Option<&str>) {
        let types: TypesPolicy = serde_json::from_value(types).unwrap();
        let found = types.mistakes().into_iter().next();
        match (&found, message) {
            (Some(found), Some(message)) => assert!(found.message.contains(message), "{found}"),
            _ => assert_eq!(found.is_some(), message.is_some(), "{types:?}"),
        }
    }

    #[test]
    fn type_with_an_invalid_name_or_lifetime_is_refused_m7_3_22() {
        check(
            json!({"weather": {"class": "alert", "default_ttl_minutes": null, "priority": 1}}),
            None,
        );
        check(json!({"weather": {}}), None);
        check(json!({"No Such": {}}), Some("is not a type name"));
        check(
            json!({"weather": {"default_ttl_minutes": 525_601}}),
            Some("are more than 525600"),
        );
    }

    #[test]
    fn settings_not_given_for_a_built_in_type_stay_built_in_m7_3_22() {
        let types: TypesPolicy = serde_json::from_value(json!({
            "security_alert": {"default_ttl_minutes": 5},
            "alert": {"class": "insight"},
            "weather": {"priority": 3},
        }))
        .unwrap();
        let of = |name| types.get(name).map(|known| (known.class, known.default_ttl_minutes));
        assert_eq!(of("security_alert"), Some((Class::Alert, Some(5))));
        assert_eq!(of("alert"), Some((Class::Insight, Some(DEFAULT_TTL_MINUTES))));
        assert_eq!(of("weather"), Some((Class::default(), Some(DEFAULT_TTL_MINUTES))));
    }

    #[test]
    fn strict_types_setting_selects_the_roles_it_holds_for_m7_3_22() {
        for (strict, tool, person) in [
            (StrictTypes::Tools, true, false),
            (StrictTypes::Everybody, true, true),
            (StrictTypes::Nobody, false, false),
        ] {
            assert_eq!(
                (strict.holds_for(Role::Tool), strict.holds_for(Role::Human)),
                (tool, person)
            );
        }
    }
}
