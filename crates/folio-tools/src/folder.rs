//! A folder on this machine whose files can be listed, read and searched: the same kind of paths as in a space, and no
//! way out of the folder.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use folio_memory::files::{FileEntry, FileKind, FilePath, Hits, is_past};
use folio_memory::passage::{self, Part, PartRead};

use crate::paths::shown;
use crate::roots::open_regular;

/// The largest file that is read, in bytes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How many names one listing returns.
const NAMES_MAX: usize = 10_000;
/// How many files one search looks through.
const SEARCHED_MAX: u64 = 1_000;

/// A folder that is opened once: every path is resolved from that handle, so that neither `..` nor a symbolic link
/// leads out of it.
#[derive(Clone)]
pub struct Folder {
    dir: Arc<Dir>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").finish_non_exhaustive()
    }
}

/// Why something in a folder could not be returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The path is invalid, or leads out of the folder.
    #[error("{0:?} leads out of the folder, or is not a valid path")]
    Escapes(String),
    /// No such file or folder exists.
    #[error("there is no {what} {path}")]
    NotFound {
        /// `file` or `folder`.
        what: &'static str,
        /// The path.
        path: String,
    },
    /// The operating system reported an error.
    #[error("cannot read {path}")]
    Io {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

impl Folder {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self { dir: Arc::new(dir) })
    }

    /// The contents of the folder at `path`, sorted by name; at most the first 10,000. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// See [`FolderError`].
    pub fn list(&self, path: &str) -> Result<Vec<FileEntry>, FolderError> {
        let mut listed = self.list_all(path)?;
        listed.truncate(NAMES_MAX);
        Ok(listed)
    }

    /// The same, however many there are.
    fn list_all(&self, path: &str) -> Result<Vec<FileEntry>, FolderError> {
        let path = parsed(path)?;
        let failed = |error| failure("folder", &path, error);
        let dir = match path.parts() {
            [] => self.dir.try_clone(),
            parts => self.dir.open_dir(parts.join("/")),
        };
        let mut listed = Vec::new();
        for entry in dir.and_then(|dir| dir.entries()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = shown(std::os::unix::ffi::OsStrExt::as_bytes(name.as_os_str()));
            let kind = match entry.file_type().map_err(failed)? {
                kind if kind.is_dir() => FileKind::Folder,
                kind if kind.is_file() => FileKind::File,
                // Links may lead anywhere, and anything else is not meant to be read.
                _ => continue,
            };
            listed.push(FileEntry {
                path: path.joined(&name).to_string(),
                kind,
            });
        }
        listed.sort();
        Ok(listed)
    }

    /// A part of the file at `path`: at most `max_bytes` of it, and the arguments to read on. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// See [`FolderError`]; a file of more than 64 MiB is not read.
    pub fn read(&self, path: &str, part: &Part, max_bytes: usize) -> Result<PartRead, FolderError> {
        let path = parsed(path)?;
        let failed = |error| failure("file", &path, error);
        let at = PathBuf::from(path.parts().join("/"));
        let Some((file, _)) = open_regular(&self.dir, &at).map_err(failed)? else {
            let path = path.to_string();
            return Err(FolderError::NotFound { what: "file", path });
        };
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(failed(io::Error::other(format!("it has more than {BYTES_MAX} bytes"))));
        }
        Ok(passage::read(&bytes, part, max_bytes))
    }

    /// The lines that contain `words` in the file at `path`, or in all files below the folder at `path`: about
    /// `max_bytes` of them. With `after`, the search continues after that file. Looks through 1,000 files at a time.
    /// Blocks on the disk.
    ///
    /// # Errors
    ///
    /// See [`FolderError`]; files in a folder that cannot be read are skipped.
    pub fn search(&self, path: &str, words: &str, after: Option<&str>, max_bytes: usize) -> Result<Hits, FolderError> {
        let mut found = Hits::default();
        let (mut bytes_left, mut pending, mut last_path) = (max_bytes, Vec::new(), None);
        match self.list_all(path) {
            Ok(listed) => pending.extend(listed.into_iter().rev()),
            Err(_) if self.read(path, &Part::WHOLE, 0).is_ok() => pending.push(FileEntry {
                path: parsed(path)?.to_string(),
                kind: FileKind::File,
            }),
            Err(error) => return Err(error),
        }
        while let Some(FileEntry { path, kind }) = pending.pop() {
            if kind == FileKind::Folder {
                pending.extend(self.list_all(&path).unwrap_or_default().into_iter().rev());
                continue;
            }
            if is_past(&path, after) {
                continue;
            }
            if bytes_left == 0 || found.searched >= SEARCHED_MAX {
                found.next = last_path;
                return Ok(found);
            }
            let part = Part::Search {
                words: words.to_owned(),
                from: 0,
            };
            let Ok(read) = self.read(&path, &part, bytes_left) else {
                continue;
            };
            bytes_left = found.take_in(&path, read.reading, bytes_left);
            last_path = Some(path);
        }
        Ok(found)
    }
}

fn parsed(path: &str) -> Result<FilePath, FolderError> {
    FilePath::parse(path).map_err(|_| FolderError::Escapes(path.to_owned()))
}

fn failure(what: &'static str, path: &FilePath, source: io::Error) -> FolderError {
    let path = path.to_string();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            FolderError::NotFound { what, path }
        }
        // The handle reports a path that leads out of it without an OS error code.
        io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => FolderError::Escapes(path),
        _ => FolderError::Io { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, Folder) {
        let at = tempfile::tempdir().unwrap();
        let folder = Folder::open(at.path()).unwrap();
        (at, folder)
    }

    #[test]
    fn pipe_or_socket_in_a_folder_is_not_a_file_and_is_not_waited_for() {
        let (at, folder) = opened();
        let made = std::process::Command::new("mkfifo")
            .arg(at.path().join("pipe"))
            .status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at.path().join("socket")).unwrap();
        std::os::unix::fs::symlink("pipe", at.path().join("link")).unwrap();
        for name in ["pipe", "link"] {
            let read = folder.read(name, &Part::WHOLE, 100);
            assert!(
                matches!(read, Err(FolderError::NotFound { what: "file", .. })),
                "{name}: {read:?}"
            );
        }
        assert!(folder.read("socket", &Part::WHOLE, 100).is_err());
        assert!(folder.search("pipe", "x", None, 100).is_err());
    }

    #[test]
    fn search_finds_files_beyond_what_one_listing_returns() {
        let (at, folder) = opened();
        for number in 0..=NAMES_MAX {
            std::fs::write(at.path().join(format!("{number:06}")), "").unwrap();
        }
        let last = format!("{NAMES_MAX:06}");
        std::fs::write(at.path().join(&last), "needle").unwrap();
        // A listing holds the first ones, in whatever order the disk returns them.
        let listed = folder.list("").unwrap();
        assert_eq!(listed.len(), NAMES_MAX);
        assert_eq!(listed.last().unwrap().path, format!("/{:06}", NAMES_MAX - 1));
        let after = format!("/{:06}", NAMES_MAX - 1);
        let found = folder.search("", "needle", Some(&after), 1_000).unwrap();
        let paths: Vec<&str> = found.hits.iter().map(|hit| hit.path.as_str()).collect();
        assert_eq!(paths, [format!("/{last}")]);
    }
}
