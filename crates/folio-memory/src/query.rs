//! Queries for the content of a space.

mod size;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{Confidence, Entry, EntryKind, Owner, State, Status, Tag};
use crate::id::{PageId, RunId, Seq};
use crate::numbers::equal_json;
use crate::page::PageRole;
use crate::space::ThreadKey;
use crate::text::{self, TextMatch, TextQuery};
use crate::time::Timestamp;

/// The number of entries in an answer if no limit is given (M7.2.11).
pub const DEFAULT_LIMIT: u32 = 10;
/// The maximum number of entries in one answer.
pub const MAX_LIMIT: u32 = 1_000;

/// The order of the entries in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Best match for the text first, then the newest (M7.2.17). Without a text, the same as newest first.
    #[default]
    Relevance,
    /// Newest first, by handle: a total order without ties (M7.2.14).
    Newest,
    /// Oldest first, as a page is read.
    Oldest,
    /// Most important first: by the rank of the type, then by confidence, then newest first (M7.2.14).
    Priority,
    /// Last changed first: by the instant of the last change, which an entry keeps when it moves to another store, then
    /// by the commit, then by handle. Only for queries without a text; callers cannot ask for it by name.
    #[serde(skip_deserializing)]
    LastChanged,
}

/// The ranks of entry types by importance; a lower rank comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeRanks {
    /// The ranks of registered types.
    pub known: BTreeMap<String, u32>,
    /// The rank of every other type, and of entries without a type.
    pub other: u32,
}

impl TypeRanks {
    /// The rank of the type `type_name`.
    #[must_use]
    pub fn of(&self, type_name: Option<&str>) -> u32 {
        let known = type_name.and_then(|name| self.known.get(name));
        known.copied().unwrap_or(self.other)
    }
}

/// A query for entries. A list in one field matches any of its values, several fields must all match, and an empty list
/// restricts nothing (M7.2.12).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EntryQuery {
    /// Only entries on this page.
    pub page: Option<PageId>,
    /// Only entries of one of these kinds.
    pub kinds: Vec<EntryKind>,
    /// Only entries of one of these types.
    #[serde(rename = "type")]
    pub types: Vec<String>,
    /// Only entries of none of these types. Callers cannot ask for it by name.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub types_none: Vec<String>,
    /// Only entries in one of these statuses. If empty, live and settled entries that are not archived; with `since`, a
    /// workspace adds the archived ones.
    pub status: Vec<Status>,
    /// Only entries of one of these owners.
    pub owner: Vec<Owner>,
    /// Only entries with all of these tags.
    pub tags: Vec<Tag>,
    /// Only entries with at least one of these tags.
    pub tags_any: Vec<Tag>,
    /// Only entries with none of these tags.
    pub tags_none: Vec<Tag>,
    /// Only entries whose context has these values at these dotted paths (M7.2.18).
    pub context: Vec<(String, Value)>,
    /// Only pinned entries, or only unpinned ones.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pinned: Option<bool>,
    /// Only entries with at least this confidence; entries without one do not match.
    pub min_confidence: Option<f64>,
    /// Only entries added or changed after this commit: what a parallel turn has not seen yet (M7.2.16).
    pub since: Option<Seq>,
    /// Only entries with these words in title, text or tags (M7.2.17), of kinds whose text is searched.
    pub text: Option<String>,
    /// How many of the words must match.
    #[serde(rename = "match")]
    pub text_match: TextMatch,
    /// Answers as of this commit (M7.2.16). The steps of plans, the blocks of logs and the summaries of runs, which are
    /// not memory in their own right, are given in their current form.
    pub as_of: Option<Seq>,
    /// Whether to include expired entries.
    pub include_expired: bool,
    /// Whether to include superseded entries. A query for the status `archived` gives archived entries whether they are
    /// superseded or not.
    pub include_superseded: bool,
    /// The order of the answer.
    pub order: Order,
    /// The ranks of types for [`Order::Priority`]. A workspace fills them in from the types of its space.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ranks: TypeRanks,
    /// The maximum number of entries; 0 means [`DEFAULT_LIMIT`].
    pub limit: u32,
    /// The cursor at which an earlier answer ended.
    pub cursor: Option<String>,
    /// Whether the matches need not be counted, because nobody looks at the total: it then says only how many were read,
    /// and the answer says `at_least`. Callers cannot ask for it by name.
    #[serde(skip)]
    pub uncounted: bool,
}

impl EntryQuery {
    /// The maximum number of entries in the answer.
    #[must_use]
    pub fn limit(&self) -> u32 {
        if self.limit == 0 {
            DEFAULT_LIMIT
        } else {
            self.limit.min(MAX_LIMIT)
        }
    }

    /// Whether `entry` matches at `now`, regardless of order, limit and cursor.
    #[must_use]
    pub fn matches(&self, entry: &Entry, now: Timestamp) -> bool {
        let fields = &entry.fields;
        let any = |list: &[Tag]| list.iter().any(|tag| fields.tags.contains(tag));
        let state = entry.state(now);
        self.page.is_none_or(|page| page == entry.page)
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && (self.types.is_empty() || fields.type_name.as_ref().is_some_and(|name| self.types.contains(name)))
            && !fields
                .type_name
                .as_ref()
                .is_some_and(|name| self.types_none.contains(name))
            && if self.status.is_empty() {
                state != State::Archived
            } else {
                self.status.contains(&fields.status)
            }
            && (self.owner.is_empty() || self.owner.contains(&fields.owner))
            && self.tags.iter().all(|tag| fields.tags.contains(tag))
            && (self.tags_any.is_empty() || any(&self.tags_any))
            && !any(&self.tags_none)
            && self.context.iter().all(|(path, expected)| {
                at_path(fields.context.as_ref(), path).is_some_and(|kept| equal_json(kept, expected))
            })
            && self
                .min_confidence
                .is_none_or(|minimum| fields.confidence.is_some_and(|c| c.value() >= minimum))
            && self.pinned.is_none_or(|pinned| fields.pin_rank.is_some() == pinned)
            && self.since.is_none_or(|seq| entry.updated_seq > seq)
            && self.as_of.is_none_or(|seq| entry.created_seq <= seq)
            && (self.include_expired || state != State::Expired)
            && (self.include_superseded || fields.superseded_by.is_none() || state == State::Archived)
            && self
                .text_query()
                .is_none_or(|text| text::is_searchable(entry.kind) && text.matches(fields))
    }

    /// Returns the query as it is meant by a reader who continues from `since`: if no statuses are asked for, the
    /// answer includes entries that were archived or superseded since then (M7.2.16), and those that were changed and
    /// have expired, as one does that is unpinned after its lifetime has ended (M7.1.7). Otherwise the reader would keep
    /// entries that are gone.
    #[must_use]
    pub fn including_removed(&self) -> Cow<'_, Self> {
        if self.since.is_none() || !self.status.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            status: Status::ALL.to_vec(),
            include_expired: true,
            include_superseded: true,
            ..self.clone()
        })
    }

    /// The text query, if there is a text.
    #[must_use]
    pub fn text_query(&self) -> Option<TextQuery> {
        self.text.as_deref().map(|text| TextQuery::of(text, self.text_match))
    }
}

impl EntryQuery {
    /// Compares two entries in the requested order. A total order: no two entries are equal. Only a store knows how
    /// well an entry matches a text, so here [`Order::Relevance`] means newest first.
    #[must_use]
    pub fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        let newest = b.handle.cmp(&a.handle);
        match self.order {
            Order::Relevance | Order::Newest => newest,
            Order::Oldest => newest.reverse(),
            Order::LastChanged => {
                let change = |entry: &Entry| (entry.updated_at, entry.updated_seq);
                change(b).cmp(&change(a)).then(newest)
            }
            Order::Priority => {
                let rank = |entry: &Entry| self.ranks.of(entry.fields.type_name.as_deref());
                let sureness = |entry: &Entry| entry.fields.confidence.map_or(0.0, Confidence::value);
                rank(a)
                    .cmp(&rank(b))
                    .then_with(|| sureness(b).total_cmp(&sureness(a)))
                    .then(newest)
            }
        }
    }
}

/// The value at a dotted path, or `None` if there is none (M7.2.18). A dot within a key is escaped by a backslash, and
/// so is a backslash before a dot or another backslash: see [`keys_of`].
#[must_use]
pub fn at_path<'v>(value: Option<&'v Value>, path: &str) -> Option<&'v Value> {
    keys_of(path).try_fold(value?, |inner, key| inner.get(&*key))
}

/// The keys of a dotted path, outermost first: `user.id` is `user` and `id`, `file\.rs` is `file.rs`, `a\\.b` is `a\`
/// and `b`. Any other backslash stands for itself.
pub fn keys_of(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut key, mut from, mut at) = (String::new(), 0, 0);
        let bytes = text.as_bytes();
        while at < bytes.len() && bytes[at] != b'.' {
            if bytes[at] == b'\\' && matches!(bytes.get(at + 1), Some(b'.' | b'\\')) {
                key.push_str(&text[from..at]);
                at += 1;
                from = at;
            }
            at += 1;
        }
        rest = text.get(at + 1..);
        Some(if from == 0 {
            Cow::Borrowed(&text[..at])
        } else {
            Cow::Owned(key + &text[from..at])
        })
    })
}

/// The dotted path of `keys`, outermost first, from which [`keys_of`] reads them again.
pub fn path_of<'k>(keys: impl IntoIterator<Item = &'k str>) -> String {
    let mut path = String::new();
    for (at, key) in keys.into_iter().enumerate() {
        if at > 0 {
            path.push('.');
        }
        for c in key.chars() {
            if matches!(c, '.' | '\\') {
                path.push('\\');
            }
            path.push(c);
        }
    }
    path
}

/// A query for pages. As in [`EntryQuery`], an empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageQuery {
    /// Only pages of one of these roles.
    pub roles: Vec<PageRole>,
    /// Only pages contained in this page.
    pub parent: Option<PageId>,
    /// Only pages of this run.
    pub run: Option<RunId>,
    /// Only pages of this thread.
    pub thread: Option<ThreadKey>,
    /// Only pages after the one with this number, in the requested order.
    pub after: Option<u64>,
    /// Newest first; otherwise in the order in which the pages were made.
    pub newest_first: bool,
    /// The maximum number of pages; 0 means [`MAX_LIMIT`].
    pub limit: u32,
}

impl PageQuery {
    /// The maximum number of pages in the answer.
    #[must_use]
    pub fn limit(&self) -> u32 {
        if self.limit == 0 {
            MAX_LIMIT
        } else {
            self.limit.min(MAX_LIMIT)
        }
    }
}

/// The number of matches of a text at which counting and ranking stop (M7.2.17). A word that very many entries contain
/// says little about any of them, so only the newest of them count. If any of several words may match, those with the
/// rarest words count.
pub const FOUND_MAX: u32 = 1_000;

/// One part of a list, which may have more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListAnswer<T> {
    /// The matches, in order.
    pub items: Vec<T>,
    /// The number of `items`.
    pub returned: usize,
    /// The number of all matches; matches of a text are counted up to [`FOUND_MAX`].
    pub total: u64,
    /// The cursor with which to get the next part.
    pub next: Option<String>,
    /// The commit up to which the answer is current.
    pub as_of: Seq,
    /// How well each of `items` matches the text, higher is better. Empty if the query has no text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
    /// Whether there are more than `total` matches. The list of a text then ranks only the newest [`FOUND_MAX`] of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl<T> ListAnswer<T> {
    /// An answer without matches, as of commit `as_of`.
    #[must_use]
    pub fn empty(as_of: Seq) -> Self {
        Self {
            items: Vec::new(),
            returned: 0,
            total: 0,
            next: None,
            as_of,
            scores: Vec::new(),
            at_least: false,
        }
    }

    /// The number of matches for people: `12`, or `more than 5000`.
    #[must_use]
    pub fn count(&self) -> String {
        if self.at_least {
            format!("more than {}", self.total)
        } else {
            self.total.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{at_path, keys_of, path_of};

    #[test]
    fn missing_context_path_has_no_value_m7_2_18() {
        let context = json!({"goal_id": "g", "user": {"id": 7}});
        assert_eq!(at_path(Some(&context), "user.id"), Some(&json!(7)));
        assert_eq!(at_path(Some(&context), "user.name"), None);
        assert_eq!(at_path(None, "goal_id"), None);
    }

    #[test]
    fn escaped_dot_in_a_context_path_belongs_to_the_key_m7_2_18() {
        for (path, keys) in [
            ("user.id", &["user", "id"][..]),
            (r"src/main\.rs", &["src/main.rs"]),
            (r"files.a\.b\.c.lines", &["files", "a.b.c", "lines"]),
            (r"a\\.b", &["a\\", "b"]),
            (r"C:\dir\日", &[r"C:\dir\日"]),
            (r"a\", &["a\\"]),
            ("", &[""]),
            ("a..b.", &["a", "", "b", ""]),
        ] {
            assert_eq!(keys_of(path).collect::<Vec<_>>(), keys, "{path}");
            let again = path_of(keys.iter().copied());
            assert_eq!(keys_of(&again).collect::<Vec<_>>(), keys, "{again}");
        }
        let context = json!({"src/main.rs": {"line": 7}, "src/main": {"rs": 8}});
        assert_eq!(at_path(Some(&context), r"src/main\.rs.line"), Some(&json!(7)));
        assert_eq!(at_path(Some(&context), "src/main.rs"), Some(&json!(8)));
    }
}
