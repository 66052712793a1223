//! Rows that were changed behind the store's back, and what the doctor reports.

use std::time::Duration;

use folio_memory::turn::{NewTurn, TurnEnd};
use folio_memory::{
    Actor, Change, FieldChange, NotesKept, PageRole, Role, Seq, ThreadKey, Timestamp, TraceNote, TurnId,
};
use folio_store::{Blob, Record, Store};
use folio_testkit::contract::scene::{Scene, patch};

/// Three of everything, the second of which gets damaged.
pub(crate) async fn fill(scene: &Scene) {
    let mut pages = Vec::new();
    for number in 1..=3 {
        scene.clock.advance(Duration::from_secs(1));
        let mut page = scene.page(PageRole::Note);
        page.fields.title = format!("page {number}");
        page.fields.thread = Some(ThreadKey("thread".to_owned()));
        page.fields.parent = pages.first().copied();
        pages.push(page.id);
        scene.commit(vec![Change::EnsurePage(Box::new(page))]).await;
    }
    let status = Change::SetPageStatus {
        page: pages[1],
        status: "ok".to_owned(),
    };
    // Said twice, of which the second changes nothing.
    scene.commit(vec![status.clone()]).await;
    scene.commit(vec![status]).await;
    for number in 1..=3 {
        let id = scene.add(scene.note(pages[0], &format!("note {number}"))).await;
        if number == 2 {
            scene.commit(vec![patch(id, vec![FieldChange::PinRank(Some(1))])]).await;
        }
    }
    for number in 1..=3 {
        let run = scene.a_run(&format!("run {number}")).await;
        let begun = NewTurn {
            id: TurnId::draw(&scene.ids, scene.now()),
            thread: ThreadKey("thread".to_owned()),
            input: format!("turn {number}"),
            run: Some(run),
            background: false,
            as_of: Seq(0),
            decisions: Vec::new(),
        };
        let turn = begun.id;
        scene.commit(vec![Change::BeginTurn(Box::new(begun))]).await;
        if number == 2 {
            let export = Blob::new(b"what it left behind".to_vec());
            let end = Box::new(TurnEnd {
                complete: true,
                decisions: Vec::new(),
                export: export.hash().0.clone(),
                touched: 0,
                as_of: Seq(0),
            });
            let mut commit = scene.commit_of(Record::of(vec![Change::EndTurn { turn, end }]));
            commit.blobs.push(export);
            scene.store.commit(commit).await.expect("a commit");
        }
    }
    note(scene).await;
}

/// Writes one note of the trace.
async fn note(scene: &Scene) {
    let kept = NotesKept {
        from: Timestamp::MIN,
        notes_max: 10,
    };
    let note = TraceNote::new(scene.now(), &Actor::new(Role::Tool, "grep"), "scratch_page", "search");
    let notes = [note];
    scene
        .store
        .append_trace(&scene.space, &notes, kept)
        .await
        .expect("a note");
}

/// More than a check holds in memory: notes of a megabyte each, all of which are changed after the last one was added.
pub(crate) async fn fill_much(scene: &Scene) {
    let page = scene.a_page().await;
    let mut notes = Vec::new();
    for number in 1..=40 {
        let mut note = scene.note(page, &format!("note {number}."));
        note.fields.metadata = Some("x".repeat(1 << 20).into());
        notes.push(scene.add(note).await);
    }
    for id in notes {
        scene.commit(vec![patch(id, vec![FieldChange::PinRank(Some(1))])]).await;
    }
}

/// Damage to what [`fill_much`] wrote, as [`damages`] has it.
pub(crate) fn damage_to_much(choose: impl Fn(u64) -> String) -> (String, Vec<&'static str>) {
    let damage = format!(
        "UPDATE entry SET fields = replace(fields, 'note 3.', 'x') WHERE {}; UPDATE entry SET pinned = NOT pinned WHERE {};
         DELETE FROM touch WHERE what = 'e' AND {};",
        choose(3),
        choose(4),
        choose(5)
    );
    let wanted = vec![
        "entry e3 does not match the log",
        "entry e4 has columns that do not match it",
        "the list of changes to e5 lacks commit 46",
    ];
    (damage, wanted)
}

/// Damage to rows, as SQL, and the beginnings of what the doctor reports. `choose` writes the condition for a row
/// number.
pub(crate) fn damages(choose: impl Fn(u64) -> String) -> Vec<(String, Vec<&'static str>)> {
    let (one, two, three) = (choose(1), choose(2), choose(3));
    let changed = |table: &str, what: &str, which: &str| format!("UPDATE {table} SET {what} WHERE {which};");
    vec![
        // What cannot be read hides nothing beside it, whether it was ever changed or not.
        (
            changed("entry", "fields = '{'", &one)
                + &changed("entry", "fields = replace(fields, 'note 3', 'x')", &three),
            vec!["entry e1", "entry e3 does not match the log"],
        ),
        (
            changed("entry", "fields = '{'", &two) + &changed("entry", "pinned = NOT pinned", &three),
            vec!["entry e2", "entry e3 has columns that do not match it"],
        ),
        (
            changed("page", "fields = '{'", &one) + &changed("page", "fields = replace(fields, 'page 3', 'x')", &three),
            vec!["page p1", "page p3 does not match the log"],
        ),
        (
            changed("page", "fields = '{'", &two) + &changed("page", "role = 'plan'", &three),
            vec!["page p2", "page p3 has columns that do not match it"],
        ),
        (
            changed("page", "thread = 'other'", &one) + &changed("page", "parent = NULL", &three),
            vec![
                "page p1 has columns that do not match it",
                "page p3 has columns that do not match it",
            ],
        ),
        (
            changed("turn", "begun = '{'", &one) + &changed("turn", "begun = replace(begun, 'turn 3', 'x')", &three),
            vec!["turn t1", "turn t3 does not match the log"],
        ),
        (
            changed("turn", "thread = 'other'", &one) + &changed("turn", "run = NULL", &three),
            vec![
                "turn t1 has columns that do not match it",
                "turn t3 has columns that do not match it",
            ],
        ),
        (
            changed("run", "title = 'x'", &one) + &changed("run", "status = 'ok'", &three),
            vec!["run r1 does not match the log", "run r3 does not match the log"],
        ),
        (
            "UPDATE trace SET note = 'x'; DELETE FROM blob;".to_owned(),
            vec!["note 1 of the trace cannot be read", "the export of turn t2 is missing"],
        ),
    ]
}

/// Asserts that the doctor reports these, in any order, and nothing else.
pub(crate) async fn assert_found(store: &dyn Store, damage: &str, wanted: &[&str]) {
    let mut problems = store.check().await.expect("a checkup").problems;
    problems.sort();
    assert_eq!(problems.len(), wanted.len(), "{damage}: {problems:#?}");
    for (problem, wanted) in problems.iter().zip(wanted) {
        let told = problem.strip_prefix("space main: ").unwrap_or_default();
        assert!(told.starts_with(wanted), "{damage}: {wanted} is told as {problem}");
    }
}
