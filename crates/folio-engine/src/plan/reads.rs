//! Which fields of a plan are templates, and which results a step reads through them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::template::{
    References, is_reference, is_template, references, references_of_expression, references_of_text,
};

use super::{Check, Criterion, Plan, Step, SubPlan, Task, Work};

/// One part of a path inside a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment {
    Key(&'static str),
    Index(usize),
}

/// A field that is a template or consists of templates.
#[derive(Debug, Clone)]
pub(super) struct Site<'a> {
    /// The path of the field, relative to its step or plan.
    pub(super) path: Vec<Segment>,
    pub(super) source: Source<'a>,
    /// What it may name in addition to what every template of the step may.
    pub(super) sees: Sees,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Text(&'a str),
    Expression(&'a str),
    Value(&'a Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// The results that the step depends on.
    Before,
    /// Those, and the step's own `result`.
    OwnResult,
    /// Those, the own `result`, and `item` and `index` of a list in it.
    OwnItems,
}

impl Source<'_> {
    pub(super) fn references(self) -> Result<References, crate::template::TemplateError> {
        match self {
            Self::Text(text) => references_of_text(text),
            Self::Expression(expression) => references_of_expression(expression),
            Self::Value(value) => references(value),
        }
    }
}

/// The templates of one step, without those of the steps inside it.
pub(super) fn sites(step: &Step) -> Vec<Site<'_>> {
    match step {
        Step::Task(task) => task_sites(task),
        // Their titles are shown unchanged: there may be no item yet, and nothing to wait for.
        Step::Parallel(_) | Step::Sequence(_) => Vec::new(),
        Step::ForEach(for_each) => {
            let source = match &for_each.over {
                // A text that is not a reference either is reported as such, and not also as a bad expression.
                Value::String(text) if !is_template(text) && !is_reference(text) => {
                    return Vec::new();
                }
                Value::String(reference) if !is_template(reference) => Source::Expression(reference),
                other => Source::Value(other),
            };
            vec![Site {
                // A list has no keys: there, the path ends at it. In an object, it is at `over`.
                path: vec![Segment::Key("for_each"), Segment::Key("over")],
                source,
                sees: Sees::Before,
            }]
        }
    }
}

/// The templates of a plan that may only name inputs.
pub(super) fn heading_sites(plan: &Plan) -> Vec<Site<'_>> {
    [
        ("title", &plan.title),
        ("goal", &plan.goal),
        ("description", &plan.description),
    ]
    .into_iter()
    .filter_map(|(key, value)| text(&[Segment::Key(key)], value, Sees::Before))
    .collect()
}

/// The templates of a plan that may name the results of its steps.
pub(super) fn closing_sites(plan: &Plan) -> Vec<Site<'_>> {
    let mut sites = Vec::new();
    criteria_sites(&plan.criteria, &mut sites);
    if let Some(report) = &plan.report {
        let at = |key| [Segment::Key("report"), Segment::Key(key)];
        sites.extend(text(&at("title"), &report.title, Sees::OwnResult));
        sites.extend(text(&at("body"), &report.body, Sees::OwnResult));
    }
    sites.extend(output_site(plan.output.as_ref(), &[Segment::Key("output")]));
    sites
}

/// The template of a sub-plan's output, with its path relative to the task.
pub(super) fn sub_plan_sites(plan: &SubPlan) -> Vec<Site<'_>> {
    output_site(plan.output.as_ref(), &[Segment::Key("plan"), Segment::Key("output")])
        .into_iter()
        .collect()
}

fn output_site<'a>(output: Option<&'a Value>, path: &[Segment]) -> Option<Site<'a>> {
    output.map(|output| Site {
        path: path.to_vec(),
        source: Source::Value(output),
        sees: Sees::Before,
    })
}

fn task_sites(task: &Task) -> Vec<Site<'_>> {
    let mut sites = Vec::new();
    for (key, value) in [
        ("title", &task.title),
        ("description", &task.description),
        ("reason", &task.reason),
    ] {
        sites.extend(text(&[Segment::Key(key)], value, Sees::Before));
    }
    criteria_sites(&task.criteria, &mut sites);
    if let Work::Do(call) = &task.work {
        let path = vec![Segment::Key("do"), Segment::Key("args")];
        sites.push(Site {
            path,
            source: Source::Value(&call.args),
            sees: Sees::Before,
        });
    }
    for (at, observe) in task.observe.iter().enumerate() {
        let path = |key| [Segment::Key("observe"), Segment::Index(at), Segment::Key(key)];
        let sees = if observe.for_each.is_some() {
            Sees::OwnItems
        } else {
            Sees::OwnResult
        };
        sites.extend(text(&path("content"), &observe.content, sees));
        for (position, tag) in observe.tags.iter().enumerate() {
            let mut path = path("tags").to_vec();
            path.push(Segment::Index(position));
            sites.extend(text(&path, tag, sees));
        }
        for (key, value) in [("confidence", &observe.confidence), ("context", &observe.context)] {
            if let Some(value) = value {
                sites.push(Site {
                    path: path(key).to_vec(),
                    source: Source::Value(value),
                    sees,
                });
            }
        }
        for (key, expression, sees) in [
            ("for_each", &observe.for_each, Sees::OwnResult),
            ("when", &observe.when, sees),
        ] {
            if let Some(expression) = expression {
                sites.push(Site {
                    path: path(key).to_vec(),
                    source: Source::Expression(expression),
                    sees,
                });
            }
        }
    }
    sites
}

fn criteria_sites<'a>(criteria: &'a [Criterion], sites: &mut Vec<Site<'a>>) {
    for (at, criterion) in criteria.iter().enumerate() {
        let path = |keys: &[Segment]| {
            let mut path = vec![Segment::Key("criteria"), Segment::Index(at)];
            path.extend_from_slice(keys);
            path
        };
        sites.extend(text(&path(&[Segment::Key("text")]), &criterion.text, Sees::OwnResult));
        let check = |keys: &[Segment]| {
            let mut path = path(&[Segment::Key("check")]);
            path.extend_from_slice(keys);
            path
        };
        match &criterion.check {
            Check::Command { argv, .. } => {
                for (position, word) in argv.iter().enumerate() {
                    let keys = [Segment::Key("command"), Segment::Key("argv"), Segment::Index(position)];
                    sites.extend(text(&check(&keys), word, Sees::OwnResult));
                }
            }
            Check::FileExists { path } => {
                sites.extend(text(&check(&[Segment::Key("file_exists")]), path, Sees::OwnResult));
            }
            Check::Regex { of: Some(of), .. } => {
                let path = check(&[Segment::Key("regex"), Segment::Key("of")]);
                sites.push(Site {
                    path,
                    source: Source::Expression(of),
                    sees: Sees::OwnResult,
                });
            }
            Check::JsonSchema { of: Some(of), .. } => {
                let path = check(&[Segment::Key("json_schema"), Segment::Key("of")]);
                sites.push(Site {
                    path,
                    source: Source::Expression(of),
                    sees: Sees::OwnResult,
                });
            }
            Check::Judge
            | Check::Human
            | Check::ResultNonempty
            | Check::Regex { of: None, .. }
            | Check::JsonSchema { of: None, .. } => {}
        }
    }
}

fn text<'a>(path: &[Segment], text: &'a str, sees: Sees) -> Option<Site<'a>> {
    is_template(text).then(|| Site {
        path: path.to_vec(),
        source: Source::Text(text),
        sees,
    })
}

/// The slugs of the surrounding plan that `step` reads in templates, including those in its sub-plan or body.
///
/// A name that the sub-plan or the body defines hides the outer one.
pub(super) fn outer_results(step: &Step) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for site in sites(step) {
        // A template that cannot be parsed is reported when the plan is checked; here it reads nothing.
        names.extend(site.source.references().map(|read| read.results).unwrap_or_default());
    }
    let mut inner = BTreeSet::new();
    if let Step::Task(task) = step
        && let Work::Plan(plan) = &task.work
    {
        for site in sub_plan_sites(plan) {
            inner.extend(site.source.references().map(|read| read.results).unwrap_or_default());
        }
    }
    let mut defined = BTreeSet::new();
    each_member(inner_steps(step), &mut |member| {
        inner.extend(outer_results(member));
        defined.extend(member.id().map(|id| id.as_str().to_owned()));
    });
    names.extend(inner.difference(&defined).cloned());
    names
}

/// The inputs that the templates of `step` name, without those of the steps inside it; `None` if one of them uses
/// `inputs` as a whole.
pub(crate) fn inputs_named(step: &Step) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for site in sites(step) {
        let read = site.source.references().unwrap_or_default();
        if read.variables.contains("inputs") {
            return None;
        }
        names.extend(read.inputs);
    }
    Some(names)
}

/// Calls `visit` for every step of one plan, for groups and sequences before their members.
pub(super) fn each_member(steps: &[Step], visit: &mut impl FnMut(&Step)) {
    for step in steps {
        visit(step);
        each_member(step.members(), visit);
    }
}

/// The steps of the plan inside a step: its sub-plan, or the body of a `for_each`.
pub(super) fn inner_steps(step: &Step) -> &[Step] {
    match step {
        Step::Task(task) => match &task.work {
            Work::Plan(plan) => &plan.steps,
            Work::Do(_) | Work::Model => &[],
        },
        Step::ForEach(for_each) => std::slice::from_ref(&for_each.body),
        Step::Parallel(_) | Step::Sequence(_) => &[],
    }
}
