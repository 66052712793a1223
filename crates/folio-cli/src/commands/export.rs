//! `folio export`: a space, or its scratchbooks, as files.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use folio::ThreadKey;
use folio::memory::counted::counted;
use folio::memory::scratchbook::colony::{MAX_THREAD_BYTES, file_name};
use folio::store::workspace::Outgoing;
use folio::store::{WorkspaceError, private};
use serde::Serialize;

use super::Context;
use super::markdown_folder::MarkdownFolder;
use crate::counting::Counting;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// The most parts of a damaged store that people are told of one by one.
const MAX_SHOWN_PROBLEMS: usize = 20;
/// How many symbolic links are followed to a file; the system follows no more.
const LINKS_MAX: u32 = 40;

/// `folio export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Format: folio (the whole space as JSON Lines), markdown (the same as a folder with a file for each page) or
    /// colony (a JSON file for each scratchbook; with --thread, only that thread's)
    #[arg(long, value_name = "FORM", default_value = "folio", hide_possible_values = true)]
    format: Form,
    /// File to write; for colony and markdown, the folder [default: standard output]
    #[arg(long, value_name = "FILE", required_if_eq_any([("format", "colony"), ("format", "markdown")]))]
    out: Option<PathBuf>,
    /// Overwrite existing files; not for markdown, which needs a new or empty folder
    #[arg(long, requires = "out")]
    force: bool,
}

/// Forms that others read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Folio's own.
    Folio,
    /// The same as markdown.
    Markdown,
    /// That of seed 003.
    Colony,
}

/// What was written.
#[derive(Debug, Default, Serialize)]
struct Answer {
    format: &'static str,
    files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<u64>,
    entries: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<u64>,
    /// How many entries the format cannot express.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// What could not be read, because the store is damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

impl Report for Answer {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        let summary = match (self.pages, self.links) {
            (Some(pages), Some(links)) => amounts_in_words(self.entries, pages, links),
            _ => counted(self.entries, "entry"),
        };
        writeln!(out, "{summary} in {}", counted(self.files.len() as u64, "file"))?;
        for file in &self.files {
            writeln!(out, "  {file}")?;
        }
        if let Some(left_out) = self.left_out.filter(|left_out| *left_out > 0) {
            writeln!(out, "left out {left_out}: goals, pending actions and forgotten entries")?;
        }
        Ok(())
    }
}

/// The amounts in words.
pub(super) fn amounts_in_words(entries: u64, pages: u64, links: u64) -> String {
    let (entries, pages) = (counted(entries, "entry"), counted(pages, "page"));
    format!("{entries}, {pages} and {}", counted(links, "link"))
}

/// Carries out `folio export`.
pub(crate) async fn run(context: &Context<'_>, export: Export) -> Result<Exit, Failure> {
    match (export.format, export.out) {
        (Form::Colony, Some(folder)) => books(context, &folder, export.force).await,
        (Form::Markdown, Some(_)) if export.force => Err(Failure::usage(
            "usage",
            "--force does not go with --format markdown: a folder is never overwritten",
        )
        .hint("name a folder that does not exist yet")),
        (Form::Markdown, Some(folder)) => pages_to(context, &folder).await,
        (_, Some(file)) if file != Path::new("-") => space_to(context, file, export.force).await,
        _ => {
            let workspace = context.existing_workspace().await?;
            let mut out = BufWriter::new(std::io::stdout());
            // On a terminal, the progress would stand between the lines.
            let is_read = std::io::stdout().is_terminal();
            let mut progress = (!is_read).then(|| counting(context));
            let mut show = |exported| progress.iter_mut().for_each(|progress| progress(exported));
            let (_, problems) = workspace.rescue_space(&mut out, &mut show).await?;
            drop(progress);
            Ok(exit_after(context, &problems))
        }
    }
}

/// Says what could not be read; returns how the program ends then.
fn exit_after(context: &Context<'_>, problems: &[String]) -> Exit {
    if problems.is_empty() {
        return Exit::Done;
    }
    for problem in problems.iter().take(MAX_SHOWN_PROBLEMS) {
        context.output.note(format_args!("cannot be read: {problem}"));
    }
    if let Some(more) = problems.len().checked_sub(MAX_SHOWN_PROBLEMS).filter(|more| *more > 0) {
        context.output.note(format_args!("and {more} more"));
    }
    context
        .output
        .note("the store is damaged; what can be read of it was written");
    Exit::Damaged
}

/// Shows the progress.
fn counting(context: &Context<'_>) -> impl FnMut(Outgoing) + Send {
    let mut counting = Counting::new(context.output);
    move |exported| {
        let (entries, links) = (counted(exported.entries, "entry"), counted(exported.links, "link"));
        let (done, total) = exported.steps.unzip();
        counting.show(done.unwrap_or(0), total, &format!("{entries}, {links}"));
    }
}

/// The report on an export of the whole space, and where it was written.
fn answer(format: &'static str, files: Vec<String>, exported: Outgoing, problems: Vec<String>) -> Answer {
    Answer {
        format,
        files,
        pages: Some(exported.pages),
        entries: exported.entries,
        links: Some(exported.links),
        left_out: None,
        problems,
    }
}

/// Checks that writing `file` destroys nothing: an existing file stays, as with a backup, unless `force` is given.
fn check_not_overwriting(file: &Path, force: bool) -> Result<(), Failure> {
    if (force && !file.is_dir()) || is_sink(file) || file.symlink_metadata().is_err() {
        return Ok(());
    }
    if file.is_dir() {
        let message = format!("{} is a directory", file.display());
        return Err(Failure::usage("file_unusable", message).hint("name a file in it"));
    }
    let message = format!("{} already exists and was not changed", file.display());
    Err(Failure::new(Exit::Refused, "file_unusable", message).hint("overwrite it with --force"))
}

/// Whether `file` is a pipe, a device or the like, which cannot be replaced by a file.
fn is_sink(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// The target of `file` if it is a link to a file, or a dangling one: the target is written, and the link stays.
fn link_target(file: PathBuf) -> PathBuf {
    match std::fs::metadata(&file) {
        Ok(about) if about.is_file() => return file.canonicalize().unwrap_or(file),
        Ok(_) => return file,
        Err(_) => {}
    }
    let mut leads_to = file.clone();
    for _ in 0..LINKS_MAX {
        match leads_to.read_link() {
            Ok(next) => leads_to = leads_to.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return leads_to,
        }
    }
    file
}

/// Opens the file to write to: `file` itself, or `partial`, which is created for its owner alone, or with the
/// permissions of the file that it will replace.
fn open(file: &Path, partial: &Path) -> std::io::Result<File> {
    if partial == file {
        return File::options().write(true).open(file);
    }
    match std::fs::remove_file(partial) {
        // Left behind by an interrupted export.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let out_file = private::options().write(true).create_new(true).open(partial)?;
    if let Ok(before) = file.metadata() {
        out_file.set_permissions(before.permissions())?;
    }
    Ok(out_file)
}

async fn space_to(context: &Context<'_>, named: PathBuf, force: bool) -> Result<Exit, Failure> {
    let is_sink = is_sink(&named);
    if !is_sink {
        // Somebody else may have made a link that leads nowhere yet.
        check_not_overwriting(&named, force)?;
    }
    let file = &*link_target(named);
    let workspace = context.existing_workspace().await?;
    let mut progress = counting(context);
    // If interrupted, this leaves the existing file in place.
    let partial = if is_sink { file.to_owned() } else { partial_path(file) };
    let out_file = open(file, &partial).map_err(|error| Failure::file("write", file, &error))?;
    let mut out = BufWriter::new(out_file);
    let exported = workspace.rescue_space(&mut out, &mut progress).await;
    drop(progress);
    let (exported, problems) = match exported {
        Ok(exported) => exported,
        Err(error) => {
            drop(out);
            if !is_sink {
                // Half an export is of no use to anybody. That it cannot be removed is not the failure to report.
                let _left = std::fs::remove_file(&partial);
            }
            return Err(write_failure(error, file));
        }
    };
    let finished = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .and_then(|out_file| match is_sink {
            true => Ok(()),
            false => out_file.sync_all().and_then(|()| std::fs::rename(&partial, file)),
        });
    finished.map_err(|error| Failure::file("write", file, &error))?;
    let files = vec![file.display().to_string()];
    let exit = exit_after(context, &problems);
    let answer = answer("folio", files, exported, problems);
    context.output.report_ending(&answer, exit)
}

/// Why `file` was not written.
fn write_failure(error: WorkspaceError, file: &Path) -> Failure {
    match error {
        WorkspaceError::Output(error) => Failure::file("write", file, &error),
        error => error.into(),
    }
}

async fn pages_to(context: &Context<'_>, folder: &Path) -> Result<Exit, Failure> {
    let workspace = context.existing_workspace().await?;
    let mut progress = counting(context);
    // If interrupted, this leaves nothing that looks complete.
    let partial = partial_path(folder);
    let mut pages = MarkdownFolder::new(folder, &partial)?;
    let exported = workspace.rescue_space(&mut pages, &mut progress).await;
    drop(progress);
    let finished = match exported {
        Ok(exported) => pages
            .finish(folder)
            .map(|files| (exported, files))
            .map_err(|error| Failure::file("write", folder, &error)),
        Err(error) => Err(write_failure(error, folder)),
    };
    let ((exported, problems), files) = finished.inspect_err(|_| {
        // Half an export is of no use to anybody. That it cannot be removed is not the failure to report.
        let _left = std::fs::remove_dir_all(&partial);
    })?;
    let files = files.iter().map(|file| folder.join(file).display().to_string());
    let exit = exit_after(context, &problems);
    let answer = answer("markdown", files.collect(), exported, problems);
    context.output.report_ending(&answer, exit)
}

/// The name of a file until it is complete.
fn partial_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

async fn books(context: &Context<'_>, folder: &Path, force: bool) -> Result<Exit, Failure> {
    let workspace = context.existing_workspace().await?;
    let threads = if context.settings.names_thread {
        vec![context.settings.thread.clone()]
    } else {
        workspace.book_threads().await?
    };
    let policy = workspace.policy().await?;
    let folder = folder.join(policy.scratchbook.path_prefix.trim_start_matches('/'));
    let file_of = |thread: &ThreadKey| {
        let name = file_name(thread).ok_or_else(|| {
            let message =
                format!("the name of a thread has more than {MAX_THREAD_BYTES} bytes, too many for a file: {thread}");
            Failure::usage("thread_invalid", message)
        })?;
        let file = folder.join(name);
        check_not_overwriting(&file, force).map(|()| file)
    };
    let files = threads.iter().map(file_of).collect::<Result<Vec<_>, _>>()?;
    let mut counting = Counting::new(context.output);
    let mut answer = Answer {
        format: "colony",
        left_out: Some(0),
        ..Answer::default()
    };
    let total = threads.len() as u64;
    for ((thread, file), done_count) in threads.iter().zip(files).zip(0..) {
        counting.show(done_count, Some(total), &counted(done_count, "scratchbook"));
        let (book, left_out) = workspace.export_book(thread).await?;
        write_atomically(&file, book.to_json().as_bytes()).map_err(|error| Failure::file("write", &file, &error))?;
        answer.files.push(file.display().to_string());
        answer.entries += book.items.len() as u64;
        answer.left_out = answer.left_out.map(|before| before + left_out);
    }
    drop(counting);
    context.output.report(&answer)?;
    Ok(Exit::Done)
}

/// Writes `file` as a whole or not at all, and creates the folders that it is in. A pipe or a device gets the bytes
/// directly.
fn write_atomically(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        private::make_folders(folder)?;
    }
    let file = link_target(file.to_owned());
    if is_sink(&file) {
        return open(&file, &file)?.write_all(bytes);
    }
    let partial = partial_path(&file);
    let mut out_file = open(&file, &partial)?;
    out_file.write_all(bytes)?;
    out_file.sync_all()?;
    std::fs::rename(&partial, &file)
}
