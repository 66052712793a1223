//! `folio why`: which decisions rest on an entry.

use std::fmt;

use clap::Args;
use folio::memory::id::EntryRef;
use folio::memory::turn::{Decision, Turn};
use serde::Serialize;

use super::Context;
use crate::arguments::entry_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::first_line;
use crate::report::list::List;
use crate::report::turn::decisions;

/// Characters of an input that a line shows.
const LINE_CHARS: usize = 60;

/// `folio why`. The global `--turn` restricts it to one turn.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// Which entry: e42 or obs_…
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

impl Report for Reason {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        out.push_str(&style.strong(&self.turn));
        out.push(' ');
        out.push_str(&first_line(&self.input, LINE_CHARS));
        out.push('\n');
        decisions(out, style, std::slice::from_ref(&self.decision))
    }
}

/// Carries out `folio why`.
pub(crate) async fn run(context: &Context<'_>, why: Why) -> Result<Exit, Failure> {
    let workspace = context.outside().await?;
    let as_of = workspace.head().await?.0;
    let found = workspace.why(why.entry, context.settings.turn_flag).await?;
    let list = List::whole(found.into_iter().map(Reason::of).collect(), as_of);
    context.output.report(&list)?;
    if let Some(remark) = list.remark("no decision rests on it") {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
