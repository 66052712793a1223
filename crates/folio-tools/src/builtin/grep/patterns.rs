//! The patterns of one search.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::patterns::{NEST_MAX, last_line};
use crate::response::ToolError;

/// The largest number of patterns in one call.
const PATTERNS_MAX: usize = 200;
/// The memory that one compiled pattern may take, in bytes.
const PATTERN_BYTES: usize = 10 * 1024 * 1024;
/// The memory that all compiled patterns of a call may take, in bytes, of which each has an equal share.
const PATTERNS_BYTES: usize = 256 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedPattern {
    name: String,
    pub(super) pattern: String,
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) name: Option<Arc<str>>,
    pub(super) regex: Regex,
}

/// What a search looks for. It works line by line, so a match never extends past the end of a line.
#[derive(Debug)]
pub(super) struct Patterns(pub(super) Vec<Pattern>);

impl Patterns {
    pub(super) fn new(
        single: Option<String>,
        named_patterns: Option<Vec<NamedPattern>>,
        fixed: bool,
        ignore_case: bool,
        cancel: &CancellationToken,
    ) -> Result<Self, ToolError> {
        let patterns = match (single, named_patterns) {
            (Some(pattern), None) => vec![(None, pattern)],
            (None, Some(named_patterns)) if !named_patterns.is_empty() => named_patterns
                .into_iter()
                .map(|item| (Some(Arc::from(item.name)), item.pattern))
                .collect(),
            _ => {
                return Err(ToolError::invalid(
                    "grep: give `pattern`, or a list of `patterns` that is not empty",
                ));
            }
        };
        if patterns.len() > PATTERNS_MAX {
            return Err(ToolError::invalid(format!(
                "grep: {} patterns are more than {PATTERNS_MAX}",
                patterns.len()
            )));
        }
        let bytes_max = PATTERN_BYTES.min(PATTERNS_BYTES / patterns.len());
        patterns
            .into_iter()
            .map(|(name, text)| {
                if cancel.is_cancelled() {
                    return Err(ToolError::cancelled());
                }
                let regex = compiled(&text, fixed, ignore_case, bytes_max)?;
                Ok(Pattern { name, regex })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn compiled(text: &str, fixed: bool, ignore_case: bool, bytes_max: usize) -> Result<Regex, ToolError> {
    let source = if fixed { regex::escape(text) } else { text.to_owned() };
    RegexBuilder::new(&source)
        .multi_line(true)
        .crlf(true)
        .case_insensitive(ignore_case)
        .size_limit(bytes_max)
        .nest_limit(NEST_MAX)
        .build()
        .map_err(|error| {
            let reason = last_line(&error.to_string());
            ToolError::invalid(format!("grep: cannot read the pattern `{text}`: {reason}"))
                .hint("give `fixed: true` to look for plain text")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::FailureKind;

    #[test]
    fn reading_patterns_ends_between_two_when_cancelled() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let error = Patterns::new(Some("x".to_owned()), None, false, false, &cancel).unwrap_err();
        assert_eq!(error.kind, FailureKind::Cancelled);
    }
}
