//! `folio completions`: prints a script for shell completion.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Context;
use crate::arguments::Arguments;
use crate::error::{Exit, Failure};

/// `folio completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

/// Carries out `folio completions`.
pub(crate) fn run(context: &Context<'_>, completions: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), "folio", &mut script);
    context.output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
