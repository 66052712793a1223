//! Runs and turns: a run is a turn of its own, or is in one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_engine::template::Templates;
use folio_engine::{Event, Outcome, Run, plan, projection};
use folio_memory::id::Ref;
use folio_memory::observation::{ObservationInput, TypeRegistry};
use folio_memory::turn::{Orderer, RuleOrderer, Stage, Stages, Turn, TurnQuery, Urgency, WorkOrder};
use folio_memory::{Actor, Clock, Entry, EntryQuery, Role, RunId, Seq, SpaceName, ThreadKey, Timestamp};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{Questions, TraceQuery, TurnInput, Write};
use folio_store::{RunAppend, Workspace};
use folio_testkit::faulty_store::{Fault, FaultyStore};
use folio_testkit::{SeededIds, SimClock};
use folio_tools::Registry;
use serde_json::{Value, json};

const NOTICES: &str = "title: Pay the invoice\nsteps: [{id: look, do: {tool: observe, args: {content: seen}}}]";

struct House {
    store: Arc<FaultyStore>,
    workspace: Workspace,
    runner: Runner,
}

impl House {
    fn new() -> Self {
        Self::at(Arc::new(SimClock::default()))
    }

    fn at(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, Stages::default())
    }

    fn with(clock: Arc<dyn Clock>, stages: Stages) -> Self {
        let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::in_memory()).unwrap()));
        let ids = Arc::new(SeededIds::default());
        let workspace = Workspace::new(Arc::clone(&store) as _, clock, ids, SpaceName::main()).with_stages(stages);
        let options = RunnerOptions {
            concurrency: Some(1),
            ..RunnerOptions::default()
        };
        let runner = Runner::new(workspace.clone(), Registry::with_builtins(), options);
        Self {
            store,
            workspace,
            runner,
        }
    }

    async fn submit(&self, text: &str, actor: Actor) -> RunId {
        let plan = plan::parse(text, &self.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        let new = NewRun {
            thread: ThreadKey("work".to_owned()),
            ..NewRun::of(plan, actor)
        };
        self.runner.submit(new).await.unwrap().0
    }

    async fn turns(&self) -> Vec<Turn> {
        self.workspace.turns(&TurnQuery::default()).await.unwrap()
    }

    async fn seen(&self) -> Entry {
        self.workspace
            .observations(EntryQuery::default())
            .await
            .unwrap()
            .items
            .remove(0)
    }

    async fn notice(&self, observation: Value) -> Entry {
        let input: ObservationInput = serde_json::from_value(observation).unwrap();
        let actor = Actor::new(Role::Tool, "scan");
        self.workspace.add_observation(&actor, input, None).await.unwrap().entry
    }
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

#[tokio::test]
async fn run_outside_a_turn_begins_and_ends_its_own_turn_m7_11_1() {
    let house = House::new();
    let alert = json!({"type": "risk_alert", "content": "An unknown device", "tags": ["fraud"], "confidence": 0.95});
    let alert = house.notice(alert).await;
    let run = house.submit(NOTICES, person()).await;
    let turn = house.turns().await.remove(0);
    assert_eq!(
        (turn.begun.run, turn.begun.thread.0.as_str(), turn.ended.is_some()),
        (Some(run), "work", false)
    );
    let router = turn.decision(Stage::Router).unwrap();
    assert_eq!(
        (router.verdict.as_str(), router.used[0].id),
        (Urgency::Critical.as_str(), alert.id)
    );
    house.runner.drive(run).await.unwrap();
    let ended = house.turns().await.remove(0).ended.unwrap();
    // What the run noticed; its steps and logs have their own journal.
    assert!(ended.end.complete);
    assert_eq!(ended.end.touched, 1);
    let seen = house.seen().await;
    assert_eq!(
        (seen.fields.source.turn, seen.fields.source.run),
        (Some(turn.begun.id), Some(run))
    );
    // Driving it again ends nothing twice.
    house.runner.drive(run).await.unwrap();
    assert_eq!(house.turns().await[0].ended.as_ref().unwrap().seq, ended.seq);
}

#[tokio::test]
async fn turn_of_a_run_ends_without_reading_what_the_run_logged_m7_11_1() {
    let mut listed = Vec::new();
    for items in ["[1, 2]", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]"] {
        let house = House::new();
        let step = "{id: each, for_each: inputs.items, do: {tool: text, args: {op: echo, value: 1}}}";
        let steps = NOTICES.replace("steps: [", &format!("steps: [{step}, "));
        let each = format!("{steps}\ninputs: {{items: {{type: list, default: {items}}}}}");
        let run = house.submit(&each, person()).await;
        let before = house.store.entries_listed();
        house.runner.drive(run).await.unwrap();
        listed.push(house.store.entries_listed() - before);
        assert_eq!(house.turns().await[0].ended.as_ref().unwrap().end.touched, 1);
    }
    assert_eq!(listed[0], listed[1], "steps and logs are not memory");
}

/// A clock that advances whenever it is read.
#[derive(Debug, Default)]
struct Ticking(SimClock);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.0.advance(Duration::from_millis(1));
        self.0.now()
    }
}

#[tokio::test]
async fn trace_of_a_run_turn_includes_its_beginning_m7_10() {
    let house = House::at(Arc::new(Ticking::default()));
    let run = house.submit(NOTICES, person()).await;
    house.runner.drive(run).await.unwrap();
    let keyed = house
        .workspace
        .begin_turn_under(
            &person(),
            TurnInput::of(ThreadKey::main(), "look"),
            Some("key".to_owned()),
            Questions::Written,
        )
        .await
        .unwrap();
    let of_turn = |turn| TraceQuery {
        turn: Some(turn),
        component: Some("turn".to_owned()),
        ..TraceQuery::default()
    };
    let own = house.turns().await.pop().unwrap().begun.id;
    let mut told = Vec::new();
    for turn in [own, keyed.turn.begun.id] {
        let lines = house.workspace.trace(of_turn(turn)).await.unwrap();
        told.push(lines.into_iter().map(|line| line.operation).collect::<Vec<_>>());
    }
    assert_eq!(told, [vec!["begin_turn", "end_turn"], vec!["begin_turn"]]);
}

#[tokio::test]
async fn run_inside_a_turn_does_not_end_that_turn_m7_11_1() {
    let house = House::new();
    let input = TurnInput::of(ThreadKey::main(), "look around");
    let turn = house
        .workspace
        .begin_turn(&person(), input)
        .await
        .unwrap()
        .turn
        .begun
        .id;
    let run = house.submit(NOTICES, person().in_turn(turn)).await;
    house.runner.drive(run).await.unwrap();
    let turns = house.turns().await;
    assert_eq!((turns.len(), turns[0].ended.is_some()), (1, false));
    assert_eq!(house.seen().await.fields.source.turn, Some(turn));
    let ended = house.workspace.end_turn(&person(), Ref::Id(turn)).await.unwrap();
    assert!(
        ended
            .export
            .touched
            .iter()
            .any(|touched| touched.listed.id.to_string().starts_with("obs_"))
    );
}

#[tokio::test]
async fn turn_left_open_by_an_ended_run_is_ended_later() {
    let whole = House::new();
    let run = whole.submit(NOTICES, person()).await;
    whole.runner.drive(run).await.unwrap();
    let last = whole.store.commits();

    let house = House::new();
    house.store.fail(last, Fault::NotWritten);
    let run = house.submit(NOTICES, person()).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        result.status,
        Outcome::Ok,
        "what the run came to is recorded, whatever becomes of its turn"
    );
    assert!(house.turns().await[0].ended.is_none());
    // However many newer turns rightly go on.
    for _ in 0..TurnQuery::default().limit() {
        house.submit(NOTICES, person()).await;
    }
    // Whoever has just ended a run ends its turn himself.
    assert_eq!(
        house.runner.end_leftover_turns(Duration::from_secs(60)).await.unwrap(),
        0
    );
    assert_eq!(house.runner.end_leftover_turns(Duration::ZERO).await.unwrap(), 1);
    let of_run = TurnQuery {
        run: Some(run),
        ..TurnQuery::default()
    };
    assert!(house.workspace.turns(&of_run).await.unwrap()[0].ended.is_some());
    assert_eq!(house.runner.end_leftover_turns(Duration::ZERO).await.unwrap(), 0);
}

#[tokio::test]
async fn older_run_without_a_turn_is_driven_to_its_end() {
    let house = House::new();
    let run = house.submit(NOTICES, person()).await;
    let journal = house.workspace.journal(run, Seq(0)).await.unwrap();
    let mut first = serde_json::to_value(&journal.events[0].1).unwrap();
    assert!(first["run"]["turn"].is_string());
    first["run"].as_object_mut().unwrap().remove("turn");
    let event: Event = serde_json::from_value(first).unwrap();
    let old = RunId::derived(&["old"]);
    let mut folded = Run::new(old, Arc::new(Templates::new()));
    folded.apply(house.workspace.now(), &event).unwrap();
    let changes = projection::changes(&folded, &event);
    let write = Write {
        run: Some(RunAppend {
            run: old,
            events: vec![event],
            status: Some("running".to_owned()),
            title: Some("Old".to_owned()),
            so_far: None,
        }),
        ..Write::of(changes)
    };
    house.workspace.record(&person(), write).await.unwrap();
    assert_eq!(house.runner.drive(old).await.unwrap().status, Outcome::Ok);
    let seen = house.seen().await;
    assert_eq!((seen.fields.source.turn, seen.fields.source.run), (None, Some(old)));
}

#[tokio::test]
async fn calls_related_to_a_pending_confirmation_begin_first_m7_11_2() {
    let task = |id: &str| format!("{{id: {id}, do: {{tool: text, args: {{op: echo, value: 1}}}}}}");
    let group: Vec<_> = ["weather", "send-email", "verify-email"].map(task).into();
    let plan = format!("title: Three\nsteps: [[{}]]", group.join(", "));
    let begun = async |house: &House| -> Vec<String> {
        let run = house.submit(&plan, person()).await;
        house.runner.drive(run).await.unwrap();
        let folded = house.runner.load(run).await.unwrap();
        let journal = house.workspace.journal(run, Seq(0)).await.unwrap();
        let nodes = journal.events.iter().filter_map(|(_, event)| match event {
            Event::Started { node, .. } => folded.node(*node).map(|node| node.path.to_owned()),
            _ => None,
        });
        nodes
            .filter_map(|path| path.rsplit('/').next().map(str::to_owned))
            .collect()
    };
    assert_eq!(
        begun(&House::new()).await,
        ["weather", "send-email", "verify-email"],
        "as it was planned"
    );
    let house = House::new();
    house
        .notice(json!({"type": "pending_confirmation", "content": "Is a@b.org right?", "tags": ["email"]}))
        .await;
    assert_eq!(begun(&house).await, ["verify-email", "send-email", "weather"]);
}

/// Keeps the order, and records how many there were to choose from.
#[derive(Debug, Default)]
struct Counting(Mutex<Vec<usize>>);

impl Orderer for Counting {
    fn order(&self, active: &[Entry], types: &TypeRegistry, now: Timestamp) -> WorkOrder {
        RuleOrderer.order(active, types, now)
    }

    fn prefer(&self, candidates: &[String], _: &[Entry], _: &TypeRegistry, _: Timestamp) -> Vec<usize> {
        self.0.lock().unwrap().push(candidates.len());
        (0..candidates.len()).collect()
    }
}

#[tokio::test]
async fn only_the_next_calls_are_ordered_for_a_pending_confirmation_m7_11_2() {
    let counting = Arc::new(Counting::default());
    let stages = Stages {
        orderer: Arc::clone(&counting) as _,
        ..Stages::default()
    };
    let house = House::with(Arc::new(SimClock::default()), stages);
    house
        .notice(json!({"type": "pending_confirmation", "content": "Is a@b.org right?", "tags": ["email"]}))
        .await;
    let plan = "title: Many\nsteps: [{id: all, for_each: '{{ range(100) | list }}', max_items: 100, do: {tool: text, args: {op: echo, value: 1}}}]";
    let run = house.submit(plan, person()).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let seen = counting.0.lock().unwrap();
    assert!(!seen.is_empty());
    let most = seen.iter().max().copied().unwrap_or_default();
    assert!(most <= 33, "{most} were put together to choose one of them");
}

#[tokio::test]
async fn steps_write_once_to_the_scratchbook_of_their_thread() {
    let house = House::new();
    let plan = "\
        title: Notes\n\
        steps:\n\
        - {id: add, do: {tool: scratch_add, args: {kind: task, title: Move the house}}}\n\
        - {id: pin, do: {tool: scratch_pin, args: {id: '{{ results.add.output.handle }}'}}}\n\
        - {id: read, do: {tool: scratch_read, args: {}}}\n";
    let run = house.submit(plan, Actor::new(Role::Human, "ada")).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{result:?}");
    let thread = ThreadKey("work".to_owned());
    let items = house
        .workspace
        .book_items(&thread, Default::default())
        .await
        .unwrap()
        .items;
    assert_eq!(items.len(), 1);
    assert!(items[0].fields.pin_rank.is_some());
    assert_eq!(items[0].fields.source.run, Some(run));
    assert!(
        house
            .workspace
            .book_items(&ThreadKey::main(), Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn invalid_scratch_tool_argument_fails_the_step_and_is_named() {
    let house = House::new();
    let plan = "title: Notes\nsteps: [{id: add, do: {tool: scratch_add, args: {kind: note, type: alert, body: x}}}]";
    let run = house.submit(plan, Actor::new(Role::Human, "ada")).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Failed);
    assert!(
        format!("{result:?}").contains("type: does not apply to kind note"),
        "{result:?}"
    );
}
