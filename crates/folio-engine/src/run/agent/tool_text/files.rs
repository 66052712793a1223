//! Answers about files.

use serde_json::{Map, Value};

use super::fields::{Fields, args_in_words, cell, json_of, table, word};
use super::page::{Page, Rest, lines_of};

const NARROWER_LIST: &str = "narrow `path` or `glob`";
const NARROWER_GREP: &str = "narrow `pattern`, `path` or `glob`";

/// `files` with a line for each: its bytes, its lines if they were counted, its path. The counts are in the notes.
/// What sums the files up is left out if all of them are shown; the extension and the language of a file follow from
/// its path.
pub(super) fn list(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let files = fields.rows("files")?;
    let count = fields.number("count")?;
    fields.skip(&["total_bytes", "links_count"]);
    let is_truncated = fields.flag("truncated");
    let mut paths = Vec::with_capacity(files.len());
    for file in &files {
        let columns = ["bytes", "lines", "path"].iter();
        let named = columns.filter_map(|name| Some(((*name).to_owned(), file.get(*name)?.clone())));
        paths.push(named.collect::<Map<String, Value>>());
    }
    let paths: Vec<&Map<String, Value>> = paths.iter().collect();
    if !paths.is_empty() {
        page.rows(
            table(&paths, &["bytes", "lines", "path"]),
            0,
            Rest::Narrower(NARROWER_LIST),
        );
    }
    if files.len() as u64 == count {
        fields.skip(&["by_extension", "languages", "folders"]);
    } else {
        for (name, column) in [
            ("folders", "path"),
            ("languages", "language"),
            ("by_extension", "extension"),
        ] {
            let Some(rows) = fields.rows(name).filter(|rows| !rows.is_empty()) else {
                continue;
            };
            let mut rows: Vec<Map<String, Value>> = rows.into_iter().cloned().collect();
            for row in &mut rows {
                if column == "extension" {
                    row.remove("language");
                }
                if let (true, Some(Value::String(path))) = (name == "folders", row.get_mut("path")) {
                    path.push('/');
                }
            }
            page.line(format!("{name}:"));
            let rows: Vec<&Map<String, Value>> = rows.iter().collect();
            page.rows(
                table(&rows, &["bytes", "files", "lines", column]),
                0,
                Rest::Narrower(NARROWER_LIST),
            );
        }
    }
    if let Some(links) = fields.rows("links").filter(|links| !links.is_empty()) {
        page.line("links, not followed:".to_owned());
        page.rows(table(&links, &["path", "to"]), 0, Rest::Narrower(NARROWER_LIST));
    }
    unread(fields, page);
    if is_truncated {
        page.line(format!("[not all are named; {NARROWER_LIST}]"));
    }
    Some(())
}

/// `matches` as `path:line: text`, lines around them as `path-line- text`. The column is left out, because the text
/// shows the match; the counts are in the notes.
pub(super) fn grep(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let matches = fields.rows("matches")?;
    let count = fields.number("count")?;
    let searched = fields.number("files_searched");
    let is_truncated = fields.flag("truncated");
    fields.skip(&["files"]);
    let mut rows = Vec::with_capacity(matches.len());
    for found in &matches {
        let (path, text) = (found.get("path")?.as_str()?, found.get("text")?.as_str()?);
        let line = found.get("line")?.as_u64()?;
        let around = |name: &str| -> Vec<&str> {
            let lines = found.get(name).and_then(Value::as_array);
            lines.into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let (before, after) = (around("before"), around("after"));
        let first = line.saturating_sub(before.len() as u64);
        for (place, text) in (first..).zip(before) {
            rows.push(format!("{path}-{place}- {text}"));
        }
        let name = found.get("name").map(|name| format!(" ({})", cell(name)));
        rows.push(format!("{path}:{line}{}: {text}", name.unwrap_or_default()));
        for (place, text) in (line + 1..).zip(after) {
            rows.push(format!("{path}-{place}- {text}"));
        }
    }
    if !rows.is_empty() {
        page.rows(rows, 1, Rest::Narrower(NARROWER_GREP));
    }
    if count == 0
        && let Some(searched) = searched
    {
        page.line(format!("files_searched: {searched}"));
    }
    unread(fields, page);
    if is_truncated {
        page.line(format!("[not all are shown; {NARROWER_GREP}, or give a larger `max`]"));
    }
    Some(())
}

/// What was passed over, if anything was.
fn unread(fields: &mut Fields<'_>, page: &mut Page) {
    for name in ["skipped_binary", "skipped_large", "unreadable"] {
        if let Some(count) = fields.number(name).filter(|count| *count > 0) {
            page.line(format!("{name}: {count}"));
        }
    }
}

/// The lines with their numbers. Which they are is in the notes.
pub(super) fn read(fields: &mut Fields<'_>, page: &mut Page, args: &Value) -> Option<()> {
    let path = fields.text("path")?;
    let text = fields.text("text")?;
    let from = fields.number("from_line")?;
    fields.flag("binary");
    let (to, total) = (fields.number("to_line")?, fields.number("total_lines"));
    fields.skip(&["truncated"]);
    if !text.is_empty() {
        page.rows(
            numbered(text, from),
            from,
            Rest::FromLine(format!("read path={}", word(&path.into()))),
        );
    }
    let is_end = total == Some(to) && fields.get("next").is_none();
    if is_end && !text.is_empty() && !text.ends_with('\n') {
        page.line("[no newline at the end of the file]".to_owned());
    }
    let has_next = next(fields, page, "read");
    // The size counts only for who reads bytes.
    if !has_next && args.get("from_byte").is_none_or(Value::is_null) {
        fields.skip(&["bytes"]);
    }
    Some(())
}

/// The lines of `text` with their numbers.
pub(super) fn numbered(text: &str, from: u64) -> Vec<String> {
    let lines = (from..).zip(lines_of(text));
    lines.map(|(number, line)| format!("{number}\t{line}")).collect()
}

/// Says with which call of `tool` one goes on, if there is more; whether there is.
pub(super) fn next(fields: &mut Fields<'_>, page: &mut Page, tool: &str) -> bool {
    let Some(next) = fields.get("next") else { return false };
    fields.skip(&["next"]);
    let args = next.as_object().map_or_else(|| json_of(next), args_in_words);
    page.line(format!("[there is more; go on with {tool} {args}]"));
    true
}

/// The path and size are in the notes.
pub(super) fn write(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    page.said("path", Some(fields.text("path")?));
    fields.skip(&["bytes"]);
    Some(())
}
