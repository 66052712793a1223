//! `folio files`: lists, reads and searches memory as files.

use std::fmt::{self, Write as _};

use clap::{Args, Subcommand};
use folio::Workspace;
use folio::memory::files::{FileEntry, FileKind, Hits};
use folio::store::{StoreError, WorkspaceError};
use folio_server::wire::{PassageShape, ReadOn};
use serde::Serialize;

use super::Context;
use super::blob::{PartArguments, remark};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::settings::quoted;

/// `folio files`.
#[derive(Debug, Subcommand)]
pub(crate) enum Files {
    /// List a folder: /scratchbook, /conversation_history, /large_tool_results, /pages
    Ls(Ls),
    /// Print a file, or part of it
    Cat(Cat),
    /// Search for a text in a file, or in all files below a folder
    Grep(Grep),
}

/// `folio files ls`.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Folder to list
    #[arg(default_value = "/")]
    path: String,
}

/// `folio files cat`.
#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// File to print
    path: String,
    #[command(flatten)]
    part: PartArguments,
}

/// `folio files grep`.
#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// Text to search for, ignoring case
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    words: String,
    /// File or folder to search
    #[arg(default_value = "/")]
    path: String,
    /// Continue after this file
    #[arg(long, value_name = "PATH")]
    after: Option<String>,
    /// Approximate maximum bytes of text
    #[arg(long, value_name = "BYTES", default_value_t = 32 * 1024, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    max_bytes: u32,
}

#[derive(Debug, Serialize)]
struct Listed {
    files: Vec<FileEntry>,
}

impl Report for Listed {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for FileEntry { path, kind } in &self.files {
            match kind {
                FileKind::Folder => writeln!(out, "{}", style.strong(format_args!("{path}/")))?,
                FileKind::File => writeln!(out, "{path}")?,
            }
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
struct Found {
    #[serde(flatten)]
    hits: Hits,
}

impl Report for Found {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for hit in &self.hits.hits {
            let location = style.faint(format_args!("{}:{}:", hit.path, hit.line.line));
            writeln!(out, "{location} {}", hit.line.text)?;
        }
        Ok(())
    }
}

/// Whether the file at `path` could not be read because it is a folder.
async fn is_folder(workspace: &Workspace, path: &str, error: &WorkspaceError) -> bool {
    matches!(error, WorkspaceError::Store(StoreError::NotFound { .. })) && workspace.list_files(path).await.is_ok()
}

/// The failure for a folder that was to be printed as a file.
fn folder_failure(context: &Context<'_>, path: &str) -> Failure {
    let again = context.settings.repeated();
    Failure::new(Exit::NotFound, "not_found", format!("{path} is a folder, not a file"))
        .hint(format!("`folio files ls {}{again}` lists it", quoted(path)))
}

/// Carries out `folio files`.
pub(crate) async fn run(context: &Context<'_>, files: Files) -> Result<Exit, Failure> {
    let workspace = context.workspace_if_any().await?;
    match files {
        Files::Ls(ls) => {
            let files = workspace.list_files(&ls.path).await?;
            context.output.report(&Listed { files })?;
        }
        Files::Cat(cat) => {
            let query = cat.part.searched();
            let (part, max_bytes) = cat.part.part()?;
            let passage = match workspace.read_file(&cat.path, &part, max_bytes).await {
                Ok(passage) => passage,
                Err(error) if is_folder(&workspace, &cat.path, &error).await => {
                    return Err(folder_failure(context, &cat.path));
                }
                Err(error) => return Err(error.into()),
            };
            let answer = PassageShape::of(passage, query.as_deref(), ReadOn::Options);
            context.output.report(&answer)?;
            if let Some(remark) = remark(&answer) {
                context.output.note(remark);
            }
        }
        Files::Grep(grep) => {
            let after = grep.after.as_deref();
            let hits = workspace
                .search_files(&grep.path, &grep.words, after, grep.max_bytes as usize)
                .await?;
            let next = hits.next.clone();
            context.output.report(&Found { hits })?;
            if let Some(next) = next {
                context
                    .output
                    .note(format_args!("there may be more; continue with --after {next}"));
            }
        }
    }
    Ok(Exit::Done)
}
