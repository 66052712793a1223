//! Memory as files: paths that cannot lead outside, and the results of reading and searching files (seed 003, A2 and
//! A6).
//!
//! What the paths refer to is decided elsewhere: the files of a space, or a folder.

use serde::Serialize;

use crate::passage::{FoundLine, Reading};
use crate::warning::Invalid;

/// The maximum number of parts of a path.
const PARTS_MAX: usize = 64;

/// A path relative to the root of the files, without `.`, `..` and empty parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePath {
    parts: Vec<String>,
}

impl FilePath {
    /// Parses a path. A `/` at its beginning or end is ignored, and an empty path is the root.
    ///
    /// # Errors
    ///
    /// `path_escapes` if a part is `..`, which could lead outside, or is not a name: `.`, empty, or with a NUL or a
    /// backslash; or if there are more than 64 parts.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let inner = text.strip_prefix('/').unwrap_or(text);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        if inner.is_empty() {
            return Ok(Self::default());
        }
        let parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
        let is_name = |part: &String| !matches!(part.as_str(), "" | "." | "..") && !part.contains(['\0', '\\']);
        if parts.len() <= PARTS_MAX && parts.iter().all(is_name) {
            return Ok(Self { parts });
        }
        let message = format!("{text:?} is not a valid path: use names separated by `/`, without `.` and `..`");
        Err(Invalid::new("path_escapes", "path", message))
    }

    /// The parts of the path.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The path of `name` within this folder.
    #[must_use]
    pub fn joined(&self, name: &str) -> Self {
        let mut parts = self.parts.clone();
        parts.push(name.to_owned());
        Self { parts }
    }

    /// The rest of the path below `folder`; `None` if the path is not below it.
    #[must_use]
    pub fn below(&self, folder: &Self) -> Option<&[String]> {
        self.parts.strip_prefix(folder.parts.as_slice())
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.parts.join("/"))
    }
}

/// The kind of thing that a path refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A folder, which can be listed.
    Folder,
    /// A file, which can be read.
    File,
}

/// An item of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FileEntry {
    /// The path from the root.
    pub path: String,
    /// The kind of the item.
    pub kind: FileKind,
}

/// A matching line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// The path of the file.
    pub path: String,
    /// The number and text of the line.
    #[serde(flatten)]
    pub line: FoundLine,
}

/// The result of a search through files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hits {
    /// The matching lines, as many as fit.
    pub hits: Vec<Hit>,
    /// The number of files searched.
    pub searched: u64,
    /// The file after which to continue, if not all files were searched or not all matches are shown.
    pub next: Option<String>,
}

impl Hits {
    /// Adds the matches in the file at `path`, with `room` bytes left for lines. Returns the room that is left then:
    /// none if that file has more matches, which are found by searching its own path.
    pub fn take_in(&mut self, path: &str, reading: Reading, room: usize) -> usize {
        self.searched += 1;
        let Reading::Found(found) = reading else { return room };
        let mut left = room;
        for line in found.matches {
            left = left.saturating_sub(line.text.len());
            let path = path.to_owned();
            self.hits.push(Hit { path, line });
        }
        if found.next.is_some() { 0 } else { left }
    }
}

/// Whether a search that continues after `after` is past `path` already. Paths are compared part by part, in the order
/// in which folders are traversed.
#[must_use]
pub fn is_past(path: &str, after: Option<&str>) -> bool {
    after.is_some_and(|after| path.split('/').le(after.split('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_path_that_escapes_its_root_is_refused() {
        let path = |text: &str| FilePath::parse(text).map(|path| path.to_string());
        assert_eq!(path("/pages/p7.md"), Ok("/pages/p7.md".to_owned()));
        assert_eq!(path("pages/"), Ok("/pages".to_owned()));
        assert_eq!((path(""), path("/")), (Ok("/".to_owned()), Ok("/".to_owned())));
        for wrong in [
            "..",
            "/a/../b",
            "a//b",
            "./a",
            "a\0",
            "a\\..\\b",
            "//a",
            &"a/".repeat(70),
        ] {
            assert_eq!(path(wrong).unwrap_err().code, "path_escapes", "{wrong:?}");
        }
    }

    #[test]
    fn path_below_a_folder_is_matched_by_components() {
        let path = |text: &str| FilePath::parse(text).unwrap();
        assert_eq!(
            path("/a/b/c").below(&path("/a")),
            Some(&["b".to_owned(), "c".to_owned()][..])
        );
        assert_eq!(path("/ab").below(&path("/a")), None);
    }
}
