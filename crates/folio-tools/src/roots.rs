//! Granted folders, and paths that cannot leave them.
//!
//! A root is opened once, as a handle; every later step starts from that handle, folder by folder, so that neither
//! `..` nor a symbolic link leads out of it, not even a link that is put in place at the wrong moment.

mod failure;
mod located;

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};

use crate::paths::{named, path_from_bytes, shown};
use crate::response::{FailureKind, ToolError};

pub(crate) use failure::io_failure;
pub(crate) use located::{Located, open_regular, read_small};

/// The name of the run's own folder in paths: `run:report.md`.
pub const RUN: &str = "run";

/// What may be done in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Files may be read.
    Read,
    /// Files may be read, created and replaced.
    ReadWrite,
}

/// A root that cannot be granted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// The folder cannot be opened.
    #[error("cannot open the folder {path} as root `{name}`")]
    Open {
        /// The root's name.
        name: String,
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The name cannot be used in `name:path`.
    #[error("`{name}` cannot be the name of a root: use letters, digits, `-` and `_`")]
    Name {
        /// The name.
        name: String,
    },
    /// Two roots have the same name, or one has the name of the run folder.
    #[error("there are two roots with the name `{name}`")]
    Taken {
        /// The name.
        name: String,
    },
}

/// A granted folder, opened.
pub struct Root {
    name: String,
    path: PathBuf,
    given_path: PathBuf,
    access: Access,
    dir: Dir,
}

impl fmt::Debug for Root {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Root")
            .field("name", &self.name)
            .field("path", &self.path)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Root {
    /// Opens the folder `path` under `name`.
    ///
    /// # Errors
    ///
    /// `Name` for a name that cannot stand before a colon, `Open` for a folder that cannot be opened.
    pub fn open(name: impl Into<String>, path: impl Into<PathBuf>, access: Access) -> Result<Self, RootError> {
        let name = name.into();
        let given_path = path.into();
        let is_plain = |character: char| character.is_alphanumeric() || "-_".contains(character);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(RootError::Name { name });
        }
        let opened = given_path.canonicalize().and_then(|path| {
            let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
            Ok((path, dir))
        });
        match opened {
            Ok((path, dir)) => Ok(Self {
                name,
                path,
                given_path,
                access,
                dir,
            }),
            Err(source) => Err(RootError::Open {
                name,
                path: given_path,
                source,
            }),
        }
    }

    /// The name before the colon in `name:path`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What may be done in it.
    pub fn access(&self) -> Access {
        self.access
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The part of an absolute path below this root, if it lies inside.
    fn strip<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path)
            .or_else(|_| path.strip_prefix(&self.given_path))
            .ok()
    }
}

/// The run folder. Created when it is first used. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RunFolder {
    inner: Option<Arc<RunFolderInner>>,
}

#[derive(Debug)]
struct RunFolderInner {
    path: PathBuf,
    root: OnceLock<Arc<Root>>,
}

impl RunFolder {
    /// Returns the value for a run without a folder: `write` is refused.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the folder at `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            inner: Some(Arc::new(RunFolderInner {
                path: path.into(),
                root: OnceLock::new(),
            })),
        }
    }

    /// The path where the folder is, or will be.
    pub fn path(&self) -> Option<&Path> {
        self.inner.as_ref().map(|inner| inner.path.as_path())
    }

    /// Opens the folder, creating it first if needed: a tool that looks into it finds it empty, and a program can
    /// start in it.
    fn open(&self) -> Result<Arc<Root>, ToolError> {
        let Some(inner) = &self.inner else {
            return Err(ToolError::new(
                FailureKind::Denied,
                "no_run_folder",
                "this run has no folder of its own",
            )
            .hint("`RunnerOptions.run_folders` gives runs a folder to write to, `NewRun.folder` one to read"));
        };
        if let Some(root) = inner.root.get() {
            return Ok(Arc::clone(root));
        }
        make_private_folder(&inner.path).map_err(|error| io_failure("make", "the folder of the run", &error))?;
        let root = Root::open(RUN, &inner.path, Access::ReadWrite).map_err(|error| match error {
            RootError::Open { source, .. } => io_failure("open", "the folder of the run", &source),
            other => ToolError::new(FailureKind::Unavailable, "no_run_folder", other.to_string()),
        })?;
        Ok(Arc::clone(inner.root.get_or_init(|| Arc::new(root))))
    }
}

/// Creates a run folder and its missing parents, accessible to its owner alone: it holds what the run found out.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The granted folders. A path without a name is in the first one. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    roots: Arc<Vec<Arc<Root>>>,
}

impl Roots {
    /// Returns no folders: only the run folder can be used.
    pub fn none() -> Self {
        Self::default()
    }

    /// Grants these folders.
    ///
    /// # Errors
    ///
    /// `Taken` if two have the same name, or one is called `run`.
    pub fn new(roots: Vec<Root>) -> Result<Self, RootError> {
        for (index, root) in roots.iter().enumerate() {
            let is_taken = roots[..index].iter().any(|other| other.name == root.name);
            if is_taken || root.name == RUN {
                return Err(RootError::Taken {
                    name: root.name.clone(),
                });
            }
        }
        Ok(Self {
            roots: Arc::new(roots.into_iter().map(Arc::new).collect()),
        })
    }

    /// The folders, in the order granted.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter().map(AsRef::as_ref)
    }

    /// The folder with this name.
    pub fn get(&self, name: &str) -> Option<&Root> {
        self.iter().find(|root| root.name == name)
    }

    /// Finds what a path names, for reading.
    pub(crate) fn find(&self, path: &str, run_folder: &RunFolder) -> Result<Located, ToolError> {
        self.locate(path, run_folder, Purpose::Read)
    }

    /// Adds a hint to `error`, the result of looking at `path`, if nothing is there but the run folder has something
    /// of that name.
    pub(crate) fn with_run_folder_hint(&self, error: ToolError, path: &str, run_folder: &RunFolder) -> ToolError {
        if error.code != "not_found" || path.is_empty() || path.contains(':') {
            return error;
        }
        let in_run = format!("{RUN}:{path}");
        let found = self.find(&in_run, run_folder);
        if found.is_ok_and(|located| located.metadata().is_ok()) {
            return error.hint(format!("{in_run} exists"));
        }
        error
    }

    /// Finds what a path names, for writing: a path without a name is in the run folder.
    pub(crate) fn find_to_write(&self, path: &str, run_folder: &RunFolder) -> Result<Located, ToolError> {
        let located = self.locate(path, run_folder, Purpose::Write)?;
        if located.root.access == Access::Read {
            return Err(ToolError::new(
                FailureKind::Denied,
                "read_only_root",
                format!(
                    "cannot write {}: `{}` may only be read",
                    located.display_path(),
                    located.root.name
                ),
            )
            .hint("a path without a name, or with `run:`, is in the folder of the run"));
        }
        Ok(located)
    }

    /// Where a path leads, by its name alone: nothing is opened, and no link is followed. `None` if it names nothing
    /// that was granted.
    pub(crate) fn full_path(&self, path: &str, run_folder: &RunFolder) -> Option<String> {
        let first = self.roots.first().map(|root| root.path());
        self.resolve_full_path(path, run_folder, first.or(run_folder.path()))
    }

    /// Like [`Self::full_path`], for a file that is to be written: a path without a name is in the run folder.
    pub(crate) fn full_path_to_write(&self, path: &str, run_folder: &RunFolder) -> Option<String> {
        self.resolve_full_path(path, run_folder, run_folder.path())
    }

    fn resolve_full_path(&self, path: &str, run_folder: &RunFolder, default: Option<&Path>) -> Option<String> {
        let bytes = |text: &str| path_from_bytes(named(text));
        let full_path = if path.starts_with('/') {
            let absolute = bytes(path);
            let in_root = self
                .iter()
                .find_map(|root| Some(root.path.join(root.strip(&absolute)?)));
            in_root.unwrap_or(absolute)
        } else {
            let named_path = path.split_once(':').and_then(|(name, rest)| {
                let folder = match self.get(name) {
                    Some(root) => root.path(),
                    None if name == RUN => run_folder.path()?,
                    None => return None,
                };
                Some(folder.join(bytes(rest.trim_start_matches('/'))))
            });
            match named_path {
                Some(full_path) => full_path,
                None => default?.join(bytes(path)),
            }
        };
        // Removes a `/` at the end.
        let full_path: PathBuf = full_path.components().collect();
        Some(shown(full_path.as_os_str().as_bytes()))
    }

    fn locate(&self, path: &str, run_folder: &RunFolder, purpose: Purpose) -> Result<Located, ToolError> {
        let open_run = || run_folder.open();
        let default = || match (purpose, self.roots.first()) {
            (Purpose::Read, Some(first)) => Ok(Arc::clone(first)),
            (Purpose::Read, None) | (Purpose::Write, _) => open_run(),
        };
        let bytes = |text: &str| {
            let name = named(text);
            if name.contains(&0) {
                return Err(ToolError::invalid("a path cannot contain a zero byte"));
            }
            Ok(path_from_bytes(name))
        };

        let (root, relative) = if path.starts_with('/') {
            let absolute = bytes(path)?;
            self.locate_absolute(&absolute, run_folder)?
        } else if let Some((name, rest)) = path.split_once(':')
            && (name == RUN || self.get(name).is_some())
        {
            let root = match self.roots.iter().find(|root| root.name == name) {
                Some(root) => Arc::clone(root),
                None => open_run()?,
            };
            // `run:/report.md` means the same as `run:report.md`; it must not become absolute.
            (root, bytes(rest.trim_start_matches('/'))?)
        } else {
            (default()?, bytes(path)?)
        };
        let is_default = match (purpose, self.roots.first()) {
            (_, Some(first)) => Arc::ptr_eq(first, &root),
            (_, None) => false,
        };
        Ok(Located {
            prefix: (!is_default).then(|| root.name.clone()),
            other_names: self.roots.iter().map(|root| root.name.clone()).collect(),
            relative: tidy(&relative),
            root,
        })
    }

    fn locate_absolute(&self, path: &Path, run_folder: &RunFolder) -> Result<(Arc<Root>, PathBuf), ToolError> {
        let run_root = match run_folder.path() {
            Some(folder) if path.starts_with(folder) => Some(run_folder.open()?),
            // The path may still be the folder's name without links, if the folder exists.
            Some(folder) if folder.is_dir() => run_folder.open().ok(),
            _ => None,
        };
        // The innermost root is the one that leaves the shortest rest.
        self.roots
            .iter()
            .chain(run_root.as_ref())
            .filter_map(|root| {
                let rest = root.strip(path)?;
                Some((root, rest))
            })
            .min_by_key(|(_, rest)| rest.components().count())
            .map(|(root, rest)| (Arc::clone(root), rest.to_owned()))
            .ok_or_else(|| {
                let error = ToolError::new(
                    FailureKind::Denied,
                    "path_outside_root",
                    format!("{} is not in a granted folder", shown(path.as_os_str().as_bytes())),
                );
                error.hint(self.granted_roots_hint())
            })
    }

    fn granted_roots_hint(&self) -> String {
        match self.roots.as_slice() {
            [] => "no folder was granted".to_owned(),
            [root] => format!("name the path from {}", root.path.display()),
            roots => format!(
                "these were granted: {}",
                roots
                    .iter()
                    .map(|root| format!("{}: ({})", root.name, root.path.display()))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Write,
}

/// Removes `.` parts from a path; an empty path becomes `.`. `..` stays: only following the real folders can tell
/// where it leads.
fn tidy(path: &Path) -> PathBuf {
    let tidy: PathBuf = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect();
    if tidy.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        tidy
    }
}
