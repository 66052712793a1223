//! Whose words are in what a node writes to memory: what is derived from others is trusted as little as the least of
//! them.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::state::Run;
use super::tree::NodeKind;
use crate::node::NodeId;
use crate::plan::{ForEach, Observe, Step, Work};
use crate::template::{self, References, TemplateError};

impl Run {
    /// The tools whose answers may be in what `node` writes to memory: its own, those of the plan inside it, and those
    /// whose results templates put into it, directly or by way of other calls. What a model or a person wrote is their
    /// own, whatever they had read.
    #[must_use]
    pub fn tools_behind(&self, node: NodeId) -> BTreeSet<String> {
        let mut search = Search {
            run: self,
            tools: BTreeSet::new(),
            seen: HashSet::new(),
            rest: Vec::new(),
        };
        let Ok(index) = self.index(node) else {
            return search.tools;
        };
        if let Some(Step::Task(task)) = &self.nodes[index].step {
            task.observe.iter().for_each(|rule| search.rule(index, rule));
        }
        search.rest.push(index);
        while let Some(next) = search.rest.pop() {
            if search.seen.insert(next)
                && let Some(step) = &self.nodes[next].step
            {
                search.step(next, step);
            }
        }
        search.tools
    }
}

struct Search<'r> {
    run: &'r Run,
    tools: BTreeSet<String>,
    seen: HashSet<usize>,
    /// Nodes whose results are read.
    rest: Vec<usize>,
}

impl Search<'_> {
    /// Adds what is behind the result of `step`, which node `index` is or has in its plan.
    fn step(&mut self, index: usize, step: &Step) {
        match step {
            Step::Task(task) => match &task.work {
                Work::Do(call) => {
                    self.tools.insert(call.tool.clone());
                    // What a model called, it wrote itself.
                    if self.run.nodes[index].kind != NodeKind::Action {
                        self.reads(index, template::references(&call.args));
                    }
                }
                Work::Plan(plan) => {
                    plan.steps.iter().for_each(|step| self.step(index, step));
                    let output = plan.output.as_ref().map(template::references);
                    output.into_iter().for_each(|references| self.reads(index, references));
                }
                Work::Model => {}
            },
            Step::Parallel(_) | Step::Sequence(_) => {
                step.members().iter().for_each(|member| self.step(index, member));
            }
            Step::ForEach(for_each) => {
                self.list(index, for_each);
                self.step(index, &for_each.body);
            }
        }
    }

    /// Adds what is behind the list of `for_each`.
    fn list(&mut self, index: usize, for_each: &ForEach) {
        let references = match &for_each.over {
            Value::String(text) if !template::is_template(text) => template::references_of_expression(text),
            over => template::references(over),
        };
        self.reads(index, references);
    }

    /// Adds what is behind what the `observe:` rule of node `index` names beside the result of the node.
    fn rule(&mut self, index: usize, rule: &Observe) {
        let texts = std::iter::once(&rule.content).chain(&rule.tags);
        let values = rule.confidence.iter().chain(&rule.context);
        let list = rule.for_each.iter();
        let named = texts
            .map(|text| template::references_of_text(text))
            .chain(values.map(template::references))
            .chain(list.map(|list| template::references_of_expression(list)));
        for mut references in named.flatten() {
            if rule.for_each.is_some() {
                references.variables.remove("item");
            }
            self.reads(index, Ok(references));
        }
    }

    /// Adds what is behind what templates of node `index` name. The innermost plan that defines a name wins.
    fn reads(&mut self, index: usize, references: Result<References, TemplateError>) {
        let Ok(mut references) = references else { return };
        let mut found = HashSet::new();
        let mut at = self.run.nodes[index].frame;
        while let Some(frame) = at {
            for (slug, node) in self.run.named(frame, &references) {
                if found.insert(slug) && self.run.nodes[node].is_terminal() {
                    self.rest.push(node);
                }
            }
            let frame = &self.run.frames[frame];
            if let Some(Step::ForEach(for_each)) = &self.run.nodes[frame.owner].step
                && references.variables.remove(&for_each.item_name)
            {
                self.list(frame.owner, for_each);
            }
            at = frame.outer;
        }
    }
}
