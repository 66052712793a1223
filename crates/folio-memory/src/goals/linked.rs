//! The entries that are linked to a goal or a pending action, as far as its progress and its end depend on them: enough
//! to count them without reading them.

use serde_json::{Value, json};

use super::{ACTION_PATH, GOAL_PATH, Progress, spellings};
use crate::entry::{Entry, EntryKind, Outcome, State, Status};
use crate::id::EntryId;
use crate::keeping::ArchivedFor;
use crate::patterns::is_reflection;
use crate::query::{EntryQuery, MAX_LIMIT, at_path};
use crate::time::Timestamp;

/// The names by which other entries are linked to a goal or a pending action.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalNames {
    /// Its id, as which links of evidence name it.
    pub id: EntryId,
    /// Its kind. An entry of the same kind has the name as its own, and is not linked.
    pub kind: EntryKind,
    /// The context path by which entries name it.
    pub path: &'static str,
    /// The values there that name it: its own key, its handle and its id.
    pub keys: Vec<Value>,
}

impl GoalNames {
    /// The names of `goal`.
    #[must_use]
    pub fn of(goal: &Entry) -> Self {
        let path = own_path(goal.kind);
        let own = at_path(goal.fields.context.as_ref(), path);
        let own = own.into_iter().flat_map(spellings);
        Self {
            id: goal.id,
            kind: goal.kind,
            path,
            keys: own
                .chain([json!(goal.handle.to_string()), json!(goal.id.to_string())])
                .collect(),
        }
    }

    /// The queries for the entries that have a name of it in their context, archived or not. They find entries of its own
    /// kind as well, which are not linked.
    pub fn queries(&self) -> impl Iterator<Item = EntryQuery> {
        self.keys.iter().map(|key| EntryQuery {
            context: vec![(self.path.to_owned(), key.clone())],
            status: Status::ALL.into(),
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        })
    }
}

/// Where a goal or a pending action has its own name, and where entries name it.
pub(super) fn own_path(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::PendingAction => ACTION_PATH,
        _ => GOAL_PATH,
    }
}

/// What of a linked entry counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Linked {
    /// The kind.
    pub kind: EntryKind,
    /// The type of an observation.
    pub type_name: Option<String>,
    /// The status.
    pub status: Status,
    /// Whether its lifetime has ended. That of a pinned entry does not end.
    pub is_over: bool,
    /// Whether another entry replaced it.
    pub is_superseded: bool,
    /// The rule that archived it, if one did.
    pub archived_for: Option<ArchivedFor>,
    /// Whether it came true, if somebody has said so.
    pub outcome: Option<Outcome>,
    /// Whether its content was erased.
    pub is_erased: bool,
    /// Whether it is a pattern or a fact that was found here, which nobody closes.
    pub is_reflection: bool,
}

impl Linked {
    /// What counts of `entry` at `now`.
    #[must_use]
    pub fn of(entry: &Entry, now: Timestamp) -> Self {
        let fields = &entry.fields;
        Self {
            kind: entry.kind,
            type_name: fields.type_name.clone(),
            status: fields.status,
            is_over: fields.pin_rank.is_none() && !fields.lifetime.is_live(now),
            is_superseded: fields.superseded_by.is_some(),
            archived_for: fields.archived_for,
            outcome: fields.outcome,
            is_erased: fields.erased.is_some(),
            is_reflection: is_reflection(entry),
        }
    }

    /// The state for the purpose of answering a goal or pending action. An entry that a rule archived (for its age, to
    /// make room, or because it names a person) and the tombstone of an erased entry count as expired, because nobody
    /// acted on them, unless the entry was settled before or has an outcome.
    #[must_use]
    pub fn answer_state(&self) -> State {
        let by_rule = matches!(
            self.archived_for,
            Some(ArchivedFor::Age | ArchivedFor::Quota | ArchivedFor::Pii)
        );
        let was_settled = self.archived_for == Some(ArchivedFor::Resolved) || self.outcome.is_some();
        match self.status.state() {
            State::Archived if was_settled => State::Archived,
            State::Archived if by_rule || self.is_erased => State::Expired,
            State::Archived => State::Archived,
            _ if self.is_over => State::Expired,
            State::Live if self.is_superseded => State::Settled,
            state => state,
        }
    }
}

/// How many entries are linked to a goal or a pending action, by what counts of them.
#[derive(Debug, Clone, Default)]
pub struct LinkedCounts(Vec<(Linked, u64)>);

impl LinkedCounts {
    /// Counts `entries` as they are at `now`.
    #[must_use]
    pub fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>, now: Timestamp) -> Self {
        let mut counts = Self::default();
        for entry in entries {
            counts.add(Linked::of(entry, now), 1);
        }
        counts
    }

    /// Adds `count` entries of which all that counts is `linked`.
    pub fn add(&mut self, linked: Linked, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == linked) {
            Some((_, known)) => *known += count,
            None => self.0.push((linked, count)),
        }
    }

    /// The counts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Linked, u64)> {
        self.0.iter().map(|(linked, count)| (linked, *count))
    }

    /// Only those entries that are `wanted`.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&Linked) -> bool) -> Self {
        self.0.retain(|(linked, _)| wanted(linked));
        self
    }

    /// Whether no entry is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, count)| *count == 0)
    }

    /// The progress of the goal that they belong to. Expired ([`Linked::answer_state`]) and superseded entries do not
    /// count, nor do reflections (patterns and facts), which nobody closes. Any other archived entry counts as closed.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (mut open, mut closed) = (0_u64, 0_u64);
        let counting = |linked: &Linked| !linked.is_superseded && !linked.is_reflection;
        for (linked, count) in self.iter().filter(|(linked, _)| counting(linked)) {
            match linked.answer_state() {
                State::Live => open += count,
                State::Settled | State::Archived => closed += count,
                State::Expired => {}
            }
        }
        let [open, closed] = [open, closed].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let all = f64::from(open) + f64::from(closed);
        Progress {
            open,
            closed,
            progress: (all > 0.0).then(|| f64::from(closed) / all),
        }
    }
}
