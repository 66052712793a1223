//! Runs whose journals another version of the program wrote: one of an older version is resumed and the journal
//! records that, one of a newer version is left as it is (E9.9).

use std::sync::Arc;
use std::time::Duration;

use folio_engine::event::FORMAT;
use folio_engine::plan::to_markdown;
use folio_engine::run::JournalError;
use folio_engine::{Event, NodeResult, Outcome};
use folio_memory::id::Ref;
use folio_memory::{Actor, Role, RunId, Seq, SpaceName, Timestamp};
use folio_runner::{Runner, RunnerError, RunnerOptions};
use folio_store::commit::RECORD_FORMAT;
use folio_store::copy::CopiedCommit;
use folio_store::sqlite::OpenOptions;
use folio_store::{Commit, Expected, LogRow, OwnerId, Record, RunAppend, SqliteStore, Store, Workspace};
use folio_testkit::{SeededIds, SimClock};
use folio_tools::Registry;
use serde::Deserialize;
use serde_json::json;

/// What a program with format 7 had written when it was killed: one call had ended, two had begun, one of which had
/// ended.
const FORMAT_7: &str = include_str!("../fixtures/format-7.jsonl");
/// The same for format 8.
const FORMAT_8: &str = include_str!("../fixtures/format-8.jsonl");

/// A row of the log in a fixture.
#[derive(Deserialize)]
struct Line {
    seq: u64,
    at: i64,
    actor: Actor,
    record: Record,
}

struct House {
    runner: Runner,
    run: RunId,
    _folder: tempfile::TempDir,
}

impl House {
    /// A store that contains only `text`, one second later.
    async fn of(text: &str) -> Self {
        Self::later(text, Duration::from_secs(1)).await
    }

    /// A store that contains only `text`, as much later.
    async fn later(text: &str, later: Duration) -> Self {
        let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let run = lines[0].record.run.as_ref().unwrap().run;
        let clock = SimClock::at(Timestamp::from_nanos(lines.last().unwrap().at).plus(later));
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
        let commits = lines.into_iter().map(|line| CopiedCommit {
            row: LogRow {
                seq: Seq(line.seq),
                at: Timestamp::from_nanos(line.at),
                actor: line.actor,
                idempotency_key: None,
                record: line.record,
            },
            bodies: Vec::new(),
        });
        store.take_over(&SpaceName::main(), commits.collect()).await.unwrap();
        let workspace = Workspace::new(store, Arc::new(clock), Arc::new(SeededIds::new(1)), SpaceName::main());
        Self {
            runner: Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default()),
            run,
            _folder: folder,
        }
    }

    async fn events(&self) -> Vec<Event> {
        let journal = self.runner.workspace().journal(self.run, Seq(0)).await.unwrap();
        journal.events.into_iter().map(|(_, event)| event).collect()
    }

    /// The formats that the journal records, in order: the position and the format of each.
    async fn formats(&self) -> Vec<(usize, u32)> {
        let said = |(at, event)| match event {
            Event::RunStarted { format, .. } | Event::FormatRaised { format } => Some((at, format)),
            _ => None,
        };
        self.events().await.into_iter().enumerate().filter_map(said).collect()
    }

    /// Records in the journal that a version with `format` continues, as that version would.
    async fn raise(&self, format: u32) {
        let workspace = self.runner.workspace();
        let head = workspace.run(Ref::Id(self.run)).await.unwrap().head;
        let commit = Commit {
            space: workspace.space().clone(),
            at: workspace.now(),
            actor: Actor::new(Role::Planner, "runner").in_run(self.run),
            idempotency_key: None,
            expected: vec![Expected::RunHead {
                run: self.run,
                head,
                fence: None,
            }],
            record: Record {
                format: RECORD_FORMAT,
                changes: Vec::new(),
                run: Some(RunAppend {
                    run: self.run,
                    events: vec![Event::FormatRaised { format }],
                    status: None,
                    title: None,
                    so_far: None,
                }),
                reason: None,
                request: None,
                folded: None,
                copied_from: None,
            },
            blobs: Vec::new(),
        };
        workspace.commit(commit).await.unwrap();
    }
}

#[tokio::test]
async fn resumed_run_of_an_older_format_records_the_raise_once_e9_9() {
    for (text, format) in [(FORMAT_7, 7), (FORMAT_8, 8)] {
        Box::pin(assert_finished_with_format(text, format)).await;
    }
}

async fn assert_finished_with_format(text: &str, format: u32) {
    Box::pin(assert_finished_later(text, format, Duration::from_secs(1))).await;
    // Nobody set a time limit, and for so long nobody drove the run.
    Box::pin(assert_finished_later(text, format, Duration::from_secs(7_200))).await;
}

async fn assert_finished_later(text: &str, format: u32, later: Duration) {
    let house = House::later(text, later).await;
    let before = house.events().await.len();
    let result: NodeResult = house.runner.drive(house.run).await.unwrap();
    assert_eq!(
        (result.status, json!(result.output)),
        (Outcome::Ok, json!({"inline": "one and two"})),
        "{}",
        result.notes
    );
    assert_eq!(
        house.formats().await,
        [(0, format), (before, FORMAT)],
        "once, before anything else that is new"
    );
    let run = house.runner.load(house.run).await.unwrap();
    let begun = |path: &str| {
        let node = run.node_at(path).unwrap().id;
        let is_begun = move |event: &&Event| matches!(event, Event::Started { node: begun, .. } if *begun == node);
        (node, is_begun)
    };
    let events = house.events().await;
    let times = |path: &str| events.iter().filter(begun(path).1).count();
    assert_eq!(
        (
            times("first"),
            times("group-2/slow"),
            times("group-2/note"),
            times("join")
        ),
        (1, 2, 1, 1),
        "only what was under way is called again"
    );
    assert_eq!(
        house.runner.replay(house.run).await.unwrap().differences,
        Vec::<String>::new(),
        "its pages are what its journal says"
    );
}

#[tokio::test]
async fn steering_does_not_raise_the_format_of_an_older_run_e9_9() {
    let house = House::of(FORMAT_7).await;
    house
        .runner
        .pause(house.run, None, &Actor::new(Role::Human, "ada"))
        .await
        .unwrap();
    house
        .runner
        .go_on(house.run, None, &Actor::new(Role::Human, "ada"))
        .await
        .unwrap();
    house
        .runner
        .cancel(house.run, None, &Actor::new(Role::Human, "ada"))
        .await
        .unwrap();
    assert_eq!(house.formats().await, [(0, 7)]);
}

#[tokio::test]
async fn plan_edit_raises_the_format_of_an_older_run_or_is_refused_while_it_is_driven_e9_9() {
    let ada = Actor::new(Role::Human, "ada");
    let house = House::of(FORMAT_7).await;
    let loaded = house.runner.load(house.run).await.unwrap();
    let shown = loaded.shown_plan(loaded.node_at("").unwrap().id).unwrap();
    let edited = to_markdown(&shown.steps)
        + "\n- after it {after}\n\n  ```yaml\n  do: {tool: text, args: {op: echo, value: 1}}\n  ```\n";
    // Whoever drives the run has not raised the format, so it is an older version.
    let workspace = house.runner.workspace();
    let store = workspace.store();
    let owner = OwnerId("older".to_owned());
    let fence = store.claim_run(workspace.space(), house.run, &owner).await.unwrap();
    let refused = house
        .runner
        .edit_plan(house.run, None, &edited, None, &ada)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "run_taken");
    assert!(refused.to_string().contains("older version"), "{refused}");
    assert_eq!(house.formats().await, [(0, 7)]);
    store.release_run(workspace.space(), house.run, fence).await.unwrap();
    let before = house.events().await.len();
    house
        .runner
        .edit_plan(house.run, None, &edited, None, &ada)
        .await
        .unwrap();
    assert_eq!(house.formats().await, [(0, 7), (before, FORMAT)]);
}

#[tokio::test]
async fn run_of_a_newer_format_is_refused_and_left_unchanged_e9_9() {
    let house = House::of(FORMAT_7).await;
    house.raise(FORMAT + 1).await;
    let workspace = house.runner.workspace();
    let head = workspace.store().head(workspace.space()).await.unwrap();
    let refused = [
        house.runner.drive(house.run).await.map(drop),
        house.runner.load(house.run).await.map(drop),
        house
            .runner
            .cancel(house.run, None, &Actor::new(Role::Human, "ada"))
            .await,
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        let RunnerError::Journal { run, source } = &error else {
            panic!("{error}")
        };
        assert_eq!((*run, source), (house.run, &JournalError::TooNew { found: FORMAT + 1 }));
    }
    assert_eq!(workspace.store().head(workspace.space()).await.unwrap(), head);
    let row = workspace.run(Ref::Id(house.run)).await.unwrap();
    assert_eq!(
        (row.status.as_str(), row.driven),
        ("running", false),
        "others may have it"
    );
}
