//! A trace that cannot be written does not get in the way.

use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::{
    Actor, Change, EntryQuery, NewPage, Owner, PageFields, PageId, PageRole, Role, Seq, SpaceName, ThreadKey, Timestamp,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{TraceEntry, TracePart, TraceQuery, TurnInput};
use folio_store::{Commit, ErrorKind, Record, Store, Workspace};
use folio_testkit::{FaultyStore, SeededIds, SimClock};
use futures_util::FutureExt as _;
use futures_util::future::join_all;

fn house() -> (Workspace, Arc<FaultyStore>) {
    let (space, store, _) = house_with_clock();
    (space, store)
}

fn house_with_clock() -> (Workspace, Arc<FaultyStore>, SimClock) {
    let clock = SimClock::default();
    let inner = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let store = Arc::new(FaultyStore::new(inner));
    let space = Workspace::new(
        Arc::clone(&store) as Arc<dyn Store>,
        Arc::new(clock.clone()),
        Arc::new(SeededIds::default()),
        SpaceName::main(),
    );
    (space, store, clock)
}

fn saying(content: &str) -> ObservationInput {
    ObservationInput {
        content: content.to_owned(),
        ..ObservationInput::default()
    }
}

#[tokio::test]
async fn trace_write_failure_blocks_no_work_and_is_reported_once_m7_10() {
    let (space, store) = house();
    store.fail_notes();
    let tool = Actor::new(Role::Tool, "wine_search");
    space
        .add_observation(&tool, saying("likes Burgundy"), None)
        .await
        .unwrap();
    assert_eq!(space.observations(EntryQuery::default()).await.unwrap().returned, 1);
    assert!(space.flush_trace().await.is_err(), "the first time it is said");
    space.observations(EntryQuery::default()).await.unwrap();
    assert!(space.flush_trace().await.is_ok(), "it was said before");
    assert_eq!((space.notes_state().waiting, space.notes_state().failures), (2, 2));
    let lines = space.trace(TraceQuery::default()).await.unwrap();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.is_logged),
        "what the log has is told"
    );

    store.heal();
    let lines = space.trace(TraceQuery::default()).await.unwrap();
    assert_eq!(
        lines.iter().filter(|line| !line.is_logged).count(),
        2,
        "nothing was lost"
    );
}

/// The clock only moves when everybody waits: for the notes, which are never written.
#[tokio::test(start_paused = true)]
async fn readers_wait_only_briefly_for_notes_that_cannot_be_written_m7_10() {
    let (space, store) = house();
    let tool = Actor::new(Role::Tool, "wine_search");
    space
        .add_observation(&tool, saying("likes Burgundy"), None)
        .await
        .unwrap();
    space.flush_trace().await.unwrap();
    store.stall_notes();
    space.observations(EntryQuery::default()).await.unwrap();
    let lines = space.trace(TraceQuery::default()).await.unwrap();
    assert!(lines.iter().any(|line| line.is_logged), "what the log has is told");
}

#[tokio::test]
async fn trace_of_a_long_log_reads_only_needed_rows_m7_10() {
    let (space, store) = house();
    let tool = Actor::new(Role::Tool, "wine_search");
    for n in 0..600 {
        let said = saying(&format!("vintage {n}"));
        space.add_observation(&tool, said, None).await.unwrap();
    }
    let asked = |since: Option<u64>, component: &str| TraceQuery {
        component: Some(component.to_owned()),
        since: since.map(Seq),
        limit: 3,
        ..TraceQuery::default()
    };
    let numbers = |lines: &[TraceEntry]| lines.iter().map(|line| line.seq.0).collect::<Vec<_>>();
    let before = store.rows_read();
    let lines = space.trace(asked(None, "scratch_page")).await.unwrap();
    assert_eq!(numbers(&lines), [598, 599, 600]);
    assert!(store.rows_read() - before <= 16, "the end is near");
    let before = store.rows_read();
    let lines = space.trace(asked(Some(400), "scratch_page")).await.unwrap();
    assert_eq!(numbers(&lines), [401, 402, 403]);
    assert!(store.rows_read() - before <= 16, "so is what follows");
    // Where nothing is wanted, each commit is looked at once.
    let before = store.rows_read();
    assert!(space.trace(asked(None, "nothing")).await.unwrap().is_empty());
    assert_eq!(store.rows_read() - before, 600);
    assert!(space.trace(asked(Some(100), "nothing")).await.unwrap().is_empty());
    assert_eq!(store.rows_read() - before, 1_100);
}

/// Adds `count` pages, each in a commit of its own.
async fn commit_pages(store: &FaultyStore, name: &str, count: u64) {
    let commits = (0..count).map(|number| {
        store.commit(Commit {
            space: SpaceName::main(),
            at: Timestamp::default(),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: None,
            expected: Vec::new(),
            record: Record::of(vec![Change::EnsurePage(Box::new(NewPage {
                id: PageId::derived(&[name, &number.to_string()]),
                fields: PageFields::new(PageRole::Note, "A page", Owner::agent()),
            }))]),
            blobs: Vec::new(),
        })
    });
    for committed in join_all(commits).await {
        committed.unwrap();
    }
}

#[tokio::test]
async fn trace_of_an_ended_turn_is_not_looked_for_up_to_the_head_m7_10() {
    let (space, store) = house();
    let ada = Actor::new(Role::Human, "ada");
    let input = TurnInput::of(ThreadKey::main(), "hello");
    let begun = space.begin_turn(&ada, input).await.unwrap();
    let turn = begun.turn.begun.id;
    let tool = Actor::new(Role::Tool, "wine_search").in_turn(turn);
    space.add_observation(&tool, saying("meanwhile"), None).await.unwrap();
    space.end_turn(&ada, Ref::Id(turn)).await.unwrap();
    space.add_observation(&tool, saying("late"), None).await.unwrap();
    commit_pages(&store, "a", 2 * TracePart::COMMITS_AFTER_END).await;
    for since in [None, Some(Seq(0))] {
        let query = TraceQuery {
            turn: Some(turn),
            since,
            ..TraceQuery::default()
        };
        let before = store.rows_read();
        let part = space.trace_part(query).await.unwrap();
        let logged: Vec<_> = part.lines.iter().filter(|line| line.is_logged).collect();
        let added = logged.iter().filter(|line| line.operation == "add_observation").count();
        assert_eq!((added, part.next), (2, None), "what came late, too");
        assert!(logged.iter().any(|line| line.operation == "end_turn"), "{logged:#?}");
        assert!(((store.rows_read() - before) as u64) < TracePart::COMMITS_AFTER_END + 100);
    }
}

#[tokio::test]
async fn trace_of_an_ended_turn_says_how_far_it_was_searched_and_goes_on_from_there_m7_10() {
    let (space, store) = house();
    let ada = Actor::new(Role::Human, "ada");
    let input = TurnInput::of(ThreadKey::main(), "hello");
    let turn = space.begin_turn(&ada, input).await.unwrap().turn.begun.id;
    let ended = space.end_turn(&ada, Ref::Id(turn)).await.unwrap();
    let end = ended.turn.ended.unwrap().seq;
    let traced = async |since| {
        let query = TraceQuery {
            turn: Some(turn),
            since,
            component: Some("scratch_page".to_owned()),
            ..TraceQuery::default()
        };
        let part = space.trace_part(query).await.unwrap();
        (part.lines.len(), part.next, part.as_of)
    };
    assert_eq!(traced(None).await, (0, None, space.head().await.unwrap()));
    // As by a run that was submitted in the turn and goes on.
    commit_pages(&store, "a", TracePart::COMMITS_AFTER_END + 10).await;
    let tool = Actor::new(Role::Tool, "wine_search").in_turn(turn);
    space.add_observation(&tool, saying("late"), None).await.unwrap();
    let searched = Seq(end.0 + TracePart::COMMITS_AFTER_END);
    for since in [None, Some(Seq(0)), Some(end)] {
        assert_eq!(traced(since).await, (0, None, searched), "{since:?}");
    }
    assert_eq!(traced(Some(searched)).await, (1, None, space.head().await.unwrap()));
}

#[tokio::test]
async fn one_part_of_the_trace_reads_a_bounded_number_of_commits_m7_10() {
    let (space, store) = house();
    let tool = Actor::new(Role::Tool, "wine_search");
    space.add_observation(&tool, saying("first"), None).await.unwrap();
    commit_pages(&store, "a", TracePart::COMMITS_MAX + 1_000).await;
    space.add_observation(&tool, saying("middle"), None).await.unwrap();
    commit_pages(&store, "b", TracePart::COMMITS_MAX + 1_000).await;
    // A note that is in no commit, between those that are read for the first and for the second part.
    space.observations(EntryQuery::default()).await.unwrap();
    space.add_observation(&tool, saying("last"), None).await.unwrap();
    for since in [None, Some(Seq(0))] {
        let mut query = TraceQuery {
            component: Some("scratch_page".to_owned()),
            since,
            ..TraceQuery::default()
        };
        let (mut parts, mut seen) = (0, Vec::new());
        loop {
            let before = store.rows_read();
            let part = space.trace_part(query.clone()).await.unwrap();
            assert!(((store.rows_read() - before) as u64) < TracePart::COMMITS_MAX + 400);
            parts += 1;
            let lines = part.lines.iter().map(|line| (line.seq.0, line.operation.clone()));
            match since {
                Some(_) => seen.extend(lines),
                None => drop(seen.splice(0..0, lines)),
            }
            query.cursor = part.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let (added, listed) = ("add_observation".to_owned(), "list_observations".to_owned());
        let head = 2 * TracePart::COMMITS_MAX + 2_003;
        let middle = TracePart::COMMITS_MAX + 1_002;
        let wanted = [
            (1, added.clone()),
            (middle, added.clone()),
            (head - 1, listed),
            (head, added),
        ];
        assert_eq!((parts, seen), (3, wanted.to_vec()), "{since:?}");
    }
}

#[tokio::test]
async fn trace_cursor_has_no_gaps_or_duplicates_during_writes_m7_10() {
    let (space, _, clock) = house_with_clock();
    let tool = Actor::new(Role::Tool, "wine_search");
    for n in 0..7 {
        clock.advance(Duration::from_millis(1));
        space
            .add_observation(&tool, saying(&format!("vintage {n}")), None)
            .await
            .unwrap();
        // Two notes at one instant, which have the same place but for their order.
        space.note(space.noted("router", &format!("route_{n}")));
        space.note(space.noted("router", &format!("again_{n}")));
    }
    let told = |lines: &[TraceEntry]| -> Vec<String> {
        let words = lines.iter().map(|line| format!("{} {}", line.seq, line.operation));
        words.collect()
    };
    for since in [None, Some(Seq(0))] {
        let asked = |limit, cursor| TraceQuery {
            since,
            limit,
            cursor,
            ..TraceQuery::default()
        };
        let all = told(&space.trace(asked(1_000, None)).await.unwrap());
        assert!(all.len() >= 21, "{all:?}");
        for limit in [1, 2, 3, 5] {
            let (mut read, mut cursor) = (Vec::new(), None);
            loop {
                let part = space.trace_part(asked(limit, cursor.take())).await.unwrap();
                let part_told = told(&part.lines);
                assert!(part_told.len() <= limit);
                read = match since {
                    None => [part_told, read].concat(),
                    Some(_) => [read, part_told].concat(),
                };
                // Backwards, what comes meanwhile is not told.
                if since.is_none() {
                    clock.advance(Duration::from_millis(1));
                    space.note(space.noted("router", "later"));
                }
                let Some(next) = part.next else { break };
                cursor = Some(next);
            }
            let later = |word: &String| word.ends_with("later");
            read.retain(|word| !later(word));
            let all: Vec<_> = all.iter().filter(|word| !later(word)).cloned().collect();
            assert_eq!(read, all, "{limit} at a time, {since:?}");
        }
    }
    let part = space
        .trace_part(TraceQuery {
            limit: 2,
            ..TraceQuery::default()
        })
        .await
        .unwrap();
    for (cursor, component) in [(part.next.clone(), Some("router")), (Some("x".to_owned()), None)] {
        let other = TraceQuery {
            component: component.map(str::to_owned),
            cursor,
            ..TraceQuery::default()
        };
        let refused = space.trace_part(other).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn unwritable_notes_beyond_the_limit_are_dropped_and_counted() {
    let (space, store) = house();
    store.fail_notes();
    for _ in 0..8_200 {
        space.note(space.noted("router", "route"));
    }
    assert_eq!((space.notes_state().waiting, space.notes_state().dropped), (8_192, 8));
    store.heal();
    let first = TraceQuery {
        component: Some("trace".to_owned()),
        ..TraceQuery::default()
    };
    let lines = space.trace(first).await.unwrap();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].operation, "drop_notes");
    assert_eq!(lines[0].detail, Some(serde_json::json!({"count": 8})));
}

#[tokio::test]
async fn abandoned_trace_flush_still_writes_its_notes_m7_10() {
    let (space, _) = house();
    space.observations(EntryQuery::default()).await.unwrap();
    assert_eq!(space.notes_state().waiting, 1);
    assert!(space.flush_trace().now_or_never().is_none(), "it waits for the store");
    let lines = space.trace(TraceQuery::default()).await.unwrap();
    assert_eq!(lines.iter().filter(|line| !line.is_logged).count(), 1);
}

#[tokio::test]
async fn dropping_the_last_workspace_clone_flushes_its_notes() {
    let (space, store) = house();
    space.note(space.noted("router", "route"));
    drop(space);
    tokio::task::yield_now().await;
    let all = folio_memory::NoteQuery {
        limit: 10,
        ..folio_memory::NoteQuery::default()
    };
    for _ in 0..1_000 {
        if !store.notes(&SpaceName::main(), &all).await.unwrap().is_empty() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it is not there");
}

#[tokio::test]
async fn unreadable_policy_deletes_no_notes_m7_10() {
    let (space, store, clock) = house_with_clock();
    let policy = serde_json::from_value(serde_json::json!({"trace": {"keep_minutes": null}})).unwrap();
    let person = Actor::new(Role::Human, "ada");
    space.set_policy(&person, policy, None, None).await.unwrap();
    space.note(space.noted("memory", "list_entries"));
    space.flush_trace().await.unwrap();
    clock.advance(Duration::from_secs(40 * 24 * 3_600));
    store.fail_policies();
    space.note(space.noted("memory", "list_entries"));
    space.flush_trace().await.unwrap();
    store.heal();
    let lines = space.trace(TraceQuery::default()).await.unwrap();
    assert_eq!(lines.iter().filter(|line| !line.is_logged).count(), 2);
}
