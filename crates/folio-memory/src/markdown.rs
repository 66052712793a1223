//! Rendering a page as markdown for people. The same entries give the same bytes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::entry::{Entry, EntryKind, Status};
use crate::excerpt::one_line;
use crate::page::{Page, PageRole};

/// Renders `page` with its `entries`, which are given oldest first, and the titles of `children`.
///
/// The text begins with a heading and a line of properties. Then each entry follows according to its kind: a step as a
/// checklist line, a log block under its title, anything else as a list item. The text ends with a newline.
#[must_use]
pub fn render_page(page: &Page, entries: &[Entry], children: &[Page]) -> String {
    let mut out = String::new();
    let fields = &page.fields;
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# {}", one_line(&fields.title));
    let _ = write!(
        out,
        "\n<!-- {} {} · {} · {}",
        page.handle, fields.role, fields.owner, fields.status
    );
    if let Some(branch) = &fields.branch_id {
        let _ = write!(out, " · branch {}", one_line(branch).replace("--", "- -"));
    }
    if let Some(iteration) = fields.iteration {
        let _ = write!(out, " · iteration {iteration}");
    }
    out.push_str(" -->\n");
    let mut in_list = false;
    for entry in in_order(entries) {
        let is_item = !matches!(entry.kind, EntryKind::Log | EntryKind::Summary);
        if !(in_list && is_item) {
            out.push('\n');
        }
        in_list = is_item;
        render_entry(&mut out, fields.role, entry);
    }
    if !children.is_empty() {
        out.push_str("\n## Pages\n\n");
        for child in children {
            let _ = writeln!(
                out,
                "- {} {} ({})",
                child.handle,
                one_line(&child.fields.title),
                child.fields.status
            );
        }
    }
    out
}

/// The entries in order. Once the plan was changed, adjacent steps are sorted by their places in the plan.
fn in_order(entries: &[Entry]) -> Vec<&Entry> {
    let place = |entry: &Entry| part(entry.fields.parts.as_ref(), "order").and_then(Value::as_u64);
    let mut ordered: Vec<&Entry> = entries.iter().collect();
    for steps in ordered.chunk_by_mut(|one, other| one.kind == EntryKind::Step && other.kind == EntryKind::Step) {
        if steps.iter().any(|step| place(step).is_some()) {
            steps.sort_by_key(|step| place(step).unwrap_or(u64::MAX));
        }
    }
    ordered
}

/// The name of a step, and whether it contains other steps, in the notation of plans in markdown: `{#looks .parallel}`.
fn step_name(parts: Option<&Value>) -> Option<String> {
    let path = part(parts, "path").and_then(Value::as_str)?;
    let slug = path.rsplit('/').next().filter(|slug| !slug.is_empty())?;
    let class = match part(parts, "kind").and_then(Value::as_str) {
        Some(kind @ ("parallel" | "sequence")) => format!(" .{kind}"),
        _ => String::new(),
    };
    Some(format!("{{#{slug}{class}}}"))
}

fn render_entry(out: &mut String, role: PageRole, entry: &Entry) {
    let fields = &entry.fields;
    match entry.kind {
        EntryKind::Step => {
            let mark = match fields.status {
                Status::Done | Status::Resolved => 'x',
                Status::InProgress => '~',
                Status::Blocked => '!',
                Status::Archived => '-',
                Status::Active | Status::PendingReview | Status::Open => ' ',
            };
            let depth = part(fields.parts.as_ref(), "depth")
                .and_then(Value::as_u64)
                .unwrap_or(0)
                .min(16);
            let indent = usize::try_from(depth).unwrap_or(0) * 2;
            let _ = write!(out, "{:indent$}- [{mark}] {}", "", one_line(&fields.title));
            if let Some(name) = step_name(fields.parts.as_ref()) {
                let _ = write!(out, " {name}");
            }
            if let Some(outcome) = &fields.phase {
                let _ = write!(out, " · {outcome}");
            }
            out.push('\n');
        }
        EntryKind::Log | EntryKind::Summary => {
            // A note page is a document of its own, and one of its blocks may contain its own heading.
            let has_heading = role == PageRole::Note && begins_with_heading(&fields.body, &fields.title);
            if !fields.title.is_empty() && !has_heading {
                let _ = writeln!(out, "## {}\n", one_line(&fields.title));
            }
            if !fields.body.is_empty() {
                let _ = writeln!(out, "{}", fields.body.trim_end());
            }
            if let Some(notice) = rest_of(entry) {
                let _ = writeln!(out, "\n*{notice}*");
            }
            render_parts(out, fields.parts.as_ref());
        }
        _ => {
            let _ = write!(
                out,
                "- {} [{}",
                entry.handle,
                fields.type_name.as_deref().unwrap_or(entry.kind.as_str())
            );
            let _ = write!(out, "/{}] ", fields.status);
            if !fields.title.is_empty() {
                let _ = write!(out, "{}", one_line(&fields.title));
                if !fields.body.is_empty() {
                    out.push_str(" — ");
                }
            }
            out.push_str(&fields.body.trim_end().replace('\n', "\n  "));
            if let Some(notice) = rest_of(entry) {
                let _ = write!(out, " *{notice}*");
            }
            for tag in &fields.tags {
                let _ = write!(out, " #{tag}");
            }
            out.push('\n');
        }
    }
}

/// Whether the first non-empty line of `body` is `title` as a heading.
fn begins_with_heading(body: &str, title: &str) -> bool {
    let first = body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let heading = first.trim_start_matches('#');
    heading.len() < first.len() && one_line(heading) == one_line(title)
}

/// The note below a text of which only the beginning is shown (M7.3.29).
fn rest_of(entry: &Entry) -> Option<String> {
    let (whole, shown) = (entry.fields.body_ref.as_ref()?.bytes, entry.fields.body.len());
    (whole > shown as u64).then(|| format!("[the first {shown} of {whole} bytes of {}]", entry.handle))
}

/// Renders the structured parts of a log block, each list under its name.
fn render_parts(out: &mut String, parts: Option<&Value>) {
    for name in ["actions", "results", "artifacts", "remaining", "questions", "evidence"] {
        let Some(Value::Array(items)) = part(parts, name) else {
            continue;
        };
        if items.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n*{name}*\n");
        for item in items {
            let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            let _ = writeln!(out, "- {}", text.trim_end().replace('\n', "\n  "));
        }
    }
}

fn part<'v>(parts: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    parts.and_then(|parts| parts.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::change::NewEntry;
    use crate::entry::{EntryFields, Owner};
    use crate::id::{EntryHandle, EntryId, PageHandle, PageId, Seq};
    use crate::page::PageFields;
    use crate::time::Timestamp;

    #[test]
    fn entry_heading_repeated_in_its_body_is_rendered_once() {
        let (id, at) = (PageId::derived(&["p"]), Timestamp::default());
        let page = Page {
            id,
            handle: PageHandle(1),
            version: 1,
            created_at: at,
            updated_at: at,
            created_seq: Seq(1),
            fields: PageFields::new(PageRole::Note, "Report", Owner::user()),
        };
        let block = |number: u64, title: &str, body: &str| {
            let mut fields = EntryFields::new(EntryKind::Log, Owner::user(), Trust::User);
            (fields.title, fields.body) = (title.to_owned(), body.to_owned());
            let new = NewEntry {
                id: EntryId::derived(&[title]),
                page: id,
                kind: EntryKind::Log,
                fields,
            };
            Entry::added(new, EntryHandle(number), Seq(number), at)
        };
        let blocks = [
            block(1, "First", "It is old."),
            block(2, "Second", "\n# Second\n\nIt is new."),
            block(3, "", "It is neither."),
            block(4, "Last", "Last of all."),
        ];
        insta::assert_snapshot!(render_page(&page, &blocks, &[]), @r"
        # Report

        <!-- p1 note · user · open -->

        ## First

        It is old.


        # Second

        It is new.

        It is neither.

        ## Last

        Last of all.
        ");
    }
}
