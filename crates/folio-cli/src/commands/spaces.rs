//! `folio spaces`: which spaces a store has.

use std::fmt::{self, Write as _};

use clap::Args;
use folio::Timestamp;
use serde::Serialize;

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::instant;
use crate::report::list::{List, remark};

/// `folio spaces`.
#[derive(Debug, Args)]
pub(crate) struct Spaces {}

/// A space of the store.
#[derive(Debug, Serialize)]
struct SpaceShape {
    space: String,
    /// The number of its commits so far.
    commits: u64,
    /// When it was last written to.
    written_at: Timestamp,
}

impl Report for SpaceShape {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let written = format!("written to {}", instant(self.written_at));
        writeln!(out, "{} {}", style.strong(&self.space), style.faint(written))
    }
}

/// Carries out `folio spaces`.
pub(crate) async fn run(context: &Context<'_>, _: Spaces) -> Result<Exit, Failure> {
    // The name of a space may say what it is about, and other roles see one space only.
    context.only_people("list the spaces")?;
    let folio = context.folio_if_any().await?;
    let store = folio.store();
    let mut spaces = Vec::new();
    for space in store.spaces().await? {
        spaces.push(SpaceShape {
            space: space.to_string(),
            commits: store.head(&space).await?.0,
            written_at: store.latest(&space).await?,
        });
    }
    // The newest first; they come in the order of their names.
    spaces.sort_by_key(|space| std::cmp::Reverse(space.written_at));
    let as_of = store.head(&context.settings.space).await?.0;
    let list = List::whole(spaces, as_of);
    context.output.report(&list)?;
    if let Some(remark) = remark(
        &list,
        "the store has no space yet; the first command that writes creates one",
    ) {
        context.output.note(remark);
    }
    Ok(Exit::Done)
}
