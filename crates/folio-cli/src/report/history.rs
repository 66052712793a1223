//! The versions of an entry, and what each of them changed.

use std::fmt::{self, Write as _};

use folio::memory::excerpt::{MORE, cut, fits};
use folio::memory::history::FieldDiff;
pub(crate) use folio_server::wire::VersionShape;
use serde::Serialize;
use serde_json::Value;

use super::{instant, printable};
use crate::output::{Report, Style};

/// How many characters of a value a line shows.
const VALUE_CHARS: usize = 100;
/// How many characters before a change a line shows if it cannot show all.
const CHARS_BEFORE_CHANGE: usize = 20;

impl Report for VersionShape {
    /// A heading, and a line for each field. For the first version, only its values.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let version = style.strong(format_args!("version {}", self.version));
        write!(
            out,
            "{version} {} by {} {}",
            self.operation,
            self.by,
            style.faint(format_args!("#{} {}", self.seq, instant(self.timestamp)))
        )?;
        if let Some(reason) = &self.reason {
            write!(out, " ({})", printable(reason))?;
        }
        out.push('\n');
        for change in &self.changes {
            diff(out, style, change, self.version == 1)?;
        }
        for conflict in &self.conflicts {
            writeln!(
                out,
                "  {} {} of version {} was overwritten: {}",
                style.bad("conflict"),
                conflict.field,
                conflict.overwrote_version,
                whole_or_cut(&conflict.theirs)
            )?;
        }
        Ok(())
    }
}

fn diff(out: &mut String, style: Style, change: &FieldDiff, is_first: bool) -> fmt::Result {
    let field = &change.field;
    match (&change.before, &change.after) {
        (Value::String(before), Value::String(after)) if before.contains('\n') || after.contains('\n') => {
            writeln!(out, "  {field}:")?;
            let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
            let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
            let start = same(&mut before.iter().zip(&after));
            let rest = before.len().min(after.len()) - start;
            let end = same(&mut before.iter().rev().zip(after.iter().rev())).min(rest);
            for line in &before[start..before.len() - end] {
                writeln!(out, "    {} {}", style.bad("-"), printable(line))?;
            }
            for line in &after[start..after.len() - end] {
                writeln!(out, "    {} {}", style.good("+"), printable(line))?;
            }
            Ok(())
        }
        (Value::Null, after) if is_first => writeln!(out, "  {field}: {}", cut(&text_of(after), VALUE_CHARS)),
        (before, after) => {
            let (before, after) = (text_of(before), text_of(after));
            let start = start_of_change(&before, &after);
            writeln!(out, "  {field}: {} → {}", from(&before, start), from(&after, start))
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

/// A value that is kept nowhere else, or its beginning and where the rest is.
fn whole_or_cut(value: &Value) -> String {
    let text = text_of(value);
    match fits(&text, VALUE_CHARS) {
        true => text,
        false => format!("{} (all of it with --json)", cut(&text, VALUE_CHARS)),
    }
}

/// Where lines on a change begin, in bytes: a little before the first difference if that is too far from the beginning.
fn start_of_change(before: &str, after: &str) -> usize {
    if fits(before, VALUE_CHARS) && fits(after, VALUE_CHARS) {
        return 0;
    }
    let same = before
        .char_indices()
        .zip(after.chars())
        .take_while(|((_, a), b)| a == b);
    let same: Vec<usize> = same.map(|((at, _), _)| at).collect();
    match same.len().checked_sub(CHARS_BEFORE_CHANGE) {
        Some(start) if same.len() > VALUE_CHARS / 2 => same.get(start).copied().unwrap_or_default(),
        _ => 0,
    }
}

/// `text` from `start` on, cut, with a mark if it does not begin there.
fn from(text: &str, start: usize) -> String {
    let rest = cut(text.get(start..).unwrap_or_default(), VALUE_CHARS);
    if start == 0 { rest } else { format!("{MORE}{rest}") }
}

/// How many observations were archived.
#[derive(Debug, Serialize)]
pub(crate) struct Cleared {
    /// The number archived.
    pub(crate) cleared: u64,
}

impl Report for Cleared {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        match self.cleared {
            0 => writeln!(out, "there are no resolved observations"),
            1 => writeln!(out, "archived 1 resolved observation"),
            count => writeln!(out, "archived {count} resolved observations"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(before: &str, after: &str) -> String {
        let change = FieldDiff {
            field: "content".to_owned(),
            before: json!(before),
            after: json!(after),
        };
        let mut out = String::new();
        diff(&mut out, Style::default(), &change, false).unwrap();
        out
    }

    #[test]
    fn change_far_from_the_beginning_of_a_long_line_is_shown() {
        assert_eq!(change("at nine", "at ten"), "  content: at nine → at ten\n");
        let long = "ä".repeat(300);
        let shown = change(&format!("{long} at nine"), &format!("{long} at ten{long}"));
        let before = "ä".repeat(16);
        assert!(
            shown.contains(&format!("…{before} at nine → …{before} at ten")),
            "{shown}"
        );
        // What is only longer at the end differs there.
        let shown = change(&long, &format!("{long}!"));
        assert!(shown.trim_end().ends_with('!'), "{shown}");
    }
}
