//! Everything about one part of a run: what is wanted, what came of it, its calls, its cost and its limits.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::engine::plan::{Criterion, Step};
use folio::engine::result::Finding;
use folio::engine::run::NodeView;
use folio::engine::{NodeId, NodeResult, Output, Run};
use folio::memory::counted::counted;
use folio::memory::{PageHandle, PageId};
use folio_server::wire::{NodeInFull, NodeShape};
use serde::Serialize;
use serde_json::Value;

use super::nodes::Titles;
use super::run::{path_of, standing_still};
use super::run_in_full::with_paths_and_costs;
use super::tree::{self, seconds};
use super::{first_line, for_people, printable};
use crate::calls::Call;
use crate::commands::budget::BudgetShape;
use crate::output::{Report, Style};

/// How many lines of an output, and of the parts below, people are shown.
const OUTPUT_LINES: usize = 40;
const TREE_LINES: usize = 200;
/// How many bytes of an output people are shown.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A part of a run, with everything that belongs to it.
#[derive(Debug, Serialize)]
pub(crate) struct PartInFull<'r> {
    run_id: String,
    /// The handle of the run.
    run: String,
    #[serde(flatten)]
    node: NodeInFull,
    /// When it has to end, if it says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    /// Its own calls, and those of tools that its model wanted.
    calls: Vec<Call>,
    /// The parts below it, parents before children.
    parts: Vec<NodeShape>,
    #[serde(skip)]
    folded: &'r Run,
    #[serde(skip)]
    id: NodeId,
    #[serde(skip)]
    page: Option<PageHandle>,
    #[serde(skip)]
    budget: BudgetShape,
    /// Whether a living process drives the run, or it only waits.
    #[serde(skip)]
    is_driven: bool,
    #[serde(skip)]
    now: Timestamp,
    /// What commands that are offered have to repeat.
    #[serde(skip)]
    options: &'r str,
}

/// How a run stands in which a part is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Whether a living process drives the run, or it only waits.
    pub(crate) is_driven: bool,
    /// The present instant, or the last one at which a process drove the run.
    pub(crate) now: Timestamp,
}

impl<'r> PartInFull<'r> {
    /// The part `view` of `run`, whose handle is `handle`, with the `pages` of the run, `args`, the arguments of its
    /// last call, and its `calls`.
    pub(crate) fn of(
        (run, handle): (&'r Run, &str),
        view: &NodeView<'r>,
        pages: &HashMap<PageId, PageHandle>,
        (args, calls): (Option<Value>, Vec<Call>),
        Moment { is_driven, now }: Moment,
    ) -> Self {
        let below = below(run, view.id);
        Self {
            run_id: run.id().to_string(),
            run: handle.to_owned(),
            node: NodeInFull::of(run, view, args, pages),
            deadline: run.deadline_of(view.id, now),
            calls,
            parts: below.iter().map(|view| NodeShape::of(run, view, pages)).collect(),
            folded: run,
            id: view.id,
            page: pages
                .get(&folio::engine::projection::branch_page(run, view.id))
                .copied(),
            budget: BudgetShape::of(run, handle, view.id, now),
            is_driven,
            now,
            options: "",
        }
    }

    /// The same part, offering commands that repeat `options`.
    pub(crate) fn repeating(self, options: &'r str) -> Self {
        Self { options, ..self }
    }
}

/// The nodes below `node` in reading order.
fn below(run: &Run, node: NodeId) -> Vec<NodeView<'_>> {
    let mut views = run.tree_as_planned().into_iter().skip_while(|view| view.id != node);
    let Some(depth) = views.next().map(|view| view.depth) else {
        return Vec::new();
    };
    views.take_while(|view| view.depth > depth).collect()
}

impl Report for PartInFull<'_> {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let run = self.folded;
        let Some(view) = run.node(self.id) else { return Ok(()) };
        let title = run.label(view.id);
        let path = path_of(&view);
        let title = if title == path {
            String::new()
        } else {
            format!("  {title}")
        };
        writeln!(
            out,
            "{} {}{}",
            style.strong(&self.run),
            style.strong(printable(path)),
            printable(&title)
        )?;
        writeln!(out, "{}", self.standing(&view, style))?;
        let (wanted, criteria): (String, &[Criterion]) = match view.step {
            None => (run.goal().to_owned(), &run.plan().criteria),
            Some(Step::Task(task)) => (task.description.clone(), &task.criteria),
            Some(_) => (String::new(), &[]),
        };
        if !wanted.trim().is_empty() && wanted.trim() != run.label(view.id) {
            section(out, style, "wanted", &for_people(wanted.trim(), self.options))?;
        }
        // A call that was begun is listed with the others.
        if self.calls.is_empty() && !view.call.is_empty() {
            section(out, style, "call", &printable(view.call))?;
        }
        self.criteria(out, style, criteria, view.result)?;
        if let Some(result) = view.result {
            if !result.notes.trim().is_empty() {
                section(out, style, "notes", &for_people(result.notes.trim(), self.options))?;
            }
            if let Some(output) = self.output(result) {
                section(out, style, "output", &output)?;
            }
            let evidence = result.evidence.iter().map(|one| {
                // A node is named as commands name it.
                let node = run.node_named(&one.id);
                let name = node.as_ref().map_or(one.id.as_str(), path_of);
                let span = one.span.as_deref().map_or_else(String::new, |span| format!(" {span}"));
                printable(&format!("{} {name}{span}", one.kind))
            });
            let evidence: Vec<String> = evidence.collect();
            if !evidence.is_empty() {
                section(out, style, "evidence", &evidence.join("\n"))?;
            }
        }
        if !self.calls.is_empty() {
            let lines: Vec<String> = self.calls.iter().map(|call| self.call_line(call)).collect();
            section(out, style, "calls", &lines.join("\n"))?;
        }
        writeln!(out, "\n{}", style.faint("limits"))?;
        self.budget.limits(out)?;
        if let Some(page) = self.page {
            section(out, style, "page", &page.to_string())?;
        }
        self.parts(out, style, &view)
    }
}

impl PartInFull<'_> {
    /// `ok after 12.3s (stop reason), attempt 2, 1,203 tokens`.
    fn standing(&self, view: &NodeView<'_>, style: Style) -> String {
        let word = match view.result {
            Some(_) if view.superseded => "replaced",
            Some(result) => result.status.as_str(),
            None if view.paused => super::run::PAUSED,
            None => view.state.as_str(),
        };
        let mut text = super::run::colored(style, word);
        if let Some(reason) = view.result.and_then(|result| result.stop_reason) {
            text.push_str(&format!(" ({reason})"));
        }
        let mut facts = Vec::new();
        if let Some(start) = view.started_at {
            facts.push(seconds(view.finished_at.unwrap_or(self.now).since(start)));
        }
        if view.attempt > 1 {
            facts.push(format!("attempt {}", view.attempt));
        }
        if view.plan_version > 0 {
            facts.push(format!("plan version {}", view.plan_version));
        }
        if view.spent.model_calls > 0 {
            facts.push(counted(view.spent.model_calls, "model call"));
            facts.push(counted(view.spent.tokens(), "token"));
            facts.push(view.spent.dollars());
        }
        for fact in facts {
            text.push_str(&style.faint(format_args!(" · {fact}")));
        }
        text
    }

    fn criteria(
        &self,
        out: &mut String,
        style: Style,
        criteria: &[Criterion],
        result: Option<&NodeResult>,
    ) -> fmt::Result {
        let line = |criterion: &Criterion| {
            let verdicts = result.map(|result| &result.verdicts).into_iter().flatten();
            let verdict = verdicts.into_iter().find(|verdict| verdict.criterion == criterion.id);
            let found = match verdict.map(|verdict| &verdict.finding) {
                None => "not checked".to_owned(),
                Some(Finding::Met) => style.good("met"),
                Some(Finding::Unmet(why)) => format!("{}: {}", style.bad("not met"), first_line(why, 200)),
                Some(Finding::Unverifiable(why)) => {
                    format!("{}: {}", style.warning("cannot be verified"), first_line(why, 200))
                }
            };
            let text = if criterion.text.is_empty() {
                &criterion.id
            } else {
                &criterion.text
            };
            let optional = if criterion.required { "" } else { ", optional" };
            format!("{} ({found}{optional})", first_line(text, 200))
        };
        let lines: Vec<String> = criteria.iter().map(line).collect();
        match lines.is_empty() {
            true => Ok(()),
            false => section(out, style, "criteria", &lines.join("\n")),
        }
    }

    /// The beginning of the output, and how to read the rest.
    fn output(&self, result: &NodeResult) -> Option<String> {
        if let Output::Blob { hash, bytes } = &result.output {
            let options = self.options;
            return Some(format!("{bytes} bytes; `folio blob {hash}{options}` prints them"));
        }
        let Some((value, _)) = self.folded.given(self.id)?.display_value(OUTPUT_BYTES_MAX) else {
            return Some("too large to show here; each part below shows its own".to_owned());
        };
        let text = match &*value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        let text = for_people(text.trim_end(), self.options);
        let count = text.lines().count();
        if count <= OUTPUT_LINES {
            return Some(text);
        }
        let mut lines: Vec<&str> = text.lines().take(OUTPUT_LINES).collect();
        let more = format!(
            "… {} more; --json shows them",
            counted((count - OUTPUT_LINES) as u64, "line")
        );
        lines.push(&more);
        Some(lines.join("\n"))
    }

    /// `[  1.2s]  0.8s ok      decide, openai:x  1203 tokens · 0.001200 dollars`.
    fn call_line(&self, call: &Call) -> String {
        let since = self.folded.started_at().unwrap_or(call.started_at);
        let took = match (call.duration_us, call.status) {
            (Some(duration_us), _) => seconds(std::time::Duration::from_micros(duration_us)),
            (None, None) => seconds(self.now.since(call.started_at)),
            (None, Some(_)) => String::new(),
        };
        let status = call
            .status
            .unwrap_or(if self.is_driven { "running" } else { "interrupted" });
        let what = first_line(&call.what, 300);
        let model = if call.model.is_empty() {
            String::new()
        } else {
            format!(", {}", printable(&call.model))
        };
        let spent = match &call.spent {
            spent if spent.is_nothing() => String::new(),
            spent => format!("  {} · {}", counted(spent.tokens(), "token"), spent.dollars()),
        };
        let failure = match call.failure.as_str() {
            "" => String::new(),
            failure => format!(": {}", first_line(failure, 200)),
        };
        let at = seconds(call.started_at.since(since));
        format!("[{at:>6}] {took:>6} {status:<8} {what}{model}{spent}{failure}")
    }

    fn parts(&self, out: &mut String, style: Style, view: &NodeView<'_>) -> fmt::Result {
        let views = below(self.folded, view.id);
        if views.is_empty() {
            return Ok(());
        }
        let nodes = standing_still(Titles::default().nodes_of(self.folded, &views), self.is_driven);
        let mut nodes = with_paths_and_costs(nodes, &views);
        let top = view.depth as usize;
        nodes
            .iter_mut()
            .for_each(|node| node.depth = node.depth.saturating_sub(top));
        // The drawing does not count the first node, which is usually the run, and this one is described above.
        nodes.insert(0, tree::Node::unnamed());
        let frame = tree::Frame {
            now: self.now,
            width: 160,
            height: Some(TREE_LINES),
            tick: 0,
            style,
        };
        writeln!(out, "\n{}", style.faint("parts"))?;
        let lines = tree::draw(&nodes, frame);
        lines.iter().skip(1).try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Writes `text` below the heading `name`.
fn section(out: &mut String, style: Style, name: &str, text: &str) -> fmt::Result {
    writeln!(out, "\n{}", style.faint(name))?;
    text.lines().try_for_each(|line| match line.is_empty() {
        true => writeln!(out),
        false => writeln!(out, "  {line}"),
    })
}
