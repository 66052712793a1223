//! The steps of a plan: tasks, groups, sequences and `for_each`.

use std::sync::Arc;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Budget, Criterion, Retry, Share, Slug, ToolNames, duration};

/// The most items of a `for_each` that does not set `max_items`.
pub const MAX_ITEMS_DEFAULT: u32 = 64;

/// One step of a plan. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A task: the only step that does something itself.
    Task(Arc<Task>),
    /// Steps that run at the same time.
    Parallel(Arc<Group>),
    /// Steps that run one after the other; useful inside a group.
    Sequence(Arc<Sequence>),
    /// One step for every item of a list.
    ForEach(Arc<ForEach>),
}

impl Step {
    /// The id that the author gave it. Groups and sequences may have none.
    pub fn id(&self) -> Option<&Slug> {
        match self {
            Self::Task(task) => Some(&task.id),
            Self::Parallel(group) => group.id.as_ref(),
            Self::Sequence(sequence) => sequence.id.as_ref(),
            Self::ForEach(for_each) => Some(&for_each.id),
        }
    }

    /// The title; empty for a group or a sequence without one.
    pub fn title(&self) -> &str {
        match self {
            Self::Task(task) => &task.title,
            Self::Parallel(group) => &group.title,
            Self::Sequence(sequence) => &sequence.title,
            Self::ForEach(for_each) => &for_each.title,
        }
    }

    /// Whether the plan can succeed without it.
    pub fn is_optional(&self) -> bool {
        match self {
            Self::Task(task) => task.optional,
            Self::Parallel(group) => group.optional,
            Self::Sequence(sequence) => sequence.optional,
            Self::ForEach(for_each) => for_each.optional,
        }
    }

    /// The steps that it waits for according to its author; `None` means everything earlier.
    pub fn needs(&self) -> Option<&[Slug]> {
        match self {
            Self::Task(task) => task.needs.as_deref(),
            Self::ForEach(for_each) => for_each.needs.as_deref(),
            Self::Parallel(_) | Self::Sequence(_) => None,
        }
    }

    /// The tools that whoever does it, or something in it, may use; `None` means those of the step around it. For a
    /// `for_each`, its body says so.
    pub fn tools(&self) -> Option<&ToolNames> {
        match self {
            Self::Task(task) => task.tools.as_ref(),
            Self::Parallel(group) => group.tools.as_ref(),
            Self::Sequence(sequence) => sequence.tools.as_ref(),
            Self::ForEach(_) => None,
        }
    }

    /// The same step with `slug` as its id and these members, if it is a group or a sequence, which may lack an id.
    pub(crate) fn named(&self, slug: &Slug, members: Vec<Self>) -> Self {
        match self {
            Self::Parallel(group) => Self::Parallel(Arc::new(Group {
                id: Some(slug.clone()),
                steps: members,
                ..(**group).clone()
            })),
            Self::Sequence(sequence) => Self::Sequence(Arc::new(Sequence {
                id: Some(slug.clone()),
                steps: members,
                ..(**sequence).clone()
            })),
            Self::Task(_) | Self::ForEach(_) => self.clone(),
        }
    }

    /// The same step with these members, if it is a group or a sequence.
    pub(crate) fn with_members(&self, members: Vec<Self>) -> Self {
        match self {
            Self::Parallel(group) => Self::Parallel(Arc::new(Group {
                steps: members,
                ..(**group).clone()
            })),
            Self::Sequence(sequence) => Self::Sequence(Arc::new(Sequence {
                steps: members,
                ..(**sequence).clone()
            })),
            Self::Task(_) | Self::ForEach(_) => self.clone(),
        }
    }

    /// The same step without the ids that were generated for groups and sequences that had none.
    pub(crate) fn without_generated_ids(&self) -> Self {
        let unless_generated = |id: &Option<Slug>| id.clone().filter(|id| !is_generated_id(id.as_str()));
        let members = || self.members().iter().map(Self::without_generated_ids).collect();
        match self {
            Self::Parallel(group) => Self::Parallel(Arc::new(Group {
                id: unless_generated(&group.id),
                steps: members(),
                ..(**group).clone()
            })),
            Self::Sequence(sequence) => Self::Sequence(Arc::new(Sequence {
                id: unless_generated(&sequence.id),
                steps: members(),
                ..(**sequence).clone()
            })),
            Self::Task(_) | Self::ForEach(_) => self.clone(),
        }
    }

    /// The steps inside it that belong to the same plan: the members of a group or a sequence.
    ///
    /// The sub-plan of a task and the body of a `for_each` are plans of their own.
    pub fn members(&self) -> &[Self] {
        match self {
            Self::Parallel(group) => &group.steps,
            Self::Sequence(sequence) => &sequence.steps,
            Self::Task(_) | Self::ForEach(_) => &[],
        }
    }
}

/// Whether `id` is of the form that groups and sequences without an id get: `group-2`, `sequence-4`.
pub(crate) fn is_generated_id(id: &str) -> bool {
    let number = id.strip_prefix("group-").or_else(|| id.strip_prefix("sequence-"));
    number.is_some_and(|number| number.bytes().all(|c| c.is_ascii_digit() || c == b'-'))
}

/// Steps that run at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its id, if other steps refer to it.
    pub id: Option<Slug>,
    /// The title, in a few words.
    pub title: String,
    /// The branches.
    pub steps: Vec<Step>,
    /// What happens to the other branches when one fails hard.
    pub on_hard: OnHard,
    /// When the group is finished.
    pub join: Join,
    /// Whether the plan can succeed without it.
    pub optional: bool,
    /// The tools that its steps may use; `None` means those of the step around it.
    pub tools: Option<ToolNames>,
}

/// Steps that run one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// Its id, if other steps refer to it.
    pub id: Option<Slug>,
    /// The title, in a few words.
    pub title: String,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// Whether the plan can succeed without it.
    pub optional: bool,
    /// The tools that its steps may use; `None` means those of the step around it.
    pub tools: Option<ToolNames>,
}

/// One step for every item of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ForEach {
    /// Its id.
    pub id: Slug,
    /// The title, in a few words.
    pub title: String,
    /// The list: written out, a bare reference such as `results.scan.output.files`, or a template that is exactly one
    /// `{{ expression }}`.
    pub over: Value,
    /// The name of the item in templates of the body (`as`). `index` is its position, counted from 0.
    pub item_name: String,
    /// What is done for each item, as a plan of its own.
    pub body: Step,
    /// The most items. A longer list is refused, never cut off.
    pub max_items: u32,
    /// What happens to the other items when one fails hard.
    pub on_item: OnHard,
    /// How many items run at the same time; `None` means as many as the budget allows.
    pub concurrency: Option<u32>,
    /// Whether the plan can succeed without it.
    pub optional: bool,
    /// The steps that it waits for; `None` means everything earlier.
    pub needs: Option<Vec<Slug>>,
}

/// The name of the executor that is a person (E9.17). It is reserved.
pub const HUMAN: &str = "human";

/// A task: the step that does something.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id, unique in its plan.
    pub id: Slug,
    /// The title, in a few words (a template).
    pub title: String,
    /// What is to be done (a template).
    pub description: String,
    /// Why it is part of the plan (a template).
    pub reason: String,
    /// What must hold for its result.
    pub criteria: Vec<Criterion>,
    /// The ids of the criteria of the surrounding plan that it is there to meet (E9.6).
    pub satisfies: Vec<String>,
    /// The steps that it waits for and reads; `None` means everything earlier.
    pub needs: Option<Vec<Slug>>,
    /// Who carries it out; `None` leaves the choice to the engine.
    pub executor: Option<String>,
    /// The tools that its executor and everything below it may use; `None` means those of the step around it.
    pub tools: Option<ToolNames>,
    /// Whether the plan can succeed without it.
    pub optional: bool,
    /// Whether it must be carried out directly, without a sub-plan.
    pub atomic: bool,
    /// How it is carried out.
    pub work: Work,
    /// Which parts of its result become observations.
    pub observe: Vec<Observe>,
    /// How often it is tried, and with which pauses.
    pub retry: Retry,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Limits for it and everything below it. Most tasks have none and share one empty budget.
    pub budget: Arc<Budget>,
    /// How much of the limits around it the task and everything below it may use.
    pub share: Option<Share>,
}

impl Task {
    /// Whether only a model can do it: it is neither a call nor a plan, and not meant for a person.
    #[must_use]
    pub fn needs_model(&self) -> bool {
        matches!(self.work, Work::Model) && self.executor.as_deref() != Some(HUMAN)
    }

    /// A task with only a name: a model does it.
    pub fn new(id: Slug) -> Self {
        Self {
            id,
            title: String::new(),
            description: String::new(),
            reason: String::new(),
            criteria: Vec::new(),
            satisfies: Vec::new(),
            needs: None,
            executor: None,
            tools: None,
            optional: false,
            atomic: false,
            work: Work::Model,
            observe: Vec::new(),
            retry: Retry::default(),
            timeout: None,
            budget: Budget::none(),
            share: None,
        }
    }
}

/// All tasks that are written out in `steps`, including those of sub-plans.
#[must_use]
pub fn tasks_of(steps: &[Step]) -> Vec<&Task> {
    let mut found = Vec::new();
    let mut stack: Vec<&Step> = steps.iter().collect();
    while let Some(step) = stack.pop() {
        match step {
            Step::Task(task) => {
                if let Work::Plan(plan) = &task.work {
                    stack.extend(&plan.steps);
                }
                found.push(&**task);
            }
            Step::Parallel(group) => stack.extend(&group.steps),
            Step::Sequence(sequence) => stack.extend(&sequence.steps),
            Step::ForEach(for_each) => stack.push(&for_each.body),
        }
    }
    found
}

/// How a task is carried out.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// One call of a tool, without a model.
    Do(Call),
    /// A plan of its own.
    Plan(SubPlan),
    /// A model decides: it does the task or makes a sub-plan for it.
    Model,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments; every string in it is a template.
    pub args: Value,
}

/// The plan of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubPlan {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// What the task's output consists of (templates); without it, the outputs of its steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// A rule that turns a result into observations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observe {
    /// The type of the observation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of the observation (a template).
    pub content: String,
    /// The confidence, from 0 to 1: a number or a template of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    /// Its tags (templates).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The lifetime in minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_minutes: Option<f64>,
    /// The context, which says what it is about (templates).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// A reference to a list in the task's own result (`result.output.files`): it gives one observation per element,
    /// which templates name `item`, with `index` as its position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// An expression; if it is false, no observation is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// What happens to the other branches or items when one fails hard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnHard {
    /// Those that are running finish; those that have not started are held back.
    #[default]
    Hold,
    /// Those that are running are cancelled too.
    Cancel,
    /// The others go on as if nothing had happened.
    Continue,
}

/// When a group is finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Join {
    /// When every branch has an outcome.
    #[default]
    AllSettled,
    /// When the first branch is `ok`; the others are cancelled.
    FirstOk,
    /// When that many branches are `ok`; the others are cancelled.
    Quorum(u32),
}

impl Serialize for Join {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AllSettled => serializer.serialize_str("all_settled"),
            Self::FirstOk => serializer.serialize_str("first_ok"),
            Self::Quorum(k) => serializer.collect_str(&format_args!("quorum({k})")),
        }
    }
}

// The authored form leaves out default values, so that a plan reads as somebody would write it.
impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Task(task) => task.serialize(serializer),
            Self::Parallel(group) => group.serialize(serializer),
            Self::Sequence(sequence) => sequence.serialize(serializer),
            Self::ForEach(for_each) => for_each.serialize(serializer),
        }
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("title", &self.title)?;
        entry_unless(&mut map, self.description.is_empty(), "description", &self.description)?;
        entry_unless(&mut map, self.reason.is_empty(), "reason", &self.reason)?;
        entry_unless(&mut map, self.criteria.is_empty(), "criteria", &self.criteria)?;
        entry_unless(&mut map, self.satisfies.is_empty(), "satisfies", &self.satisfies)?;
        entry_unless(&mut map, self.needs.is_none(), "needs", &self.needs)?;
        entry_unless(&mut map, self.executor.is_none(), "executor", &self.executor)?;
        entry_unless(&mut map, self.tools.is_none(), "tools", &self.tools.as_deref())?;
        entry_unless(&mut map, !self.optional, "optional", &self.optional)?;
        entry_unless(&mut map, !self.atomic, "atomic", &self.atomic)?;
        match &self.work {
            Work::Do(call) => map.serialize_entry("do", call)?,
            Work::Plan(plan) => map.serialize_entry("plan", plan)?,
            Work::Model => {}
        }
        entry_unless(&mut map, self.observe.is_empty(), "observe", &self.observe)?;
        entry_unless(&mut map, self.retry.is_default(), "retry", &self.retry)?;
        if let Some(timeout) = self.timeout {
            map.serialize_entry("timeout", &duration::format(timeout))?;
        }
        entry_unless(&mut map, self.budget.is_empty(), "budget", &*self.budget)?;
        entry_unless(&mut map, self.share.is_none(), "budget_share", &self.share)?;
        map.end()
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry_unless(&mut map, self.id.is_none(), "id", &self.id)?;
        entry_unless(&mut map, self.title.is_empty(), "title", &self.title)?;
        map.serialize_entry("parallel", &self.steps)?;
        entry_unless(&mut map, self.on_hard == OnHard::default(), "on_hard", &self.on_hard)?;
        entry_unless(&mut map, self.join == Join::default(), "join", &self.join)?;
        entry_unless(&mut map, !self.optional, "optional", &self.optional)?;
        entry_unless(&mut map, self.tools.is_none(), "tools", &self.tools.as_deref())?;
        map.end()
    }
}

impl Serialize for Sequence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry_unless(&mut map, self.id.is_none(), "id", &self.id)?;
        entry_unless(&mut map, self.title.is_empty(), "title", &self.title)?;
        map.serialize_entry("sequence", &self.steps)?;
        entry_unless(&mut map, !self.optional, "optional", &self.optional)?;
        entry_unless(&mut map, self.tools.is_none(), "tools", &self.tools.as_deref())?;
        map.end()
    }
}

impl Serialize for ForEach {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("title", &self.title)?;
        map.serialize_entry("for_each", &self.over)?;
        map.serialize_entry("as", &self.item_name)?;
        map.serialize_entry("step", &self.body)?;
        map.serialize_entry("max_items", &self.max_items)?;
        entry_unless(&mut map, self.on_item == OnHard::default(), "on_item", &self.on_item)?;
        entry_unless(&mut map, self.concurrency.is_none(), "concurrency", &self.concurrency)?;
        entry_unless(&mut map, !self.optional, "optional", &self.optional)?;
        entry_unless(&mut map, self.needs.is_none(), "needs", &self.needs)?;
        map.end()
    }
}

fn entry_unless<M: SerializeMap, T: Serialize>(
    map: &mut M,
    left_out: bool,
    key: &'static str,
    value: &T,
) -> Result<(), M::Error> {
    if left_out {
        Ok(())
    } else {
        map.serialize_entry(key, value)
    }
}
