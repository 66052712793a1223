//! `folio tidy`: archives and erases what is due.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::Workspace;
use folio::memory::counted::counted;
use folio::runner::left_folders;
use folio::store::workspace::Tidied;
use serde::Serialize;

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio tidy`.
#[derive(Debug, Args)]
pub(crate) struct Tidy {}

/// What was done.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Done(pub(crate) Tidied);

impl Report for Done {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let Self(tidied) = self;
        for (reason, count) in &tidied.archived {
            writeln!(out, "archived {count} ({reason})")?;
        }
        for (reason, count) in &tidied.erased {
            writeln!(out, "erased {count} ({reason})")?;
        }
        if tidied.packed > 0 {
            writeln!(out, "compressed {}", tidied.packed)?;
        }
        if tidied.buried > 0 {
            writeln!(out, "removed all but the numbers of {}", tidied.buried)?;
        }
        if tidied.given_up > 0 {
            writeln!(out, "removed {} of unfinished texts", counted(tidied.given_up, "piece"))?;
        }
        Ok(())
    }
}

/// Carries out `folio tidy`.
pub(crate) async fn run(context: &Context<'_>, _: Tidy) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    let mut all = Tidied::default();
    loop {
        let tidied = workspace.tidy(workspace.now()).await?;
        let more = tidied.more;
        all.add(tidied);
        if !more {
            break;
        }
    }
    let folders = removed_folders(context, &workspace).await?;
    let report = Done(all);
    context.output.report(&report)?;
    if folders > 0 {
        let folders = counted(folders, "folder");
        context
            .output
            .note(format_args!("removed {folders} of forks that never began"));
    } else if report.0.is_nothing() {
        context.output.note("nothing is due");
    }
    Ok(Exit::Done)
}

/// Removes the folders that forks killed before they began left behind more than an hour ago; returns how many there
/// were.
async fn removed_folders(context: &Context<'_>, workspace: &Workspace) -> Result<u64, Failure> {
    let Some(folders) = &context.settings.run_folders else {
        return Ok(0);
    };
    let mut removed = 0;
    for left in left_folders(folders, &**workspace.store(), Some(workspace.space())).await? {
        left.remove()
            .map_err(|error| Failure::file("remove", &left.path, &error))?;
        removed += 1;
    }
    Ok(removed)
}
