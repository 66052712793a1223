//! Single steps: groups, `for_each`, calls of tools, criteria.

use std::collections::BTreeSet;

use folio_memory::policy::MAX_TTL_MINUTES;
use serde_json::Value;

use crate::expression;
use crate::json_schema::{JsonSchema, expression_count};
use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::reads::{self, Segment};
use crate::plan::spanned::Tree;
use crate::plan::{Call, Check, Criterion, ForEach, Group, HUMAN, Join, Observe, Step, Task, Work};
use crate::template::{is_reference, is_template, single_expression};

use super::names::{Frame, Reader};
use super::satisfies::required;
use super::{Validator, every_step, narrower_limit};

/// Tools that may write, for a check that does not know the available tools.
const WRITERS: [&str; 4] = ["write", "shell", "observe", "page_append"];

impl<'a> Validator<'a> {
    pub(super) fn step(&mut self, step: &Step, frame: &Frame<'_>, depth: u32) {
        let Some(origin) = self.origins.of(step).cloned() else {
            return;
        };
        for site in reads::sites(step) {
            self.site(&site, &origin, Some(frame));
        }
        self.tools(step, &origin);
        match step {
            Step::Task(task) => {
                self.criteria(&task.criteria, &origin);
                self.lifetimes(&task.observe, &origin);
                self.satisfies(task, &origin);
                self.check_has_criteria(task, &origin);
                if let Some(name) = &task.executor {
                    self.executor(name, &origin);
                    self.program_within(name, task, &origin);
                }
                match &task.work {
                    Work::Do(call) => self.call(call, &origin),
                    Work::Plan(plan) => {
                        self.report_call_only_keys(&origin);
                        let plan_at = origin.follow_near(&[Segment::Key("plan")]);
                        let steps_at = plan_at.key("steps").unwrap_or_else(|| plan_at.clone());
                        self.not_empty(&plan.steps, &steps_at, "the sub-plan");
                        if self.known.to_meet.is_some() {
                            self.all_assigned(required(&task.criteria), &plan.steps, &steps_at);
                        }
                        let outside = self.visible_criteria.len();
                        self.visible_criteria
                            .extend(task.criteria.iter().map(|criterion| criterion.id.clone()));
                        let outer_limits = (self.children, self.deepest, self.items);
                        self.children = narrower_limit(outer_limits.0, task.budget.children);
                        if self.is_model_written() {
                            let own = task.budget.depth.map(|own| depth.saturating_add(own));
                            self.deepest = narrower_limit(outer_limits.1, own);
                        }
                        self.items = [outer_limits.2, task.budget.items].into_iter().flatten().min();
                        let around = self.tools_around.len();
                        self.enter_tools(step);
                        let graph = self.inner_scope(&plan.steps, frame, depth, &plan_at);
                        self.tools_around.truncate(around);
                        (self.children, self.deepest, self.items) = outer_limits;
                        self.visible_criteria.truncate(outside);
                        let end = Frame {
                            graph: &graph,
                            reader: Reader::End,
                            outer: Some(frame),
                            variables: &[],
                        };
                        for site in reads::sub_plan_sites(plan) {
                            self.site(&site, &origin, Some(&end));
                        }
                    }
                    Work::Model => self.no_retry(task, &origin),
                }
            }
            Step::Parallel(group) => self.group(group, &origin),
            Step::Sequence(sequence) => {
                let steps_at = origin.follow_near(&[Segment::Key("sequence")]);
                self.not_empty(&sequence.steps, &steps_at, "the sequence");
            }
            Step::ForEach(for_each) => self.for_each(for_each, &origin, frame, depth),
        }
    }

    /// Reports keys that apply to calls only and would have no effect on a task with a plan of its own.
    fn report_call_only_keys(&mut self, origin: &At<'a>) {
        let hints = [
            (
                "timeout",
                "write `budget: {deadline: …}`, which limits the task as a whole",
            ),
            ("retry", "write it in the steps of the plan"),
        ];
        for (key, hint) in hints {
            if let Some(at) = origin.given(key) {
                let message = format!("`{key}` applies to a call; this task has a plan of its own");
                self.faults.add(&at, code::BAD_VALUE, message).with_hint(hint);
            }
        }
    }

    /// Warns about a lifetime that exceeds the maximum: the usual one of its type would apply instead, which is much
    /// shorter.
    fn lifetimes(&mut self, rules: &[Observe], origin: &At<'a>) {
        for (position, rule) in rules.iter().enumerate() {
            if rule
                .ttl_minutes
                .is_none_or(|minutes| minutes <= f64::from(MAX_TTL_MINUTES))
            {
                continue;
            }
            let path = [
                Segment::Key("observe"),
                Segment::Index(position),
                Segment::Key("ttl_minutes"),
            ];
            let at = origin.follow_near(&path);
            let message = format!("a lifetime is at most {MAX_TTL_MINUTES} minutes, which is a year");
            self.faults
                .bad_value(&at, message)
                .with_hint("leave it out for the default lifetime of its type");
        }
    }

    /// Reports `retry` on a task that makes no call: whether a model is asked again depends only on its answers.
    fn no_retry(&mut self, task: &Task, origin: &At<'a>) {
        if let Some(at) = origin.given("retry") {
            let error = self
                .faults
                .add(&at, code::BAD_VALUE, "`retry` is of a call (`do`); this task has none");
            error.with_hint(if task.executor.as_deref() == Some(HUMAN) {
                "leave it out: a person is asked once"
            } else {
                "leave it out: models that cannot be reached are asked again"
            });
        }
    }

    fn group(&mut self, group: &Group, origin: &At<'a>) {
        let steps_at = origin.follow_near(&[Segment::Key("parallel")]);
        self.not_empty(&group.steps, &steps_at, "the group");
        let (branches, limit) = (group.steps.len(), self.children);
        if branches > limit as usize {
            let message = format!("the group has {branches} branches; at most {limit} are allowed");
            self.faults
                .add(&steps_at, code::OVER_CAP, message)
                .with_hint("use a `for_each`, or groups in a row");
        }
        let join_at = origin.follow_near(&[Segment::Key("join")]);
        match group.join {
            Join::AllSettled | Join::FirstOk => {}
            Join::Quorum(k) => {
                // That a group has no branches at all is a mistake of its own.
                if branches > 0 && (k == 0 || k as usize > branches) {
                    let message = format!("a quorum of {k} out of {branches} branches");
                    let error = self.faults.add(&join_at, code::BAD_QUORUM, message);
                    error.with_hint(format!("write a number from 1 to {branches}"));
                }
            }
        }
        // Where the group waits for all branches, or all have to be ok, none of them loses.
        let has_losers = match group.join {
            Join::AllSettled => false,
            Join::FirstOk => true,
            Join::Quorum(k) => (k as usize) < branches,
        };
        if !has_losers {
            return;
        }
        let writers: Vec<String> = group.steps.iter().filter_map(|branch| self.writer_in(branch)).collect();
        if writers.len() > 1 {
            let message = format!(
                "several branches may write ({}), and the one that loses may have written already",
                writers.join(", ")
            );
            let error = self.faults.add(&join_at, code::RACING_WRITES, message);
            error.with_hint("let the branches only read, and write afterwards");
        }
    }

    /// The first call in `branch` that may write, as `id`: tool. The command of a criterion counts too, because nobody
    /// knows what it does.
    fn writer_in(&self, branch: &Step) -> Option<String> {
        let is_command = |criterion: &Criterion| matches!(criterion.check, Check::Command { .. });
        let mut found = None;
        every_step(std::slice::from_ref(branch), &mut |step| {
            let Step::Task(task) = step else { return };
            let called = match &task.work {
                Work::Do(call) if self.may_write(&call.tool) => call.tool.as_str(),
                _ if task.criteria.iter().any(is_command) => "the command of a criterion",
                _ => return,
            };
            found.get_or_insert_with(|| format!("{}: {called}", self.origins.display_name(&task.id)));
        });
        found
    }

    fn may_write(&self, tool: &str) -> bool {
        match &self.known.tools {
            Some(tools) => tools.get(tool).is_some_and(|tool| tool.writes),
            None => WRITERS.contains(&tool),
        }
    }

    fn for_each(&mut self, for_each: &ForEach, origin: &At<'a>, frame: &Frame<'_>, depth: u32) {
        let over_at = origin.follow_near(&[Segment::Key("for_each"), Segment::Key("over")]);
        self.check_for_each_list(&for_each.over, for_each.max_items, &over_at, frame);
        let limit = self.known.limits.items;
        if for_each.max_items > limit {
            let at = origin.follow_near(&[Segment::Key("max_items")]);
            let message = format!("`max_items` is {}; at most {limit} is allowed", for_each.max_items);
            self.faults.add(&at, code::OVER_CAP, message);
        }
        let variables = [for_each.item_name.clone(), "index".to_owned()];
        // The body does not count as a nested plan.
        self.scope(std::slice::from_ref(&for_each.body), Some(frame), &variables, depth);
    }

    fn check_for_each_list(&mut self, list: &Value, max_items: u32, at: &At<'a>, frame: &Frame<'_>) {
        const HINT: &str = "write a list, a reference such as `results.scan.output.files`, or one `{{ expression }}`";
        match list {
            Value::Array(items) => {
                let budget = self.items.filter(|budget| *budget < max_items);
                let (limit, limit_name) =
                    budget.map_or((max_items, "`max_items`"), |budget| (budget, "`items` of the budget"));
                if items.len() > limit as usize {
                    let message = format!("the list has {} items, and {limit_name} is {limit}", items.len());
                    self.faults.add(at, code::OVER_CAP, message);
                }
            }
            Value::String(text) => {
                let reference = if is_template(text) {
                    single_expression(text.trim())
                } else {
                    Some(text.as_str())
                };
                match reference.map(str::trim) {
                    Some(reference) if is_template(text) || is_reference(reference) => {
                        self.check_is_list(reference, at, frame);
                    }
                    _ => {
                        let message = format!("{text:?} is a text, not a list");
                        self.faults.add(at, code::NOT_A_LIST, message).with_hint(HINT);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                let message = format!("expected a list, found {}", at.node.kind());
                self.faults.add(at, code::NOT_A_LIST, message).with_hint(HINT);
            }
        }
    }

    fn executor(&mut self, name: &str, origin: &At<'a>) {
        let (is_person, has_person) = (name == HUMAN, !self.known.without_person);
        let known = self.known.executors.as_ref();
        let is_known = if is_person {
            has_person
        } else {
            known.is_none_or(|known| known.contains(name))
        };
        if is_known {
            return;
        }
        let at = origin.follow_near(&[Segment::Key("executor")]);
        let is_open = |name: &&String| self.tools_around.is_empty() || !self.known.programs.contains(*name);
        let names = known.into_iter().flatten().filter(is_open);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let hint = self.suggest_name(name, names.iter().copied()).unwrap_or_else(|| {
            let executors = match names.as_slice() {
                [] => "leave it out: there is only the default executor".to_owned(),
                names => format!("the executors are {}", names.join(", ")),
            };
            let person = format!(", and `{HUMAN}` for a person");
            executors + if has_person { &person } else { "" }
        });
        let message = format!("unknown executor {name:?}");
        self.faults.add(&at, code::UNKNOWN_EXECUTOR, message).with_hint(hint);
    }

    fn call(&mut self, call: &Call, origin: &At<'a>) {
        let Some(tools) = &self.known.tools else {
            return;
        };
        let call_at = origin.follow_near(&[Segment::Key("do")]);
        let tool_at = call_at.follow_near(&[Segment::Key("tool")]);
        if call.tool.is_empty() {
            return;
        }
        let Some(tool) = tools.get(&call.tool) else {
            let hint = self
                .suggest_name(&call.tool, tools.keys().map(String::as_str))
                .or_else(|| self.hint_on_server(&call.tool));
            let message = format!("unknown tool {:?}", call.tool);
            self.faults.add(&tool_at, code::UNKNOWN_TOOL, message).hint = hint;
            return;
        };
        let args_at = call_at.follow_near(&[Segment::Key("args")]);
        // A list of arguments was rejected already; its items cannot be matched to names.
        if !matches!(args_at.node.tree, Tree::Object(_)) {
            return;
        }
        if let Some(schema) = &tool.schema {
            self.arguments_by_schema(call, schema, &args_at);
            return;
        }
        self.arguments(call, tool, &args_at);
    }

    /// A hint for the unknown tool `SERVER.TOOL` if there is no such server: then its name need not be wrong.
    pub(super) fn hint_on_server(&self, tool: &str) -> Option<String> {
        let (server, _) = tool.split_once('.')?;
        let is_missing = !self.known.servers.as_ref()?.contains(server);
        is_missing
            .then(|| format!("the settings name no MCP server {server:?}; docs/mcp-tools.md explains how to add one"))
    }

    /// Checks ids, regular expressions and schemas. Templates in criteria are checked with the others.
    pub(super) fn criteria(&mut self, criteria: &[Criterion], origin: &At<'a>) {
        let mut ids = BTreeSet::new();
        for (position, criterion) in criteria.iter().enumerate() {
            let at = |keys: &[Segment]| {
                let mut path = vec![Segment::Key("criteria"), Segment::Index(position)];
                path.extend_from_slice(keys);
                origin.follow_near(&path)
            };
            if !ids.insert(&criterion.id) {
                let message = format!("another criterion already has the id `{}`", criterion.id);
                self.faults
                    .add(&at(&[Segment::Key("id")]), code::DUPLICATE_CRITERION, message);
            }
            match &criterion.check {
                Check::Regex { pattern, .. } => {
                    if self.may_compile(1)
                        && let Err(reason) = expression::compile(pattern)
                    {
                        let pattern_at = at(&[Segment::Key("check"), Segment::Key("regex"), Segment::Key("pattern")]);
                        self.faults.add(&pattern_at, code::BAD_REGEX, reason);
                    }
                }
                Check::JsonSchema { schema, .. } => {
                    if self.may_compile(expression_count(schema))
                        && let Err(error) = JsonSchema::new(schema)
                    {
                        let schema_at = at(&[
                            Segment::Key("check"),
                            Segment::Key("json_schema"),
                            Segment::Key("schema"),
                        ]);
                        let inside = error.instance_path().to_string();
                        let where_inside = if inside.is_empty() {
                            inside
                        } else {
                            format!("at {inside}: ")
                        };
                        self.faults
                            .add(&schema_at, code::BAD_SCHEMA, format!("{where_inside}{error}"));
                    }
                }
                Check::Judge
                | Check::Human
                | Check::ResultNonempty
                | Check::Command { .. }
                | Check::FileExists { .. } => {}
            }
        }
    }

    /// Whether `count` more regular expressions are compiled, which may take milliseconds each.
    fn may_compile(&mut self, count: usize) -> bool {
        let left = self.expressions.checked_sub(count);
        self.expressions = left.unwrap_or(0);
        left.is_some()
    }
}
