//! `folio archive`: archives entries, or everything that is due.

use clap::Args;
use folio::memory::id::EntryRef;

use super::{Context, observe, tidy};
use crate::arguments::entry_ref;
use crate::error::{Exit, Failure};

/// `folio archive`.
#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// Entries: e42 or obs_… [default: everything that is due by the policy of the space]
    #[arg(value_parser = entry_ref)]
    entries: Vec<EntryRef>,
    /// Reason to record
    #[arg(long, requires = "entries")]
    reason: Option<String>,
}

/// Carries out `folio archive`.
pub(crate) async fn run(context: &Context<'_>, archive: Archive) -> Result<Exit, Failure> {
    if archive.entries.is_empty() {
        tidy::run(context, tidy::Tidy {}).await
    } else {
        let archive = observe::Archive::of(archive.entries, archive.reason);
        observe::archive_entries(context, &context.workspace_if_any().await?, archive).await
    }
}
