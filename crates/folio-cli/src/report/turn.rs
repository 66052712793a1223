//! Turns as programs and people read them.

use std::fmt::{self, Write as _};

use folio::memory::calibration::Reliability;
use folio::memory::counted::counted;
use folio::memory::turn::{Decision, Used};
pub(crate) use folio_server::wire::{
    BegunShape, ContextShape, EndedShape, EpisodeShape, EpisodesShape, GoalShape, TurnShape,
};
use serde::Serialize;

use super::{first_line, instant, printable};
use crate::output::{Report, Style};
use crate::settings::quoted;

/// How many characters of an input a line shows.
const LINE_CHARS: usize = 100;

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
            write!(
                out,
                " {}",
                style.faint(format_args!("({} touched)", counted(touched, "entry")))
            )?;
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

/// A turn that has just ended, and the options that another command needs to use the same thread.
#[derive(Debug, Serialize)]
pub(crate) struct Ended {
    #[serde(flatten)]
    pub(crate) shape: EndedShape,
    #[serde(skip)]
    pub(crate) again: String,
}

impl Report for Ended {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let Self { shape, again } = self;
        shape.turn.text(out, style)?;
        decisions(out, style, &shape.turn.decisions)?;
        for goal in &shape.goals {
            out.push_str("  goal      ");
            goal.text(out, style)?;
        }
        for proposal in &shape.proposals {
            let (title, handle) = (printable(&proposal.title), proposal.entry.handle);
            // The title may be a stranger's, and the command is there to be pasted.
            let command = format!("folio goals add --from {handle}{again} -- {}", quoted(&title));
            writeln!(out, "  offered   {title} {}", style.faint(format_args!("({command})")))?;
        }
        Ok(())
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

impl Report for ContextShape {
    /// The text as a model gets it.
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&printable(&self.context));
        // A truncated line has no newline.
        if !self.context.is_empty() && !self.context.ends_with('\n') {
            out.push('\n');
        }
        Ok(())
    }
}

impl Report for EpisodesShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        self.list.text(out, style)
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

/// The reliability of the observations of a tool and type.
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
