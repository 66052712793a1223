//! The object in a reply, and which part of it is accepted if the reply was cut off (E9.13).

use std::borrow::Cow;

use folio_memory::EntryId;
use folio_memory::excerpt::cut;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::fields::{mistakes_in, status_of};
use super::repair::{self, Ended};
use super::schema::{self, FINISH};
use super::sizes::READ_ON;
use crate::result::{Outcome, StopReason};
use crate::run::state::Run;
use crate::talk::{Purpose, Reply, Stop};

/// The most characters of a model's own text that become notes.
pub(super) const NOTES_CHARS: usize = 4_000;

/// Keys that are not accepted if the answer ended inside their value, because nobody would notice what is missing.
const WHOLE_OR_NOT: [&str; 5] = ["steps", "output", "verdicts", "action", "drop"];
/// What stands behind the beginning of notes whose whole text is the output: before and behind their length.
const FIRST_PART: &str = "\n[the first part of ";
const IN_OUTPUT: &str = "; the output has the full text]";

/// The object of a reply.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) value: Value,
    /// Which part of its end is missing.
    pub(super) missing: Missing,
}

/// Which part of the end of an answer is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// Only what closes it.
    Brackets,
    /// It ended in the middle of a text, or at its limit: nobody knows what else it would have said.
    Rest,
}

impl Answer {
    /// The remark, for the journal, on an answer that had to be closed where it ended.
    pub(super) fn remark(&self) -> &'static str {
        match self.missing {
            Missing::Nothing => "",
            Missing::Brackets => " (the answer's JSON was incomplete; Folio closed it)",
            Missing::Rest => " (the answer was cut off; this is what it held up to there)",
        }
    }

    /// The status that the answer reports; but an answer that was cut off is not done, whatever it reports.
    pub(super) fn status(&self) -> Result<Outcome, Vec<String>> {
        let status = status_of(&self.value).map_err(|problem| {
            let others = mistakes_in(&self.value);
            std::iter::once(problem).chain(others).collect::<Vec<_>>()
        })?;
        Ok(match self.missing {
            Missing::Rest => status.max(Outcome::Partial),
            Missing::Nothing | Missing::Brackets => status,
        })
    }

    /// Why the status is not better, if the way it was read is the reason.
    pub(super) fn stop_reason(&self) -> Option<StopReason> {
        (self.missing == Missing::Rest).then_some(StopReason::Unparseable)
    }
}

impl Run {
    /// Whether the answer in `reply` can be read, but is not by itself what was asked for: it is in a fence or in other
    /// text, has extra commas, or was not closed; or it is a text instead of the call of `finish`. The journal keeps it
    /// as it was given.
    pub(super) fn is_repaired(&self, index: usize, purpose: Purpose, reply: &Reply) -> bool {
        if purpose == Purpose::Work && !self.works_alone(index, purpose.role()) {
            return self.finish_in_text(index, reply).is_some();
        }
        let text = reply.text.trim();
        reply.calls.is_empty()
            && !text.is_empty()
            && serde_json::from_str::<IgnoredAny>(text).is_err()
            && self.object_of(index, purpose, reply).is_ok()
    }

    /// The object in the reply to node `index`, or what is wrong with it. An answer that was cut off is
    /// requested once more before it is closed; one that reached its limit gets more room then.
    pub(super) fn object_of(&self, index: usize, purpose: Purpose, reply: &Reply) -> Result<Answer, Vec<String>> {
        let is_at_limit = reply.stop == Stop::Length;
        let limit_note = if is_at_limit {
            "; the answer reached its limit, so write less"
        } else {
            ""
        };
        let needed = schema::needed(purpose);
        let repaired = repair::object_of(&answer_text(purpose, reply), &[needed], &schema::required(purpose))
            .map_err(|problem| vec![format!("{problem}{limit_note}")])?;
        let mut value = repaired.value;
        if value.get(needed).is_none() {
            return Err(self.mistakes_without(needed, index, purpose, &value));
        }
        let Some(ended) = repaired.ended else {
            return Ok(Answer {
                value,
                missing: Missing::Nothing,
            });
        };
        let is_cut = is_at_limit || matches!(ended, Ended::InText(_));
        let missing = if is_cut { Missing::Rest } else { Missing::Brackets };
        let inside = match &ended {
            Ended::Inside(key) | Ended::InText(key) if WHOLE_OR_NOT.contains(&key.as_str()) => Some(key),
            Ended::Inside(_) | Ended::InText(_) | Ended::Between => None,
        };
        if purpose == Purpose::HandBack {
            // This is the last call, so what is complete counts.
            if let (Some(key), Some(object)) = (inside, value.as_object_mut()) {
                object.remove(key);
            }
            return Ok(Answer { value, missing });
        }
        // A program takes as much room as it needs, and would do all of it again.
        let gets_more = || self.is_first_answer(index) && !self.works_alone(index, purpose.role());
        match inside {
            Some(key) => Err(vec![format!("the answer was cut off inside `{key}`{limit_note}")]),
            None if is_cut && gets_more() => Err(vec![format!("the answer was cut off{limit_note}")]),
            None => Ok(Answer { value, missing }),
        }
    }

    /// Everything that is wrong with an answer without the key `needed`, so that one more request corrects all of it
    /// (E9.13).
    fn mistakes_without(&self, needed: &str, index: usize, purpose: Purpose, answer: &Value) -> Vec<String> {
        let mut problems = vec![format!("`{needed}` is missing")];
        match purpose {
            Purpose::Replan => {
                if let Err(all) = self.mistakes_of_replan(index, answer) {
                    problems = all;
                }
            }
            Purpose::Decide => problems.extend(self.mistakes_in_steps(index, answer, &[])),
            Purpose::Work | Purpose::Aggregate | Purpose::HandBack | Purpose::RollUp => {
                problems.extend(status_of(answer).err());
                problems.extend(mistakes_in(answer));
            }
            Purpose::Judge => {}
        }
        problems
    }
}

/// The text of the answer to `purpose`: what was said, or else the arguments of `finish`, which a model calls that has
/// just worked with it, although it is asked for a result alone.
fn answer_text(purpose: Purpose, reply: &Reply) -> Cow<'_, str> {
    let is_result = matches!(purpose, Purpose::Aggregate | Purpose::RollUp | Purpose::HandBack);
    match &*reply.calls {
        [finish] if is_result && reply.text.trim().is_empty() && finish.tool == FINISH => {
            Cow::Owned(finish.args.to_string())
        }
        _ => Cow::Borrowed(&reply.text),
    }
}

/// The notes of an answer, and its output.
pub(super) struct NotesAndOutput {
    /// The notes, or their beginning.
    pub(super) notes: String,
    /// The whole notes, if they are nowhere else.
    pub(super) whole_notes: Option<String>,
    pub(super) output: Value,
}

/// The notes of an answer, and its output. Of long notes the beginning stays: the whole text becomes the output if
/// there is no other, otherwise the notes say how much is left out, and that `entry` holds all of it, if there will be
/// such an entry.
pub(super) fn notes_and_output(notes: &str, answer: &Value, entry: Option<EntryId>) -> NotesAndOutput {
    let notes = notes.trim();
    let output = answer.get("output").cloned().unwrap_or(Value::Null);
    let all = notes.chars().count();
    if all <= NOTES_CHARS {
        return NotesAndOutput {
            notes: notes.to_owned(),
            whole_notes: None,
            output,
        };
    }
    let beginning = cut(notes, NOTES_CHARS);
    if output.is_null() {
        return NotesAndOutput {
            notes: format!("{beginning}{FIRST_PART}{all} characters{IN_OUTPUT}"),
            whole_notes: None,
            output: Value::String(notes.to_owned()),
        };
    }
    let left_out = all - (NOTES_CHARS - 1);
    let rest = entry.map_or_else(String::new, |entry| format!("; {READ_ON}{entry}"));
    NotesAndOutput {
        notes: format!("{beginning}\n[{left_out} of {all} characters left out{rest}]"),
        whole_notes: entry.map(|_| notes.to_owned()),
        output,
    }
}

/// `notes` for a reader who is shown `output` as well: if they are only its beginning, what was remarked on them.
pub(super) fn without_beginning_of(notes: &str, output: &Value) -> String {
    let whole = || notes.to_owned();
    let Some((beginning, rest)) = notes.split_once(FIRST_PART) else {
        return whole();
    };
    let is_same = |text: &str| text.starts_with(beginning.trim_end_matches('…'));
    match (rest.split_once(IN_OUTPUT), output) {
        (Some((_, remark)), Value::String(text)) if is_same(text) => format!("the notes are the output{remark}"),
        _ => whole(),
    }
}

/// `text` followed by a remark on how it was read.
pub(super) fn with_remark(text: String, remark: &str) -> String {
    if remark.is_empty() {
        return text.trim().to_owned();
    }
    format!("{text}{remark}").trim().to_owned()
}
