//! From what a model wrote to the JSON that it meant (E9.13): handles fences, prose around it, extra commas, unclosed
//! brackets.

use folio_memory::depth_exceeds;
use folio_memory::readable::read_unrounded;
use serde::de::IgnoredAny;
use serde_json::Value;

/// JSON that was read from a model's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The value.
    pub value: Value,
    /// Whether something outside the value had to be dropped, or something added.
    pub is_repaired: bool,
    /// Where the text ended, if the object was cut off and had to be closed there.
    pub ended: Option<Ended>,
}

/// Where in an object its text ended too early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Between two keys of the object.
    Between,
    /// Inside the value of this key, a list or an object, or a number.
    Inside(String),
    /// In the middle of a text in the value of this key.
    InText(String),
}

/// The most nested brackets; deeper text is not worth reading.
const DEPTH_MAX: usize = 128;

/// The deepest nesting of lists and objects in what a model says, and in what tools take and return. With what
/// surrounds it, a store could not read back much more.
const LEVELS_MAX: usize = 64;

/// The same for values that are made from several of those: results by a template, or the steps of a plan.
const MADE_LEVELS_MAX: usize = 80;

/// Whether lists and objects in `value` are nested too deeply to be read.
pub(super) fn is_too_deep(value: &Value) -> bool {
    depth_exceeds(value, LEVELS_MAX)
}

/// Why `value`, which was made from others, cannot be used, if it is nested too deeply to be stored.
pub(in crate::run) fn too_deep_to_keep(value: &Value) -> Option<String> {
    let message = || format!("lists and objects are nested more than {MADE_LEVELS_MAX} levels deep");
    depth_exceeds(value, MADE_LEVELS_MAX).then(message)
}

/// The most objects that are looked for in prose. Braces that do not begin an object, such as those of code, or that
/// begin an empty one, are skipped.
const PLACES_MAX: usize = 16;

/// The JSON object in `text`: the last one that has all keys in `required`, with preference for one in a fence;
/// repaired where that is possible without guessing what it says.
///
/// Brackets at the end are closed only if the object then has all keys in `required`: needed content that was cut off
/// is not made up. If no object has all of them, the first one counts.
///
/// # Errors
///
/// Why there is no object, in words for the model.
pub fn object(text: &str, required: &[&str]) -> Result<Repaired, String> {
    object_of(text, required, required)
}

/// The same for an object that is accepted with the keys in `needed`, but closed only if it has all in `required`.
pub(super) fn object_of(text: &str, needed: &[&str], required: &[&str]) -> Result<Repaired, String> {
    let repaired = any_object(text, needed, required)?;
    if is_too_deep(&repaired.value) {
        return Err(format!(
            "lists and objects are nested more than {LEVELS_MAX} levels deep"
        ));
    }
    Ok(repaired)
}

fn any_object(text: &str, needed: &[&str], required: &[&str]) -> Result<Repaired, String> {
    let trimmed = text.trim();
    if let Ok(value @ Value::Object(_)) = value_in(trimmed) {
        return Ok(Repaired {
            value,
            is_repaired: false,
            ended: None,
        });
    }
    if trimmed.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    let mut problem = "there is no JSON object in the answer".to_owned();
    // The first object that lacks a key, the last complete one, and the last complete one in a fence.
    let (mut first, mut last, mut fenced) = (None, None, None);
    let (mut at, mut is_in_fence, mut places) = (0, false, 0);
    while places < PLACES_MAX {
        let Some(offset) = trimmed[at..].find('{') else { break };
        let start = at + offset;
        is_in_fence ^= trimmed[at..start].matches(FENCE).count() % 2 == 1;
        let rest = &trimmed[start..];
        if !begins_object(rest) {
            if let Err(error) = serde_json::from_str::<IgnoredAny>(rest) {
                problem = not_json(&error);
            }
            at = start + 1;
            continue;
        }
        places += usize::from(!is_empty(rest));
        let scanned = scan(rest);
        let end = start + scanned.bytes;
        let parsed = value_in(&scanned.text);
        // If the text ended in a key, or before its value began, everything before that is there.
        let parse_beginning = || value_in(scanned.before_key.as_deref()?).ok();
        match parsed.or_else(|error| parse_beginning().ok_or(error)) {
            Ok(value @ Value::Object(_)) if scanned.ended.is_none() => {
                at = end;
                let slot = match lacking(&value, needed).is_empty() {
                    true if is_in_fence => &mut fenced,
                    true => &mut last,
                    false if first.is_none() => &mut first,
                    false => continue,
                };
                *slot = Some(value);
            }
            // This is the last thing that was said, so nothing before it counts.
            Ok(value @ Value::Object(_)) => {
                let missing = lacking(&value, required);
                if !missing.is_empty() {
                    return Err(format!("the answer was cut off before {}", missing.join(", ")));
                }
                return Ok(Repaired {
                    value,
                    is_repaired: true,
                    ended: scanned.ended,
                });
            }
            Ok(_) => at = start + 1,
            // An object inside a broken one is not the one that was meant.
            Err(error) if scanned.ended.is_some() => return Err(not_json(&error)),
            Err(error) => {
                problem = not_json(&error);
                at = end;
            }
        }
    }
    let value = fenced.or(last).or(first).ok_or(problem)?;
    Ok(Repaired {
        value,
        is_repaired: true,
        ended: None,
    })
}

/// The value that `text` says; a number that does not fit stays a text, so that it keeps its digits.
pub(super) fn value_in(text: &str) -> serde_json::Result<Value> {
    read_unrounded(text.as_bytes())
}

fn not_json(error: &serde_json::Error) -> String {
    format!("the answer is not JSON: {error}")
}

/// The marks around JSON in a text.
const FENCE: &str = "```";

/// Those of `keys` that `object` lacks.
fn lacking<'k>(object: &Value, keys: &[&'k str]) -> Vec<&'k str> {
    let keys = keys.iter().copied();
    keys.filter(|key| object.get(key).is_none()).collect()
}

/// Whether `text`, which begins with a brace, continues like an object: with a key, or a part of one, or with its end.
fn begins_object(text: &str) -> bool {
    let Some(key) = text[1..].trim_start().strip_prefix('"') else {
        return is_empty(text);
    };
    key.split_once('"')
        .is_none_or(|(_, rest)| rest.trim_start().starts_with(':'))
}

/// Whether the brace at the beginning of `text` is closed at once.
fn is_empty(text: &str) -> bool {
    text[1..].trim_start().starts_with('}')
}

struct Scanned {
    text: String,
    /// The number of bytes that were read.
    bytes: usize,
    /// Where the text ended, if it ended before the value did.
    ended: Option<Ended>,
    /// In that case, the text without the last key on its top level and everything after it.
    before_key: Option<String>,
}

/// The position of a text within an object.
#[derive(Default)]
struct Keys {
    /// The last text that began on the level of its keys, as it is written.
    text: String,
    /// The key whose value is not complete.
    open: Option<String>,
}

/// One JSON value from the beginning of `text`, without commas before closing brackets, and closed at the end.
fn scan(text: &str) -> Scanned {
    let mut scanner = Scanner {
        out: String::with_capacity(text.len()),
        ..Scanner::default()
    };
    for (at, c) in text.char_indices() {
        if scanner.in_string {
            scanner.add_of_string(c);
            continue;
        }
        scanner.add(c);
        if scanner.open.is_empty() {
            return Scanned {
                text: scanner.out,
                bytes: at + c.len_utf8(),
                ended: None,
                before_key: None,
            };
        }
        if scanner.open.len() > DEPTH_MAX {
            break;
        }
    }
    scanner.close(text.len())
}

/// What was read of a value so far.
#[derive(Default)]
struct Scanner {
    out: String,
    /// What closes the lists and objects that are open.
    open: Vec<char>,
    keys: Keys,
    in_string: bool,
    escaped: bool,
    /// The length of the text before the last key on the top level.
    before_key: usize,
}

impl Scanner {
    /// Takes in a character inside a string.
    fn add_of_string(&mut self, c: char) {
        // A line break inside a string is one that should have been escaped.
        match c {
            '\n' if !self.escaped => self.out.push_str("\\n"),
            '\r' if !self.escaped => {}
            '\t' if !self.escaped => self.out.push_str("\\t"),
            _ => self.out.push(c),
        }
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' => self.escaped = true,
            '"' => self.in_string = false,
            _ => {}
        }
        if self.in_string && self.open.len() == 1 && self.keys.open.is_none() {
            self.keys.text.push(c);
        }
    }

    /// Takes in a character outside of strings.
    fn add(&mut self, c: char) {
        let is_on_top = self.open.len() == 1;
        match c {
            '"' => {
                self.in_string = true;
                self.keys.text.clear();
            }
            ':' if is_on_top && self.keys.open.is_none() => {
                self.keys.open = Some(std::mem::take(&mut self.keys.text));
            }
            ',' if is_on_top => {
                self.keys.open = None;
                self.before_key = self.out.len();
            }
            '{' => self.open.push('}'),
            '[' => self.open.push(']'),
            '}' | ']' => {
                self.trim_end(&[',']);
                if self.open.last() == Some(&c) {
                    self.open.pop();
                }
            }
            _ => {}
        }
        self.out.push(c);
    }

    /// Closes everything that is open where the text ends, after `bytes`.
    fn close(mut self, bytes: usize) -> Scanned {
        let is_whole = self.open.len() <= DEPTH_MAX;
        // A text, a list and an object show where they end; a number does not.
        let is_complete = self.open.len() == 1 && !self.in_string && self.out.trim_end().ends_with(['"', ']', '}']);
        let ended = match self.keys.open.take() {
            Some(key) if self.in_string => Ended::InText(key),
            Some(key) if !is_complete => Ended::Inside(key),
            _ => Ended::Between,
        };
        let before_key = self.out.get(..self.before_key.max(1)).filter(|_| is_whole);
        let before_key = before_key.map(|kept| format!("{kept}}}"));
        if self.in_string {
            if self.escaped {
                self.out.pop();
            }
            self.out.push('"');
        }
        self.trim_end(&[',', ':']);
        self.out.extend(self.open.iter().rev());
        Scanned {
            text: self.out,
            bytes,
            ended: Some(ended),
            before_key,
        }
    }

    /// Removes spaces at the end, and any of `unwanted` before them.
    fn trim_end(&mut self, unwanted: &[char]) {
        let kept = self.out.trim_end().trim_end_matches(unwanted).len();
        self.out.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, wanted: &Value) {
        assert_eq!(
            object(text, &["a"]).unwrap_or_else(|e| panic!("{text:?}: {e}")).value,
            *wanted,
            "{text:?}"
        );
    }

    fn check_refused(text: &str, reason: &str) {
        assert_eq!(object(text, &["a"]), Err(reason.to_owned()), "{text:?}");
    }

    #[test]
    fn json_is_read_despite_surrounding_text_and_trailing_commas_e9_13() {
        let wanted = json!({"a": [1, 2], "b": "x"});
        check(r#"{"a": [1, 2], "b": "x"}"#, &wanted);
        check(
            "Here it is:\n```json\n{\"a\": [1, 2,], \"b\": \"x\",}\n```\nDone.",
            &wanted,
        );
        check("I use {braces} now: {\"a\":[1,2],\"b\":\"x\"} and {more}", &wanted);
        check("{\"a\": [1, 2], \"b\": \"x\"", &wanted);
        check("{\"a\": [1, 2], \"b\": \"x", &wanted);
        check("{\"a\": \"two\nlines\"}", &json!({"a": "two\nlines"}));
    }

    #[test]
    fn number_too_large_for_json_becomes_a_digit_string_e9_13() {
        let digits = "123456789012345678901234567890";
        let wanted = json!({"a": digits, "b": [1, "1e999"]});
        for around in ["X", "Here:\n```json\nX\n```"] {
            check(
                &around.replace('X', &format!("{{\"a\": {digits}, \"b\": [1, 1e999]}}")),
                &wanted,
            );
        }
        check(&format!("{{\"a\": [{digits}"), &json!({"a": [digits]}));
    }

    #[test]
    fn json_is_found_after_a_lot_of_code_with_braces_e9_13() {
        for code in ["if x { y } ", "a {} ", "@media { p { color: red } }\n"] {
            let code = code.repeat(20);
            check(&format!("{code}{{\"a\": 2}}"), &json!({"a": 2}));
            check(&format!("```\n{code}```\n```json\n{{\"a\": 2}}\n```"), &json!({"a": 2}));
        }
        let error = object("{decision: \"plan\"}", &["a"]).unwrap_err();
        assert!(
            error.starts_with("the answer is not JSON: key must be a string"),
            "{error}"
        );
    }

    #[test]
    fn truncated_json_drops_a_last_key_without_a_value_e9_13() {
        for (text, ended) in [
            (r#"{"a": 1, "b"#, Ended::Between),
            (r#"{"a": 1, "b""#, Ended::Between),
            (r#"{"a": 1, "b":"#, Ended::Inside("b".to_owned())),
            (r#"{"a": 1, "b": tr"#, Ended::Inside("b".to_owned())),
        ] {
            let wanted = Repaired {
                value: json!({"a": 1}),
                is_repaired: true,
                ended: Some(ended),
            };
            assert_eq!(object(text, &["a"]), Ok(wanted), "{text}");
        }
        for text in [r#"{"b": 1, "a"#, r#"{"b": 1, "a":"#, r#"{"a"#] {
            check_refused(text, "the answer was cut off before a");
        }
        // Nothing is made of what no end could make JSON.
        check_refused(
            r#"{"a": 1 2, "b": tr"#,
            "the answer is not JSON: expected `,` or `}` at line 1 column 9",
        );
    }

    #[test]
    fn answer_nested_deeper_than_the_limit_is_refused_e9_13() {
        let nested = |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        check(&nested(1), &json!({"a": []}));
        let deepest = nested(LEVELS_MAX - 1);
        check(&deepest, &serde_json::from_str(&deepest).unwrap());
        check_refused(
            &nested(LEVELS_MAX),
            "lists and objects are nested more than 64 levels deep",
        );
    }

    #[test]
    fn answer_truncated_before_a_required_key_is_refused_e9_13() {
        let error = object("{\"b\": [1, 2", &["a", "b"]).unwrap_err();
        assert_eq!(error, "the answer was cut off before a");
    }

    #[test]
    fn answer_without_an_object_is_refused_with_the_reason_e9_13() {
        for empty in ["", " \n"] {
            check_refused(empty, "the answer is empty");
        }
        for text in ["no object at all", "[1, 2]", "7"] {
            check_refused(text, "there is no JSON object in the answer");
        }
    }

    #[test]
    fn last_complete_object_wins_and_code_fences_take_precedence_e9_13() {
        let wanted = json!({"a": 2});
        check(r#"{"a": 1} and then {"a": 2}"#, &wanted);
        check(r#"use {"b": "{"} for it: {"a": 2}"#, &wanted);
        check("```json\n{\"a\": 2}\n```\nwhich is not {\"a\": 1}", &wanted);
        check("```\n{\"b\": 1}\n```\nwhich is {\"a\": 2}", &wanted);
        // Nothing has it, so the first is told what it lacks.
        check(r#"{"b": 1} or {"c": {"a": 2}}"#, &json!({"b": 1}));
    }

    #[test]
    fn nested_object_is_not_taken_for_the_answer_e9_13() {
        for (text, reason) in [
            (
                r#"{"b": [{"a": 1}, {"a": 2}], "c": tr"#,
                "the answer was cut off before a",
            ),
            (
                r#"{"b": [{"a": 1}], "c": whatever}"#,
                "the answer is not JSON: expected value at line 1 column 24",
            ),
            (
                r#"draft {"a": 1}, final {"b": [{"a": 2}"#,
                "the answer was cut off before a",
            ),
        ] {
            check_refused(text, reason);
        }
    }

    #[test]
    fn truncated_answer_reports_the_key_where_it_ended_e9_13() {
        let inside = |key: &str| Some(Ended::Inside(key.to_owned()));
        let in_text = |key: &str| Some(Ended::InText(key.to_owned()));
        for (text, ended) in [
            (r#"{"a": 1}"#, None),
            (r#"{"a": 1} and {more"#, None),
            (r#"{"a": "x", "b": ["y"]"#, Some(Ended::Between)),
            (r#"{"a": "x","#, Some(Ended::Between)),
            (r#"{"a": {"c": "x"}, "b": [{"d": 1}"#, inside("b")),
            (r#"{"a": "x"#, in_text("a")),
            (r#"{"a": 12"#, inside("a")),
            (r#"{"b": "the \"a\":", "a": ["x, y: z"#, in_text("a")),
        ] {
            assert_eq!(object(text, &["a"]).unwrap().ended, ended, "{text}");
        }
    }

    proptest! {
        #[test]
        fn answer_reader_never_panics_on_arbitrary_text(text in "[\\PC\\n]{0,200}") {
            // Whatever is read is an object, and what was refused has a reason.
            match object(&text, &["a"]) {
                Ok(read) => prop_assert!(read.value.is_object()),
                Err(reason) => prop_assert!(!reason.is_empty()),
            }
        }

        #[test]
        fn answer_reader_never_panics_on_nested_brackets(text in "[\\[\\]{}\",:a1 ]{0,400}") {
            match object(&text, &[]) {
                Ok(read) => prop_assert!(read.value.is_object()),
                Err(reason) => prop_assert!(!reason.is_empty()),
            }
        }

        #[test]
        fn valid_json_object_is_read_without_repair(keys in proptest::collection::btree_map("[a-z]{1,6}", ".{0,20}", 0..6)) {
            let text = serde_json::to_string(&keys).unwrap();
            let read = object(&text, &[]).unwrap();
            prop_assert_eq!(read.value, json!(keys));
            prop_assert!(!read.is_repaired);
        }
    }
}
