//! A path that stays inside its root, and what is there.

use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt as _};

use super::failure::io_failure;
use super::{RUN, Root};
use crate::paths::shown;
use crate::response::ToolError;

/// A path inside a root. It is not known yet what is there.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) root: Arc<Root>,
    /// Relative to the root; `.` for the root itself.
    pub(crate) relative: PathBuf,
    /// The name to show before the path; none for the first root.
    pub(super) prefix: Option<String>,
    pub(super) other_names: Vec<String>,
}

impl Located {
    /// The path as arguments and results show it.
    pub(crate) fn display_path(&self) -> String {
        self.display_path_of(self.relative.as_os_str().as_bytes())
    }

    /// Another path of the same root as arguments and results show it.
    pub(crate) fn display_path_of(&self, relative: &[u8]) -> String {
        let relative = shown(relative);
        match &self.prefix {
            Some(name) => format!("{name}:{relative}"),
            None => match relative.split_once(':') {
                // A file whose name looks like a path in another root.
                Some((name, _)) if name == RUN || self.other_names.iter().any(|n| n == name) => {
                    format!("./{relative}")
                }
                _ => relative,
            },
        }
    }

    pub(crate) fn failure(&self, action: &str, error: &io::Error) -> ToolError {
        io_failure(action, &self.display_path(), error)
    }

    /// The metadata of what is there, following links inside the root.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.root.dir.metadata(&self.relative)
    }

    /// The path of a folder without symbolic links, for a program to run in.
    ///
    /// A program goes where it wants afterwards; this keeps a link from deciding where it starts.
    pub(crate) fn real_folder(&self) -> Result<PathBuf, ToolError> {
        let relative = self
            .root
            .dir
            .canonicalize(&self.relative)
            .map_err(|error| self.failure("go to", &error))?;
        let found = self.root.dir.metadata(&relative);
        if !found.is_ok_and(|found| found.is_dir()) {
            return Err(ToolError::invalid(format!("{} is not a folder", self.display_path())));
        }
        Ok(self.root.path.join(relative))
    }

    /// Opens a regular file for reading. Never blocks, not even on a pipe.
    pub(crate) fn open_file(&self) -> Result<(File, Metadata), ToolError> {
        open_regular(&self.root.dir, &self.relative)
            .map_err(|error| self.failure("read", &error))?
            .ok_or_else(|| {
                let is_folder = self.metadata().is_ok_and(|found| found.is_dir());
                let kind = if is_folder { "a folder" } else { "not a regular file" };
                let error = ToolError::invalid(format!("{} is {kind}", self.display_path()));
                if is_folder {
                    error.hint("use `list` to see what is in it")
                } else {
                    error
                }
            })
    }
}

/// Opens `path` below `dir` if it is a regular file; `None` for anything else.
pub(crate) fn open_regular(dir: &Dir, path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let mut options = OpenOptions::new();
    let never_wait = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    options.read(true).custom_flags(never_wait.bits().cast_signed());
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

/// Reads a small file whole, or returns `None` if it is larger than `bytes_max`.
pub(crate) fn read_small(dir: &Dir, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let Some((file, metadata)) = open_regular(dir, path)? else {
        return Ok(None);
    };
    if metadata.len() > bytes_max {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
