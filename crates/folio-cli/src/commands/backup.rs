//! `folio backup` and `folio restore`: copies of the whole store.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use folio::store::sqlite;
use folio::store::store::Checkup;
use serde::Serialize;

use super::Context;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file that is made
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

/// `folio restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The copy
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Give the store that is there another name, and take its place; no process may have it open
    #[arg(long)]
    replace: bool,
}

/// What was copied.
#[derive(Debug, Serialize)]
struct Copied {
    from: String,
    to: String,
    bytes: u64,
    /// What is in it: spaces, entries and so on.
    checked: Vec<String>,
    /// Where the store is that was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
}

impl Report for Copied {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let Self { from, to, bytes, .. } = self;
        writeln!(out, "copied {from} to {to}, {bytes} bytes")?;
        if let Some(replaced) = &self.replaced {
            writeln!(out, "what was there before is {replaced} now")?;
        }
        Ok(())
    }
}

/// Carries out `folio backup`.
pub(crate) async fn back_up(context: &Context<'_>, backup: Backup) -> Result<Exit, Failure> {
    context.only_people("copy the store")?;
    if context.settings.store.starts_with("postgres") {
        let message = "a PostgreSQL database is copied by PostgreSQL's own tools";
        return Err(Failure::usage("store_not_copied", message)
            .hint("docs/postgres.md shows the role that pg_dump needs; `folio migrate --to sqlite:FILE` needs none"));
    }
    if !context.settings.keeps() {
        let message = "a store in memory is gone when the program ends: there is nothing to copy";
        return Err(Failure::usage("store_not_copied", message));
    }
    let folder = backup.to.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let message = format!("there is no folder {}", folder.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message));
    }
    let folio = context.existing().await?;
    folio.store().back_up(&backup.to).await?;
    context.output.report(&Copied {
        from: folio.store().location(),
        to: backup.to.display().to_string(),
        bytes: bytes_of(&backup.to)?,
        checked: Vec::new(),
        replaced: None,
    })?;
    Ok(Exit::Done)
}

/// Carries out `folio restore`.
pub(crate) async fn restore(context: &Context<'_>, restore: Restore) -> Result<Exit, Failure> {
    context.only_people("put a copy in the place of a store")?;
    let store = &context.settings.store;
    let path = store
        .strip_prefix("sqlite:")
        .map(|path| path.strip_prefix("//").unwrap_or(path));
    let Some(to) = path.filter(|path| !path.is_empty()).map(PathBuf::from) else {
        let message = "only a store in a file is made of a copy";
        return Err(Failure::usage("store_url_invalid", message).hint("--store sqlite:PATH names it"));
    };
    if !restore.from.exists() {
        let message = format!("there is no file {}", restore.from.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message).hint("FILE is what `folio backup` made"));
    }
    let (from, replace) = (restore.from.clone(), restore.replace);
    let target = to.clone();
    let done = tokio::task::spawn_blocking(move || sqlite::restore(&from, &target, replace));
    let replaced = done
        .await
        .map_err(|error| Failure::cannot("copy", "the store", error.into()))??;
    // It is looked at as a store, which also brings an old one to the newest format.
    let found = looked_at(context).await.map_err(|failure| match &replaced {
        Some(replaced) => failure.hint(format!("what was there before is {} now", replaced.display())),
        None => failure,
    })?;
    context.output.report(&Copied {
        from: restore.from.display().to_string(),
        to: to.display().to_string(),
        bytes: bytes_of(&to)?,
        checked: found.checked,
        replaced: replaced.map(|path| path.display().to_string()),
    })?;
    if found.problems.is_empty() {
        return Ok(Exit::Done);
    }
    for problem in found.problems {
        context.output.note(format_args!("problem: {problem}"));
    }
    Ok(Exit::Damaged)
}

async fn looked_at(context: &Context<'_>) -> Result<Checkup, Failure> {
    Ok(context.folio().await?.store().check().await?)
}

fn bytes_of(path: &Path) -> Result<u64, Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::file("read", path, &error))?;
    Ok(metadata.len())
}
