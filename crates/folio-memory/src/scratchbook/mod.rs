//! The scratchbook of a thread: notes, todos and tasks (seed 003).

pub mod colony;
mod item;
mod order;
mod stored;
pub mod tools;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use item::ScratchItem;
pub use order::{BookClass, BookPlace, by_urgency};
pub(crate) use stored::stored_title;

use crate::actor::Trust;
use crate::change::FieldChange;
use crate::entry::{Entry, EntryFields, EntryKind, Owner, Status, Tag, check_text, without_nul};
use crate::excerpt::one_line;
use crate::id::PageId;
use crate::lifecycle::outcome_reset;
use crate::observation::null_field_names;
use crate::page::{PageFields, PageRole};
use crate::space::{SpaceName, ThreadKey};
use crate::view::is_blank;
use crate::warning::{Invalid, Warning};

const MAX_TITLE_BYTES: usize = 512;
/// The maximum length of a task's phase, in bytes.
const MAX_PHASE_BYTES: usize = 512;

/// An item to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput {
    /// `note`, `todo` or `task`.
    #[serde(deserialize_with = "item_kind")]
    #[schemars(with = "ItemKind")]
    pub kind: EntryKind,
    /// The title, in one line. If left out, the first line of the body is the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text of the item.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Tags to find the item by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The phase of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The progress of a task, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
}

impl ItemInput {
    /// Creates the input for an item of `kind` with a title and nothing else.
    #[must_use]
    pub fn new(kind: EntryKind, title: impl Into<String>) -> Self {
        Self {
            kind,
            title: Some(title.into()),
            body: String::new(),
            tags: Vec::new(),
            phase: None,
            progress: None,
        }
    }
}

const ITEM_KINDS: [&str; 3] = ["note", "todo", "task"];

/// The kind of an item.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its description is used")]
enum ItemKind {
    Note,
    Todo,
    Task,
}

/// Deserializes the kind of an item. The error for an unknown word lists only the kinds that an item may have.
fn item_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EntryKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    EntryKind::parse(&name).ok_or_else(|| D::Error::unknown_variant(&name, &ITEM_KINDS))
}

/// The fields of an item to change; a field that is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemPatch {
    /// The new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The new text. The beginning that answers show of a longer text stands for that text and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The new status or one of its synonyms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The new tags, which replace all old ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The new phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The new progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The fields to clear: those that were sent as `null`.
    #[serde(skip)]
    pub cleared: Vec<String>,
}

impl ItemPatch {
    /// Parses a patch of an item. A field that is `null` is to be cleared.
    ///
    /// # Errors
    ///
    /// The reason if `value` cannot be parsed or is empty.
    pub fn from_json(value: Value) -> Result<Self, serde_json::Error> {
        if value.as_object().is_some_and(serde_json::Map::is_empty) {
            return Err(serde::de::Error::custom("it contains nothing to change"));
        }
        let cleared = value.as_object().map(null_field_names).unwrap_or_default();
        Ok(Self {
            cleared,
            ..serde_json::from_value(value)?
        })
    }
}

/// The error that a field cannot be empty.
pub(crate) fn cannot_be_null(field: &str) -> Invalid {
    Invalid::new(
        "field_not_cleared",
        field,
        "cannot be null; leave it out to keep its value",
    )
}

/// The field changes that clear the fields `cleared` of `item`. A field that is empty already stays so.
fn clear(item: &Entry, cleared: &[String]) -> Result<Vec<FieldChange>, Invalid> {
    let fields = &item.fields;
    let mut changes = Vec::new();
    for name in cleared {
        changes.extend(match name.as_str() {
            "body" => (!fields.body.is_empty()).then(|| FieldChange::Body(String::new())),
            "tags" => (!fields.tags.is_empty()).then(|| FieldChange::Tags(Vec::new())),
            "phase" => fields.phase.is_some().then_some(FieldChange::Phase(None)),
            "progress" => fields.progress.is_some().then_some(FieldChange::Progress(None)),
            _ => return Err(cannot_be_null(name)),
        });
    }
    Ok(changes)
}

/// The scratchbook page of `thread`. Its id is the same wherever it is computed.
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
/// NUL is removed from texts, with a warning. If the title has more than 512 bytes and there is no body, it becomes the
/// body and its beginning the title. An empty title or phase counts as left out.
///
/// # Errors
///
/// The first field that is wrong: a kind that is not an item's, no content, a text that is too long, progress out of
/// range, an invalid tag. `title_too_long` if such a long title comes with a body, because there is no place for the
/// rest of it. `phase_too_long` for a phase of more than 512 bytes.
pub fn draft(input: ItemInput, trust: Trust) -> Result<(EntryFields, Vec<Warning>), Invalid> {
    if !input.kind.is_item() {
        return Err(Invalid::new(
            "kind_invalid",
            "kind",
            format!("{} is not note, todo or task", input.kind),
        ));
    }
    let mut warnings = Vec::new();
    let mut clean = |text: Option<String>| {
        let kept = text.map(|text| without_nul(text, &mut warnings));
        kept.filter(|text| !is_blank(text))
    };
    let (title, phase) = (clean(input.title), clean(input.phase));
    let input = ItemInput {
        title,
        phase,
        body: without_nul(input.body, &mut warnings),
        ..input
    };
    let mut fields = EntryFields::new(input.kind, Owner::agent(), trust);
    let title = match &input.title {
        Some(title) if is_blank(&input.body) => checked_title(title)?,
        Some(title) => whole_title(title)?,
        None => checked_title(input.body.lines().find(|line| !is_blank(line)).unwrap_or(""))?,
    };
    fields.title = title;
    fields.body = match input.title {
        Some(title) if one_line(&title).len() > MAX_TITLE_BYTES => title,
        _ => input.body,
    };
    check_text(&fields.body, "body")?;
    fields.tags = Tag::parse_all(input.tags.iter().map(String::as_str))?;
    check_is_of_kind(input.kind, input.phase.as_deref(), input.progress)?;
    fields.phase = input.phase.map(checked_phase).transpose()?;
    fields.progress = input.progress.map(checked_progress).transpose()?;
    Ok((fields, warnings))
}

/// Returns the field changes that `patch` means for `item`, in a fixed order, and the warnings about corrected values:
/// NUL is removed from texts.
///
/// # Errors
///
/// The first field that is wrong, or `archived` if the item is archived, which is final for updates (M7.5.39).
/// `title_too_long` for a title of more than 512 bytes, because it must not overwrite the body. `phase_too_long` for a
/// phase of more than 512 bytes.
pub fn patch(item: &Entry, patch: ItemPatch) -> Result<(Vec<FieldChange>, Vec<Warning>), Invalid> {
    let (mut changes, mut warnings) = (clear(item, &patch.cleared)?, Vec::new());
    if let Some(title) = patch.title {
        let title = without_nul(title, &mut warnings);
        if is_blank(&title) {
            return Err(Invalid::new(
                "title_empty",
                "title",
                "cannot be empty; leave it out to keep its value",
            ));
        }
        changes.push(FieldChange::Title(whole_title(&title)?));
    }
    // Answers show only the beginning of a long text, and that must not replace the whole.
    if let Some(body) = patch.body.filter(|text| !item.fields.is_beginning(text)) {
        let body = without_nul(body, &mut warnings);
        check_text(&body, "body")?;
        changes.push(FieldChange::Body(body));
    }
    if let Some(text) = patch.status {
        let status = status_of(item.kind, &text)?;
        changes.push(FieldChange::Status(status));
        changes.extend(outcome_reset(item, status));
    }
    if let Some(tags) = patch.tags {
        changes.push(FieldChange::Tags(Tag::parse_all(tags.iter().map(String::as_str))?));
    }
    check_is_of_kind(item.kind, patch.phase.as_deref(), patch.progress)?;
    if let Some(phase) = patch.phase {
        let phase = checked_phase(without_nul(phase, &mut warnings))?;
        changes.push(FieldChange::Phase(Some(phase).filter(|p| !p.is_empty())));
    }
    let is_cleared = changes.contains(&FieldChange::Progress(None));
    if let Some(progress) = patch.progress {
        let mut progress = checked_progress(progress)?;
        if progress < 1.0 && is_done_after(item, &changes) {
            // Work that is done has full progress (M7.5.41), also where a caller sends back what it read before.
            let message = "progress of what is done is 1; reopen it to set less";
            warnings.push(Warning::new("progress_of_done", message, progress, 1));
            progress = 1.0;
        }
        changes.push(FieldChange::Progress(Some(progress)));
    } else if !is_cleared && item.fields.status != Status::Done && changes.contains(&FieldChange::Status(Status::Done))
    {
        // Work that becomes done has full progress, whether by an update or by completing it (M7.5.41).
        changes.push(FieldChange::Progress(Some(1.0)));
    } else if item.fields.status == Status::Done
        && item.fields.progress.is_some_and(|progress| progress >= 1.0)
        && changes.iter().any(is_reopening)
    {
        // A reopened item is no longer complete, and nobody has said how far it is.
        changes.push(FieldChange::Progress(None));
    }
    let is_status_change =
        |change: &FieldChange| is_reopening(change) && *change != FieldChange::Status(item.fields.status);
    if item.fields.lease_until.is_some() && changes.iter().any(is_status_change) {
        // A claim ends with the status that it was made for (M7.4.35).
        changes.push(FieldChange::LeaseUntil(None));
    }
    // A repeated request for what already holds, such as after a lost answer, succeeds (M7.4.34).
    if item.fields.status == Status::Archived && !item.is_unchanged_by(&changes) {
        let message = format!("{} is archived, which is final; add a new item", item.handle);
        return Err(Invalid::new("archived", "status", message));
    }
    Ok((changes, warnings))
}

/// The field changes that complete `item` (M7.5.41): work becomes done with full progress, and knowledge resolved.
#[must_use]
pub fn complete(item: &Entry) -> Vec<FieldChange> {
    match item.kind.family() {
        crate::entry::Family::Knowledge => vec![FieldChange::Status(Status::Resolved)],
        crate::entry::Family::Work => vec![FieldChange::Status(Status::Done), FieldChange::Progress(Some(1.0))],
    }
}

/// Whether `item` is done once `changes` are made.
fn is_done_after(item: &Entry, changes: &[FieldChange]) -> bool {
    let status = changes.iter().rev().find_map(|change| match change {
        FieldChange::Status(status) => Some(*status),
        _ => None,
    });
    status.unwrap_or(item.fields.status) == Status::Done
}

/// Whether `change` turns something into work to be done.
fn is_reopening(change: &FieldChange) -> bool {
    matches!(
        change,
        FieldChange::Status(Status::Open | Status::InProgress | Status::Blocked)
    )
}

/// The status that `text` names for an item of `kind`. Seed 003 calls every item that is not done open, so `open` means
/// active for a note.
fn status_of(kind: EntryKind, text: &str) -> Result<Status, Invalid> {
    let family = kind.family();
    let status = match (kind, text) {
        (EntryKind::Note, "open") => Some(Status::Active),
        _ => Status::parse_in(text, family),
    };
    status.ok_or_else(|| {
        let statuses = Status::ALL.into_iter().filter(|status| status.is_of(family));
        let names: Vec<_> = statuses.map(Status::as_str).collect();
        let message = format!("a {kind} cannot be {text:?}; it can be {}", names.join(", "));
        Invalid::new("status_invalid", "status", message)
    })
}

fn check_is_of_kind(kind: EntryKind, phase: Option<&str>, progress: Option<f64>) -> Result<(), Invalid> {
    if kind == EntryKind::Task || (phase.is_none() && progress.is_none()) {
        return Ok(());
    }
    let field = if phase.is_some() { "phase" } else { "progress" };
    let message = format!("only a task has phase and progress; this is a {kind}");
    Err(Invalid::new("field_not_of_kind", field, message))
}

/// Returns `text` as a title of one line. A longer text is cut to its beginning, for callers that keep the rest
/// elsewhere.
#[must_use]
pub fn short_title(text: &str) -> String {
    let line = one_line(text);
    if line.len() <= MAX_TITLE_BYTES {
        return line;
    }
    format!(
        "{}…",
        &line[..line.floor_char_boundary(MAX_TITLE_BYTES - '…'.len_utf8())]
    )
}

/// As [`short_title`], but refuses an empty title.
pub(crate) fn checked_title(title: &str) -> Result<String, Invalid> {
    let line = short_title(title);
    if is_blank(&line) {
        let message = "there is neither a title nor a body";
        return Err(Invalid::new("title_empty", "title", message));
    }
    Ok(line)
}

/// Returns `title` in one line if it fits completely.
fn whole_title(title: &str) -> Result<String, Invalid> {
    check_title(&one_line(title))?;
    checked_title(title)
}

/// Checks that all of `line` fits in a title.
pub(crate) fn check_title(line: &str) -> Result<(), Invalid> {
    let bytes = line.len();
    if bytes > MAX_TITLE_BYTES {
        let message = format!("{bytes} bytes are more than {MAX_TITLE_BYTES}; put longer text in the body");
        return Err(Invalid::new("title_too_long", "title", message));
    }
    Ok(())
}

/// Checks that `phase` is no longer than the name of a phase may be.
pub(crate) fn checked_phase(phase: String) -> Result<String, Invalid> {
    let bytes = phase.len();
    if bytes > MAX_PHASE_BYTES {
        let message = format!("{bytes} bytes are more than {MAX_PHASE_BYTES}; put longer text in the body");
        return Err(Invalid::new("phase_too_long", "phase", message));
    }
    Ok(phase)
}

pub(crate) fn checked_progress(progress: f64) -> Result<f64, Invalid> {
    if (0.0..=1.0).contains(&progress) {
        // Adding zero turns -0.0 into 0.0.
        Ok(progress + 0.0)
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
    use crate::change::NewEntry;
    use crate::id::{EntryHandle, EntryId, Seq};
    use crate::time::Timestamp;

    fn to(status: &str) -> ItemPatch {
        ItemPatch {
            status: Some(status.to_owned()),
            ..ItemPatch::default()
        }
    }

    fn entry(kind: EntryKind) -> Entry {
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind,
            fields: draft(ItemInput::new(kind, "x"), Trust::User).unwrap().0,
        };
        Entry::added(new, EntryHandle(1), Seq(1), Timestamp::default())
    }

    #[test]
    fn similar_thread_names_get_distinct_scratchbooks_m7_4_38() {
        let space = SpaceName::main();
        let ids: Vec<_> = ["a/b", "a_b", "a b", "線程"]
            .map(|t| page_of(&space, &ThreadKey(t.to_owned())).0)
            .into();
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn null_in_an_item_patch_clears_only_optional_fields() {
        use serde_json::json;

        let mut task = entry(EntryKind::Task);
        (task.fields.phase, task.fields.progress) = (Some("design".to_owned()), Some(0.5));
        let said = |of: &Entry, value| patch(of, ItemPatch::from_json(value).unwrap()).map(|(changes, _)| changes);
        let cleared = said(
            &task,
            json!({"phase": null, "progress": null, "body": null, "tags": null}),
        );
        assert_eq!(cleared, Ok(vec![FieldChange::Phase(None), FieldChange::Progress(None)]));
        for name in ["title", "status"] {
            let refused = said(&task, json!({"body": "b", name: null})).unwrap_err();
            assert_eq!(
                (refused.code.as_str(), refused.field.as_str()),
                ("field_not_cleared", name)
            );
        }
        assert_eq!(said(&entry(EntryKind::Note), json!({"phase": null})), Ok(Vec::new()));
        let misspelt = ItemPatch::from_json(json!({"titel": null})).unwrap_err();
        assert!(misspelt.to_string().contains("unknown field `titel`"), "{misspelt}");
        let nothing = ItemPatch::from_json(json!({})).unwrap_err();
        assert_eq!(nothing.to_string(), "it contains nothing to change");
    }

    #[test]
    fn status_change_of_an_item_ends_its_lease_m7_4_35() {
        let mut task = entry(EntryKind::Task);
        task.fields.lease_until = Some(Timestamp::from_millis(1_000));
        let set = |task: &Entry, status| patch(task, to(status)).unwrap().0.pop().unwrap();
        let over = FieldChange::LeaseUntil(None);
        for (from, status, next) in [
            (Status::InProgress, "open", over.clone()),
            (Status::InProgress, "blocked", over.clone()),
            (Status::Open, "in_progress", over.clone()),
            (Status::Done, "in_progress", over),
            (
                Status::InProgress,
                "in_progress",
                FieldChange::Status(Status::InProgress),
            ),
            (Status::InProgress, "done", FieldChange::Progress(Some(1.0))),
        ] {
            task.fields.status = from;
            assert_eq!(set(&task, status), next, "{from} {status}");
        }
    }

    #[test]
    fn missing_title_is_taken_from_the_first_body_line() {
        let item = ItemInput {
            title: None,
            body: "\n  first\nsecond".to_owned(),
            ..ItemInput::new(EntryKind::Note, "")
        };
        assert_eq!(draft(item, Trust::User).unwrap().0.title, "first");
    }

    #[test]
    fn blank_title_or_phase_counts_as_missing() {
        let item = ItemInput {
            body: "only a text".to_owned(),
            phase: Some(" ".to_owned()),
            ..ItemInput::new(EntryKind::Note, " \n")
        };
        let (fields, _) = draft(item, Trust::User).unwrap();
        assert_eq!((fields.title.as_str(), fields.phase), ("only a text", None));
        let nothing = draft(ItemInput::new(EntryKind::Note, " "), Trust::User).unwrap_err();
        assert_eq!(nothing.to_string(), "title: there is neither a title nor a body");
        let emptied = ItemPatch {
            title: Some(" ".to_owned()),
            ..ItemPatch::default()
        };
        let invalid = patch(&entry(EntryKind::Note), emptied).unwrap_err();
        assert_eq!(
            invalid.to_string(),
            "title: cannot be empty; leave it out to keep its value"
        );
    }

    #[test]
    fn progress_over_one_or_of_a_todo_is_refused() {
        let todo = ItemInput {
            progress: Some(0.5),
            ..ItemInput::new(EntryKind::Todo, "x")
        };
        assert_eq!(draft(todo, Trust::User).unwrap_err().code, "field_not_of_kind");
        let task = ItemInput {
            progress: Some(1.5),
            ..ItemInput::new(EntryKind::Task, "x")
        };
        assert_eq!(draft(task, Trust::User).unwrap_err().code, "progress_invalid");
    }

    #[test]
    fn patch_to_done_makes_the_same_changes_as_completing_m7_5_41() {
        let mut item = entry(EntryKind::Task);
        item.fields.progress = Some(0.5);
        let (changes, _) = patch(&item, to("done")).unwrap();
        assert_eq!(changes, complete(&item));
        let said = ItemPatch {
            progress: Some(0.8),
            ..to("done")
        };
        let (changes, _) = patch(&item, said).unwrap();
        assert_eq!(
            changes,
            complete(&item),
            "what is done has full progress, whatever is said"
        );
        let note = entry(EntryKind::Note);
        let (changes, _) = patch(&note, to("resolved")).unwrap();
        assert_eq!(changes, [FieldChange::Status(Status::Resolved)]);
    }

    #[test]
    fn reopening_a_done_task_clears_its_full_progress_m7_5_41() {
        let mut item = entry(EntryKind::Task);
        let completed = complete(&item);
        item.patch(&completed, Seq(2), Timestamp::default());
        let changes = |item: &Entry, to: ItemPatch| patch(item, to).unwrap().0;
        for (name, status) in [("open", Status::Open), ("in_progress", Status::InProgress)] {
            let wanted = [FieldChange::Status(status), FieldChange::Progress(None)];
            assert_eq!(changes(&item, to(name)), wanted);
        }
        assert_eq!(changes(&item, to("done")), [FieldChange::Status(Status::Done)]);
        let said = ItemPatch {
            progress: Some(0.8),
            ..to("open")
        };
        assert_eq!(
            changes(&item, said),
            [FieldChange::Status(Status::Open), FieldChange::Progress(Some(0.8))]
        );
        // Full progress of an item that is not done stays as it was reported.
        item.fields.status = Status::InProgress;
        assert_eq!(changes(&item, to("blocked")), [FieldChange::Status(Status::Blocked)]);
    }

    #[test]
    fn negative_zero_progress_becomes_zero() {
        assert!(checked_progress(-0.0).unwrap().is_sign_positive());
    }

    #[test]
    fn overlong_title_becomes_the_body_with_a_short_title() {
        let long = format!("{} END", "größer ".repeat(100));
        for body in ["", " \n"] {
            let item = ItemInput {
                body: body.to_owned(),
                ..ItemInput::new(EntryKind::Note, &*long)
            };
            let (fields, _) = draft(item, Trust::User).unwrap();
            assert_eq!(fields.body, long);
            assert!(fields.title.len() <= MAX_TITLE_BYTES, "{}", fields.title);
            assert!(long.starts_with(fields.title.trim_end_matches('…')));
        }
    }

    #[test]
    fn title_of_the_maximum_length_is_kept() {
        let fits = "x".repeat(MAX_TITLE_BYTES);
        let (fields, _) = draft(ItemInput::new(EntryKind::Todo, format!(" {fits}\n")), Trust::User).unwrap();
        assert_eq!((fields.title.as_str(), fields.body.as_str()), (fits.as_str(), ""));
    }

    #[test]
    fn overlong_title_is_refused_beside_a_body_and_in_patches() {
        let long = "x".repeat(MAX_TITLE_BYTES + 1);
        let both = ItemInput {
            body: "text".to_owned(),
            ..ItemInput::new(EntryKind::Task, &long)
        };
        let title = Some(long);
        let changed = ItemPatch {
            title,
            ..ItemPatch::default()
        };
        let refused = [
            draft(both, Trust::User).unwrap_err(),
            patch(&entry(EntryKind::Note), changed).unwrap_err(),
        ];
        for invalid in refused {
            assert_eq!(invalid.code, "title_too_long");
            assert_eq!(
                invalid.message,
                "513 bytes are more than 512; put longer text in the body"
            );
        }
    }

    #[test]
    fn phase_over_512_bytes_is_refused() {
        let task = |bytes: usize| ItemInput {
            phase: Some("x".repeat(bytes)),
            ..ItemInput::new(EntryKind::Task, "x")
        };
        let change = |bytes: usize| ItemPatch {
            phase: Some("x".repeat(bytes)),
            ..ItemPatch::default()
        };
        assert_eq!(draft(task(512), Trust::User).unwrap().0.phase.unwrap().len(), 512);
        assert_eq!(patch(&entry(EntryKind::Task), change(512)).unwrap().0.len(), 1);
        let added = draft(task(513), Trust::User).unwrap_err();
        assert_eq!(added, patch(&entry(EntryKind::Task), change(513)).unwrap_err());
        let says = "phase: 513 bytes are more than 512; put longer text in the body";
        assert_eq!(
            (added.code.as_str(), added.to_string().as_str()),
            ("phase_too_long", says)
        );
    }

    #[test]
    fn patch_sets_progress_and_phase_only_on_tasks() {
        let progress = ItemPatch {
            progress: Some(0.5),
            ..ItemPatch::default()
        };
        let phase = ItemPatch {
            phase: Some("packing".to_owned()),
            ..ItemPatch::default()
        };
        for change in [progress, phase] {
            for kind in [EntryKind::Note, EntryKind::Todo] {
                let invalid = patch(&entry(kind), change.clone()).unwrap_err();
                assert_eq!(invalid.code, "field_not_of_kind");
                assert_eq!(
                    invalid.message,
                    format!("only a task has phase and progress; this is a {kind}")
                );
            }
            assert_eq!(patch(&entry(EntryKind::Task), change).unwrap().0.len(), 1);
        }
    }

    #[test]
    fn invalid_status_error_lists_the_valid_statuses() {
        for (kind, text, can) in [
            (
                EntryKind::Note,
                "in_progress",
                "active, pending_review, resolved, archived",
            ),
            (
                EntryKind::Todo,
                "resolved",
                "open, in_progress, blocked, done, archived",
            ),
        ] {
            let invalid = patch(&entry(kind), to(text)).unwrap_err();
            assert_eq!(invalid.code, "status_invalid");
            assert_eq!(invalid.message, format!("a {kind} cannot be {text:?}; it can be {can}"));
        }
    }

    #[test]
    fn note_patched_to_open_becomes_active() {
        let (changes, _) = patch(&entry(EntryKind::Note), to("open")).unwrap();
        assert_eq!(changes, [FieldChange::Status(Status::Active)]);
    }

    #[test]
    fn invisible_text_counts_as_empty_m7_3_29() {
        for unseen in [
            "\u{200b}",
            "\u{feff} \u{2060}",
            "\u{200d}\u{fe0f}",
            "\u{3164}",
            "\u{e0041}",
        ] {
            let nothing = ItemInput {
                body: unseen.to_owned(),
                ..ItemInput::new(EntryKind::Note, unseen)
            };
            assert_eq!(
                draft(nothing, Trust::User).unwrap_err().code,
                "title_empty",
                "{unseen:?}"
            );
            let untitled = ItemInput {
                body: format!("{unseen}\nthe port"),
                ..ItemInput::new(EntryKind::Note, unseen)
            };
            assert_eq!(draft(untitled, Trust::User).unwrap().0.title, "the port", "{unseen:?}");
        }
        // A title with visible characters stays as it was written.
        let joined = draft(ItemInput::new(EntryKind::Note, "👩\u{200d}🚒"), Trust::User).unwrap();
        assert_eq!(joined.0.title, "👩\u{200d}🚒");
    }

    #[test]
    fn nul_is_removed_from_item_texts_with_one_warning_m7_3_29() {
        let item = ItemInput {
            body: "b\0b".to_owned(),
            phase: Some("p\0".to_owned()),
            ..ItemInput::new(EntryKind::Task, "t\0t")
        };
        let (fields, warnings) = draft(item, Trust::User).unwrap();
        let texts = (fields.title.as_str(), fields.body.as_str(), fields.phase.as_deref());
        assert_eq!(texts, ("tt", "bb", Some("p")));
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].code, "nul_removed");
        let nothing = draft(ItemInput::new(EntryKind::Note, "\0"), Trust::User).unwrap_err();
        assert_eq!(nothing.code, "title_empty");
        let change = ItemPatch {
            body: Some("\0c".to_owned()),
            ..ItemPatch::default()
        };
        let (changes, warnings) = patch(&entry(EntryKind::Task), change).unwrap();
        assert_eq!(changes, [FieldChange::Body("c".to_owned())]);
        assert_eq!(warnings[0].code, "nul_removed");
    }

    #[test]
    fn done_task_has_full_progress_whatever_a_patch_says_m7_5_41() {
        let less = |status: Option<&str>| ItemPatch {
            status: status.map(str::to_owned),
            progress: Some(0.3),
            ..ItemPatch::default()
        };
        let mut done = entry(EntryKind::Task);
        done.fields.status = Status::Done;
        let (changes, warnings) = patch(&done, less(None)).unwrap();
        assert_eq!((changes, warnings.len()), (vec![FieldChange::Progress(Some(1.0))], 1));
        let (changes, warnings) = patch(&done, less(Some("in_progress"))).unwrap();
        assert!(changes.contains(&FieldChange::Progress(Some(0.3))) && warnings.is_empty());
    }

    #[test]
    fn patch_of_an_archived_item_may_only_archive_it_again_m7_4_34() {
        let mut archived = entry(EntryKind::Task);
        archived.fields.status = Status::Archived;
        assert_eq!(
            patch(&archived, to("archived")).unwrap().0,
            [FieldChange::Status(Status::Archived)]
        );
        let other = ItemPatch {
            title: Some("y".to_owned()),
            ..to("archived")
        };
        assert_eq!(patch(&archived, other).unwrap_err().code, "archived");
        assert_eq!(patch(&archived, to("open")).unwrap_err().code, "archived");
    }

    #[test]
    fn observation_is_refused_as_a_scratchbook_item() {
        assert_eq!(
            draft(ItemInput::new(EntryKind::Observation, "x"), Trust::User)
                .unwrap_err()
                .code,
            "kind_invalid"
        );
    }
}
