//! Text that many prompts have in common, and its cost: counted once for all runs that share a model, because counting
//! tokens is most of the work of making a prompt.

use std::sync::{Arc, Mutex, PoisonError};

use folio_memory::tokens::Tokens;
use serde_json::Value;

use super::prompt::{MESSAGE_OVERHEAD_TOKENS, cost, rules_for};
use super::{Equipment, ModelSpec, NamedExecutor, ToolScope, schema};
use crate::run::state::Run;
use crate::talk::{Message, Purpose};

/// The most texts and forms that are remembered: the rules for each purpose, and the form of the answer to it.
const KEPT: usize = 24;

/// The fixed parts of a model's prompts, with their costs. Filled on first use; a clone starts empty.
#[derive(Debug, Default)]
pub struct FixedCosts(Mutex<Vec<(Fixed, u64)>>);

#[derive(Debug)]
enum Fixed {
    Text(String),
    Schema(Arc<Value>),
}

impl Clone for FixedCosts {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl FixedCosts {
    /// The cost of `text`, which many prompts contain.
    pub(super) fn of_text(&self, text: &str, tokens: &dyn Tokens) -> u64 {
        let is_same = |fixed: &Fixed| matches!(fixed, Fixed::Text(known) if known == text);
        self.find(is_same, || (Fixed::Text(text.to_owned()), text.to_owned()), tokens)
    }

    /// The cost of `schema`, if many prompts share it.
    fn of_schema(&self, schema: &Arc<Value>, tokens: &dyn Tokens) -> u64 {
        let is_same = |fixed: &Fixed| matches!(fixed, Fixed::Schema(known) if Arc::ptr_eq(known, schema));
        self.find(
            is_same,
            || (Fixed::Schema(Arc::clone(schema)), schema.to_string()),
            tokens,
        )
    }

    fn find(
        &self,
        is_same: impl Fn(&Fixed) -> bool,
        make: impl FnOnce() -> (Fixed, String),
        tokens: &dyn Tokens,
    ) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cost)) = known.iter().find(|(fixed, _)| is_same(fixed)) {
            return *cost;
        }
        let (fixed, text) = make();
        let cost = u64::from(tokens.count(&text));
        if known.len() < KEPT {
            known.push((fixed, cost));
        }
        cost
    }
}

impl Equipment {
    /// The estimated tokens that a model reads when it is asked for `purpose`, to decide on a task of `executor` or to
    /// work on it, whatever the task is: the rules, the tools in `scope` and the form of the answer.
    pub(in crate::run) fn fixed_tokens(
        &self,
        purpose: Purpose,
        executor: Option<&NamedExecutor>,
        scope: &ToolScope,
    ) -> u64 {
        let model = self.model_of(executor, purpose.role());
        let (tokens, works_alone) = (&*model.tokens, model.program.is_some());
        let mut rules = rules_for(purpose, works_alone);
        let offered = self.offered(executor, scope);
        let tools = match purpose {
            Purpose::Work if works_alone => 0,
            Purpose::Work => {
                rules.push_str(&offered.told);
                offered.cost
            }
            _ => model.fixed.of_text(&offered.listed, tokens),
        };
        let form = schema::of(purpose, works_alone).map_or(0, |form| model.fixed.of_schema(&form, tokens));
        model.fixed.of_text(&rules, tokens) + tools + form + 2 * MESSAGE_OVERHEAD_TOKENS
    }
}

impl Run {
    /// The form of the answer to `purpose` when `model` is asked for node `index`, and its cost; `None` if the answer
    /// consists of calls of tools.
    pub(super) fn form(&self, index: usize, purpose: Purpose, model: &ModelSpec) -> (Option<Arc<Value>>, u64) {
        let Some(form) = schema::of(purpose, model.program.is_some()) else {
            return (None, 0);
        };
        let with_choice = (purpose == Purpose::Decide)
            .then(|| schema::with_executors(&form, self.executors_to_choose(index)))
            .flatten();
        let tokens = &*model.tokens;
        match with_choice {
            Some(form) => {
                let cost = u64::from(tokens.count(&form.to_string()));
                (Some(Arc::new(form)), cost)
            }
            None => {
                let cost = model.fixed.of_schema(&form, tokens);
                (Some(form), cost)
            }
        }
    }

    /// The cost of `messages`, which are everything that `model` reads when it is asked for node `index`.
    pub(super) fn cost_of(&self, index: usize, messages: &[Message], model: &ModelSpec) -> u64 {
        let tokens = &*model.tokens;
        // A scratchbook may be part of the rules, and differs each time.
        let has_book = self.agent(index).is_some_and(|agent| agent.book.is_some());
        let [rules, task, conversation @ ..] = messages else {
            return cost(messages, tokens);
        };
        let rules = if has_book {
            u64::from(tokens.count(&rules.text))
        } else {
            model.fixed.of_text(&rules.text, tokens)
        };
        // A model that plans reads the list of all tools before the task.
        let offered = self
            .equipment
            .as_ref()
            .map(|equipment| self.offered_at(index, equipment));
        let tool_list = offered.as_ref().map(|offered| offered.listed.as_str());
        let parts = tool_list.and_then(|list| Some((task.text.strip_prefix(list)?, list)));
        let task = parts.map_or_else(
            || u64::from(tokens.count(&task.text)),
            |(task, list)| u64::from(tokens.count(task)) + model.fixed.of_text(list, tokens),
        );
        rules + task + 2 * MESSAGE_OVERHEAD_TOKENS + cost(conversation, tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use folio_memory::tokens::Estimate;
    use serde_json::json;

    use super::*;

    /// Counts how often it is asked.
    #[derive(Debug, Default)]
    struct Asked(AtomicU32);

    impl Tokens for Asked {
        fn count(&self, text: &str) -> u32 {
            self.0.fetch_add(1, Ordering::Relaxed);
            Estimate.count(text)
        }

        fn method(&self) -> String {
            "asked".to_owned()
        }
    }

    #[test]
    fn tokens_of_fixed_prompt_parts_are_counted_once_and_cached() {
        let (fixed, asked) = (FixedCosts::default(), Asked::default());
        let schema = Arc::new(json!({"type": "object"}));
        for _ in 0..3 {
            let costs = [
                (fixed.of_text("You decide.", &asked), "You decide.".to_owned()),
                (fixed.of_text("You do a task.", &asked), "You do a task.".to_owned()),
                (fixed.of_schema(&schema, &asked), schema.to_string()),
            ];
            for (cost, text) in costs {
                assert_eq!(cost, u64::from(Estimate.count(&text)), "{text}");
            }
        }
        assert_eq!(asked.0.load(Ordering::Relaxed), 3);
        // What does not find a place is counted each time.
        for n in 0..2 * KEPT {
            let text = format!("text {n}");
            assert_eq!(fixed.of_text(&text, &asked), u64::from(Estimate.count(&text)));
        }
        assert!(fixed.0.lock().unwrap().len() <= KEPT);
    }
}
