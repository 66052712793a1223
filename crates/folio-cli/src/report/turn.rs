//! Turns as programs and people read them.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::calibration::Reliability;
use folio::memory::turn::{Decision, Turn, Used};
use folio::store::workspace::{Episode, GoalState};
use serde::Serialize;
use serde_json::Value;

use super::item::ScratchItem;
use super::observation::Observation;
use super::{first_line, instant, printable};
use crate::output::{Report, Style};

/// Characters of an input that a line shows.
const LINE_CHARS: usize = 100;

/// A turn.
#[derive(Debug, Serialize)]
pub(crate) struct TurnShape {
    turn_id: String,
    handle: String,
    thread: String,
    input: String,
    background: bool,
    run_id: Option<String>,
    started_at: Timestamp,
    started_seq: u64,
    as_of: u64,
    ended_at: Option<Timestamp>,
    /// Whether nothing was left to do; none as long as it goes on.
    complete: Option<bool>,
    touched: Option<u64>,
    export: Option<String>,
    urgency: Option<String>,
    decisions: Vec<Decision>,
}

impl TurnShape {
    /// `turn` as it stands.
    pub(crate) fn of(turn: &Turn) -> Self {
        let begun = &turn.begun;
        let end = turn.ended.as_ref();
        let router = turn.decision(folio::memory::turn::Stage::Router);
        Self {
            turn_id: begun.id.to_string(),
            handle: turn.handle.to_string(),
            thread: begun.thread.to_string(),
            input: begun.input.clone(),
            background: begun.background,
            run_id: begun.run.map(|run| run.to_string()),
            started_at: turn.started_at,
            started_seq: turn.started_seq.0,
            as_of: begun.as_of.0,
            ended_at: end.map(|end| end.at),
            complete: end.map(|end| end.end.complete),
            touched: end.map(|end| end.end.touched),
            export: end.map(|end| end.end.export.clone()),
            urgency: router.map(|decision| decision.verdict.clone()),
            decisions: turn.decisions().cloned().collect(),
        }
    }
}

impl Report for TurnShape {
    /// `t3 [critical, open] Pay the invoice`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let urgency = match self.urgency.as_deref() {
            Some(urgency @ ("high" | "critical")) => style.bad(urgency),
            urgency => urgency.unwrap_or("normal").to_owned(),
        };
        let state = match self.complete {
            None => "open".to_owned(),
            Some(true) => style.good("complete"),
            Some(false) => style.warning("more work"),
        };
        write!(out, "{} [{urgency}, {state}", style.strong(&self.handle))?;
        if self.background {
            out.push_str(", background");
        }
        out.push(']');
        let input = first_line(&self.input, LINE_CHARS);
        if !input.is_empty() {
            write!(out, " {input}")?;
        }
        if let Some(touched) = self.touched {
            write!(out, " {}", style.faint(format_args!("({touched} entries touched)")))?;
        }
        out.push('\n');
        Ok(())
    }
}

/// A turn with all its decisions.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct TurnInFull(pub(crate) TurnShape);

impl Report for TurnInFull {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let turn = &self.0;
        turn.text(out, style)?;
        let mut line =
            |name: &str, value: String| writeln!(out, "  {} {value}", style.faint(format_args!("{name:<9}")));
        line("id", turn.turn_id.clone())?;
        line("thread", printable(&turn.thread))?;
        if let Some(run) = &turn.run_id {
            line("run", run.clone())?;
        }
        line("began", format!("{} after #{}", instant(turn.started_at), turn.as_of))?;
        if let Some(at) = turn.ended_at {
            line("ended", instant(at))?;
        }
        decisions(out, style, &turn.decisions)
    }
}

/// One line for each decision, with its reasons and what it rests on.
pub(crate) fn decisions(out: &mut String, style: Style, decisions: &[Decision]) -> fmt::Result {
    for decision in decisions {
        write!(
            out,
            "  {} {}",
            style.faint(format_args!("{:<9}", decision.stage.as_str())),
            style.strong(printable(&decision.verdict))
        )?;
        if !decision.reasons.is_empty() {
            write!(out, ": {}", printable(&decision.reasons.join("; ")))?;
        }
        if !decision.used.is_empty() {
            let used: Vec<_> = decision.used.iter().take(12).map(Used::to_string).collect();
            let more = decision.used.len().saturating_sub(12);
            let more = if more > 0 { format!(" +{more}") } else { String::new() };
            write!(out, " {}", style.faint(format_args!("[{}{more}]", used.join(" "))))?;
        }
        out.push('\n');
    }
    Ok(())
}

/// A turn that has just begun.
#[derive(Debug, Serialize)]
pub(crate) struct BegunShape {
    #[serde(flatten)]
    pub(crate) turn: TurnShape,
    /// What has to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Observation>,
    /// The confirmation that the input answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answered: Option<Observation>,
    /// What is the agent's to act on, first things first.
    pub(crate) order: Vec<Used>,
    /// What of memory goes into the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<ContextShape>,
}

impl Report for BegunShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.turn.text(out, style)?;
        writeln!(
            out,
            "  {} {}",
            style.faint(format_args!("{:<9}", "id")),
            self.turn.turn_id
        )?;
        decisions(out, style, &self.turn.decisions)?;
        if let Some(question) = &self.question {
            out.push_str("  ask       ");
            question.text(out, style)?;
        }
        if let Some(answered) = &self.answered {
            out.push_str("  answered  ");
            answered.text(out, style)?;
        }
        if let Some(context) = &self.context {
            out.push('\n');
            context.text(out, style)?;
        }
        Ok(())
    }
}

/// A turn that has just ended.
#[derive(Debug, Serialize)]
pub(crate) struct EndedShape {
    #[serde(flatten)]
    pub(crate) turn: TurnShape,
    /// What was archived.
    pub(crate) archived: Vec<Used>,
    pub(crate) goals: Vec<GoalShape>,
    /// Observations that could be made goals.
    pub(crate) proposals: Vec<Value>,
    /// Patterns that were not known before.
    pub(crate) patterns: Vec<Value>,
}

impl Report for EndedShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.turn.text(out, style)?;
        decisions(out, style, &self.turn.decisions)?;
        for goal in &self.goals {
            out.push_str("  goal      ");
            goal.text(out, style)?;
        }
        for proposal in &self.proposals {
            let text = |value: &Value| value.as_str().map(printable).unwrap_or_default();
            let (title, handle) = (text(&proposal["title"]), text(&proposal["entry"]["handle"]));
            writeln!(
                out,
                "  offered   {title} {}",
                style.faint(format_args!("(folio goals add '{title}' --from {handle})"))
            )?;
        }
        Ok(())
    }
}

/// A goal or a pending action.
#[derive(Debug, Serialize)]
pub(crate) struct GoalShape {
    #[serde(flatten)]
    item: ScratchItem,
    /// What others call it.
    key: Option<Value>,
    open: u32,
    closed: u32,
}

impl GoalShape {
    /// `state` as it is now.
    pub(crate) fn of(state: &GoalState) -> Self {
        let mut entry = state.entry.clone();
        // What is linked now says more than what was written at the last turn's end.
        entry.fields.progress = state.progress.progress.or(entry.fields.progress);
        Self {
            item: ScratchItem::of(&entry),
            key: folio::memory::goals::keys_of(&entry).into_iter().next(),
            open: state.progress.open,
            closed: state.progress.closed,
        }
    }
}

impl Report for GoalShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.item.text(out, style)?;
        if self.open + self.closed > 0 {
            let counts = style.faint(format_args!(" {} open, {} closed", self.open, self.closed));
            out.truncate(out.trim_end().len());
            writeln!(out, "{counts}")?;
        }
        Ok(())
    }
}

/// What of memory goes into a prompt.
#[derive(Debug, Serialize)]
pub(crate) struct ContextShape {
    pub(crate) context: String,
    pub(crate) tokens: u32,
    pub(crate) receipt: folio::memory::view::Receipt,
}

impl Report for ContextShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.context));
        // A line that is cut has no end of its own.
        if !self.context.is_empty() && !self.context.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    }
}

/// An earlier turn.
#[derive(Debug, Serialize)]
pub(crate) struct EpisodeShape {
    #[serde(flatten)]
    turn: TurnShape,
    entries: Vec<Observation>,
}

impl EpisodeShape {
    /// `episode` with what it touched as it was then.
    pub(crate) fn of(episode: &Episode, now: Timestamp) -> Self {
        Self {
            turn: TurnShape::of(&episode.turn),
            entries: episode
                .touched
                .iter()
                .map(|entry| Observation::of(entry, now))
                .collect(),
        }
    }
}

impl Report for EpisodeShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.turn.text(out, style)?;
        for entry in &self.entries {
            out.push_str("  ");
            entry.text(out, style)?;
        }
        Ok(())
    }
}

/// How far the observations of a tool and type are to be believed.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ReliabilityShape(pub(crate) Reliability);

impl Report for ReliabilityShape {
    /// `card_monitor risk_alert: 3 of 5 came true, stated 0.82 on average, Brier 0.19`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let row = &self.0;
        let tool = row.tool.as_deref().unwrap_or("(no tool)");
        writeln!(
            out,
            "{} {}: {} of {} came true, stated {:.2} on average, Brier {:.3}",
            style.strong(printable(tool)),
            row.type_name,
            row.confirmed,
            row.confirmed + row.refuted,
            row.mean_stated,
            row.brier
        )?;
        for bin in &row.bins {
            let line = format!(
                "  {:.1} to {:.1}: {} of {} came true ({:.0} %)",
                bin.from,
                bin.from + 0.1,
                bin.confirmed,
                bin.marked,
                bin.share_confirmed * 100.0
            );
            writeln!(out, "{}", style.faint(line))?;
        }
        Ok(())
    }
}
