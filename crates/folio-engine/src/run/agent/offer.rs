//! Which tools a model is told about, and in how much detail: a small window has no room for everything about each
//! (seed 003, goals 3 and 5).

use std::sync::{Arc, Mutex, PoisonError};

use folio_memory::excerpt::cut;
use folio_memory::tokens::Tokens;
use serde_json::{Value, json};

use super::schema::{self, ASK_PERSON, FINISH};
use super::{Equipment, ModelSpec, NamedExecutor, ToolScope};
use crate::talk::{Need, ToolOffer};

/// The most that definitions of tools may take of a window, in per cent.
const TOOLS_WINDOW_PERCENT: u64 = 48;
/// For how many scopes of tools is remembered what a model is told.
const SCOPES_KEPT: usize = 64;
/// The most characters of a description that was shortened to its first sentence.
const SENTENCE_CHARS: usize = 120;

/// The tools of an executor, as its model is told about them.
#[derive(Debug)]
pub(in crate::run) struct Offered {
    /// The tools that the model is told about.
    pub(super) tools: Arc<[ToolOffer]>,
    /// The names of the tools for which there is no room.
    pub(super) left_out: Vec<String>,
    /// The cost of their definitions in tokens.
    pub(super) cost: u64,
    /// A line for each tool, for a model that plans.
    pub(super) listed: String,
    /// What a system prompt says about them in addition to their definitions; may be empty.
    pub(super) told: String,
}

/// What the model of an executor is told about the tools of an [`Equipment`], for each scope of tools: determined when a
/// run first needs it, for all who share the equipment. A clone determines it anew.
#[derive(Debug, Default)]
pub struct OfferedTools(Mutex<Vec<(ToolScope, Arc<Offered>)>>);

impl Clone for OfferedTools {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Equipment {
    /// What the model of an executor is told about the tools in `scope`: of the usual executor, or of `executor`.
    pub(super) fn offered(&self, executor: Option<&NamedExecutor>, scope: &ToolScope) -> Arc<Offered> {
        let fallback = (&self.offered, &self.executor);
        let (found, model) = executor.map_or(fallback, |executor| (&executor.offered, &executor.model));
        let mut known = found.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, offered)) = known.iter().find(|(known, _)| known == scope) {
            return Arc::clone(offered);
        }
        let mut offered = Offered::of(self, model, scope);
        offered.listed = super::prompt::list_of(&offered.tools);
        offered.told = super::prompt::tools_prompt(self, &offered);
        let offered = Arc::new(offered);
        // The widest is needed most.
        if known.len() >= SCOPES_KEPT
            && let Some(oldest) = known.iter().position(|(scope, _)| scope.is_narrow())
        {
            known.remove(oldest);
        }
        known.push((scope.clone(), Arc::clone(&offered)));
        offered
    }
}

impl Offered {
    /// The tools of `equipment` in `scope` that the `model` of an executor is told about: everything if that costs at most
    /// 48 % of its window; otherwise only the first sentence of each description and no text about arguments, and if that is
    /// still too much, the least needed tools are left out.
    pub(super) fn of(equipment: &Equipment, model: &ModelSpec, scope: &ToolScope) -> Self {
        let ModelSpec { tokens, window, .. } = model;
        let tokens = &**tokens;
        let room = u64::from(*window) * TOOLS_WINDOW_PERCENT / 100;
        let mut tools: Vec<ToolOffer> = scope.of(&equipment.tools).into_iter().cloned().collect();
        tools.extend(own_tools(equipment));
        let total_cost: u64 = tools.iter().map(|tool| cost(tool, tokens)).sum();
        if total_cost <= room {
            return Self {
                tools: tools.into(),
                left_out: Vec::new(),
                cost: total_cost,
                listed: String::new(),
                told: String::new(),
            };
        }
        tools.iter_mut().for_each(shorten);
        let costs: Vec<u64> = tools.iter().map(|tool| cost(tool, tokens)).collect();
        let mut order: Vec<usize> = (0..tools.len()).collect();
        order.sort_by_key(|at| (tools[*at].need, costs[*at], *at));
        let mut left = room;
        let mut offered_flags = vec![false; tools.len()];
        for at in order {
            // Without these, the model could do nothing, or never end.
            let is_there = tools[at].need == Need::Always || costs[at] <= left;
            if is_there {
                left = left.saturating_sub(costs[at]);
            }
            offered_flags[at] = is_there;
        }
        let mut left_out = Vec::new();
        let mut flags = offered_flags.into_iter();
        tools.retain(|tool| {
            let is_offered = flags.next().unwrap_or(true);
            left_out.extend((!is_offered).then(|| tool.name.clone()));
            is_offered
        });
        Self {
            cost: tools.iter().map(|tool| cost(tool, tokens)).sum(),
            tools: tools.into(),
            left_out,
            listed: String::new(),
            told: String::new(),
        }
    }
}

/// The estimated cost of a definition, rather too high than too low.
pub(super) fn cost(tool: &ToolOffer, tokens: &dyn Tokens) -> u64 {
    let text = |text: &str| u64::from(tokens.count(text));
    text(&tool.description)
        + text(&tool.args_schema.to_string())
        + text(&tool.name)
        + super::prompt::MESSAGE_OVERHEAD_TOKENS
}

/// Shortens the description to its first sentence, and the schema to what a call is checked against.
fn shorten(tool: &mut ToolOffer) {
    tool.description = cut(first_sentence(&tool.description), SENTENCE_CHARS).into();
    without_words(Arc::make_mut(&mut tool.args_schema));
}

/// The first sentence of a description, without its end if there are more.
pub(super) fn first_sentence(description: &str) -> &str {
    description.split_once(". ").map_or(description, |(first, _)| first)
}

/// Removes what only people and models read, and what the check of a call reports if it is violated.
fn without_words(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    // Inside `properties` these would be names of arguments.
    for word in [
        "description",
        "title",
        "examples",
        "default",
        "$schema",
        "minimum",
        "additionalProperties",
    ] {
        fields.remove(word);
    }
    fields.retain(|word, value| word != "required" || *value != json!([]));
    for (keyword, below) in fields {
        match (keyword.as_str(), below) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values_mut().for_each(without_words);
            }
            ("enum" | "const" | "required", _) => {}
            (_, Value::Array(many)) => many.iter_mut().for_each(without_words),
            (_, one) => without_words(one),
        }
    }
}

/// The tools that only executors have.
fn own_tools(equipment: &Equipment) -> impl Iterator<Item = ToolOffer> {
    let finish = ToolOffer {
        name: FINISH.to_owned(),
        description: "Ends the task with its result. Call it alone, once, when the task is done or cannot be done."
            .into(),
        args_schema: schema::result(),
        writes: false,
        need: Need::Always,
    };
    let ask_person = ToolOffer {
        name: ASK_PERSON.to_owned(),
        description: "Asks a person and waits for the answer. Use it only for what you cannot find out otherwise."
            .into(),
        args_schema: Arc::new(json!({
            "type": "object",
            "required": ["question"],
            "properties": {
                "question": {"type": "string"},
                "options": {"type": "array", "items": {"type": "string"}},
                "default": {"type": "string", "description": "Used if nobody answers."},
                "minutes": {"type": "number", "description": "How long to wait for an answer."}
            }
        })),
        writes: false,
        need: Need::Often,
    };
    std::iter::once(finish).chain(equipment.has_person.then_some(ask_person))
}

#[cfg(test)]
mod tests {
    use folio_memory::tokens::Estimate;

    use super::*;

    fn tool(name: &str, need: Need, words: usize) -> ToolOffer {
        ToolOffer {
            name: name.to_owned(),
            description: format!("Does {name}. {}", "And more about it. ".repeat(words)).into(),
            args_schema: Arc::new(json!({"type": "object", "required": ["description"], "properties": {
                "description": {"type": "string", "description": "word ".repeat(words)},
                "kind": {"type": "string", "enum": ["title", "default"], "title": "word ".repeat(words)},
                "parts": {"type": "array", "items": {"anyOf": [{"type": "object", "description": "word ".repeat(words)}]}},
            }})),
            writes: false,
            need,
        }
    }

    fn equipment(window: u32, tools: Vec<ToolOffer>) -> Equipment {
        let mut equipment = crate::run::tests::models::equipment();
        equipment.executor.window = window;
        equipment.tools = tools;
        equipment
    }

    fn offered(window: u32, tools: Vec<ToolOffer>) -> Offered {
        let equipment = equipment(window, tools);
        Offered::of(&equipment, &equipment.executor, &ToolScope::default())
    }

    fn names(offered: &Offered) -> Vec<&str> {
        offered.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn large_window_offers_tools_with_full_descriptions() {
        let tools = vec![tool("a", Need::Seldom, 50), tool("b", Need::Always, 50)];
        let offered = offered(128_000, tools.clone());
        assert_eq!(offered.tools[..2], tools);
        assert_eq!(names(&offered), ["a", "b", FINISH]);
        assert!(offered.left_out.is_empty());
    }

    #[test]
    fn small_window_shortens_tool_descriptions_but_keeps_schema_constraints() {
        let tools = vec![tool("a", Need::Seldom, 200), tool("b", Need::Always, 200)];
        let offered = offered(4_096, tools);
        assert_eq!(names(&offered), ["a", "b", FINISH]);
        assert_eq!(&*offered.tools[0].description, "Does a");
        assert_eq!(
            *offered.tools[0].args_schema,
            json!({"type": "object", "required": ["description"], "properties": {
                "description": {"type": "string"},
                "kind": {"type": "string", "enum": ["title", "default"]},
                "parts": {"type": "array", "items": {"anyOf": [{"type": "object"}]}},
            }})
        );
    }

    #[test]
    fn small_window_omits_seldom_needed_tools_but_keeps_mandatory_ones() {
        let mut tools: Vec<ToolOffer> = (0..40)
            .map(|n| tool(&format!("t{n}"), [Need::Seldom, Need::Often][n % 2], 10))
            .collect();
        tools.push(tool("must", Need::Always, 10));
        for window in [200, 2_000, 4_096, 8_192] {
            let offered = offered(window, tools.clone());
            let there = names(&offered);
            assert!(there.contains(&"must") && there.contains(&FINISH), "{window}");
            assert_eq!(there.len() + offered.left_out.len(), 42);
            let is_often = |name: &str| name[1..].parse::<usize>().is_ok_and(|n| n % 2 == 1);
            if offered.left_out.iter().any(|name| is_often(name)) {
                assert!(
                    there.iter().all(|name| is_often(name) || !name.starts_with('t')),
                    "{window}"
                );
            }
            let always: u64 = offered
                .tools
                .iter()
                .filter(|tool| tool.need == Need::Always)
                .map(|tool| cost(tool, &Estimate))
                .sum();
            let all: u64 = offered.tools.iter().map(|tool| cost(tool, &Estimate)).sum();
            assert!(
                all <= (u64::from(window) * TOOLS_WINDOW_PERCENT / 100).max(always),
                "{window}: {all}"
            );
        }
    }
    #[test]
    fn tools_offered_to_a_named_executor_fit_its_own_window_e9_17() {
        let tools = vec![tool("a", Need::Seldom, 200), tool("b", Need::Always, 200)];
        let equipment = equipment(128_000, tools.clone());
        let named = NamedExecutor {
            model: ModelSpec {
                window: 4_096,
                ..equipment.executor.clone()
            },
            about: String::new(),
            offered: OfferedTools::default(),
        };
        let all = ToolScope::default();
        assert_eq!(equipment.offered(None, &all).tools[..2], tools);
        assert_eq!(&*equipment.offered(Some(&named), &all).tools[0].description, "Does a");
        assert_eq!(
            equipment.offered(None, &all).tools[..2],
            tools,
            "one is not told what another is"
        );
    }
}
