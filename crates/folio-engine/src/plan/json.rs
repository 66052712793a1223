//! Reads JSON into a tree that knows where each value is.

use std::collections::HashMap;
use std::str::Chars;

use serde_json::Number;

use super::Place;
use super::errors::PlanError;
use super::spanned::{
    DEPTH_MAX, Entry, Node, Reading, START, Tree, VALUES_MAX, WrittenNumber, duplicate_key, too_deep, too_many,
    too_many_digits, unreadable,
};

pub(super) fn read(text: &str) -> Result<Reading, PlanError> {
    let mut reader = Reader {
        rest: text.chars(),
        place: START,
        values: 0,
        errors: Vec::new(),
    };
    let root = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(Reading {
            root,
            errors: reader.errors,
        }),
        Some(c) => Err(unreadable(reader.place, format!("`{c}` after the end of the plan"))),
    }
}

struct Reader<'a> {
    rest: Chars<'a>,
    place: Place,
    values: usize,
    errors: Vec<PlanError>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.place = Place {
                line: self.place.line + 1,
                column: 1,
            };
        } else {
            self.place.column += 1;
        }
        Some(c)
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | '\r')) {
            self.next();
        }
    }

    fn expected(&self, expectation: &str) -> PlanError {
        match self.peek() {
            Some(c) => unreadable(self.place, format!("expected {expectation}, found `{c}`")),
            None => unreadable(self.place, format!("expected {expectation}, found the end")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, PlanError> {
        self.skip_space();
        let place = self.place;
        if depth > DEPTH_MAX {
            return Err(too_deep(place));
        }
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(too_many(place));
        }
        let tree = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Tree::String(self.string()?),
            Some(c) if c == '-' || c.is_ascii_digit() => Tree::Number(self.number()?),
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Node { place, tree })
    }

    fn object(&mut self, depth: usize) -> Result<Tree, PlanError> {
        self.next();
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, Place> = HashMap::new();
        self.skip_space();
        while self.peek() != Some('}') {
            if !(entries.is_empty() && places.is_empty()) {
                self.take(',', "`,` or `}`")?;
                self.skip_space();
            }
            let place = self.place;
            if self.peek() != Some('"') {
                return Err(self.expected("a key in double quotes"));
            }
            let key = self.string()?;
            self.skip_space();
            self.take(':', "`:`")?;
            let value = self.value(depth + 1)?;
            if let Some(first) = places.get(&key) {
                self.errors.push(duplicate_key(place, &key, *first));
            } else {
                places.insert(key.clone(), place);
                entries.push(Entry { key, place, value });
            }
            self.skip_space();
        }
        self.next();
        Ok(Tree::Object(entries))
    }

    fn list(&mut self, depth: usize) -> Result<Tree, PlanError> {
        self.next();
        let mut items = Vec::new();
        self.skip_space();
        while self.peek() != Some(']') {
            if !items.is_empty() {
                self.take(',', "`,` or `]`")?;
            }
            items.push(self.value(depth + 1)?);
            self.skip_space();
        }
        self.next();
        Ok(Tree::List(items))
    }

    fn take(&mut self, expected_char: char, expectation: &str) -> Result<(), PlanError> {
        if self.peek() != Some(expected_char) {
            return Err(self.expected(expectation));
        }
        self.next();
        Ok(())
    }

    fn word(&mut self) -> Result<Tree, PlanError> {
        let place = self.place;
        let mut word = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_alphanumeric) {
            word.push(c);
            self.next();
        }
        match word.as_str() {
            "null" => Ok(Tree::Null),
            "true" => Ok(Tree::Bool(true)),
            "false" => Ok(Tree::Bool(false)),
            _ => Err(unreadable(place, format!("expected a value, found `{word}`"))),
        }
    }

    fn number(&mut self) -> Result<WrittenNumber, PlanError> {
        let place = self.place;
        let mut digits = String::new();
        while let Some(c) = self
            .peek()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        {
            digits.push(c);
            self.next();
        }
        let number: Number =
            serde_json::from_str(&digits).map_err(|_| unreadable(place, format!("`{digits}` is not a number")))?;
        let is_whole = digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        // A negative zero stays a float, which keeps its sign.
        if is_whole && number.is_f64() && number.as_f64() != Some(0.0) {
            return Err(unreadable(place, too_many_digits(&digits)));
        }
        Ok(WrittenNumber::new(number, &digits))
    }

    fn string(&mut self) -> Result<String, PlanError> {
        let opened = self.place;
        self.next();
        let mut text = String::new();
        loop {
            let place = self.place;
            match self.next() {
                None => return Err(unreadable(opened, "the text that begins here does not end")),
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape(place)?),
                Some(c) if c < ' ' => {
                    return Err(unreadable(place, "a line break or control character inside a text"));
                }
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, place: Place) -> Result<char, PlanError> {
        Ok(match self.next() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let first = self.hex(place)?;
                let code = if (0xD800..0xDC00).contains(&first) && self.rest.as_str().starts_with("\\u") {
                    self.next();
                    self.next();
                    let second = self.hex(place)?;
                    match second.checked_sub(0xDC00) {
                        Some(low) if low < 0x400 => 0x10000 + ((first - 0xD800) << 10) + low,
                        _ => first,
                    }
                } else {
                    first
                };
                // Half of a surrogate pair is not a character; JSON readers that accept it produce this one.
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => {
                return Err(unreadable(place, "`\\` before a character that it cannot escape"));
            }
        })
    }

    fn hex(&mut self, place: Place) -> Result<u32, PlanError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|c| c.to_digit(16));
            code = code * 16 + digit.ok_or_else(|| unreadable(place, "`\\u` needs four hexadecimal digits"))?;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_reader_decodes_escapes_and_surrogate_pairs() {
        let text = "{\"a\": [1, -2.5, 1e3, true, null], \"b\\/\": \"\\ud83d\\ude00 \\u00e4 \\ud83d\\n\"}";
        let expected: serde_json::Value = serde_json::from_str(&text.replace(" \\ud83d\\n", " \\n")).unwrap();
        let mut read = read(text).unwrap().root.to_json();
        assert_eq!(read["b/"], "😀 ä \u{fffd}\n");
        read["b/"] = expected["b/"].clone();
        assert_eq!(read, expected);
    }

    #[test]
    fn invalid_json_is_refused_with_line_and_column() {
        for (text, place) in [
            ("{", "1:2"),
            ("[1,]", "1:4"),
            ("[1 2]", "1:4"),
            ("{\"a\" 1}", "1:6"),
            ("{a: 1}", "1:2"),
            ("[\n  tru]", "2:3"),
            ("[01]", "1:2"),
            ("[1e999]", "1:2"),
            ("[18446744073709551616]", "1:2"),
            ("[-9223372036854775809]", "1:2"),
            ("[\"a\nb\"]", "1:4"),
            ("[\"a", "1:2"),
            ("[] x", "1:4"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.place.to_string(), place, "{text:?}: {error}");
        }
        assert!(read(&"[".repeat(100_000)).unwrap_err().message.contains("nested"));
    }

    proptest! {
        #[test]
        fn json_reader_reads_serde_json_output(text in "\\PC*", number: f64, whole: i64, pretty: bool) {
            let value = serde_json::json!({"t": text, "n": [number, whole, {}], "e": []});
            let written = if pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(read(&written).unwrap().root.to_json(), value);
        }
    }
}
