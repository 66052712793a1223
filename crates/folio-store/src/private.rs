//! Files and folders that only their owner may read, because memory is private unless its owner decides otherwise. The
//! rights of existing files and folders are not changed.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

/// Options that create files readable by their owner only.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Gives `file`, which lies beside `store`, the rights and the group of `store`, and its owner if this user may do
/// that, as SQLite does for its own files. Whatever cannot be set stays as it is.
pub(crate) fn share_as(file: &File, store: &Path) {
    let Ok(store) = store.metadata() else { return };
    let (user, group) = (Some(store.uid()), Some(store.gid()));
    let _other_owner = fchown(file, user, group).or_else(|_| fchown(file, None, group));
    let _other_rights = file.set_permissions(Permissions::from_mode(store.mode() & 0o777));
}

/// Creates `folder` and all missing folders above it.
///
/// # Errors
///
/// The error of the file system.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
