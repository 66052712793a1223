//! The rules of the `.gitignore` files from a root down to a folder.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::roots::read_small;

/// The largest rules file that is read, in bytes.
const RULES_BYTES_MAX: u64 = 1024 * 1024;

/// The rules of the folders from the root to the current one.
///
/// They are read through the handles of the walk, so that nothing outside of the root counts: neither the rules above
/// it nor those of the user. The same folder gives the same result on any machine.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The depth of the folder that holds the rules, in names of its path, and the rules.
    levels: Vec<(usize, Gitignore)>,
}

impl Rules {
    /// Adds the rules of a folder; `depth` is the number of names from the root to it.
    pub(crate) fn enter(&mut self, dir: &Dir, depth: usize) {
        // The rules of the folder take precedence over those of the repository, so they are added last.
        for file in [".git/info/exclude", ".gitignore"] {
            // A file that cannot be read adds no rules; the walk itself reports what is unreadable.
            if let Ok(Some(bytes)) = read_small(dir, Path::new(file), RULES_BYTES_MAX)
                && let Some(rules) = parsed(&bytes)
            {
                self.levels.push((depth, rules));
            }
        }
    }

    /// Removes the rules of folders at `depth` and below.
    pub(crate) fn leave(&mut self, depth: usize) {
        while self.levels.pop_if(|(level, _)| *level >= depth).is_some() {}
    }

    /// Whether the file or folder at `path`, relative to the root, is ignored. The caller knows that the folders above
    /// it are not.
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
            // A rule that cannot be parsed has no effect, as in git.
        }
    }
    let rules = builder.build().ok()?;
    (!rules.is_empty()).then_some(rules)
}
