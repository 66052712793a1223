//! The rules of `.gitignore` files on the way from a root to a folder.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::roots::read_small;

/// Rules of one file that is larger than this are not read.
const RULES_BYTES_MAX: u64 = 1024 * 1024;

/// Rules of the folders from the root to the current one.
///
/// They are read through the handles of the walk, so that nothing outside of the root counts: neither
/// the rules above it nor those of the user. The same folder gives the same answer on any machine.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// How many names of the path lead to the folder that holds the rules, and the rules.
    levels: Vec<(usize, Gitignore)>,
}

impl Rules {
    /// Takes in the rules of a folder; `depth` is the number of names from the root to it.
    pub(crate) fn enter(&mut self, dir: &Dir, depth: usize) {
        // Rules of the repository come before those of the folder, which win.
        for file in [".git/info/exclude", ".gitignore"] {
            // A file that cannot be read rules nothing; the walk itself says what is unreadable.
            if let Ok(Some(bytes)) = read_small(dir, Path::new(file), RULES_BYTES_MAX)
                && let Some(rules) = parsed(&bytes)
            {
                self.levels.push((depth, rules));
            }
        }
    }

    /// Forgets the rules of folders at `depth` and below.
    pub(crate) fn leave(&mut self, depth: usize) {
        while self.levels.pop_if(|(level, _)| *level >= depth).is_some() {}
    }

    /// Whether the file or folder at `path`, relative to the root, is ignored. The folders above it are
    /// known not to be.
    pub(crate) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        for (depth, rules) in self.levels.iter().rev() {
            let below: PathBuf = path.components().skip(*depth).collect();
            match rules.matched(&below, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

fn parsed(bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(bytes).lines() {
        if builder.add_line(None, line).is_err() {
            // A rule that cannot be read rules nothing, as in git.
        }
    }
    let rules = builder.build().ok()?;
    (!rules.is_empty()).then_some(rules)
}
