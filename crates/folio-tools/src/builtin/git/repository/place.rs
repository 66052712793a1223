//! Where the parts of a repository lie, and whether all of them were granted.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::links;
use crate::response::{FailureKind, ToolError};
use crate::roots::Located;

/// The longest chain of object stores that borrow from one another.
const BORROWED_MAX: usize = 16;

/// The largest size of a file that says where a part of a repository lies, in bytes.
const POINTER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct Place {
    /// Where git runs: the top of the working tree, or the repository itself if it is bare.
    pub(super) folder: PathBuf,
    git_dir: PathBuf,
    /// The part that all worktrees of the repository share, if `git_dir` names one.
    common: Option<PathBuf>,
    /// Whether the working tree is in `folder`, whatever the settings of the repository say.
    is_worktree_in_folder: bool,
    pub(super) is_shallow: bool,
}

/// The folders that a run was granted.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    /// All of them, including the run's own if the repository is looked for there.
    pub(super) all: Vec<PathBuf>,
    /// The folders that calls of the run may write to.
    pub(super) to_write: Vec<PathBuf>,
}

impl Granted {
    /// Whether a call of the run could have written what is in `path`, or could do so while git reads it. It cannot
    /// write below a folder called `.git` (`write` refuses that).
    fn may_be_written(&self, path: &Path) -> bool {
        let is_git_folder = |part: Component<'_>| matches!(part, Component::Normal(name) if name.as_bytes().eq_ignore_ascii_case(b".git"));
        let inner_paths = self.to_write.iter().filter_map(|root| path.strip_prefix(root).ok());
        inner_paths
            .into_iter()
            .any(|rest| !rest.components().any(is_git_folder))
    }
}

impl Place {
    /// Finds the repository that `located` is in, without leaving its root.
    ///
    /// Git itself would look in the folders above the root, and follow a file named `.git`; both may lead out of what
    /// was granted.
    pub(super) fn find(located: &Located, granted: &Granted) -> Result<Self, ToolError> {
        let start = located.real_folder()?;
        let root = located.root.path();
        for folder in start.ancestors().take_while(|folder| folder.starts_with(root)) {
            let entry = folder.join(".git");
            let Ok(found) = fs::symlink_metadata(&entry) else {
                continue;
            };
            let git_dir = if found.is_file() { linked(&entry)? } else { entry };
            let git_dir = git_dir.canonicalize().map_err(|_| not_a_repository(located))?;
            return Self::checked((folder.to_owned(), git_dir), true, granted, located);
        }
        if is_bare(&start) {
            return Self::checked((start.clone(), start), false, granted, located);
        }
        Err(not_a_repository(located))
    }

    fn checked(
        (folder, git_dir): (PathBuf, PathBuf),
        has_files: bool,
        grants: &Granted,
        located: &Located,
    ) -> Result<Self, ToolError> {
        let mut granted_folders = grants.all.clone();
        let linked_common = common_dir(&git_dir).map_err(|_| not_a_repository(located))?;
        let common = linked_common.as_ref().unwrap_or(&git_dir);
        if is_linked_worktree(&folder, &git_dir, common) {
            // The repository lists this folder as one of its worktrees, so granting the folder is enough.
            granted_folders.push(common.clone());
        }
        let is_granted = |path: &Path| granted_folders.iter().any(|root| path.starts_with(root));
        for part in [&git_dir, common] {
            if !is_granted(part) {
                return Err(outside_grants_error(located, part));
            }
            if grants.may_be_written(part) {
                return Err(writable_repository_error(located, part));
            }
        }
        links::check(common, &is_granted, located)?;
        if !git_dir.starts_with(common) {
            links::check(&git_dir, &is_granted, located)?;
        }
        check_borrowed(&common.join("objects"), &is_granted, located)?;
        if !common.join("objects").is_dir() {
            return Err(not_a_repository(located));
        }
        Ok(Self {
            folder,
            is_shallow: common.join("shallow").exists(),
            common: linked_common,
            git_dir,
            is_worktree_in_folder: has_files,
        })
    }

    /// Treats the folder of the repository itself as the working tree, for a bare repository whose settings say that
    /// the files are elsewhere.
    pub(super) fn use_folder_as_worktree(&mut self) {
        self.is_worktree_in_folder = true;
    }

    /// Whether there is a working tree.
    pub(super) fn has_files(&self) -> bool {
        self.is_worktree_in_folder
    }

    /// Tells git where everything is, so that it does not search by itself and no setting sends it elsewhere.
    ///
    /// Unless it `opens_files`, git cannot enter the working tree, and fails if it needs to.
    pub(super) fn environment(&self, opens_files: bool) -> Vec<(OsString, OsString)> {
        let mut environment = vec![(OsString::from("GIT_DIR"), self.git_dir.clone().into())];
        if let Some(common) = &self.common {
            // Git interprets the name of this folder by rules of its own.
            environment.push(("GIT_COMMON_DIR".into(), common.clone().into()));
        }
        if self.is_worktree_in_folder {
            let folder = if opens_files {
                &*self.folder
            } else {
                Path::new("/dev/null")
            };
            environment.push(("GIT_WORK_TREE".into(), folder.into()));
        }
        environment
    }
}

/// Where a file named `.git` points.
fn linked(entry: &Path) -> Result<PathBuf, ToolError> {
    let broken = || {
        ToolError::new(
            FailureKind::Failed,
            "not_a_repository",
            format!("cannot read {} as a link to a repository", entry.display()),
        )
    };
    let text = small_text(entry).map_err(|_| broken())?;
    let to = text.strip_prefix(b"gitdir:").ok_or_else(broken)?.trim_ascii();
    Ok(entry.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(to)))
}

/// Reads a small regular file whole. Anything else is an error: opening a pipe would block, and a device need not end.
fn small_text(path: &Path) -> io::Result<Vec<u8>> {
    let is_small = |found: &fs::Metadata| found.is_file() && found.len() <= POINTER_BYTES_MAX;
    let refused = || io::Error::from(io::ErrorKind::InvalidInput);
    // Some devices act when they are opened, so the file is checked before that, too.
    if !is_small(&fs::metadata(path)?) {
        return Err(refused());
    }
    let never_wait = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(never_wait.bits().cast_signed())
        .open(path)?;
    if !is_small(&file.metadata()?) {
        return Err(refused());
    }
    let mut text = Vec::new();
    file.take(POINTER_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// The part of a repository that all of its worktrees share; `None` if it is the repository itself.
fn common_dir(git_dir: &Path) -> io::Result<Option<PathBuf>> {
    match small_text(&git_dir.join("commondir")) {
        Ok(text) => git_dir
            .join(OsStr::from_bytes(text.trim_ascii_end()))
            .canonicalize()
            .map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether `git_dir`, which is outside of the folder, itself states that it belongs to the folder. The folder alone
/// could claim any repository.
fn is_linked_worktree(folder: &Path, git_dir: &Path, common: &Path) -> bool {
    let is_in_place = git_dir.parent() == Some(common.join("worktrees").as_path());
    let Ok(back_link) = small_text(&git_dir.join("gitdir")) else {
        return false;
    };
    let back_link = git_dir.join(OsStr::from_bytes(back_link.trim_ascii_end()));
    is_in_place && back_link.canonicalize().ok() == folder.join(".git").canonicalize().ok()
}

/// Checks that the object stores that this one borrows from were granted, too.
fn check_borrowed(objects: &Path, is_granted: &dyn Fn(&Path) -> bool, located: &Located) -> Result<(), ToolError> {
    let mut stores = vec![objects.to_owned()];
    let mut seen = 0;
    while let Some(store) = stores.pop() {
        seen += 1;
        let list = store.join("info/alternates");
        let text = match small_text(&list) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Git may be able to read what could not be read here.
            Err(_) => return Err(unclear_alternates_error(located, &list)),
        };
        // Line by line and byte by byte, as git reads it.
        for line in text.split(|byte| *byte == b'\n') {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if line.starts_with(b"\"") {
                return Err(unclear_alternates_error(located, &list));
            }
            let Ok(borrowed) = store.join(OsStr::from_bytes(line)).canonicalize() else {
                continue;
            };
            if !is_granted(&borrowed) || seen > BORROWED_MAX {
                return Err(outside_grants_error(located, &borrowed));
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
        format!("{} is not in a git repository", located.display_path()),
    )
    .hint("the top of the repository must be inside the granted folder")
}

/// The error for a repository whose settings, which can make git run programs, a call of the run may write.
fn writable_repository_error(located: &Located, part: &Path) -> ToolError {
    ToolError::new(
        FailureKind::Denied,
        "git_folder",
        format!(
            "cannot look at the repository of {}: {} is not in a folder called .git, so `write` could give it settings that make git run programs",
            located.display_path(),
            part.display()
        ),
    )
    .hint("grant the folder for reading only")
}

/// The error for a list of borrowed stores if it is unclear where the list leads.
fn unclear_alternates_error(located: &Located, list: &Path) -> ToolError {
    ToolError::new(
        FailureKind::Denied,
        "path_outside_root",
        format!(
            "cannot tell what the repository of {} borrows from: {} is not a short list of plain paths",
            located.display_path(),
            list.display()
        ),
    )
}

pub(super) fn outside_grants_error(located: &Located, part: &Path) -> ToolError {
    ToolError::new(
        FailureKind::Denied,
        "path_outside_root",
        format!(
            "a part of the repository of {} lies in {}, which was not granted",
            located.display_path(),
            part.display()
        ),
    )
    .hint(format!("grant {} too, for reading", part.display()))
}
