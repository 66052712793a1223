//! Folders of runs that never began: a fork copies the files of the other run before it is recorded, and whoever is killed in between
//! leaves them there. Several stores may have their runs in one folder, so it is not by what a store lacks that such a one is known, but by
//! a mark beside it, which says whose it was to be.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::{RunId, SpaceName};
use folio_store::{ErrorKind, Store, StoreError, Workspace};
use serde::{Deserialize, Serialize};

/// What stands behind the id of a run in the name of its mark.
const ENDING: &str = ".forking";
/// No fork takes as long as that to be recorded.
const LEFT_AFTER: Duration = Duration::from_secs(60 * 60);

/// Whose a folder is to be, and when that was said.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    store: String,
    space: String,
    at: i64,
}

/// A folder that a fork left behind which was never recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftFolder {
    /// Where it is.
    pub path: PathBuf,
    mark: PathBuf,
}

impl LeftFolder {
    /// Removes it with all that is in it.
    ///
    /// # Errors
    ///
    /// As of the system. What is gone already is no error.
    pub fn remove(&self) -> io::Result<()> {
        // The copy is made under another name.
        gone(std::fs::remove_dir_all(with_ending(&self.path, ".new")))?;
        gone(std::fs::remove_dir_all(&self.path))?;
        gone(std::fs::remove_file(&self.mark))
    }
}

/// What forks that never began have left below `folders` more than an hour ago, for runs of `store` in `space`, or in any space.
///
/// # Errors
///
/// `Unavailable` or `Corrupt`, of the store. What cannot be read below `folders` is left out.
pub async fn left_folders(
    folders: &Path,
    store: &dyn Store,
    space: Option<&SpaceName>,
) -> Result<Vec<LeftFolder>, StoreError> {
    let now = store.clock().now();
    let mut left = Vec::new();
    for (run, path) in marks_in(folders) {
        let Some(mark) = read(&path) else { continue };
        let Ok(of) = SpaceName::parse(&mark.space) else {
            continue;
        };
        let at = folio_memory::Timestamp::from_nanos(mark.at);
        let is_meant = mark.store == store.location() && space.is_none_or(|space| *space == of);
        if !is_meant || now.since(at) < LEFT_AFTER {
            continue;
        }
        match store.run(&of, Ref::Id(run)).await {
            // It was recorded, and nobody was left to take the mark away.
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

/// Says that the folder of `fork` below `folders` is being made, for a run of `workspace`.
pub(crate) fn mark(folders: &Path, workspace: &Workspace, fork: RunId) {
    let mark = Mark {
        store: workspace.store().location(),
        space: workspace.space().to_string(),
        at: workspace.now().as_nanos(),
    };
    let text = serde_json::to_string(&mark).unwrap_or_default();
    // Without it, what is left behind stays: no reason to begin no run.
    std::fs::write(mark_of(folders, fork), text).unwrap_or_default();
}

/// Takes the mark of `fork` away: its run is recorded, or its folder is gone.
pub(crate) fn unmark(folders: &Path, fork: RunId) {
    std::fs::remove_file(mark_of(folders, fork)).unwrap_or_default();
}

fn mark_of(folders: &Path, fork: RunId) -> PathBuf {
    with_ending(&folders.join(fork.to_string()), ENDING)
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
        let run = name.to_str()?.strip_suffix(ENDING)?.parse().ok()?;
        Some((run, entry.path()))
    });
    marks.collect()
}

fn read(mark: &Path) -> Option<Mark> {
    serde_json::from_slice(&std::fs::read(mark).ok()?).ok()
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
