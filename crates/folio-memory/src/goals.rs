//! Goals and pending actions (M7.11.3): the entries linked to them, their progress, and proposals for new goals.

mod linked;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::linked::own_path;
pub use self::linked::{GoalNames, Linked, LinkedCounts};
use crate::change::FieldChange;
use crate::entry::{Entry, EntryKind, Outcome, State, Status};
use crate::patterns::is_reflection;
use crate::query::at_path;
use crate::time::Timestamp;
use crate::turn::{Used, is_clarification};

/// The context path by which an entry names its goal.
pub const GOAL_PATH: &str = "goal_id";
/// The context path by which an entry names its pending action.
pub const ACTION_PATH: &str = "pending_action_id";
/// The confidence from which an observation is proposed as a goal.
pub const PROMOTE_FROM: f64 = 0.9;

/// A goal or a pending action to be added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalInput {
    /// The title, in one line.
    pub title: String,
    /// The text below the title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Tags to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The name by which others refer to it, such as `book_flight_to_paris`. Its handle and its id work as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The progress of a goal, computed from the entries linked to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Progress {
    /// The number of linked entries that are still live.
    pub open: u32,
    /// The number of linked entries that are closed.
    pub closed: u32,
    /// The share of linked entries that are closed; `None` if no entry counts.
    pub progress: Option<f64>,
}

/// The values by which the context of an entry refers to `goal`: its own key, its handle and its id.
#[must_use]
pub fn reference_keys(goal: &Entry) -> Vec<Value> {
    GoalNames::of(goal).keys
}

/// The spellings of the same key: `goal_id=2026` on a command line is a number, and the key of the goal a text.
#[must_use]
pub fn spellings(key: &Value) -> Vec<Value> {
    let other = match key {
        Value::String(text) => serde_json::from_str(text)
            .ok()
            .filter(|value: &Value| value.is_number() || value.is_boolean()),
        Value::Number(_) | Value::Bool(_) => Some(Value::String(key.to_string())),
        _ => None,
    };
    [key.clone()].into_iter().chain(other).collect()
}

/// How an entry names a goal or a pending action in its context.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    kind: EntryKind,
    path: &'static str,
    key: Value,
}

impl Reference {
    /// The references of `entry`.
    pub fn all_of(entry: &Entry) -> impl Iterator<Item = Self> {
        [GOAL_PATH, ACTION_PATH].into_iter().filter_map(|path| {
            let key = at_path(entry.fields.context.as_ref(), path)?.clone();
            let kind = entry.kind;
            Some(Self { kind, path, key })
        })
    }

    /// Whether it names `goal`. An entry of the same kind with that name has it as its own.
    #[must_use]
    pub fn is_to(&self, goal: &Entry) -> bool {
        self.path == own_path(goal.kind) && self.kind != goal.kind && reference_keys(goal).contains(&self.key)
    }
}

/// What becomes of a pending action with these confirmations: done once all are settled, archived if one was declined,
/// and unchanged while one is outstanding. An expired confirmation ([`Linked::answer_state`]) does not answer, and is not
/// given here. Folio's own question about an input is archived without one, because nobody can answer it any more.
#[must_use]
pub fn settle_action(action: &Entry, confirmations: &LinkedCounts, now: Timestamp) -> Option<Vec<FieldChange>> {
    let is_live = action.state(now) == State::Live;
    if is_live && confirmations.is_empty() && is_clarification(action) {
        return Some(vec![
            FieldChange::Phase(Some("unanswered".to_owned())),
            FieldChange::Status(Status::Archived),
        ]);
    }
    let is_answered = |linked: &Linked| matches!(linked.answer_state(), State::Settled | State::Archived);
    if !is_live || confirmations.is_empty() || !confirmations.iter().all(|(linked, _)| is_answered(linked)) {
        return None;
    }
    let declined = confirmations
        .iter()
        .any(|(linked, _)| linked.outcome == Some(Outcome::Refuted));
    Some(if declined {
        vec![
            FieldChange::Phase(Some("declined".to_owned())),
            FieldChange::Status(Status::Archived),
        ]
    } else {
        vec![FieldChange::Status(Status::Done), FieldChange::Progress(Some(1.0))]
    })
}

/// An observation that could become a goal. It is only proposed, never promoted automatically.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Proposal {
    /// The observation.
    pub entry: Used,
    /// The title that the goal would have.
    pub title: String,
    /// The confidence of the observation.
    pub confidence: f64,
}

/// Proposes goals from `entries`: live ones with a confidence of at least 0.9 that belong to no goal yet.
#[must_use]
pub fn proposals(entries: &[Entry], now: Timestamp) -> Vec<Proposal> {
    let candidates = entries.iter().filter_map(|entry| {
        let fields = &entry.fields;
        let confidence = fields.confidence?.value();
        let fits = entry.kind == EntryKind::Observation
            && entry.state(now) == State::Live
            && confidence >= PROMOTE_FROM
            && at_path(fields.context.as_ref(), GOAL_PATH).is_none()
            && !is_reflection(entry);
        let title = [&fields.title, &fields.body]
            .into_iter()
            .find_map(|text| text.lines().find(|line| !line.trim().is_empty()))?;
        fits.then(|| Proposal {
            entry: Used::of(entry),
            title: title.trim().to_owned(),
            confidence,
        })
    });
    candidates.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keeping::ArchivedFor;
    use crate::turn_testing::{NOW, observation};

    fn counted(linked: &[Entry]) -> LinkedCounts {
        LinkedCounts::of(linked, NOW)
    }

    fn progress(linked: &[Entry]) -> Progress {
        counted(linked).progress()
    }

    fn with(status: Status) -> Entry {
        let mut entry = observation(1, "contextual_insight", "x").build();
        entry.fields.status = status;
        entry
    }

    #[test]
    fn goal_progress_is_the_closed_share_of_linked_entries_m7_11_3() {
        let linked = [
            with(Status::Resolved),
            with(Status::Archived),
            with(Status::Active),
            with(Status::PendingReview),
        ];
        let found = progress(&linked);
        assert_eq!((found.open, found.closed, found.progress), (2, 2, Some(0.5)));
        assert_eq!(progress(&[]).progress, None);
    }

    fn put_away(why: ArchivedFor, outcome: Option<Outcome>) -> Entry {
        let mut entry = with(Status::Archived);
        (entry.fields.archived_for, entry.fields.outcome) = (Some(why), outcome);
        entry
    }

    #[test]
    fn unanswered_entry_archived_by_policy_settles_no_action_m7_11_3() {
        let mut action = observation(9, "x", "x").build();
        (action.kind, action.fields.status) = (EntryKind::PendingAction, Status::Open);
        let mut erased = with(Status::Archived);
        erased.fields.erased = Some(crate::keeping::ErasedFor::Pii);
        let unanswered = [ArchivedFor::Age, ArchivedFor::Quota, ArchivedFor::Pii].map(|why| put_away(why, None));
        for one in unanswered.into_iter().chain([erased]) {
            assert_eq!(settle_action(&action, &counted(std::slice::from_ref(&one)), NOW), None);
            assert_eq!(progress(&[one]).progress, None);
        }
        let answered = put_away(ArchivedFor::Age, Some(Outcome::Confirmed));
        let mut settled_and_erased = put_away(ArchivedFor::Resolved, None);
        settled_and_erased.fields.erased = Some(crate::keeping::ErasedFor::Expired);
        for one in [
            answered,
            settled_and_erased,
            put_away(ArchivedFor::Resolved, None),
            with(Status::Archived),
        ] {
            assert_eq!(progress(std::slice::from_ref(&one)).progress, Some(1.0));
            assert_eq!(
                settle_action(&action, &counted(&[one]), NOW).unwrap()[0],
                FieldChange::Status(Status::Done)
            );
        }
    }

    #[test]
    fn patterns_do_not_count_toward_goal_progress_m7_11_3() {
        let mut pattern = with(Status::Active);
        pattern.fields.source.channel = Some(crate::patterns::CHANNEL.to_owned());
        let found = progress(&[with(Status::Resolved), pattern.clone()]);
        assert_eq!((found.open, found.closed, found.progress), (0, 1, Some(1.0)));
        assert_eq!(progress(&[pattern]).progress, None);
    }

    #[test]
    fn confirmed_action_is_done_and_declined_action_is_archived_m7_11_3() {
        let mut action = observation(9, "x", "x").build();
        (action.kind, action.fields.status) = (EntryKind::PendingAction, Status::Open);
        assert_eq!(settle_action(&action, &counted(&[]), NOW), None);
        assert_eq!(settle_action(&action, &counted(&[with(Status::Active)]), NOW), None);
        let done = settle_action(&action, &counted(&[with(Status::Resolved)]), NOW).unwrap();
        assert_eq!(done[0], FieldChange::Status(Status::Done));
        let mut no = with(Status::Resolved);
        no.fields.outcome = Some(Outcome::Refuted);
        let declined = settle_action(&action, &counted(&[no]), NOW).unwrap();
        assert_eq!(declined[1], FieldChange::Status(Status::Archived));
    }

    #[test]
    fn question_about_an_input_closes_unanswered_with_its_pending_action_m7_11_3() {
        let action = |key: &str| {
            let mut action = observation(9, "x", "x").context(json!({ACTION_PATH: key})).build();
            (action.kind, action.fields.status) = (EntryKind::PendingAction, Status::Open);
            action
        };
        let closed = settle_action(&action("clarify_t5"), &counted(&[]), NOW).expect("nobody answers it any more");
        assert_eq!(closed[1], FieldChange::Status(Status::Archived));
        assert_eq!(
            settle_action(&action("clarify_t5"), &counted(&[with(Status::Active)]), NOW),
            None
        );
        assert_eq!(
            settle_action(&action("pay"), &counted(&[]), NOW),
            None,
            "somebody else's waits"
        );
    }

    #[test]
    fn key_that_reads_as_a_number_names_its_goal_in_both_spellings_m7_11_3() {
        let mut goal = observation(9, "x", "x").context(json!({GOAL_PATH: "2026"})).build();
        (goal.kind, goal.fields.status) = (EntryKind::Goal, Status::Open);
        let names = |key: Value| {
            let entry = observation(1, "x", "x").context(json!({GOAL_PATH: key})).build();
            Reference::all_of(&entry).any(|reference| reference.is_to(&goal))
        };
        assert!(names(json!("2026")) && names(json!(2026)) && names(json!("e9")));
        assert!(!names(json!(2027)) && !names(json!([2026])) && !names(json!("02026")));
        goal.fields.context = Some(json!({GOAL_PATH: 2026}));
        assert_eq!(reference_keys(&goal)[..2], [json!(2026), json!("2026")]);
    }

    #[test]
    fn confident_suggestion_without_a_goal_is_proposed_m7_11_3() {
        let sure = observation(1, "action_suggestion", "Renew the certificate")
            .confidence(0.9)
            .build();
        let unsure = observation(2, "action_suggestion", "y").confidence(0.89).build();
        let linked = observation(3, "action_suggestion", "z")
            .confidence(1.0)
            .context(json!({"goal_id": "g"}))
            .build();
        let offered = proposals(&[sure, unsure, linked], NOW);
        assert_eq!(offered.len(), 1);
        assert_eq!(offered[0].title, "Renew the certificate");
    }
}
