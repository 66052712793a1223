//! The notes of a task that was stopped before it was finished: why, what was done, and what was to be done (E9.10,
//! E9.13).

use folio_memory::excerpt::cut;

use super::ask::REFUSALS_MAX;
use super::fields::text_of;
use super::object::NOTES_CHARS;
use super::read::WRONG_CHARS;
use crate::result::StopReason;
use crate::run::state::Run;
use crate::template::Breaks;

/// The most characters of what was to be done.
const TITLE_CHARS: usize = 200;

impl Run {
    /// The notes of node `index`, which a model did without a plan and did not finish. `unsaid` is why its model did
    /// not summarize it, and `counts` are the results of its calls.
    pub(super) fn unfinished(
        &self,
        index: usize,
        reason: Option<StopReason>,
        unsaid: Option<&str>,
        counts: &str,
    ) -> String {
        let reason = reason.or(self.agent(index).and_then(|agent| agent.spent));
        let mut notes = "stopped before it was finished".to_owned();
        if let Some(why) = reason.and_then(|reason| self.why_stopped(index, reason)) {
            notes.push_str(&format!(": {why}"));
        }
        if let Some(unsaid) = unsaid {
            notes.push_str(&format!("; no summary was written: {unsaid}"));
        }
        // What it wanted to finish with is part of what there is, although it was not accepted.
        let finish = self.last_finish(index);
        if let Some(finish) = &finish {
            let said = text_of(finish, "notes");
            let colon = if said.is_empty() { "" } else { ": " };
            notes.push_str(&format!("; its last result was not accepted{colon}{said}"));
        }
        if self.members(index).next().is_some() {
            return self.with_table(index, &format!("{notes}; {counts}"));
        }
        if finish.is_some() {
            return cut(&notes, NOTES_CHARS);
        }
        let title = self
            .words_of(index, Breaks::Kept)
            .map_or_else(|_| String::new(), |(title, _)| title);
        match title.trim() {
            "" => format!("{notes}; nothing was done"),
            title => format!("{notes}; nothing was done of: {}", cut(title, TITLE_CHARS)),
        }
    }

    /// In words, why a limit stopped node `index`, if the name of the `reason` does not say it all.
    pub(super) fn why_stopped(&self, index: usize, reason: StopReason) -> Option<String> {
        let agent = self.agent(index)?;
        let resource = match reason {
            StopReason::Loop => {
                let last = agent.wrong.as_deref().map(|problem| cut(problem, WRONG_CHARS));
                let last = last.map_or_else(String::new, |problem| format!("; the last because: {problem}"));
                return Some(format!("{REFUSALS_MAX} rounds of calls in a row were rejected{last}"));
            }
            StopReason::TurnCap => {
                let calls = agent.calls;
                return Some(format!(
                    "it reached its limit of {calls} model calls, which a higher `model_calls` in its budget raises"
                ));
            }
            StopReason::WindowFull => {
                return Some("the conversation no longer fits into the model's context window".to_owned());
            }
            StopReason::Deadline => return Some("its time was up".to_owned()),
            StopReason::BudgetTokens => "tokens",
            StopReason::BudgetUsd => "dollars",
            StopReason::BudgetModelCalls => "model calls",
            StopReason::BudgetToolCalls => "tool calls",
            StopReason::BudgetBytes => "bytes",
            _ => return None,
        };
        let verb = if agent.calls == 0 { "begin" } else { "continue" };
        Some(format!("its budget does not leave enough {resource} to {verb}"))
    }
}
