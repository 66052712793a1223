//! `folio watch`: a run that another process drives, live.

use clap::Args;
use folio::memory::id::RunRef;

use super::Context;
use super::people::is_driven;
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;

/// `folio watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
}

/// Carries out `folio watch`.
pub(crate) async fn run(context: &Context<'_>, watch: Watch) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let row = workspace.run(watch.run).await?;
    if !is_driven(&workspace, row.id).await? {
        let (name, again) = (row.handle, context.settings.repeated());
        context.output.note(format_args!(
            "no process drives {name} now; resume it with `folio resume {name}{again}`"
        ));
    }
    follow::watch(context, &workspace, row.id).await
}
