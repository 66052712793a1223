//! The names in templates: inputs, results and variables.

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::nearest::listed;
use crate::plan::reads::{Sees, Site, Source};
use crate::plan::spanned::Tree;
use crate::plan::{Graph, Step};
use crate::template::{References, TemplateError};

use super::Validator;

/// The names that every template may use.
const GLOBAL_VARIABLES: [&str; 2] = ["run", "goal"];

/// The fields of a result that templates may read.
const FIELDS: [&str; 6] = ["task_id", "status", "notes", "output", "severity", "stop_reason"];

/// The position from which a template reads results.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reader {
    /// From a step.
    Step(usize),
    /// The end of the plan, when every step has an outcome.
    End,
}

/// A place in a plan, with the places in the plans around it.
#[derive(Debug)]
pub(super) struct Frame<'f> {
    pub(super) graph: &'f Graph,
    pub(super) reader: Reader,
    pub(super) outer: Option<&'f Self>,
    /// The variables that this plan adds: the item of a `for_each`.
    pub(super) variables: &'f [String],
}

impl<'f> Frame<'f> {
    fn self_and_outer(&'f self) -> impl Iterator<Item = &'f Self> {
        std::iter::successors(Some(self), |frame| frame.outer)
    }
}

impl<'a> Validator<'a> {
    /// Checks the template, or every template in the value, at `site.path` below `at`.
    pub(super) fn site(&mut self, site: &Site<'_>, at: &At<'a>, frame: Option<&Frame<'_>>) {
        // A field that nobody wrote was derived from something that is checked where it was written.
        let Some(site_at) = at.follow(&site.path) else {
            return;
        };
        match site.source {
            Source::Value(_) => self.texts_in(&site_at, site, frame),
            source @ (Source::Text(_) | Source::Expression(_)) => {
                self.template(source.references(), &site_at, site, frame);
            }
        }
    }

    fn texts_in(&mut self, at: &At<'a>, site: &Site<'_>, frame: Option<&Frame<'_>>) {
        match &at.node.tree {
            Tree::String(text) => self.template(Source::Text(text).references(), at, site, frame),
            Tree::List(_) => {
                for item in at.items().into_iter().flatten() {
                    self.texts_in(&item, site, frame);
                }
            }
            Tree::Object(entries) => {
                for entry in entries {
                    self.texts_in(&at.below_key(&entry.value, &entry.key), site, frame);
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
        }
    }

    fn template(
        &mut self,
        references: Result<References, TemplateError>,
        at: &At<'a>,
        site: &Site<'_>,
        frame: Option<&Frame<'_>>,
    ) {
        match references {
            Err(error) => {
                let hint = literal_braces(at);
                self.faults.add(at, code::TEMPLATE_SYNTAX, error.to_string()).hint = hint;
            }
            Ok(references) => self.names(&references, at, site, frame),
        }
    }

    fn names(&mut self, references: &References, at: &At<'a>, site: &Site<'_>, frame: Option<&Frame<'_>>) {
        let plan = self.plan;
        for input in references
            .inputs
            .iter()
            .filter(|input| !plan.inputs.contains_key(*input))
        {
            let hint = self.suggest_name(input, plan.inputs.keys().map(String::as_str));
            let message = format!("the plan has no input `{input}`");
            self.faults.add(at, code::UNKNOWN_NAME, message).hint = hint;
        }
        let Some(frame) = frame else {
            for name in &references.results {
                let message = format!("`results.{name}` cannot be read before the plan begins");
                self.faults.add(at, code::NOT_VISIBLE, message);
            }
            for name in references.variables.iter().filter(|name| *name != "run") {
                let error = self
                    .faults
                    .add(at, code::UNKNOWN_NAME, format!("there is no `{name}` here"));
                error.with_hint("only `inputs` and `run` are known before the plan begins");
            }
            return;
        };
        for name in &references.results {
            self.result(name, at, frame);
        }
        for (name, field) in references
            .fields
            .iter()
            .filter(|(_, field)| !FIELDS.contains(&field.as_str()))
        {
            let hint = match self.suggest_name(field, FIELDS) {
                Some(hint) => hint,
                None => format!("the output of its tool or plan is `results.{name}.output`"),
            };
            let message = format!("`results.{name}` has no `{field}`; it has {}", listed(FIELDS));
            self.faults.add(at, code::UNKNOWN_NAME, message).with_hint(hint);
        }
        for name in &references.variables {
            self.variable(name, at, site.sees, frame);
        }
    }

    fn variable(&mut self, name: &str, at: &At<'a>, sees: Sees, frame: &Frame<'_>) {
        let own: &[&str] = match sees {
            Sees::Before => &[],
            Sees::OwnResult => &["result"],
            Sees::OwnItems => &["result", "item", "index"],
        };
        let mut known: Vec<&str> = GLOBAL_VARIABLES.to_vec();
        known.extend_from_slice(own);
        for frame in frame.self_and_outer() {
            known.extend(frame.variables.iter().map(String::as_str));
        }
        if known.contains(&name) {
            return;
        }
        let hint = if frame
            .self_and_outer()
            .any(|frame| index_of(frame.graph, name).is_some())
        {
            format!("write `results.{name}`")
        } else if self.plan.inputs.contains_key(name) {
            format!("write `inputs.{name}`")
        } else if name == "result" {
            "a step's own `result` is known only in its `criteria` and `observe`".to_owned()
        } else {
            known.extend(["inputs", "results"]);
            let suggestion = self.suggest_name(name, known.iter().copied());
            suggestion
                .or_else(|| literal_braces(at))
                .unwrap_or_else(|| format!("known here: {}", listed(known)))
        };
        self.faults
            .add(at, code::UNKNOWN_NAME, format!("there is no `{name}` here"))
            .with_hint(hint);
    }

    fn result(&mut self, name: &str, at: &At<'a>, frame: &Frame<'_>) {
        let found = frame
            .self_and_outer()
            .find_map(|frame| index_of(frame.graph, name).map(|target| (frame, target)));
        let Some((frame, target)) = found else {
            if self.origins.may_mean_unreadable_id(name) || self.known.before.contains(name) {
                return;
            }
            let known = frame
                .self_and_outer()
                .flat_map(|frame| &frame.graph.nodes)
                .filter_map(|node| node.step.id());
            let hint = if self.ids.contains(name) {
                Some(format!(
                    "`{name}` is a step inside another step; read the result of that one"
                ))
            } else {
                self.suggest_name(name, known.map(AsRef::as_ref))
            };
            let message = format!("there is no step `{name}` whose result could be read");
            self.faults.add(at, code::UNKNOWN_NAME, message).hint = hint;
            return;
        };
        let Reader::Step(reader) = frame.reader else {
            return;
        };
        if frame.graph.reads(reader, target) {
            return;
        }
        let (why, hint) = why_hidden(frame.graph, reader, target);
        self.faults.add(at, code::NOT_VISIBLE, why).hint = hint;
    }
}

/// The step that `name` means in `frame`.
pub(super) fn step_named<'f>(frame: &'f Frame<'_>, name: &str) -> Option<&'f Step> {
    let mut frames = frame.self_and_outer();
    frames.find_map(|frame| index_of(frame.graph, name).map(|at| &frame.graph.nodes[at].step))
}

/// The step whose author named it `name`; the generated names of unnamed groups do not count.
fn index_of(graph: &Graph, name: &str) -> Option<usize> {
    graph
        .nodes
        .iter()
        .position(|node| node.step.id().is_some_and(|id| id.as_str() == name))
}

fn why_hidden(graph: &Graph, reader: usize, target: usize) -> (String, Option<String>) {
    let name = &graph.nodes[target].slug;
    if reader == target {
        let hint = "in `criteria` and `observe` it is called `result`";
        return (
            format!("`{name}` is this step itself, which has no result yet"),
            Some(hint.to_owned()),
        );
    }
    if graph.self_and_ancestors(reader).any(|at| at == target) {
        return (format!("`{name}` contains this step, so it has no result yet"), None);
    }
    if graph.nodes[reader].step.needs().is_some() {
        let hint = format!("add `{name}` to `needs`");
        return (
            format!("`{name}` is not among the steps that this one needs"),
            Some(hint),
        );
    }
    let target_parents: Vec<Option<usize>> = graph
        .self_and_ancestors(target)
        .map(|at| graph.nodes[at].parent)
        .collect();
    let common_parent = graph
        .self_and_ancestors(reader)
        .map(|at| graph.nodes[at].parent)
        .find(|parent| target_parents.contains(parent));
    let is_parallel = common_parent
        .flatten()
        .is_some_and(|at| matches!(graph.nodes[at].step, Step::Parallel(_)));
    if is_parallel {
        let hint = format!("write `needs: [{name}]`, or move this step behind the group");
        return (format!("`{name}` runs at the same time as this step"), Some(hint));
    }
    (
        format!("`{name}` comes after this step"),
        Some("change the order".to_owned()),
    )
}

/// What to do about a text `at` that is probably not meant as a template, because it has the braces of another program.
fn literal_braces(at: &At<'_>) -> Option<String> {
    let is_literal = matches!(&at.node.tree, Tree::String(text) if text.contains("${{"));
    is_literal.then(|| "braces that are to stay as they are stand between `{% raw %}` and `{% endraw %}`".to_owned())
}
