//! The span of a node: its name and its attributes.

use folio::engine::plan::{Slug, Step, Work};
use folio::engine::run::{NodeKind, NodeView};
use folio::engine::spend::{Dimension, Purse};
use folio::engine::{Outcome, Run};
use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::SpanData;

use crate::names;
use crate::spans::{fail, usage};

/// The name of a step whose id was made of its title; its position follows.
const STEP: &str = "step";

/// Completes `span`, which has the times and the failed attempts of a node that has ended, with what the node was and
/// what came of it. `path` is its path from the root.
pub(crate) fn describe(span: &mut SpanData, run: &Run, view: &NodeView<'_>, path: &str) {
    let is_run = view.parent.is_none();
    let node = view.id;
    let own_name = path.rsplit('/').next().unwrap_or_default();
    let (name, operation) = match view.kind {
        _ if is_run => (names::WORKFLOW.to_owned(), Some(names::WORKFLOW)),
        NodeKind::Call | NodeKind::Action => {
            let tool = tool_of(view);
            span.attributes.extend([
                KeyValue::new(names::TOOL_NAME, tool.clone()),
                KeyValue::new(names::TOOL_TYPE, "function"),
                KeyValue::new(names::TOOL_CALL_ID, node.to_string()),
            ]);
            (format!("{} {tool}", names::TOOL), Some(names::TOOL))
        }
        NodeKind::Model => {
            span.attributes.extend([
                KeyValue::new(names::AGENT_NAME, own_name.to_owned()),
                KeyValue::new(names::AGENT_ID, node.to_string()),
            ]);
            (format!("{} {own_name}", names::AGENT), Some(names::AGENT))
        }
        other => (format!("{} {own_name}", other.as_str()), None),
    };
    span.name = name.into();
    span.attributes
        .extend(operation.map(|operation| KeyValue::new(names::OPERATION, operation)));
    span.attributes.extend([
        KeyValue::new(names::NODE, node.to_string()),
        KeyValue::new(names::PATH, path.to_owned()),
        KeyValue::new(names::KIND, view.kind.as_str()),
    ]);
    if view.plan_version > 0 {
        span.attributes
            .push(KeyValue::new(names::PLAN_VERSION, i64::from(view.plan_version)));
    }
    span.attributes.extend(view.purse.into_iter().flat_map(budget));
    span.attributes.extend(deadline(run, view));
    if is_run {
        span.attributes.extend(usage(view.spent));
    }
    let Some(result) = view.result else { return };
    let reason = result.stop_reason.map(|reason| reason.as_str());
    span.attributes
        .push(KeyValue::new(names::OUTCOME, result.status.as_str()));
    if result.attempts > 0 {
        span.attributes
            .push(KeyValue::new(names::ATTEMPTS, i64::from(result.attempts)));
    }
    span.attributes
        .extend(reason.map(|reason| KeyValue::new(names::STOP_REASON, reason)));
    if result.status == Outcome::Failed {
        let code = result.code.clone();
        fail(span, code.unwrap_or_else(|| reason.unwrap_or("failed").to_owned()));
    }
}

/// Returns the name of a node among its siblings: its name in the plan, or `step-3` if that was made of a title, which
/// is meant for people.
///
/// A step with a title and no name gets a name that is the title in other letters. A title that is identical to the
/// name says no more than the name does.
pub(crate) fn name(run: &Run, view: &NodeView<'_>) -> String {
    let slug = view.slug();
    let (own, item) = slug.split_at(slug.find('[').unwrap_or(slug.len()));
    let title = view.step.map(Step::title).unwrap_or_default();
    if title == own || !Slug::from_title(title).is_some_and(|made| own.starts_with(made.as_str())) {
        return slug.to_owned();
    }
    if !item.is_empty() {
        return format!("{STEP}{item}");
    }
    let siblings = view.parent.map(|parent| run.children(parent)).unwrap_or_default();
    let is_step = |node: &&NodeView<'_>| !matches!(node.kind, NodeKind::Action | NodeKind::RollUp);
    let position = siblings.iter().filter(is_step).position(|node| node.id == view.id);
    format!("{STEP}-{}", position.map_or(0, |position| position + 1))
}

/// Returns the tool that a node calls: from the plan or, for a call that a model makes, from the beginning of the
/// call's text.
fn tool_of(view: &NodeView<'_>) -> String {
    if let Some(Step::Task(task)) = view.step
        && let Work::Do(call) = &task.work
    {
        return call.tool.clone();
    }
    let word = view
        .call
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
        .next();
    word.unwrap_or_default().to_owned()
}

/// Returns the limits of a node as they are when it has ended: people may have raised them.
fn budget(purse: &Purse) -> impl Iterator<Item = KeyValue> + use<> {
    let limit = purse.limit;
    Dimension::ALL.into_iter().filter_map(move |dimension| {
        let max = i64::try_from(limit.of(dimension)?).unwrap_or(i64::MAX);
        Some(KeyValue::new(format!("{}{}", names::BUDGET, dimension.as_str()), max))
    })
}

/// Returns how long the node may take, in milliseconds, if that is limited; for a run as it is when the run has ended.
fn deadline(run: &Run, view: &NodeView<'_>) -> Option<KeyValue> {
    let within = match view.step {
        None => run.deadline()?.since(run.started_at()?),
        Some(Step::Task(task)) => task.budget.deadline?,
        Some(_) => return None,
    };
    let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    Some(KeyValue::new(format!("{}{}", names::BUDGET, Run::DEADLINE), within))
}
