//! The order of observations by importance (M7.2.14).

use std::cmp::Ordering;

use super::types::{Class, TypeRegistry};
use crate::entry::Entry;
use crate::query::TypeRanks;

impl TypeRegistry {
    /// The class of the type `name`. An unknown type is an insight.
    #[must_use]
    pub fn class_of(&self, name: Option<&str>) -> Class {
        name.and_then(|name| self.get(name))
            .map_or(Class::Insight, |known| known.class)
    }

    /// The priority of the type `name`; lower comes first. An unknown type has the priority of an insight.
    #[must_use]
    pub fn priority_of(&self, name: Option<&str>) -> u32 {
        name.and_then(|name| self.get(name))
            .map_or_else(|| Class::Insight.priority(), |known| known.priority)
    }

    /// The ranks of all types, for a query by priority.
    #[must_use]
    pub fn ranks(&self) -> TypeRanks {
        let other = self.priority_of(None);
        // A type with the same rank as unregistered ones need not be listed. This keeps the order, and with it the
        // cursors of lists, valid when a write registers such a type meanwhile (M7.2.15).
        let known = self.names().map(|name| (name.to_owned(), self.priority_of(Some(name))));
        TypeRanks {
            known: known.filter(|(_, rank)| *rank != other).collect(),
            other,
        }
    }

    /// The names of the registered types of `class`, sorted.
    pub fn names_in(&self, class: Class) -> impl Iterator<Item = &str> {
        self.names().filter(move |name| self.class_of(Some(name)) == class)
    }
}

/// Compares by the priority of the type (that of its class, unless the space sets another), then by confidence, highest
/// first, then newest first. A total order: no two entries are equal.
#[must_use]
pub fn by_priority(types: &TypeRegistry, a: &Entry, b: &Entry) -> Ordering {
    let priority = |entry: &Entry| types.priority_of(entry.fields.type_name.as_deref());
    let confidence = |entry: &Entry| entry.fields.confidence.map_or(0.0, |confidence| confidence.value());
    priority(a)
        .cmp(&priority(b))
        .then_with(|| confidence(b).total_cmp(&confidence(a)))
        .then_with(|| b.handle.cmp(&a.handle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::change::NewEntry;
    use crate::entry::{Confidence, EntryFields, EntryKind, Owner};
    use crate::id::{EntryHandle, EntryId, PageId, Seq};
    use crate::time::Timestamp;

    fn entry(handle: u64, type_name: &str, confidence: f64) -> Entry {
        let mut fields = EntryFields::new(EntryKind::Observation, Owner::agent(), Trust::User);
        fields.type_name = Some(type_name.to_owned());
        fields.confidence = Some(Confidence::clamped(confidence).0);
        let (id, page) = (EntryId::derived(&[type_name]), PageId::derived(&["p"]));
        let new = NewEntry {
            id,
            page,
            kind: EntryKind::Observation,
            fields,
        };
        Entry::added(new, EntryHandle(handle), Seq(handle), Timestamp::default())
    }

    #[test]
    fn priority_orders_by_class_then_confidence_then_newest_m7_2_14() {
        let mut entries = [
            entry(1, "pattern_detected", 1.0),
            entry(2, "observation", 0.9),
            entry(3, "never_registered", 0.9),
            entry(4, "reminder", 0.1),
            entry(5, "alert", 0.2),
            entry(6, "risk_alert", 0.3),
            entry(7, "pending_confirmation", 0.9),
            entry(8, "action_suggestion", 0.9),
        ];
        let types = TypeRegistry::default();
        entries.sort_by(|a, b| by_priority(&types, a, b));
        let order: Vec<u64> = entries.iter().map(|entry| entry.handle.0).collect();
        assert_eq!(order, [6, 5, 7, 4, 8, 3, 2, 1]);
    }

    #[test]
    fn alert_class_lists_its_four_built_in_types() {
        let types = TypeRegistry::default();
        let alerts: Vec<_> = types.names_in(Class::Alert).collect();
        assert_eq!(alerts, ["alert", "error_alert", "risk_alert", "security_alert"]);
    }
}
