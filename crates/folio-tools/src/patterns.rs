//! Checks whether regular expressions can be parsed, without compiling them: that may take long.

use regex_syntax::ast::parse::ParserBuilder;

/// How deeply groups may be nested.
pub(crate) const NEST_MAX: u32 = 100;

/// Why a pattern cannot be parsed, as far as its syntax tells. Takes time linear in its length.
pub(crate) fn pattern_error(text: &str) -> Option<String> {
    let mut parser = ParserBuilder::new().nest_limit(NEST_MAX).build();
    let error = parser.parse(text).err()?;
    Some(format!(
        "cannot read the pattern `{text}`: {}",
        last_line(&error.to_string())
    ))
}

/// The library prints the pattern over several lines; the last one says what is wrong.
pub(crate) fn last_line(error_text: &str) -> String {
    let reason = error_text.lines().last().unwrap_or_default();
    reason.strip_prefix("error: ").unwrap_or(reason).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_regex_error_is_one_line() {
        assert_eq!(
            pattern_error("a(b").unwrap(),
            "cannot read the pattern `a(b`: unclosed group"
        );
        assert_eq!(pattern_error(r"\b(TODO|FIXME)\b"), None);
        assert!(pattern_error(&"(".repeat(101)).is_some());
    }
}
