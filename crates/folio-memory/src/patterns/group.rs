//! Where to search: the groups in which something was noticed since patterns were last searched for.

use serde_json::Value;

use super::{FACT, PATTERN, common_context, is_reflection, name_of, recorded_group, sorted_tags};
use crate::entry::{Entry, EntryKind, Status, Tag};
use crate::observation::{Class, TypeRegistry};
use crate::query::{EntryQuery, MAX_LIMIT};

/// How many groups are searched one by one.
const GROUPS_MAX: usize = 4;

/// Observations of one class with the same tags and context.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    class: Class,
    tags: Vec<Tag>,
    context: Option<Value>,
}

impl Group {
    fn of(entry: &Entry, types: &TypeRegistry) -> Self {
        Self {
            class: types.class_of(entry.fields.type_name.as_deref()),
            tags: sorted_tags(entry),
            context: common_context(entry),
        }
    }

    /// Whether `entry` belongs to the group.
    #[must_use]
    pub fn has(&self, entry: &Entry, types: &TypeRegistry) -> bool {
        types.class_of(entry.fields.type_name.as_deref()) == self.class
            && common_context(entry) == self.context
            && sorted_tags(entry) == self.tags
    }

    /// Whether `entry` records a pattern of the group.
    #[must_use]
    pub fn has_recorded(&self, entry: &Entry) -> bool {
        is_reflection(entry) && recorded_group(entry) == self.name()
    }

    fn name(&self) -> String {
        name_of(self.class, &self.tags, self.context.as_ref())
    }

    /// The query for the observations of the group, newest first. Its answer also has some of other groups.
    #[must_use]
    pub fn members(&self, types: &TypeRegistry) -> EntryQuery {
        let names = types.names_in(self.class).map(str::to_owned).collect();
        EntryQuery {
            // Entries of unknown types count as insights.
            types: if self.class == Class::Insight {
                Vec::new()
            } else {
                names
            },
            status: Status::ALL.into(),
            include_expired: true,
            ..self.observations()
        }
    }

    /// The query for what records patterns of the group. Its answer also has some of other groups.
    #[must_use]
    pub fn recorded(&self) -> EntryQuery {
        EntryQuery {
            types: vec![PATTERN.to_owned(), FACT.to_owned()],
            limit: MAX_LIMIT,
            ..self.observations()
        }
    }

    fn observations(&self) -> EntryQuery {
        EntryQuery {
            kinds: vec![EntryKind::Observation],
            tags: self.tags.clone(),
            uncounted: true,
            ..EntryQuery::default()
        }
    }
}

/// Where there may be new patterns.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// In these groups.
    In(Vec<Group>),
    /// Anywhere.
    Anywhere,
}

impl Default for News {
    fn default() -> Self {
        Self::In(Vec::new())
    }
}

impl News {
    /// Takes note of `entry`, which was added or changed.
    pub fn add(&mut self, entry: &Entry, types: &TypeRegistry) {
        let Self::In(groups) = self else { return };
        if entry.kind != EntryKind::Observation || is_reflection(entry) {
            return;
        }
        // What was erased no longer tells which pattern has lost it.
        if entry.fields.erased.is_some() {
            *self = Self::Anywhere;
            return;
        }
        if types.class_of(entry.fields.type_name.as_deref()) == Class::Pattern
            || groups.iter().any(|group| group.has(entry, types))
        {
            return;
        }
        if groups.len() < GROUPS_MAX {
            groups.push(Group::of(entry, types));
        } else {
            *self = Self::Anywhere;
        }
    }
}
