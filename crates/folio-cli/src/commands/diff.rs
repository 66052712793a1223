//! `folio diff`: how two runs differ in what was done, what came out and what it cost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use clap::Args;
use folio::engine::spend::Spend;
use folio::engine::{NodeResult, NodeView, Output, Run};
use folio::memory::counted::counted;
use folio::memory::id::RunRef;
use folio::store::RunRow;
use serde::Serialize;
use serde_json::{Value, json};

use super::Context;
use super::people::runner;
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::printable;
use crate::report::run::standing;

/// How many characters of a text are shown in a line.
const SHOWN_CHARS: usize = 80;
/// How many of these come before the place where two texts begin to differ.
const CONTEXT_CHARS: usize = 20;

/// `folio diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// First run: r3 or run_…
    #[arg(value_parser = run_ref)]
    one: RunRef,
    /// Second run: r4 or run_…
    #[arg(value_parser = run_ref)]
    other: RunRef,
}

/// How two runs differ.
#[derive(Debug, Serialize)]
struct DiffShape {
    one: SideShape,
    other: SideShape,
    /// Nodes that are not the same in both, in the order of their paths.
    nodes: Vec<NodeDiff>,
    /// How many nodes are the same in both except for their cost.
    same: usize,
    /// Those of them whose costs differ.
    costs: Vec<CostDiff>,
}

#[derive(Debug, Serialize)]
struct SideShape {
    run: String,
    run_id: String,
    title: String,
    goal: String,
    inputs: Value,
    /// How the run ended, `running`, or `interrupted` if no process drives it.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    notes: String,
    nodes: usize,
    duration_ms: Option<u64>,
    spent: Spend,
}

#[derive(Debug, Serialize)]
struct NodeDiff {
    path: String,
    /// How many newer nodes have that path: each version of a plan has its own.
    newer: usize,
    /// What differs, if both exist: `kind`, `status`, `notes`, `call`, `output`, `cost`.
    differs: Vec<&'static str>,
    /// The node in the first run; null if it does not exist there.
    one: Option<NodeSide>,
    other: Option<NodeSide>,
}

#[derive(Debug, Serialize)]
struct CostDiff {
    path: String,
    newer: usize,
    one: Spend,
    other: Spend,
}

#[derive(Debug, Serialize, PartialEq)]
struct NodeSide {
    kind: &'static str,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    notes: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
    /// The output for later steps. `{"blob": HASH, "bytes": N}` stands for an output that is kept beside the journal.
    output: Value,
    /// What the node and everything below it used up.
    spent: Spend,
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
            status: result.map_or_else(|| view.state.as_str().to_owned(), |result| result.status.to_string()),
            stop_reason: result.and_then(|r| r.stop_reason).map(|reason| reason.to_string()),
            notes: result.map(|result| result.notes.clone()).unwrap_or_default(),
            call: view.call.to_owned(),
            output: result.and_then(output_of).unwrap_or_default(),
            spent: *view.spent,
        }
    }

    fn differs(&self, other: &Self) -> Vec<&'static str> {
        let all = [
            ("kind", self.kind != other.kind),
            (
                "status",
                (&self.status, &self.stop_reason) != (&other.status, &other.stop_reason),
            ),
            ("notes", self.notes != other.notes),
            ("call", self.call != other.call),
            ("output", self.output != other.output),
            ("cost", self.spent != other.spent),
        ];
        all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    fn standing(&self) -> String {
        let reason = self.stop_reason.as_ref();
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{}{reason}", self.status)
    }
}

impl SideShape {
    fn of(row: &RunRow, run: &Run) -> Self {
        let root = run.tree().first().copied();
        let elapsed = root.and_then(|root| Some(root.finished_at?.since(run.started_at()?)));
        let result = run.result();
        Self {
            run: row.handle.to_string(),
            run_id: row.id.to_string(),
            title: row.title.clone(),
            goal: run.goal().to_owned(),
            inputs: run.inputs().clone(),
            status: standing(&row.status, row.driven).to_owned(),
            stop_reason: result.and_then(|r| r.stop_reason).map(|reason| reason.to_string()),
            notes: result.map(|result| result.notes.clone()).unwrap_or_default(),
            nodes: run.len(),
            duration_ms: elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
            spent: run.purse().map(|purse| purse.spent).unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        format!(
            "{} {}: {}, {}",
            self.run,
            self.status,
            counted(self.nodes as u64, "node"),
            cost(&self.spent)
        )
    }
}

fn cost(spent: &Spend) -> String {
    let tools = counted(spent.tool_calls, "tool call");
    if spent.model_calls == 0 {
        return tools;
    }
    format!(
        "{}, {}, {}, {tools}",
        counted(spent.model_calls, "model call"),
        counted(spent.tokens(), "token"),
        spent.dollars(),
    )
}

impl Report for DiffShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}\n{}", self.one.text(), self.other.text())?;
        if self.one.goal != self.other.goal {
            pair(out, "goal", &excerpts_at_difference(&self.one.goal, &self.other.goal))?;
        }
        let names = |inputs: &Value| -> BTreeSet<String> {
            let inputs = inputs.as_object();
            inputs.into_iter().flat_map(|all| all.keys().cloned()).collect()
        };
        for name in names(&self.one.inputs).union(&names(&self.other.inputs)) {
            let of = |side: &SideShape| side.inputs.get(name).map_or_else(String::new, ToString::to_string);
            let (one, other) = (of(&self.one), of(&self.other));
            if one != other {
                pair(out, &format!("inputs.{name}"), &excerpts_at_difference(&one, &other))?;
            }
        }
        out.push('\n');
        for node in &self.nodes {
            writeln!(out, "{}", style.strong(node_heading(&node.path, node.newer)))?;
            node.text(out)?;
        }
        for node in &self.costs {
            writeln!(out, "{}", style.strong(node_heading(&node.path, node.newer)))?;
            pair(out, "cost", &(cost(&node.one), cost(&node.other)))?;
        }
        let of_another_cost = match self.costs.len() {
            0 => String::new(),
            count => format!(", {count} of them with a different cost"),
        };
        let are = if self.same == 1 { "node is" } else { "nodes are" };
        writeln!(out, "{} {are} the same{of_another_cost}", self.same)
    }
}

impl NodeDiff {
    fn text(&self, out: &mut String) -> fmt::Result {
        let (Some(one), Some(other)) = (&self.one, &self.other) else {
            for (sign, side) in [("-", &self.one), ("+", &self.other)] {
                if let Some(side) = side {
                    let notes = crate::report::first_line(&side.notes, SHOWN_CHARS);
                    let separator = if notes.is_empty() { "" } else { ": " };
                    writeln!(out, "  {sign} {}{separator}{notes}", side.standing())?;
                }
            }
            return Ok(());
        };
        for aspect in &self.differs {
            let texts = match *aspect {
                "kind" => (one.kind.to_owned(), other.kind.to_owned()),
                "status" => (one.standing(), other.standing()),
                "notes" => excerpts_at_difference(&one.notes, &other.notes),
                "call" => {
                    let (one, other) = excerpts_at_difference(&one.call, &other.call);
                    let named = |call: String| if call.is_empty() { "none".to_owned() } else { call };
                    (named(one), named(other))
                }
                "output" => excerpts_at_difference(&one.output.to_string(), &other.output.to_string()),
                _ => (cost(&one.spent), cost(&other.spent)),
            };
            pair(out, aspect, &texts)?;
        }
        Ok(())
    }
}

fn pair(out: &mut String, aspect: &str, (one, other): &(String, String)) -> fmt::Result {
    writeln!(out, "  - {aspect}: {one}\n  + {aspect}: {other}")
}

fn node_heading(path: &str, newer: usize) -> String {
    let path = if path.is_empty() { "run" } else { path };
    match newer {
        0 => path.to_owned(),
        1 => format!("{path} (replaced)"),
        newer => format!("{path} (replaced {newer} times)"),
    }
}

/// Two texts in one line each, from a little before the place where they begin to differ.
fn excerpts_at_difference(one: &str, other: &str) -> (String, String) {
    let line = |text: &str| printable(text).replace(['\n', '\t'], " ");
    let (one, other) = (line(one), line(other));
    let alike = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let longest = one.chars().count().max(other.chars().count());
    let from = if longest <= SHOWN_CHARS {
        0
    } else {
        alike.saturating_sub(CONTEXT_CHARS)
    };
    let part = |text: &str| {
        let shown: String = text.chars().skip(from).take(SHOWN_CHARS).collect();
        let is_cut = text.chars().count() > from + SHOWN_CHARS;
        let (before, after) = (if from > 0 { "…" } else { "" }, if is_cut { "…" } else { "" });
        format!("{before}{shown}{after}")
    };
    (part(&one), part(&other))
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

/// Carries out `folio diff`.
pub(crate) async fn diff(context: &Context<'_>, diff: Diff) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let (one, other) = (runner.row(diff.one).await?, runner.row(diff.other).await?);
    let (first, second) = (runner.load(one.id).await?, runner.load(other.id).await?);
    let (of_one, of_other) = (by_path(&first), by_path(&second));
    let names: BTreeSet<(&str, usize)> = of_one.keys().chain(of_other.keys()).copied().collect();
    let (mut nodes, mut costs, mut same) = (Vec::new(), Vec::new(), 0);
    for name in names {
        // One at a time: of very many nodes, most are the same.
        let (one, other) = (of_one.get(&name), of_other.get(&name));
        let (one, other) = (one.map(NodeSide::of), other.map(NodeSide::of));
        let (path, newer) = (name.0.to_owned(), name.1);
        let differs = match (&one, &other) {
            (Some(one), Some(other)) => one.differs(other),
            _ => Vec::new(),
        };
        match (&one, &other) {
            (Some(one), Some(other)) if matches!(differs[..], [] | ["cost"]) => {
                same += 1;
                if !differs.is_empty() {
                    let (one, other) = (one.spent, other.spent);
                    costs.push(CostDiff {
                        path,
                        newer,
                        one,
                        other,
                    });
                }
            }
            _ => nodes.push(NodeDiff {
                path,
                newer,
                differs,
                one,
                other,
            }),
        }
    }
    context.output.report(&DiffShape {
        one: SideShape::of(&one, &first),
        other: SideShape::of(&other, &second),
        nodes,
        same,
        costs,
    })?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_to_the_part_that_differs() {
        let (one, other) = (format!("{}a{}", "x".repeat(200), "y".repeat(200)), "x".repeat(200));
        let (one, other) = excerpts_at_difference(&one, &other);
        assert_eq!(one, format!("…{}a{}…", "x".repeat(20), "y".repeat(59)));
        assert_eq!(other, format!("…{}", "x".repeat(20)));
        assert_eq!(
            excerpts_at_difference("a\nb", "a\nc"),
            ("a b".to_owned(), "a c".to_owned())
        );
    }
}
