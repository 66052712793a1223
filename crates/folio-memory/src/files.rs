//! Memory as files: paths that lead nowhere else, and what reading and searching them gives (seed 003, A2 and A6).
//!
//! What stands behind the paths is somebody else's: the files of a space, or a folder.

use serde::Serialize;

use crate::passage::{FoundLine, Reading};
use crate::warning::Invalid;

/// Parts of the longest path.
const PARTS_MAX: usize = 64;

/// A path from the root of whatever holds the files: without `.`, `..` and empty parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePath {
    parts: Vec<String>,
}

impl FilePath {
    /// Reads a path; a `/` at its beginning or end changes nothing, and an empty one is the root.
    ///
    /// # Errors
    ///
    /// `path_escapes` if a part of it is `..`, so that it could lead out, or is no name: `.`, empty, with a zero byte or a
    /// backslash; or there are more than 64 parts.
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
        let message = format!("{text:?} is no path from the root: names and `/`, without `.` and `..`");
        Err(Invalid::new("path_escapes", "path", message))
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// The path of `name` in this folder.
    #[must_use]
    pub fn joined(&self, name: &str) -> Self {
        let mut parts = self.parts.clone();
        parts.push(name.to_owned());
        Self { parts }
    }

    /// The rest of it below `folder`; none if it is not there.
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

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Something that can be listed.
    Folder,
    /// Something that can be read.
    File,
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FileEntry {
    /// Where it is, from the root.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
}

/// A line of a file that holds what was searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// Which file.
    pub path: String,
    /// Which line, and what it says.
    #[serde(flatten)]
    pub line: FoundLine,
}

/// What a search through files found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hits {
    /// The lines, as many as fit.
    pub hits: Vec<Hit>,
    /// How many files were searched.
    pub searched: u64,
    /// If not all of them were, or not all that was found is shown: the file behind which a search goes on.
    pub next: Option<String>,
}

impl Hits {
    /// Takes in what a search found in the file at `path`, with `room` bytes left for lines. The room that is left then: none
    /// if there is more in that file, which is read by its own path.
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

/// Whether a search that goes on behind `after` has been past `path`. Parts are compared, as they are when folders are gone
/// through.
#[must_use]
pub fn is_past(path: &str, after: Option<&str>) -> bool {
    after.is_some_and(|after| path.split('/').le(after.split('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_but_down() {
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
    fn what_is_below_a_folder_is_told_part_by_part() {
        let path = |text: &str| FilePath::parse(text).unwrap();
        assert_eq!(
            path("/a/b/c").below(&path("/a")),
            Some(&["b".to_owned(), "c".to_owned()][..])
        );
        assert_eq!(path("/ab").below(&path("/a")), None);
    }
}
