use std::sync::Arc;
use std::time::Duration;

use folio_memory::entry::Status;
use folio_memory::id::Ref;
use folio_memory::keeping::ErasedFor;
use folio_memory::{Actor, Entry, EntryQuery, Order, Role, SpaceName, Tag};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{ForgetFilter, TraceQuery};
use folio_store::{ErrorKind, RequestKey, Store, Workspace};
use folio_testkit::process::{Process, orders, say};
use folio_testkit::{Fault, FaultyStore, Work};
use serde_json::json;

use crate::house::{House, human};

const WORDS: &str = "the wedding is on the fourth of june in the old mill";

fn with_text(text: &str) -> ForgetFilter {
    ForgetFilter {
        text: Some(text.to_owned()),
        ..ForgetFilter::default()
    }
}

#[tokio::test]
async fn forget_leaves_no_byte_of_the_text_in_the_file_m7_6_50() {
    let house = House::new();
    let entry = house.say("something else at first").await;
    house
        .update(
            &entry,
            json!({"content": WORDS, "tags": ["wedding-guests"], "context": {"guest": "Aunt Eleonora"}}),
        )
        .await;
    house
        .update(&entry, json!({"content": "something else again in Zanzibar"}))
        .await;
    let other = house.say("nobody forgets this").await;
    for n in 0..50 {
        house
            .say(&format!("a neighbour on the same page of the file, number {n}"))
            .await;
    }
    assert!(house.holds(WORDS));
    // Searching makes the index of words.
    let found = EntryQuery {
        text: Some("nobody forgets".to_owned()),
        ..EntryQuery::default()
    };
    assert_eq!(house.total(found.clone()).await, 1);

    let forgotten = house
        .workspace
        .forget(&human(), &with_text("OLD MILL"), "she asked for it")
        .await
        .unwrap();

    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    let of_entry = TraceQuery {
        entry: Some(Ref::Id(entry.id)),
        ..TraceQuery::default()
    };
    let lines = house.workspace.trace(of_entry).await.unwrap();
    let erased = lines.iter().find(|line| line.operation == "erase_observation").unwrap();
    assert_eq!(
        (erased.component.as_str(), erased.entry),
        ("scratch_page", Some(entry.id))
    );
    let left = house.get(&entry).await;
    assert_eq!(forgotten.entries, std::slice::from_ref(&left));
    assert_eq!(left.fields.erased, Some(ErasedFor::Forgotten));
    assert_eq!((left.id, left.created_at), (entry.id, entry.created_at));
    for gone in [WORDS, "wedding-guests", "Eleonora", "anzibar", "something else"] {
        assert!(!house.holds(gone), "{gone}");
    }
    let history = house.workspace.history(Ref::Id(entry.id)).await.unwrap();
    let last = history.last().unwrap();
    assert_eq!(
        (last.reason.as_deref(), last.actor.clone()),
        (Some("she asked for it"), human())
    );
    assert_eq!(house.get(&other).await.fields.body, "nobody forgets this");
    assert_eq!(house.total(found).await, 1);
    house.assert_sound().await;
}

#[tokio::test]
async fn words_shared_with_a_kept_entry_are_not_reported_as_left_m7_6_50() {
    let shared = "that the invoice of March has not been paid by the customer";
    let house = House::new();
    let gone = house.say(&format!("Call Anna Miller and say {shared}")).await;
    // It has every piece of this one, and yet does not say it.
    let short = house.say(&format!("{shared} yet")).await;
    let kept = house
        .say(&format!(
            "Remember {shared}; nor has it been not been paid by the customer yet"
        ))
        .await;
    for entry in [gone, short] {
        let filter = ForgetFilter {
            entries: vec![Ref::Id(entry.id)],
            ..ForgetFilter::default()
        };
        let forgotten = house.workspace.forget(&human(), &filter, "").await.unwrap();
        assert_eq!(forgotten.residue.found, Vec::<String>::new());
    }
    assert!(!house.holds("Anna Miller"));
    assert!(house.get(&kept).await.fields.body.contains(shared));
    house.assert_sound().await;
}

#[tokio::test]
async fn forget_refuses_a_blank_text_filter_m7_6_50() {
    let house = House::new();
    let entry = house.say("keep this one").await;
    let workspace = house.workspace.asked_by(&human());
    for text in ["", " ", "\t", "\n", " \u{a0}\n", "\u{ad}", "\u{200b}"] {
        let filter = with_text(text);
        let refusals = [
            workspace.forget(&human(), &filter, "").await.err(),
            workspace.to_forget(&filter).await.err(),
            workspace.waiting_to_forget(&filter).await.err(),
        ];
        for refused in refusals {
            assert_eq!(refused.expect("it is refused").code(), "filter_invalid", "{text:?}");
        }
    }
    assert_eq!(house.get(&entry).await.fields.body, "keep this one");
}

#[tokio::test]
async fn forget_matches_text_across_unicode_forms_and_whitespace_m7_6_50() {
    let house = House::new();
    for (written, asked) in [
        ("Mu\u{308}ller pays at the cafe\u{301}", "MÜLLER PAYS AT THE CAFÉ"),
        ("Jörg Weiß owes him", "Jo\u{308}rg Weiß owes"),
        ("it is in the old\n   mill by the river", "old mill by the river"),
        ("in the new mill by the sea", "new  mill\nby the"),
        ("the way\u{a0}to the mi\u{ad}ll of Anna", "way to the mill of anna"),
    ] {
        let entry = house.say(written).await;
        let earlier = house.say(written).await;
        house.update(&earlier, json!({"content": "something else"})).await;
        let forgotten = house.workspace.forget(&human(), &with_text(asked), "").await.unwrap();
        assert_eq!(forgotten.entries.len(), 2, "{asked}");
        assert_eq!(forgotten.residue.found, Vec::<String>::new());
        assert_eq!(house.get(&entry).await.fields.body, "");
        assert!(!house.holds(written), "{written}");
    }
}

#[tokio::test]
async fn forget_also_erases_the_reasons_given_for_changes_m7_6_50() {
    let house = House::new();
    let (entry, other) = (house.say("the guest list").await, house.say("the menu").await);
    let why = format!("because {WORDS}");
    for entry in [&entry, &other] {
        let (actor, named) = (human(), Ref::Id(entry.id));
        let archived = house.workspace.archive(&actor, named, Some(why.clone()));
        archived.await.unwrap();
    }
    let found = house.workspace.to_forget(&with_text("old mill")).await.unwrap();
    assert_eq!(
        found.iter().map(|entry| entry.id).collect::<Vec<_>>(),
        [entry.id, other.id]
    );
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id), Ref::Id(other.id)],
        ..ForgetFilter::default()
    };
    let forgotten = house
        .workspace
        .forget(&human(), &filter, "she asked for it")
        .await
        .unwrap();
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert!(!house.holds(WORDS));
    let history = house.workspace.history(Ref::Id(entry.id)).await.unwrap();
    let reasons: Vec<_> = history.iter().map(|revision| revision.reason.as_deref()).collect();
    assert_eq!(reasons, [None, None, Some("she asked for it")]);
    house.assert_sound().await;
}

#[tokio::test]
async fn forget_erases_archived_and_compressed_text_m7_6_50() {
    let house = House::new();
    let text = format!(
        "{} {WORDS}",
        "A long text that is worth being compressed once it is put away. ".repeat(20)
    );
    let entry = house.say(&text).await;
    house
        .workspace
        .archive(&human(), Ref::Id(entry.id), None)
        .await
        .unwrap();
    assert_eq!(house.tidy().await.packed, 1);
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forgotten = house.workspace.forget(&human(), &filter, "").await.unwrap();
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert_eq!(house.get(&entry).await.fields.body, "");
    house.assert_sound().await;
}

#[tokio::test]
async fn forget_reports_remaining_copies_as_residue_m7_6_50() {
    let house = House::new();
    let entry = house.say(WORDS).await;
    let other = house.say(&format!("He said: {WORDS}.")).await;
    std::fs::copy(&house.path, house.path.with_extension("db.backup-v1")).unwrap();
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let residue = house.workspace.forget(&human(), &filter, "").await.unwrap().residue;
    assert_eq!(residue.found, [other.handle.to_string(), "commit 2".to_owned()]);
    assert!(residue.backups[0].ends_with("folio.db.backup-v1"), "{residue:?}");
}

#[tokio::test]
async fn forget_erases_trace_notes_that_contain_the_text_m7_6_50() {
    let house = House::new();
    let entry = house.say(WORDS).await;
    let mut note = house.workspace.noted("scratch_page", "search");
    note.detail = Some(json!({ "text": WORDS }));
    house.workspace.note(note);
    let mut note = house.workspace.noted("scratch_page", "look");
    note.entry = Some(entry.id);
    house.workspace.note(note);
    house.workspace.flush_trace().await.unwrap();
    assert!(house.holds(WORDS));
    let residue = house
        .workspace
        .forget(&human(), &with_text("mill"), "")
        .await
        .unwrap()
        .residue;
    assert_eq!(residue.found, Vec::<String>::new());
    assert!(!house.holds(WORDS));
}

#[tokio::test]
async fn forget_erases_truncated_notes_that_quote_the_entry_m7_6_50() {
    let house = House::new();
    let told: String = (0..60).map(|n| format!("marmalade{n} ")).collect();
    let entry = house.say(&told).await;
    // A question that quotes it behind other words, and a refusal of what was to be a cursor.
    let question = format!("{} {told}", "other words ".repeat(50));
    let refusal = format!("{:?} is not a cursor", folio_memory::excerpt::cut(&told, 128));
    for said in [question, refusal] {
        let note = house.workspace.noted("scratch_page", "search");
        house.workspace.note(note.with_detail(json!({ "text": said })));
    }
    house.workspace.flush_trace().await.unwrap();
    let notes = house.workspace.trace(TraceQuery::default()).await.unwrap();
    assert!(format!("{notes:?}").contains("marmalade"), "{notes:?}");
    let only = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    house.workspace.forget(&human(), &only, "").await.unwrap();
    let notes = house.workspace.trace(TraceQuery::default()).await.unwrap();
    assert!(!format!("{notes:?}").contains("marmalade"), "{notes:?}");
    assert!(!house.holds("marmalade"));
}

#[tokio::test]
async fn forget_erases_notes_with_the_beginning_of_a_long_text_m7_6_50() {
    let house = House::new();
    let long = format!("{WORDS} {}", "and so it goes on ".repeat(300));
    let entry = house.say(&long).await;
    let mut note = house.workspace.noted("scratch_page", "search");
    note.detail = Some(json!({ "text": long }));
    house.workspace.note(note);
    house.workspace.flush_trace().await.unwrap();
    let notes = house.workspace.trace(TraceQuery::default()).await.unwrap();
    assert!(format!("{notes:?}").contains(WORDS), "{notes:?}");
    let only = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    house.workspace.forget(&human(), &only, "").await.unwrap();
    assert!(!house.holds(WORDS));
}

#[tokio::test]
async fn forget_matches_any_letter_case_in_entries_notes_and_residue_m7_6_50() {
    let house = House::new();
    let entry = house.say("The QUAGGAMOTH plan").await;
    let other = house.say("of the Quaggamoth").await;
    let mut note = house.workspace.noted("scratch_page", "search");
    note.detail = Some(json!({ "text": "quaggamoth" }));
    house.workspace.note(note);
    house.workspace.flush_trace().await.unwrap();
    let only = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..with_text("quaggaMOTH")
    };
    let residue = house.workspace.forget(&human(), &only, "").await.unwrap().residue;
    assert_eq!(residue.found, [other.handle.to_string(), "commit 2".to_owned()]);
    assert!(!house.holds("quaggamoth"), "what was asked for is in the trace");
    let all = with_text("quaggamoth");
    let residue = house.workspace.forget(&human(), &all, "").await.unwrap().residue;
    assert_eq!(residue.found, Vec::<String>::new());
    assert!(!house.holds("QUAGGAMOTH") && !house.holds("Quaggamoth"));
}

#[tokio::test]
async fn forget_ignores_field_names_of_imported_items_as_residue_m7_6_50() {
    let house = House::new();
    let issue = |n: u32| format!(r#"{{"id": "bd-{n}", "title": "issue {n}", "estimated_minutes_of_work": {n}}}"#);
    let issues = [issue(1), issue(2), issue(3)].join("\n");
    let to = folio_memory::foreign::Destination {
        space: SpaceName::main(),
        thread: folio_memory::ThreadKey("work".to_owned()),
        source: folio_memory::Source::default(),
        now: house.now(),
    };
    let foreign = folio_memory::foreign::beads(&issues, &to);
    let first = foreign.items[0].new.id;
    let options = folio_store::workspace::ImportOptions::default();
    let (jane, mut silent) = (human(), |_: &folio_store::workspace::Imported| {});
    let imported = house.workspace.import_foreign(&jane, foreign, options, &mut silent);
    Box::pin(imported).await.unwrap();
    let filter = ForgetFilter {
        entries: vec![Ref::Id(first)],
        ..ForgetFilter::default()
    };
    let residue = house.workspace.forget(&human(), &filter, "").await.unwrap().residue;
    assert_eq!(residue.found, Vec::<String>::new());
    // A key that somebody chose is found by whoever asks for it.
    let entry = house
        .add(json!({"content": "x", "context": {"aunt_eleonora": 1}}))
        .await;
    let found = house.workspace.to_forget(&with_text("Aunt_Eleonora")).await.unwrap();
    assert_eq!(found, [entry]);
}

#[tokio::test]
async fn forget_reports_a_replaced_store_as_a_backup_m7_6_50() {
    let house = House::new();
    let entry = house.say(WORDS).await;
    let replaced = house.path.with_extension("db.replaced-1");
    std::fs::copy(&house.path, &replaced).unwrap();
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let residue = house.workspace.forget(&human(), &filter, "").await.unwrap().residue;
    assert_eq!(residue.found, Vec::<String>::new());
    assert_eq!(residue.backups, [replaced.display().to_string()]);
}

#[tokio::test]
async fn notes_pending_in_another_process_lose_forgotten_text_m7_6_50() {
    let house = House::new();
    let other = House::at(&house.path, 2);
    let asked = |operation: &str| {
        let note = other.workspace.noted("scratch_page", operation);
        other.workspace.note(note.with_detail(json!({ "text": WORDS })));
    };
    asked("search");
    let forgotten = house.workspace.forget(&human(), &with_text("mill"), "").await;
    forgotten.unwrap();
    other.workspace.flush_trace().await.unwrap();
    assert!(!house.holds(WORDS));
    let lines = house.workspace.trace(TraceQuery::default()).await.unwrap();
    let search = lines.iter().find(|line| line.operation == "search").unwrap();
    assert_eq!(search.detail, None);
    // What is asked for later is somebody's own.
    other.clock.advance(Duration::from_secs(2));
    asked("search_again");
    other.workspace.flush_trace().await.unwrap();
    assert!(house.holds(WORDS));
}

#[tokio::test]
async fn forget_preview_applies_all_conditions_and_changes_nothing_m7_6_50() {
    let house = House::new();
    let tagged = json!({"content": "one", "tags": ["x"], "type": "alert"});
    let one = house.add(tagged).await;
    house.add(json!({"content": "two", "tags": ["x"]})).await;
    house.add(json!({"content": "three", "type": "alert"})).await;
    let query = EntryQuery {
        types: vec!["alert".to_owned()],
        tags: Tag::parse_all(["x"]).unwrap(),
        ..EntryQuery::default()
    };
    let filter = ForgetFilter {
        query,
        ..ForgetFilter::default()
    };
    let head = house.workspace.head().await.unwrap();
    assert_eq!(house.workspace.to_forget(&filter).await.unwrap(), [one]);
    assert_eq!(house.workspace.head().await.unwrap(), head);
}

#[tokio::test]
async fn forget_is_refused_for_tools_and_idempotent_for_people_m7_6_50() {
    let house = House::new();
    let entry = house.say(WORDS).await;
    let tool = Actor::new(Role::Tool, "grep");
    let refused = house.workspace.forget(&tool, &with_text("mill"), "").await.unwrap_err();
    assert_eq!(refused.code(), "role_denied", "{refused}");
    assert_eq!(house.get(&entry).await.fields.body, WORDS);
    let forgotten = house.workspace.forget(&human(), &with_text("mill"), "").await.unwrap();
    assert_eq!(forgotten.entries.len(), 1);
    let gone = house.get(&entry).await;
    assert_eq!(
        (gone.fields.body.as_str(), gone.fields.erased),
        ("", Some(ErasedFor::Forgotten))
    );
    let again = house.workspace.forget(&human(), &with_text("mill"), "").await.unwrap();
    assert!(again.entries.is_empty());
    assert_eq!(house.get(&entry).await, gone);
}

#[tokio::test]
async fn replayed_write_returns_the_forgotten_entry_without_its_text_m7_6_50() {
    let house = House::new();
    let input = || serde_json::from_value(json!({ "content": WORDS })).unwrap();
    let jane = human();
    let add = || {
        house
            .workspace
            .add_observation(&jane, input(), Some("key-1".to_owned()))
    };
    let entry = add().await.unwrap().entry;
    house.workspace.forget(&human(), &with_text("mill"), "").await.unwrap();
    let again = add().await.unwrap();
    assert!(again.replayed);
    assert_eq!((again.entry.id, again.entry.fields.body.as_str()), (entry.id, ""));
    assert!(!house.holds(WORDS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forget_killed_midway_erases_whole_batches_or_nothing_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let mut house = House::at(&path, 1);
    for n in 0..300 {
        house.say(&format!("guest {n}: {WORDS}")).await;
    }
    let mut all_left = Vec::new();
    for round in 0..4 {
        let mut process = Process::start("forget::child_forgets", &path, round + 2);
        // It is ready; later ones have forgotten a batch as well. They are killed some time after the beginning of the
        // next one.
        for _ in 0..=round.min(1) {
            assert!(process.next_line().is_some());
        }
        std::thread::park_timeout(Duration::from_millis(u64::from(round) * 7));
        process.kill();
        house.assert_sound().await;
        let left = house.workspace.to_forget(&with_text("mill")).await.unwrap().len();
        assert_eq!(left % 50, 0, "a batch is there or is not");
        all_left.push(left);
        if left == 0 {
            break;
        }
    }
    assert!(
        all_left.iter().any(|left| (1..300).contains(left)),
        "it was never killed midway: {all_left:?}"
    );
    let residue = house
        .workspace
        .forget(&human(), &with_text("mill"), "again")
        .await
        .unwrap()
        .residue;
    assert_eq!(residue.found, Vec::<String>::new());
    house.folder = Some(folder);
    assert!(!house.holds(WORDS));
    house.assert_sound().await;
}

#[tokio::test]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_forgets() {
    let Some(orders) = orders() else { return };
    let house = House::at(&orders.path, orders.number);
    say("ready");
    let entries = house.workspace.to_forget(&with_text("mill")).await.unwrap();
    for batch in entries.chunks(50) {
        let filter = ForgetFilter {
            entries: batch.iter().map(|entry| Ref::Id(entry.id)).collect(),
            ..ForgetFilter::default()
        };
        house.workspace.forget(&human(), &filter, "a batch").await.unwrap();
        say("forgot a batch");
    }
}

/// The space of `house` on a store with injected faults.
fn interrupted(house: &House) -> (Workspace, Arc<FaultyStore>) {
    let store = Arc::new(FaultyStore::new(Arc::clone(house.workspace.store())));
    let (clock, ids) = (Arc::new(house.clock.clone()), Arc::clone(house.workspace.ids()));
    let workspace = Workspace::new(Arc::clone(&store) as _, clock, ids, SpaceName::main());
    (workspace, store)
}

/// A house in which an entry contains [`WORDS`], which are also in a note and in the index.
async fn said_everywhere() -> (House, ForgetFilter) {
    let house = House::new();
    let entry = house.say(WORDS).await;
    let note = house.workspace.noted("scratch_page", "search");
    house.workspace.note(note.with_detail(json!({ "text": WORDS })));
    house.workspace.flush_trace().await.unwrap();
    let found = EntryQuery {
        text: Some("wedding".to_owned()),
        ..EntryQuery::default()
    };
    assert_eq!(house.total(found).await, 1);
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    (house, filter)
}

#[tokio::test]
async fn forget_interrupted_after_erasing_entries_completes_on_retry_m7_6_50() {
    for key in [None, Some("key-1".to_owned())] {
        let (house, filter) = said_everywhere().await;
        let (workspace, store) = interrupted(&house);
        let by_name = house.workspace.entry(filter.entries[0]).await.unwrap();
        // The entry is gone, and then the store is.
        let gate = store.hold(Work::Scrub);
        let forgetting = tokio::spawn({
            let (workspace, filter, key) = (workspace.clone(), filter.clone(), key.clone());
            async move { workspace.forget_under(&human(), &filter, "asked", key).await }
        });
        gate.wait_until_reached().await;
        store.fail_next(Fault::Gone);
        let saying = serde_json::from_value(json!({"content": "something else"})).unwrap();
        workspace.add_observation(&human(), saying, None).await.unwrap_err();
        gate.open();
        forgetting.await.unwrap().unwrap_err();
        store.heal();

        assert_eq!(house.get(&by_name).await.fields.erased, Some(ErasedFor::Forgotten));
        let notes = house.workspace.trace(TraceQuery::default()).await.unwrap();
        assert!(
            !format!("{notes:?}").contains(WORDS),
            "nobody would know what to take out: {notes:?}"
        );
        assert_eq!(workspace.to_forget(&filter).await.unwrap(), []);
        assert_eq!(workspace.forgotten_before(&filter).await.unwrap(), 1);
        let has_key = key.is_some();
        let forgotten = workspace.forget_under(&human(), &filter, "asked", key).await.unwrap();
        assert_eq!(forgotten.replayed, has_key);
        let residue = forgotten.residue;
        assert_eq!((residue.no_longer_known, residue.found), (1, Vec::new()));
        for word in [WORDS, "wedding", "june"] {
            assert!(!house.holds(word), "{word}");
        }
        house.assert_sound().await;
    }
}

#[tokio::test]
async fn abandoned_forget_request_runs_to_completion_m7_6_50() {
    let (house, filter) = said_everywhere().await;
    let (workspace, store) = interrupted(&house);
    let gate = store.hold(Work::Scrub);
    let jane = human();
    tokio::select! {
        ended = workspace.forget(&jane, &filter, "asked") => panic!("{ended:?}"),
        () = gate.wait_until_reached() => {}
    }
    gate.open();
    let mut tries = 0;
    while house.holds("wedding") {
        tries += 1;
        assert!(tries < 2_000, "it is not done to its end");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn forgotten_entries_match_again_by_id_or_as_sole_matches_m7_6_50() {
    let house = House::new();
    let (first, other) = (house.say("by the mill").await, house.say("by the sea").await);
    let named = ForgetFilter {
        entries: vec![Ref::Id(first.id), Ref::Id(other.id)],
        ..ForgetFilter::default()
    };
    let all = ForgetFilter::everything();
    let before = async |filter: &ForgetFilter| house.workspace.forgotten_before(filter).await.unwrap();
    assert_eq!((before(&named).await, before(&all).await), (0, 0));
    house.workspace.forget(&human(), &with_text("mill"), "").await.unwrap();
    assert_eq!((before(&named).await, before(&all).await), (1, 0));
    let forgotten = house.workspace.forget(&human(), &named, "").await.unwrap();
    assert_eq!((forgotten.entries.len(), forgotten.residue.no_longer_known), (1, 1));
    assert_eq!((before(&named).await, before(&all).await), (2, 2));
    assert_eq!(before(&with_text("mill")).await, 0);
}

#[tokio::test]
async fn filter_that_names_nothing_is_refused_unless_it_says_everything_m7_6_50() {
    let house = House::new();
    house.say("by the mill").await;
    house.say("by the sea").await;
    let of = |query: EntryQuery| ForgetFilter {
        query,
        ..ForgetFilter::default()
    };
    // A list that happens to be empty; a search without words; what orders a list, or means entries in any state.
    let nothing = [
        ForgetFilter::default(),
        of(EntryQuery {
            text: Some("  ".to_owned()),
            ..EntryQuery::default()
        }),
        of(EntryQuery {
            limit: 1,
            order: Order::Oldest,
            include_expired: true,
            status: vec![Status::Archived],
            ..EntryQuery::default()
        }),
    ];
    let contradictory = ForgetFilter {
        everything: true,
        ..with_text("mill")
    };
    let workspace = &house.workspace;
    for filter in nothing.iter().chain([&contradictory]) {
        let refusals = [
            workspace.to_forget(filter).await.unwrap_err(),
            workspace.turns_to_forget(filter).await.unwrap_err(),
            workspace.runs_to_forget(filter).await.unwrap_err(),
            workspace.waiting_to_forget(filter).await.unwrap_err(),
            workspace.forget(&human(), filter, "").await.unwrap_err(),
        ];
        for refused in refusals {
            assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, "filter_invalid"));
        }
    }
    let everything = ForgetFilter::everything();
    assert_eq!(workspace.to_forget(&everything).await.unwrap().len(), 2);
    assert_eq!(
        workspace.forget(&human(), &everything, "").await.unwrap().entries.len(),
        2
    );
    assert!(!house.holds("by the"));
}

#[tokio::test]
async fn forget_under_an_idempotency_key_is_applied_once_m7_6_50() {
    let house = House::new();
    let (first, other) = (house.say("by the mill").await, house.say("by the sea").await);
    let named = |entry: &Entry| ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forget = async |key: &str, filter: &ForgetFilter, says: &[u8]| {
        let asked = house
            .workspace
            .asked_under(RequestKey::new(key.to_owned(), "k", &[says]));
        asked
            .forget_under(&human(), filter, "asked", Some(key.to_owned()))
            .await
    };
    for replayed in [false, true] {
        let forgotten = forget("a", &named(&first), b"first").await.unwrap();
        assert_eq!((forgotten.entries[0].id, forgotten.replayed), (first.id, replayed));
        assert_eq!(forgotten.entries.len(), 1);
    }
    let reused = forget("a", &named(&other), b"other").await.unwrap_err();
    assert_eq!(reused.code(), "key_reused");
    assert_eq!(house.get(&other).await.fields.body, "by the sea");
    // What came to be since then, nobody asked to be forgotten.
    let sea = with_text("by the sea");
    assert_eq!(forget("b", &sea, b"sea").await.unwrap().entries.len(), 1);
    let later = house.say("again by the sea").await;
    let forgotten = forget("b", &sea, b"sea").await.unwrap();
    assert_eq!((forgotten.entries[0].id, forgotten.entries.len()), (other.id, 1));
    assert_eq!(house.get(&later).await.fields.body, "again by the sea");
}

#[tokio::test]
async fn scrub_of_an_in_memory_store_finds_no_residue_m7_6_50() {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let residue = store.scrub(&SpaceName::main(), vec![WORDS.to_owned()]).await.unwrap();
    assert_eq!(
        residue.found,
        Vec::<String>::new(),
        "there is no file in which something could be left"
    );
}

#[tokio::test]
async fn forget_leaves_nothing_in_an_index_by_older_rules_m7_6_50() {
    let house = House::new();
    let entry = house.say("the password of the safe is zanzibar").await;
    house.say("something else").await;
    let found = EntryQuery {
        text: Some("else".to_owned()),
        ..EntryQuery::default()
    };
    assert_eq!(house.total(found.clone()).await, 1, "the index of words is there");
    assert!(house.holds("zanzibar"));
    let file = rusqlite::Connection::open(&house.path).unwrap();
    assert_eq!(
        file.execute("UPDATE text_index SET version = version - 1", []).unwrap(),
        1
    );
    drop(file);
    let filter = ForgetFilter {
        entries: vec![Ref::Id(entry.id)],
        ..ForgetFilter::default()
    };
    let forgotten = house
        .workspace
        .forget(&human(), &filter, "she asked for it")
        .await
        .unwrap();
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert!(!house.holds("zanzibar"));
    assert_eq!(house.total(found).await, 1);
    house.assert_sound().await;
}
