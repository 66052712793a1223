//! Runs and their nodes, as programs read them, and the bridge to the tree for people.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::time::Duration;

use folio::Timestamp;
use folio::engine::run::{NodeView, RunSummary};
use folio::engine::{NodeId, NodeResult, Run, StopReason};
use folio::memory::counted::counted;
use folio::store::{ForgottenRun, RunRow};
pub(crate) use folio_server::wire::{INTERRUPTED, standing};
use folio_server::wire::{RunInFull, RunShape};
use serde::Serialize;

use super::instant;
use super::nodes::{held_tasks, mark_of};
use super::tree::{self, Mark, seconds};
use crate::output::{Report, Style};

/// A run in a list.
#[derive(Debug, Serialize)]
pub(crate) struct RunLine {
    #[serde(flatten)]
    shape: RunShape,
    #[serde(skip)]
    row: RunRow,
    #[serde(skip)]
    summary: RunSummary,
    /// Whether everything in it waits, for people or for a time: nobody is missed if no process drives it.
    #[serde(skip)]
    waits: bool,
    #[serde(skip)]
    now: Timestamp,
}

impl RunLine {
    /// `row` as programs read it at `now`, with what lists show beside it.
    pub(crate) fn of(row: &RunRow, summary: RunSummary, now: Timestamp) -> Self {
        Self {
            shape: RunShape::of(row, Some(&summary), now),
            row: row.clone(),
            waits: summary.waits_at(now),
            summary,
            now,
        }
    }

    /// The same as a fork of the run with the handle `origin`, if there is one.
    pub(crate) fn forked_from(self, origin: Option<String>) -> Self {
        Self {
            shape: self.shape.forked_from(origin),
            ..self
        }
    }

    pub(crate) fn handle(&self) -> &str {
        self.shape.handle()
    }

    /// Whether programs see this status.
    pub(crate) fn has_status(&self, status: &str) -> bool {
        self.row.status == status
    }

    /// Whether it has something to do, and no process drives it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.standing() == INTERRUPTED
    }

    fn standing(&self) -> &str {
        standing(&self.row.status, self.row.driven || self.waits)
    }

    /// Whether it is paused, as a whole or in all parts that could go on.
    pub(crate) fn is_paused(&self) -> bool {
        self.summary.stands_paused()
    }

    /// How long it has taken. If no process drives it although something is due, its clock stands at the last moment
    /// when one did.
    fn elapsed(&self) -> Duration {
        let goes_on = self.row.driven || self.waits;
        let until = match &self.row.forgotten {
            Some(forgotten) => forgotten.left.ended_at,
            None if goes_on => self.now,
            None => self.row.updated_at,
        };
        until.since(self.row.created_at)
    }

    /// The cost of model calls, for people.
    fn cost(&self) -> String {
        match &self.summary.spent {
            spent if spent.model_calls == 0 => String::new(),
            spent => format!(" · {} · {}", counted(spent.tokens(), "token"), spent.dollars()),
        }
    }
}

impl Report for RunLine {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let RunSummary { asks, broken_off, .. } = self.summary;
        let paused = self.is_paused();
        let status = match self.standing() {
            INTERRUPTED if paused => style.warning(format_args!("{INTERRUPTED}, {PAUSED}")),
            INTERRUPTED if broken_off >= 2 => style.warning(format_args!("{INTERRUPTED} {broken_off} times")),
            INTERRUPTED => style.warning(INTERRUPTED),
            _ if paused => style.warning(PAUSED),
            status => colored(style, status),
        };
        let asks = match asks {
            0 => String::new(),
            asks => style.warning(format_args!(", asks {asks}")),
        };
        let elapsed = style.faint(format_args!("{}{}", seconds(self.elapsed()), self.cost()));
        let created = style.faint(instant(self.row.created_at));
        let title = match &self.row.forgotten {
            Some(forgotten) => format!("(was {}){}", forgotten.left.status, reason_of(forgotten)),
            None => folio::memory::view::one_line(&self.row.title),
        };
        let origin = self.shape.origin();
        let at = |path: &str| format!(" at {}", super::printable(if path.is_empty() { ROOT } else { path }));
        let place = self.shape.fork_path().map(at).unwrap_or_default();
        let origin = origin.map_or_else(String::new, |run| style.faint(format_args!("fork of {run}{place} ")));
        writeln!(
            out,
            "{} {status}{asks} {title} {origin}{elapsed} {created}",
            style.strong(self.handle()),
        )
    }
}

/// Why a run was forgotten, if anybody said so, to follow what it was.
fn reason_of(forgotten: &ForgottenRun) -> String {
    let reason = forgotten.reason.as_deref().map(folio::memory::view::one_line);
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// The word for a paused run.
pub(crate) const PAUSED: &str = "paused";

/// The paths of what is under way in `run`, or in its part `within`; `run` for the run itself. In a paused part, only
/// calls that have begun are under way; a task that waits for a person below it is not.
pub(crate) fn active_paths(run: &Run, within: Option<NodeId>) -> Vec<String> {
    let in_flight: HashSet<_> = run.in_flight().into_iter().collect();
    let held = held_tasks(run);
    let mut paths = paths_of(run, within, |view, is_paused| match mark_of(view) {
        Mark::Running if held.contains_key(&view.id) => false,
        Mark::Running | Mark::Stopping => !is_paused || in_flight.contains(&view.id),
        Mark::Paused => in_flight.contains(&view.id),
        _ => false,
    });
    // A run that is being stopped is named by what is being stopped in it.
    if paths.len() > 1 {
        paths.retain(|path| path != ROOT);
    }
    paths
}

/// The paths of the calls of `run` that had begun when its process ended.
fn interrupted_paths(run: &Run) -> Vec<String> {
    let in_flight: HashSet<_> = run.in_flight().into_iter().collect();
    paths_of(run, None, |view, _| in_flight.contains(&view.id))
}

/// The paths of those parts of `run`, or of its part `within`, for which `is_match` holds. `is_match` also gets
/// whether the part is paused, by itself or because of what is around it.
fn paths_of(run: &Run, within: Option<NodeId>, is_match: impl Fn(&NodeView<'_>, bool) -> bool) -> Vec<String> {
    let views = run.tree();
    let states: HashMap<_, _> = views.iter().map(|view| (view.id, (view.parent, view.paused))).collect();
    let parent_of = |id: &NodeId| states.get(id).and_then(|(parent, _)| *parent);
    let ancestors = |view: &NodeView<'_>| std::iter::successors(Some(view.id), parent_of);
    let is_paused = |id: NodeId| states.get(&id).is_some_and(|(_, paused)| *paused);
    let matching = views.iter().filter(|view| {
        within.is_none_or(|within| ancestors(view).any(|id| id == within))
            && is_match(view, ancestors(view).any(is_paused))
    });
    matching.map(|view| path_of(view).to_owned()).collect()
}

/// What the root is called, which has no path.
pub(super) const ROOT: &str = "run";

/// The path of a node; `run` for the root, which has none.
pub(crate) fn path_of<'v>(view: &NodeView<'v>) -> &'v str {
    match view.path {
        "" => ROOT,
        path => path,
    }
}

/// The first few of some names, and how many more there are.
pub(crate) fn join_few(names: &[String]) -> String {
    const NAMES_MAX: usize = 5;
    match names.len().saturating_sub(NAMES_MAX) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

/// `nodes` of a run as they stand where no process drives it: nothing is running then, whatever was last recorded.
pub(super) fn standing_still(mut nodes: Vec<tree::Node>, is_driven: bool) -> Vec<tree::Node> {
    let is_moving = |node: &&mut tree::Node| matches!(node.mark, Mark::Running | Mark::Stopping);
    for node in nodes.iter_mut().filter(is_moving).filter(|_| !is_driven) {
        node.mark = Mark::Waiting;
    }
    nodes
}

/// What an unfinished run is doing; `is_driven`: whether a process drives it or it only waits.
pub(super) fn activity(run: &Run, is_driven: bool, now: Timestamp) -> String {
    let active_calls = if is_driven {
        active_paths(run, None)
    } else {
        interrupted_paths(run)
    };
    let is_open = |node: NodeId| run.may_wait_until(node).is_none_or(|at| at > now);
    let asking = |view: &&NodeView<'_>| mark_of(view) == Mark::Asking;
    let views = run.tree();
    let is_asking = views.iter().filter(asking).any(|view| is_open(view.id));
    let is_unanswered = views.iter().filter(asking).any(|view| !is_open(view.id));
    let mut parts = Vec::new();
    if let Some(by) = run.paused_by() {
        parts.push(match by.starts_with(Run::BROKEN_DRIVER) {
            true => format!("{PAUSED} by {by}"),
            false => PAUSED.to_owned(),
        });
    } else {
        let paused = paths_of(run, None, |view, _| mark_of(view) == Mark::Paused);
        if !paused.is_empty() {
            parts.push(format!("{PAUSED}: {}", join_few(&paused)));
        }
    }
    if active_calls.is_empty() {
        parts.push("nothing under way".to_owned());
    } else if is_driven {
        parts.push(format!("under way: {}", join_few(&active_calls)));
    } else {
        parts.push(format!("was under way: {}", join_few(&active_calls)));
    }
    if is_asking {
        parts.push("waits for a person (`folio questions`)".to_owned());
    }
    if is_unanswered {
        parts.push("nobody answered in time".to_owned());
    }
    if !is_driven {
        parts.push("no process drives it (`folio resume`)".to_owned());
    }
    parts.join("; ")
}

/// The word for how something ended, in its colour.
pub(crate) fn colored(style: Style, status: &str) -> String {
    match status {
        "ok" => style.good(status),
        "failed" => style.bad(status),
        "partial" | "cancelled" => style.warning(status),
        status => status.to_owned(),
    }
}

/// A run as HTTP tells it, and its report.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    pub(super) run: RunInFull,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<String>,
    #[serde(skip)]
    pub(super) handle: String,
    /// `running`, or the outcome.
    #[serde(skip)]
    pub(super) status: String,
    #[serde(skip)]
    pub(super) stop_reason: Option<StopReason>,
    #[serde(skip)]
    pub(super) notes: String,
}

impl Summary {
    /// The summary of `run`, which has this `shape`, with the markdown of its report.
    pub(crate) fn of(shape: RunInFull, row: &RunRow, run: &Run, report: Option<String>) -> Self {
        let result = run.result();
        Self {
            run: shape,
            report,
            handle: row.handle.to_string(),
            status: run.status().to_owned(),
            stop_reason: result.and_then(|result| result.stop_reason),
            notes: result.map(|result| result.notes.clone()).unwrap_or_default(),
        }
    }

    /// The markdown of its report.
    pub(crate) fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    /// The outcome in a few words.
    pub(crate) fn notes(&self) -> &str {
        &self.notes
    }
}

/// The outcome in a few words.
pub(crate) fn note_of(result: &NodeResult) -> String {
    match result.stop_reason {
        // Otherwise readers would think that there were several attempts.
        Some(reason @ StopReason::RetriesExhausted) if result.attempts == 1 => {
            format!("{reason} after 1 attempt: {}", result.notes)
        }
        Some(reason) if result.notes.is_empty() => reason.to_string(),
        Some(reason) => format!("{reason}: {}", result.notes),
        None => result.notes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio::memory::id::RunHandle;
    use folio::memory::{RunId, Seq};

    use super::*;

    #[test]
    fn failure_note_mentions_a_single_attempt() {
        let failed = |attempts| {
            let mut result = NodeResult::failed(
                folio::engine::Severity::Soft,
                StopReason::RetriesExhausted,
                "it ended with 1",
            );
            result.attempts = attempts;
            note_of(&result)
        };
        assert_eq!(failed(1), "retries_exhausted after 1 attempt: it ended with 1");
        assert_eq!(failed(3), "retries_exhausted: it ended with 1");
    }

    #[test]
    fn driven_run_line_shows_elapsed_time_and_open_questions() {
        let begun = Timestamp::from_millis(1_000);
        let mut row = RunRow {
            id: RunId::from_bytes([0; 16]),
            handle: RunHandle(1),
            title: "Wait".to_owned(),
            status: Run::RUNNING.to_owned(),
            created_at: begun,
            updated_at: begun,
            head: Seq(1),
            driven: true,
            was_driven: true,
            forgotten: None,
        };
        let asks = RunSummary {
            asks: 2,
            ..RunSummary::default()
        };
        let told = |row: &RunRow, so_far: &RunSummary| {
            let mut text = String::new();
            let line = RunLine::of(row, so_far.clone(), begun.plus(Duration::from_secs(7_200)));
            line.text(&mut text, Style::default()).unwrap();
            text
        };
        let running = "r1 running, asks 2 Wait 2h00m ";
        assert!(told(&row, &asks).starts_with(running), "{}", told(&row, &asks));
        // Where nobody is at work no time is taken.
        row.driven = false;
        let interrupted = "r1 interrupted, asks 2 Wait 0.0s ";
        assert!(told(&row, &asks).starts_with(interrupted), "{}", told(&row, &asks));
        // Nobody is missed as long as only an answer is.
        for (due_s, expected) in [(7_201, running), (7_200, interrupted)] {
            let waits = RunSummary {
                waits: true,
                due_at: Some(begun.plus(Duration::from_secs(due_s))),
                ..asks.clone()
            };
            assert!(told(&row, &waits).starts_with(expected), "{}", told(&row, &waits));
        }
    }
}
