//! `folio bench`: what durable work costs on this machine.

use std::path::PathBuf;

use clap::Args;

use super::Context;
use crate::bench::{Extent, measure};
use crate::error::{Exit, Failure};

/// `folio bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Measure less, in a few seconds instead of half a minute
    #[arg(long)]
    quick: bool,
    /// Measure on the disk that this folder is on [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Carries out `folio bench`. What it writes is removed again.
pub(crate) async fn run(context: &Context<'_>, bench: Bench) -> Result<Exit, Failure> {
    let parent = bench.folder.unwrap_or_else(std::env::temp_dir);
    let folder = parent.join(format!("folio-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| Failure::cannot("make", &folder.display().to_string(), error))?;
    let extent = if bench.quick { Extent::QUICK } else { Extent::FULL };
    let measured = measure(&folder, extent, context.output).await;
    // What cannot be removed is in the folder for temporary files, or in one that was named.
    let _removed = std::fs::remove_dir_all(&folder);
    context.output.report(&measured?)?;
    Ok(Exit::Done)
}
