//! `folio import --from` another program: which files it keeps, and what they contain.

use std::path::{Path, PathBuf};

use folio::Workspace;
use folio::memory::Invalid;
use folio::memory::counted::counted;
use folio::memory::foreign::{self, Destination, Foreign, TextFile};
use folio::store::WorkspaceError;
use folio::store::workspace::{ImportOptions, Imported, source_of};

use super::Context;
use super::import::{Import, read_text, text_of};
use crate::counting::Counting;
use crate::error::Failure;

/// How many files of a folder are read, and how many levels of folders their paths may have.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: u32 = 8;
/// The usual names of memory bank folders.
const MEMORY_BANK_NAMES: [&str; 3] = ["memory-bank", "memory_bank", ".memory-bank"];

/// A function that reads what a program keeps at a path.
type Read = fn(&Path, &Destination) -> Result<Foreign, Failure>;

/// Imports what `import` names, as `read` reads it.
pub(super) async fn import_with(
    context: &Context<'_>,
    workspace: &Workspace,
    import: &Import,
    read: Read,
) -> Result<Imported, Failure> {
    let to = Destination {
        space: workspace.space().clone(),
        thread: context.settings.thread.clone(),
        source: source_of(&context.actor()),
        now: workspace.now(),
    };
    let read_items = read(&import.path, &to)?;
    let total = (read_items.items.len() + read_items.links.len()) as u64;
    let mut counting = Counting::new(context.output);
    let mut progress = |imported: &Imported| {
        let done_count = imported.entries + imported.present;
        counting.show(done_count, Some(total), &counted(done_count, "entry"));
    };
    let options = ImportOptions {
        dry_run: import.dry_run,
        distrusted: true,
        merge: false,
    };
    let actor = context.actor();
    let importing = workspace.import_foreign(&actor, read_items, options, &mut progress);
    Ok(Box::pin(importing).await?)
}

pub(super) fn mcp_memory(path: &Path, to: &Destination) -> Result<Foreign, Failure> {
    let text = read_first_file(path, &["memory.jsonl", "memory.json"])?;
    Ok(foreign::mcp_memory(&text, to))
}

pub(super) fn beads(path: &Path, to: &Destination) -> Result<Foreign, Failure> {
    let text = read_first_file(path, &[".beads/issues.jsonl", "issues.jsonl", "beads.jsonl"])?;
    Ok(foreign::beads(&text, to))
}

pub(super) fn task_master(path: &Path, to: &Destination) -> Result<Foreign, Failure> {
    let places = [".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json"];
    let text = read_first_file(path, &places)?;
    let about = |error| Failure::from(WorkspaceError::from(error)).about(&path.display().to_string());
    foreign::task_master(&text, to).map_err(about)
}

pub(super) fn claude_tasks(path: &Path, to: &Destination) -> Result<Foreign, Failure> {
    let Files { mut read, unread } = read_files(path, "json")?;
    // 2.json comes before 10.json.
    read.sort_by_cached_key(|file| {
        let (list, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let number = name.trim_end_matches(".json").parse().unwrap_or(u64::MAX);
        (list.to_owned(), number, name.to_owned())
    });
    let mut foreign = foreign::claude_tasks(&read, to);
    foreign.refused.extend(unread);
    Ok(foreign)
}

pub(super) fn memory_bank(path: &Path, to: &Destination) -> Result<Foreign, Failure> {
    // A single file has no folder that names the memory bank, and any text would pass for markdown.
    if path.is_file() {
        let message = format!(
            "{} is a file; a memory bank is a folder of markdown files",
            path.display()
        );
        return Err(Failure::usage("foreign_missing", message).hint("name the folder that contains them"));
    }
    let folder_path = path
        .canonicalize()
        .map_err(|error| Failure::file("read", path, &error))?;
    let name_of = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let folder = name_of(&folder_path).unwrap_or_else(|| "memory-bank".to_owned());
    // Most projects use this name, so the project's folder tells which memory bank it is.
    let project = folder_path
        .parent()
        .and_then(name_of)
        .filter(|_| MEMORY_BANK_NAMES.contains(&folder.as_str()));
    let name = project.map_or_else(|| folder.clone(), |project| format!("{project}/{folder}"));
    let Files { read, unread } = read_files(path, "md")?;
    let mut foreign = foreign::memory_bank(&name, &read, to);
    foreign.refused.extend(unread);
    Ok(foreign)
}

/// Reads the file at `path` or, if that is a folder, the first of `places` in it that exists.
fn read_first_file(path: &Path, places: &[&str]) -> Result<String, Failure> {
    if !path.is_dir() {
        return read_text(path);
    }
    let file = places.iter().map(|name| path.join(name)).find(|file| file.is_file());
    match file {
        Some(file) => text_of(&file),
        None => {
            let message = format!("{} has none of {}", path.display(), places.join(", "));
            Err(Failure::usage("foreign_missing", message).hint("name the file itself"))
        }
    }
}

/// The files of a folder.
#[derive(Default)]
struct Files {
    read: Vec<TextFile>,
    /// Files that are not text, by their paths, and why: they do not keep the others out.
    unread: Vec<(String, Invalid)>,
}

/// Reads the files with `ending` in the folder `path` and below it, by their paths, or that single file.
fn read_files(path: &Path, ending: &str) -> Result<Files, Failure> {
    let mut files = Vec::new();
    if path.is_dir() {
        find(path, "", ending, DEPTH_MAX, &mut files)?;
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, path.to_owned()));
    }
    if files.is_empty() {
        let message = format!("{} has no file *.{ending}", path.display());
        return Err(Failure::usage("foreign_missing", message).hint("name the folder that contains them"));
    }
    files.sort();
    let mut sorted = Files::default();
    for (path, file) in files {
        match text_of(&file) {
            Ok(text) => sorted.read.push(TextFile { path, text }),
            Err(failure) if failure.code() == "input_not_text" => {
                sorted
                    .unread
                    .push((path, Invalid::new("input_not_text", "file", "is not valid UTF-8")));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(sorted)
}

fn find(
    folder: &Path,
    start: &str,
    ending: &str,
    depth: u32,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::file("read", folder, &error);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // Links may lead anywhere, and names that begin with a dot are a program's own.
        let sort = entry.file_type().map_err(unreadable)?;
        if name.starts_with('.') {
            continue;
        }
        if sort.is_dir() && depth > 0 {
            find(&path, &format!("{start}{name}/"), ending, depth - 1, files)?;
        } else if sort.is_file() && path.extension().is_some_and(|found| found == ending) {
            files.push((format!("{start}{name}"), path));
        }
        if files.len() > FILES_MAX {
            let message = format!("{} has more than {FILES_MAX} files *.{ending}", folder.display());
            return Err(Failure::usage("input_too_large", message).hint("import it folder by folder"));
        }
    }
    Ok(())
}
