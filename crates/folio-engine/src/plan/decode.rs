//! Builds a plan from the tree of its text, continuing after every mistake.
//!
//! A mistake is reported and replaced by something harmless, so that the rest can be checked too.

mod criteria;
mod scalars;
mod steps;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::cursor::{At, Faults};
use super::errors::code;
use super::nearest::nearest;
use super::spanned::{Node, Tree};
use super::{Budget, InputKind, InputSpec, PLAN_VERSION, Plan, Report, Slug, Step, keys};

/// The number of unreadable ids above which any name is taken to mean one of them, because every name is compared with
/// all of them.
const LOST_MAX: usize = 100;

/// Where each step was written.
#[derive(Debug, Default)]
pub(super) struct Origins<'a> {
    by_step: HashMap<*const (), At<'a>>,
    /// What was written as the id of a step but is not a valid one: a reference to such a step is not reported as
    /// another mistake.
    unreadable_ids: Vec<String>,
    /// What messages call each step without a valid id ("step 3"), by its placeholder id.
    unnamed: HashMap<Slug, String>,
}

impl<'a> Origins<'a> {
    pub(super) fn of(&self, step: &Step) -> Option<&At<'a>> {
        self.by_step.get(&address(step))
    }

    /// Whether `name` probably means a step whose id could not be read.
    pub(super) fn may_mean_unreadable_id(&self, name: &str) -> bool {
        self.unreadable_ids.len() > LOST_MAX || nearest(name, self.unreadable_ids.iter().map(String::as_str)).is_some()
    }

    /// What a message calls the step whose id is `id`.
    pub(super) fn display_name(&self, id: &Slug) -> String {
        self.unnamed.get(id).cloned().unwrap_or_else(|| format!("`{id}`"))
    }

    /// Records that `id` is a placeholder for the step at `path`.
    fn note_unnamed(&mut self, id: Slug, path: &str) {
        let list_and_index = path.strip_suffix(']').and_then(|path| path.rsplit_once('['));
        let list_and_index = list_and_index.and_then(|(list, index)| Some((list, index.parse::<usize>().ok()? + 1)));
        let description = match list_and_index {
            Some(("" | "steps", number)) => format!("step {number}"),
            Some((list, number)) => format!("step {number} of {list}"),
            None => format!("the step at {path}"),
        };
        self.unnamed.insert(id, description);
    }

    fn note(&mut self, step: &Step, at: &At<'a>) {
        self.by_step.insert(address(step), at.clone());
    }
}

/// Clones of a step share its content, so the address of the content identifies the step.
fn address(step: &Step) -> *const () {
    match step {
        Step::Task(task) => Arc::as_ptr(task).cast(),
        Step::Parallel(group) => Arc::as_ptr(group).cast(),
        Step::Sequence(sequence) => Arc::as_ptr(sequence).cast(),
        Step::ForEach(for_each) => Arc::as_ptr(for_each).cast(),
    }
}

/// A plan with placeholders where there are mistakes.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) plan: Plan,
    pub(super) origins: Origins<'a>,
    pub(super) faults: Faults,
}

pub(super) fn decode(root: &Node) -> Draft<'_> {
    let mut decoder = Decoder {
        faults: Faults::default(),
        origins: Origins::default(),
        placeholders: 0,
    };
    let plan = decoder.plan(&At::root(root));
    Draft {
        plan,
        origins: decoder.origins,
        faults: decoder.faults,
    }
}

struct Decoder<'a> {
    faults: Faults,
    origins: Origins<'a>,
    placeholders: u32,
}

impl<'a> Decoder<'a> {
    fn plan(&mut self, at: &At<'a>) -> Plan {
        let mut plan = Plan {
            version: PLAN_VERSION,
            title: String::new(),
            goal: String::new(),
            description: String::new(),
            inputs: BTreeMap::new(),
            criteria: Vec::new(),
            budget: Budget::default(),
            steps: Vec::new(),
            report: None,
            output: None,
        };
        match &at.node.tree {
            Tree::List(_) => {
                plan.steps = self.steps(at);
                return plan;
            }
            Tree::Object(_) => {}
            Tree::Null => {
                self.faults.add(at, code::EMPTY, "there is no plan in the text");
                return plan;
            }
            Tree::Bool(_) | Tree::Number(_) | Tree::String(_) => {
                self.faults
                    .wrong_type(at, "a plan: an object with `steps`, or a list of steps");
                return plan;
            }
        }
        self.faults.unknown_keys(at, keys::PLAN, "a plan");
        if let Some(version) = self.field(at, "version")
            && self.u32(&version) != Some(PLAN_VERSION)
        {
            let message = "this version of the plan language is not known";
            self.faults
                .bad_value(&version, message)
                .with_hint(format!("write `version: {PLAN_VERSION}`"));
        }
        plan.title = self.text_or_empty(at, "title");
        plan.goal = self.text_or_empty(at, "goal");
        plan.description = self.text_or_empty(at, "description");
        plan.inputs = self.inputs(at);
        plan.criteria = self.criteria(at, &[]);
        plan.budget = self.budget(at);
        match self.field(at, "steps") {
            Some(steps) => plan.steps = self.steps(&steps),
            None => {
                self.faults.missing(at, "steps", "a plan is a list of steps");
            }
        }
        plan.report = self.field(at, "report").and_then(|report| self.report(&report));
        plan.output = self.field(at, "output").map(|output| output.node.to_json());
        plan
    }

    fn report(&mut self, at: &At<'a>) -> Option<Report> {
        if let Tree::String(body) = &at.node.tree {
            return Some(Report {
                title: String::new(),
                body: body.clone(),
            });
        }
        if !self.is_object(at, "a report: `{title, body}`, or its text") {
            return None;
        }
        self.faults.unknown_keys(at, keys::REPORT, "a report");
        let title = self.text_or_empty(at, "title");
        let body = self.required_text(at, "body", "what people read in the end");
        Some(Report { title, body })
    }

    fn inputs(&mut self, at: &At<'a>) -> BTreeMap<String, InputSpec> {
        let mut inputs = BTreeMap::new();
        let Some(at) = self.field(at, "inputs") else {
            return inputs;
        };
        let Tree::Object(entries) = &at.node.tree else {
            self.faults.wrong_type(&at, "an object with one entry for each input");
            return inputs;
        };
        for entry in entries {
            let input_at = at.below_key(&entry.value, &entry.key);
            let is_identifier = entry.key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && entry.key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_identifier {
                let message = format!("`{}` cannot be the name of an input", entry.key);
                let error = self.faults.bad_value(&input_at, message);
                error.place = entry.place;
                error.with_hint("use letters, digits and `_`, so that a template can say `inputs.name`");
            }
            inputs.insert(entry.key.clone(), self.input(&input_at));
        }
        inputs
    }

    fn input(&mut self, at: &At<'a>) -> InputSpec {
        let mut input = InputSpec {
            kind: InputKind::default(),
            description: String::new(),
            default: None,
        };
        match &at.node.tree {
            Tree::String(_) => input.kind = self.one_of(at, &INPUT_KINDS).unwrap_or_default(),
            Tree::Object(_) => {
                self.faults.unknown_keys(at, keys::INPUT, "an input");
                if let Some(kind) = self.field(at, "type") {
                    input.kind = self.one_of(&kind, &INPUT_KINDS).unwrap_or_default();
                }
                input.description = self.text_or_empty(at, "description");
                if let Some(default) = self.field(at, "default") {
                    let value: Value = default.node.to_json();
                    if !input.kind.accepts(&value) {
                        let message = format!(
                            "the default is {}, the input is {}",
                            default.node.kind(),
                            input.kind.described()
                        );
                        let error = self.faults.add(&default, code::BAD_DEFAULT, message);
                        // An input that is given as a text is converted to its type, but a default must be written in
                        // its type.
                        error.hint = value
                            .as_str()
                            .and_then(|text| input.kind.read(text).ok().flatten())
                            .map(|parsed| format!("write {parsed}"));
                    }
                    input.default = Some(value);
                }
            }
            // `name:` with nothing after it declares a required text.
            Tree::Null => {}
            Tree::Bool(_) | Tree::Number(_) | Tree::List(_) => {
                self.faults
                    .wrong_type(at, "a type such as `string`, or `{type, description, default}`");
            }
        }
        input
    }
}

const INPUT_KINDS: [(&str, InputKind); 7] = [
    ("string", InputKind::String),
    ("integer", InputKind::Integer),
    ("number", InputKind::Number),
    ("boolean", InputKind::Boolean),
    ("path", InputKind::Path),
    ("list", InputKind::List),
    ("object", InputKind::Object),
];
