//! Forgetting whole runs, on real files.

use folio_engine::event::FORMAT;
use folio_engine::{Event, Run};
use folio_memory::id::Ref;
use folio_memory::{
    Change, EntryFields, EntryId, EntryKind, NewEntry, NewPage, Owner, PageFields, PageId, PageRole, RunId, Seq,
    TraceNote, Trust,
};
use folio_store::workspace::{ForgetFilter, Write};
use folio_store::{ErrorKind, RunAppend, RunQuery};
use folio_testkit::process::{Process, orders, say};
use serde_json::json;

use crate::house::{House, human};

const GOAL: &str = "find a boat to Zanzibar for the wedding guests";
const ANSWER: &str = "Aunt Eleonora pays for the boat";
const LINE: &str = "the captain drinks";
/// How many commits the journal has besides the first, and how many bytes of an answer each: more than is erased at a
/// time.
const COMMITS: usize = 24;
const ANSWER_BYTES: usize = 256 * 1024;
/// How many entries stand on its page: more than are erased at a time.
const ENTRIES: usize = 600;

/// Writes a run that has ended, with a long journal and a long page; `number` tells several of them apart.
async fn a_long_run(house: &House, number: u32) -> RunId {
    let name = number.to_string();
    let (run, page) = (RunId::derived(&["run", &name]), PageId::derived(&["page", &name]));
    let mut fields = PageFields::new(PageRole::ScratchpadRoot, GOAL, Owner::agent());
    fields.run = Some(run);
    let mut changes = vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))];
    for n in 0..ENTRIES {
        let mut fields = EntryFields::new(EntryKind::Log, Owner::agent(), Trust::User);
        fields.body = format!("{LINE}, {n}");
        changes.push(Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["entry", &name, &n.to_string()]),
            page,
            kind: EntryKind::Log,
            fields,
        })));
    }
    let begun = Event::RunStarted {
        format: FORMAT,
        goal: GOAL.to_owned(),
        plan: json!({"steps": []}),
        inputs: [("who".to_owned(), json!("all the guests of Aunt Eleonora"))].into(),
        deadline: None,
        run: json!({}),
    };
    append(house, run, begun, (Run::RUNNING, Some(GOAL)), changes).await;
    for n in 0..COMMITS {
        let answered = Event::CancelRequested {
            node: None,
            by: format!("{n}: {}", ANSWER.repeat(ANSWER_BYTES / ANSWER.len())),
        };
        append(house, run, answered, ("cancelled", None), Vec::new()).await;
    }
    run
}

async fn append(house: &House, run: RunId, event: Event, row: (&str, Option<&str>), changes: Vec<Change>) {
    let (status, title) = row;
    let write = Write {
        run: Some(RunAppend {
            run,
            events: vec![event],
            status: Some(status.to_owned()),
            title: title.map(str::to_owned),
            so_far: None,
        }),
        ..Write::of(changes)
    };
    house.workspace.record(&human(), write).await.unwrap();
}

fn of(run: RunId) -> ForgetFilter {
    ForgetFilter {
        runs: vec![Ref::Id(run)],
        ..ForgetFilter::default()
    }
}

#[tokio::test]
async fn forgotten_run_leaves_no_byte_in_the_file_and_none_for_another_process_m7_6_50() {
    let house = House::new();
    let run = a_long_run(&house, 1).await;
    let note = TraceNote::new(house.now(), &human().in_run(run), "run", "wait");
    house.workspace.note(note.with_detail(json!({"text": GOAL})));
    house.workspace.flush_trace().await.unwrap();
    for text in [GOAL, ANSWER, LINE] {
        assert!(house.holds(text), "{text}");
    }
    // The other one has read all of it.
    let other = House::at(&house.path, 2);
    assert_eq!(other.workspace.run(Ref::Id(run)).await.unwrap().title, GOAL);
    assert_eq!(
        other.workspace.journal(run, Seq(0)).await.unwrap().events.len(),
        COMMITS + 1
    );

    let forgotten = house
        .workspace
        .forget(&human(), &of(run), "she asked for it")
        .await
        .unwrap();

    assert_eq!(forgotten.residue.found, Vec::<String>::new());
    assert_eq!((forgotten.runs.len(), forgotten.entries.len()), (1, 0));
    for gone in [GOAL, ANSWER, LINE, "Eleonora", "anzibar"] {
        assert!(!house.holds(gone), "{gone}");
    }
    for workspace in [&house.workspace, &other.workspace] {
        let refused = [
            workspace.run(Ref::Id(run)).await.unwrap_err(),
            workspace.journal(run, Seq(0)).await.unwrap_err(),
        ];
        for refused in refused {
            assert_eq!((refused.code(), refused.kind()), ("run_forgotten", ErrorKind::NotFound));
        }
        let rows = workspace.runs(&RunQuery::default()).await.unwrap();
        assert_eq!((rows[0].title.as_str(), rows[0].status.as_str()), ("", Run::FORGOTTEN));
        let known = rows[0].forgotten.as_ref().unwrap();
        assert_eq!((known.left.status.as_str(), known.left.events), ("cancelled", 25));
    }
    house.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgetting_a_run_that_is_killed_midway_is_completed_by_the_next_call_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let mut house = House::at(&path, 1);
    for round in 0..4 {
        let run = a_long_run(&house, round).await;
        let mut process = Process::start(
            "forget_run::child_forgets_a_run",
            &path,
            u16::try_from(round).unwrap() + 2,
        );
        assert!(process.next_line().is_some());
        // Somewhere in the middle, or before it, or behind it.
        for _ in 0..round * 40 {
            house.workspace.head().await.unwrap();
        }
        process.kill();
        house.assert_sound().await;
        // Its journal is whole, or nobody reads it.
        match house.workspace.journal(run, Seq(0)).await {
            Ok(journal) => assert_eq!(journal.events.len(), COMMITS + 1),
            Err(refused) => assert_eq!(refused.code(), "run_forgotten"),
        }
        let residue = house
            .workspace
            .forget(&human(), &of(run), "again")
            .await
            .unwrap()
            .residue;
        assert_eq!(residue.found, Vec::<String>::new());
        house.assert_sound().await;
    }
    house.folder = Some(folder);
    for gone in [GOAL, ANSWER, LINE] {
        assert!(!house.holds(gone), "{gone}");
    }
}

#[tokio::test]
#[ignore = "runs in a process of its own, started by the test above"]
async fn child_forgets_a_run() {
    let Some(orders) = orders() else { return };
    let house = House::at(&orders.path, orders.number);
    let number = u32::from(orders.number) - 2;
    say("ready");
    let run = RunId::derived(&["run", &number.to_string()]);
    house.workspace.forget(&human(), &of(run), "a run").await.unwrap();
}
