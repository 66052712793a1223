use super::fields::MAX_TITLE_BYTES;
use super::*;
use crate::actor::Trust;
use crate::change::{FieldChange, NewEntry};
use crate::entry::{Entry, EntryKind, Status};
use crate::id::{EntryHandle, EntryId, Seq};
use crate::lifecycle::complete;
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
fn item_patch_may_repeat_read_only_fields_as_they_stand() {
    use serde_json::json;

    let mut task = entry(EntryKind::Task);
    task.fields.body = "whole".to_owned();
    let said = |value| patch(&task, ItemPatch::from_json(value).unwrap()).map(|(changes, _)| changes);
    let mut whole = json!(ScratchItem::of(&task));
    assert!(task.is_unchanged_by(&said(whole.clone()).unwrap()));
    whole["title"] = json!("another");
    assert!(said(whole).unwrap().contains(&FieldChange::Title("another".to_owned())));
    for (name, value) in [
        ("handle", json!("e99")),
        ("kind", json!("note")),
        ("version", json!(7)),
        ("pinned", json!(true)),
        ("owner", json!("ada")),
    ] {
        let refused = said(json!({name: value})).unwrap_err();
        assert_eq!(
            (refused.code.as_str(), refused.field.as_str()),
            ("field_immutable", name)
        );
    }
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
    assert_eq!(changes, complete(&item).unwrap());
    let said = ItemPatch {
        progress: Some(0.8),
        ..to("done")
    };
    let (changes, _) = patch(&item, said).unwrap();
    assert_eq!(
        changes,
        complete(&item).unwrap(),
        "what is done has full progress, whatever is said"
    );
    let note = entry(EntryKind::Note);
    let (changes, _) = patch(&note, to("resolved")).unwrap();
    assert_eq!(changes, [FieldChange::Status(Status::Resolved)]);
}

#[test]
fn reopening_a_done_task_clears_its_full_progress_m7_5_41() {
    let mut item = entry(EntryKind::Task);
    let completed = complete(&item).unwrap();
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
