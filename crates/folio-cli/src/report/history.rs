//! The versions of an entry, and what each changed.

use std::fmt::{self, Write as _};

use folio::Timestamp;
use folio::memory::history::{FieldConflict, FieldDiff, Version};
use serde::Serialize;
use serde_json::Value;

use super::{instant, printable};
use crate::output::{Report, Style};

/// Characters of a value that a line shows.
const VALUE_CHARS: usize = 100;

/// All versions of one entry.
#[derive(Debug, Serialize)]
pub(crate) struct History {
    items: Vec<Shown>,
    returned: usize,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Shown {
    version: u32,
    seq: u64,
    timestamp: Timestamp,
    operation: &'static str,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    changes: Vec<FieldDiff>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<FieldConflict>,
}

impl History {
    /// What is shown of `versions`.
    pub(crate) fn of(versions: &[Version]) -> Self {
        let items: Vec<_> = versions
            .iter()
            .map(|version| Shown {
                version: version.entry.version,
                seq: version.seq.0,
                timestamp: version.at,
                operation: version.operation,
                by: version.actor.to_string(),
                reason: version.reason.clone(),
                changes: version.changes.clone(),
                conflicts: version.conflicts.clone(),
            })
            .collect();
        Self {
            returned: items.len(),
            total: items.len(),
            items,
        }
    }
}

impl Report for History {
    /// A heading for each version, and a line for each field. Of the first version only what it says.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        for item in &self.items {
            let version = style.strong(format_args!("version {}", item.version));
            write!(
                out,
                "{version} {} by {} {}",
                item.operation,
                item.by,
                style.faint(format_args!("#{} {}", item.seq, instant(item.timestamp)))
            )?;
            if let Some(reason) = &item.reason {
                write!(out, " ({})", printable(reason))?;
            }
            out.push('\n');
            for change in &item.changes {
                diff(out, style, change, item.version == 1)?;
            }
            for conflict in &item.conflicts {
                writeln!(
                    out,
                    "  {} {} of version {} was written over: {}",
                    style.bad("conflict"),
                    name(&conflict.field),
                    conflict.overwrote_version,
                    short(&conflict.theirs)
                )?;
            }
        }
        Ok(())
    }
}

fn diff(out: &mut String, style: Style, change: &FieldDiff, is_first: bool) -> fmt::Result {
    let field = name(&change.field);
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

/// People know the text of an observation as its content.
fn name(field: &str) -> &str {
    if field == "body" { "content" } else { field }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// How many were put away.
#[derive(Debug, Serialize)]
pub(crate) struct Cleared {
    /// How many.
    pub(crate) cleared: u64,
}

impl Report for Cleared {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        match self.cleared {
            0 => writeln!(out, "nothing is resolved"),
            1 => writeln!(out, "1 resolved observation was archived"),
            count => writeln!(out, "{count} resolved observations were archived"),
        }
    }
}
