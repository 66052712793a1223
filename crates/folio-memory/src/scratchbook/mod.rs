//! Notes, todos and tasks of a thread (seed 003).

pub mod colony;
mod item;
mod order;
pub mod tools;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use item::ScratchItem;
pub use order::by_urgency;

use crate::actor::Trust;
use crate::change::FieldChange;
use crate::entry::{Entry, EntryFields, EntryKind, Owner, Status, Tag, check_text};
use crate::id::PageId;
use crate::page::{PageFields, PageRole};
use crate::space::{SpaceName, ThreadKey};
use crate::warning::Invalid;

const MAX_TITLE_BYTES: usize = 512;

/// An item to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput {
    /// `note`, `todo` or `task`.
    pub kind: EntryKind,
    /// One line. Left out, the first line of the body serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The stage of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How far a task is, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

/// What is to change of an item; what is left out stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemPatch {
    /// Another title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Another text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Another status, or a synonym of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Other tags, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Another stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Other progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

/// The scratchbook page of `thread`: the same id wherever it is asked for.
#[must_use]
pub fn page_of(space: &SpaceName, thread: &ThreadKey) -> (PageId, PageFields) {
    let id = PageId::derived(&["scratchbook", space.as_str(), &thread.0]);
    let mut fields = PageFields::new(
        PageRole::Scratchbook,
        format!("Scratchbook of {thread}"),
        Owner::agent(),
    );
    fields.thread = Some(thread.clone());
    (id, fields)
}

/// Makes the fields of an item.
///
/// # Errors
///
/// The first field that is wrong: a kind that is no item, nothing in it, too long, progress out of range, a bad tag.
pub fn draft(input: ItemInput, trust: Trust) -> Result<EntryFields, Invalid> {
    if !is_item(input.kind) {
        return Err(Invalid::new(
            "kind_invalid",
            "kind",
            format!("{} is not note, todo or task", input.kind),
        ));
    }
    let mut fields = EntryFields::new(input.kind, Owner::agent(), trust);
    let title = input.title.unwrap_or_else(|| {
        input
            .body
            .lines()
            .find(|l| !l.trim().is_empty())
            .unwrap_or("")
            .to_owned()
    });
    fields.title = checked_title(&title)?;
    check_text(&input.body, "body")?;
    fields.body = input.body;
    fields.tags = Tag::parse_all(input.tags.iter().map(String::as_str))?;
    if input.kind != EntryKind::Task && (input.phase.is_some() || input.progress.is_some()) {
        return Err(Invalid::new(
            "field_not_of_kind",
            "phase",
            format!("only a task has phase and progress, this is a {}", input.kind),
        ));
    }
    fields.phase = input.phase;
    fields.progress = input.progress.map(checked_progress).transpose()?;
    Ok(fields)
}

/// The field changes that `patch` means for `item`, in a fixed order.
///
/// # Errors
///
/// The first field that is wrong, or `archived` if the item is put away, which is final for updates (M7.5.39).
pub fn patch(item: &Entry, patch: ItemPatch) -> Result<Vec<FieldChange>, Invalid> {
    let mut changes = Vec::new();
    if item.fields.status == Status::Archived {
        return Err(Invalid::new(
            "archived",
            "status",
            format!("{} is archived, which is final; add a new item", item.handle),
        ));
    }
    if let Some(title) = patch.title {
        changes.push(FieldChange::Title(checked_title(&title)?));
    }
    if let Some(body) = patch.body {
        check_text(&body, "body")?;
        changes.push(FieldChange::Body(body));
    }
    if let Some(text) = patch.status {
        let status = Status::parse_in(&text, item.kind.family()).ok_or_else(|| {
            Invalid::new(
                "status_invalid",
                "status",
                format!("a {} cannot be {text:?}", item.kind),
            )
        })?;
        changes.push(FieldChange::Status(status));
    }
    if let Some(tags) = patch.tags {
        changes.push(FieldChange::Tags(Tag::parse_all(tags.iter().map(String::as_str))?));
    }
    if let Some(phase) = patch.phase {
        changes.push(FieldChange::Phase(Some(phase).filter(|p| !p.is_empty())));
    }
    if let Some(progress) = patch.progress {
        changes.push(FieldChange::Progress(Some(checked_progress(progress)?)));
    }
    Ok(changes)
}

/// The field changes that completing `item` means (M7.5.41): done and all of it; knowledge is resolved.
#[must_use]
pub fn complete(item: &Entry) -> Vec<FieldChange> {
    match item.kind.family() {
        crate::entry::Family::Knowledge => vec![FieldChange::Status(Status::Resolved)],
        crate::entry::Family::Work => vec![FieldChange::Status(Status::Done), FieldChange::Progress(Some(1.0))],
    }
}

fn is_item(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Note | EntryKind::Todo | EntryKind::Task)
}

pub(crate) fn checked_title(title: &str) -> Result<String, Invalid> {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(Invalid::new(
            "title_empty",
            "title",
            "there is neither a title nor a body",
        ));
    }
    if line.len() > MAX_TITLE_BYTES {
        let end = (0..=MAX_TITLE_BYTES - 3)
            .rev()
            .find(|at| line.is_char_boundary(*at))
            .unwrap_or(0);
        return Ok(format!("{}…", &line[..end]));
    }
    Ok(line)
}

pub(crate) fn checked_progress(progress: f64) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&progress) {
        Ok(progress)
    } else {
        Err(Invalid::new(
            "progress_invalid",
            "progress",
            format!("{progress} is not from 0 to 1"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: EntryKind, title: &str) -> ItemInput {
        ItemInput {
            kind,
            title: Some(title.to_owned()),
            body: String::new(),
            tags: Vec::new(),
            phase: None,
            progress: None,
        }
    }

    #[test]
    fn threads_with_similar_names_have_different_books_m7_4_38() {
        let space = SpaceName::main();
        let ids: Vec<_> = ["a/b", "a_b", "a b", "線程"]
            .map(|t| page_of(&space, &ThreadKey(t.to_owned())).0)
            .into();
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn the_first_line_of_the_body_serves_as_title() {
        let item = ItemInput {
            title: None,
            body: "\n  first\nsecond".to_owned(),
            ..input(EntryKind::Note, "")
        };
        assert_eq!(draft(item, Trust::User).unwrap().title, "first");
    }

    #[test]
    fn only_a_task_has_progress_and_only_from_0_to_1() {
        let todo = ItemInput {
            progress: Some(0.5),
            ..input(EntryKind::Todo, "x")
        };
        assert_eq!(draft(todo, Trust::User).unwrap_err().code, "field_not_of_kind");
        let task = ItemInput {
            progress: Some(1.5),
            ..input(EntryKind::Task, "x")
        };
        assert_eq!(draft(task, Trust::User).unwrap_err().code, "progress_invalid");
    }

    #[test]
    fn an_observation_is_no_item() {
        assert_eq!(
            draft(input(EntryKind::Observation, "x"), Trust::User).unwrap_err().code,
            "kind_invalid"
        );
    }
}
