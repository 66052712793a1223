//! Runs that are forgotten as a whole (M7.6.50).

use std::collections::BTreeMap;

use folio_engine::{Event, NodeId, NodeResult, Outcome, Output, Run};
use folio_memory::id::{EntryId, PageId, Ref, RunHandle, TurnId};
use folio_memory::keeping::{ErasedFor, RunTombstone};
use folio_memory::turn::NewTurn;
use folio_memory::{
    Actor, Change, EntryKind, NoteQuery, NotesKept, PageRole, Role, RunId, Seq, ThreadKey, Timestamp, TraceNote,
};
use folio_store::copy::{copy, verify};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::{ForgetFilter, Forgotten};
use folio_store::{
    Blob, Commit, ErrorKind, Expected, OwnerId, Record, RunAppend, RunQuery, StoreError, Workspace, WorkspaceError,
};
use serde_json::json;

use super::Home;
use super::scene::{Scene, asked_by, started, tag};

const GOAL: &str = "plan the wedding in the old mill of Winterbourne";
const ANSWER: &str = "ask Aunt Eleonora for the guest list first";
const KEPT: &str = "the whole guest list, which is too long for the journal";
const PAGE: &str = "What is known of the mill by now";
const LINE: &str = "the miller wants to be paid in advance";
/// What must be nowhere afterwards.
const ALL: [&str; 8] = [
    GOAL,
    ANSWER,
    KEPT,
    PAGE,
    LINE,
    "Zanzibar",
    "mill-guests",
    "survey/the-mill",
];

/// A run that said things, and what belongs to it.
struct Talkative {
    run: RunId,
    page: PageId,
    entry: EntryId,
    turn: TurnId,
    body: Blob,
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn of(run: RunId) -> ForgetFilter {
    ForgetFilter {
        runs: vec![Ref::Id(run)],
        ..ForgetFilter::default()
    }
}

impl Scene {
    /// A run with a goal, inputs, an answer, a large output, a page, an entry and a turn, which has ended with `status`.
    async fn talkative(&self, status: Option<&str>) -> Talkative {
        let run = RunId::draw(&self.ids, self.now());
        let mut page = self.page(PageRole::ScratchpadRoot);
        PAGE.clone_into(&mut page.fields.title);
        page.fields.run = Some(run);
        page.fields.branch_id = Some("survey/the-mill".to_owned());
        page.fields.tags = vec![tag("mill-guests")];
        let mut entry = self.entry(page.id, EntryKind::Log, "");
        LINE.clone_into(&mut entry.fields.body);
        let turn = NewTurn {
            run: Some(run),
            id: TurnId::draw(&self.ids, self.now()),
            thread: ThreadKey::main(),
            input: GOAL.to_owned(),
            background: false,
            as_of: Seq(0),
            decisions: Vec::new(),
        };
        let body = Blob::new(json!(KEPT).to_string().into_bytes());
        let (page_id, entry_id, turn_id) = (page.id, entry.id, turn.id);
        let begins = match started(GOAL) {
            Event::RunStarted {
                format,
                goal,
                plan,
                run,
                ..
            } => Event::RunStarted {
                format,
                goal,
                plan,
                inputs: BTreeMap::from([("destination".to_owned(), json!("Zanzibar by the sea"))]),
                deadline: None,
                run,
            },
            other => other,
        };
        let append = |events, status: Option<&str>| RunAppend {
            run,
            title: Some(GOAL.to_owned()).filter(|_| status == Some(Run::RUNNING)),
            events,
            status: status.map(str::to_owned),
            so_far: None,
        };
        let record = Record {
            run: Some(append(vec![begins], Some(Run::RUNNING))),
            reason: Some(format!("because of {GOAL}")),
            ..Record::of(vec![
                Change::BeginTurn(Box::new(turn)),
                Change::EnsurePage(Box::new(page)),
                Change::AddEntry(Box::new(entry)),
            ])
        };
        self.store.commit(self.commit_of(record)).await.expect("it begins");
        let node = NodeId::root(run);
        let answered = Event::Answered {
            node,
            answer: ANSWER.to_owned(),
            by: "ada".to_owned(),
        };
        let mut result = NodeResult::new(Outcome::Ok, "done");
        result.output = Output::Blob {
            hash: body.hash().0.clone(),
            bytes: body.bytes().len() as u64,
        };
        let finished = Event::Finished {
            node,
            result: Box::new(result),
        };
        let record = Record {
            run: Some(append(vec![answered, finished], status)),
            ..Record::of(Vec::new())
        };
        let commit = self.commit_of(record);
        let blobs = vec![body.clone()];
        self.store.commit(Commit { blobs, ..commit }).await.expect("it goes on");
        let note = TraceNote::new(self.now(), &person().in_run(run), "run", "noted");
        let everything = NotesKept {
            from: Timestamp::MIN,
            notes_max: u64::MAX,
        };
        let kept = self.store.append_trace(&self.space, &[note], everything).await;
        kept.expect("a note");
        Talkative {
            run,
            page: page_id,
            entry: entry_id,
            turn: turn_id,
            body,
        }
    }

    async fn forgets(&self, run: RunId) -> Result<Forgotten, WorkspaceError> {
        self.workspace().forget(&person(), &of(run), "she asked for it").await
    }

    /// Whether any commit, or the row of a page or the run, still says something of it.
    async fn assert_nothing_is_left(&self, of: &Talkative) {
        let mut text = format!(
            "{:?}",
            self.store.changes(&self.space, Seq(0), 1_000).await.expect("the log")
        );
        let page = self.store.page(&self.space, Ref::Id(of.page)).await.expect("a page");
        let turn = self.store.turn(&self.space, Ref::Id(of.turn)).await.expect("a turn");
        let row = self.store.run(&self.space, Ref::Id(of.run)).await.expect("a run");
        text.push_str(&format!("{page:?} {turn:?} {row:?} {:?}", self.read(of.entry).await));
        for gone in ALL {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        let problems = self.store.check().await.expect("a check").problems;
        assert_eq!(problems, Vec::<String>::new());
    }
}

fn is_forgotten<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::RunForgotten { run }) if run == "r1")
}

/// What it said is gone; that it was there, how it ended and why it was forgotten stays.
pub async fn forgotten_run_leaves_only_that_it_was_there_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let talkative = scene.talkative(Some("ok")).await;
    let (run, ended_at) = (talkative.run, scene.now());
    scene.clock.advance(std::time::Duration::from_secs(60));
    let found = scene.workspace().runs_to_forget(&of(run)).await.expect("a run");
    assert_eq!(found.len(), 1);

    let forgotten = scene.forgets(run).await.expect("it is forgotten");

    assert_eq!(forgotten.runs, [RunHandle(1)]);
    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert!(!forgotten.residue.searched.is_empty());
    scene.assert_nothing_is_left(&talkative).await;
    let row = scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run");
    assert_eq!(
        (row.handle, &*row.title, &*row.status),
        (RunHandle(1), "", Run::FORGOTTEN)
    );
    let known = row.forgotten.clone().expect("what is left");
    let left = RunTombstone {
        status: "ok".to_owned(),
        ended_at,
        events: 3,
        nodes: 1,
    };
    assert_eq!((known.left, known.at), (left, scene.now()));
    assert_eq!(known.reason.as_deref(), Some("she asked for it"));
    let query = RunQuery {
        status: vec![Run::FORGOTTEN.to_owned()],
        ..RunQuery::default()
    };
    assert_eq!(scene.store.runs(&scene.space, &query).await.expect("runs"), [row]);
    assert_eq!(
        scene.read(talkative.entry).await.fields.erased,
        Some(ErasedFor::Forgotten)
    );
    let body = scene.store.blob(&scene.space, talkative.body.hash()).await;
    assert_eq!(body.expect_err("it is gone").kind(), ErrorKind::NotFound);
    let notes = NoteQuery {
        run: Some(run),
        limit: 10,
        ..NoteQuery::default()
    };
    assert_eq!(scene.store.notes(&scene.space, &notes).await.expect("notes"), []);
}

/// Nobody reads its journal, drives it, or writes to it.
pub async fn forgotten_run_is_refused_to_readers_and_drivers_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let run = scene.talkative(Some("failed")).await.run;
    let driver = OwnerId("a driver".to_owned());
    let fence = scene
        .store
        .claim_run(&scene.space, run, &driver)
        .await
        .expect("a fence");
    let head = scene.store.run(&scene.space, Ref::Id(run)).await.expect("a run").head;
    scene.forgets(run).await.expect("it is forgotten");
    for since in [Seq(0), head, scene.head().await] {
        assert!(is_forgotten(scene.store.journal(&scene.space, run, since).await));
    }
    assert!(is_forgotten(scene.store.claim_run(&scene.space, run, &driver).await));
    let expected = Expected::RunHead {
        run,
        head,
        fence: Some(fence),
    };
    let late = scene.append(run, vec![asked_by("late")], None, vec![expected]).await;
    assert_eq!(late.expect_err("it is too late").kind(), ErrorKind::Conflict);
    let heads = scene.store.run_heads(&scene.space, vec![run]).await.expect("heads");
    assert!(heads[0].1 > head, "whoever waits for it is woken");
}

/// A run that goes on, one that does not exist, and conditions that no run can have.
pub async fn only_ended_runs_can_be_forgotten_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let running = scene.talkative(None).await;
    let page = scene.a_page().await;
    let other = scene.add(scene.note(page, "not of the run")).await;
    let refused = scene.forgets(running.run).await.expect_err("it goes on");
    assert_eq!(refused.code(), "run_not_ended");
    let missing = scene
        .forgets(RunId::derived(&["none"]))
        .await
        .expect_err("there is none");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let with_text = ForgetFilter {
        text: Some("mill".to_owned()),
        ..of(running.run)
    };
    let refused = scene.workspace().forget(&person(), &with_text, "").await;
    assert_eq!(refused.expect_err("both").code(), "filter_invalid");
    let robot = Actor::new(Role::Tool, "robot");
    let refused = scene.workspace().forget(&robot, &of(running.run), "").await;
    assert_eq!(refused.expect_err("no person").code(), "role_denied");
    let erase = Change::EraseRun {
        run: running.run,
        left: RunTombstone {
            status: String::new(),
            ended_at: scene.now(),
            events: 0,
            nodes: 0,
        },
    };
    let refused = scene.try_commit(vec![erase]).await.expect_err("it goes on");
    assert_eq!(refused.code(), "run_not_ended");
    let early = scene.store.erase_run_part(&scene.space, running.run, Seq(0)).await;
    assert_eq!(early.expect_err("it is not forgotten").kind(), ErrorKind::Invalid);
    scene
        .store
        .journal(&scene.space, running.run, Seq(0))
        .await
        .expect("a journal");
    assert_eq!(scene.read(other).await.fields.title, "not of the run");
    assert_eq!(scene.read(running.entry).await.fields.body, LINE);
}

/// The second call changes nothing; one under the same key gives the first answer.
pub async fn forgetting_a_run_again_changes_nothing_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let talkative = scene.talkative(Some("ok")).await;
    let page = scene.a_page().await;
    let (named, other) = (
        scene.add(scene.note(page, "this one goes as well")).await,
        scene.add(scene.note(page, "this one stays")).await,
    );
    let filter = ForgetFilter {
        entries: vec![Ref::Id(named)],
        ..of(talkative.run)
    };
    let forget = async || {
        let forgotten = scene
            .workspace()
            .forget_under(&person(), &filter, "", Some("k".to_owned()))
            .await;
        forgotten.expect("it is forgotten")
    };
    let first = forget().await;
    assert_eq!((first.runs.len(), first.entries.len(), first.replayed), (1, 1, false));
    assert_eq!(scene.read(other).await.fields.title, "this one stays");
    let head = scene.head().await;
    let again = forget().await;
    assert_eq!(
        (&again.runs, &again.entries, again.replayed),
        (&first.runs, &first.entries, true)
    );
    let without_key = scene.forgets(talkative.run).await.expect("it was forgotten");
    assert_eq!((without_key.runs.len(), without_key.entries.len()), (0, 0));
    assert_eq!(without_key.residue.no_longer_known, 1);
    assert_eq!(
        scene
            .workspace()
            .forgotten_before(&of(talkative.run))
            .await
            .expect("a number"),
        1
    );
    assert_eq!(scene.head().await, head);
}

/// What a call left undone after it had marked the run is completed by the next one, and nobody stumbles meanwhile.
pub async fn interrupted_forgetting_of_a_run_is_completed_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let talkative = scene.talkative(Some("cancelled")).await;
    let append = RunAppend {
        run: talkative.run,
        events: Vec::new(),
        status: Some(Run::FORGOTTEN.to_owned()),
        title: None,
        so_far: None,
    };
    let left = RunTombstone {
        status: "cancelled".to_owned(),
        ended_at: scene.now(),
        events: 3,
        nodes: 1,
    };
    let record = Record {
        run: Some(append),
        ..Record::of(vec![Change::EraseRun {
            run: talkative.run,
            left,
        }])
    };
    scene.store.commit(scene.commit_of(record)).await.expect("it is marked");
    let problems = scene.store.check().await.expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
    assert!(is_forgotten(
        scene.store.journal(&scene.space, talkative.run, Seq(0)).await
    ));
    scene.forgets(talkative.run).await.expect("it is completed");
    scene.assert_nothing_is_left(&talkative).await;
}

/// A body that another run names, as a fork does, stays with that run; and that the other run says the same is reported.
pub async fn forgotten_run_takes_nothing_from_another_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let talkative = scene.talkative(Some("ok")).await;
    let fork = scene.talkative(Some("ok")).await;
    let before = scene
        .store
        .journal(&scene.space, fork.run, Seq(0))
        .await
        .expect("a journal");
    let forgotten = scene.forgets(talkative.run).await.expect("it is forgotten");
    assert!(
        forgotten.residue.found.contains(&"r2".to_owned()),
        "{:?}",
        forgotten.residue.found
    );
    let after = scene
        .store
        .journal(&scene.space, fork.run, Seq(0))
        .await
        .expect("a journal");
    assert_eq!(after, before);
    let body = scene.store.blob(&scene.space, fork.body.hash()).await.expect("a body");
    assert_eq!(body, fork.body.bytes());
    assert_eq!(scene.read(fork.entry).await.fields.body, LINE);
    let problems = scene.store.check().await.expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// Its journal is longer than what is erased at a time.
pub async fn long_run_is_forgotten_part_by_part_m7_6_50(home: &dyn Home) {
    const EVENTS: usize = 1_100;
    let scene = Scene::of(home);
    let run = scene.a_run(GOAL).await;
    for n in 0..EVENTS {
        let said = format!("{ANSWER} {n}");
        let event = scene.append(run, vec![asked_by(&said)], None, Vec::new()).await;
        event.expect("an event");
    }
    scene
        .append(run, Vec::new(), Some("ok"), Vec::new())
        .await
        .expect("it ends");
    let workspace: Workspace = scene.workspace();
    workspace
        .forget(&person(), &of(run), "")
        .await
        .expect("it is forgotten");
    let mut since = Seq(0);
    loop {
        let rows = scene.store.changes(&scene.space, since, 1_000).await.expect("the log");
        let Some(last) = rows.last() else { break };
        since = last.seq;
        assert!(!format!("{rows:?}").contains(ANSWER));
    }
    let problems = scene.store.check().await.expect("a check").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// Whichever store it is copied to.
pub async fn forgotten_run_is_copied_as_it_is_m7_6_50(home: &dyn Home) {
    let in_memory = SqliteStore::open(&OpenOptions::in_memory()).expect("a store");
    let (source, target) = (Scene::on(in_memory), Scene::of(home));
    let talkative = source.talkative(Some("ok")).await;
    // Also in a copy that has the journal already.
    for is_forgotten in [false, true] {
        if is_forgotten {
            source.forgets(talkative.run).await.expect("it is forgotten");
        }
        copy(&*source.store, &*target.store, &mut |_| {}).await.expect("a copy");
    }
    let problems = verify(&*source.store, &*target.store).await.expect("a comparison");
    assert_eq!(problems, Vec::<String>::new());
    target.assert_nothing_is_left(&talkative).await;
    assert!(is_forgotten(
        target.store.journal(&target.space, talkative.run, Seq(0)).await
    ));
    let row = |scene: &Scene| {
        let (store, space) = (scene.store.clone(), scene.space.clone());
        async move { store.run(&space, Ref::Id(talkative.run)).await.expect("a run") }
    };
    assert_eq!(row(&target).await, row(&source).await);
}

/// A text alone does not forget a whole run, but says which runs have it.
pub async fn text_alone_names_the_ended_runs_that_say_it_m7_6_50(home: &dyn Home) {
    let scene = Scene::of(home);
    let (ended, running) = (scene.talkative(Some("ok")).await, scene.talkative(None).await);
    let memory = scene.workspace();
    for text in ["AUNT  Eleonora", "old mill of winterbourne", "zanzibar by"] {
        let filter = ForgetFilter {
            text: Some(text.to_owned()),
            ..ForgetFilter::default()
        };
        let saying = memory.runs_saying(&filter).await.expect("runs");
        assert_eq!(
            saying.iter().map(|row| row.id).collect::<Vec<_>>(),
            [ended.run],
            "{text}"
        );
        memory
            .forget(&person(), &filter, "")
            .await
            .expect("the rest is forgotten");
    }
    for run in [ended.run, running.run] {
        scene.store.journal(&scene.space, run, Seq(0)).await.expect("a journal");
    }
}
