//! A space that shares its file with another gives the same answers as alone (M7.6.51): not only is nothing of the
//! other revealed, it does not change any answer either, such as how well a text matches or how often something came
//! true.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use folio_memory::goals::GoalInput;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::tokens::Estimate;
use folio_memory::tool_exchange::ToolResponse;
use folio_memory::{Actor, Entry, EntryKind, EntryQuery, Order, Role, Seq, SpaceName, Status, ThreadKey, TurnId};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{ContextRequest, EpisodeQuery, Guard, IngestContext, TraceQuery, TurnInput, Write};
use folio_store::{Blob, ErrorKind, Store, Workspace};
use folio_testkit::{SeededIds, SimClock};
use serde_json::json;

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn space(store: &Arc<SqliteStore>, name: &str, ids: u16) -> Workspace {
    let (store, clock): (Arc<dyn Store>, _) = (Arc::clone(store) as _, Arc::new(SimClock::default()));
    let (ids, name) = (Arc::new(SeededIds::new(ids)), SpaceName::parse(name).unwrap());
    // Each has its own clock, so that what one does is no later because of the other.
    clock.advance(Duration::from_secs(1));
    Workspace::new(store, clock, ids, name)
}

async fn observe(space: &Workspace, word: &str, number: usize) -> Entry {
    let input: ObservationInput = serde_json::from_value(json!({
        "content": format!("{word} wine number {number} is out of stock"), "type": "insight", "tags": ["wine", word],
        "context": {"goal_id": "cellar"}, "confidence": 0.9,
    }))
    .unwrap();
    let key = Some(format!("key {number}"));
    space.add_observation(&person(), input, key).await.unwrap().entry
}

/// Fills a space with `count` observations with `word`, a goal, an answer of a tool, and a turn.
async fn fill_space(space: &Workspace, word: &str, count: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 0..count {
        let entry = observe(space, word, number).await;
        if number % 2 == 0 {
            let outcome = folio_memory::entry::Outcome::Confirmed;
            let (id, guard) = (Ref::Id(entry.id), Guard::default());
            space.resolve_as(&person(), id, outcome, guard).await.unwrap();
        }
        entries.push(entry);
    }
    let goal = GoalInput {
        title: format!("fill the cellar with {word}"),
        key: Some("cellar".to_owned()),
        ..GoalInput::default()
    };
    let main = ThreadKey::main();
    space
        .add_goal(&person(), &main, EntryKind::Goal, goal, None)
        .await
        .unwrap();
    let response: ToolResponse = serde_json::from_value(json!({
        "request_id": "req_1", "status": "ok", "outputs": {}, "observations": [{"content": format!("a {word} came in")}],
    }))
    .unwrap();
    let context = IngestContext {
        turn: Some(TurnId::derived(&["the same turn"])),
        ..IngestContext::default()
    };
    let taken = space
        .ingest(&Actor::new(Role::Tool, "cellar"), &response, &context)
        .await;
    assert_eq!((taken.stored.len(), taken.replayed), (1, 0), "{taken:?}");
    let blobs = vec![Blob::new(word.as_bytes().to_vec())];
    let write = Write {
        blobs,
        ..Write::default()
    };
    space.record(&person(), write).await.unwrap();
    let input = TurnInput {
        thread: main,
        input: format!("look after the {word} wine"),
        run: None,
        background: false,
    };
    let turn = space.begin_turn(&person(), input).await.unwrap().turn;
    space.end_turn(&person(), Ref::Id(turn.begun.id)).await.unwrap();
    entries
}

fn searches() -> Vec<EntryQuery> {
    let of = |text: &str, text_match, order| EntryQuery {
        text: Some(text.to_owned()),
        text_match,
        order,
        status: Status::ALL.to_vec(),
        limit: 3,
        ..EntryQuery::default()
    };
    use folio_memory::TextMatch::{All, Any};
    vec![
        of("wine", All, Order::Relevance),
        of("bordeaux wine stock", Any, Order::Relevance),
        of("zarquon wine", Any, Order::Relevance),
        of("zarquon", All, Order::Relevance),
        of("number", All, Order::Newest),
        EntryQuery {
            text: None,
            ..of("", All, Order::Priority)
        },
    ]
}

/// All answers of `space` to queries that name nothing of the other, as text. Durations are left out, and so are
/// cursors, which contain the position of the space in the file.
async fn answers(space: &Workspace, entries: &[Entry]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut say = |what: &str, answer: &dyn Debug| all.push((what.to_owned(), format!("{answer:#?}")));
    for query in searches() {
        let (mut query, mut page) = (query, 0);
        loop {
            let mut answer = space.entries(&query).await.unwrap();
            let next = answer.next.take();
            say(&format!("search {:?}, page {page}", query.text), &answer);
            page += 1;
            match next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
    }
    say("active", &space.active_observations(50).await.unwrap());
    say("found", &space.find_patterns(&person()).await.unwrap());
    say("patterns", &space.patterns(50).await.unwrap().items);
    say("goals", &space.goals(None, true).await.unwrap());
    say("calibration", &space.calibration().await.unwrap());
    say(
        "episodes",
        &space.episodes(&EpisodeQuery::default()).await.unwrap().found,
    );
    let request = ContextRequest {
        thread: ThreadKey::main(),
        turn: None,
        prompt: "bordeaux wine".to_owned(),
        budget: 1_000,
        sections: Vec::new(),
    };
    say("context", &space.assemble_context(request, &Estimate).await.unwrap());
    for entry in entries {
        let id = Ref::Id(entry.id);
        say(
            "entry by handle",
            &space.entry(Ref::Handle(entry.handle)).await.unwrap(),
        );
        say("history", &space.history(id).await.unwrap());
        say("why", &space.why(id, None).await.unwrap());
        let query = TraceQuery {
            entry: Some(id),
            limit: 1_000,
            ..TraceQuery::default()
        };
        let mut lines = space.trace(query).await.unwrap();
        lines.iter_mut().for_each(|line| line.duration_us = None);
        say("trace by entry", &lines);
    }
    for word in ["bordeaux", "zarquon"] {
        let hash = Blob::new(word.as_bytes().to_vec()).hash().clone();
        let found = space.blob(&hash).await.map_err(|error| error.kind());
        say(&format!("body of {word}"), &found);
    }
    say("changes", &space.changes(Seq(0), 1_000).await.unwrap());
    all
}

#[tokio::test]
async fn answers_of_a_space_ignore_others_in_the_store_m7_6_51() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| SqliteStore::open(&OpenOptions::at(folder.path().join(name))).unwrap();
    let (shared, lone) = (open("shared.db"), open("lone.db"));
    let theirs = space(&shared, "theirs", 7);
    fill_space(&theirs, "zarquon", 25).await;
    let (beside, alone) = (space(&shared, "ours", 1), space(&lone, "ours", 1));
    let (ours, as_alone) = (
        fill_space(&beside, "bordeaux", 7).await,
        fill_space(&alone, "bordeaux", 7).await,
    );
    assert_eq!(ours, as_alone);
    // And again after they have gone on.
    add_ten_observations(&theirs).await;
    let (said, wanted) = (answers(&beside, &ours).await, answers(&alone, &as_alone).await);
    assert_eq!(said.len(), wanted.len());
    for ((what, said), (_, wanted)) in said.iter().zip(&wanted) {
        assert_eq!(said, wanted, "{what}");
    }
    let scored = said.iter().filter(|(what, _)| what.contains("wine"));
    assert!(scored.clone().count() > 2 && scored.clone().all(|(_, said)| said.contains("scores")));
    assert!(
        said.iter()
            .any(|(what, said)| what == "body of zarquon" && said.contains("NotFound"))
    );
}

async fn add_ten_observations(space: &Workspace) {
    for number in 100..110 {
        observe(space, "bordeaux", number).await;
    }
}

#[tokio::test]
async fn cursor_of_another_space_is_refused_m7_6_51() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
    let (theirs, ours) = (space(&store, "theirs", 7), space(&store, "ours", 1));
    fill_space(&theirs, "zarquon", 9).await;
    fill_space(&ours, "bordeaux", 9).await;
    let mut tried = 0;
    for query in searches() {
        let Some(cursor) = theirs.entries(&query).await.unwrap().next else {
            continue;
        };
        let query = EntryQuery {
            cursor: Some(cursor),
            ..query
        };
        let refused = ours.entries(&query).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{query:?}");
        tried += 1;
    }
    assert!(tried >= 4, "{tried} cursors");
}
