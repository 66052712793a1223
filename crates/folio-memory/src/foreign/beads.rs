//! Importing the issues of beads: one line of JSON per issue.

use serde_json::{Map, Value};

use super::{Collector, Destination, Foreign, Said, instant, joined, name_of, names, object, text};
use crate::entry::{EntryKind, Status};
use crate::link::Relation;
use crate::warning::Invalid;

/// Reads the lines of `text`. An issue becomes a task of the scratchbook. Its labels, type and priority become tags;
/// its design, criteria, notes and comments go into its text; its dependencies become links.
///
/// An unusable line is refused by its number. Issues that were deleted in beads are skipped.
#[must_use]
pub fn beads(lines: &str, to: &Destination) -> Foreign {
    let mut gathered = Collector::new("beads", to);
    let mut dependencies = Vec::new();
    for (number, line) in (1..).zip(lines.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        match object(line, "line").and_then(|record| issue(&mut gathered, record)) {
            Ok(new_dependencies) => dependencies.extend(new_dependencies),
            Err(invalid) => gathered.refuse(format!("line {number}"), invalid),
        }
    }
    for (issue, other, relation_name) in dependencies {
        let id_of = |name: &str| gathered.id_in(&to.thread, "", name);
        let (id, other_id) = (id_of(&issue), id_of(&other));
        let name = format!("{issue} {relation_name} {other}");
        match relation_name.as_str() {
            "blocks" => gathered.link(name, other_id, Relation::Blocks, id),
            "discovered-from" => gathered.link(name, id, Relation::DerivedFrom, other_id),
            "supersedes" => gathered.link(name, id, Relation::Supersedes, other_id),
            "replies-to" => gathered.link(name, id, Relation::RepliesTo, other_id),
            _ => gathered.link(name, id, Relation::References, other_id),
        }
    }
    gathered.foreign
}

/// Adds an issue. Returns its dependencies: the issue, the other issue, and the kind of dependency.
fn issue(
    gathered: &mut Collector<'_>,
    mut record: Map<String, Value>,
) -> Result<Vec<(String, String, String)>, Invalid> {
    let Some(name) = name_of(&record) else {
        return Err(Invalid::new("foreign_malformed", "id", "is missing"));
    };
    let status_text = text(&mut record, "status");
    let mut tags = names(&record, "labels");
    record.remove("labels");
    let status = match status_text.as_str() {
        "open" | "" => Status::Open,
        "in_progress" | "hooked" => Status::InProgress,
        "blocked" => Status::Blocked,
        "closed" => Status::Done,
        "deferred" | "pinned" => {
            tags.push(status_text.clone());
            Status::Open
        }
        "tombstone" => return Ok(Vec::new()),
        other => {
            let message = format!("{other:?} is not open, in_progress, blocked, deferred or closed");
            return Err(Invalid::new("status_invalid", "status", message));
        }
    };
    let issue_type = text(&mut record, "issue_type");
    if !issue_type.is_empty() {
        tags.push(format!("type:{issue_type}"));
    }
    if let Some(priority) = record.get("priority").and_then(Value::as_u64) {
        record.remove("priority");
        tags.push(format!("priority:{priority}"));
    }
    let title = text(&mut record, "title");
    let body = joined([
        ("", text(&mut record, "description")),
        ("Design", text(&mut record, "design")),
        ("Acceptance criteria", text(&mut record, "acceptance_criteria")),
        ("Notes", text(&mut record, "notes")),
        ("Comments", comments(&mut record)),
        ("Closed", text(&mut record, "close_reason")),
    ]);
    let times = (instant(&mut record, "created_at"), instant(&mut record, "updated_at"));
    let mut dependencies = Vec::new();
    for dependency in record
        .get("dependencies")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let field = |key: &str| dependency.get(key).and_then(Value::as_str).unwrap_or_default();
        let dependency_type = Some(field("type"))
            .filter(|dependency_type| !dependency_type.is_empty())
            .unwrap_or("blocks");
        if !field("depends_on_id").is_empty() {
            dependencies.push((
                name.clone(),
                field("depends_on_id").to_owned(),
                dependency_type.to_owned(),
            ));
        }
    }
    let page = gathered.book(&gathered.to.thread);
    gathered.add(
        gathered.id_in(&gathered.to.thread, "", &name),
        Said {
            earlier: Some(gathered.id("", &name)),
            name,
            kind: EntryKind::Task,
            page,
            title: &title,
            body,
            status,
            tags,
            times,
            rest: record,
        },
    );
    Ok(dependencies)
}

/// The comments on an issue, each with its author and time.
fn comments(record: &mut Map<String, Value>) -> String {
    let Some(Value::Array(comments)) = record.remove("comments") else {
        return String::new();
    };
    let line = |comment: &Value| {
        let field = |key: &str| comment.get(key).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}: {}", field("created_at"), field("author"), field("text"))
    };
    comments.iter().map(line).collect::<Vec<_>>().join("\n\n")
}
