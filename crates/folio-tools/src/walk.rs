//! Walks through the files below a folder, in order, without leaving it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, DirEntry};
use tokio_util::sync::CancellationToken;

use crate::context::ToolLimits;
use crate::gitignore::Rules;
use crate::globs::Globs;
use crate::response::ToolError;
use crate::roots::Located;

/// Which entries a walk visits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkOptions<'a> {
    /// Matched against paths relative to the start of the walk; excluded folders are not entered.
    pub(crate) globs: &'a Globs,
    /// Whether to visit names that begin with a dot. `.git` is never visited, unless the walk starts in it.
    pub(crate) hidden: bool,
    /// Whether to leave out what `.gitignore` files name.
    pub(crate) respect_gitignore: bool,
}

/// A file, link or anything else that is not a folder.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The folder that it is in.
    pub(crate) dir: &'a Dir,
    pub(crate) name: &'a Path,
    /// Its path relative to the root.
    pub(crate) path: &'a Path,
    /// Its path relative to the start of the walk.
    pub(crate) below: &'a Path,
    pub(crate) kind: FoundKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundKind {
    File { bytes: u64 },
    Link,
    Other,
}

/// What a walk could not look at.
#[derive(Debug, Default)]
pub(crate) struct WalkGaps {
    /// Folders and files that could not be opened.
    pub(crate) unreadable: u64,
    /// Folders that were too deep.
    pub(crate) too_deep: u64,
    /// Whether there were more entries than one walk may look at.
    pub(crate) too_many: bool,
}

impl WalkGaps {
    /// One line about what is missing; `None` if nothing is.
    pub(crate) fn notes(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.unreadable > 0 {
            parts.push(format!("{} could not be read", self.unreadable));
        }
        if self.too_deep > 0 {
            parts.push(match self.too_deep {
                1 => "1 folder is too deep".to_owned(),
                folders => format!("{folders} folders are too deep"),
            });
        }
        if self.too_many {
            parts.push("there are more entries than one walk looks at".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Calls `visit` for everything below `start` that is not a folder, in byte order of the paths. If `start` is a file,
/// it is visited itself.
///
/// Links are visited and not followed. The walk goes from handle to handle, so a folder that is replaced by a link
/// meanwhile leads nowhere.
pub(crate) fn walk(
    start: &Located,
    options: WalkOptions<'_>,
    limits: &ToolLimits,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
) -> Result<WalkGaps, ToolError> {
    let metadata = start.metadata().map_err(|error| start.failure("look at", &error))?;
    if !metadata.is_dir() {
        let kind = if metadata.is_file() {
            FoundKind::File { bytes: metadata.len() }
        } else {
            FoundKind::Other
        };
        let name = start.relative.file_name().map_or(Path::new(""), Path::new);
        if options.globs.matches(name) {
            visit(&Found {
                dir: start.root.dir(),
                name: &start.relative,
                path: &start.relative,
                below: name,
                kind,
            })?;
        }
        return Ok(WalkGaps::default());
    }
    let dir = start
        .root
        .dir()
        .open_dir(&start.relative)
        .map_err(|error| start.failure("open", &error))?;
    let path = if start.relative == Path::new(".") {
        PathBuf::new()
    } else {
        start.relative.clone()
    };
    let mut rules = Rules::default();
    if options.respect_gitignore {
        enter_rules_above(start.root.dir(), &path, &mut rules);
    }
    let mut walker = Walker {
        options,
        limits,
        cancel,
        rules,
        seen: 0,
        gaps: WalkGaps::default(),
        start_names: path.components().count(),
        visit,
    };
    walker.folder(&dir, &path, &PathBuf::new()).map_err(|stop| match stop {
        Stop::Cancelled => ToolError::cancelled(),
        Stop::Unreadable(error) => start.failure("list", &error),
        Stop::Visit(error) => error,
    })?;
    Ok(walker.gaps)
}

/// Enters the rules of the folders above the start of a walk.
fn enter_rules_above(root: &Dir, path: &Path, rules: &mut Rules) {
    for (depth, above) in path.ancestors().skip(1).collect::<Vec<_>>().iter().rev().enumerate() {
        let opened = if above.as_os_str().is_empty() {
            root.try_clone()
        } else {
            root.open_dir(above)
        };
        if let Ok(dir) = opened {
            rules.enter(&dir, depth);
        }
    }
}

enum Stop {
    Cancelled,
    Unreadable(io::Error),
    Visit(ToolError),
}

struct Walker<'a> {
    options: WalkOptions<'a>,
    limits: &'a ToolLimits,
    cancel: &'a CancellationToken,
    rules: Rules,
    seen: usize,
    gaps: WalkGaps,
    start_names: usize,
    visit: &'a mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
}

struct Entry {
    name: OsString,
    is_folder: bool,
    entry: DirEntry,
}

impl Walker<'_> {
    fn folder(&mut self, dir: &Dir, path: &Path, below: &Path) -> Result<(), Stop> {
        let depth = path.components().count();
        if self.options.respect_gitignore {
            self.rules.enter(dir, depth);
        }
        let mut entries = self.entries(dir)?;
        // With a slash after the names of folders, this sorts by whole paths.
        entries.sort_by(|left, right| left.sort_key().cmp(right.sort_key()));
        for entry in entries {
            if self.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            let name = Path::new(&entry.name);
            let path = path.join(name);
            if self.options.respect_gitignore && self.rules.ignores(&path, entry.is_folder) {
                continue;
            }
            let below = below.join(name);
            if entry.is_folder {
                if self.options.globs.should_enter(&below) {
                    self.sub_folder(&entry.entry, &path, &below)?;
                }
                continue;
            }
            if !self.options.globs.matches(&below) {
                continue;
            }
            let Some(kind) = self.kind(&entry.entry) else {
                continue;
            };
            (self.visit)(&Found {
                dir,
                name,
                path: &path,
                below: &below,
                kind,
            })
            .map_err(Stop::Visit)?;
        }
        self.rules.leave(depth);
        Ok(())
    }

    fn sub_folder(&mut self, entry: &DirEntry, path: &Path, below: &Path) -> Result<(), Stop> {
        if path.components().count() > self.start_names + self.limits.walk_depth {
            self.gaps.too_deep += 1;
            return Ok(());
        }
        let Ok(dir) = entry.open_dir() else {
            self.gaps.unreadable += 1;
            return Ok(());
        };
        match self.folder(&dir, path, below) {
            Err(Stop::Unreadable(_)) => {
                self.gaps.unreadable += 1;
                Ok(())
            }
            other => other,
        }
    }

    fn entries(&mut self, dir: &Dir) -> Result<Vec<Entry>, Stop> {
        let mut entries = Vec::new();
        for entry in dir.entries().map_err(Stop::Unreadable)? {
            self.seen += 1;
            if self.seen > self.limits.walk_entries {
                self.gaps.too_many = true;
                break;
            }
            let Ok(entry) = entry else {
                self.gaps.unreadable += 1;
                continue;
            };
            let name = entry.file_name();
            if name == ".git" || (!self.options.hidden && name.as_bytes().starts_with(b".")) {
                continue;
            }
            let Ok(file_type) = entry.file_type() else {
                self.gaps.unreadable += 1;
                continue;
            };
            entries.push(Entry {
                name,
                is_folder: file_type.is_dir(),
                entry,
            });
        }
        Ok(entries)
    }

    fn kind(&mut self, entry: &DirEntry) -> Option<FoundKind> {
        // The metadata of the entry itself, not of a link's target.
        let Ok(metadata) = entry.metadata() else {
            self.gaps.unreadable += 1;
            return None;
        };
        Some(if metadata.is_file() {
            FoundKind::File { bytes: metadata.len() }
        } else if metadata.file_type().is_symlink() {
            FoundKind::Link
        } else {
            FoundKind::Other
        })
    }
}

impl Entry {
    fn sort_key(&self) -> impl Iterator<Item = &u8> {
        let slash: &[u8] = if self.is_folder { b"/" } else { b"" };
        self.name.as_bytes().iter().chain(slash)
    }
}
