//! The files of this repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The root folder of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2);
    root.expect("this crate is two folders below the root").to_owned()
}

/// A text file and its path from the root, with slashes.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// Whether its name ends with one of `extensions`.
    pub(crate) fn is(&self, extensions: &[&str]) -> bool {
        extensions.iter().any(|end| self.path.ends_with(end))
    }

    /// The folder that it is in, `""` for the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// Every text file below `folder` of the repository, in the order of their paths.
pub(crate) fn files_in(folder: &str) -> Vec<TextFile> {
    let mut found = Vec::new();
    collect(&root(), &root().join(folder), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Rust files of the crates.
pub(crate) fn rust_files() -> Vec<TextFile> {
    let mut files = files_in("crates");
    files.retain(|file| file.is(&[".rs"]));
    assert!(files.len() > 50, "only {} Rust files were found", files.len());
    files
}

/// The documents for people.
pub(crate) fn markdown_files() -> Vec<TextFile> {
    let mut files = files_in("");
    files.retain(|file| file.is(&[".md"]));
    assert!(files.len() > 10, "only {} documents were found", files.len());
    files
}

/// The text of one file.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<TextFile>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        // In a further worktree, .git is a file with the place of the first.
        if matches!(name.to_str(), Some("target" | ".git" | "node_modules")) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, found);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
            && let Ok(inside) = path.strip_prefix(root)
        {
            let path = inside.to_string_lossy().replace('\\', "/");
            found.push(TextFile { path, text });
        }
    }
}

/// Fails with all of `problems`, one per line, if there are any.
#[track_caller]
pub(crate) fn assert_none(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} problems:\n  {}",
        problems.len(),
        problems.join("\n  ")
    );
}
