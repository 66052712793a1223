//! Files and folders that only their owner may read: what is remembered is nobody else's business, unless they say so. What is there
//! already keeps its rights.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// Options that make files for their owner alone.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Gives `file`, which stands beside `store`, the rights and the group of that, and its owner, too, where this user may do so: as SQLite does
/// with what it puts there. What cannot be given stays as it is.
pub(crate) fn share_as(file: &File, store: &Path) {
    let Ok(store) = store.metadata() else { return };
    let (user, group) = (Some(store.uid()), Some(store.gid()));
    let _other_owner = fchown(file, user, group).or_else(|_| fchown(file, None, group));
    let _other_rights = file.set_permissions(Permissions::from_mode(store.mode() & 0o777));
}

/// Makes `folder` and what is missing above it.
///
/// # Errors
///
/// What the file system says.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
