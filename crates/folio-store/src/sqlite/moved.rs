//! Checks whether the file, and what SQLite keeps beside it, is still in its place.
//!
//! A process that has a file open keeps using it after it was renamed, replaced or removed, and would acknowledge
//! writes that nobody finds again.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::open::with_suffix;
use crate::error::StoreError;

/// How the file system identifies a file, whatever its name: device and inode.
type Identity = (u64, u64);

/// Why nothing can be written any more.
const MOVED: &str = "the file was moved or removed while this process had it open; put it back in its place with the files beside it, \
    or end this process";
const REPLACED: &str =
    "another file has taken its place while this process had it open; put it back in its place, or end this process";
const BESIDE: &str = "the -wal or -shm beside it was moved or removed while this process had it open; put it back in its place, or end \
    this process";

/// The files at the paths of an open store.
#[derive(Debug)]
pub(super) struct Places {
    file: (PathBuf, Identity),
    /// The write-ahead log and its index. As long as anybody has the file open, SQLite neither removes nor replaces
    /// them.
    beside: Vec<(PathBuf, Identity)>,
}

impl Places {
    /// The identities of `file`, which was just opened for writing, and of the files beside it. `None` if they cannot
    /// be read.
    ///
    /// Some file systems, such as those of containers, turn a file into another one when it is opened for writing, so
    /// its identity before that means nothing.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let identity = identity_of(file).ok()?;
        // If the name is a link, these files lie beside its target.
        let real = file.canonicalize().ok()?;
        let beside = ["-wal", "-shm"].map(|suffix| with_suffix(&real, suffix));
        let beside = beside.into_iter().filter_map(|path| {
            let identity = identity_of(&path).ok()?;
            Some((path, identity))
        });
        Some(Self {
            file: (file.to_owned(), identity),
            beside: beside.collect(),
        })
    }

    /// Checks that everything is where it was. Costs a few calls to the file system, a microsecond or two.
    pub(super) fn check(&self, doing: &'static str, location: &str) -> Result<(), StoreError> {
        let refused = |reason: &str, source: Option<std::io::Error>| StoreError::Unavailable {
            doing,
            location: location.to_owned(),
            reason: reason.to_owned(),
            source: source.map(Into::into),
        };
        let (path, identity) = &self.file;
        match identity_of(path) {
            Ok(found) if found == *identity => {}
            Ok(_) => return Err(refused(REPLACED, None)),
            Err(error) => return Err(refused(MOVED, Some(error))),
        }
        let is_there = |(path, identity): &(PathBuf, Identity)| identity_of(path).is_ok_and(|found| found == *identity);
        match self.beside.iter().all(is_there) {
            true => Ok(()),
            false => Err(refused(BESIDE, None)),
        }
    }
}

/// The identity of the file at `path`.
fn identity_of(path: &Path) -> std::io::Result<Identity> {
    let about = path.metadata()?;
    Ok((about.dev(), about.ino()))
}
