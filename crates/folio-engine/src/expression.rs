//! Regular expressions of plans.

use regex::{Error, Regex, RegexBuilder};

/// How large a compiled expression may be, in bytes. To compile one of this size takes milliseconds.
pub(crate) const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Compiles `pattern`.
///
/// # Errors
///
/// What is wrong with it, in one line.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    built.map_err(|error| match error {
        Error::CompiledTooBig(_) => "the expression is too large; repeat less in it".to_owned(),
        other => last_line(&other.to_string()),
    })
}

/// The last line of a message, which comes after a drawing of the place.
fn last_line(message: &str) -> String {
    let line = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(message);
    line.trim().strip_prefix("error: ").unwrap_or(line.trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_that_is_too_large_or_wrong_is_refused_in_one_line() {
        assert!(compile(r"^[\w ]{1,40}$").unwrap().is_match("a word"));
        assert_eq!(
            compile(r"(\p{L}{1,60}){1,50}").unwrap_err(),
            "the expression is too large; repeat less in it"
        );
        assert_eq!(compile("(unclosed").unwrap_err(), "unclosed group");
    }
}
