//! `folio backup` and `folio restore`: copies of the whole store.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use folio::Folio;
use folio::memory::counted::counted;
use folio::runner::check_journals;
use folio::store::sqlite::{self, Look, Restored};
use folio::store::store::Checkup;
use folio::store::{ErrorKind, StoreError};
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::counting::{untold, while_working};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// The hint for a file that cannot be restored.
const FROM_A_BACKUP: &str = "FILE is a file that `folio backup` made";

/// `folio backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// File to create
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// Do not check the copy for damage; the check takes as long as `folio doctor`
    #[arg(long)]
    no_check: bool,
}

/// `folio restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Backup to restore from
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Rename an existing store and take its place; no process may have it open
    #[arg(long)]
    replace: bool,
    /// Check only that the pages of the database file hold together, and look for no other damage
    #[arg(long)]
    no_check: bool,
}

/// What was copied.
#[derive(Debug, Serialize)]
struct Copied {
    from: String,
    to: String,
    bytes: u64,
    /// What the copy contains: spaces, entries and so on. Empty if it was not checked.
    checked: Vec<String>,
    /// The damage that was found.
    problems: Vec<String>,
    /// Where the previous store is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    /// How many access tokens are valid for the restored store.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_valid: Option<usize>,
    /// How many access tokens are valid in the copy but not in the restored store: they were revoked in the store that
    /// was replaced. `None` if no such store could tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_revoked: Option<usize>,
}

impl Report for Copied {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let Self { from, to, bytes, .. } = self;
        writeln!(out, "copied {from} to {to}, {bytes} bytes")?;
        if let Some(replaced) = &self.replaced {
            writeln!(out, "the previous store is now {replaced}")?;
        }
        Ok(())
    }
}

/// Carries out `folio backup`.
pub(crate) async fn back_up(context: &Context<'_>, backup: Backup) -> Result<Exit, Failure> {
    context.only_people("copy the store")?;
    if context.settings.store.starts_with("postgres") {
        let message = "a PostgreSQL database is copied by PostgreSQL's own tools";
        return Err(Failure::usage("store_not_copied", message).hint(
            "docs/postgres.md shows the role that pg_dump needs; `folio migrate --to sqlite:FILE` needs no such role",
        ));
    }
    if !context.settings.is_persistent() {
        let message = "a store in memory is gone when the program ends: there is nothing to copy";
        return Err(Failure::usage("store_not_copied", message));
    }
    let folder = backup.to.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        let message = format!("there is no folder {}", folder.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message));
    }
    let folio = context.existing().await?;
    let size = std::fs::metadata(folio.store().location()).ok().map(|file| file.len());
    let copied = || (sqlite::bytes_copied_to(&backup.to), size);
    let copying = while_working(context.output, "copying", copied, folio.store().back_up(&backup.to));
    if let Err(error) = copying.await {
        if is_in_the_way(&backup.to, &error) {
            return Err(in_the_way(&error).hint("every backup is a new file; choose another name"));
        }
        let failure = Failure::from(error);
        return Err(match failure.exit() {
            Exit::Usage => failure.hint("every backup is a new file; choose another name"),
            _ => failure,
        });
    }
    let found = match backup.no_check {
        true => Checkup::default(),
        false => {
            while_working(
                context.output,
                "checking the copy",
                untold,
                check_copy(&folio, &backup.to),
            )
            .await?
        }
    };
    let is_damaged = !found.problems.is_empty();
    let problems = found.problems.clone();
    context.output.report(&Copied {
        from: folio.store().location(),
        to: backup.to.display().to_string(),
        bytes: bytes_of(&backup.to)?,
        checked: found.checked,
        problems: found.problems,
        replaced: None,
        tokens_valid: None,
        tokens_revoked: None,
    })?;
    if !is_damaged {
        return Ok(Exit::Done);
    }
    for problem in problems {
        context.output.note(format_args!("problem: {problem}"));
    }
    context.output.note(
        "the copy is damaged; run `folio doctor` to see whether the store is damaged, too, and keep your earlier copies",
    );
    Ok(Exit::Damaged)
}

/// Checks the copy at `path`, which was just made of the store that `folio` has open, as `folio doctor` does.
async fn check_copy(folio: &Folio, path: &Path) -> Result<Checkup, Failure> {
    let copy = path.to_owned();
    let result = tokio::task::spawn_blocking(move || sqlite::look_over(&copy)).await;
    let mut found = result.map_err(|error| Failure::cannot("look over", "the copy", error.into()))??;
    match check_journals(folio.store(), &mut found).await {
        // A store that is known to be damaged need not be read to the end.
        Err(error) if found.problems.is_empty() => Err(error.into()),
        Ok(()) | Err(_) => Ok(found),
    }
}

/// Carries out `folio restore`.
pub(crate) async fn restore(context: &Context<'_>, restore: Restore) -> Result<Exit, Failure> {
    context.only_people("restore a store")?;
    let to = file_of(&context.settings.store)?;
    if !restore.from.exists() {
        let message = format!("there is no file {}", restore.from.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message).hint(FROM_A_BACKUP));
    }
    let InPlace {
        replaced,
        mut checkup,
        revoked,
    } = while_working(
        context.output,
        "checking and copying",
        untold,
        put_in_place(&restore, &to),
    )
    .await?;
    // Opening it as a store also upgrades an old one to the newest format.
    let opening = open_restored(context, checkup.as_mut());
    let tokens_valid = while_working(context.output, "checking the journals", untold, opening)
        .await
        .map_err(|failure| match &replaced {
            Some(replaced) => failure.hint(format!("the previous store is now {}", replaced.display())),
            None => failure,
        })?;
    let checkup = checkup.unwrap_or_default();
    let problems = checkup.problems.clone();
    let before = replaced.as_ref().map(|path| path.display().to_string());
    context.output.report(&Copied {
        from: restore.from.display().to_string(),
        to: to.display().to_string(),
        bytes: bytes_of(&to)?,
        checked: checkup.checked,
        problems: checkup.problems,
        replaced: before.clone(),
        tokens_valid: Some(tokens_valid),
        tokens_revoked: revoked,
    })?;
    note_tokens(context, tokens_valid, revoked);
    if problems.is_empty() {
        return Ok(Exit::Done);
    }
    for problem in problems {
        context.output.note(format_args!("problem: {problem}"));
    }
    if let Some(before) = before {
        let to = to.display();
        context
            .output
            .note(format_args!("to go back to the previous store: `mv {before} {to}`"));
    }
    Ok(Exit::Damaged)
}

/// The file of the store with the URL `store`.
fn file_of(store: &str) -> Result<PathBuf, Failure> {
    let path = store
        .strip_prefix("sqlite:")
        .map(|path| path.strip_prefix("//").unwrap_or(path));
    match path {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => {
            let message = "only a store in a file can be restored";
            Err(Failure::usage("store_url_invalid", message).hint("name the file with --store sqlite:PATH"))
        }
    }
}

/// A copy that is in its place.
struct InPlace {
    /// Where the store is that was there before.
    replaced: Option<PathBuf>,
    /// What was found when everything was checked.
    checkup: Option<Checkup>,
    /// How many access tokens are still revoked, if a store that was there could tell.
    revoked: Option<usize>,
}

/// Checks the backup and copies it to `to`.
async fn put_in_place(restore: &Restore, to: &Path) -> Result<InPlace, Failure> {
    let look = match restore.no_check {
        true => Look::AtPages,
        false => Look::AtEverything,
    };
    let (from, target, replace) = (restore.from.clone(), to.to_owned(), restore.replace);
    let restored = tokio::task::spawn_blocking(move || sqlite::restore(&from, &target, replace, look))
        .await
        .map_err(|error| Failure::cannot("copy", "the store", error.into()))?;
    match restored {
        Ok(Restored::Done {
            replaced,
            checkup,
            revoked,
        }) => Ok(InPlace {
            replaced,
            checkup,
            revoked,
        }),
        Ok(Restored::Damaged(found)) => Err(damaged(&restore.from, &found)),
        // The store that is replaced may be damaged; only the copy has to be sound.
        Err(error) if error.kind() == ErrorKind::Corrupt => Err(Failure::from(error).hint_instead(FROM_A_BACKUP)),
        Err(error) if is_no_store(&restore.from, &error) => Err(Failure::from(error).hint(FROM_A_BACKUP)),
        Err(error) if !replace && is_in_the_way(to, &error) => {
            Err(in_the_way(&error).hint("--replace renames the existing store and puts the copy in its place"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether `error` says that what is to be restored, `from`, is no store.
fn is_no_store(from: &Path, error: &StoreError) -> bool {
    let is = format!("{} is ", from.display());
    matches!(error, StoreError::Invalid(reason) if reason.starts_with(&is))
}

/// Whether there is a file at `to`, where the copy that failed with `error` was to go.
fn is_in_the_way(to: &Path, error: &StoreError) -> bool {
    error.kind() == ErrorKind::Invalid && to.exists()
}

/// The failure for a file that is there and is not overwritten.
fn in_the_way(error: &StoreError) -> Failure {
    Failure::new(Exit::Refused, "file_unusable", error.to_string())
}

/// Says which access tokens the restored store has, `valid` of them, and which it no longer has.
fn note_tokens(context: &Context<'_>, valid: usize, revoked: Option<usize>) {
    match revoked {
        Some(0) => {}
        Some(revoked) => context.output.note(format_args!(
            "still revoked: {}",
            counted(revoked as u64, "access token")
        )),
        None if valid > 0 => context.output.note(format_args!(
            "{} can be used with it, even if revoked after the copy was made; `folio token list` shows those of a space",
            counted(valid as u64, "access token")
        )),
        None => {}
    }
}

/// The failure for a damaged copy at `from`, of which nothing was restored.
fn damaged(from: &Path, found: &Checkup) -> Failure {
    let message = format!(
        "{} is damaged; nothing was restored, and everything is as it was",
        from.display()
    );
    let failure = Failure::new(Exit::Damaged, "store_damaged", message);
    let detailed = found.problems.iter().fold(failure, |failure, problem| {
        failure.mistake(format!("problem: {problem}"), json!({"problem": problem}))
    });
    detailed.hint("use an older copy, or restore this one as it is with --no-check")
}

/// Opens the restored store, checks the journals of its runs if everything is checked, and returns how many access
/// tokens are valid for it.
async fn open_restored(context: &Context<'_>, checkup: Option<&mut Checkup>) -> Result<usize, Failure> {
    let folio = context.folio().await?;
    if let Some(checkup) = checkup {
        check_journals(folio.store(), checkup).await?;
    }
    let now = folio.workspace(context.settings.space.clone()).now();
    let tokens = folio.store().tokens().await?;
    Ok(tokens.iter().filter(|token| token.is_valid(now)).count())
}

fn bytes_of(path: &Path) -> Result<u64, Failure> {
    let metadata = std::fs::metadata(path).map_err(|error| Failure::file("read", path, &error))?;
    Ok(metadata.len())
}
