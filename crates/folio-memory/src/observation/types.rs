//! The registry of observation types (M7.3.22).

use std::collections::BTreeMap;
use std::time::Duration;

/// What a type is treated as. Ordered as a reader wants it: an alert first (M7.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Something is wrong or dangerous.
    Alert,
    /// Somebody has to say yes or no.
    PendingConfirmation,
    /// Something has to happen first, or at a time.
    Dependency,
    /// Something could be done.
    ActionSuggestion,
    /// Something was noticed.
    Insight,
    /// Something keeps happening.
    Pattern,
}

/// What is known of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationType {
    /// What it is treated as.
    pub class: Class,
    /// How long it holds unless something else is said.
    pub default_ttl: Duration,
}

/// The types that a space knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRegistry {
    types: BTreeMap<String, ObservationType>,
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Default for TypeRegistry {
    /// The built-in types, all with the lifetime of M7.1.5: seven days.
    fn default() -> Self {
        let built_in = [
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
        let types = built_in
            .into_iter()
            .map(|(name, class)| {
                (
                    name.to_owned(),
                    ObservationType {
                        class,
                        default_ttl: WEEK,
                    },
                )
            })
            .collect();
        Self { types }
    }
}

impl TypeRegistry {
    /// What is known of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ObservationType> {
        self.types.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// Whether `name` could be a type: `^[a-z][a-z0-9_]{0,63}$`.
    #[must_use]
    pub fn is_well_formed(name: &str) -> bool {
        name.len() <= 64
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    }
}
