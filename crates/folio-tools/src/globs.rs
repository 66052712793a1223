//! Patterns that select the files of a call.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::response::ToolError;

/// Patterns of paths, relative to the folder that a call starts in.
///
/// A pattern without a slash matches the file's name, in any folder; one with a slash matches the whole path; one that
/// ends with a slash matches everything below a folder; one that begins with `!` excludes files, and folders with
/// everything in them. `*` stays within one name, `**` does not.
#[derive(Debug)]
pub(crate) struct Globs {
    include: Option<GlobSet>,
    exclude: GlobSet,
    /// Folders that are excluded with everything in them.
    excluded_folders: GlobSet,
}

impl Globs {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, ToolError> {
        let mut include = GlobSetBuilder::new();
        let mut exclude = GlobSetBuilder::new();
        let mut closed = GlobSetBuilder::new();
        let mut includes_some = false;
        for pattern in patterns {
            let (builder, text) = match pattern.strip_prefix('!') {
                Some(rest) => {
                    closed.add(glob(pattern, rest.trim_end_matches('/'))?);
                    (&mut exclude, rest)
                }
                None => {
                    includes_some = true;
                    (&mut include, pattern.as_str())
                }
            };
            builder.add(glob(pattern, text)?);
        }
        let built = |builder: &GlobSetBuilder| {
            builder
                .build()
                .map_err(|error| ToolError::invalid(format!("cannot read the patterns: {error}")))
        };
        Ok(Self {
            include: if includes_some { Some(built(&include)?) } else { None },
            exclude: built(&exclude)?,
            excluded_folders: built(&closed)?,
        })
    }

    /// The errors of patterns that cannot be parsed, each checked by itself.
    pub(crate) fn mistakes<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let read = |pattern: &str| glob(pattern, pattern.strip_prefix('!').unwrap_or(pattern));
        let failed = patterns.into_iter().filter_map(|pattern| read(pattern).err());
        failed.map(|error| error.message).collect()
    }

    /// Whether a folder has to be entered, as far as the excluding patterns tell.
    pub(crate) fn should_enter(&self, folder: &Path) -> bool {
        !self.excluded_folders.is_match(folder)
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.include.as_ref().is_none_or(|set| set.is_match(path)) && !self.exclude.is_match(path)
    }
}

fn glob(pattern: &str, text: &str) -> Result<globset::Glob, ToolError> {
    let text = text.strip_prefix("./").unwrap_or(text);
    let mut full_pattern = match text.strip_prefix('/') {
        Some(from_start) => from_start.to_owned(),
        None if text.trim_end_matches('/').contains('/') => text.to_owned(),
        None => format!("**/{text}"),
    };
    if full_pattern.ends_with('/') {
        full_pattern.push_str("**");
    }
    GlobBuilder::new(&full_pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| ToolError::invalid(format!("cannot read the pattern `{pattern}`: {}", error.kind())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patterns: &[&str], path: &str, expected: bool) {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(
            Globs::new(&patterns).unwrap().matches(Path::new(path)),
            expected,
            "{patterns:?} on {path}"
        );
    }

    #[test]
    fn glob_without_slash_matches_the_file_name() {
        check(&["*.rs"], "main.rs", true);
        check(&["*.rs"], "src/deep/main.rs", true);
        check(&["*.rs"], "src/main.rs.bak", false);
        check(&["/*.rs"], "src/main.rs", false);
    }

    #[test]
    fn glob_with_slash_matches_the_whole_path() {
        check(&["src/*.rs"], "src/main.rs", true);
        check(&["src/*.rs"], "src/deep/main.rs", false);
        check(&["src/**/*.rs"], "src/deep/main.rs", true);
        check(&["./src/**"], "src/deep/main.rs", true);
        check(&["src/"], "src/deep/main.rs", true);
        check(&["src/"], "lib/main.rs", false);
    }

    #[test]
    fn negated_glob_excludes_files() {
        check(&["!*.lock"], "Cargo.lock", false);
        check(&["!*.lock"], "Cargo.toml", true);
        check(&["*.rs", "!tests/"], "tests/a.rs", false);
        check(&["*.{rs,toml}"], "Cargo.toml", true);
    }

    #[test]
    fn negated_glob_stops_descent_into_excluded_folders() {
        let enters = |patterns: &[&str], folder: &str| {
            let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
            Globs::new(&patterns).unwrap().should_enter(Path::new(folder))
        };
        assert!(!enters(&["!node_modules"], "web/node_modules"));
        assert!(!enters(&["!tests/"], "src/tests"));
        assert!(!enters(&["!/tests"], "tests"));
        assert!(enters(&["!/tests"], "src/tests"));
        assert!(!enters(&["!src/**"], "src/deep"));
        assert!(
            enters(&["*.rs", "!*.lock"], "src"),
            "what is not taken out may hold what is wanted"
        );
    }

    #[test]
    fn empty_glob_list_matches_every_file() {
        check(&[], "anything", true);
    }

    #[test]
    fn invalid_glob_error_names_the_pattern() {
        let error = Globs::new(&["a[".to_owned()]).unwrap_err();
        assert_eq!(
            error.message,
            "cannot read the pattern `a[`: unclosed character class; missing ']'"
        );
    }
}
