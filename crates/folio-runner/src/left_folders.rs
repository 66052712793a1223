//! Folders of forks that never began. A fork copies the files of the source before it is recorded, and if the process
//! is killed in between, the copy stays. Several stores may keep their runs in one folder, so such a folder is not
//! recognised by the store lacking the run, but by a mark beside it, which names the store and space that it was made
//! for.
//!
//! And folders of runs that were forgotten.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{RunId, SpaceName};
use folio_store::{ErrorKind, Store, StoreError, Workspace};
use serde::{Deserialize, Serialize};

/// The suffix after the id of a run in the name of its mark.
const MARK_SUFFIX: &str = ".forking";
/// No fork takes this long to be recorded.
const MAX_FORK_TIME: Duration = Duration::from_secs(60 * 60);

/// Whose run a folder is for, and when it was made.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    store: String,
    space: String,
    at: i64,
}

/// The folder of a fork that was never recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftFolder {
    /// The path of the folder.
    pub path: PathBuf,
    mark: PathBuf,
}

impl LeftFolder {
    /// Removes the folder with everything in it.
    ///
    /// # Errors
    ///
    /// Errors of the file system. A folder that is gone already is no error.
    pub fn remove(&self) -> io::Result<()> {
        // The copy is first made under another name.
        ignore_not_found(std::fs::remove_dir_all(with_ending(&self.path, ".new")))?;
        ignore_not_found(std::fs::remove_dir_all(&self.path))?;
        ignore_not_found(std::fs::remove_file(&self.mark))
    }
}

/// The folders that forks which never began left below `folders` more than an hour ago, for runs of `store` in `space`,
/// or in any space.
///
/// # Errors
///
/// `Unavailable` or `Corrupt` from the store. What cannot be read below `folders` is skipped.
pub async fn left_folders(
    folders: &Path,
    store: &dyn Store,
    space: Option<&SpaceName>,
) -> Result<Vec<LeftFolder>, StoreError> {
    let now = store.clock().now();
    let mut left = Vec::new();
    for (run, path) in marks_in(folders) {
        let Some(mark) = read(&path) else { continue };
        let Ok(mark_space) = SpaceName::parse(&mark.space) else {
            continue;
        };
        let at = folio_memory::Timestamp::from_nanos(mark.at);
        let is_ours = mark.store == store.location() && space.is_none_or(|space| *space == mark_space);
        if !is_ours || now.since(at) < MAX_FORK_TIME {
            continue;
        }
        match store.run(&mark_space, Ref::Id(run)).await {
            // The run was recorded, but the process ended before it removed the mark.
            Ok(_) => std::fs::remove_file(&path).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::NotFound => left.push(LeftFolder {
                path: folders.join(run.to_string()),
                mark: path,
            }),
            Err(error) => return Err(error),
        }
    }
    left.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(left)
}

/// Removes the folders of the forgotten `runs` below `folders`, with everything in them, and returns their paths. A link
/// is never followed: one in the place of a folder is left, and of one inside a folder only the link is removed. What
/// cannot be removed is left, too.
pub async fn remove_run_folders(folders: PathBuf, runs: &[RunId]) -> Vec<String> {
    let paths: Vec<PathBuf> = runs.iter().map(|run| folders.join(run.to_string())).collect();
    let removed = tokio::task::spawn_blocking(move || {
        let is_folder = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let removed = paths.into_iter().filter(is_folder);
        let removed = removed.filter(|path| std::fs::remove_dir_all(path).is_ok());
        removed.map(|path| path.display().to_string()).collect()
    });
    removed.await.unwrap_or_default()
}

/// Marks that the folder of `fork` below `folders` is being made, for a run of `workspace`.
pub(crate) fn mark(folders: &Path, workspace: &Workspace, fork: RunId) {
    let mark = Mark {
        store: workspace.store().location(),
        space: workspace.space().to_string(),
        at: workspace.now().as_nanos(),
    };
    let text = serde_json::to_string(&mark).unwrap_or_default();
    // Without the mark, leftovers are not found: no reason to refuse the run.
    std::fs::write(mark_of(folders, fork), text).unwrap_or_default();
}

/// Removes the mark of `fork`: its run is recorded, or its folder is gone.
pub(crate) fn unmark(folders: &Path, fork: RunId) {
    std::fs::remove_file(mark_of(folders, fork)).unwrap_or_default();
}

fn mark_of(folders: &Path, fork: RunId) -> PathBuf {
    with_ending(&folders.join(fork.to_string()), MARK_SUFFIX)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn marks_in(folders: &Path) -> Vec<(RunId, PathBuf)> {
    let entries = std::fs::read_dir(folders).into_iter().flatten().flatten();
    let marks = entries.filter_map(|entry| {
        let name = entry.file_name();
        let run = name.to_str()?.strip_suffix(MARK_SUFFIX)?.parse().ok()?;
        Some((run, entry.path()))
    });
    marks.collect()
}

fn read(mark: &Path) -> Option<Mark> {
    serde_json::from_slice(&std::fs::read(mark).ok()?).ok()
}

fn ignore_not_found(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
