//! Notes of the trace.

use std::time::Duration;

use folio_memory::{Actor, EntryId, NoteQuery, NotesKept, Role, RunId, Seq, Timestamp, TraceNote, TurnId};

use super::Home;
use super::scene::Scene;

/// Keeps everything that fits.
const ALL: NotesKept = NotesKept {
    from: Timestamp::MIN,
    notes_max: 1_000,
};

fn note(scene: &Scene, operation: &str) -> TraceNote {
    TraceNote::new(
        scene.now(),
        &Actor::new(Role::Tool, "wine_search"),
        "scratch_page",
        operation,
    )
}

async fn append(scene: &Scene, notes: Vec<TraceNote>, kept: NotesKept) {
    scene
        .store
        .append_trace(&scene.space, &notes, kept)
        .await
        .expect("notes are kept");
}

/// The operations of the notes that match `query`.
async fn found(scene: &Scene, query: NoteQuery) -> Vec<String> {
    let query = NoteQuery {
        limit: if query.limit == 0 { 1_000 } else { query.limit },
        ..query
    };
    let notes = scene.store.notes(&scene.space, &query).await.expect("notes");
    notes.into_iter().map(|note| note.operation).collect()
}

/// A note reads back unchanged, and notes come in the order in which they were written.
pub async fn trace_notes_read_back_unchanged_and_in_order(home: &dyn Home) {
    let scene = Scene::of(home);
    let notes: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            note(&scene, name)
                .taking(Duration::from_micros(17))
                .with_detail(serde_json::json!({"filters": {"tags": ["wine"]}, "returned": 2}))
        })
        .collect();
    append(&scene, notes[..2].to_vec(), ALL).await;
    append(&scene, notes[2..].to_vec(), ALL).await;
    let all = NoteQuery {
        limit: 10,
        ..NoteQuery::default()
    };
    assert_eq!(scene.store.notes(&scene.space, &all).await.expect("notes"), notes);
    let last = NoteQuery {
        limit: 2,
        ..NoteQuery::default()
    };
    assert_eq!(found(&scene, last).await, ["b", "c"], "the last ones are given");
}

/// Each process writes its notes a while after it made them. A part of the trace has those that were made last, or
/// first, whoever wrote them when.
pub async fn trace_notes_come_in_the_order_in_which_they_were_made(home: &dyn Home) {
    let scene = Scene::of(home);
    let made = |name: &str, after: u64| TraceNote {
        at: scene.now().plus(Duration::from_millis(after)),
        ..note(&scene, name)
    };
    append(&scene, vec![made("first", 1), made("third", 3)], ALL).await;
    append(&scene, vec![made("second", 2), made("fourth", 4)], ALL).await;
    append(&scene, vec![made("zeroth", 0)], ALL).await;
    let query = NoteQuery {
        limit: 2,
        ..NoteQuery::default()
    };
    assert_eq!(found(&scene, query.clone()).await, ["third", "fourth"]);
    let until = NoteQuery {
        until: Some(scene.now().plus(Duration::from_millis(2))),
        ..query.clone()
    };
    assert_eq!(found(&scene, until).await, ["first", "second"]);
    let on = NoteQuery {
        since: Some(Seq(0)),
        ..query
    };
    assert_eq!(found(&scene, on).await, ["zeroth", "first"]);
}

/// A note from before something was forgotten that is delivered afterwards is kept without its text.
pub async fn late_trace_note_from_before_a_forgetting_loses_its_text(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let saying = |operation| note(&scene, operation).with_detail("in the old mill");
    let late = saying("late");
    let human = Actor::new(Role::Human, "ada");
    let forgetting = TraceNote::of_forgetting(scene.now(), &human);
    append(&scene, vec![forgetting.clone()], ALL).await;
    let later = TraceNote {
        at: scene.now().plus(Duration::from_secs(2)),
        ..saying("later")
    };
    append(&scene, vec![late.clone(), later.clone()], ALL).await;
    append(&other, vec![late.clone()], ALL).await;
    let all = NoteQuery {
        limit: 10,
        ..NoteQuery::default()
    };
    let kept = async |scene: &Scene| scene.store.notes(&scene.space, &all).await.expect("notes");
    assert_eq!(kept(&scene).await, [forgetting, late.clone().without_words(), later]);
    assert_eq!(kept(&other).await, [late]);
}

/// Notes that contain a text to be removed are deleted, whatever form its letters have; those of other spaces stay.
pub async fn trace_notes_with_forgotten_text_are_deleted_in_any_spelling_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    let saying = |text: &str| note(&scene, "search").with_detail(text);
    let unlike = saying("in the new mill");
    append(&scene, vec![unlike.clone()], ALL).await;
    append(&other, vec![saying("in the old mühle")], ALL).await;
    let all = NoteQuery {
        limit: 10,
        ..NoteQuery::default()
    };
    let kept = async |scene: &Scene| scene.store.notes(&scene.space, &all).await.expect("notes");
    let texts = || vec!["in the OLD mu\u{308}hle".to_owned()];
    for is_scrubbed in [true, false] {
        append(&scene, vec![saying("In the Old\nMÜHLE")], ALL).await;
        if is_scrubbed {
            let left = scene.store.scrub(&scene.space, texts()).await.expect("an answer");
            assert_eq!(left.found, Vec::<String>::new());
        } else {
            let forgetting = scene.store.forget_notes(&scene.space, texts()).await;
            forgetting.expect("they go");
        }
        assert_eq!(kept(&scene).await, std::slice::from_ref(&unlike));
        assert_eq!(kept(&other).await.len(), 1);
    }
    scene.store.write_anew().await.expect("it is written anew");
    assert_eq!(kept(&scene).await, [unlike]);
}

/// A note takes no number of the log, and may be written before the space has its first commit.
pub async fn trace_note_uses_no_commit_number(home: &dyn Home) {
    let scene = Scene::of(home);
    append(&scene, vec![note(&scene, "a")], ALL).await;
    assert_eq!(scene.head().await, Seq(0));
    assert_eq!(scene.commit(Vec::new()).await.seq, Seq(1));
    append(&scene, vec![note(&scene, "b")], ALL).await;
    assert_eq!(scene.head().await, Seq(1));
    assert_eq!(
        scene.store.check().await.expect("a check").problems,
        Vec::<String>::new()
    );
}

/// All filters of a query for notes are combined.
pub async fn note_queries_filter_by_turn_run_entry_component_and_commit(home: &dyn Home) {
    let scene = Scene::of(home);
    let (turn, run, entry) = (
        TurnId::derived(&["t"]),
        RunId::derived(&["r"]),
        EntryId::derived(&["e"]),
    );
    let notes = vec![
        TraceNote {
            turn: Some(turn),
            ..note(&scene, "of the turn")
        },
        TraceNote {
            run: Some(run),
            ..note(&scene, "of the run")
        },
        note(&scene, "about the entry").about(entry, None),
        TraceNote {
            component: "router".to_owned(),
            turn: Some(turn),
            ..note(&scene, "by the router")
        },
        TraceNote {
            as_of: Seq(7),
            ..note(&scene, "after commit 7")
        },
    ];
    append(&scene, notes, ALL).await;
    let cases = [
        (
            NoteQuery {
                turn: Some(turn),
                ..NoteQuery::default()
            },
            vec!["of the turn", "by the router"],
        ),
        (
            NoteQuery {
                run: Some(run),
                ..NoteQuery::default()
            },
            vec!["of the run"],
        ),
        (
            NoteQuery {
                entry: Some(entry),
                ..NoteQuery::default()
            },
            vec!["about the entry"],
        ),
        (
            NoteQuery {
                turn: Some(turn),
                component: Some("router".to_owned()),
                ..NoteQuery::default()
            },
            vec!["by the router"],
        ),
        (
            NoteQuery {
                since: Some(Seq(7)),
                ..NoteQuery::default()
            },
            vec!["after commit 7"],
        ),
        (
            NoteQuery {
                from: Some(scene.now().plus(Duration::from_nanos(1))),
                ..NoteQuery::default()
            },
            vec![],
        ),
        (
            NoteQuery {
                component: Some("router".to_owned()),
                from: Some(scene.now()),
                until: Some(scene.now()),
                ..NoteQuery::default()
            },
            vec!["by the router"],
        ),
        (
            NoteQuery {
                since: Some(Seq(0)),
                limit: 1,
                ..NoteQuery::default()
            },
            vec!["of the turn"],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(found(&scene, query.clone()).await, expected, "{query:?}");
    }
}

/// Notes of one space are not visible in another.
pub async fn trace_notes_are_scoped_to_their_space(home: &dyn Home) {
    let scene = Scene::of(home);
    let other = scene.other_space("other");
    append(&scene, vec![note(&scene, "here")], ALL).await;
    append(&other, vec![note(&other, "there")], ALL).await;
    assert_eq!(found(&scene, NoteQuery::default()).await, ["here"]);
    assert_eq!(found(&other, NoteQuery::default()).await, ["there"]);
}

/// Old notes are deleted, and so are the oldest if there are too many (M7.10).
pub async fn old_or_excess_trace_notes_are_deleted(home: &dyn Home) {
    let scene = Scene::of(home);
    append(&scene, vec![note(&scene, "old"), note(&scene, "old too")], ALL).await;
    scene.clock.advance(Duration::from_secs(60));
    let kept = NotesKept {
        from: scene.now(),
        notes_max: 3,
    };
    append(&scene, vec![note(&scene, "1")], kept).await;
    assert_eq!(found(&scene, NoteQuery::default()).await, ["1"]);
    let more = ["2", "3", "4"].map(|name| note(&scene, name)).to_vec();
    append(&scene, more, kept).await;
    assert_eq!(found(&scene, NoteQuery::default()).await, ["2", "3", "4"]);
}
