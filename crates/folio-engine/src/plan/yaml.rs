//! Reads YAML into a tree that knows where each value is.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::Number;

use super::Place;
use super::errors::PlanError;
use super::spanned::{
    DEPTH_MAX, Entry, Node, Reading, START, Tree, VALUES_MAX, WrittenNumber, duplicate_key, too_deep, too_many,
    too_many_digits, unreadable,
};

pub(super) fn read(text: &str) -> Result<Reading, PlanError> {
    let mut builder = Builder::default();
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| match error.info() {
            // The scanner looks ahead and reaches its own limit first.
            "recursion limit exceeded" => too_deep(place(*error.marker())),
            info => PlanError {
                hint: hint(info).map(str::to_owned),
                ..unreadable(place(*error.marker()), info)
            },
        })?;
        let at = place(span.start);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(unreadable(at, "a second document begins here; a plan is one document"));
                }
            }
            Event::SequenceStart(anchor, _) => builder.open(at, anchor, Tree::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => builder.open(at, anchor, Tree::Object(Vec::new()))?,
            Event::SequenceEnd | Event::MappingEnd => builder.close()?,
            Event::Alias(anchor) => builder.alias(at, anchor)?,
            Event::Scalar(text, style, anchor, tag) => {
                let tree = match scalar(&text, style, tag.as_deref()) {
                    Ok(tree) => tree,
                    Err(message) => return Err(unreadable(at, message)),
                };
                // In quotes it is an ordinary key.
                if text == "<<" && style == ScalarStyle::Plain && builder.expects_key() {
                    return Err(unreadable(at, "`<<` does not merge here; write the keys out"));
                }
                builder.add(Node { place: at, tree }, anchor)?;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    let root = builder.root.unwrap_or(Node {
        place: START,
        tree: Tree::Null,
    });
    Ok(Reading {
        root,
        errors: builder.errors,
    })
}

/// A hint for a parser error that mostly has the same cause.
fn hint(info: &str) -> Option<&'static str> {
    if info.starts_with("mapping values are not allowed") {
        return Some("put quotation marks around a text with `: ` in it: 'look at: this'");
    }
    if info.starts_with("unexpected character") {
        return Some("put quotation marks around a text that begins with such a character: '@team'");
    }
    if info.starts_with("tabs disallowed") {
        return Some("indent with spaces");
    }
    None
}

fn place(marker: Marker) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: number(marker.line()).max(1),
        column: number(marker.col()).saturating_add(1),
    }
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, (Node, Size)>,
    values: usize,
    errors: Vec<PlanError>,
}

/// A list or an object that has begun and not ended yet.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<(String, Place)>,
    keys: HashMap<String, Place>,
    size: Size,
}

#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    depth: usize,
}

impl Builder {
    fn open(&mut self, at: Place, anchor: usize, tree: Tree) -> Result<(), PlanError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep(at));
        }
        if self.expects_key() {
            // This is most often the second brace of a template.
            return Err(unreadable(
                at,
                "a key must be a text; put quotation marks around a value that begins with {{: '{{ … }}'",
            ));
        }
        self.count(at, 1)?;
        let node = Node { place: at, tree };
        self.open.push(Open {
            node,
            anchor,
            key: None,
            keys: HashMap::new(),
            size: Size { values: 1, depth: 1 },
        });
        Ok(())
    }

    /// Whether the next value is a key of an object.
    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(open) if open.wants_key())
    }

    fn close(&mut self) -> Result<(), PlanError> {
        match self.open.pop() {
            Some(open) => self.put(open.node, open.anchor, open.size),
            None => Ok(()),
        }
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), PlanError> {
        if !self.expects_key() {
            self.count(node.place, 1)?;
        }
        self.put(node, anchor, Size { values: 1, depth: 0 })
    }

    fn alias(&mut self, at: Place, anchor: usize) -> Result<(), PlanError> {
        // An anchor is registered only when its value is complete, so a value cannot contain itself.
        match self.anchors.get(&anchor) {
            Some((node, size)) => {
                let (node, size) = (node.clone(), *size);
                if self.open.len() + size.depth > DEPTH_MAX {
                    return Err(too_deep(at));
                }
                self.count(at, size.values)?;
                self.put(node, 0, size)
            }
            None => Err(unreadable(
                at,
                "this alias refers to nothing, or to a value that contains it",
            )),
        }
    }

    /// Counts `values` more. Keys do not count, nor do the values in a list again when it ends: the limit is the same as
    /// for JSON.
    fn count(&mut self, at: Place, values: usize) -> Result<(), PlanError> {
        self.values += values;
        if self.values > VALUES_MAX {
            return Err(too_many(at));
        }
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize, size: Size) -> Result<(), PlanError> {
        let at = node.place;
        if anchor > 0 {
            // Stored copies count too: a chain of anchors must not hold a growing value many times.
            self.count(at, size.values)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        if open.wants_key() {
            let Tree::String(key) = node.tree else {
                return Err(unreadable(
                    at,
                    format!("a key must be a text, not {}; put it in quotes", node.kind()),
                ));
            };
            open.key = Some((key, at));
            return Ok(());
        }
        open.size.values += size.values;
        open.size.depth = open.size.depth.max(size.depth + 1);
        match &mut open.node.tree {
            Tree::List(items) => items.push(node),
            Tree::Object(entries) => {
                if let Some((key, place)) = open.key.take() {
                    if let Some(first) = open.keys.get(&key) {
                        self.errors.push(duplicate_key(place, &key, *first));
                    } else {
                        open.keys.insert(key.clone(), place);
                        entries.push(Entry {
                            key,
                            place,
                            value: node,
                        });
                    }
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::String(_) => {}
        }
        Ok(())
    }
}

impl Open {
    fn wants_key(&self) -> bool {
        matches!(self.node.tree, Tree::Object(_)) && self.key.is_none()
    }
}

/// The value of a scalar by YAML's core schema.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Tree, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => {
            return Ok(Tree::String(text.to_owned()));
        }
        Some(tag) if tag.is_yaml_core_schema() => {}
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => {
            return Ok(Tree::String(text.to_owned()));
        }
        Some(tag) => return Err(format!("the tag `{tag}` has no meaning here")),
        None => {}
    }
    if style != ScalarStyle::Plain && tag.is_none() {
        return Ok(Tree::String(text.to_owned()));
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Tree::Null,
        "true" | "True" | "TRUE" => Tree::Bool(true),
        "false" | "False" | "FALSE" => Tree::Bool(false),
        _ => match number(text)? {
            Some(number) => Tree::Number(WrittenNumber::new(number, text)),
            None => Tree::String(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Result<Option<Number>, String> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let based = text
        .strip_prefix("0x")
        .map(|digits| u64::from_str_radix(digits, 16))
        .or_else(|| text.strip_prefix("0o").map(|digits| u64::from_str_radix(digits, 8)));
    if let Some(Ok(whole)) = based {
        return Ok(Some(whole.into()));
    }
    if let Ok(whole) = unsigned.parse::<u64>() {
        return Ok(Some(whole.into()));
    }
    // `-0` stays a float: as a whole number it would lose its sign.
    if let Ok(whole) = text.parse::<i64>()
        && whole != 0
    {
        return Ok(Some(whole.into()));
    }
    let bare = unsigned.trim_start_matches('-');
    if matches!(bare, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Err(format!("`{text}` is not a number that a plan can have"));
    }
    let is_decimal = bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && bare.contains(|c: char| c.is_ascii_digit())
        && bare
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_decimal {
        return Ok(None);
    }
    if bare.contains(|c| c != '0') && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(too_many_digits(text));
    }
    // `1.2.3` and `2026-01-27` look like numbers at first, but are texts.
    match unsigned.parse::<f64>() {
        Ok(value) => match Number::from_f64(value) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{text}` is too large for a number")),
        },
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(text: &str) -> Value {
        read(text).unwrap().root.to_json()
    }

    fn refused(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn yaml_scalars_follow_the_core_schema() {
        let text = "[1, -1, +1, 0x1f, 0o17, 1.5, 1e3, .5, true, True, null, ~, yes, 1.2.3, 2026-01-27, '1', \"true\", \
                    !!str 5, 18446744073709551615, x1e3, 1h30m, -, e5]";
        assert_eq!(
            value(&text.replace("-, e5", "e5")),
            json!([
                1,
                -1,
                1,
                31,
                15,
                1.5,
                1000.0,
                0.5,
                true,
                true,
                null,
                null,
                "yes",
                "1.2.3",
                "2026-01-27",
                "1",
                "true",
                "5",
                u64::MAX,
                "x1e3",
                "1h30m",
                "e5"
            ])
        );
    }

    #[test]
    fn yaml_aliases_expand_only_up_to_a_value_limit() {
        assert_eq!(value("a: &x [1, 2]\nb: *x"), json!({"a": [1, 2], "b": [1, 2]}));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(refused(&bomb).contains("more than 200000 values"), "{}", refused(&bomb));
        assert!(refused("a: &x [*x]").contains("alias"));
    }

    #[test]
    fn yaml_may_have_as_many_values_as_json() {
        let step = |number: usize| {
            format!("{{\"id\": \"s{number}\", \"do\": {{\"tool\": \"list\", \"args\": {{\"path\": \"a\"}}}}}}")
        };
        let steps: Vec<String> = (0..5_000).map(step).collect();
        let plan = format!("{{\"steps\": [{}]}}", steps.join(",\n"));
        let numbers = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        for (text, is_read) in [
            (plan, true),
            (numbers(VALUES_MAX - 1), true),
            (numbers(VALUES_MAX), false),
        ] {
            assert_eq!(read(&text).is_ok(), is_read, "YAML");
            assert_eq!(super::super::json::read(&text).is_ok(), is_read, "JSON");
        }
    }

    #[test]
    fn unsupported_yaml_in_a_plan_is_refused_with_its_reason() {
        assert!(refused("a: 1\n---\nb: 2\n").contains("second document"));
        assert!(refused("1: a").contains("must be a text, not a number"));
        assert!(refused("[a, b]: c").contains("must be a text"));
        assert!(refused("a: .inf").contains("`.inf`"));
        for long in [
            "18446744073709551616",
            "-9223372036854775809",
            "00491234567890123456789",
        ] {
            assert!(refused(&format!("a: {long}")).contains("keeps"), "{long}");
        }
        assert_eq!(
            value("[-0, 1e20, '18446744073709551616']"),
            json!([-0.0, 1e20, "18446744073709551616"])
        );
        assert!(refused("a: !mine 1").contains("`!mine`"));
        assert!(refused("b: &x {a: 1}\nc:\n  <<: *x").contains("merge"));
        assert!(refused(&"- ".repeat(70)).contains("nested"));
        assert!(refused(&"[".repeat(5_000)).contains("nested"));
        assert!(refused("a: [1, 2").starts_with("1:") || refused("a: [1, 2").starts_with("2:"));
    }

    #[test]
    fn common_yaml_mistakes_come_with_a_hint() {
        for (text, hint) in [
            ("a:\n  b: look at: this", "a text with `: ` in it"),
            ("a: @team", "begins with such a character"),
            ("a: `ls`", "begins with such a character"),
            ("a:\n  - b: {c: 1}\n\t- d: 2", "indent with spaces"),
        ] {
            let told = read(text).unwrap_err().hint;
            assert!(
                told.as_deref().is_some_and(|told| told.contains(hint)),
                "{text}: {told:?}"
            );
        }
    }

    #[test]
    fn duplicate_yaml_keys_are_reported_and_the_first_value_counts() {
        let reading = read("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
        assert_eq!(reading.root.to_json(), json!({"a": 1, "b": {"c": 1}}));
        let errors: Vec<String> = reading.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "4:3: P002 the key `c` is already at 3:3",
                "5:1: P002 the key `a` is already at 1:1"
            ]
        );
    }
}
