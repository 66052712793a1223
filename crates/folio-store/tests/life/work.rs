//! Work that several agents share.

use folio_memory::id::Ref;
use folio_memory::lifecycle::Report;
use folio_memory::scratchbook::ItemInput;
use folio_memory::view::candidate;
use folio_memory::{
    Actor, Change, EntryId, EntryKind, FieldChange, Link, NewEntry, Owner, Relation, Role, Status, ThreadKey, Trust,
};
use folio_store::workspace::{Guard, WorkReport, Write};

use serde_json::json;

use crate::{person, scene};

#[tokio::test]
async fn oldest_open_work_is_ready_behind_many_tasks_in_progress() {
    let scene = scene();
    let (me, thread) = (Owner::parse("me").unwrap(), ThreadKey::main());
    let oldest = scene.task().await;
    let mut fields = oldest.fields.clone();
    (fields.status, fields.owner) = (Status::InProgress, Owner::parse("another").unwrap());
    let newer = (0..1_001).map(|number: u32| {
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["newer", &number.to_string()]),
            page: oldest.page,
            kind: EntryKind::Task,
            fields: fields.clone(),
        }))
    });
    scene
        .memory
        .record(&person(), Write::of(newer.collect()))
        .await
        .unwrap();
    let ready = scene.memory.ready_work(&thread, &me, 10).await.unwrap();
    let found: Vec<_> = ready.items.iter().map(|item| item.id).collect();
    assert_eq!(found, [oldest.id]);
    let taken = scene
        .memory
        .claim_work(&person(), &thread, None, &me, None)
        .await
        .unwrap();
    assert_eq!(taken.unwrap().entry.id, oldest.id);
}

#[tokio::test]
async fn whoever_asks_again_gets_what_they_have_begun_whatever_is_more_urgent_m7_4_35() {
    let scene = scene();
    let (me, thread) = (Owner::parse("me").unwrap(), ThreadKey::main());
    let add = async |kind| {
        let input = ItemInput::new(kind, "do it");
        let added = scene.memory.add_item(&person(), &thread, input, None).await;
        added.unwrap().entry
    };
    let claim = async || {
        let claimed = scene.memory.claim_work(&person(), &thread, None, &me, None).await;
        claimed.unwrap().unwrap().entry.id
    };
    // Somebody has only set its status.
    let older = add(EntryKind::Task).await;
    let mine = add(EntryKind::Todo).await;
    let at_it = Ref::Id(mine.id);
    let claimed = scene.memory.claim(&person(), at_it, &me, None, Guard::default()).await;
    claimed.unwrap();
    let status = Change::PatchEntry {
        entry: older.id,
        fields: vec![FieldChange::Status(Status::InProgress)],
        expected_version: None,
        base_version: None,
    };
    scene.memory.record(&person(), Write::of(vec![status])).await.unwrap();
    add(EntryKind::Task).await;
    assert_eq!((claim().await, claim().await), (mine.id, mine.id));
    let done = WorkReport {
        item: at_it,
        said: Report::Done,
        result: String::new(),
        after: Vec::new(),
    };
    scene
        .memory
        .report_work(&person(), &thread, &me, done, None)
        .await
        .unwrap();
    assert_eq!(claim().await, older.id);
}

#[tokio::test]
async fn work_that_waits_for_other_work_cannot_be_claimed_by_anybody_m7_4_35() {
    let scene = scene();
    let owner = Owner::parse("me").unwrap();
    let (first, second) = (scene.task().await, scene.task().await);
    let order = Change::AddLink(Link {
        src: first.id.to_string(),
        rel: Relation::Blocks,
        dst: second.id.to_string(),
    });
    scene.memory.record(&person(), Write::of(vec![order])).await.unwrap();
    let claim = async || {
        let entry = Ref::Id(second.id);
        scene
            .memory
            .claim(&person(), entry, &owner, None, Guard::default())
            .await
    };
    let refused = claim().await.unwrap_err();
    assert_eq!(refused.code(), "not_claimable");
    assert!(
        refused.to_string().contains(&format!("waits for {}", first.handle)),
        "{refused}"
    );
    let done = Ref::Id(first.id);
    scene.memory.complete(&person(), done, Guard::default()).await.unwrap();
    claim().await.unwrap();
}

#[tokio::test]
async fn equal_report_sent_again_adds_no_second_note_m7_4_35() {
    let scene = scene();
    let (me, thread) = (Owner::parse("me").unwrap(), ThreadKey::main());
    let secret = ["ghp", "_0123456789abcdefghijABCDEFGHIJ012345"].concat();
    for result in [format!("it uses {secret}"), "a long story ".repeat(10_000)] {
        let task = scene.task().await;
        let report = async || {
            let report = WorkReport {
                item: Ref::Id(task.id),
                said: Report::Done,
                result: result.clone(),
                after: Vec::new(),
            };
            let reported = scene.memory.report_work(&person(), &thread, &me, report, None).await;
            reported.unwrap().1
        };
        assert!(report().await.is_some());
        assert_eq!(report().await, None, "{}", &result[..20]);
    }
}

#[tokio::test]
async fn note_of_a_report_names_the_task_and_says_the_result_once_m7_4_35() {
    let scene = scene();
    let (thread, me) = (ThreadKey::main(), Owner::parse("me").unwrap());
    let task = scene.task().await;
    let report = WorkReport {
        item: Ref::Id(task.id),
        said: Report::Done,
        result: "There are seven of them".to_owned(),
        after: Vec::new(),
    };
    let reported = scene.memory.report_work(&person(), &thread, &me, report, None).await;
    let note = reported.unwrap().1.unwrap();
    assert_eq!(
        candidate(&note).lengths[0],
        format!(
            "{} [note/active] {}: {} — There are seven of them #result",
            note.handle, task.handle, task.fields.title
        )
    );
}

#[tokio::test]
async fn note_of_a_person_that_a_model_rewrites_counts_as_the_models_m7_8_v11() {
    let scene = scene();
    let (ada, agent) = (person(), Actor::new(Role::Client, "agent"));
    let note = serde_json::from_value(json!({"kind": "note", "title": "Deploys", "body": "Only on Fridays."})).unwrap();
    let note = scene
        .memory
        .add_item(&ada, &ThreadKey::main(), note, None)
        .await
        .unwrap()
        .entry;
    let id = Ref::Id(note.id);
    let update = async |actor: &Actor, patch| {
        let patch = serde_json::from_value(patch).unwrap();
        scene.memory.update_item(actor, id, patch, None).await.unwrap().entry
    };
    let tagged = update(&agent, json!({"tags": ["deploy"], "body": "Only on Fridays."})).await;
    assert_eq!((note.fields.trust, tagged.fields.trust), (Trust::User, Trust::User));
    let guard = Guard::default();
    let replaced = scene.memory.str_replace(&agent, id, "Fridays", "any day", guard).await;
    assert_eq!(replaced.unwrap().entry.fields.trust, Trust::Model);
    let corrected = update(&ada, json!({"title": "Deployments"})).await;
    assert_eq!(corrected.fields.trust, Trust::Model, "the text is still the model's");
    let versions = scene.memory.versions(id).await.unwrap();
    let lowered = versions
        .iter()
        .filter(|version| version.changes.iter().any(|change| change.field == "trust"));
    let by: Vec<String> = lowered.skip(1).map(|version| version.actor.to_string()).collect();
    assert_eq!(by, ["client:agent"], "the history says who did it");
}
