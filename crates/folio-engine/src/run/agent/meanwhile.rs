//! What the conversation of a task holds besides the calls that were made: for the last call of a task that a limit
//! stops, and for its result if there is no such call (E9.10).

use folio_memory::canonical::canonical;
use folio_memory::excerpt::cut;
use serde_json::Value;

use super::apply::NOT_ACCEPTED;
use super::schema::FINISH;
use super::{Agent, TalkEntry};
use crate::run::call_in_words;
use crate::run::state::Run;
use crate::talk::{Message, Reply, Speaker, Stop, Wanted};

/// The most characters of the reason why a call was refused.
const REFUSAL_CHARS: usize = 400;

impl Agent {
    /// What the model wrote beside its calls in this conversation, the results that it wanted to finish with, and why
    /// these were not accepted: the last of it, in at most `max` characters.
    pub(super) fn remarks(&self, max: usize) -> Vec<String> {
        let said = self.messages().rev().flat_map(|message| match message.speaker {
            Speaker::Assistant => {
                let finished = message.calls.iter().filter(|call| call.tool == FINISH).rev();
                let finished = finished.map(|call| format!("{FINISH} {}", canonical(call.args.clone())));
                let text = message.text.trim();
                finished.chain((!text.is_empty()).then(|| text.to_owned())).collect()
            }
            Speaker::User if message.text.starts_with(NOT_ACCEPTED) => vec![message.text.clone()],
            Speaker::User | Speaker::System | Speaker::Tool => Vec::new(),
        });
        last_of(said, max)
    }

    /// The calls in this conversation that were not made, each with the reason: the last of them, in at most `max`
    /// characters.
    pub(super) fn refused_calls(&self, max: usize) -> Vec<String> {
        let answered = self.answered_calls().into_iter().rev();
        let refused = answered.filter(|(call, _)| call.tool != FINISH).map(|(call, told)| {
            let call = call_in_words(&call.tool, &call.args);
            format!("{call} -> {}", cut(told, REFUSAL_CHARS))
        });
        last_of(refused, max)
    }

    /// The calls in this conversation that were answered with a text instead of being made, each with that text: calls
    /// that were refused, and questions to people.
    pub(super) fn answered_calls(&self) -> Vec<(&Wanted, &str)> {
        let (mut wanted, mut answered): (&[Wanted], Vec<_>) = (&[], Vec::new());
        for message in self.messages() {
            if message.speaker == Speaker::Assistant {
                wanted = &message.calls;
            }
            let call = wanted.iter().find(|call| Some(&call.id) == message.answers.as_ref());
            answered.extend(call.map(|call| (call, message.text.as_str())));
        }
        answered
    }

    fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.talk.iter().filter_map(|entry| match entry {
            TalkEntry::Message(message) => Some(message),
            TalkEntry::Result { .. } => None,
        })
    }
}

impl Run {
    /// The last result with which whoever does node `index` wanted to finish, and which was not accepted.
    pub(in crate::run) fn last_finish(&self, index: usize) -> Option<Value> {
        let said = self.agent(index)?.messages().rev();
        let mut said = said.filter(|message| message.speaker == Speaker::Assistant);
        said.find_map(|message| {
            if let Some(finish) = message.calls.iter().find(|call| call.tool == FINISH) {
                return Some(finish.args.clone());
            }
            let reply = Reply {
                text: message.text.clone(),
                calls: Vec::new(),
                stop: Stop::Done,
                permissions: Vec::new(),
            };
            let is_alone = message.calls.is_empty();
            is_alone
                .then(|| self.finish_in_text(index, &reply))
                .flatten()
                .map(|finish| finish.args)
        })
    }

    /// Whether a person told the task `index` something in its conversation.
    pub(super) fn was_told_by_people(&self, index: usize) -> bool {
        let mut said = self.agent(index).into_iter().flat_map(Agent::messages);
        said.any(|message| message.speaker == Speaker::Tool && self.answers.are_of_people(&message.text))
    }
}

/// As many of the texts that `newest_first` gives as `max` characters have room for, the oldest first.
fn last_of(newest_first: impl Iterator<Item = String>, max: usize) -> Vec<String> {
    let mut left = max;
    let mut kept: Vec<String> = newest_first
        .map_while(|text| {
            let shown = (left > 0).then(|| cut(&text, left))?;
            left = left.saturating_sub(shown.chars().count());
            Some(shown)
        })
        .collect();
    kept.reverse();
    kept
}
