//! Criteria (E9.6): what can be decided from a result alone, and what the runner has to check.

use std::borrow::Cow;
use std::sync::Arc;

use folio_memory::excerpt::cut;
use serde_json::{Value, json};

use super::scope::{BodyNeeded, result_value};
use super::state::Run;
use super::tree::NodeKind;
use crate::event::{CheckBegins, Event};
use crate::expression;
use crate::json_schema::JsonSchema;
use crate::node::NodeId;
use crate::plan::{Check, Criterion, Step, Work};
use crate::result::{Finding, NodeResult, Verdict};
use crate::spend::Spend;
use crate::template::{self, Breaks, References, Scope, Told};

/// The most characters of a criterion with its template filled in, where it is shown with other text.
const WORDS_CHARS: usize = 500;

/// How many things that violate a schema a finding names.
const SCHEMA_GAPS_MAX: usize = 5;

/// The tool that runs commands.
pub(super) const SHELL: &str = "shell";

/// A check that the runner makes by calling a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckCall {
    /// The id of the criterion.
    pub criterion: String,
    /// The tool: `list` on one path for `file_exists`, `shell` for `command`.
    pub tool: &'static str,
    /// The arguments of the call.
    pub args: Value,
    /// The exit code that a command must end with.
    pub exit: i32,
    /// Whether a person approved it.
    pub allowed: bool,
}

/// Checks of a node's result that the runner has to make.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckAction {
    /// The node whose criteria they are.
    pub node: NodeId,
    /// The checks.
    pub calls: Vec<CheckCall>,
    /// The names of the resources that their commands may write (E9.15).
    pub writes: Vec<String>,
}

impl CheckAction {
    /// The number of commands among them. Commands count as calls of a tool (E9.6); checks that only read do not.
    #[must_use]
    pub fn commands(&self) -> u32 {
        commands_of(&self.calls)
    }

    /// The event that records the start of the checks, if commands are among them.
    #[must_use]
    pub fn begins(&self) -> Option<Event> {
        let commands = self.commands();
        (commands > 0).then(|| Event::Checked {
            node: self.node,
            verdicts: Vec::new(),
            limit: None,
            begins: Some(Box::new(CheckBegins {
                commands,
                writes: self.writes.clone(),
            })),
        })
    }
}

pub(super) fn commands_of(calls: &[CheckCall]) -> u32 {
    let commands = calls.iter().filter(|call| call.tool == SHELL).count();
    u32::try_from(commands).unwrap_or(u32::MAX)
}

/// What the given number of commands uses.
pub(super) fn spend_of(commands: u32) -> Spend {
    Spend {
        tool_calls: commands.into(),
        ..Spend::default()
    }
}

/// What a check by the runner found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    /// The id of the criterion.
    pub criterion: String,
    /// What was found.
    pub finding: Finding,
}

impl Run {
    /// The checks of `criteria` that the runner has to carry out, with templates filled in. A template that cannot be
    /// filled in is detected again in [`Run::verdicts`] and makes the criterion unverifiable.
    pub(super) fn check_calls(&self, criteria: &[Criterion], scope: &Scope) -> Vec<CheckCall> {
        criteria
            .iter()
            .filter_map(|criterion| {
                let call = |tool, args, exit| CheckCall {
                    criterion: criterion.id.clone(),
                    allowed: self.is_always_allowed(tool, &args),
                    tool,
                    args,
                    exit,
                };
                match &criterion.check {
                    Check::FileExists { path } => {
                        let path = self.templates.render_text(path, scope).ok()?;
                        Some(call("list", json!({"path": path, "max": 1}), 0))
                    }
                    Check::Command { argv, exit } => {
                        let argv: Result<Vec<_>, _> =
                            argv.iter().map(|a| self.templates.render_text(a, scope)).collect();
                        Some(call(SHELL, json!({"argv": argv.ok()?}), *exit))
                    }
                    Check::Judge
                    | Check::Human
                    | Check::Regex { .. }
                    | Check::JsonSchema { .. }
                    | Check::ResultNonempty => None,
                }
            })
            .collect()
    }

    /// The verdict on each of `criteria` of node `index`, in order. `found` holds the runner's findings.
    pub(super) fn verdicts(
        &self,
        index: usize,
        criteria: &[Criterion],
        scope: &Scope,
        result: &NodeResult,
        output: &Value,
        found: &[CheckFinding],
    ) -> Vec<Verdict> {
        criteria
            .iter()
            .map(|criterion| Verdict {
                criterion: criterion.id.clone(),
                required: criterion.required,
                finding: self.finding(index, criterion, scope, result, output, found),
            })
            .collect()
    }

    /// Whether only the output holds the result of node `index`: its notes then just describe it, such as the number of
    /// items.
    fn has_only_output(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        match node.kind {
            NodeKind::Call | NodeKind::Action => true,
            NodeKind::Plan => match &node.step {
                None => self.plan.output.is_some(),
                Some(Step::Task(task)) => matches!(&task.work, Work::Plan(plan) if plan.output.is_some()),
                Some(_) => false,
            },
            NodeKind::Model | NodeKind::RollUp | NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => false,
        }
    }

    fn finding(
        &self,
        index: usize,
        criterion: &Criterion,
        scope: &Scope,
        result: &NodeResult,
        output: &Value,
        found: &[CheckFinding],
    ) -> Finding {
        let resolve = |of: &Option<String>| match of {
            Some(reference) => self
                .templates
                .eval(reference, scope)
                .map_err(|e| Finding::Unverifiable(e.to_string())),
            None => Ok(output.clone()),
        };
        match &criterion.check {
            Check::ResultNonempty
                if is_empty(output) && (self.has_only_output(index) || result.notes.trim().is_empty()) =>
            {
                Finding::Unmet("the result is empty".to_owned())
            }
            Check::ResultNonempty => Finding::Met,
            Check::Regex { pattern, of } => {
                let value = match resolve(of) {
                    Ok(value) => value,
                    Err(finding) => return finding,
                };
                let text = match (&value, of) {
                    (Value::String(text), _) => text.clone(),
                    (Value::Null, None) => result.notes.clone(),
                    (other, _) => other.to_string(),
                };
                match expression::compile(pattern) {
                    Ok(regex) if regex.is_match(&text) => Finding::Met,
                    Ok(_) => Finding::Unmet(format!("nothing matches `{pattern}`")),
                    Err(reason) => Finding::Unverifiable(format!("`{pattern}` cannot be used: {reason}")),
                }
            }
            Check::JsonSchema { schema, of } => match resolve(of) {
                Ok(value) => matches_schema(schema, &value),
                Err(finding) => finding,
            },
            Check::FileExists { .. } | Check::Command { .. } => found
                .iter()
                .find(|finding| finding.criterion == criterion.id)
                .map_or_else(
                    || Finding::Unverifiable("the check was not carried out".to_owned()),
                    |f| f.finding.clone(),
                ),
            Check::Judge => Finding::Unverifiable("there is no model to judge it".to_owned()),
            Check::Human => Finding::Unverifiable("nobody was asked".to_owned()),
        }
    }

    /// What the checks of `criteria` of node `index` see, given its `result` and `output`.
    pub(super) fn criteria_scope(
        &self,
        index: usize,
        criteria: &[Criterion],
        result: &NodeResult,
        output: &Value,
    ) -> Result<Scope, BodyNeeded> {
        let own = Arc::new(result_value(self.view(index).slug(), Some(result), output));
        self.scope_of_criteria(index, &references_of(criteria), Some(own))
    }

    /// The text of `criterion` of node `index` for people, with its template filled in; unchanged if that is not
    /// possible.
    pub(super) fn criterion_words(&self, index: usize, criterion: &Criterion) -> String {
        let text = &criterion.text;
        if !template::is_template(text) {
            return text.clone();
        }
        let references = template::references_of_text(text).unwrap_or_default();
        let own = self.own_result(index, &references);
        let scope = own.and_then(|own| self.scope_of_criteria(index, &references, own));
        scope.map_or_else(|_| text.clone(), |scope| self.short_words(text, &scope))
    }

    /// `criteria` of node `index` with their texts filled in, given its `result` and `output`.
    pub(super) fn criteria_in_words<'c>(
        &self,
        index: usize,
        criteria: &'c [Criterion],
        (result, output): (&NodeResult, &Value),
    ) -> Cow<'c, [Criterion]> {
        if !criteria.iter().any(|criterion| template::is_template(&criterion.text)) {
            return Cow::Borrowed(criteria);
        }
        let own = Arc::new(result_value(self.view(index).slug(), Some(result), output));
        let in_words = |criterion: &Criterion| {
            let references = template::references_of_text(&criterion.text).unwrap_or_default();
            let scope = self.scope_of_criteria(index, &references, Some(Arc::clone(&own)));
            let text = scope.map_or_else(
                |_| criterion.text.clone(),
                |scope| self.short_words(&criterion.text, &scope),
            );
            Criterion {
                text,
                ..criterion.clone()
            }
        };
        criteria.iter().map(in_words).collect()
    }

    /// What criteria of node `index` that read `references` see: what the check of the plan lets them name, and the
    /// node's `own` result. A step of the node's own plan has no say in what is checked, whatever its name is.
    pub(super) fn scope_of_criteria(
        &self,
        index: usize,
        references: &References,
        own: Option<Arc<Value>>,
    ) -> Result<Scope, BodyNeeded> {
        let own: Vec<_> = own.into_iter().map(|own| ("result".to_owned(), own)).collect();
        match self.nodes[index].parent {
            Some(_) => self.scope(index, references, own),
            // Criteria of the run read the results of its plan.
            None => self.inner_scope(index, references, own),
        }
    }

    /// The proposed result of node `index`, for a text that reads `references`, if the text reads it and there is one.
    pub(super) fn own_result(&self, index: usize, references: &References) -> Result<Option<Arc<Value>>, BodyNeeded> {
        let proposal = self.agent(index).and_then(|agent| agent.proposal.as_deref());
        let Some(proposal) = proposal.filter(|_| references.variables.contains("result")) else {
            return Ok(None);
        };
        let output = self.output_needed(&proposal.output)?;
        let result = NodeResult {
            stop_reason: proposal.stop_reason,
            severity: proposal.severity,
            ..NodeResult::new(proposal.status, proposal.notes.clone())
        };
        Ok(Some(Arc::new(result_value(
            self.view(index).slug(),
            Some(&result),
            &output,
        ))))
    }

    /// `text` filled in, with what others wrote on one line, and cut off if what it names is long.
    fn short_words(&self, text: &str, scope: &Scope) -> String {
        let rendered = self.templates.render_told(text, scope, Told::whole(Breaks::OneLine));
        rendered.map_or_else(
            |_| text.to_owned(),
            |rendered| cut(&rendered, WORDS_CHARS.max(text.len())),
        )
    }
}

/// The references in the templates of `criteria`.
fn references_of(criteria: &[Criterion]) -> References {
    let mut all = References::default();
    for criterion in criteria {
        let found = match &criterion.check {
            Check::FileExists { path } => template::references_of_text(path),
            Check::Command { argv, .. } => template::references(&Value::from(argv.clone())),
            Check::Regex { of: Some(of), .. } | Check::JsonSchema { of: Some(of), .. } => {
                template::references_of_expression(of)
            }
            _ => continue,
        };
        // A template that cannot be parsed was refused with the plan; here it makes the criterion unverifiable.
        if let Ok(found) = found {
            all.results.extend(found.results);
            all.inputs.extend(found.inputs);
            all.variables.extend(found.variables);
            all.all_results |= found.all_results;
        }
    }
    all
}

/// Whether the value is empty: an object is if everything in it is, such as the result of a call that found nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

fn matches_schema(schema: &Value, value: &Value) -> Finding {
    let schema = match JsonSchema::new(schema) {
        Ok(schema) => schema,
        Err(error) => return Finding::Unverifiable(format!("the schema cannot be used: {error}")),
    };
    match schema.mistakes(value, SCHEMA_GAPS_MAX) {
        Ok(gaps) if gaps.is_empty() => Finding::Met,
        Ok(gaps) => Finding::Unmet(gaps.join("; ")),
        Err(unbounded) => Finding::Unverifiable(unbounded.to_string()),
    }
}
