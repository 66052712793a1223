//! `folio migrate`: copies everything in a store to another one.

use std::fmt::{self, Write as _};
use std::fs;

use clap::Args;
use folio::memory::counted::counted;
use folio::store::copy::{self, Copied, CopyError};
use folio::{Folio, StoreError};
use serde::Serialize;

use super::Context;
use crate::counting::Counting;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::settings::store_url;

/// How often a copy is compared again because the store was written to meanwhile.
const COMPARE_ROUNDS_MAX: u32 = 3;

/// `folio migrate`.
#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Store to copy to: an empty one, or an earlier copy
    #[arg(long, value_name = "URL")]
    to: String,
}

/// What was copied.
#[derive(Debug, Serialize)]
struct Answer {
    from: String,
    to: String,
    #[serde(flatten)]
    copied: Copied,
    /// The differences; empty if all is well.
    problems: Vec<String>,
}

impl Report for Answer {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let Self { from, to, copied, .. } = self;
        writeln!(
            out,
            "copied {} of {}, {}, {} and {} from {from} to {to}",
            counted(copied.commits, "commit"),
            counted(copied.spaces, "space"),
            counted(copied.bodies, "body"),
            counted(copied.notes, "note"),
            counted(copied.tokens, "token")
        )?;
        if self.problems.is_empty() {
            writeln!(
                out,
                "checked: every commit is identical, and the copy follows from them"
            )?;
        }
        for problem in &self.problems {
            writeln!(out, "problem: {problem}")?;
        }
        Ok(())
    }
}

/// Carries out `folio migrate`.
pub(crate) async fn run(context: &Context<'_>, migrate: Migrate) -> Result<Exit, Failure> {
    context.only_people("copy a store into another")?;
    if migrate.to.starts_with("memory:") {
        let message = "a store in memory is gone when the program ends";
        return Err(Failure::usage("store_not_copied", message).hint("name another store with --to URL"));
    }
    // A mistyped name would be copied as an empty store.
    let source = context.existing().await?;
    let target = Folio::open(&store_url(&migrate.to)).await?;
    let (from, to) = (source.store().location(), target.store().location());
    // A file may have several names.
    let is_one_file = || Some(fs::canonicalize(&from).ok()? == fs::canonicalize(&to).ok()?);
    if from != "memory:" && (from == to || is_one_file() == Some(true)) {
        let message = format!("{from} cannot become a copy of itself");
        return Err(Failure::usage("target_is_source", message).hint("name another store with --to URL"));
    }
    let mut copied = Copied::default();
    let mut problems = Vec::new();
    for _ in 0..COMPARE_ROUNDS_MAX {
        let round = {
            let mut counting = Counting::new(context.output);
            let mut show = move |copied_so_far: Copied| {
                counting.show(
                    0,
                    None,
                    &format!(
                        "{}, {}",
                        counted(copied_so_far.commits, "commit"),
                        counted(copied_so_far.bodies, "body")
                    ),
                );
            };
            copy::copy(&**source.store(), &**target.store(), &mut show)
                .await
                .map_err(refused)?
        };
        copied = Copied {
            commits: copied.commits + round.commits,
            bodies: copied.bodies + round.bodies,
            notes: copied.notes + round.notes,
            ..round
        };
        problems = copy::verify(&**source.store(), &**target.store()).await?;
        // What was erased between two queries is gone from both stores in the next round.
        if problems.is_empty() {
            break;
        }
    }
    let exit = if problems.is_empty() { Exit::Done } else { Exit::Damaged };
    let answer = Answer {
        from,
        to,
        copied,
        problems,
    };
    context.output.report_ending(&answer, exit)
}

fn refused(error: CopyError) -> Failure {
    match error {
        CopyError::Store(error @ StoreError::StaleSpace { .. }) => {
            let message = format!("somebody else writes to the copy: {error}");
            Failure::new(Exit::Refused, "target_not_a_copy", message)
                .hint("do not use the copy until everybody has moved to it")
        }
        CopyError::Store(error) => error.into(),
        error => Failure::new(Exit::Refused, error.code(), error.to_string())
            .hint("use --to URL with an empty store, or with an earlier copy that nobody has changed"),
    }
}
