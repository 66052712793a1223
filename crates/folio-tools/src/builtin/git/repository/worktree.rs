//! Files of the working tree that git would open by their paths, whatever a folder on the way has become meanwhile.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Repository;
use crate::blocking::blocking;
use crate::builtin::git::allowed::Checked;
use crate::response::{FailureKind, ToolError};
use crate::roots::{Root, io_failure, read_small};

impl Repository<'_> {
    /// What git is to read in place of the file for a `blame` of `named`, a path and perhaps revisions; `None` if no
    /// file is to be read: there is a revision to begin with, or no working tree.
    ///
    /// Git opens the file by its path. In place of one of its folders there may be a link by then, although none was
    /// there when the path was checked. Whether git reads a file is for git to say (`HEAD..HEAD` leaves no revision to
    /// begin with), so without this text it fails rather than open one.
    pub(in crate::builtin::git) async fn blamed_text(&self, named: &[String]) -> Result<Option<Vec<u8>>, ToolError> {
        if !self.place.has_files() {
            return Ok(None);
        }
        // `^v1` only says where to end.
        let mut paths = named.iter().filter(|name| named.len() == 1 || !name.starts_with('^'));
        let (Some(name), None) = (paths.next(), paths.next()) else {
            return Ok(None);
        };
        let (root, path, name) = (Arc::clone(&self.located.root), self.path_in_root(name), name.clone());
        let max = self.context.limits.scan_bytes;
        let text = blocking(&self.context.cancel, move |_| {
            content(&root, &path, max).map_err(|error| io_failure("look at", &name, &error))
        });
        text.await.map(Some)
    }

    /// Refuses a `diff` of a blob and a file: git opens the file by its path, and takes its content from nowhere else.
    ///
    /// Whatever is named beside a blob is taken for a file, since git may find no revision in the others (`v1^@` of the
    /// first commit).
    pub(in crate::builtin::git) async fn refuse_blob_and_file(&self, checked: &Checked) -> Result<(), ToolError> {
        let (maybe_revisions, paths) = checked.named.split_at(checked.maybe_revisions);
        let (mut blob, mut other) = (None, paths.first());
        for name in maybe_revisions {
            // A single one is a blob that is compared with nothing.
            if checked.named.len() > 1 && self.is_blob(name).await? {
                blob = Some(name);
            } else {
                other = Some(name);
            }
            if let (Some(blob), Some(other)) = (blob, other) {
                return Err(ToolError::new(
                    FailureKind::Denied,
                    "git_blob_and_file",
                    format!("git diff: `{blob}` and `{other}` are a blob and a file, which cannot be compared safely"),
                )
                .hint("compare a commit with the file: `HEAD -- PATH`"));
            }
        }
        Ok(())
    }

    /// Whether git takes a name for a blob, also by way of a tag.
    async fn is_blob(&self, name: &str) -> Result<bool, ToolError> {
        // Git compares `^NAME`, too.
        let name = name.strip_prefix('^').unwrap_or(name);
        // What looks like a flag can only be a path.
        if name.starts_with('-') {
            return Ok(false);
        }
        let kind = |name: String| self.output_line("cat-file", vec!["-t".into(), name.into()]);
        Ok(match kind(name.to_owned()).await?.as_deref() {
            Some("tag") => kind(format!("{name}^{{}}")).await?.as_deref() == Some("blob"),
            found => found == Some("blob"),
        })
    }

    /// A path from the top of the working tree, from the top of the root.
    pub(super) fn path_in_root(&self, name: &str) -> PathBuf {
        let top = self.place.folder.strip_prefix(self.located.root.path());
        top.unwrap_or(Path::new("")).join(name)
    }
}

/// The content of a file as git would take it up: of a link, where it leads.
fn content(root: &Root, path: &Path, max: u64) -> io::Result<Vec<u8>> {
    if root.dir().symlink_metadata(path)?.is_symlink() {
        let target = root.dir().read_link_contents(path)?;
        return Ok(target.as_os_str().as_bytes().to_owned());
    }
    let text = read_small(root.dir(), path, max)?;
    text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a file, or too large"))
}
