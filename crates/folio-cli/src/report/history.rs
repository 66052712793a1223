//! The versions of an entry, and what each of them changed.

use std::fmt::{self, Write as _};

use folio::memory::excerpt::cut;
use folio::memory::history::FieldDiff;
pub(crate) use folio_server::wire::VersionShape;
use serde::Serialize;
use serde_json::Value;

use super::{instant, printable};
use crate::output::{Report, Style};

/// How many characters of a value a line shows.
const VALUE_CHARS: usize = 100;

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
                short(&conflict.theirs)
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
        (Value::Null, after) if is_first => writeln!(out, "  {field}: {}", short(after)),
        (before, after) => writeln!(out, "  {field}: {} → {}", short(before), short(after)),
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    };
    cut(&text, VALUE_CHARS)
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
