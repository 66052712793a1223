//! `folio diff`: how two runs differ in what was done, what came out and what it cost.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use clap::Args;
use folio::engine::spend::Spend;
use folio::memory::counted::counted;
use folio::memory::id::RunRef;
use folio_server::wire::diff::{DiffPart, DiffShape, NodeDiff, NodeSide, SideShape};
use serde_json::Value;

use super::Context;
use super::people::runner;
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::printable;

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

fn standing_of(node: &NodeSide) -> String {
    let reason = node.stop_reason.as_ref();
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{reason}", node.status)
}

fn side_text(side: &SideShape) -> String {
    format!(
        "{} {}: {}, {}",
        side.run,
        side.status,
        counted(side.nodes as u64, "node"),
        cost(&side.spent)
    )
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
        writeln!(out, "{}\n{}", side_text(&self.one), side_text(&self.other))?;
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
            node_text(node, out)?;
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

fn node_text(node: &NodeDiff, out: &mut String) -> fmt::Result {
    let (Some(one), Some(other)) = (&node.one, &node.other) else {
        for (sign, side) in [("-", &node.one), ("+", &node.other)] {
            if let Some(side) = side {
                let notes = crate::report::first_line(&side.notes, SHOWN_CHARS);
                let separator = if notes.is_empty() { "" } else { ": " };
                writeln!(out, "  {sign} {}{separator}{notes}", standing_of(side))?;
            }
        }
        return Ok(());
    };
    for aspect in &node.differs {
        let texts = match *aspect {
            "kind" => (one.kind.to_owned(), other.kind.to_owned()),
            "status" => (standing_of(one), standing_of(other)),
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

/// Carries out `folio diff`.
pub(crate) async fn diff(context: &Context<'_>, diff: Diff) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let (one, other) = (runner.row(diff.one).await?, runner.row(diff.other).await?);
    let (first, second) = (runner.load(one.id).await?, runner.load(other.id).await?);
    let now = runner.workspace().now();
    let shape = DiffShape::of((&one, &*first), (&other, &*second), DiffPart::ALL, now);
    context.output.report(&shape)?;
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
