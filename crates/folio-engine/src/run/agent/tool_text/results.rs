//! Parts of earlier results.

use serde_json::{Map, Value};

use super::fields::{Fields, args_in_words};
use super::files::{next, numbered};
use super::page::{Page, Rest};

/// The lines with their numbers, which `lines` takes, or the lines that hold the text. Which bytes they are is in the
/// notes.
pub(super) fn result_read(fields: &mut Fields<'_>, page: &mut Page, args: &Value) -> Option<()> {
    if let Some(matches) = fields.rows("matches") {
        let mut rows = Vec::with_capacity(matches.len());
        for found in matches {
            let (line, text) = (found.get("line")?.as_u64()?, found.get("text")?.as_str()?);
            rows.push(format!("{line}\t{text}"));
        }
        if !rows.is_empty() {
            page.rows(rows, 1, Rest::Narrower("search for more"));
        }
        // The notes count them.
        fields.skip(&["count", "truncated"]);
        next(fields, page, "result_read");
        return Some(());
    }
    let text = fields.text("text")?;
    let from = fields.number("from_line")?;
    let total = fields.number("total_lines");
    fields.skip(&["from", "to", "total_bytes", "truncated"]);
    let rows = if text.is_empty() {
        Vec::new()
    } else {
        numbered(text, from)
    };
    if let Some(total) = total.filter(|total| rows.len() as u64 != *total) {
        page.line(format!("total_lines: {total}"));
    }
    if !rows.is_empty() {
        let which = ["node", "field"].into_iter();
        let which: Map<String, Value> = which
            .filter_map(|name| {
                Some((
                    name.to_owned(),
                    args.get(name).filter(|value| !value.is_null())?.clone(),
                ))
            })
            .collect();
        page.rows(
            rows,
            from,
            Rest::Lines(format!("result_read {}", args_in_words(&which))),
        );
    }
    next(fields, page, "result_read");
    Some(())
}
