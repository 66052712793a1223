//! What may be asked of a space.

mod size;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{Confidence, Entry, EntryKind, Owner, State, Status, Tag};
use crate::id::{PageId, RunId, Seq};
use crate::numbers::say_the_same;
use crate::page::PageRole;
use crate::space::ThreadKey;
use crate::text::{self, TextMatch, TextQuery};
use crate::time::Timestamp;

/// Entries given when nothing is said (M7.2.11).
pub const DEFAULT_LIMIT: u32 = 10;
/// Most entries that one answer gives.
pub const MAX_LIMIT: u32 = 1_000;

/// In which order entries come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What fits the text best first, then the newest (M7.2.17); without a text that is newest first.
    #[default]
    Relevance,
    /// Newest first, by the number of the entry: a total order without ties (M7.2.14).
    Newest,
    /// Oldest first: how a page is read.
    Oldest,
    /// What matters most first: by the rank of its type, then the surer, then the newer (M7.2.14).
    Priority,
}

/// How much the types of entries matter: a lower rank comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeRanks {
    /// Of the types that are registered.
    pub known: BTreeMap<String, u32>,
    /// Of every other type, and of entries without one.
    pub other: u32,
}

impl TypeRanks {
    /// The rank of a type.
    #[must_use]
    pub fn of(&self, type_name: Option<&str>) -> u32 {
        let known = type_name.and_then(|name| self.known.get(name));
        known.copied().unwrap_or(self.other)
    }
}

/// A question for entries. Inside one field a list means any of it, fields together mean all of them, and an empty list
/// restricts nothing (M7.2.12).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EntryQuery {
    /// On this page.
    pub page: Option<PageId>,
    /// Of one of these kinds.
    pub kinds: Vec<EntryKind>,
    /// Of one of these types.
    #[serde(rename = "type")]
    pub types: Vec<String>,
    /// In one of these statuses. Empty: everything live or settled that is not archived; with `since`, a workspace gives that, too.
    pub status: Vec<Status>,
    /// Of one of these owners.
    pub owner: Vec<Owner>,
    /// With all of these tags.
    pub tags: Vec<Tag>,
    /// With at least one of these tags.
    pub tags_any: Vec<Tag>,
    /// With none of these tags.
    pub tags_none: Vec<Tag>,
    /// Whose context has these values at these dotted paths (M7.2.18).
    pub context: Vec<(String, Value)>,
    /// Only what is pinned, or only what is not.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pinned: Option<bool>,
    /// At least this sure; entries without confidence do not pass.
    pub min_confidence: Option<f64>,
    /// Added or changed after this commit: what a parallel turn has not seen yet (M7.2.16).
    pub since: Option<Seq>,
    /// With these words in title, text or tags (M7.2.17); only entries that are found by their text.
    pub text: Option<String>,
    /// With how many of them.
    #[serde(rename = "match")]
    pub text_match: TextMatch,
    /// As memory stood at this commit (M7.2.16); what is not memory of its own, the steps of a plan and blocks of a log,
    /// is given as it is.
    pub as_of: Option<Seq>,
    /// Expired ones, too.
    pub include_expired: bool,
    /// Replaced ones, too. What is archived is given to whoever asks for that status, replaced or not.
    pub include_superseded: bool,
    /// In which order.
    pub order: Order,
    /// How much types matter, for [`Order::Priority`]. A workspace fills it in from the types that its space knows.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ranks: TypeRanks,
    /// How many at most; 0 means [`DEFAULT_LIMIT`].
    pub limit: u32,
    /// Where an earlier answer ended.
    pub cursor: Option<String>,
}

impl EntryQuery {
    /// The number of entries that an answer gives at most.
    #[must_use]
    pub fn limit(&self) -> u32 {
        if self.limit == 0 {
            DEFAULT_LIMIT
        } else {
            self.limit.min(MAX_LIMIT)
        }
    }

    /// Whether `entry` is part of the answer at `now`, order, limit and cursor aside.
    #[must_use]
    pub fn matches(&self, entry: &Entry, now: Timestamp) -> bool {
        let fields = &entry.fields;
        let any = |list: &[Tag]| list.iter().any(|tag| fields.tags.contains(tag));
        let state = entry.state(now);
        self.page.is_none_or(|page| page == entry.page)
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && (self.types.is_empty() || fields.type_name.as_ref().is_some_and(|name| self.types.contains(name)))
            && if self.status.is_empty() {
                state != State::Archived
            } else {
                self.status.contains(&fields.status)
            }
            && (self.owner.is_empty() || self.owner.contains(&fields.owner))
            && self.tags.iter().all(|tag| fields.tags.contains(tag))
            && (self.tags_any.is_empty() || any(&self.tags_any))
            && !any(&self.tags_none)
            && self.context.iter().all(|(path, wanted)| {
                at_path(fields.context.as_ref(), path).is_some_and(|kept| say_the_same(kept, wanted))
            })
            && self
                .min_confidence
                .is_none_or(|least| fields.confidence.is_some_and(|c| c.value() >= least))
            && self.pinned.is_none_or(|pinned| fields.pin_rank.is_some() == pinned)
            && self.since.is_none_or(|seq| entry.updated_seq > seq)
            && self.as_of.is_none_or(|seq| entry.created_seq <= seq)
            && (self.include_expired || state != State::Expired)
            && (self.include_superseded || fields.superseded_by.is_none() || state == State::Archived)
            && self
                .text_query()
                .is_none_or(|text| text::is_searchable(entry.kind) && text.matches(fields))
    }

    /// The same question as whoever reads on with `since` means it: unless he says which statuses he wants, he is told of what was
    /// put away or replaced since then, too (M7.2.16). Otherwise he would go on with entries that are not there any more.
    #[must_use]
    pub fn telling_what_went(&self) -> Cow<'_, Self> {
        if self.since.is_none() || !self.status.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            status: Status::ALL.to_vec(),
            include_superseded: true,
            ..self.clone()
        })
    }

    /// What is searched for, if anything is.
    #[must_use]
    pub fn text_query(&self) -> Option<TextQuery> {
        self.text.as_deref().map(|text| TextQuery::of(text, self.text_match))
    }
}

impl EntryQuery {
    /// Which of two entries comes first in the order that is asked for. Total: no two entries are equal. How well an entry
    /// fits a text only a store knows; here the newest comes first.
    #[must_use]
    pub fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        let newest = b.handle.cmp(&a.handle);
        match self.order {
            Order::Relevance | Order::Newest => newest,
            Order::Oldest => newest.reverse(),
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

/// The value at a dotted path; `None` if there is none (M7.2.18). A dot that is part of a key has a backslash before it, and so has
/// a backslash before a dot or another one: [`keys_of`].
#[must_use]
pub fn at_path<'v>(value: Option<&'v Value>, path: &str) -> Option<&'v Value> {
    keys_of(path).try_fold(value?, |inner, key| inner.get(&*key))
}

/// The keys that a dotted path names, from the outside: `user.id` is `user` and `id`, `file\.rs` is `file.rs`, `a\\.b` is `a\` and
/// `b`. Any other backslash stands for itself.
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

/// A question for pages. As in [`EntryQuery`], an empty list restricts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageQuery {
    /// Of one of these roles.
    pub roles: Vec<PageRole>,
    /// Contained in this page.
    pub parent: Option<PageId>,
    /// Of this run.
    pub run: Option<RunId>,
    /// Of this thread.
    pub thread: Option<ThreadKey>,
    /// Behind the page with this number, in the order that is asked for.
    pub after: Option<u64>,
    /// The newest first; otherwise in the order in which they were made.
    pub newest_first: bool,
    /// How many at most; 0 means [`MAX_LIMIT`].
    pub limit: u32,
}

impl PageQuery {
    /// The number of pages that an answer gives at most.
    #[must_use]
    pub fn limit(&self) -> u32 {
        if self.limit == 0 {
            MAX_LIMIT
        } else {
            self.limit.min(MAX_LIMIT)
        }
    }
}

/// How many entries a text may find before counting and ranking end (M7.2.17): a word that very many entries have says
/// little about any of them, so the newest count. Of several words, any of which may stand there, the rarest count.
pub const FOUND_MAX: u32 = 1_000;

/// An answer that may go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListAnswer<T> {
    /// What was found, in order.
    pub items: Vec<T>,
    /// How many these are.
    pub returned: usize,
    /// How many match altogether; of what a text finds at most [`FOUND_MAX`] are counted.
    pub total: u64,
    /// What to ask with to go on.
    pub next: Option<String>,
    /// The commit up to which the answer knows.
    pub as_of: Seq,
    /// How well each of `items` fits the text that was asked for: higher is better. Empty if none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
    /// Whether more than `total` match. Then the list is ordered by relevance among the newest [`FOUND_MAX`] of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl<T> ListAnswer<T> {
    /// That nothing matches, as of commit `as_of`.
    #[must_use]
    pub fn nothing(as_of: Seq) -> Self {
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

    /// How many match, as people read it: `12`, or `more than 5000`.
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

    use super::{at_path, keys_of};

    #[test]
    fn a_missing_path_is_no_match_m7_2_18() {
        let context = json!({"goal_id": "g", "user": {"id": 7}});
        assert_eq!(at_path(Some(&context), "user.id"), Some(&json!(7)));
        assert_eq!(at_path(Some(&context), "user.name"), None);
        assert_eq!(at_path(None, "goal_id"), None);
    }

    #[test]
    fn a_dot_of_a_key_has_a_backslash_before_it_m7_2_18() {
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
        }
        let context = json!({"src/main.rs": {"line": 7}, "src/main": {"rs": 8}});
        assert_eq!(at_path(Some(&context), r"src/main\.rs.line"), Some(&json!(7)));
        assert_eq!(at_path(Some(&context), "src/main.rs"), Some(&json!(8)));
    }
}
