//! Everything about a run: its result, its tree and its outputs.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use folio::Timestamp;
use folio::engine::Run;
use folio::engine::run::NodeView;
use folio::memory::counted::counted;
use folio::memory::entry::MAX_INLINE_BYTES;
use folio::runner::HeldUp;
use folio_server::wire::{OriginShape, SpendShape};
use serde::Serialize;
use serde_json::Value;

use super::nodes::Titles;
use super::run::{INTERRUPTED, ROOT, ResultShape, Summary, activity, colored, standing, standing_still};
use super::tree;
use super::{for_people, printable};
use crate::follow::waits_for;
use crate::output::{Report, Style};

/// How many bytes of outputs are shown with a run in all, and of one node: the outputs of long runs are read from
/// their pages.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
const ONE_OUTPUT_BYTES_MAX: usize = MAX_INLINE_BYTES;
/// How many lines of a run's tree people are shown unless they ask for more or less.
const TREE_LINES: usize = 1_000;

/// Everything about a run.
#[derive(Debug, Serialize)]
pub(crate) struct InFull {
    #[serde(flatten)]
    summary: Summary,
    /// What it used up.
    spent: SpendShape,
    /// The number of model calls that were possibly paid for twice: their driver died before it saw the reply, so they
    /// were made again (E9.9).
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    paid_twice: u32,
    /// Whether the run is paused.
    paused: bool,
    /// The run and moment that it was forked from, if it is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<OriginShape>,
    /// The handle of that run, for people.
    #[serde(skip)]
    origin: Option<String>,
    nodes: Vec<NodeShape>,
    /// How many nodes there are besides those, because a limit was given.
    #[serde(skip_serializing_if = "folio::memory::is_default")]
    nodes_left_out: usize,
    /// The inputs that it was given, in one line for people; empty if there are none.
    #[serde(skip)]
    inputs: String,
    /// What keeps a call of it waiting, if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_up: Option<HeldUpShape>,
    #[serde(skip)]
    tree: Vec<tree::Node>,
    /// How many lines the tree may have, for people.
    #[serde(skip)]
    tree_lines: usize,
    /// What an unfinished run is doing.
    #[serde(skip)]
    doing: Option<(String, bool)>,
    #[serde(skip)]
    now: Timestamp,
}

impl InFull {
    /// `run` at `now`, with what holds it up; `is_driven`: whether a living process drives it, or it only waits.
    pub(crate) fn of(
        summary: Summary,
        run: &Run,
        is_driven: bool,
        held_up: Option<HeldUpShape>,
        now: Timestamp,
    ) -> Self {
        let views = run.tree_as_planned();
        let mut titles = Titles::default();
        let mut left = OUTPUT_BYTES_MAX;
        Self {
            nodes: views.iter().map(|view| NodeShape::of(run, view, &mut left)).collect(),
            nodes_left_out: 0,
            tree: with_paths(standing_still(titles.nodes_of(run, &views), is_driven), &views),
            inputs: inputs_in_words(run.inputs()),
            tree_lines: TREE_LINES,
            forked_from: OriginShape::of(run.variable()),
            doing: run
                .result()
                .is_none()
                .then(|| (activity(run, is_driven, now), is_driven)),
            spent: views
                .first()
                .map_or_else(SpendShape::default, |root| SpendShape::of(root.spent)),
            paid_twice: run.tree().iter().map(|view| view.repeated).sum(),
            paused: run.is_run_paused(),
            summary,
            held_up,
            origin: None,
            now,
        }
    }

    /// The id of the run that it was forked from, if it is a fork.
    pub(crate) fn forked_from(&self) -> Option<&str> {
        self.forked_from.as_ref().map(|origin| origin.run.as_str())
    }

    /// The same run, with the `handle` of the run that it was forked from.
    pub(crate) fn with_origin(self, handle: Option<String>) -> Self {
        Self { origin: handle, ..self }
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

/// A call of another run writes what a call of this run is to write; the latter begins when the former has ended.
#[derive(Debug, Serialize)]
pub(crate) struct HeldUpShape {
    /// What is written: a path or another name.
    name: String,
    /// The handle of the run that writes it.
    by: String,
}

impl HeldUpShape {
    /// What holds a run up, and the handle of the run that does.
    pub(crate) fn of(held_up: HeldUp, by: String) -> Self {
        Self { name: held_up.name, by }
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
            notes => writeln!(out, ": {}", for_people(notes))?,
        }
        if !self.inputs.is_empty() {
            writeln!(out, "{}", style.faint(format_args!("with {}", self.inputs)))?;
        }
        if let Some(OriginShape { run, node }) = &self.forked_from {
            let run = self.origin.as_deref().unwrap_or(run);
            let at = if node.is_empty() { ROOT } else { node };
            writeln!(out, "{}", style.faint(format_args!("forked from {run} at {at}")))?;
        }
        if self.paid_twice > 0 {
            let calls = counted(u64::from(self.paid_twice), "call");
            let warning =
                format!("{calls} of models possibly paid for twice: it is unknown how the first attempt ended");
            writeln!(out, "{}", style.warning(&warning))?;
        }
        if let Some(held_up) = &self.held_up {
            writeln!(out, "{}", style.warning(waits_for(&held_up.name, &held_up.by)))?;
        }
        if let Some(report) = &summary.report {
            write!(out, "\n{}", for_people(report))?;
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

/// `nodes` with the paths of `views`, by which `--node` names them, where a title is not the path.
fn with_paths(mut nodes: Vec<tree::Node>, views: &[NodeView<'_>]) -> Vec<tree::Node> {
    for (node, view) in nodes.iter_mut().zip(views).skip(1) {
        if node.title != view.path {
            let note = std::mem::take(&mut node.note);
            let parts = [view.path, note.as_str()].into_iter().filter(|part| !part.is_empty());
            node.note = parts.collect::<Vec<_>>().join(" · ");
        }
    }
    nodes
}

/// Why a node waits before it is tried again.
#[derive(Debug, Serialize)]
struct ParkedShape {
    until: Timestamp,
    cause: String,
}

impl ParkedShape {
    fn of((until, cause): (Timestamp, &str)) -> Self {
        Self {
            until,
            cause: cause.to_owned(),
        }
    }
}

/// A node of a run.
#[derive(Debug, Serialize)]
struct NodeShape {
    node_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    path: String,
    title: String,
    kind: &'static str,
    depth: u32,
    optional: bool,
    state: &'static str,
    /// Whether the node is paused, by itself or with a node above it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parked: Option<ParkedShape>,
    /// Whether another version of a plan has superseded it, or the step that it is part of.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
    #[serde(flatten)]
    result: Option<ResultShape>,
    /// Its output for later steps; a large one is given by the hash under which it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    /// Whether its output was left out for lack of room.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    output_omitted: bool,
    attempt: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl NodeShape {
    /// `view` of `run`, with its output unless it is larger than what is `left` of the bytes for all outputs.
    fn of(run: &Run, view: &NodeView<'_>, left: &mut usize) -> Self {
        let content = view.result.and_then(|_| run.given(view.id));
        let shown = content
            .as_ref()
            .map(|content| content.display_value(ONE_OUTPUT_BYTES_MAX.min(*left)));
        let output_omitted = matches!(shown, Some(None));
        let output = shown.flatten().filter(|(output, _)| !output.is_null());
        *left -= output.as_ref().map_or(0, |(_, bytes)| *bytes);
        Self {
            output: output.map(|(output, _)| Arc::unwrap_or_clone(output)),
            output_omitted,
            node_id: view.id.to_string(),
            parent_id: view.parent.map(|parent| parent.to_string()),
            path: view.path.to_owned(),
            title: run.label(view.id),
            kind: view.kind.as_str(),
            depth: view.depth,
            optional: view.optional,
            state: view.state.as_str(),
            paused: view.paused,
            parked: view.parked.map(ParkedShape::of),
            superseded: view.superseded,
            result: view.result.map(|result| ResultShape::of(view, result)),
            attempt: view.attempt,
            call: view.call.to_owned(),
            started_at: view.started_at,
            finished_at: view.finished_at,
        }
    }
}
