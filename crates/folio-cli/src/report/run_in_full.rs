//! Everything about a run: its result, its tree and its outputs.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::engine::Run;
use folio::engine::run::NodeView;
use folio::engine::spend::Spend;
use folio::memory::counted::counted;
use folio::memory::{PageHandle, PageId};
use folio_server::wire::{NodeShape, OriginShape, ResultShape};
use serde::Serialize;
use serde_json::Value;

use super::nodes::Titles;
use super::run::{INTERRUPTED, ROOT, Summary, activity, colored, standing, standing_still};
use super::tree;
use super::{for_people, printable};
use crate::follow::waits_for;
use crate::output::{Output, Report, Style};

/// How many bytes of outputs are shown with a run in all: the outputs of long runs are read from their pages.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many lines of a run's tree people are shown unless they ask for more or less.
const TREE_LINES: usize = 1_000;

/// Everything about a run, as HTTP tells it, and its nodes.
#[derive(Debug, Serialize)]
pub(crate) struct InFull {
    #[serde(flatten)]
    summary: Summary,
    nodes: Vec<NodeWithResult>,
    /// How many nodes there are besides those, because a limit was given.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    nodes_left_out: usize,
    /// The handle of the run that it was forked from, for people.
    #[serde(skip)]
    origin: Option<String>,
    /// The inputs that it was given, in one line for people; empty if there are none.
    #[serde(skip)]
    inputs: String,
    #[serde(skip)]
    tree: Vec<tree::Node>,
    /// How many lines the tree may have, for people.
    #[serde(skip)]
    tree_lines: usize,
    /// What an unfinished run is doing.
    #[serde(skip)]
    doing: Option<(String, bool)>,
    /// What commands that are offered have to repeat.
    #[serde(skip)]
    options: String,
    #[serde(skip)]
    now: Timestamp,
}

impl InFull {
    /// `run` at `now`, with the `pages` that it has; `is_driven`: whether a living process drives it, or it only waits.
    pub(crate) fn of(
        summary: Summary,
        run: &Run,
        pages: &HashMap<PageId, PageHandle>,
        is_driven: bool,
        now: Timestamp,
    ) -> Self {
        let views = run.tree_as_planned();
        let mut titles = Titles::default();
        let mut left = OUTPUT_BYTES_MAX;
        let nodes = views.iter().map(|view| NodeWithResult {
            node: NodeShape::of(run, view, pages),
            result: ResultShape::of_node_within(run, view, &mut left),
        });
        Self {
            nodes: nodes.collect(),
            nodes_left_out: 0,
            tree: with_paths_and_costs(standing_still(titles.nodes_of(run, &views), is_driven), &views),
            inputs: inputs_in_words(run.inputs()),
            tree_lines: TREE_LINES,
            doing: run
                .result()
                .is_none()
                .then(|| (activity(run, is_driven, now), is_driven)),
            summary,
            origin: None,
            options: String::new(),
            now,
        }
    }

    /// The id of the run that it was forked from, if it is a fork.
    pub(crate) fn forked_from(&self) -> Option<&str> {
        self.summary.run.forked_from().map(|origin| origin.run_id.as_str())
    }

    /// The same run, with the `handle` of the run that it was forked from.
    pub(crate) fn with_origin(self, handle: Option<String>) -> Self {
        Self { origin: handle, ..self }
    }

    /// The same run, offering commands that repeat what `output` says.
    pub(crate) fn offering(mut self, output: &Output) -> Self {
        if let Some((doing, _)) = &mut self.doing {
            *doing = output.again(doing);
        }
        output.options().clone_into(&mut self.options);
        self
    }

    /// The same run with at most `limit` nodes, if one is given.
    pub(crate) fn limited_to(mut self, limit: Option<u32>) -> Self {
        if let Some(limit) = limit {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            self.tree_lines = limit;
            self.nodes_left_out = self.nodes.len().saturating_sub(limit);
            self.nodes.truncate(limit);
        }
        self
    }
}

impl Report for InFull {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let frame = tree::Frame {
            now: self.now,
            width: 160,
            // The last line counts all nodes.
            height: Some(self.tree_lines.saturating_add(1)),
            tick: 0,
            style,
        };
        let summary = &self.summary;
        let mut nodes = self.tree.clone();
        if let Some(root) = nodes.first_mut().filter(|_| !summary.notes.trim().is_empty()) {
            // They follow below the tree, in full.
            root.note.clear();
        }
        for line in tree::draw(&nodes, frame) {
            writeln!(out, "{line}")?;
        }
        let (doing, is_driven) = self
            .doing
            .as_ref()
            .map_or(("", true), |(label, is_driven)| (label, *is_driven));
        let status = match standing(&summary.status, is_driven) {
            INTERRUPTED => style.warning(INTERRUPTED),
            status => colored(style, status),
        };
        write!(out, "\n{} {status}", style.strong(&summary.handle))?;
        if let Some(reason) = &summary.stop_reason {
            write!(out, " ({reason})")?;
        }
        match summary.notes.trim() {
            "" if doing.is_empty() => writeln!(out)?,
            "" => writeln!(out, ": {}", printable(doing))?,
            // The report of a goal that a model worked on is what the notes say.
            notes
                if summary
                    .report
                    .as_ref()
                    .is_some_and(|report| report.trim_end().ends_with(notes)) =>
            {
                writeln!(out, ": {}", super::first_line(notes, 200))?;
            }
            notes => writeln!(out, ": {}", for_people(notes, &self.options))?,
        }
        if !self.inputs.is_empty() {
            writeln!(out, "{}", style.faint(format_args!("with {}", self.inputs)))?;
        }
        if let Some(OriginShape { run_id, path }) = summary.run.forked_from() {
            let run = self.origin.as_deref().unwrap_or(run_id);
            let at = if path.is_empty() { ROOT } else { path };
            writeln!(out, "{}", style.faint(format_args!("forked from {run} at {at}")))?;
        }
        let paid_twice = summary.run.paid_twice();
        if paid_twice > 0 {
            let calls = counted(u64::from(paid_twice), "call");
            let warning =
                format!("{calls} of models possibly paid for twice: it is unknown how the first attempt ended");
            writeln!(out, "{}", style.warning(&warning))?;
        }
        if let Some(held_up) = summary.run.held_up() {
            writeln!(out, "{}", style.warning(waits_for(&held_up.name, &held_up.by)))?;
        }
        if let Some(report) = &summary.report {
            write!(out, "\n{}", for_people(report, &self.options))?;
        }
        Ok(())
    }
}

/// How many characters of one input are shown.
const INPUT_CHARS: usize = 80;

/// The inputs of a run in one line: `repo=., depth=2`.
fn inputs_in_words(inputs: &Value) -> String {
    let Some(inputs) = inputs.as_object() else {
        return String::new();
    };
    let input = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        printable(&format!("{name}={}", super::first_line(&text, INPUT_CHARS)))
    };
    inputs.iter().map(input).collect::<Vec<_>>().join(", ")
}

/// `nodes` with what each cost, and with the paths of `views`, by which `--node` names them, where a title is not the
/// path.
pub(super) fn with_paths_and_costs(mut nodes: Vec<tree::Node>, views: &[NodeView<'_>]) -> Vec<tree::Node> {
    for (node, view) in nodes.iter_mut().zip(views) {
        node.cost = cost_of(view.spent);
        if !view.path.is_empty() && node.title != view.path {
            let note = std::mem::take(&mut node.note);
            let parts = [view.path, note.as_str()].into_iter().filter(|part| !part.is_empty());
            node.note = parts.collect::<Vec<_>>().join(" · ");
        }
    }
    nodes
}

/// What models cost, in a few words; empty if none was asked. An unknown price is left to the account of the run.
fn cost_of(spent: &Spend) -> String {
    match spent.tokens() {
        0 => String::new(),
        tokens if spent.micro_usd == 0 => counted(tokens, "token"),
        tokens => format!("{}, {}", counted(tokens, "token"), spent.dollars()),
    }
}

/// A node of a run as the tree over HTTP tells it, with its result.
#[derive(Debug, Serialize)]
struct NodeWithResult {
    #[serde(flatten)]
    node: NodeShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultShape>,
}
