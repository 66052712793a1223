//! A run: its row, itself, and its tree.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use folio::Timestamp;
use folio::engine::plan::{Criterion, Step};
use folio::engine::result::Finding;
use folio::engine::run::{NodeView, SoFar};
use folio::engine::spend::{Dimension, Purse, Spend};
use folio::engine::{Given, NodeResult, Output, Run, projection};
use folio::memory::{PageHandle, PageId};
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::micros_between;

/// Bytes of what the members of a group came to that are given with it: as many as an output has that stands in the journal itself.
const GROUP_BYTES_MAX: usize = 64 * 1024;

/// A run, as a list shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunShape {
    #[serde(flatten)]
    row: RowShape,
    /// What it used up. Null, as `paused` and `asks` are, for a run whose last event an older version wrote: the run itself says it.
    spent: Option<SpendShape>,
    /// Whether no call of it is begun until somebody says so.
    paused: Option<bool>,
    /// How much it asks people now: questions, and what waits for a yes.
    asks: Option<u32>,
}

impl RunShape {
    /// `row` as programs read it, with what its last commit says.
    pub(crate) fn of(row: &RunRow, so_far: Option<&SoFar>) -> Self {
        Self {
            row: RowShape::of(row),
            spent: so_far.map(|so_far| SpendShape::of(&so_far.spent)),
            paused: so_far.map(|so_far| so_far.paused),
            asks: so_far.map(|so_far| so_far.asks),
        }
    }

    /// Its handle.
    pub(crate) fn handle(&self) -> &str {
        &self.row.handle
    }
}

/// What is kept of a run beside its journal.
#[derive(Debug, Serialize, JsonSchema)]
struct RowShape {
    run_id: String,
    handle: String,
    title: String,
    /// `running`, or how it ended.
    status: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The commit at which its journal ends.
    head: u64,
    /// Whether a living process drives it. One that is `running` and is not driven waits to be resumed.
    driven: bool,
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
        }
    }
}

/// Everything about a run but its tree.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunInFull {
    #[serde(flatten)]
    row: RowShape,
    goal: String,
    inputs: Value,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_us: Option<u64>,
    /// The turn that it is in: its own, or the one that it was started in.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<String>,
    /// Where it was forked from another one, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<OriginShape>,
    /// Nodes made so far.
    nodes: usize,
    /// Nodes whose call is under way.
    in_flight: usize,
    /// Whether no call of it is begun until somebody says so.
    paused: bool,
    /// Nodes that have ended, by how.
    counts: BTreeMap<&'static str, u32>,
    /// What it used up.
    spent: SpendShape,
    /// How much it asks people now: questions, and what waits for a yes.
    asks: usize,
    result: Option<ResultShape>,
    /// Handles of the pages that it has, by what they are for.
    pages: BTreeMap<&'static str, String>,
    /// What keeps a call of it waiting, if something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_up: Option<HeldUpShape>,
}

/// The moment of another run at which a fork began.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OriginShape {
    /// The id of that run.
    pub run: String,
    /// The path of the part before which it began.
    pub node: String,
}

impl OriginShape {
    /// What the first event of a run says of it, where it stands in what of the run varies.
    #[must_use]
    pub fn of(variable: &Value) -> Option<Self> {
        let origin = variable.get("forked_from")?;
        let part = |name| Some(origin.get(name)?.as_str()?.to_owned());
        Some(Self {
            run: part("run")?,
            node: part("node")?,
        })
    }
}

/// A call of another run writes what a call of this one is to write, which begins when that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldUpShape {
    /// What is written: a path or another name.
    pub(crate) name: String,
    /// The handle of the run that writes it.
    pub(crate) by: String,
}

impl RunInFull {
    /// `run` with its row, the pages that were found, and what holds it up.
    pub(crate) fn of(
        row: &RunRow,
        run: &Run,
        pages: BTreeMap<&'static str, String>,
        held_up: Option<HeldUpShape>,
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
            nodes: run.len(),
            in_flight: run.in_flight().len(),
            paused: run.is_paused_whole(),
            counts: run
                .counts()
                .iter()
                .map(|(outcome, count)| (outcome.as_str(), *count))
                .collect(),
            spent: root.map_or_else(SpendShape::default, |root| SpendShape::of(root.spent)),
            asks: run.questions().len() + run.waiting().len(),
            result: run.result().map(ResultShape::of),
            pages,
            held_up,
        }
    }
}

/// What a node came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultShape {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'static str>,
    notes: String,
    /// The value itself, unless it is kept beside the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Where a large value is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_ref: Option<OutputRef>,
    /// Whether there is an output that is too large to be given here: what the members of a group came to, which say it themselves.
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
    /// `result` as programs read it.
    pub(crate) fn of(result: &NodeResult) -> Self {
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
        Self {
            status: result.status.as_str(),
            severity: severity_name(result),
            stop_reason: result.stop_reason.map(|reason| reason.as_str()),
            notes: result.notes.clone(),
            output,
            output_ref,
            output_omitted: false,
            evidence: evidence.collect(),
            criteria: criteria.collect(),
        }
    }
}

impl ResultShape {
    /// The result of the node that `view` shows. What a group came to is what its members did, as later steps read it.
    fn of_node(run: &Run, view: &NodeView<'_>) -> Option<Self> {
        let shape = Self::of(view.result?);
        let shown = match run.given(view.id) {
            None | Some(Given::Own(_)) => return Some(shape),
            Some(given) => given.shown(GROUP_BYTES_MAX),
        };
        Some(Self {
            output_omitted: shown.is_none(),
            output: shown.map(|(output, _)| Arc::unwrap_or_clone(output)),
            ..shape
        })
    }
}

/// How bad a failure is.
pub(crate) fn severity_name(result: &NodeResult) -> Option<&'static str> {
    result.severity.map(|_| if result.is_hard() { "hard" } else { "soft" })
}

/// A run's tree, and the event after which its live stream goes on.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TreeShape {
    run_id: String,
    handle: String,
    title: String,
    status: String,
    driven: bool,
    /// The last event that the tree knows: ask for events after it.
    last_event_id: u64,
    /// Parents before children, children in plan order.
    nodes: Vec<NodeShape>,
}

impl TreeShape {
    /// The tree of `run` after `last_event_id` events, with the pages that were found.
    pub(crate) fn of(row: &RunRow, run: &Run, last_event_id: u64, pages: &HashMap<PageId, PageHandle>) -> Self {
        // The row was read at another moment than the journal; the journal is what the tree shows.
        let status = run.status();
        Self {
            run_id: row.id.to_string(),
            handle: row.handle.to_string(),
            title: row.title.clone(),
            status: status.to_owned(),
            driven: row.driven,
            last_event_id,
            nodes: run
                .tree_as_planned()
                .iter()
                .map(|view| NodeShape::of(run, view, pages))
                .collect(),
        }
    }
}

/// One node of a tree.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeShape {
    id: String,
    parent: Option<String>,
    path: String,
    title: String,
    kind: &'static str,
    optional: bool,
    state: &'static str,
    outcome: Option<&'static str>,
    stop_reason: Option<&'static str>,
    attempt: u32,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    duration_us: Option<u64>,
    call: String,
    notes: String,
    /// Whether no call at or below it is begun until somebody says so.
    paused: bool,
    /// Why it waits before it is tried again, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked: Option<ParkedShape>,
    /// Whether another version of a plan took its place, or that of what it is in: what it came to counts no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
    /// The version of its plan; 0 if it has none, or has not begun with it.
    plan_version: u32,
    /// What it and everything below used up.
    spent: SpendShape,
    /// Calls of models for it that were possibly paid for twice: their driver died before it saw their end, so they were made again.
    #[serde(default, skip_serializing_if = "folio::memory::is_default")]
    paid_twice: u32,
    /// The limits that it has of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitShape>,
    /// The page that its work is written on, once it is there.
    page: Option<String>,
    /// The id that this page has or will have.
    page_id: String,
}

/// What a node waits for before it is tried again.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ParkedShape {
    until: Timestamp,
    /// What went wrong the last time.
    cause: String,
}

/// What was used up; what is nothing is left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct SpendShape {
    /// Tokens that models read.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_in: u64,
    /// Of these, tokens that the provider had in its cache.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_cached: u64,
    /// Tokens that models wrote.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tokens_out: u64,
    /// Millionths of a US dollar, as far as prices are known.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    micro_usd: u64,
    /// Calls of models.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    model_calls: u64,
    /// Of these, calls of which nobody knows what they cost: `micro_usd` has nothing of them.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    unpriced_calls: u64,
    /// Calls of tools.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    tool_calls: u64,
}

impl SpendShape {
    /// `spent` as programs read it.
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

/// One limit of a part of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitShape {
    /// Of what: `tokens`, `tokens_in`, `tokens_cached`, `tokens_out`, `micro_usd`, `model_calls`, `tool_calls`, `bytes`.
    what: &'static str,
    limit: u64,
    /// What is used up, and set aside for calls under way.
    used: u64,
    /// How much of that is beyond the limit: what a call came to more than was set aside for it.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    #[schemars(default)]
    over: u64,
}

impl LimitShape {
    /// Those that `purse` has.
    pub(crate) fn all_of(purse: &Purse) -> Vec<Self> {
        let of = |dimension: Dimension| {
            Some(Self {
                what: dimension.as_str(),
                limit: purse.limit.of(dimension)?,
                used: purse.used(dimension),
                over: purse.over(dimension),
            })
        };
        Dimension::ALL.into_iter().filter_map(of).collect()
    }
}

/// A node of a run with what it came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NodeInFull {
    #[serde(flatten)]
    node: NodeShape,
    /// What its result has to meet.
    criteria: Vec<CriterionShape>,
    result: Option<ResultShape>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CriterionShape {
    id: String,
    text: String,
    /// Whether the result fails without it.
    required: bool,
}

impl NodeInFull {
    /// `view` of `run`, with its page if that was found.
    pub(crate) fn of(run: &Run, view: &NodeView<'_>, pages: &HashMap<PageId, PageHandle>) -> Self {
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
            criteria: criteria.iter().map(shape).collect(),
            result: ResultShape::of_node(run, view),
        }
    }
}

impl NodeShape {
    /// `view` of `run`, with the pages that were found.
    pub(crate) fn of(run: &Run, view: &NodeView<'_>, pages: &HashMap<PageId, PageHandle>) -> Self {
        let page_id = projection::branch_page(run, view.id);
        Self {
            id: view.id.to_string(),
            parent: view.parent.map(|parent| parent.to_string()),
            path: view.path.to_owned(),
            title: title_of(run, view),
            kind: view.kind.as_str(),
            optional: view.optional,
            state: view.state.as_str(),
            outcome: view.result.map(|result| result.status.as_str()),
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

/// What a node is called; the root by its plan.
pub(crate) fn title_of(run: &Run, view: &NodeView<'_>) -> String {
    match view.parent {
        None if !run.plan().title.is_empty() => run.plan().title.clone(),
        _ => run.title(view.id),
    }
}
