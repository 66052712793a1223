//! Symbolic links inside the folder of a repository, through which git would read files from anywhere.

use std::fs;
use std::path::Path;

use super::place::outside_grants_error;
use crate::response::{FailureKind, ToolError};
use crate::roots::Located;

/// How many entries are looked at. A clone has a few hundred; a repository that is never packed has tens of thousands.
const ENTRIES_MAX: usize = 500_000;

/// How many levels of folders are entered: names of branches may contain `/`.
const DEPTH_MAX: usize = 32;

/// Folders of a repository that no allowed command reads.
const SKIPPED_FOLDERS: &[&str] = &["hooks", "lfs", "modules", "rr-cache"];

/// Refuses a repository that contains a link to a place that was not granted.
///
/// The whole folder is checked, not only the parts with known names: `refs/remotes`, one pack, one loose object, and
/// also files that git quotes when it cannot read them (`shallow`) or shows verbatim (`worktrees/x/gitdir`). The cost
/// is reading the names in each folder, without opening the files: the kind of an entry comes with its name. So 10,000
/// loose objects mean 256 folders to read, once per call.
pub(super) fn check(git_dir: &Path, is_granted: &dyn Fn(&Path) -> bool, located: &Located) -> Result<(), ToolError> {
    let mut folders = vec![(git_dir.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        // What cannot be read here, git cannot read either.
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX || depth > DEPTH_MAX {
                return Err(too_many(located, git_dir));
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_symlink() {
                // A dangling link reveals nothing.
                if let Ok(target) = entry.path().canonicalize()
                    && !is_granted(&target)
                {
                    return Err(outside_grants_error(located, &target));
                }
            } else if kind.is_dir() && !(depth == 0 && SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name)) {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(())
}

fn too_many(located: &Located, git_dir: &Path) -> ToolError {
    ToolError::new(
        FailureKind::Denied,
        "git_too_many_files",
        format!(
            "the repository of {} has too many files in {} to be checked for links",
            located.display_path(),
            git_dir.display()
        ),
    )
    .hint("pack it with `git gc`")
}
