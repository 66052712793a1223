//! Changing a part of a text without sending the whole (M7.4.36).

use crate::warning::Invalid;

/// Returns `text` with its only occurrence of `old` replaced by `new`.
///
/// # Errors
///
/// `text_not_found` or `text_not_unique`: the caller then has a different text in mind than the present one.
pub fn str_replace(text: &str, old: &str, new: &str) -> Result<String, Invalid> {
    if old.is_empty() {
        return Err(Invalid::new(
            "text_not_unique",
            "old",
            "is empty and would match everywhere",
        ));
    }
    let mut found = text.match_indices(old);
    let Some((at, _)) = found.next() else {
        let message = "the text does not contain it; read the text again, because it may have changed";
        return Err(Invalid::new("text_not_found", "old", message));
    };
    // The second occurrence may overlap the first, which is just as ambiguous.
    let next = at + text[at..].chars().next().map_or(1, char::len_utf8);
    if text[next..].contains(old) {
        let message = "the text contains it more than once; include more of the surrounding text";
        return Err(Invalid::new("text_not_unique", "old", message));
    }
    Ok([&text[..at], new, &text[at + old.len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, wanted: Result<&str, &str>) {
        let found = str_replace(text, old, "X");
        assert_eq!(found.as_deref().map_err(|error| error.code.as_str()), wanted);
    }

    #[test]
    fn edit_replaces_only_text_that_occurs_once_m7_4_36() {
        check("one two three", "two", Ok("one X three"));
        check("zwölf", "ö", Ok("zwXlf"));
        check("one", "two", Err("text_not_found"));
        check("two two", "two", Err("text_not_unique"));
        check("aaa", "aa", Err("text_not_unique"));
        check("äää", "ää", Err("text_not_unique"));
        check("one", "", Err("text_not_unique"));
    }
}
