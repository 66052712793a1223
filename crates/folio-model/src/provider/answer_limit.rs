//! How many tokens a model's answer may have, as its provider says when it refuses a request for more. Providers say it
//! in words only.

use serde_json::Value;

/// What requests call the limit, in lower case and without `_`.
const NAMES: [&str; 3] = ["maxtokens", "maxcompletiontokens", "maxoutputtokens"];
/// Words of a message that says that the limit is too high.
const TOO_HIGH: [&str; 9] = [
    "at most",
    "maximum",
    "exceed",
    "too large",
    "too high",
    "less than",
    "range",
    "between",
    "greater than",
];
/// The least limit that a message is taken to name: smaller numbers are something else, such as the other end of a
/// range.
const LIMIT_MIN: u32 = 256;
/// The limit that is tried if the message names none. Every model in use allows as much.
const USUAL: u32 = 4_096;

/// The limit that the refusal `body` of a request for `asked` tokens names, or one that is likely to be accepted;
/// `None` if it is about something else.
pub(super) fn limit_in(body: &str, asked: u32) -> Option<u32> {
    let lower = body.to_ascii_lowercase();
    let flat = lower.replace('_', "");
    if !NAMES.iter().any(|name| flat.contains(name)) || !TOO_HIGH.iter().any(|words| lower.contains(words)) {
        return None;
    }
    let named = numbers(&lower)
        .filter(|number| (LIMIT_MIN..asked).contains(number))
        .max();
    named.or(Some(USUAL).filter(|usual| *usual < asked))
}

/// The numbers in `text` that are no part of a name, such as that of a model. One that a range ends before counts as the
/// last one inside.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(|c: char| c.is_ascii_digit())
        .filter_map(move |(at, _)| {
            let (before, rest) = (text[..at].chars().next_back(), &text[at..]);
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let is_alone = !before.is_some_and(|c| is_of_name(c) || c == '.') && !after.starts_with(is_of_name);
            let is_outside = after.trim_start().starts_with("(exclusive)");
            let number: u32 = number.parse().ok().filter(|_| is_alone)?;
            Some(number.saturating_sub(u32::from(is_outside)))
        })
}

/// Sets the limit in the body of a request.
pub(super) fn set_limit(body: &mut Value, limit: u32) {
    let settings = match body.get_mut("generationConfig") {
        Some(config) => config,
        None => body,
    };
    for (key, value) in settings.as_object_mut().into_iter().flatten() {
        if NAMES.contains(&key.to_ascii_lowercase().replace('_', "").as_str()) {
            *value = limit.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_of_an_answer_is_found_in_what_providers_say() {
        for (said, limit) in [
            (
                "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for claude-3-5-haiku-20241022",
                Some(8_192),
            ),
            (
                "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, whereas you provided 16384.",
                Some(4_096),
            ),
            (
                "it has a maxOutputTokens value of 16384 but the supported range is from 1 (inclusive) to 8193 (exclusive)",
                Some(8_192),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                Some(8_192),
            ),
            (
                "`max_completion_tokens` must be less than or equal to `2000`",
                Some(2_000),
            ),
            // No number, or only that of a model.
            ("max_tokens exceeds what gpt-4-1106 allows", Some(4_096)),
            ("max_output_tokens is too large", Some(4_096)),
            // Something else.
            (
                "Unsupported parameter: 'max_tokens' is not supported; use 'max_completion_tokens'",
                None,
            ),
            ("temperature must be at most 1", None),
        ] {
            assert_eq!(limit_in(said, 16_384), limit, "{said}");
        }
        assert_eq!(
            limit_in("max_tokens is too large", 1_000),
            None,
            "a smaller number would not help"
        );
    }
}
