//! What the templates of a node see (E9.2): inputs, the item that it is for, and results of what comes before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_memory::canonical::canonical;
use folio_memory::excerpt::short_line;
use serde_json::{Value, json};

use super::state::Run;
use super::tree::{Node, NodeKind};
use crate::node::NodeId;
use crate::plan::{Slug, Step, is_generated_id};
use crate::result::{NodeResult, Output, OutputTree};
use crate::template::{self, References, Scope, TemplateError};

/// The most characters of a title made from other people's text: it is shown on one line in many places.
const TITLE_CHARS: usize = 300;

/// An output that has to be read first, by the hash that it is kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BodyNeeded(pub(super) String);

/// A report's title and markdown, or why they cannot be filled in.
pub(super) type ReportText = Result<(String, String), TemplateError>;

impl Run {
    /// What a template of node `index` that reads `references` sees, together with `extra_variables`.
    pub(super) fn scope(
        &self,
        index: usize,
        references: &References,
        extra_variables: Vec<(String, Arc<Value>)>,
    ) -> Result<Scope, BodyNeeded> {
        // A task's own sub-plan and the items of a `for_each` have frames of their own, but a node's templates are read
        // in the frame that the node is a member of. Those of the root (the report, the output) are read inside its
        // plan.
        let frame = self.nodes[index].frame;
        self.scope_in(frame, references, extra_variables)
    }

    /// Like [`Run::scope`], but seen from inside the plan of `index`, for its output and report, which read its own
    /// steps.
    pub(super) fn inner_scope(
        &self,
        index: usize,
        references: &References,
        extra_variables: Vec<(String, Arc<Value>)>,
    ) -> Result<Scope, BodyNeeded> {
        let inner = self.nodes[index].plan.as_ref().map(|plan| plan.frame);
        self.scope_in(inner.or(self.nodes[index].frame), references, extra_variables)
    }

    fn scope_in(
        &self,
        frame: Option<usize>,
        references: &References,
        extra_variables: Vec<(String, Arc<Value>)>,
    ) -> Result<Scope, BodyNeeded> {
        let mut variables = vec![
            ("goal".to_owned(), Arc::new(Value::from(self.goal.as_str()))),
            ("run".to_owned(), Arc::clone(&self.run_variable)),
        ];
        let mut frames = Vec::new();
        let mut at = frame;
        while let Some(frame) = at {
            frames.push(frame);
            at = self.frames[frame].outer;
        }
        for frame in frames.iter().rev() {
            variables.extend(self.frames[*frame].variables.iter().cloned());
        }
        variables.extend(extra_variables);
        let mut results = BTreeMap::new();
        let mut needed = None;
        // The innermost plan that defines a name wins.
        for frame in &frames {
            for (slug, index) in self.named(*frame, references) {
                if !results.contains_key(slug.as_str()) && self.nodes[index].is_terminal() {
                    // All lacking outputs are recorded at once.
                    let seen = self.in_scope(index).unwrap_or_else(|body| {
                        needed.get_or_insert(body);
                        Arc::default()
                    });
                    results.insert(slug.to_string(), seen);
                }
            }
        }
        if let Some(body) = needed {
            return Err(body);
        }
        Ok(Scope {
            inputs: Arc::clone(&self.inputs),
            variables,
            results,
        })
    }

    /// The title of a node, with its template filled in as far as that is possible now.
    #[must_use]
    pub fn title(&self, node: NodeId) -> String {
        let Ok(index) = self.index(node) else {
            return String::new();
        };
        let title = self.nodes[index].step.as_ref().map_or("", Step::title);
        let slug = || self.view(index).slug().to_owned();
        if title.is_empty() {
            return slug();
        }
        if !template::is_template(title) {
            return title.to_owned();
        }
        let references = template::references_of_text(title).unwrap_or_default();
        let rendered = self
            .scope(index, &references, Vec::new())
            .ok()
            .map(|scope| self.templates.render_text(title, &scope));
        match rendered {
            Some(Ok(title)) if !title.trim().is_empty() => short_line(&title, TITLE_CHARS),
            _ => slug(),
        }
    }

    /// Whether the title of a node is the same before it begins and afterwards: it reads no results, which may be there
    /// only later.
    #[must_use]
    pub fn is_title_final(&self, node: NodeId) -> bool {
        let index = self.index(node).ok();
        let title = index
            .and_then(|index| self.nodes[index].step.as_ref())
            .map_or("", Step::title);
        let references = template::references_of_text(title).unwrap_or_default();
        references.results.is_empty() && !references.all_results
    }

    /// The title of a node where its members are shown as well: as [`Run::title`], but the run has the title of its
    /// plan, and groups and sequences without a name say how their members are done.
    #[must_use]
    pub fn label(&self, node: NodeId) -> String {
        let title = self.title(node);
        let Ok(index) = self.index(node) else {
            return title;
        };
        match self.nodes[index].kind {
            _ if index == 0 && !self.plan.title.is_empty() => self.plan.title.clone(),
            NodeKind::Parallel if is_generated_id(&title) => "In parallel".to_owned(),
            NodeKind::Sequence if is_generated_id(&title) => "In order".to_owned(),
            _ => title,
        }
    }

    /// The plan's report, filled in: its title and its markdown. `None` if the plan has none, or the run has not ended.
    ///
    /// A report that cannot be filled in, because a step that it reads failed, says so instead of being left out.
    #[must_use]
    pub fn report(&self) -> Option<(String, String)> {
        let result = self.result()?;
        let output = self.value_of(&result.output).unwrap_or_default();
        match self.report_on(result, &output).ok()?? {
            Ok(report) => Some(report),
            Err(error) => {
                let notes = &result.notes;
                let body = format!("The report could not be written: {error}\n\nWhat the run came to: {notes}\n");
                Some(("Report".to_owned(), body))
            }
        }
    }

    /// The report of a run with the result `result`: `None` if the plan has none, or why it cannot be filled in. An
    /// error if an output has to be read first.
    pub(super) fn report_on(&self, result: &NodeResult, output: &Value) -> Result<Option<ReportText>, BodyNeeded> {
        let Some(report) = &self.plan.report else {
            // For a goal without a plan, the report is the model's result.
            let is_goal = self.nodes.first().is_some_and(|root| root.kind == NodeKind::Model);
            return Ok(is_goal.then(|| Ok(self.report_on_goal(result, output))));
        };
        let mut references = template::references_of_text(&report.body).unwrap_or_default();
        let title = template::references_of_text(&report.title).unwrap_or_default();
        references.results.extend(title.results);
        references.all_results |= title.all_results;
        let own = Arc::new(result_value("run", Some(result), output));
        let scope = self.inner_scope(0, &references, vec![("result".to_owned(), own)])?;
        let render_report = || {
            let title = self.templates.render_text(&report.title, &scope)?;
            let title = if title.trim().is_empty() {
                "Report".to_owned()
            } else {
                title
            };
            Ok((title, self.templates.render_text(&report.body, &scope)?))
        };
        Ok(Some(render_report()))
    }

    fn report_on_goal(&self, result: &NodeResult, output: &Value) -> (String, String) {
        let mut body = result.notes.trim_end().to_owned();
        body.push('\n');
        match output {
            Value::Null => {}
            Value::String(text) if text.trim() == result.notes.trim() => {}
            Value::String(text) => body.push_str(&format!("\n{}\n", text.trim_end())),
            other => body.push_str(&format!("\n```json\n{:#}\n```\n", canonical(other.clone()))),
        }
        (self.plan.title.clone(), body)
    }

    pub(super) fn named(&self, frame: usize, references: &References) -> Vec<(&Slug, usize)> {
        let by_slug = &self.frames[frame].by_slug;
        if references.all_results {
            return by_slug.iter().map(|(slug, index)| (slug, *index)).collect();
        }
        let kept = self.with_members(&self.frames[frame].kept);
        let in_group = |slug: &Slug| {
            let id_of = |at: usize| self.nodes[at].step.as_ref().and_then(Step::id);
            kept.iter()
                .find_map(|at| id_of(*at).filter(|id| *id == slug).map(|id| (id, *at)))
        };
        let of_name = |name: &String| {
            let slug = Slug::parse(name).ok()?;
            let own = by_slug.get_key_value(&slug).map(|(slug, index)| (slug, *index));
            own.or_else(|| in_group(&slug))
        };
        references.results.iter().filter_map(of_name).collect()
    }

    /// The result of a node as templates see it. Made once and shared while it is cached.
    fn in_scope(&self, index: usize) -> Result<Arc<Value>, BodyNeeded> {
        if let Some(cached) = self.bodies.template_value(index) {
            return Ok(cached);
        }
        let before = self.bodies.read();
        let output = self.output_of(index)?;
        let mut result = result_value(self.view(index).slug(), self.nodes[index].result.as_ref(), &Value::Null);
        // A value that was assembled for this is not copied again.
        result["output"] = Arc::unwrap_or_clone(output);
        let result = Arc::new(result);
        self.bodies
            .cache_template_value(index, &result, self.bodies.read().saturating_sub(before));
        Ok(result)
    }

    /// What a node gives to later steps: its own output, or those of its members. A group gives an object by slug, a
    /// `for_each` a list in the order of its items, with null for an item without output. Neither is stored; the
    /// outputs of the members are.
    #[must_use]
    pub fn given(&self, node: NodeId) -> Option<OutputTree> {
        self.index(node).ok().map(|index| self.given_by(index))
    }

    fn given_by(&self, index: usize) -> OutputTree {
        self.tree_of(index, &|own| own.result.as_ref().map(|result| result.output.clone()))
    }

    /// What whoever reads a result further is given: the same, with the notes of the node itself, and of each task in it
    /// that a model or a person did, where there is no output.
    #[must_use]
    pub fn readable(&self, node: NodeId) -> Option<OutputTree> {
        self.index(node).ok().map(|index| self.readable_at(index))
    }

    fn readable_at(&self, index: usize) -> OutputTree {
        let is_group = self.nodes[index].kind.is_group();
        self.tree_of(index, &|own| {
            let result = own.result.as_ref()?;
            let has_notes = !is_group || matches!(own.kind, NodeKind::Model | NodeKind::RollUp);
            let is_alone = result.output == Output::null() && has_notes && !result.notes.is_empty();
            Some(match is_alone {
                true => Output::of(Value::String(result.notes.clone())),
                false => result.output.clone(),
            })
        })
    }

    /// What a node gives, where `own_output` is that of a node without members.
    fn tree_of(&self, index: usize, own_output: &impl Fn(&Node) -> Option<Output>) -> OutputTree {
        let node = &self.nodes[index];
        let children = node.children.iter();
        match node.kind {
            NodeKind::Call | NodeKind::Plan | NodeKind::Model | NodeKind::Action | NodeKind::RollUp => {
                OutputTree::Own(own_output(node).unwrap_or_else(Output::null))
            }
            NodeKind::ForEach => OutputTree::List(children.map(|child| self.tree_of(*child, own_output)).collect()),
            NodeKind::Parallel | NodeKind::Sequence => {
                let outputs =
                    children.map(|child| (self.view(*child).slug().to_owned(), self.tree_of(*child, own_output)));
                OutputTree::Named(outputs.collect())
            }
        }
    }

    /// The value of what a node [gives](Run::given). All outputs that have to be read first are recorded as lacking.
    pub(super) fn output_of(&self, index: usize) -> Result<Arc<Value>, BodyNeeded> {
        self.tree_value(&self.given_by(index))
    }

    /// The value of what can be [read](Run::readable) of the list `index`.
    pub(super) fn readable_output_of(&self, index: usize) -> Result<Arc<Value>, BodyNeeded> {
        self.tree_value(&self.readable_at(index))
    }

    fn tree_value(&self, tree: &OutputTree) -> Result<Arc<Value>, BodyNeeded> {
        let outputs = tree.outputs();
        // Nothing is assembled before all of it is there.
        if outputs.len() > 1 {
            let kept = outputs.into_iter().filter_map(Output::blob_hash);
            let mut missing: Vec<&str> = kept.filter(|hash| !self.bodies.check_cached(hash)).collect();
            if let Some(hash) = missing.pop() {
                return Err(BodyNeeded(hash.to_owned()));
            }
        }
        tree.value(&mut |output| self.output_needed(output))
    }
}

/// A result as templates see it.
pub(super) fn result_value(slug: &str, result: Option<&NodeResult>, output: &Value) -> Value {
    let Some(result) = result else {
        return json!({"task_id": slug, "status": "created", "notes": "", "output": null, "severity": null, "stop_reason": null});
    };
    json!({
        "task_id": slug,
        "status": result.status,
        "notes": result.notes,
        "output": output,
        "severity": result.severity,
        "stop_reason": result.stop_reason,
    })
}
