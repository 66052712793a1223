//! Where the parts of a repository lie, and whether all of them were granted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::response::{FailureKind, ToolError};
use crate::roots::Located;

/// Stores that one store may borrow from, one after the other.
const BORROWED_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Place {
    /// Where git runs: the top of the files, or the repository itself if it has no files.
    pub(super) folder: PathBuf,
    git_dir: PathBuf,
    has_files: bool,
    pub(super) is_shallow: bool,
}

impl Place {
    /// Finds the repository that `located` is in, without leaving its root.
    ///
    /// git would look for it in the folders above the root, and go where a file named `.git` sends it;
    /// both lead out of what was granted.
    pub(super) fn find(located: &Located, granted: &[PathBuf]) -> Result<Self, ToolError> {
        let start = located.real_folder()?;
        let root = located.root.path();
        for folder in start.ancestors().take_while(|folder| folder.starts_with(root)) {
            let entry = folder.join(".git");
            let Ok(found) = fs::symlink_metadata(&entry) else {
                continue;
            };
            let git_dir = if found.is_file() { linked(&entry)? } else { entry };
            let git_dir = git_dir.canonicalize().map_err(|_| not_a_repository(located))?;
            return Self::checked(folder.to_owned(), git_dir, true, granted, located);
        }
        if is_bare(&start) {
            return Self::checked(start.clone(), start, false, granted, located);
        }
        Err(not_a_repository(located))
    }

    fn checked(
        folder: PathBuf,
        git_dir: PathBuf,
        has_files: bool,
        granted: &[PathBuf],
        located: &Located,
    ) -> Result<Self, ToolError> {
        let mut granted = granted.to_vec();
        let common = common_dir(&git_dir).map_err(|_| not_a_repository(located))?;
        if is_linked_worktree(&folder, &git_dir, &common) {
            // The repository knows this folder as one of its own, so granting the folder is enough.
            granted.push(common.clone());
        }
        let is_granted = |path: &Path| granted.iter().any(|root| path.starts_with(root));
        for part in [&git_dir, &common] {
            if !is_granted(part) {
                return Err(elsewhere(located, part));
            }
        }
        for (holder, names) in [
            (&git_dir, &["HEAD", "index", "config.worktree", "logs"][..]),
            (
                &common,
                &[
                    "objects",
                    "objects/pack",
                    "objects/info",
                    "refs",
                    "packed-refs",
                    "config",
                    "info",
                ],
            ),
        ] {
            for name in names {
                if let Ok(real) = holder.join(name).canonicalize()
                    && !is_granted(&real)
                {
                    return Err(elsewhere(located, &real));
                }
            }
        }
        check_borrowed(&common.join("objects"), &is_granted, located)?;
        if !common.join("objects").is_dir() {
            return Err(not_a_repository(located));
        }
        Ok(Self {
            folder,
            is_shallow: common.join("shallow").exists(),
            git_dir,
            has_files,
        })
    }

    /// Tells git where everything is, so that it does not look for itself and no setting sends it
    /// elsewhere.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment = vec![(OsString::from("GIT_DIR"), self.git_dir.clone().into())];
        if self.has_files {
            environment.push((OsString::from("GIT_WORK_TREE"), self.folder.clone().into()));
        }
        environment
    }
}

/// Where a file named `.git` sends git.
fn linked(entry: &Path) -> Result<PathBuf, ToolError> {
    let broken = || {
        ToolError::new(
            FailureKind::Failed,
            "not_a_repository",
            format!("cannot read {} as a link to a repository", entry.display()),
        )
    };
    let text = small_text(entry).map_err(|_| broken())?;
    let to = text.strip_prefix("gitdir:").ok_or_else(broken)?.trim();
    Ok(entry.parent().unwrap_or(Path::new("/")).join(to))
}

fn small_text(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > 64 * 1024 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read_to_string(path)
}

/// The part of a repository that all of its folders share.
fn common_dir(git_dir: &Path) -> io::Result<PathBuf> {
    match small_text(&git_dir.join("commondir")) {
        Ok(text) => git_dir.join(text.trim_end()).canonicalize(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(git_dir.to_owned()),
        Err(error) => Err(error),
    }
}

/// Whether `git_dir`, outside of the folder, says itself that it belongs to the folder. The folder alone
/// could claim any repository.
fn is_linked_worktree(folder: &Path, git_dir: &Path, common: &Path) -> bool {
    let in_its_place = git_dir.parent() == Some(common.join("worktrees").as_path());
    let Ok(back) = small_text(&git_dir.join("gitdir")) else {
        return false;
    };
    let back = git_dir.join(back.trim_end());
    in_its_place && back.canonicalize().ok() == folder.join(".git").canonicalize().ok()
}

/// Whether the stores of objects that this one borrows from were granted too.
fn check_borrowed(objects: &Path, is_granted: &dyn Fn(&Path) -> bool, located: &Located) -> Result<(), ToolError> {
    let mut stores = vec![objects.to_owned()];
    let mut seen = 0;
    while let Some(store) = stores.pop() {
        seen += 1;
        let Ok(text) = small_text(&store.join("info/alternates")) else {
            continue;
        };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Ok(borrowed) = store.join(line).canonicalize() else {
                continue;
            };
            if !is_granted(&borrowed) || seen > BORROWED_MAX {
                return Err(elsewhere(located, &borrowed));
            }
            stores.push(borrowed);
        }
    }
    Ok(())
}

fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

fn not_a_repository(located: &Located) -> ToolError {
    ToolError::new(
        FailureKind::NotFound,
        "not_a_repository",
        format!("{} is in no git repository", located.shown()),
    )
    .hint("the top of the repository must be inside the granted folder")
}

fn elsewhere(located: &Located, part: &Path) -> ToolError {
    ToolError::new(
        FailureKind::Denied,
        "path_outside_root",
        format!(
            "a part of the repository of {} lies in {}, which was not granted",
            located.shown(),
            part.display()
        ),
    )
    .hint(format!("grant {} too, for reading", part.display()))
}
