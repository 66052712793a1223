//! Runs: the line of a list, the whole run, its tree and its nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use folio::Timestamp;
use folio::engine::plan::{Criterion, Step};
use folio::engine::result::Finding;
use folio::engine::run::{NodeView, RunSummary};
use folio::engine::spend::{Dimension, Purse, Spend};
use folio::engine::{NodeId, NodeResult, Output, Run, projection};
use folio::memory::{PageHandle, PageId};
use folio::runner::HeldUp;
use folio::store::{ForgottenRun, RunRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::micros_between;

/// The largest combined output of a group's members, in bytes, that is sent with the group: the same limit as for an
/// output inside the journal.
const GROUP_BYTES_MAX: usize = 64 * 1024;

/// The word for a run that has something to do and that no process drives.
pub const INTERRUPTED: &str = "interrupted";

/// The state of a run with that `status`; `goes_on`: whether a process drives it or it only waits.
#[must_use]
pub fn standing(status: &str, goes_on: bool) -> &str {
    match (status, goes_on) {
        (Run::RUNNING, false) => INTERRUPTED,
        (status, _) => status,
    }
}

/// A run in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunShape {
    #[serde(flatten)]
    row: RowShape,
    /// What the run has used. Null if an older version wrote the run's last event, as are `paused`, `asks` and `waits`;
    /// get the run itself for these values.
    spent: Option<SpendShape>,
    /// Whether the run is paused, as a whole or in all parts that could go on: only people continue it.
    paused: Option<bool>,
    /// The number of open questions to people and of plans, calls and checks that wait for approval.
    asks: Option<u32>,
    /// Whether everything in the run waits, for people or for a time, or is paused: nobody needs to drive it meanwhile.
    waits: Option<bool>,
    /// How often in a row the run's driver was gone while the same work was under way; absent if its last one was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken_off: Option<u32>,
    /// The handle of the run that it was forked from, if it is a fork, or that run's id if nothing is left of it. Get
    /// the run itself if an older version wrote the run's last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fork_of: Option<String>,
    /// The path of the node before which the fork began, if it is one; empty for the run as a whole. Absent also if an
    /// older version wrote the run's last event: get the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fork_at: Option<String>,
}

impl RunShape {
    /// Returns `row` in its wire form at `now`, with the values that its last commit holds.
    #[must_use]
    pub fn of(row: &RunRow, so_far: Option<&RunSummary>, now: Timestamp) -> Self {
        Self {
            row: RowShape::of(row),
            spent: so_far.map(|so_far| SpendShape::of(&so_far.spent)),
            paused: so_far.map(RunSummary::stands_paused),
            asks: so_far.map(|so_far| so_far.asks),
            waits: so_far.map(|so_far| so_far.waits_at(now)),
            broken_off: so_far.map(|so_far| so_far.broken_off).filter(|times| *times > 0),
            fork_of: None,
            fork_at: so_far.and_then(|so_far| so_far.forked_at.clone()),
        }
    }

    /// Returns it as a fork of the run with the handle `origin`, if there is one.
    #[must_use]
    pub fn forked_from(self, origin: Option<String>) -> Self {
        Self {
            fork_of: origin,
            ..self
        }
    }

    /// Returns the handle of the run that it was forked from, if that is known.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.fork_of.as_deref()
    }

    /// Returns the path of the node before which the fork began, if it is one and that is known.
    #[must_use]
    pub fn fork_path(&self) -> Option<&str> {
        self.fork_at.as_deref()
    }

    /// Returns the run's handle.
    #[must_use]
    pub fn handle(&self) -> &str {
        &self.row.handle
    }
}

/// The row that the store keeps of a run beside its journal.
#[derive(Debug, Serialize, JsonSchema)]
struct RowShape {
    run_id: String,
    handle: String,
    title: String,
    /// `running`, or the outcome, or `forgotten`.
    status: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The last commit of its journal.
    head: u64,
    /// Whether a live process drives it. A run that is `running` but not driven waits to be resumed, unless it `waits`
    /// for something else.
    driven: bool,
    /// What is still known of the run if its status is `forgotten`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten: Option<ForgottenShape>,
}

/// What is still known of a run that was forgotten.
#[derive(Debug, Serialize, JsonSchema)]
struct ForgottenShape {
    /// How it had ended.
    status: String,
    /// When it had ended.
    ended_at: Timestamp,
    /// The number of its events.
    events: u64,
    /// The number of its nodes that were done.
    nodes: u64,
    /// When it was forgotten.
    at: Timestamp,
    /// Who had it forgotten.
    by: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl ForgottenShape {
    fn of(forgotten: &ForgottenRun) -> Self {
        Self {
            status: forgotten.left.status.clone(),
            ended_at: forgotten.left.ended_at,
            events: forgotten.left.events,
            nodes: forgotten.left.nodes,
            at: forgotten.at,
            by: forgotten.by.clone(),
            reason: forgotten.reason.clone(),
        }
    }
}

impl RowShape {
    fn of(row: &RunRow) -> Self {
        Self {
            run_id: row.id.to_string(),
            handle: row.handle.to_string(),
            title: row.title.clone(),
            status: row.status.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
            head: row.head.0,
            driven: row.driven,
            forgotten: row.forgotten.as_deref().map(ForgottenShape::of),
        }
    }
}

/// A run with everything except its tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunInFull {
    #[serde(flatten)]
    row: RowShape,
    goal: String,
    inputs: Value,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_us: Option<u64>,
    /// The turn that it belongs to: its own, or the one in which it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    /// The moment of another run at which it was forked, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<OriginShape>,
    /// The number of nodes created so far.
    nodes_total: usize,
    /// The number of nodes whose call is under way.
    in_flight: usize,
    /// Whether the whole run is paused: no call begins until somebody continues it.
    paused: bool,
    /// The number of ended nodes, by outcome. Those that another version of a plan replaced are `replaced`.
    counts: BTreeMap<&'static str, u32>,
    /// What the run has used.
    spent: SpendShape,
    /// The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    /// were made again (E9.9).
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    paid_twice: u32,
    /// The number of open questions to people and of plans, calls and checks that wait for approval.
    asks: usize,
    /// Whether everything in the run waits, for people or for a time, or is paused: nobody needs to drive it meanwhile.
    waits: bool,
    result: Option<ResultShape>,
    /// The handles of the run's pages by purpose: `workspace`, `main`, `plan`, `summary`, `report`.
    pages: BTreeMap<&'static str, String>,
    /// What keeps one of its calls waiting, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_up: Option<HeldUpShape>,
}

/// The moment of another run at which this fork began.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OriginShape {
    /// The id of the other run.
    pub run_id: String,
    /// The path of the node before which the fork began; empty for the run as a whole.
    pub path: String,
}

impl OriginShape {
    /// Reads the origin from the run's variable part, as its first event holds it.
    #[must_use]
    pub fn of(variable: &Value) -> Option<Self> {
        let origin = variable.get("forked_from")?;
        let part = |name| Some(origin.get(name)?.as_str()?.to_owned());
        Some(Self {
            run_id: part("run")?,
            path: part("node")?,
        })
    }
}

/// The resource for which a call of this run waits, because a call of another run is writing it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HeldUpShape {
    /// The name of the resource, such as a path.
    pub name: String,
    /// The handle of the run that writes it.
    pub by: String,
}

impl HeldUpShape {
    /// Returns what holds a run up in its wire form; `by` is the run that does.
    #[must_use]
    pub fn of(held_up: HeldUp, by: &RunRow) -> Self {
        Self {
            name: held_up.name,
            by: by.handle.to_string(),
        }
    }
}

impl RunInFull {
    /// Returns the number of model calls that may have been paid for twice.
    #[must_use]
    pub fn paid_twice(&self) -> u32 {
        self.paid_twice
    }

    /// Returns the moment of another run at which it was forked, if it is a fork.
    #[must_use]
    pub fn forked_from(&self) -> Option<&OriginShape> {
        self.forked_from.as_ref()
    }

    /// Returns what keeps one of its calls waiting, if anything does.
    #[must_use]
    pub fn held_up(&self) -> Option<&HeldUpShape> {
        self.held_up.as_ref()
    }

    /// Returns `run` in its wire form at `now`, with its row, its pages, and what holds it up.
    #[must_use]
    pub fn of(
        row: &RunRow,
        run: &Run,
        pages: BTreeMap<&'static str, String>,
        held_up: Option<HeldUpShape>,
        now: Timestamp,
    ) -> Self {
        let root = run.node_named("");
        let finished_at = root.as_ref().and_then(|root| root.finished_at);
        let turn = run.variable().get("turn").and_then(Value::as_str);
        Self {
            row: RowShape::of(row),
            goal: run.goal().to_owned(),
            inputs: run.inputs().clone(),
            started_at: run.started_at(),
            finished_at,
            duration_us: run
                .started_at()
                .zip(finished_at)
                .map(|(from, to)| micros_between(from, to)),
            turn_id: turn.map(str::to_owned),
            forked_from: OriginShape::of(run.variable()),
            nodes_total: run.len(),
            in_flight: run.in_flight().len(),
            paused: run.is_run_paused(),
            counts: run.counts_by_state(),
            spent: root.map_or_else(SpendShape::default, |root| SpendShape::of(root.spent)),
            paid_twice: run.repeated_calls(),
            asks: run.count_requests(),
            waits: run.summary().waits_at(now),
            result: root.as_ref().and_then(ResultShape::of),
            pages,
            held_up,
        }
    }
}

/// The result of a node.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultShape {
    /// The node's name among its siblings: the last part of its path; `run` for the root.
    task_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'static str>,
    notes: String,
    /// The output itself, unless it is kept beside the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// The hash under which a large output is kept, and its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_ref: Option<OutputRef>,
    /// Whether an output is left out because it is too large, such as the combined results of a group's members. Get the
    /// members' own results instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    output_omitted: bool,
    evidence: Vec<EvidenceShape>,
    criteria: Vec<VerdictShape>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutputRef {
    hash: String,
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EvidenceShape {
    kind: String,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct VerdictShape {
    criterion: String,
    required: bool,
    finding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl ResultShape {
    /// Returns the result of the node that `view` shows in its wire form; `None` before it has ended.
    #[must_use]
    pub fn of(view: &NodeView<'_>) -> Option<Self> {
        let result = view.result?;
        let (output, output_ref) = match &result.output {
            Output::Inline(inline) => (
                Some(Arc::unwrap_or_clone(inline.value())).filter(|value| !value.is_null()),
                None,
            ),
            Output::Blob { hash, bytes } => (
                None,
                Some(OutputRef {
                    hash: hash.clone(),
                    bytes: *bytes,
                }),
            ),
        };
        let evidence = result.evidence.iter().map(|evidence| EvidenceShape {
            kind: evidence.kind.clone(),
            id: evidence.id.clone(),
            hash: evidence.hash.clone(),
            span: evidence.span.clone(),
        });
        let criteria = result.verdicts.iter().map(|verdict| {
            let (finding, why) = match &verdict.finding {
                Finding::Met => ("met", None),
                Finding::Unmet(why) => ("unmet", Some(why.clone())),
                Finding::Unverifiable(why) => ("unverifiable", Some(why.clone())),
            };
            VerdictShape {
                criterion: verdict.criterion.clone(),
                required: verdict.required,
                finding,
                why,
            }
        });
        Some(Self {
            task_id: view.slug().to_owned(),
            status: result.status.as_str(),
            severity: severity_name(result),
            stop_reason: result.stop_reason.map(|reason| reason.as_str()),
            notes: result.notes.clone(),
            output,
            output_ref,
            output_omitted: false,
            evidence: evidence.collect(),
            criteria: criteria.collect(),
        })
    }
}

impl ResultShape {
    /// Returns the result of the node that `view` shows. The output of a group is that of its members, in the form in
    /// which later steps read it.
    fn of_node(run: &Run, view: &NodeView<'_>) -> Option<Self> {
        let mut left = GROUP_BYTES_MAX;
        Self::of_node_within(run, view, &mut left)
    }

    /// Returns the same, with its output only if that is within the `left` bytes, from which it is subtracted.
    #[must_use]
    pub fn of_node_within(run: &Run, view: &NodeView<'_>, left: &mut usize) -> Option<Self> {
        let shape = Self::of(view)?;
        let Some(given) = run.given(view.id).filter(|_| shape.output_ref.is_none()) else {
            return Some(shape);
        };
        let display = given.display_value(GROUP_BYTES_MAX.min(*left));
        *left -= display.as_ref().map_or(0, |(_, bytes)| *bytes);
        Some(Self {
            output_omitted: display.is_none(),
            output: display
                .map(|(output, _)| Arc::unwrap_or_clone(output))
                .filter(|output| !output.is_null()),
            ..shape
        })
    }
}

/// Returns the severity of a failure: `hard` or `soft`.
pub(crate) fn severity_name(result: &NodeResult) -> Option<&'static str> {
    result.severity.map(|_| if result.is_hard() { "hard" } else { "soft" })
}

/// A run's tree, and the event after which its live stream continues.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TreeShape {
    run_id: String,
    handle: String,
    title: String,
    status: String,
    driven: bool,
    /// The last event that the tree includes: request the events after it.
    last_event_id: u64,
    /// The nodes: parents before children, children in plan order.
    nodes: Vec<NodeShape>,
    /// The number of all nodes.
    total: usize,
    /// The `cursor` for the nodes after these; null at the end.
    next: Option<String>,
}

/// The part of a tree that one answer has, as of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreePart {
    /// The last event that the tree includes.
    pub(crate) last_event_id: u64,
    /// The node after which it begins; `None` at the root.
    pub(crate) after: Option<NodeId>,
    /// The most nodes that it has.
    pub(crate) limit: usize,
}

impl TreeShape {
    /// Returns the `part` of the tree of `run`, with its pages.
    pub(crate) fn of(row: &RunRow, run: &Run, part: TreePart, pages: &HashMap<PageId, PageHandle>) -> Self {
        // The row and the journal were read at different moments; the tree shows the journal, so the status is taken
        // from it.
        let status = run.status();
        let all = run.tree_as_planned();
        let start = part.after.map_or(0, |after| {
            let position = all.iter().position(|view| view.id == after);
            position.map_or(all.len(), |position| position + 1)
        });
        let rest = &all[start..];
        let shown = &rest[..rest.len().min(part.limit)];
        Self {
            run_id: row.id.to_string(),
            handle: row.handle.to_string(),
            title: row.title.clone(),
            status: status.to_owned(),
            driven: row.driven,
            last_event_id: part.last_event_id,
            nodes: shown.iter().map(|view| NodeShape::of(run, view, pages)).collect(),
            total: all.len(),
            next: shown
                .last()
                .filter(|_| shown.len() < rest.len())
                .map(|last| last.id.to_string()),
        }
    }
}

/// One node of a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeShape {
    node_id: String,
    /// The node above it; null for the root.
    parent_id: Option<String>,
    path: String,
    title: String,
    kind: &'static str,
    /// How many nodes are above it.
    depth: u32,
    optional: bool,
    state: &'static str,
    /// The outcome; null before it has ended.
    status: Option<&'static str>,
    stop_reason: Option<&'static str>,
    attempt: u32,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_us: Option<u64>,
    call: String,
    notes: String,
    /// Whether it is paused: no call at or below this node begins until somebody continues it.
    paused: bool,
    /// Why it waits before the next attempt, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked: Option<ParkedShape>,
    /// Whether another version of a plan superseded it or a node above it: its result no longer counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
    /// The version of its plan; 0 if it has none or has not begun to carry it out.
    plan_version: u32,
    /// What this node and all nodes below it have used.
    spent: SpendShape,
    /// The number of model calls that may have been paid for twice: the driver died before it saw their end, so they
    /// were made again.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    paid_twice: u32,
    /// The node's own limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitShape>,
    /// The handle of the node's page, once the page exists.
    page: Option<String>,
    /// The id that the node's page has or will have.
    page_id: String,
}

/// A node's wait before its next attempt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ParkedShape {
    until: Timestamp,
    /// Why the last attempt failed.
    cause: String,
}

/// What was used. Fields that are zero are left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct SpendShape {
    /// Input tokens of models.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_in: u64,
    /// The part of `tokens_in` that the provider read from its cache.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_cached: u64,
    /// Output tokens of models.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_out: u64,
    /// The cost in millionths of a US dollar, as far as prices are known.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    micro_usd: u64,
    /// The number of model calls.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    model_calls: u64,
    /// The number of model calls whose price is unknown; `micro_usd` does not include them.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    unpriced_calls: u64,
    /// The number of tool calls.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tool_calls: u64,
}

impl SpendShape {
    /// Returns `spent` in its wire form.
    #[must_use]
    pub fn of(spent: &Spend) -> Self {
        Self {
            tokens_in: spent.tokens_in,
            tokens_cached: spent.tokens_cached,
            tokens_out: spent.tokens_out,
            micro_usd: spent.micro_usd,
            model_calls: spent.model_calls,
            unpriced_calls: spent.unpriced_calls,
            tool_calls: spent.tool_calls,
        }
    }
}

/// One limit of a run or of a part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitShape {
    /// What it limits: `tokens`, `tokens_in`, `tokens_cached`, `tokens_out`, `micro_usd`, `model_calls`, `tool_calls`
    /// or `bytes`.
    what: &'static str,
    limit: u64,
    /// What is used, including what is set aside for calls under way.
    used: u64,
    /// The part of `used` that is only set aside, for calls under way and for members of groups: what they do not use of
    /// it comes back.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    #[schemars(default)]
    set_aside: u64,
    /// The part of `used` beyond the limit, because a call used more than was set aside for it.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    #[schemars(default)]
    over: u64,
}

impl LimitShape {
    /// Returns the limits of `purse`.
    pub(crate) fn all_of(purse: &Purse) -> Vec<Self> {
        let shape_of = |dimension: Dimension| {
            Some(Self {
                what: dimension.as_str(),
                limit: purse.limit.of(dimension)?,
                used: purse.used(dimension),
                set_aside: purse.set_aside(dimension),
                over: purse.overrun(dimension),
            })
        };
        Dimension::ALL.into_iter().filter_map(shape_of).collect()
    }
}

/// A node of a run with its result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeInFull {
    #[serde(flatten)]
    node: NodeShape,
    /// The arguments of its last call in full, with everything filled in and secrets replaced; absent where they are no longer known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Value>,
    /// The criteria that its result has to meet.
    criteria: Vec<CriterionShape>,
    result: Option<ResultShape>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CriterionShape {
    id: String,
    text: String,
    /// Whether the result fails if this criterion is not met.
    required: bool,
}

impl NodeInFull {
    /// Returns `view` of `run` in its wire form, with its page if it exists, and with `args`, the arguments of its last
    /// call.
    #[must_use]
    pub fn of(run: &Run, view: &NodeView<'_>, args: Option<Value>, pages: &HashMap<PageId, PageHandle>) -> Self {
        let criteria: &[Criterion] = match view.step {
            Some(Step::Task(task)) => &task.criteria,
            None => &run.plan().criteria,
            Some(_) => &[],
        };
        let shape = |criterion: &Criterion| CriterionShape {
            id: criterion.id.clone(),
            text: criterion.text.clone(),
            required: criterion.required,
        };
        Self {
            node: NodeShape::of(run, view, pages),
            args,
            criteria: criteria.iter().map(shape).collect(),
            result: ResultShape::of_node(run, view),
        }
    }
}

impl NodeShape {
    /// Returns `view` of `run` in its wire form; `pages` are the pages that exist.
    #[must_use]
    pub fn of(run: &Run, view: &NodeView<'_>, pages: &HashMap<PageId, PageHandle>) -> Self {
        let page_id = projection::branch_page(run, view.id);
        Self {
            node_id: view.id.to_string(),
            parent_id: view.parent.map(|parent| parent.to_string()),
            path: view.path.to_owned(),
            title: run.label(view.id),
            kind: view.kind.as_str(),
            depth: view.depth,
            optional: view.optional,
            state: view.state.as_str(),
            status: view.result.map(|result| result.status.as_str()),
            stop_reason: view
                .result
                .and_then(|result| result.stop_reason)
                .map(|reason| reason.as_str()),
            attempt: view.attempt,
            started_at: view.started_at,
            finished_at: view.finished_at,
            duration_us: view
                .started_at
                .zip(view.finished_at)
                .map(|(from, to)| micros_between(from, to)),
            call: view.call.to_owned(),
            notes: view.result.map(|result| result.notes.clone()).unwrap_or_default(),
            paused: view.paused,
            parked: view.parked.map(|(until, cause)| ParkedShape {
                until,
                cause: cause.to_owned(),
            }),
            superseded: view.superseded,
            plan_version: view.plan_version,
            spent: SpendShape::of(view.spent),
            paid_twice: view.repeated,
            limits: view.purse.map(LimitShape::all_of).unwrap_or_default(),
            page: pages.get(&page_id).map(ToString::to_string),
            page_id: page_id.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use folio::engine::spend::{Allowance, Amount, Spend};
    use serde_json::json;

    use super::*;

    #[test]
    fn limit_says_how_much_of_what_is_used_is_only_set_aside() {
        let spend = |model_calls: u64| Spend {
            model_calls,
            ..Spend::default()
        };
        let purse = Purse {
            limit: Allowance {
                model_calls: Some(9),
                tool_calls: Some(2),
                ..Allowance::default()
            },
            spent: spend(3),
            reserved: spend(1),
            held: Amount::of(&spend(2)),
            bytes: 0,
        };
        assert_eq!(
            json!(LimitShape::all_of(&purse)),
            json!([
                {"what": "model_calls", "limit": 9, "used": 6, "set_aside": 3},
                {"what": "tool_calls", "limit": 2, "used": 0},
            ])
        );
    }
}
