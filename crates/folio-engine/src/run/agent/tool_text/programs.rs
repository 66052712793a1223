//! Answers of programs, servers, and what is computed.

use serde_json::Value;

use super::fields::{Fields, json_of, table};
use super::page::{Page, Rest};

const NARROWER_GIT: &str = "give a smaller `max`, `path` or `since`";

/// How the program ended, and what it wrote. How much that was is told only if not all of it is there.
pub(super) fn shell(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let (stdout, stderr) = (fields.text("stdout")?, fields.text("stderr")?);
    if let Some(code) = fields.number("exit_code") {
        let code = format!("exit code {code}");
        if !page.notes().contains(&code) {
            page.line(code);
        }
    }
    if fields.flag("timed_out") {
        page.line("timed out".to_owned());
    }
    for (name, size, text) in [("stdout", "stdout_bytes", stdout), ("stderr", "stderr_bytes", stderr)] {
        let bytes = fields.number(size);
        let label = match bytes.filter(|bytes| *bytes != text.len() as u64) {
            Some(bytes) => format!("{name} ({bytes} bytes in all)"),
            None => name.to_owned(),
        };
        page.quote(&label, text, Rest::OfResult(name));
    }
    Some(())
}

/// What git wrote, or a table with a row for each file or commit.
pub(super) fn git(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let is_truncated = fields.flag("truncated");
    if let Some(text) = fields.text("text") {
        page.quote("", text, Rest::OfResult("text"));
    } else if let Some(files) = fields.rows("files") {
        let order = [
            "commits",
            "added",
            "deleted",
            "authors",
            "last_commit",
            "last_date",
            "is_there",
            "path",
        ];
        page.rows(table(&files, &order), 0, Rest::Narrower(NARROWER_GIT));
    } else if let Some(commits) = fields.rows("commits") {
        page.said("path", fields.text("path"));
        // The notes count them.
        fields.skip(&["count"]);
        let order = ["commit", "date", "added", "deleted", "path", "author", "subject"];
        page.rows(table(&commits, &order), 0, Rest::Narrower(NARROWER_GIT));
    }
    if is_truncated {
        page.line("truncated: true".to_owned());
    }
    Some(())
}

/// Where it came from and how much there is, as far as the notes do not say it, and the text or JSON.
pub(super) fn http_get(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    let status = fields.number("status")?.to_string();
    page.said("status", Some(&status));
    page.said("url", fields.text("url"));
    page.said(
        "content_type",
        fields.text("content_type").filter(|kind| !kind.is_empty()),
    );
    let bytes = fields.number("bytes")?.to_string();
    page.said("bytes", Some(&bytes));
    if let Some(value) = fields.get("json") {
        fields.skip(&["json"]);
        page.quote("json", &json_of(value), Rest::OfResult("json"));
    }
    if let Some(body) = fields.text("body") {
        page.quote("body", body, Rest::OfResult("body"));
    }
    if fields.flag("truncated") {
        page.line("[there is more; give a larger `max_bytes`]".to_owned());
    }
    Some(())
}

/// A text as it is, everything else as JSON.
pub(super) fn text(fields: &mut Fields<'_>, page: &mut Page, _: &Value) -> Option<()> {
    match fields.get("value") {
        Some(Value::String(_)) => {
            let text = fields.text("value")?;
            page.quote("", text, Rest::OfResult("value"));
        }
        Some(value) => {
            fields.skip(&["value"]);
            let json = json_of(value);
            if json != page.notes() {
                page.line(json);
            }
        }
        None => {}
    }
    Some(())
}
