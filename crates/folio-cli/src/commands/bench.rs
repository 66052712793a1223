//! `folio bench`: what durable work costs on this machine, and whether runs of questions with known answers come out
//! right.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Context;
use crate::bench::{Extent, fanout, measure, store};
use crate::error::{Exit, Failure};

/// `folio bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    of: Option<Of>,
    /// Measure less: a few seconds instead of half a minute
    #[arg(long)]
    quick: bool,
    /// Measure on the disk of this folder [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// What else is measured.
#[derive(Debug, Subcommand)]
enum Of {
    /// Measure the store of --store next to a file
    ///
    /// Measures 64 concurrent writers, queries on a full space, and a run. What it writes stays in the store, in spaces
    /// whose names begin with bench-.
    Store {
        /// Number of observations in the space that is queried
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        entries: u64,
    },
    /// Run questions with known answers and decompositions as plans
    Fanout {
        /// Questions in the format of FanOutQA, a JSON list: id, question, decomposition, depends_on, answer
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Carries out `folio bench`. What it writes is removed again.
pub(crate) async fn run(context: &Context<'_>, bench: Bench) -> Result<Exit, Failure> {
    let parent = bench.folder.unwrap_or_else(std::env::temp_dir);
    // A missing folder is not created: it would be left behind.
    std::fs::read_dir(&parent).map_err(|error| Failure::file("measure in", &parent, &error))?;
    let folder = parent.join(format!("folio-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| Failure::cannot("make", &folder.display().to_string(), error))?;
    let extent = if bench.quick { Extent::QUICK } else { Extent::FULL };
    let exit = match bench.of {
        None => {
            let measured = measure(&folder, extent, context.output).await;
            measured.and_then(|measured| context.output.report(&measured).map(|()| Exit::Done))
        }
        Some(Of::Store { entries }) => {
            let (adds, repeats) = if bench.quick { (50, 1) } else { (500, 3) };
            let folio = context.folio().await?;
            let extent = (adds, entries, repeats);
            let measured = Box::pin(store::measure(&folio, &folder, extent, context.output)).await;
            measured.and_then(|measured| context.output.report(&measured).map(|()| Exit::Done))
        }
        Some(Of::Fanout { file }) => {
            let found = Box::pin(fanout::measure(&folder, &file)).await;
            found.and_then(|found| context.output.report(&found).map(|()| found.exit()))
        }
    };
    // If it cannot be removed, it stays in the folder for temporary files, or in the one that was named.
    let _removed = std::fs::remove_dir_all(&folder);
    exit
}
