//! Files and folders that only their owner may read: what is remembered is nobody else's business, unless they say so. What is there
//! already keeps its rights.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Options that make files for their owner alone.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Makes `folder` and what is missing above it.
///
/// # Errors
///
/// What the file system says.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
