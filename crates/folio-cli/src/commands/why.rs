//! `folio why`: which decisions rest on an entry, and whether a model was shown it.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::Timestamp;
use folio::memory::counted::counted;
use folio::memory::id::EntryRef;
use folio::memory::turn::{Decision, Turn};
use folio::store::workspace::KeptReceipt;
use serde::Serialize;

use super::Context;
use crate::arguments::entry_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::first_line;
use crate::report::list::{List, remark};
use crate::report::turn::decisions;

/// How many characters of an input a line shows.
const LINE_CHARS: usize = 60;

/// `folio why`. The global `--turn` restricts it to one turn.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Entry: e42 or obs_…
    #[arg(value_parser = entry_ref)]
    entry: EntryRef,
}

/// A decision, and the turn that it was made in.
#[derive(Debug, Serialize)]
struct Reason {
    turn_id: String,
    turn: String,
    input: String,
    #[serde(flatten)]
    decision: Decision,
}

impl Reason {
    fn of((turn, decision): (Turn, Decision)) -> Self {
        Self {
            turn_id: turn.begun.id.to_string(),
            turn: turn.handle.to_string(),
            input: turn.begun.input,
            decision,
        }
    }
}

/// How an entry appeared in a view or context of a turn.
#[derive(Debug, Serialize)]
struct ShownShape {
    of: &'static str,
    at: Timestamp,
    as_of: u64,
    thread: Option<String>,
    hash: String,
    budget: u32,
    tokens: u32,
    fate: String,
}

impl ShownShape {
    fn of((kept, fate): (KeptReceipt, String)) -> Self {
        Self {
            of: kept.of,
            at: kept.at,
            as_of: kept.as_of.0,
            thread: kept.thread,
            hash: kept.receipt.hash,
            budget: kept.receipt.budget,
            tokens: kept.receipt.tokens,
            fate,
        }
    }
}

/// The decisions that rest on an entry, and what a model was shown of it.
#[derive(Debug, Serialize)]
struct WhyShape {
    #[serde(flatten)]
    decisions: List<Reason>,
    /// For one turn only.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<Vec<ShownShape>>,
}

impl Report for WhyShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let mut last_turn = None;
        for reason in &self.decisions.items {
            if last_turn.replace(&reason.turn_id) != Some(&reason.turn_id) {
                let input = first_line(&reason.input, LINE_CHARS);
                writeln!(out, "{} {input}", style.strong(&reason.turn))?;
            }
            decisions(out, style, std::slice::from_ref(&reason.decision))?;
        }
        for one in self.shown.iter().flatten() {
            let label = format!("{:<9}", one.of);
            let hash = one.hash.get(..8).unwrap_or_default();
            let cost = format!("[{hash}, {} of {}]", one.tokens, counted(one.budget.into(), "token"));
            writeln!(out, "  {} {} {}", style.faint(label), one.fate, style.faint(cost))?;
        }
        Ok(())
    }
}

/// Carries out `folio why`.
pub(crate) async fn run(context: &Context<'_>, why: Why) -> Result<Exit, Failure> {
    let workspace = context.workspace_outside_turn_if_any().await?;
    let as_of = workspace.head().await?.0;
    let found = workspace.why(why.entry, context.settings.turn_flag).await?;
    let decisions = List::whole(found.into_iter().map(Reason::of).collect(), as_of);
    let shown = match context.settings.turn_flag {
        Some(turn) => Some(workspace.shown(why.entry, turn).await?),
        None => None,
    };
    let shape = WhyShape {
        decisions,
        shown: shown.map(|shown| shown.into_iter().map(ShownShape::of).collect()),
    };
    context.output.report(&shape)?;
    if shape.shown.as_ref().is_none_or(Vec::is_empty)
        && let Some(remark) = remark(&shape.decisions, "no decision rests on it")
    {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
