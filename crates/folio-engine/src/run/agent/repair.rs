//! From what a model wrote to the JSON that it meant (E9.13): fences, prose around it, commas too many, brackets not closed.

use folio_memory::depth_exceeds;
use serde_json::Value;

/// JSON that was read from a model's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The value.
    pub value: Value,
    /// Whether anything but the value itself had to be left out or put in.
    pub is_repaired: bool,
}

/// Brackets that may be inside one another; more is not worth reading.
const DEPTH_MAX: usize = 128;

/// Lists and objects that may be inside one another in what a model says, as in what tools take and give. A store could not read back much more,
/// with what stands around it.
const LEVELS_MAX: usize = 64;

/// The same of what is made of several of those: of results by a template, or of the steps of a plan.
const MADE_LEVELS_MAX: usize = 80;

/// Whether lists and objects in `value` are nested deeper than anybody reads.
pub(super) fn is_too_deep(value: &Value) -> bool {
    depth_exceeds(value, LEVELS_MAX)
}

/// Why `value`, which was made of others, is of no use, if it is nested too deep to be stored.
pub(in crate::run) fn too_deep_to_keep(value: &Value) -> Option<String> {
    let message = || format!("lists and objects are nested more than {MADE_LEVELS_MAX} deep");
    depth_exceeds(value, MADE_LEVELS_MAX).then(message)
}

/// The first JSON object of `text`, mended where it can be without guessing at what it says.
///
/// Brackets at the end are closed only if every one of `required` is a key of the object afterwards: what was cut off before
/// the end of something that is needed is not made up.
///
/// # Errors
///
/// Why there is no object, in words for the model.
pub fn object(text: &str, required: &[&str]) -> Result<Repaired, String> {
    let read = any_object(text, required)?;
    if is_too_deep(&read.value) {
        return Err(format!("lists and objects are nested more than {LEVELS_MAX} deep"));
    }
    Ok(read)
}

fn any_object(text: &str, required: &[&str]) -> Result<Repaired, String> {
    let trimmed = text.trim();
    if let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(trimmed) {
        return Ok(Repaired {
            value,
            is_repaired: false,
        });
    }
    if trimmed.is_empty() {
        return Err("the answer is empty".to_owned());
    }
    let mut last = "there is no JSON object in the answer".to_owned();
    // Prose may hold a brace; a few places are tried, the first that gives an object counts.
    for start in trimmed.match_indices('{').map(|(at, _)| at).take(16) {
        let scanned = scan(&trimmed[start..]);
        match serde_json::from_str::<Value>(&scanned.text) {
            Ok(value @ Value::Object(_)) => {
                let missing: Vec<&str> = required
                    .iter()
                    .copied()
                    .filter(|key| value.get(key).is_none())
                    .collect();
                if scanned.is_closed || missing.is_empty() {
                    return Ok(Repaired {
                        value,
                        is_repaired: true,
                    });
                }
                return Err(format!("the answer was cut off before {}", missing.join(", ")));
            }
            Ok(_) => {}
            Err(error) => last = format!("the answer is not JSON: {error}"),
        }
    }
    Err(last)
}

struct Scanned {
    text: String,
    /// Whether it ended by itself.
    is_closed: bool,
}

/// One JSON value from the beginning of `text`, without commas before closing brackets, and closed at the end.
fn scan(text: &str) -> Scanned {
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<char> = Vec::new();
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            // A line break inside a string is one that somebody forgot to escape.
            match c {
                '\n' if !escaped => out.push_str("\\n"),
                '\r' if !escaped => {}
                '\t' if !escaped => out.push_str("\\t"),
                _ => out.push(c),
            }
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match c {
            '"' => in_string = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                let kept = out.trim_end().trim_end_matches(',').len();
                out.truncate(kept);
                if open.last() == Some(&c) {
                    open.pop();
                }
            }
            _ => {}
        }
        out.push(c);
        if open.is_empty() {
            return Scanned {
                text: out,
                is_closed: true,
            };
        }
        if open.len() > DEPTH_MAX {
            break;
        }
    }
    if in_string {
        if escaped {
            out.pop();
        }
        out.push('"');
    }
    let kept = out.trim_end().trim_end_matches([',', ':']).len();
    out.truncate(kept);
    out.extend(open.iter().rev());
    Scanned {
        text: out,
        is_closed: false,
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

    #[test]
    fn what_stands_around_json_and_commas_too_many_are_left_out_e9_13() {
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
    fn what_is_nested_deeper_than_anybody_reads_is_not_read_e9_13() {
        let nested = |levels: usize| format!("{{\"a\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        check(&nested(1), &json!({"a": []}));
        assert!(object(&nested(LEVELS_MAX - 1), &["a"]).is_ok());
        let refused = object(&nested(LEVELS_MAX), &["a"]).unwrap_err();
        assert_eq!(refused, "lists and objects are nested more than 64 deep");
    }

    #[test]
    fn what_was_cut_off_before_something_that_is_needed_is_not_made_up_e9_13() {
        let error = object("{\"b\": [1, 2", &["a", "b"]).unwrap_err();
        assert_eq!(error, "the answer was cut off before a");
        assert!(object("", &[]).is_err());
        assert!(object("no object at all", &[]).is_err());
        assert!(object("[1, 2]", &[]).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_a_model_writes_makes_the_reader_fail(text in "[\\PC\\n]{0,200}") {
            let _read = object(&text, &["a"]);
        }

        #[test]
        fn nests_of_brackets_do_not_either(text in "[\\[\\]{}\",:a1 ]{0,400}") {
            let _read = object(&text, &[]);
        }

        #[test]
        fn an_object_is_read_as_it_is(keys in proptest::collection::btree_map("[a-z]{1,6}", ".{0,20}", 0..6)) {
            let text = serde_json::to_string(&keys).unwrap();
            let read = object(&text, &[]).unwrap();
            prop_assert_eq!(read.value, json!(keys));
            prop_assert!(!read.is_repaired);
        }
    }
}
