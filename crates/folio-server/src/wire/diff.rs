//! How two runs differ in what was done, what came out and what it cost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use folio::Timestamp;
use folio::engine::spend::Spend;
use folio::engine::{NodeResult, NodeView, Output, Run};
use folio::store::RunRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::run::{SpendShape, standing};

/// How two runs differ.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DiffShape {
    /// The first run.
    pub one: SideShape,
    /// The second run.
    pub other: SideShape,
    /// Nodes that are not the same in both, in the order of their paths.
    pub nodes: Vec<NodeDiff>,
    /// How many nodes are the same in both except for their cost.
    pub same: usize,
    /// Those of them whose costs differ.
    pub costs: Vec<CostDiff>,
    /// The `cursor` for the next part of `nodes` and `costs`; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One of two runs that are compared.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SideShape {
    /// The run's handle.
    pub run: String,
    /// The run's permanent id.
    pub run_id: String,
    /// The title of its plan.
    pub title: String,
    /// Its goal.
    pub goal: String,
    /// Its inputs.
    pub inputs: Value,
    /// How it ended, `running`, or `interrupted` if it has something to do and no process drives it.
    pub status: String,
    /// Why it ended as it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The notes of its result.
    pub notes: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// How long it took; null until it has ended.
    pub duration_ms: Option<u64>,
    /// What it has used.
    #[schemars(with = "SpendShape")]
    pub spent: Spend,
}

/// A node that is not the same in both runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NodeDiff {
    /// The path of the node; empty for the run as a whole.
    pub path: String,
    /// How many newer nodes have that path: each version of a plan has its own.
    pub newer: usize,
    /// What differs, if both exist: `kind`, `status`, `notes`, `call`, `output`, `cost`.
    pub differs: Vec<&'static str>,
    /// The node in the first run; null if it does not exist there.
    pub one: Option<NodeSide>,
    /// The node in the second run; null if it does not exist there.
    pub other: Option<NodeSide>,
}

/// A node that is the same in both runs except for its cost.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CostDiff {
    /// The path of the node; empty for the run as a whole.
    pub path: String,
    /// How many newer nodes have that path.
    pub newer: usize,
    /// What it used in the first run.
    #[schemars(with = "SpendShape")]
    pub one: Spend,
    /// What it used in the second run.
    #[schemars(with = "SpendShape")]
    pub other: Spend,
}

/// A node in one of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NodeSide {
    /// The kind of the node.
    pub kind: &'static str,
    /// How it ended, or its state.
    pub status: String,
    /// Why it ended as it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The notes of its result.
    pub notes: String,
    /// Its call, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    /// The output for later steps. `{"blob": HASH, "bytes": N}` stands for an output that is kept beside the journal.
    pub output: Value,
    /// What the node and everything below it used.
    #[schemars(with = "SpendShape")]
    pub spent: Spend,
}

/// The place of a node in a comparison, which is also the cursor for what comes after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodePlace {
    path: String,
    /// How many newer nodes have that path.
    newer: usize,
}

impl fmt::Display for NodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.newer, self.path)
    }
}

/// A text that is no [`NodePlace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a place in a comparison of runs")]
pub struct NotAPlace;

impl FromStr for NodePlace {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let (newer, path) = text.split_once('.').ok_or(NotAPlace)?;
        Ok(Self {
            newer: newer.parse().map_err(|_| NotAPlace)?,
            path: path.to_owned(),
        })
    }
}

/// A run that is compared: its row, and itself.
pub type Compared<'r> = (&'r RunRow, &'r Run);

/// The part of a comparison that is listed.
#[derive(Debug, Clone, Copy)]
pub struct DiffPart<'p> {
    /// The node behind which it begins; `None`: at the beginning.
    pub after: Option<&'p NodePlace>,
    /// How many nodes it has at most.
    pub nodes: usize,
    /// It ends with the node whose outputs bring it to so many bytes.
    pub bytes: usize,
}

impl DiffPart<'static> {
    /// All of it.
    pub const ALL: Self = Self {
        after: None,
        nodes: usize::MAX,
        bytes: usize::MAX,
    };
}

impl DiffShape {
    /// Compares two runs as they are at `now`, and lists a part of the nodes that differ.
    #[must_use]
    pub fn of(one: Compared<'_>, other: Compared<'_>, part: DiffPart<'_>, now: Timestamp) -> Self {
        let (of_one, of_other) = (by_path(one.1), by_path(other.1));
        let names: BTreeSet<(&str, usize)> = of_one.keys().chain(of_other.keys()).copied().collect();
        let mut diff = Self {
            one: SideShape::of(one, now),
            other: SideShape::of(other, now),
            nodes: Vec::new(),
            same: 0,
            costs: Vec::new(),
            next: None,
        };
        let (mut last, mut bytes) = (None, 0);
        for name in names {
            // Nothing is copied of what is not listed: of very many nodes, most are the same.
            let (one, other) = (of_one.get(&name), of_other.get(&name));
            let differs = match (one, other) {
                (Some(one), Some(other)) => differs(one, other),
                _ => Vec::new(),
            };
            let is_same = one.is_some() && other.is_some() && matches!(differs[..], [] | ["cost"]);
            diff.same += usize::from(is_same);
            let (path, newer) = (name.0.to_owned(), name.1);
            let is_listed = part.after.is_none_or(|after| (after.path.as_str(), after.newer) < name);
            if !is_listed || is_same && differs.is_empty() {
                continue;
            }
            if diff.next.is_some() || diff.nodes.len() + diff.costs.len() == part.nodes || bytes >= part.bytes {
                diff.next = diff.next.or_else(|| last.take());
                continue;
            }
            last = Some(
                NodePlace {
                    path: path.clone(),
                    newer,
                }
                .to_string(),
            );
            match (one, other) {
                (Some(one), Some(other)) if is_same => diff.costs.push(CostDiff {
                    path,
                    newer,
                    one: *one.spent,
                    other: *other.spent,
                }),
                (one, other) => {
                    let (one, other) = (one.map(NodeSide::of), other.map(NodeSide::of));
                    let sides = one.iter().chain(&other);
                    bytes += sides.map(|side| side.output.to_string().len()).sum::<usize>();
                    diff.nodes.push(NodeDiff {
                        path,
                        newer,
                        differs,
                        one,
                        other,
                    });
                }
            }
        }
        diff
    }
}

/// The nodes of a run by their path and the number of newer nodes with that path: so the last version of a plan is
/// compared with the last version of the other.
fn by_path(run: &Run) -> BTreeMap<(&str, usize), NodeView<'_>> {
    let mut newer: HashMap<&str, usize> = HashMap::new();
    let mut views = BTreeMap::new();
    for view in run.tree().into_iter().rev() {
        let count = newer.entry(view.path).or_default();
        views.insert((view.path, *count), view);
        *count += 1;
    }
    views
}

impl SideShape {
    fn of((row, run): Compared<'_>, now: Timestamp) -> Self {
        let root = run.tree().first().copied();
        let elapsed = root.and_then(|root| Some(root.finished_at?.since(run.started_at()?)));
        let result = run.result();
        let goes_on = row.driven || run.summary().waits_at(now);
        Self {
            run: row.handle.to_string(),
            run_id: row.id.to_string(),
            title: row.title.clone(),
            goal: run.goal().to_owned(),
            inputs: run.inputs().clone(),
            status: standing(&row.status, goes_on).to_owned(),
            stop_reason: result.and_then(|r| r.stop_reason).map(|reason| reason.to_string()),
            notes: result.map(|result| result.notes.clone()).unwrap_or_default(),
            nodes: run.len(),
            duration_ms: elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
            spent: run.purse().map(|purse| purse.spent).unwrap_or_default(),
        }
    }
}

/// The output of a result; a large one is given by the hash under which it is kept.
fn output_of(result: &NodeResult) -> Option<Value> {
    match &result.output {
        Output::Inline(inline) if inline.is_null() => None,
        Output::Inline(inline) => Some(Arc::unwrap_or_clone(inline.value())),
        Output::Blob { hash, bytes } => Some(json!({"blob": hash, "bytes": bytes})),
    }
}

impl NodeSide {
    fn of(view: &NodeView<'_>) -> Self {
        let result = view.result;
        Self {
            kind: view.kind.as_str(),
            status: status_of(view),
            stop_reason: result.and_then(|r| r.stop_reason).map(|reason| reason.to_string()),
            notes: result.map(|result| result.notes.clone()).unwrap_or_default(),
            call: view.call.to_owned(),
            output: result.and_then(output_of).unwrap_or_default(),
            spent: *view.spent,
        }
    }
}

/// How a node ended, or its state.
fn status_of(view: &NodeView<'_>) -> String {
    let of_result = |result: &NodeResult| result.status.to_string();
    view.result.map_or_else(|| view.state.as_str().to_owned(), of_result)
}

/// What is not the same of two nodes.
fn differs(one: &NodeView<'_>, other: &NodeView<'_>) -> Vec<&'static str> {
    let stop = |view: &NodeView<'_>| view.result.and_then(|result| result.stop_reason);
    let status = |view: &NodeView<'_>| (status_of(view), stop(view).map(|reason| reason.to_string()));
    let all = [
        ("kind", one.kind.as_str() != other.kind.as_str()),
        ("status", status(one) != status(other)),
        (
            "notes",
            one.result.map_or("", |result| &result.notes) != other.result.map_or("", |result| &result.notes),
        ),
        ("call", one.call != other.call),
        ("output", !is_same_output(one.result, other.result)),
        ("cost", *one.spent != *other.spent),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}

/// Whether [`output_of`] says the same of both, without a copy of it.
fn is_same_output(one: Option<&NodeResult>, other: Option<&NodeResult>) -> bool {
    let inline = |result: Option<&NodeResult>| match result.map(|result| &result.output) {
        Some(Output::Inline(inline)) if !inline.is_null() => Some(inline.value()),
        _ => None,
    };
    let blob = |result: Option<&NodeResult>| match result.map(|result| &result.output) {
        Some(blob @ Output::Blob { .. }) => Some(json!(blob)),
        _ => None,
    };
    inline(one) == inline(other) && blob(one) == blob(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_in_a_comparison_is_its_cursor() {
        for (path, newer) in [("", 0), ("a/b", 2), ("each[3].x", 0)] {
            let place = NodePlace {
                path: path.to_owned(),
                newer,
            };
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for wrong in ["", "a", "a.b", "-1.a"] {
            assert_eq!(wrong.parse::<NodePlace>(), Err(NotAPlace), "{wrong:?}");
        }
    }
}
