//! Texts, numbers, durations and choices.

use std::time::Duration;

use serde_json::Number;

use crate::plan::cursor::At;
use crate::plan::errors::code;
use crate::plan::nearest::did_you_mean;
use crate::plan::spanned::Tree;
use crate::plan::{Slug, duration, keys};
use crate::template::{is_template, single_expression};

use super::Decoder;

impl<'a> Decoder<'a> {
    /// The value of `key`, under any of its spellings. A null counts as absent.
    pub(super) fn field(&mut self, at: &At<'a>, key: &'static str) -> Option<At<'a>> {
        let mut found: Option<At<'a>> = None;
        for name in std::iter::once(key).chain(keys::aliases(key)) {
            let Some(value) = at.key(name) else { continue };
            match &found {
                Some(first) => {
                    let message = format!("`{name}` means the same as `{key}` at {}", first.node.place);
                    self.faults.add(&value, code::DUPLICATE_KEY, message);
                }
                None => found = Some(value),
            }
        }
        found.filter(|value| value.node.tree != Tree::Null)
    }

    pub(super) fn is_object(&mut self, at: &At<'a>, expected: &str) -> bool {
        let is_object = matches!(at.node.tree, Tree::Object(_));
        if !is_object {
            self.faults.wrong_type(at, expected);
        }
        is_object
    }

    pub(super) fn text(&mut self, at: &At<'a>) -> Option<String> {
        match &at.node.tree {
            Tree::String(text) => Some(text.clone()),
            _ => {
                let hint = matches!(at.node.tree, Tree::Number(_) | Tree::Bool(_)).then_some("put it in quotes");
                self.faults.wrong_type(at, "a text").hint = hint.map(str::to_owned);
                None
            }
        }
    }

    pub(super) fn text_field(&mut self, at: &At<'a>, key: &'static str) -> Option<String> {
        let value = self.field(at, key)?;
        self.text(&value)
    }

    /// A text that is an expression. Braces around it, which most templates have, are removed.
    pub(super) fn expression(&mut self, at: &At<'a>) -> Option<String> {
        let text = self.text(at)?;
        let inside = if is_template(&text) {
            single_expression(text.trim())
        } else {
            None
        };
        Some(inside.map_or_else(|| text.clone(), |inside| inside.trim().to_owned()))
    }

    pub(super) fn text_or_empty(&mut self, at: &At<'a>, key: &'static str) -> String {
        self.text_field(at, key).unwrap_or_default()
    }

    pub(super) fn required_text(&mut self, at: &At<'a>, key: &'static str, explanation: &str) -> String {
        match self.field(at, key) {
            Some(value) => {
                let text = self.text(&value).unwrap_or_default();
                if text.is_empty() && matches!(value.node.tree, Tree::String(_)) {
                    self.faults
                        .bad_value(&value, format!("`{key}` is empty: {explanation}"));
                }
                text
            }
            None => {
                self.faults.missing(at, key, explanation);
                String::new()
            }
        }
    }

    /// A list of texts; a single text is a list of one.
    pub(super) fn texts(&mut self, at: &At<'a>) -> Vec<String> {
        match at.items() {
            Some(items) => items.iter().map(|item| self.text(item).unwrap_or_default()).collect(),
            None if matches!(at.node.tree, Tree::String(_)) => self.text(at).into_iter().collect(),
            None => {
                self.faults.wrong_type(at, "a list of texts");
                Vec::new()
            }
        }
    }

    pub(super) fn flag(&mut self, at: &At<'a>, key: &'static str) -> Option<bool> {
        let value = self.field(at, key)?;
        match &value.node.tree {
            Tree::Bool(flag) => Some(*flag),
            _ => {
                self.faults.wrong_type(&value, "`true` or `false`");
                None
            }
        }
    }

    pub(super) fn number(&mut self, at: &At<'a>) -> Option<f64> {
        match &at.node.tree {
            Tree::Number(number) => number.as_f64(),
            _ => {
                self.faults.wrong_type(at, "a number");
                None
            }
        }
    }

    pub(super) fn u64(&mut self, at: &At<'a>) -> Option<u64> {
        let Tree::Number(number) = &at.node.tree else {
            self.faults.wrong_type(at, "a whole number");
            return None;
        };
        let whole = whole(number);
        if whole.is_none() {
            self.faults
                .bad_value(at, format!("{number} is not a whole number of 0 or more"));
        }
        whole
    }

    pub(super) fn u64_field(&mut self, at: &At<'a>, key: &'static str) -> Option<u64> {
        let value = self.field(at, key)?;
        self.u64(&value)
    }

    pub(super) fn u32(&mut self, at: &At<'a>) -> Option<u32> {
        let whole = self.u64(at)?;
        let small = u32::try_from(whole).ok();
        if small.is_none() {
            self.faults.bad_value(at, format!("{whole} is more than {}", u32::MAX));
        }
        small
    }

    pub(super) fn u32_field(&mut self, at: &At<'a>, key: &'static str) -> Option<u32> {
        let value = self.field(at, key)?;
        self.u32(&value)
    }

    /// A number that is not zero.
    pub(super) fn positive_field(&mut self, at: &At<'a>, key: &'static str) -> Option<u32> {
        self.field_from(at, key, 1)
    }

    /// A number that is at least `least`.
    pub(super) fn field_from(&mut self, at: &At<'a>, key: &'static str, least: u32) -> Option<u32> {
        let value = self.field(at, key)?;
        let number = self.u32(&value)?;
        if number < least {
            self.faults
                .bad_value(&value, format!("`{key}` must be at least {least}"));
            return None;
        }
        Some(number)
    }

    pub(super) fn duration_field(&mut self, at: &At<'a>, key: &'static str) -> Option<Duration> {
        let value = self.field(at, key)?;
        let (found, written) = match &value.node.tree {
            Tree::String(text) => (duration::parse(text), text.clone()),
            Tree::Number(number) => (number.as_f64().and_then(duration::from_seconds), number.to_string()),
            Tree::Null | Tree::Bool(_) | Tree::List(_) | Tree::Object(_) => {
                self.faults.wrong_type(&value, "a duration such as `30s`");
                return None;
            }
        };
        if found.is_none() {
            let error = self
                .faults
                .add(&value, code::BAD_DURATION, format!("{written:?} is not a duration"));
            error.with_hint("write `500ms`, `30s`, `5m`, `2h`, or a number of seconds");
        }
        found
    }

    /// One of a few fixed words.
    pub(super) fn one_of<T: Copy>(&mut self, at: &At<'a>, choices: &[(&'static str, T)]) -> Option<T> {
        let text = self.text(at)?;
        let found = choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, choice)| *choice);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean(&text, names.iter().copied())
                .unwrap_or_else(|| format!("use one of: {}", names.join(", ")));
            self.faults
                .bad_value(at, format!("{text:?} is not one of the choices"))
                .with_hint(hint);
        }
        found
    }

    pub(super) fn slugs(&mut self, at: &At<'a>) -> Vec<Slug> {
        let items = match at.items() {
            Some(items) => items,
            None if matches!(at.node.tree, Tree::String(_)) => vec![at.clone()],
            None => {
                self.faults.wrong_type(at, "a list of step ids");
                return Vec::new();
            }
        };
        items.iter().filter_map(|item| self.slug(item)).collect()
    }

    pub(super) fn slug(&mut self, at: &At<'a>) -> Option<Slug> {
        let text = match &at.node.tree {
            // Plans that come from other programs often have plain numbers as ids.
            Tree::Number(number) => whole(number).map_or_else(|| number.to_string(), |whole| whole.to_string()),
            _ => self.text(at)?,
        };
        match Slug::parse(&text) {
            Ok(slug) => Some(slug),
            Err(error) => {
                let hint = Slug::from_title(&text).map(|slug| format!("write `{slug}`"));
                self.faults.add(at, code::BAD_SLUG, error.to_string()).hint = hint;
                None
            }
        }
    }
}

/// `number` as a whole number of 0 or more. As in JSON Schema, `1.0` is one.
fn whole(number: &Number) -> Option<u64> {
    // The first number that is too large; every whole number below it that is written as a fraction fits.
    const END: f64 = 18_446_744_073_709_551_616.0;
    let is_whole = |number: &f64| (0.0..END).contains(number) && number.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    let cast = |number: f64| number as u64;
    number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(cast))
}
