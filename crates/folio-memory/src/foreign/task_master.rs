//! Importing the tasks of Task Master: one file with a single list of tasks, or one list per context.

use serde_json::{Map, Value};

use super::{Collector, Destination, Foreign, Said, instant, joined, name_of, names, object, text};
use crate::entry::{EntryKind, Status};
use crate::id::EntryId;
use crate::link::Relation;
use crate::warning::Invalid;

/// The context of a file without contexts.
const MASTER: &str = "master";

/// Reads `file`. Tasks and subtasks become tasks of the scratchbook; those of a context other than the main one get its
/// name as a tag. The dependencies of a task, and its subtasks, must be done before it.
///
/// # Errors
///
/// `foreign_malformed` if it is not such a file.
pub fn task_master(file: &str, to: &Destination) -> Result<Foreign, Invalid> {
    let mut gathered = Collector::new("task-master", to);
    let mut contexts = object(file, "file")?;
    if contexts.get("tasks").is_some_and(Value::is_array) {
        contexts = Map::from_iter([(MASTER.to_owned(), Value::Object(contexts))]);
    }
    let mut contexts: Vec<_> = contexts.into_iter().collect();
    contexts.sort_by_key(|(context, _)| (context != MASTER, context.clone()));
    let mut found = false;
    for (context, mut value) in contexts {
        let Some(Value::Array(tasks)) = value.get_mut("tasks").map(Value::take) else {
            continue;
        };
        found = true;
        let mut dependencies = Vec::new();
        let list = List::of(&context, &value);
        for (place, task) in (1..).zip(tasks) {
            let name = format!("{context}: task {place}");
            if let Err(invalid) = take_in(&mut gathered, &list, None, task, &mut dependencies) {
                gathered.refuse(name, invalid);
            }
        }
        for (name, other) in dependencies {
            let (id, first) = (list.id(&gathered, &name), list.id(&gathered, &other));
            gathered.link(format!("{context}: {other} before {name}"), first, Relation::Blocks, id);
        }
    }
    if found {
        Ok(gathered.foreign)
    } else {
        let message = "has no list of tasks, neither by itself nor in a context";
        Err(Invalid::new("foreign_malformed", "tasks", message))
    }
}

/// A list of tasks.
struct List<'f> {
    /// The context of the list.
    context: &'f str,
    /// The name that distinguishes the list from those of other projects: its context, and the project's name if the
    /// file states it.
    name: String,
}

impl<'f> List<'f> {
    /// The list of `context`, which the file describes in `context_value`.
    fn of(context: &'f str, context_value: &Value) -> Self {
        let places = ["/meta/projectName", "/metadata/projectName"];
        let project = places.iter().find_map(|place| context_value.pointer(place)?.as_str());
        Self {
            context,
            name: project.map_or_else(|| context.to_owned(), |project| format!("{context}\n{project}")),
        }
    }

    /// The id of the task `name` in the list.
    fn id(&self, gathered: &Collector<'_>, name: &str) -> EntryId {
        gathered.id_in(&gathered.to.thread, &self.name, name)
    }
}

/// Adds a task with its subtasks. Its dependencies are added to `dependencies`.
fn take_in(
    gathered: &mut Collector<'_>,
    list: &List<'_>,
    parent: Option<&str>,
    task: Value,
    dependencies: &mut Vec<(String, String)>,
) -> Result<(), Invalid> {
    let context = list.context;
    let Value::Object(mut record) = task else {
        return Err(Invalid::new("foreign_malformed", "tasks", "is not a JSON object"));
    };
    let Some(number) = name_of(&record) else {
        return Err(Invalid::new("foreign_malformed", "id", "is missing"));
    };
    // A subtask is named 3.1, but some files name it 1 within 3.
    let qualify = |number: &str| match parent {
        Some(parent) if !number.contains('.') => format!("{parent}.{number}"),
        _ => number.to_owned(),
    };
    let name = qualify(&number);
    let (status, extra_tag) = status(&text(&mut record, "status"))?;
    let mut tags: Vec<String> = extra_tag.map(str::to_owned).into_iter().collect();
    if context != MASTER {
        tags.push(context.to_owned());
    }
    let priority = text(&mut record, "priority");
    if !priority.is_empty() {
        tags.push(format!("priority:{priority}"));
    }
    let title = text(&mut record, "title");
    let body = joined([
        ("", text(&mut record, "description")),
        ("Details", text(&mut record, "details")),
        ("Test strategy", text(&mut record, "testStrategy")),
    ]);
    let updated = instant(&mut record, "updatedAt");
    let subtasks = record.remove("subtasks");
    // Dependencies of a subtask name its siblings unless they say otherwise.
    dependencies.extend(
        names(&record, "dependencies")
            .iter()
            .map(|other| (name.clone(), qualify(other))),
    );
    dependencies.extend(parent.map(|parent| (parent.to_owned(), name.clone())));
    let page = gathered.book(&gathered.to.thread);
    gathered.add(
        list.id(gathered, &name),
        Said {
            earlier: Some(gathered.id(context, &name)),
            name: if context == MASTER {
                name.clone()
            } else {
                format!("{context}: {name}")
            },
            kind: EntryKind::Task,
            page,
            title: &title,
            body,
            status,
            tags,
            times: (None, updated),
            rest: record,
        },
    );
    // There is one level of subtasks only.
    if let (None, Some(Value::Array(subtasks))) = (parent, subtasks) {
        for (place, subtask) in (1..).zip(subtasks) {
            if let Err(invalid) = take_in(gathered, list, Some(&name), subtask, dependencies) {
                gathered.refuse(format!("{context}: {name}, subtask {place}"), invalid);
            }
        }
    }
    Ok(())
}

/// The status, and a tag if the status does not express everything.
fn status(status_text: &str) -> Result<(Status, Option<&'static str>), Invalid> {
    Ok(match status_text {
        "pending" | "" => (Status::Open, None),
        "in-progress" => (Status::InProgress, None),
        "blocked" => (Status::Blocked, None),
        "done" | "completed" => (Status::Done, None),
        "deferred" => (Status::Open, Some("deferred")),
        "review" => (Status::InProgress, Some("review")),
        "cancelled" => (Status::Archived, Some("cancelled")),
        other => {
            let message =
                format!("{other:?} is not pending, in-progress, review, blocked, deferred, done or cancelled");
            return Err(Invalid::new("status_invalid", "status", message));
        }
    })
}
