//! `folio import`: imports memory from files.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use folio::memory::counted::counted;
use folio::memory::scratchbook::colony::thread_of;
use folio::memory::transfer::without_mark;
use folio::store::WorkspaceError;
use folio::store::workspace::{Fate, ImportOptions, Imported};
use folio::{ThreadKey, Workspace};
use folio_server::wire::Received;
use serde::Deserialize;

use super::export::amounts_in_words;
use super::import_foreign::{self, import_with};
use super::markdown_folder::MarkdownLines;
use super::{Context, evict::source, input::text_within};
use crate::counting::{Counted, Counting};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// The largest file of a scratchbook, in bytes.
const BOOK_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most bytes that the first line of an export has.
const FIRST_LINE_BYTES: u64 = 4 * 1024;
/// How many levels of folders the path of a file may have.
const DEPTH_MAX: u32 = 8;

/// `folio import`. Existing entries stay as they are.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Format of the files [default: folio, if the file begins as one of `folio export` does]
    #[arg(long, value_name = "FORM")]
    from: Option<Origin>,
    /// File or folder to import; - reads standard input
    #[arg(value_name = "PATH")]
    pub(super) path: PathBuf,
    /// Show what would be imported without importing it
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Ignore the trust levels in the file and treat everything in it as imported, as always with files from other
    /// programs
    #[arg(long)]
    distrust: bool,
    /// For folio and markdown: apply the changes made in the files since they were exported from here, field by field,
    /// unless the field has changed here as well
    #[arg(long, conflicts_with = "distrust")]
    merge: bool,
}

/// Forms of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Origin {
    /// What `folio export` wrote: a JSON Lines file, or a folder of markdown
    Folio,
    /// What `folio export --format markdown` wrote
    Markdown,
    /// A scratchbook as JSON, or a folder of them
    Colony,
    /// The knowledge graph of the MCP memory server: its JSON Lines file
    McpMemory,
    /// Claude Code's tasks: the folder of a list, or of all lists
    ClaudeTasks,
    /// The issues of beads: issues.jsonl, or the project's folder
    Beads,
    /// Task Master's tasks.json, or the project's folder
    TaskMaster,
    /// A memory bank: a folder of markdown files
    MemoryBank,
}

impl Report for Received {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let imported = &self.imported;
        let verb = if self.dry_run { "would add" } else { "added" };
        let Imported {
            entries, pages, links, ..
        } = imported;
        let summary = amounts_in_words(*entries, *pages, *links);
        writeln!(out, "{verb} {summary}")?;
        if imported.policy {
            writeln!(
                out,
                "{} the policy",
                if self.dry_run { "would take over" } else { "took over" }
            )?;
        }
        for (count, label) in [
            (imported.present, "already there"),
            (imported.changed, "corrected"),
            (imported.merged, "changed as in the files"),
            (imported.differs, "different here, left as they are"),
            (imported.refused, "refused"),
        ] {
            if count > 0 {
                writeln!(out, "{count} {label}")?;
            }
        }
        for remark in &imported.remarks {
            let fate = match remark.fate {
                Fate::Refused => style.bad(remark.fate.as_str()),
                Fate::Merged => style.good(remark.fate.as_str()),
                fate => style.warning(fate.as_str()),
            };
            writeln!(out, "{fate} {}: {} [{}]", remark.item, remark.message, remark.code)?;
        }
        let reported = imported.changed + imported.merged + imported.differs + imported.refused;
        if imported.remarks.len() as u64 >= 1_000 && reported > 1_000 {
            writeln!(out, "… and more")?;
        }
        Ok(())
    }
}

/// Carries out `folio import`. Exits with 1 if something was not imported.
pub(crate) async fn run(context: &Context<'_>, import: Import) -> Result<Exit, Failure> {
    check_readable(&import.path)?;
    let from = import
        .from
        .or_else(|| is_own_export(&import.path).then_some(Origin::Folio));
    let from = from.ok_or_else(|| missing_format(&import.path))?;
    if import.merge && !matches!(from, Origin::Folio | Origin::Markdown) {
        return Err(Failure::usage(
            "usage",
            "--merge is for --from folio and --from markdown",
        ));
    }
    let workspace = match import.dry_run {
        true => context.workspace_if_any().await?,
        false => context.workspace().await?,
    };
    let imported = match from {
        Origin::Folio if !import.path.is_dir() => space(context, &workspace, &import).await?,
        Origin::Folio | Origin::Markdown => pages(context, &workspace, &import).await?,
        Origin::Colony => books(context, &workspace, &import).await?,
        Origin::McpMemory => import_with(context, &workspace, &import, import_foreign::mcp_memory).await?,
        Origin::ClaudeTasks => import_with(context, &workspace, &import, import_foreign::claude_tasks).await?,
        Origin::Beads => import_with(context, &workspace, &import, import_foreign::beads).await?,
        Origin::TaskMaster => import_with(context, &workspace, &import, import_foreign::task_master).await?,
        Origin::MemoryBank => import_with(context, &workspace, &import, import_foreign::memory_bank).await?,
    };
    let exit = if imported.refused > 0 {
        Exit::RunNotOk
    } else {
        Exit::Done
    };
    let received = Received {
        dry_run: import.dry_run,
        imported,
    };
    context.output.report_ending(&received, exit)
}

/// Checks that `path` can be read: if nothing can be imported, no store is created. A pipe, which gives its bytes only
/// once, is not opened.
fn check_readable(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    let access = std::fs::metadata(path).and_then(|found| match found {
        found if found.is_dir() => std::fs::read_dir(path).map(drop),
        found if found.is_file() => File::open(path).map(drop),
        _ => Ok(()),
    });
    access.map_err(|error| Failure::file("read", path, &error))
}

/// Whether `path` is a file that begins as `folio export` begins it, which no other program's file does. A pipe, which
/// gives its bytes only once, is not looked into.
fn is_own_export(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let is_read = path.is_file()
        && File::open(path).is_ok_and(|file| file.take(FIRST_LINE_BYTES).read_to_end(&mut beginning).is_ok());
    let text = String::from_utf8_lossy(&beginning);
    let first_line = without_mark(&text).lines().next().unwrap_or_default();
    is_read && serde_json::from_str::<FirstLine<'_>>(first_line).is_ok_and(|line| line.record == "space")
}

/// What tells the first line of an export from other lines of JSON.
#[derive(Deserialize)]
struct FirstLine<'l> {
    #[serde(borrow)]
    record: Cow<'l, str>,
    #[serde(rename = "format")]
    _format: u32,
}

/// The failure for a missing format, with all existing formats as hints.
fn missing_format(path: &Path) -> Failure {
    let message = format!("the format of {} is unknown: pass --from", path.display());
    let forms = Origin::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    forms.fold(Failure::usage("form_missing", message), |failure, form| {
        let help = form.get_help().map(ToString::to_string).unwrap_or_default();
        failure.hint(format!("--from {}: {help}", form.get_name()))
    })
}

async fn space(context: &Context<'_>, workspace: &Workspace, import: &Import) -> Result<Imported, Failure> {
    let reader = source(&import.path)?;
    let total_bytes = std::fs::metadata(&import.path).ok().map(|file| file.len());
    let (reader, bytes_read) = Counted::new(reader);
    let mut counting = Counting::new(context.output);
    let mut progress = |imported: &Imported| {
        let label = counted(imported.entries + imported.present, "entry");
        counting.show(bytes_read.load(Ordering::Relaxed), total_bytes, &label);
    };
    let options = ImportOptions {
        dry_run: import.dry_run,
        distrusted: import.distrust,
        merge: import.merge,
    };
    let source = BufReader::with_capacity(1 << 16, reader);
    workspace
        .import_space(&context.actor(), source, options, &mut progress)
        .await
        .map_err(|error| match error {
            WorkspaceError::Invalid(_) => Failure::from(error).about(&import.path.display().to_string()),
            error => error.into(),
        })
}

async fn pages(context: &Context<'_>, workspace: &Workspace, import: &Import) -> Result<Imported, Failure> {
    let lines = MarkdownLines::of(&import.path, workspace.now())?;
    let total = lines.len();
    let mut counting = Counting::new(context.output);
    let mut progress = |imported: &Imported| {
        let done_count = imported.entries + imported.pages + imported.links + imported.present;
        counting.show(
            done_count,
            Some(total),
            &counted(imported.entries + imported.present, "entry"),
        );
    };
    let options = ImportOptions {
        dry_run: import.dry_run,
        distrusted: import.distrust,
        merge: import.merge,
    };
    Ok(workspace
        .import_space(&context.actor(), BufReader::new(lines), options, &mut progress)
        .await?)
}

async fn books(context: &Context<'_>, workspace: &Workspace, import: &Import) -> Result<Imported, Failure> {
    let files = if import.path.is_dir() {
        let prefix = workspace.policy().await?.scratchbook.path_prefix.clone();
        let inner = import.path.join(prefix.trim_start_matches('/'));
        let folder = if inner.is_dir() { inner } else { import.path.clone() };
        let mut files = Vec::new();
        find(&folder, "", DEPTH_MAX, &mut files)?;
        if files.is_empty() {
            let message = format!("{} has no file of a scratchbook", import.path.display());
            return Err(Failure::usage("foreign_missing", message).hint("name the folder that contains them"));
        }
        if context.settings.names_thread {
            let wanted = &context.settings.thread;
            files.retain(|(thread, _)| thread == wanted);
            if files.is_empty() {
                let message = format!("{} has no scratchbook of the thread {wanted}", import.path.display());
                return Err(
                    Failure::usage("foreign_missing", message).hint("without --thread, all of them are imported")
                );
            }
        }
        files.sort();
        files
    } else {
        vec![(thread_for(context, &import.path)?, import.path.clone())]
    };
    let mut counting = Counting::new(context.output);
    let mut imported = Imported::default();
    let actor = context.actor();
    for ((thread, file), done_count) in files.iter().zip(0..) {
        counting.show(
            done_count,
            Some(files.len() as u64),
            &counted(imported.entries, "entry"),
        );
        let one = async {
            let text = text_of(file).map_err(|failure| match failure.code() {
                "input_not_text" => failure.hint("--from colony reads a scratchbook as JSON, or a folder of them"),
                _ => failure,
            })?;
            let one = workspace.import_book(&actor, thread, &text, import.dry_run);
            one.await
                .map_err(|error| Failure::from(error).about(&file.display().to_string()))
        };
        imported.add(one.await.map_err(|failure| match done_count {
            done_count if done_count > 0 && !import.dry_run => failure.hint(imported_before(done_count, &imported)),
            _ => failure,
        })?);
    }
    Ok(imported)
}

/// What became of the files before the one that was refused.
fn imported_before(files: u64, imported: &Imported) -> String {
    let verb = if files == 1 { "was" } else { "were" };
    let new = counted(imported.entries, "new entry");
    format!(
        "{} {verb} imported before it, with {new}; repeating the import adds only what is missing",
        counted(files, "file")
    )
}

/// The thread for one file: the one that was named, or the one that the file is named after.
fn thread_for(context: &Context<'_>, file: &Path) -> Result<ThreadKey, Failure> {
    if context.settings.names_thread {
        return Ok(context.settings.thread.clone());
    }
    let name = file.file_name().and_then(|name| name.to_str());
    name.and_then(thread_of).ok_or_else(|| {
        let message = format!("the name of {} names no thread", file.display());
        Failure::usage("thread_invalid", message).hint("name the thread with --thread")
    })
}

/// Finds the files of scratchbooks below `folder`, whose names there begin with `start`.
fn find(folder: &Path, start: &str, depth: u32, files: &mut Vec<(ThreadKey, PathBuf)>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::file("read", folder, &error);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        let is_folder = entry.file_type().map_err(unreadable)?.is_dir();
        if is_folder && name.ends_with('%') && depth > 0 {
            find(&entry.path(), &format!("{start}{name}/"), depth - 1, files)?;
        } else if entry.path().is_file()
            && let Some(thread) = thread_of(&format!("{start}{name}"))
        {
            files.push((thread, entry.path()));
        }
    }
    Ok(())
}

/// Reads a whole file as text.
pub(super) fn text_of(file: &Path) -> Result<String, Failure> {
    let opened = File::open(file).map_err(|error| Failure::file("read", file, &error))?;
    text_from(opened, file)
}

/// The same, but `-` is standard input.
pub(super) fn read_text(file: &Path) -> Result<String, Failure> {
    text_from(source(file)?, file)
}

fn text_from(reader: impl Read, file: &Path) -> Result<String, Failure> {
    let name = file.display().to_string();
    let text = text_within(BOOK_BYTES_MAX, reader, &name, |error| {
        Failure::file("read", file, &error)
    })?;
    let text = text.ok_or_else(|| {
        let message = format!("{name} has more than {BOOK_BYTES_MAX} bytes");
        Failure::usage("input_too_large", message)
    })?;
    Ok(without_mark(&text).to_owned())
}
