//! What happened beside the log: queries, refusals, warnings, decisions (M7.10).
//!
//! Changes of memory need no note, since the log records them. A note is for everything else that somebody may want to
//! explain later. Notes are not part of the log, have no number in it, and are kept for a limited time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::from_object::read_from_an_object;
use crate::id::{EntryHandle, EntryId, RunId, Seq, TurnId};
use crate::time::Timestamp;
use crate::warning::Warning;

/// The name of the operation that reads the trace, for authorization.
pub const READ_TRACE: &str = "read_trace";

/// The operation succeeded.
pub const SUCCESS: &str = "success";
/// The operation succeeded, and corrected a value on the way.
pub const WARNING: &str = "warning";
/// The operation was not permitted.
pub const DENIED: &str = "denied";
/// The input was not accepted.
pub const REJECTED: &str = "rejected";
/// The operation could not be carried out.
pub const FAILED: &str = "failed";
/// All statuses, in their written form.
pub const STATUSES: [&str; 5] = [SUCCESS, WARNING, DENIED, REJECTED, FAILED];

/// The component and operation of a note about forgetting ([`TraceNote::of_forgetting`]).
const FORGETTING: (&str, &str) = ("memory", "forget");
/// The component and operation of a note about what a session was told ([`TraceNote::of_session`]), and the field of its
/// details with the name of the session.
const TELLING: (&str, &str) = ("hook", "tell_session");
const SESSION: &str = "session";
/// How long after a forgetting notes may still arrive whose words must not be kept: an operation that began before it
/// may still be running.
const FORGET_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// One thing that happened and is not in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceNote {
    /// When the operation ended.
    pub at: Timestamp,
    /// The last commit that the operation knew of.
    #[serde(default)]
    pub as_of: Seq,
    /// The part of the program: `scratch_page`, `scratchbook`, `page`, `router`, or a tool.
    pub component: String,
    /// The name of the operation, for example `list_observations`.
    pub operation: String,
    /// The entry that the operation concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryId>,
    /// The type of the observation, or the kind of any other entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<String>,
    /// The name of the tool or user that acted, or the role if there is no name.
    pub source: String,
    /// How the operation ended: [`SUCCESS`], [`WARNING`], [`DENIED`], [`REJECTED`] or [`FAILED`].
    pub status: String,
    /// The turn in which it happened.
    #[serde(default, rename = "turn_id", skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The run in which it happened.
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The node of the run's tree, by its engine id.
    #[serde(default, rename = "node_id", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How long the operation took, in microseconds, by a monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// Details: the filters of a query and how much it found, a reason, a value before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    /// The entries that a decision used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<EntryHandle>,
}

impl TraceNote {
    /// Creates a note that `actor` did something at `at`, with the status [`SUCCESS`].
    #[must_use]
    pub fn new(at: Timestamp, actor: &Actor, component: &str, operation: &str) -> Self {
        Self {
            at,
            as_of: Seq(0),
            component: component.to_owned(),
            operation: operation.to_owned(),
            entry: None,
            entry_type: None,
            source: actor.source_name().to_owned(),
            status: SUCCESS.to_owned(),
            turn: actor.turn,
            run: actor.run,
            node: None,
            duration_us: None,
            detail: None,
            used: Vec::new(),
        }
    }

    /// Creates a note that `actor` had something forgotten. Notes that others made before it but deliver later are kept
    /// without their words ([`TraceNote::may_keep_words`]).
    #[must_use]
    pub fn of_forgetting(at: Timestamp, actor: &Actor) -> Self {
        Self::new(at, actor, FORGETTING.0, FORGETTING.1)
    }

    /// Creates a note of what `actor` has told the conversation called `session`.
    #[must_use]
    pub fn of_session(at: Timestamp, actor: &Actor, session: &str, mut told: Value) -> Self {
        told[SESSION] = session.into();
        Self::new(at, actor, TELLING.0, TELLING.1).with_detail(told)
    }

    /// The entry that a store files the note under. Notes of forgetting share an id of their own, by which the last one
    /// is found, and so do the notes of a session.
    #[must_use]
    pub fn filed_under(&self) -> Option<EntryId> {
        let session = || self.detail.as_ref()?.get(SESSION)?.as_str();
        match (self.component.as_str(), self.operation.as_str()) {
            FORGETTING if self.status == SUCCESS => Some(Self::forget_notes_id()),
            TELLING => session().map(Self::session_notes_id),
            _ => self.entry,
        }
    }

    /// The id that notes of the conversation called `session` are filed under.
    #[must_use]
    pub fn session_notes_id(session: &str) -> EntryId {
        EntryId::derived(&["notes", "of a session", session])
    }

    /// The id that notes of forgetting are filed under.
    #[must_use]
    pub fn forget_notes_id() -> EntryId {
        EntryId::derived(&["notes", "of forgetting"])
    }

    /// Whether a note made `at` may keep its words if it is stored after something was forgotten at `forgotten`.
    #[must_use]
    pub fn may_keep_words(at: Timestamp, forgotten: Timestamp) -> bool {
        at > forgotten.plus(FORGET_GRACE_PERIOD)
    }

    /// Returns the note without anything that people or tools said: only that it happened.
    #[must_use]
    pub fn without_words(self) -> Self {
        Self { detail: None, ..self }
    }

    /// Returns the note with another status.
    #[must_use]
    pub fn with_status(self, status: &str) -> Self {
        Self {
            status: status.to_owned(),
            ..self
        }
    }

    /// Returns the note with details.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Value>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    /// Returns the note as being about an entry and its type.
    #[must_use]
    pub fn about(self, entry: EntryId, entry_type: Option<String>) -> Self {
        Self {
            entry: Some(entry),
            entry_type,
            ..self
        }
    }

    /// Returns the note with the time that the operation took.
    #[must_use]
    pub fn taking(self, duration: Duration) -> Self {
        Self {
            duration_us: Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
            ..self
        }
    }

    /// Returns the note of a decision that used `entries`.
    #[must_use]
    pub fn using(self, entries: impl IntoIterator<Item = EntryHandle>) -> Self {
        Self {
            used: entries.into_iter().collect(),
            ..self
        }
    }

    /// Returns the note with `warnings`, and [`WARNING`] as its status. Without warnings nothing changes.
    #[must_use]
    pub fn with_warnings(self, warnings: &[Warning]) -> Self {
        if warnings.is_empty() {
            return self;
        }
        let warning_values: Vec<Value> = warnings
            .iter()
            .map(|warning| serde_json::json!({"code": warning.code, "given": warning.given, "used": warning.used}))
            .collect();
        self.with_status(WARNING)
            .with_detail(serde_json::json!({ "warnings": warning_values }))
    }
}

/// Which notes are wanted. A field that is not set restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NoteQuery {
    /// Only notes of this turn.
    pub turn: Option<TurnId>,
    /// Only notes of this run.
    pub run: Option<RunId>,
    /// Only notes [filed under](TraceNote::filed_under) this entry.
    pub entry: Option<EntryId>,
    /// Only notes of this part of the program.
    pub component: Option<String>,
    /// Only notes made with knowledge of this commit or a later one. With it, `limit` keeps the first notes, without it
    /// the last.
    pub since: Option<Seq>,
    /// Only notes made at this instant or later.
    pub from: Option<Timestamp>,
    /// Only notes made at this instant or before.
    pub until: Option<Timestamp>,
    /// The maximum number of notes.
    pub limit: usize,
}

impl NoteQuery {
    /// Whether `note` matches the query, order and limit aside.
    #[must_use]
    pub fn matches(&self, note: &TraceNote) -> bool {
        self.turn.is_none_or(|turn| note.turn == Some(turn))
            && self.run.is_none_or(|run| note.run == Some(run))
            && self.entry.is_none_or(|entry| note.filed_under() == Some(entry))
            && self
                .component
                .as_ref()
                .is_none_or(|component| note.component == *component)
            && self.since.is_none_or(|seq| note.as_of >= seq)
            && self.from.is_none_or(|from| note.at >= from)
            && self.until.is_none_or(|until| note.at <= until)
    }
}

/// Which notes a space keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesKept {
    /// Notes from before this instant are dropped.
    pub from: Timestamp,
    /// Only this many notes are kept; the oldest are dropped first.
    pub notes_max: u64,
}

impl NotesKept {
    /// All notes are kept.
    pub const ALL: Self = Self {
        from: Timestamp::MIN,
        notes_max: u64::MAX,
    };
}

/// What a space keeps of its trace: the section `trace` of its policy. Times are in minutes; `null` means forever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct TracePolicy {
    /// How long notes are kept; 30 days by default.
    pub keep_minutes: Option<u64>,
    /// The maximum number of notes; 200,000 by default.
    pub notes_max: u64,
    /// Whether queries are noted as well as refusals, warnings and decisions.
    pub questions: bool,
}

read_from_an_object!(TracePolicy);

impl Default for TracePolicy {
    fn default() -> Self {
        Self {
            keep_minutes: Some(30 * 24 * 60),
            notes_max: 200_000,
            questions: true,
        }
    }
}

impl TracePolicy {
    /// What is kept at `now`.
    #[must_use]
    pub fn kept(&self, now: Timestamp) -> NotesKept {
        let from = self.keep_minutes.map_or(Timestamp::MIN, |minutes| {
            now.minus(Duration::from_secs(minutes.saturating_mul(60)))
        });
        NotesKept {
            from,
            notes_max: self.notes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Role;

    #[test]
    fn trace_note_round_trips_through_json_m7_10() {
        let actor = Actor::new(Role::Tool, "wine_search");
        let note = TraceNote::new(Timestamp::from_millis(5), &actor, "scratch_page", "list_observations")
            .taking(Duration::from_micros(17))
            .with_detail(serde_json::json!({"returned": 2}))
            .using([EntryHandle(3)]);
        let text = serde_json::to_string(&note).unwrap();
        assert_eq!(serde_json::from_str::<TraceNote>(&text).unwrap(), note);
        assert_eq!((note.source.as_str(), note.duration_us), ("wine_search", Some(17)));
    }

    #[test]
    fn trace_notes_are_kept_for_thirty_days_by_default_m7_10() {
        let now = Timestamp::parse("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(
            TracePolicy::default().kept(now).from.to_string(),
            "2026-01-01T00:00:00Z"
        );
        let policy: TracePolicy = serde_json::from_value(serde_json::json!({"keep_minutes": null})).unwrap();
        assert_eq!(policy.kept(now).from, Timestamp::MIN);
    }

    #[test]
    fn trace_note_records_given_and_used_values_of_a_warning_m7_1_4() {
        let note = TraceNote::new(
            Timestamp::MIN,
            &Actor::new(Role::Human, ""),
            "scratch_page",
            "add_observation",
        );
        assert_eq!(note.clone().with_warnings(&[]), note);
        let note = note.with_warnings(&[Warning::new("ttl_invalid", "…", -1, 10_080)]);
        assert_eq!((note.status.as_str(), note.source.as_str()), (WARNING, "human"));
        assert_eq!(
            note.detail.unwrap().to_string(),
            r#"{"warnings":[{"code":"ttl_invalid","given":-1,"used":10080}]}"#
        );
    }
}
