//! Importing the task lists of Claude Code: one folder per list, one file `N.json` per task.

use serde_json::{Map, Value};

use super::{Collector, Destination, Foreign, Said, TextFile, joined, name_of, names, object, text};
use crate::entry::{EntryKind, Status};
use crate::link::Relation;
use crate::space::ThreadKey;
use crate::warning::Invalid;

/// Reads `files`: those of one list, or those of several lists, each in its own folder.
///
/// A task becomes a task of the scratchbook of the thread named after its folder, or of the destination's thread if
/// there is no folder. The tasks that block it are linked to it.
#[must_use]
pub fn claude_tasks(files: &[TextFile], to: &Destination) -> Foreign {
    let mut gathered = Collector::new("claude-tasks", to);
    let mut dependencies = Vec::new();
    for TextFile { path, text } in files {
        let list = path.rsplit_once('/').map_or("", |(list, _)| list);
        match task(&mut gathered, list, text) {
            Ok(Some((name, blockers, blocked))) => dependencies.push((list, name, blockers, blocked)),
            Ok(None) => {}
            Err(invalid) => gathered.refuse(path.clone(), invalid),
        }
    }
    for (list, name, blockers, blocked) in dependencies {
        let thread = thread_of(list, to);
        let id = gathered.id_in(&thread, list, &name);
        for other in blockers {
            let blocker = gathered.id_in(&thread, list, &other);
            gathered.link(format!("{other} blocks {name}"), blocker, Relation::Blocks, id);
        }
        for other in blocked {
            let blocked_id = gathered.id_in(&thread, list, &other);
            gathered.link(format!("{name} blocks {other}"), id, Relation::Blocks, blocked_id);
        }
    }
    gathered.foreign
}

/// The thread whose scratchbook gets the tasks of `list`.
fn thread_of(list: &str, to: &Destination) -> ThreadKey {
    match list {
        "" => to.thread.clone(),
        list => ThreadKey(list.to_owned()),
    }
}

/// The task's name, the tasks that block it, and the tasks that it blocks. `None` if the task was refused.
type Task = Option<(String, Vec<String>, Vec<String>)>;

fn task(gathered: &mut Collector<'_>, list: &str, file: &str) -> Result<Task, Invalid> {
    let mut record = object(file, "file")?;
    let Some(name) = name_of(&record) else {
        return Err(Invalid::new("foreign_malformed", "id", "is missing"));
    };
    let thread = thread_of(list, gathered.to);
    let page = gathered.book(&thread);
    let title = [
        text(&mut record, "subject"),
        text(&mut record, "content"),
        text(&mut record, "title"),
    ]
    .into_iter()
    .find(|title| !title.is_empty())
    .unwrap_or_default();
    let body = joined([("", text(&mut record, "description"))]);
    let status = status(&mut record)?;
    let (blockers, blocked) = (names(&record, "blockedBy"), names(&record, "blocks"));
    let id = gathered.id_in(&thread, list, &name);
    let count_before = gathered.foreign.items.len();
    gathered.add(
        id,
        Said {
            name: name.clone(),
            kind: EntryKind::Task,
            page,
            title: &title,
            body,
            status,
            tags: Vec::new(),
            times: (None, None),
            rest: record,
            earlier: Some(gathered.id(list, &name)),
        },
    );
    let is_new = gathered.foreign.items.len() > count_before;
    Ok(is_new.then_some((name, blockers, blocked)))
}

fn status(record: &mut Map<String, Value>) -> Result<Status, Invalid> {
    Ok(match text(record, "status").as_str() {
        "pending" | "" => Status::Open,
        "in_progress" => Status::InProgress,
        "completed" => Status::Done,
        "deleted" => Status::Archived,
        other => {
            let message = format!("{other:?} is not pending, in_progress, completed or deleted");
            return Err(Invalid::new("status_invalid", "status", message));
        }
    })
}
