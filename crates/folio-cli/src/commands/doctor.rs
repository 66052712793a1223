//! `folio doctor`: looks for damage.

use std::fmt::{self, Write as _};

use clap::Args;
use serde::Serialize;

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    store: String,
    healthy: bool,
    checked: Vec<String>,
    problems: Vec<String>,
}

impl Report for Findings {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        writeln!(out, "{}", style.strong(&self.store))?;
        for line in &self.checked {
            writeln!(out, "  {} {line}", style.good("looked at"))?;
        }
        for line in &self.problems {
            writeln!(out, "  {} {line}", style.bad("problem"))?;
        }
        if self.healthy {
            writeln!(out, "  nothing is wrong")?;
        }
        Ok(())
    }
}

/// Carries out `folio doctor`.
pub(crate) async fn run(context: &Context<'_>, _: Doctor) -> Result<Exit, Failure> {
    // Nothing is wrong with what was made a moment ago.
    let folio = context.existing().await?;
    let found = folio.store().check().await?;
    let healthy = found.problems.is_empty();
    let store = folio.store().location();
    context.output.report(&Findings {
        store,
        healthy,
        checked: found.checked,
        problems: found.problems,
    })?;
    Ok(if healthy { Exit::Done } else { Exit::Damaged })
}
