//! The registry of observation types (M7.3.22).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::{SpacePolicy, TypePolicy};

/// The maximum length of a type's name in bytes.
pub(super) const MAX_TYPE_BYTES: usize = 64;

/// How a type is treated. Ordered by importance to a reader: alerts first (M7.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Something is wrong or dangerous.
    Alert,
    /// Somebody has to confirm or decline.
    PendingConfirmation,
    /// Something has to happen first, or at a certain time.
    #[serde(alias = "reminder")]
    Dependency,
    /// Something could be done.
    ActionSuggestion,
    /// Something was noticed.
    #[default]
    #[serde(rename = "observation", alias = "insight")]
    Insight,
    /// Something keeps happening.
    Pattern,
}

impl Class {
    /// Every class, the most important first.
    pub const ALL: [Self; 6] = [
        Self::Alert,
        Self::PendingConfirmation,
        Self::Dependency,
        Self::ActionSuggestion,
        Self::Insight,
        Self::Pattern,
    ];

    /// The class's priority, from 1 for the most important.
    #[must_use]
    pub fn priority(self) -> u32 {
        match self {
            Self::Alert => 1,
            Self::PendingConfirmation => 2,
            Self::Dependency => 3,
            Self::ActionSuggestion => 4,
            Self::Insight => 5,
            Self::Pattern => 6,
        }
    }
}

/// The properties of an observation type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationType {
    /// The class of the type.
    pub class: Class,
    /// The lifetime of its observations if their writer gives none; `None` means forever.
    pub default_ttl: Option<Duration>,
    /// The type's priority; lower comes first.
    pub priority: u32,
}

impl From<&TypePolicy> for ObservationType {
    fn from(known: &TypePolicy) -> Self {
        Self {
            class: known.class,
            default_ttl: known
                .default_ttl_minutes
                .map(|minutes| Duration::from_secs(u64::from(minutes) * 60)),
            priority: known.priority.unwrap_or_else(|| known.class.priority()),
        }
    }
}

/// The observation types that a space knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRegistry {
    types: BTreeMap<String, ObservationType>,
}

/// The maximum number of names that a refusal lists.
const NAMES_TOLD: usize = 20;

const BUILT_IN: [(&str, Class); 13] = [
    ("pending_confirmation", Class::PendingConfirmation),
    ("contextual_insight", Class::Insight),
    ("risk_alert", Class::Alert),
    ("observation", Class::Insight),
    ("action_suggestion", Class::ActionSuggestion),
    ("pattern_detected", Class::Pattern),
    ("dependency", Class::Dependency),
    ("reminder", Class::Dependency),
    ("alert", Class::Alert),
    ("error_alert", Class::Alert),
    ("security_alert", Class::Alert),
    ("recovery_plan", Class::ActionSuggestion),
    ("learning", Class::Insight),
];

impl Default for TypeRegistry {
    /// The built-in types, all with the lifetime of M7.1.5: seven days.
    fn default() -> Self {
        Self::of(&SpacePolicy::default())
    }
}

impl TypeRegistry {
    /// The built-in types, with those that `policy` adds or overrides.
    #[must_use]
    pub fn of(policy: &SpacePolicy) -> Self {
        let built_in = BUILT_IN
            .iter()
            .map(|(name, class)| ((*name).to_owned(), (&TypePolicy::of(*class)).into()));
        let registered = policy.types.iter().map(|(name, known)| (name.to_owned(), known.into()));
        Self {
            types: built_in.chain(registered).collect(),
        }
    }

    /// The class of the type `name`, if it is built in and no policy overrides it.
    pub(crate) fn built_in_class(name: &str) -> Option<Class> {
        let found = BUILT_IN.iter().find(|(built_in, _)| *built_in == name);
        found.map(|(_, class)| *class)
    }

    /// The properties of the type `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ObservationType> {
        self.types.get(name)
    }

    /// The names for people, sorted. If there are very many, only the first are listed.
    pub(super) fn listed(&self) -> String {
        let names: Vec<&str> = self.names().take(NAMES_TOLD).collect();
        match self.types.len() - names.len() {
            0 => names.join(", "),
            left_count => format!("{}, and {left_count} more", names.join(", ")),
        }
    }

    /// The names of all types, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// Whether `name` is a valid name of a type: `^[a-z][a-z0-9_]{0,63}$`.
    #[must_use]
    pub fn is_well_formed(name: &str) -> bool {
        name.len() <= MAX_TYPE_BYTES
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_names_are_validated_by_characters_and_length_m7_3_22() {
        for fine in ["a", "risk_alert", "x9_", &"a".repeat(64)] {
            assert!(TypeRegistry::is_well_formed(fine), "{fine}");
        }
        for wrong in ["", "A", "9a", "_a", "a-b", "a b", "ä", "a\n", &"a".repeat(65)] {
            assert!(!TypeRegistry::is_well_formed(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn built_in_types_have_a_lifetime_of_seven_days_m7_1_5() {
        let types = TypeRegistry::default();
        let week = Some(Duration::from_secs(7 * 24 * 60 * 60));
        let ttls: Vec<_> = types.names().map(|name| types.get(name).unwrap().default_ttl).collect();
        assert!(ttls.len() > 10 && ttls.iter().all(|ttl| *ttl == week), "{ttls:?}");
    }

    #[test]
    fn policy_registers_types_and_overrides_built_in_ones_m7_3_22() {
        let policy = json!({"types": {
            "weather": {"class": "reminder", "default_ttl_minutes": 60},
            "learning": {"default_ttl_minutes": null, "priority": 1},
        }});
        let types = TypeRegistry::of(&serde_json::from_value(policy).unwrap());
        let weather = types.get("weather").unwrap();
        assert_eq!((weather.class, weather.priority), (Class::Dependency, 3));
        assert_eq!(weather.default_ttl, Some(Duration::from_secs(3600)));
        let learning = types.get("learning").unwrap();
        assert_eq!(
            (learning.class, learning.priority, learning.default_ttl),
            (Class::Insight, 1, None)
        );
        assert_eq!(types.names().count(), BUILT_IN.len() + 1);
    }
}
