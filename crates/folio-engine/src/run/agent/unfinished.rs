//! The notes of a task that was stopped before it was done: why, what was done, and what was to be done (E9.10, E9.13).

use folio_memory::excerpt::cut;

use super::ask::REFUSALS_MAX;
use super::read::WRONG_CHARS;
use crate::result::StopReason;
use crate::run::state::Run;

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
        let mut notes = "stopped before it was done".to_owned();
        if let Some(why) = reason.and_then(|reason| self.why_stopped(index, reason)) {
            notes.push_str(&format!(": {why}"));
        }
        if let Some(unsaid) = unsaid {
            notes.push_str(&format!("; nobody put into words what there is: {unsaid}"));
        }
        if self.members(index).next().is_some() {
            return self.with_table(index, &format!("{notes}; {counts}"));
        }
        let title = self.words_of(index).map_or_else(|_| String::new(), |(title, _)| title);
        match title.trim() {
            "" => format!("{notes}; nothing of it was done"),
            title => format!("{notes}; nothing was done of: {}", cut(title, TITLE_CHARS)),
        }
    }

    fn why_stopped(&self, index: usize, reason: StopReason) -> Option<String> {
        let agent = self.agent(index)?;
        let what = match reason {
            StopReason::Loop => {
                let last = agent.wrong.as_deref().map(|wrong| cut(wrong, WRONG_CHARS));
                let last = last.map_or_else(String::new, |wrong| format!(", the last because of this: {wrong}"));
                return Some(format!("{REFUSALS_MAX} rounds of calls in a row came to nothing{last}"));
            }
            StopReason::TurnCap => {
                return Some(format!(
                    "it took {} calls of the model, and no more are made",
                    agent.calls
                ));
            }
            StopReason::WindowFull => {
                return Some("what was said has no room in the window of the model any more".to_owned());
            }
            StopReason::Deadline => return Some("the time was over".to_owned()),
            StopReason::BudgetTokens => "tokens",
            StopReason::BudgetUsd => "dollars",
            StopReason::BudgetModelCalls => "calls of models",
            StopReason::BudgetToolCalls => "calls of tools",
            StopReason::BudgetBytes => "bytes",
            _ => return None,
        };
        let to = if agent.calls == 0 { "begin" } else { "go on" };
        Some(format!("its budget leaves too few {what} to {to}"))
    }
}
