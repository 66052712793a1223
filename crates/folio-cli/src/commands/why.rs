//! `folio why`: which decisions rest on an entry, and whether a model was shown it.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::memory::counted::counted;
use folio::memory::id::EntryRef;
use folio_server::wire::WhyShape;

use super::Context;
use crate::arguments::entry_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::first_line;
use crate::report::list::remark;
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
    let shown = match context.settings.turn_flag {
        Some(turn) => Some(workspace.shown(why.entry, turn).await?),
        None => None,
    };
    let shape = WhyShape::of(found, shown, as_of);
    context.output.report(&shape)?;
    if shape.shown.as_ref().is_none_or(Vec::is_empty)
        && let Some(remark) = remark(&shape.decisions, "no decision rests on it")
    {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
