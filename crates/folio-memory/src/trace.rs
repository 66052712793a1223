//! What happened besides the log: questions, refusals, warnings, decisions (M7.10).
//!
//! Changes of memory trace themselves: the log has them. A note is for everything else that somebody may want to
//! explain later. Notes are no part of the log, have no number in it, and are kept for a while only.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::from_object::read_from_an_object;
use crate::id::{EntryHandle, EntryId, RunId, Seq, TurnId};
use crate::time::Timestamp;
use crate::warning::Warning;

/// The name of the operation that reads the trace, for those who decide who may.
pub const READ_TRACE: &str = "read_trace";

/// It did what it was to do.
pub const SUCCESS: &str = "success";
/// It did, and put something right on the way.
pub const WARNING: &str = "warning";
/// It was not allowed.
pub const DENIED: &str = "denied";
/// It was not accepted.
pub const REJECTED: &str = "rejected";
/// It could not be done.
pub const FAILED: &str = "failed";
/// How things go, as programs read it.
pub const STATUSES: [&str; 5] = [SUCCESS, WARNING, DENIED, REJECTED, FAILED];

/// Which part of the program forgets, and how that is called ([`TraceNote::of_forgetting`]).
const FORGETTING: (&str, &str) = ("memory", "forget");
/// How long after something was forgotten a note may still say it: who was asked before may be at it for a while.
const STILL_SAID: Duration = Duration::from_secs(1);

/// One thing that happened and is not in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceNote {
    /// When it was over.
    pub at: Timestamp,
    /// The last commit that whoever did it knew of.
    #[serde(default)]
    pub as_of: Seq,
    /// Which part of the program: `scratch_page`, `scratchbook`, `page`, `router`, a tool.
    pub component: String,
    /// What was done, for example `list_observations`.
    pub operation: String,
    /// The entry that it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryId>,
    /// The type of the observation, or the kind of another entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_type: Option<String>,
    /// Who: the tool's or user's name, or the role if there is none.
    pub source: String,
    /// How it went: [`SUCCESS`], [`WARNING`], [`DENIED`], [`REJECTED`], [`FAILED`].
    pub status: String,
    /// In which turn.
    #[serde(default, rename = "turn_id", skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// In which run.
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// At which node of the run's tree, by its engine id.
    #[serde(default, rename = "node_id", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How long it took, by a clock that nobody can set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// More: the filters of a question and how much was found, a reason, a value before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
    /// The entries that a decision used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<EntryHandle>,
}

impl TraceNote {
    /// That `actor` did something at `at`, and that it went well.
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

    /// That `actor` has something forgotten. What others have noted by then and bring later is kept without its words
    /// ([`TraceNote::may_say`]).
    #[must_use]
    pub fn of_forgetting(at: Timestamp, actor: &Actor) -> Self {
        Self::new(at, actor, FORGETTING.0, FORGETTING.1)
    }

    /// The entry that a store files it under: those of forgetting have one of their own, by which the last one is found.
    #[must_use]
    pub fn filed_under(&self) -> Option<EntryId> {
        let is_of_forgetting =
            (self.component.as_str(), self.operation.as_str()) == FORGETTING && self.status == SUCCESS;
        if is_of_forgetting {
            Some(Self::filed_of_forgetting())
        } else {
            self.entry
        }
    }

    /// What notes of forgetting are filed under.
    #[must_use]
    pub fn filed_of_forgetting() -> EntryId {
        EntryId::derived(&["notes", "of forgetting"])
    }

    /// Whether a note made `at` may say what it says if it is kept after something was forgotten at `forgotten`.
    #[must_use]
    pub fn may_say(at: Timestamp, forgotten: Timestamp) -> bool {
        at > forgotten.plus(STILL_SAID)
    }

    /// The same without what people or tools said: only that it happened.
    #[must_use]
    pub fn without_words(self) -> Self {
        Self { detail: None, ..self }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(self, status: &str) -> Self {
        Self {
            status: status.to_owned(),
            ..self
        }
    }

    /// The same with more to say.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<Value>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    /// The same about an entry of a type.
    #[must_use]
    pub fn about(self, entry: EntryId, entry_type: Option<String>) -> Self {
        Self {
            entry: Some(entry),
            entry_type,
            ..self
        }
    }

    /// The same with the time that it took.
    #[must_use]
    pub fn taking(self, duration: Duration) -> Self {
        Self {
            duration_us: Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
            ..self
        }
    }

    /// The same for a decision that used `entries`.
    #[must_use]
    pub fn using(self, entries: impl IntoIterator<Item = EntryHandle>) -> Self {
        Self {
            used: entries.into_iter().collect(),
            ..self
        }
    }

    /// The same with what was put right: its status becomes [`WARNING`]. Nothing changes if there is no warning.
    #[must_use]
    pub fn with_warnings(self, warnings: &[Warning]) -> Self {
        if warnings.is_empty() {
            return self;
        }
        let said: Vec<Value> = warnings
            .iter()
            .map(|warning| serde_json::json!({"code": warning.code, "given": warning.given, "used": warning.used}))
            .collect();
        self.with_status(WARNING)
            .with_detail(serde_json::json!({ "warnings": said }))
    }
}

/// Which notes are wanted. What is not said restricts nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NoteQuery {
    /// Of this turn.
    pub turn: Option<TurnId>,
    /// Of this run.
    pub run: Option<RunId>,
    /// About this entry.
    pub entry: Option<EntryId>,
    /// Of this part of the program.
    pub component: Option<String>,
    /// Made by somebody who knew of this commit or a later one; then the first ones are given. Without it, the last.
    pub since: Option<Seq>,
    /// Made at this instant or later.
    pub from: Option<Timestamp>,
    /// Made at this instant or before.
    pub until: Option<Timestamp>,
    /// How many at most.
    pub limit: usize,
}

impl NoteQuery {
    /// Whether `note` is wanted, order and limit aside.
    #[must_use]
    pub fn matches(&self, note: &TraceNote) -> bool {
        self.turn.is_none_or(|turn| note.turn == Some(turn))
            && self.run.is_none_or(|run| note.run == Some(run))
            && self.entry.is_none_or(|entry| note.entry == Some(entry))
            && self
                .component
                .as_ref()
                .is_none_or(|component| note.component == *component)
            && self.since.is_none_or(|seq| note.as_of >= seq)
            && self.from.is_none_or(|from| note.at >= from)
            && self.until.is_none_or(|until| note.at <= until)
    }
}

/// How much a space keeps of what happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesKept {
    /// Notes from before this instant go.
    pub from: Timestamp,
    /// More than so many go, the oldest first.
    pub notes_max: u64,
}

/// What a space keeps of what happened: the section `trace` of its policy. In minutes; `null` is for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct TracePolicy {
    /// How long notes are kept; 30 days unless it is said.
    pub keep_minutes: Option<u64>,
    /// How many notes are kept at most; 200,000 unless it is said.
    pub notes_max: u64,
    /// Whether questions are noted, and not only refusals, warnings and decisions.
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
    fn a_note_reads_back_as_it_was_written_m7_10() {
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
    fn notes_are_kept_for_thirty_days_unless_it_is_said_m7_10() {
        let now = Timestamp::parse("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(
            TracePolicy::default().kept(now).from.to_string(),
            "2026-01-01T00:00:00Z"
        );
        let policy: TracePolicy = serde_json::from_value(serde_json::json!({"keep_minutes": null})).unwrap();
        assert_eq!(policy.kept(now).from, Timestamp::MIN);
    }

    #[test]
    fn a_warning_says_the_given_and_the_used_value_m7_1_4() {
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
