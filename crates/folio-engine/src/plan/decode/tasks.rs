//! Tasks and their parts.

use std::sync::Arc;

use serde_json::Value;

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::spanned::Tree;
use crate::plan::{Budget, Call, Observe, Retry, Share, Slug, Step, SubPlan, Task, ToolNames, Work, keys};
use crate::template::is_template;

use super::Decoder;
use super::steps::is_for_each;

/// The most characters of a description that also serves as the title.
const TITLE_CHARS_MAX: usize = 80;

impl<'a> Decoder<'a> {
    pub(super) fn task(&mut self, at: &At<'a>) -> Step {
        self.faults.unknown_keys(at, keys::TASK, "a task");
        let (id, title) = self.id_and_title(at, "a task");
        self.task_named(at, id, title)
    }

    /// A task that is written as just a text.
    pub(super) fn titled_task(&mut self, at: &At<'a>, title: &str) -> Step {
        let id = match Slug::from_title(title) {
            Some(id) => Some(id),
            None => {
                let message = format!("no id can be made from {title:?}");
                self.faults
                    .add(at, code::BAD_SLUG, message)
                    .with_hint("write `{id: …, title: …}`");
                None
            }
        };
        let id = id.unwrap_or_else(|| self.placeholder(at));
        let task = Task {
            title: title.to_owned(),
            ..Task::new(id)
        };
        self.with_origin(at, Step::Task(Arc::new(task)))
    }

    /// A placeholder for a step that could not be read.
    pub(super) fn broken_step(&mut self, at: &At<'a>) -> Step {
        let task = Task::new(self.placeholder(at));
        self.with_origin(at, Step::Task(Arc::new(task)))
    }

    /// Without an id, it is made from the title; without a title, the description or the id serves as one.
    pub(super) fn id_and_title(&mut self, at: &At<'a>, subject: &str) -> (Slug, String) {
        let title = self.text_field(at, "title").filter(|title| !title.is_empty());
        let description = self.field(at, "description").and_then(|value| match &value.node.tree {
            Tree::String(text) => Some(text.clone()),
            _ => None,
        });
        let short_description = description
            .as_ref()
            .filter(|text| !text.is_empty() && text.chars().count() <= TITLE_CHARS_MAX)
            .filter(|text| !text.contains('\n') && !is_template(text));
        let id = match self.field(at, "id") {
            Some(id) => self.own_id(&id),
            None => {
                let derived = title
                    .as_deref()
                    .or(short_description.map(String::as_str))
                    .and_then(Slug::from_title);
                if derived.is_none() {
                    self.faults
                        .missing(at, "id", &format!("{subject} needs an id, or a title to make one from"));
                }
                derived
            }
        };
        let id = id.unwrap_or_else(|| self.placeholder(at));
        let title = title
            .or_else(|| short_description.cloned())
            .unwrap_or_else(|| id.to_string());
        (id, title)
    }

    pub(super) fn task_named(&mut self, at: &At<'a>, id: Slug, title: String) -> Step {
        // In a `for_each` with its task inline, the keys below belong to the `for_each`.
        let is_inline = is_for_each(at);
        let mut task = Task { title, ..Task::new(id) };
        task.description = self.text_or_empty(at, "description");
        task.reason = self.text_or_empty(at, "reason");
        task.satisfies = self
            .field(at, "satisfies")
            .map(|ids| self.texts(&ids))
            .unwrap_or_default();
        task.criteria = self.criteria(at, &task.satisfies);
        if !is_inline {
            task.needs = self.field(at, "needs").map(|needs| self.slugs(&needs));
            task.optional = self.flag(at, "optional").unwrap_or_default();
        }
        task.executor = self.text_field(at, "executor");
        task.tools = self.tools(at);
        task.atomic = self.flag(at, "atomic").unwrap_or_default();
        task.work = self.work(at, task.atomic);
        task.observe = self.observations(at);
        task.retry = self.retry(at);
        task.timeout = self.duration_field(at, "timeout");
        if task.timeout.is_some_and(|timeout| timeout.is_zero())
            && let Some(timeout) = at.key("timeout")
        {
            self.faults.bad_value(&timeout, "a timeout must be longer than zero");
        }
        let budget = self.budget(at);
        if !budget.is_empty() {
            task.budget = Arc::new(budget);
        }
        task.share = self.field(at, "budget_share").and_then(|share| self.share(&share));
        self.with_origin(at, Step::Task(Arc::new(task)))
    }

    /// The tools that the step at `at` names.
    pub(super) fn tools(&mut self, at: &At<'a>) -> Option<ToolNames> {
        let names = self.field(at, "tools")?;
        Some(self.texts(&names).into())
    }

    fn work(&mut self, at: &At<'a>, is_atomic: bool) -> Work {
        let (call, plan) = (self.field(at, "do"), self.field(at, "plan"));
        if let (Some(_), Some(plan)) = (&call, &plan) {
            let error = self
                .faults
                .add(plan, code::TWO_WAYS, "a task has either `do` or `plan`, not both");
            error.with_hint("make two tasks of it");
        }
        if let Some(plan) = &plan
            && is_atomic
        {
            self.faults
                .add(plan, code::TWO_WAYS, "a task that is `atomic` has no sub-plan");
        }
        let call = call.map(|call| self.call(&call));
        // The plan is read even if it does not count, so that its mistakes are reported too.
        let plan = plan.map(|plan| self.sub_plan(&plan));
        match (call, plan) {
            (Some(call), _) => Work::Do(call),
            (None, Some(plan)) => Work::Plan(plan),
            (None, None) => Work::Model,
        }
    }

    fn call(&mut self, at: &At<'a>) -> Call {
        if !self.is_object(at, "`{tool, args}`") {
            return Call {
                tool: String::new(),
                args: Value::Object(serde_json::Map::new()),
            };
        }
        self.faults.unknown_keys(at, keys::CALL, "a call");
        let tool = self.required_text(at, "tool", "the name of the tool");
        let args = match self.field(at, "args") {
            Some(args) if self.is_object(&args, "an object with the tool's arguments") => args.node.to_json(),
            _ => Value::Object(serde_json::Map::new()),
        };
        Call { tool, args }
    }

    fn sub_plan(&mut self, at: &At<'a>) -> SubPlan {
        if at.items().is_some() {
            return SubPlan {
                steps: self.steps(at),
                output: None,
            };
        }
        if !self.is_object(at, "a sub-plan: `{steps, output}`, or a list of steps") {
            return SubPlan {
                steps: Vec::new(),
                output: None,
            };
        }
        self.faults.unknown_keys(at, keys::SUB_PLAN, "a sub-plan");
        let steps = match self.field(at, "steps") {
            Some(steps) => self.steps(&steps),
            None => {
                self.faults.missing(at, "steps", "a sub-plan is a list of steps");
                Vec::new()
            }
        };
        SubPlan {
            steps,
            output: self.field(at, "output").map(|output| output.node.to_json()),
        }
    }

    fn observations(&mut self, at: &At<'a>) -> Vec<Observe> {
        let Some(at) = self.field(at, "observe") else {
            return Vec::new();
        };
        match at.items() {
            Some(items) => items.iter().filter_map(|item| self.observation(item)).collect(),
            None => self.observation(&at).into_iter().collect(),
        }
    }

    fn observation(&mut self, at: &At<'a>) -> Option<Observe> {
        if !self.is_object(at, "an observation: `{type, content}`") {
            return None;
        }
        self.faults.unknown_keys(at, keys::OBSERVE, "an observation");
        let kind = self.required_text(at, "type", "what kind of observation it is");
        let content = self.required_text(at, "content", "what is observed");
        Some(Observe {
            kind,
            content,
            confidence: self.field(at, "confidence").and_then(|value| self.confidence(&value)),
            tags: self.field(at, "tags").map(|tags| self.texts(&tags)).unwrap_or_default(),
            ttl_minutes: self.field(at, "ttl_minutes").and_then(|value| self.ttl_minutes(&value)),
            context: self.field(at, "context").and_then(|context| self.context(&context)),
            for_each: self.field(at, "for_each").and_then(|list| self.expression(&list)),
            when: self.field(at, "when").and_then(|when| self.condition(&when)),
        })
    }

    fn confidence(&mut self, at: &At<'a>) -> Option<Value> {
        match &at.node.tree {
            Tree::String(text) if is_template(text) => Some(Value::String(text.clone())),
            Tree::Number(number) if number.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number)) => {
                Some(at.node.to_json())
            }
            Tree::Number(number) => {
                self.faults.bad_value(at, format!("{number} is not between 0 and 1"));
                None
            }
            _ => {
                self.faults.wrong_type(at, "a number from 0 to 1, or a template of one");
                None
            }
        }
    }

    fn ttl_minutes(&mut self, at: &At<'a>) -> Option<f64> {
        let minutes = self.number(at)?;
        if minutes <= 0.0 {
            self.faults.bad_value(at, "a lifetime must be longer than zero");
            return None;
        }
        Some(minutes)
    }

    fn context(&mut self, at: &At<'a>) -> Option<Value> {
        match &at.node.tree {
            Tree::Object(_) => Some(at.node.to_json()),
            Tree::String(text) if is_template(text) => Some(at.node.to_json()),
            _ => {
                self.faults.wrong_type(at, "an object");
                None
            }
        }
    }

    /// People sometimes write `when: true`; as an expression it means the same.
    fn condition(&mut self, at: &At<'a>) -> Option<String> {
        match &at.node.tree {
            Tree::Bool(holds) => Some(holds.to_string()),
            _ => self.expression(at),
        }
    }

    fn retry(&mut self, at: &At<'a>) -> Retry {
        let mut retry = Retry::default();
        let Some(at) = self.field(at, "retry") else {
            return retry;
        };
        if let Tree::Number(_) = &at.node.tree {
            retry.max_attempts = self.u32(&at).unwrap_or(1);
            if retry.max_attempts == 0 {
                self.faults.bad_value(&at, "there must be at least 1 attempt");
            }
            return retry;
        }
        if !self.is_object(
            &at,
            "`{max_attempts, delay, factor, delay_max}`, or a number of attempts",
        ) {
            return retry;
        }
        self.faults.unknown_keys(&at, keys::RETRY, "a retry");
        retry.max_attempts = self.positive_field(&at, "max_attempts").unwrap_or(retry.max_attempts);
        retry.delay = self.duration_field(&at, "delay").unwrap_or(retry.delay);
        // Nobody who writes a longer delay means a shorter one.
        let delay_max = retry.delay_max.max(retry.delay);
        retry.delay_max = self.duration_field(&at, "delay_max").unwrap_or(delay_max);
        if let Some(value) = self.field(&at, "factor")
            && let Some(factor) = self.number(&value)
        {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the range is checked; digits beyond f32 do not matter"
            )]
            if (1.0..=1000.0).contains(&factor) {
                retry.factor = factor as f32;
            } else {
                self.faults
                    .bad_value(&value, format!("the factor {factor} is not between 1 and 1000"));
            }
        }
        retry
    }

    /// An amount in dollars, converted to millionths.
    fn dollars(&mut self, at: &At<'a>) -> Option<u64> {
        let dollars = self.number(at)?;
        if !(0.0..=1e9).contains(&dollars) {
            self.faults.bad_value(
                at,
                format!("{dollars} is not an amount of dollars from 0 to 1,000,000,000"),
            );
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        Some((dollars * 1e6).round() as u64)
    }

    fn share(&mut self, at: &At<'a>) -> Option<Share> {
        let share = self.number(at)?;
        let known = Share::of(share);
        if known.is_none() {
            self.faults
                .bad_value(at, format!("{share} is not a share: more than 0, and at most 1"));
        }
        known
    }

    pub(super) fn budget(&mut self, at: &At<'a>) -> Budget {
        let Some(at) = self.field(at, "budget") else {
            return Budget::default();
        };
        if !self.is_object(&at, "an object with limits") {
            return Budget::default();
        }
        self.faults.unknown_keys(&at, keys::BUDGET, "a budget");
        Budget {
            depth: self.u32_field(&at, "depth"),
            nodes: self.u32_field(&at, "nodes"),
            children: self.u32_field(&at, "children"),
            items: self.u32_field(&at, "items"),
            concurrency: self.positive_field(&at, "concurrency"),
            // With fewer than two, nothing would be combined.
            fan_in: self.field_from(&at, "fan_in", 2),
            replans: self.u32_field(&at, "replans"),
            deadline: self.duration_field(&at, "deadline"),
            output_bytes: self.u64_field(&at, "output_bytes"),
            tokens: self.u64_field(&at, "tokens"),
            tokens_in: self.u64_field(&at, "tokens_in"),
            tokens_cached: self.u64_field(&at, "tokens_cached"),
            tokens_out: self.u64_field(&at, "tokens_out"),
            micro_usd: self.field(&at, "usd").and_then(|value| self.dollars(&value)),
            model_calls: self.u64_field(&at, "model_calls"),
            tool_calls: self.u64_field(&at, "tool_calls"),
            bytes: self.u64_field(&at, "bytes"),
        }
    }
}
