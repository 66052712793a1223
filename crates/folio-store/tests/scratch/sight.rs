//! What each role may read (M7.7, the first column), through the workspace.

use std::sync::Arc;

use folio_engine::Event;
use folio_memory::context::Section;
use folio_memory::goals::GoalInput;
use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::scratchbook::ItemInput;
use folio_memory::tokens::Estimate;
use folio_memory::turn::{Decision, NewTurn, Stage, Used};
use folio_memory::{
    Actor, Change, Entry, EntryKind, EntryQuery, NewPage, Owner, PageFields, PageId, PageQuery, PageRole, Role, RunId,
    Seq, SpaceName, SpacePolicy, ThreadKey, Turn, TurnId, TurnQuery,
};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{
    BookFilter, ContextRequest, EpisodeQuery, Guard, IngestContext, PageInput, TraceQuery, Write,
};
use folio_store::{BlobHash, RunAppend, Workspace, WorkspaceError};
use folio_testkit::{SeededIds, SimClock};
use serde_json::{Value, json};

/// A space with something for every role: observations for the agent and for the user, the pages of two runs, and the
/// scratchbooks of two threads.
struct House {
    space: Workspace,
    asks_agent: Entry,
    asks_user: Entry,
    of_run: Entry,
    of_other_run: Entry,
    in_book: Entry,
    in_other_book: Entry,
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn run(name: &str) -> RunId {
    RunId::derived(&[name])
}

fn thread(name: &str) -> ThreadKey {
    ThreadKey(name.to_owned())
}

async fn house() -> House {
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let (clock, ids) = (Arc::new(SimClock::default()), Arc::new(SeededIds::default()));
    let space = Workspace::new(store, clock, ids, SpaceName::main());
    let policy: SpacePolicy =
        serde_json::from_value(json!({"manifests": {"scan": {"reads": {"types": ["risk_alert"]}}}})).unwrap();
    space.set_policy(&person(), policy, None, None).await.unwrap();
    let observe = async |input: Value| {
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        space.add_observation(&person(), input, None).await.unwrap().entry
    };
    let asks_agent = observe(json!({"content": "for the agent", "type": "risk_alert"})).await;
    let asks_user = observe(json!({"content": "for the user", "owner": "user"})).await;
    let on_page_of = async |name: &str| {
        let mut fields = PageFields::new(PageRole::ScratchpadExec, name, Owner::executor());
        fields.run = Some(run(name));
        let id = PageId::derived(&[name]);
        let page = Change::EnsurePage(Box::new(NewPage { id, fields }));
        space.record(&person(), Write::of(vec![page])).await.unwrap();
        let written = space
            .append(&person(), Ref::Id(id), "", format!("of {name}"), &[], None)
            .await;
        written.unwrap().entry
    };
    let (of_run, of_other_run) = (on_page_of("run").await, on_page_of("other").await);
    let note = async |name: &str| {
        let input: ItemInput = serde_json::from_value(json!({"kind": "note", "body": name})).unwrap();
        space
            .add_item(&person(), &thread(name), input, None)
            .await
            .unwrap()
            .entry
    };
    let (in_book, in_other_book) = (note("own").await, note("another").await);
    House {
        asks_agent,
        asks_user,
        of_run,
        of_other_run,
        in_book,
        in_other_book,
        space,
    }
}

impl House {
    /// The space as `role` sees it, in the run `run` and the thread `own`.
    fn seen_by(&self, role: Role) -> Workspace {
        let actor = Actor::new(role, "scan").in_run(run("run"));
        self.space.asked_by(&actor).in_thread(&thread("own"))
    }

    /// Every entry with its name here.
    fn all(&self) -> [(&'static str, &Entry); 6] {
        [
            ("agent", &self.asks_agent),
            ("user", &self.asks_user),
            ("run", &self.of_run),
            ("other run", &self.of_other_run),
            ("book", &self.in_book),
            ("other book", &self.in_other_book),
        ]
    }

    fn name_of(&self, entry: &Entry) -> &'static str {
        self.all()
            .into_iter()
            .find(|(_, known)| known.id == entry.id)
            .unwrap()
            .0
    }
}

/// What each role may read of the six, as the table says.
fn readable(role: Role) -> &'static [&'static str] {
    match role {
        Role::Tool => &["agent"],
        Role::Executor | Role::Planner => &["agent", "run"],
        Role::Compactor => &["book"],
        _ => &["agent", "user", "run", "other run", "book", "other book"],
    }
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, WorkspaceError>) -> bool {
    match answer {
        Ok(_) => false,
        Err(WorkspaceError::Refused(_)) => true,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn each_role_reads_only_its_permitted_entries_by_id_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        for (name, entry) in house.all() {
            let wanted = !readable(role).contains(&name);
            let id = Ref::Id(entry.id);
            assert_eq!(is_refused(space.entry(id).await), wanted, "{role} {name}");
            assert_eq!(is_refused(space.history(id).await), wanted, "{role} history of {name}");
            assert_eq!(
                is_refused(space.versions(id).await),
                wanted,
                "{role} versions of {name}"
            );
            let links = space.links(&entry.id.to_string()).await;
            assert_eq!(is_refused(links), wanted, "{role} links of {name}");
        }
    }
}

#[tokio::test]
async fn changes_to_unreadable_entries_are_refused_and_traced_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let actor = Actor::new(role, "scan").in_run(run("run"));
        for (name, entry) in house.all() {
            if readable(role).contains(&name) {
                continue;
            }
            let id = Ref::Id(entry.id);
            // Nothing would change by most of these.
            for (what, answer) in [
                ("unpin", space.unpin_item(&actor, id).await),
                ("reopen", space.reopen(&actor, id, Guard::default()).await),
                ("confirm", space.confirm(&actor, id, Guard::default()).await),
                ("complete", space.complete(&actor, id, Guard::default()).await),
                ("archive", space.archive(&actor, id, None).await),
            ] {
                assert!(is_refused(answer), "{role} {what} {name}");
            }
            let goal = GoalInput {
                title: "g".to_owned(),
                ..GoalInput::default()
            };
            let goal = space
                .add_goal(&actor, &thread("own"), EntryKind::Goal, goal, Some(id))
                .await;
            assert!(is_refused(goal), "{role} goal from {name}");
            // Who tried is found by what they tried to read.
            let query = TraceQuery {
                entry: Some(id),
                ..TraceQuery::default()
            };
            let tried = house.space.trace(query).await.unwrap();
            let denied = tried.iter().filter(|line| line.status == "denied");
            assert!(denied.count() >= 6, "{role} {name}: {tried:?}");
        }
    }
}

#[tokio::test]
async fn lists_return_and_count_only_entries_the_role_may_read_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        for limit in [1, 2, 100] {
            let mut query = EntryQuery {
                limit,
                ..EntryQuery::default()
            };
            let mut found = Vec::new();
            loop {
                let answer = space.entries(&query).await.unwrap();
                assert_eq!(answer.total, readable(role).len() as u64, "{role}");
                assert_eq!(answer.returned, answer.items.len());
                found.extend(answer.items.iter().map(|entry| house.name_of(entry)));
                match answer.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            found.sort_unstable();
            let mut wanted = readable(role).to_vec();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{role}, {limit} at a time");
        }
        let active = space.active_observations(10).await.unwrap();
        let names: Vec<_> = active.items.iter().map(|entry| house.name_of(entry)).collect();
        assert!(
            names.iter().all(|name| readable(role).contains(name)),
            "{role} {names:?}"
        );
        let words = EntryQuery {
            text: Some("agent user".to_owned()),
            text_match: folio_memory::TextMatch::Any,
            ..EntryQuery::default()
        };
        let found = space.entries(&words).await.unwrap();
        assert_eq!(
            (found.scores.len(), found.total),
            (found.items.len(), found.items.len() as u64)
        );
        assert!(
            found
                .items
                .iter()
                .all(|entry| readable(role).contains(&house.name_of(entry)))
        );
    }
}

#[tokio::test]
async fn later_pages_of_a_restricted_role_count_what_the_first_one_counted_m7_2_15() {
    let house = house().await;
    let text = Some("agent user".to_owned());
    let by_words = EntryQuery {
        text,
        text_match: folio_memory::TextMatch::Any,
        ..EntryQuery::default()
    };
    let add = async || {
        let input: ObservationInput = serde_json::from_value(json!({"content": "one more for the agent"})).unwrap();
        house.space.add_observation(&person(), input, None).await.unwrap();
    };
    add().await;
    let space = house.seen_by(Role::Executor);
    for query in [EntryQuery::default(), by_words] {
        let mut query = EntryQuery { limit: 1, ..query };
        let first = space.entries(&query).await.unwrap();
        add().await;
        query.cursor.clone_from(&first.next);
        assert!(query.cursor.is_some(), "{first:?}");
        let second = space.entries(&query).await.unwrap();
        assert_eq!(second.total, first.total);
        let again = EntryQuery { cursor: None, ..query };
        assert_eq!(space.entries(&again).await.unwrap().total, first.total + 1);
    }
}

#[tokio::test]
async fn each_role_sees_only_its_permitted_pages_and_scratchbooks_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let all = matches!(readable(role).len(), 6);
        let own_run = matches!(role, Role::Executor | Role::Planner);
        let pages = [
            (house.of_run.page, all || own_run),
            (house.of_other_run.page, all),
            (house.in_book.page, all || role == Role::Compactor),
            (house.in_other_book.page, all),
        ];
        for (page, wanted) in pages {
            let id = Ref::Id(page);
            assert_eq!(is_refused(space.page(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.page_entries(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.page_markdown(id).await), !wanted, "{role}");
            assert_eq!(is_refused(space.tail(id, 1).await), !wanted, "{role}");
            let listed = space.pages(&PageQuery::default()).await.unwrap();
            assert_eq!(listed.iter().any(|listed| listed.id == page), wanted, "{role}");
            let tree = space.tree(None).await.unwrap();
            assert_eq!(tree.iter().any(|node| node.page.id == page), wanted, "{role}");
        }
        for (name, wanted) in [("own", all || role == Role::Compactor), ("another", all)] {
            let items = space.book_items(&thread(name), BookFilter::default()).await.unwrap();
            assert_eq!(items.total, u64::from(wanted), "{role} {name}");
        }
    }
}

#[tokio::test]
async fn page_listing_and_count_skip_pages_hidden_from_the_role_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let all = space.pages(&PageQuery::default()).await.unwrap();
        for newest_first in [false, true] {
            let mut query = PageQuery {
                limit: 1,
                newest_first,
                ..PageQuery::default()
            };
            let mut given = Vec::new();
            while let [page] = &space.pages(&query).await.unwrap()[..] {
                query.after = Some(page.handle.0);
                given.push(page.clone());
            }
            given.sort_by_key(|page| page.handle);
            assert_eq!(given, all, "{role}");
        }
        let counted = space.page_count(&PageQuery::default()).await.unwrap();
        assert_eq!(counted, all.len() as u64, "{role}");
        let of_other = PageQuery {
            run: Some(run("other")),
            ..PageQuery::default()
        };
        let of_other = space.page_count(&of_other).await.unwrap();
        assert_eq!(of_other, u64::from(readable(role).len() == 6), "{role}");
    }
}

#[tokio::test]
async fn replayed_page_creation_returns_the_page_only_to_its_creator_m7_7() {
    let house = house().await;
    let planner = Actor::new(Role::Planner, "scan").in_run(run("run"));
    let space = house.space.asked_by(&planner);
    let input = |title: &str| PageInput {
        title: title.to_owned(),
        ..PageInput::default()
    };
    let key = || Some("once".to_owned());
    let first = space.new_page_under(&planner, input("Apart"), key()).await.unwrap();
    let added = first.page;
    assert_eq!(added, house.space.page(Ref::Id(added.id)).await.unwrap());
    let again = space.new_page_under(&planner, input("Apart"), key()).await.unwrap();
    assert_eq!((&again.page, again.replayed, first.replayed), (&added, true, false));
    assert!(is_refused(space.page(Ref::Id(added.id)).await), "it is of no run");
    // Under the key of somebody else it is not.
    let key = || Some("theirs".to_owned());
    house
        .space
        .new_page_under(&person(), input("Theirs"), key())
        .await
        .unwrap();
    assert!(is_refused(space.new_page_under(&planner, input("Mine"), key()).await));
}

#[tokio::test]
async fn space_wide_reads_are_refused_for_roles_with_partial_access_m7_7() {
    let house = house().await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let refused = readable(role).len() < 6;
        assert_eq!(is_refused(space.changes(Seq(0), 10).await), refused, "{role}");
        assert_eq!(is_refused(space.runs(&Default::default()).await), refused, "{role}");
        assert_eq!(
            is_refused(space.episodes(&EpisodeQuery::default()).await),
            refused,
            "{role}"
        );
        assert_eq!(is_refused(space.patterns(1).await), refused, "{role}");
        assert_eq!(is_refused(space.calibration().await), refused, "{role}");
        if refused {
            let hash = BlobHash("0".repeat(64));
            assert!(is_refused(space.blob(&hash).await), "{role}");
            let journal = space.journal(run("other"), Seq(0)).await;
            assert!(is_refused(journal), "{role}");
        }
    }
}

#[tokio::test]
async fn client_writes_only_to_its_threads_scratchbook_or_own_items_m7_7() {
    let house = house().await;
    let client = Actor::new(Role::Client, "a_model");
    let own = house.space.in_thread(&thread("own"));
    let update = async |space: &Workspace, entry: &Entry| {
        let patch = serde_json::from_value(json!({"title": "t"})).unwrap();
        space.update_item(&client, Ref::Id(entry.id), patch, None).await
    };
    assert!(!is_refused(update(&own, &house.in_book).await));
    let refused = update(&own, &house.in_other_book).await.unwrap_err().to_string();
    assert!(
        refused.ends_with("which belongs to another thread; use a workspace of that thread (`in_thread`)"),
        "{refused}"
    );
    assert!(
        is_refused(update(&house.space, &house.in_book).await),
        "without a thread it is the main one"
    );
    let theirs = Ref::Id(house.in_other_book.id);
    assert!(is_refused(own.pin_item(&client, theirs).await));
    house.space.pin_item(&person(), theirs).await.unwrap();
    let refused = own.unpin_item(&client, theirs).await.unwrap_err().to_string();
    assert!(
        refused.ends_with("which belongs to another thread; use a workspace of that thread (`in_thread`)"),
        "{refused}"
    );
    for entry in [&house.in_book, &house.asks_agent] {
        assert!(!is_refused(own.pin_item(&client, Ref::Id(entry.id)).await));
        assert!(!is_refused(own.unpin_item(&client, Ref::Id(entry.id)).await));
    }
    let archived = own.archive(&client, Ref::Id(house.in_other_book.id), None).await;
    assert!(is_refused(archived));
    assert!(!is_refused(own.archive(&client, Ref::Id(house.in_book.id), None).await));
    let own_note: ItemInput = serde_json::from_value(json!({"kind": "todo", "title": "x"})).unwrap();
    let todo = own
        .add_item(&client, &thread("another"), own_note, None)
        .await
        .unwrap()
        .entry;
    let done = own.complete(&client, Ref::Id(todo.id), Guard::default()).await;
    assert!(!is_refused(done), "what it wrote itself is its own wherever it stands");
}

/// The same, with the run in the log.
async fn house_with_run() -> House {
    let house = house().await;
    let started = Event::RunStarted {
        format: 1,
        goal: "a run".to_owned(),
        plan: json!({}),
        inputs: Default::default(),
        deadline: None,
        run: Value::Null,
    };
    let append = RunAppend {
        run: run("run"),
        events: vec![started],
        status: Some("running".to_owned()),
        title: Some("a run".to_owned()),
        so_far: None,
    };
    let write = Write {
        run: Some(append),
        ..Write::default()
    };
    house.space.record(&person(), write).await.unwrap();
    house
}

/// A turn of the run, one in the thread, and one that is in neither; each used an observation for the agent and one
/// for the user.
async fn turns(house: &House) -> [Turn; 3] {
    let begin = async |name: &str, of: Option<RunId>, key: &str| {
        let decided = |entry: &Entry| Used::of(entry);
        let new = NewTurn {
            id: TurnId::derived(&[name]),
            thread: thread(key),
            input: name.to_owned(),
            run: of,
            background: false,
            as_of: Seq(0),
            decisions: vec![
                Decision::new(
                    Stage::Router,
                    "high",
                    vec!["because of both".to_owned()],
                    vec![
                        decided(&house.asks_agent),
                        decided(&house.asks_user),
                        decided(&house.in_book),
                    ],
                ),
                Decision::new(
                    Stage::Executor,
                    "one",
                    vec!["because of one".to_owned()],
                    vec![decided(&house.asks_agent)],
                ),
            ],
        };
        let change = Change::BeginTurn(Box::new(new));
        house.space.record(&person(), Write::of(vec![change])).await.unwrap();
        let id = Ref::Id(TurnId::derived(&[name]));
        house.space.end_turn(&person(), id).await.unwrap().turn
    };
    [
        begin("of the run", Some(run("run")), "another").await,
        begin("of the thread", None, "own").await,
        begin("of neither", None, "another").await,
    ]
}

/// Which of those turns a role may read.
fn readable_turns(role: Role) -> &'static [usize] {
    match role {
        Role::Tool => &[],
        Role::Executor | Role::Planner => &[0],
        Role::Compactor => &[1],
        _ => &[0, 1, 2],
    }
}

#[tokio::test]
async fn each_role_reads_only_its_permitted_turns_and_decisions_m7_7() {
    let house = Box::pin(house_with_run()).await;
    let turns = turns(&house).await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let listed = space.turns(&TurnQuery::default()).await.unwrap();
        for (at, turn) in turns.iter().enumerate() {
            let wanted = readable_turns(role).contains(&at);
            let id = Ref::Id(turn.begun.id);
            assert_eq!(is_refused(space.turn(id).await), !wanted, "{role} {at}");
            assert_eq!(
                is_refused(space.turn_export(id).await),
                !wanted,
                "{role} export of {at}"
            );
            assert_eq!(
                listed.iter().any(|one| one.handle == turn.handle),
                wanted,
                "{role} list {at}"
            );
            let receipts = space.receipts(id).await;
            assert_eq!(is_refused(receipts), role != Role::Human, "{role} receipts of {at}");
            let shown = space.shown(Ref::Id(house.asks_agent.id), id).await;
            assert_eq!(is_refused(shown), role != Role::Human, "{role} shown in {at}");
            if !wanted {
                continue;
            }
            let seen = space.turn(id).await.unwrap();
            assert_eq!(
                Some(&seen),
                listed.iter().find(|one| one.handle == turn.handle),
                "{role} {at}"
            );
            let used = |decision: &Decision| -> Vec<_> { decision.used.iter().map(|used| used.id).collect() };
            let all: Vec<_> = house
                .all()
                .into_iter()
                .filter(|(name, _)| readable(role).contains(name))
                .collect();
            let is_for_it = |entry: &&Entry| all.iter().any(|(_, known)| known.id == entry.id);
            let both: Vec<_> = [&house.asks_agent, &house.asks_user, &house.in_book]
                .into_iter()
                .filter(is_for_it)
                .map(|entry| entry.id)
                .collect();
            let first = seen.decision(Stage::Router).unwrap();
            assert_eq!(used(first), both, "{role}");
            assert_eq!(first.reasons.is_empty(), both.len() < 3, "{role}");
            let one = seen.decision(Stage::Executor).unwrap();
            assert_eq!(one.reasons.is_empty(), !is_for_it(&&house.asks_agent), "{role}");
            let export = space.turn_export(id).await.unwrap();
            assert_eq!(export.parts.is_empty(), readable(role).len() < 6, "{role}");
            for exported in space.exported(&export, true).await.unwrap() {
                assert!(all.iter().any(|(_, known)| known.id == exported.listed.id), "{role}");
            }
        }
    }
}

#[tokio::test]
async fn claimed_turn_grants_no_access_without_a_run_in_it_m7_7() {
    let house = Box::pin(house_with_run()).await;
    let turns = turns(&house).await;
    for role in [Role::Executor, Role::Planner] {
        for turn in &turns {
            let id = turn.begun.id;
            let says = Actor::new(role, "scan").in_turn(id);
            let space = house.space.asked_by(&says);
            assert!(is_refused(space.turn(Ref::Id(id)).await), "{role} {}", turn.handle);
            assert!(is_refused(space.turn_export(Ref::Id(id)).await));
            let begun_in_it = house.space.asked_by(&says.in_run(run("run")));
            assert!(!is_refused(begun_in_it.turn(Ref::Id(id)).await));
        }
    }
}

#[tokio::test]
async fn why_lists_only_decisions_in_turns_readable_by_the_role_m7_7() {
    let house = Box::pin(house_with_run()).await;
    let turns = turns(&house).await;
    for role in Role::ALL {
        let space = house.seen_by(role);
        for (name, entry) in house.all() {
            let may = readable(role).contains(&name);
            let why = space.why(Ref::Id(entry.id), None).await;
            assert_eq!(
                is_refused(space.why(Ref::Id(entry.id), None).await),
                !may,
                "{role} {name}"
            );
            for (turn, decision) in why.into_iter().flatten() {
                let at = turns.iter().position(|known| known.handle == turn.handle).unwrap();
                assert!(readable_turns(role).contains(&at), "{role} {name}");
                assert!(decision.used.iter().any(|used| used.id == entry.id));
            }
            for (at, turn) in turns.iter().enumerate() {
                let why = space.why(Ref::Id(entry.id), Some(Ref::Id(turn.begun.id))).await;
                let wanted = may && readable_turns(role).contains(&at);
                assert_eq!(is_refused(why), !wanted, "{role} {name} in {at}");
            }
        }
    }
}

#[tokio::test]
async fn goals_and_their_progress_count_only_readable_entries_m7_7() {
    let house = house().await;
    let goal = |name: &str| GoalInput {
        title: name.to_owned(),
        key: Some("trip".to_owned()),
        ..GoalInput::default()
    };
    for key in ["own", "another"] {
        let added = house
            .space
            .add_goal(&person(), &thread(key), EntryKind::Goal, goal(key), None)
            .await;
        added.unwrap();
    }
    for owner in ["agent", "user"] {
        let input = json!({"content": owner, "owner": owner, "context": {"goal_id": "trip"}});
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        house.space.add_observation(&person(), input, None).await.unwrap();
    }
    for role in Role::ALL {
        let goals = house.seen_by(role).goals(None, true).await.unwrap();
        let seen: Vec<_> = goals
            .iter()
            .map(|goal| (goal.entry.fields.title.as_str(), goal.progress.open))
            .collect();
        let wanted: &[(&str, u64)] = match role {
            Role::Tool | Role::Executor | Role::Planner => &[],
            // Nothing of what is linked to it is in its thread.
            Role::Compactor => &[("own", 0)],
            // Two observations; the other goal of the same name is a goal itself.
            _ => &[("another", 2), ("own", 2)],
        };
        assert_eq!(seen.len(), wanted.len(), "{role}");
        for (seen, wanted) in seen.iter().zip(wanted) {
            assert_eq!((seen.0, u64::from(seen.1)), *wanted, "{role}");
        }
    }
}

#[tokio::test]
async fn assembled_context_contains_only_facts_the_role_may_read_m7_7() {
    let house = house().await;
    let fact = json!({"content": "the vault opens at nine", "type": "learning"});
    let fact: ObservationInput = serde_json::from_value(fact).unwrap();
    let fact = house.space.add_observation(&person(), fact, None).await.unwrap().entry;
    for role in Role::ALL {
        let space = house.seen_by(role);
        let request = ContextRequest {
            prompt: "when does the vault open?".to_owned(),
            sections: vec![(Section::Semantic, 100)],
            ..ContextRequest::of(thread("own"))
        };
        let told = space.assemble_context(request, &Estimate).await;
        let told = told.map(|context| context.text).unwrap_or_default();
        let may_read = !is_refused(space.entry(Ref::Id(fact.id)).await);
        assert_eq!(told.contains("vault opens"), may_read, "{role}: {told}");
    }
}

#[tokio::test]
async fn reused_request_id_returns_no_entries_of_another_actor_m7_7() {
    let house = Box::pin(house_with_run()).await;
    let turn = turns(&house).await[0].begun.id;
    let ingested = async |role: Role, content: &str| {
        let actor = Actor::new(role, "mail");
        let answer =
            json!({"tool_id": "mail", "request_id": "c1", "status": "ok", "memory_writes": [{"content": content}]});
        let context = IngestContext {
            turn: Some(turn),
            ..IngestContext::default()
        };
        let space = house.space.asked_by(&actor);
        space
            .ingest(&actor, &serde_json::from_value(answer).unwrap(), &context)
            .await
    };
    let first = ingested(Role::Client, "PIN 4711").await;
    let own = ingested(Role::Client, "PIN 4711").await;
    assert_eq!((own.stored.len(), own.replayed), (1, 1));
    let other = ingested(Role::Executor, "x").await;
    assert_eq!((other.stored.len(), other.replayed), (0, 0), "{other:?}");
    let [repeated] = other.warnings.as_slice() else {
        panic!("{other:?}")
    };
    assert_eq!(repeated.warning.code, "call_repeated");
    assert!(repeated.warning.message.contains(&first.stored[0].handle.to_string()));
}

#[tokio::test]
async fn compactor_writes_only_to_its_own_threads_scratchbook_m7_7() {
    let house = house().await;
    let compactor = Actor::new(Role::Compactor, "scan");
    let note: ItemInput = serde_json::from_value(json!({"kind": "note", "body": "what it came to"})).unwrap();
    let own = house.space.in_thread(&thread("own"));
    assert!(!is_refused(
        own.add_item(&compactor, &thread("own"), note.clone(), None).await
    ));
    assert!(is_refused(
        own.add_item(&compactor, &thread("another"), note.clone(), None).await
    ));
    assert!(is_refused(
        house.space.add_item(&compactor, &thread("own"), note, None).await
    ));
}
