//! Forks of runs, in a real store.

use std::pin::pin;
use std::sync::Arc;

use folio_engine::run::ForkAt;
use folio_engine::{NodeResult, Outcome, plan, projection};
use folio_memory::id::Ref;
use folio_memory::{Actor, PageQuery, Role, RunId, Seq, SpaceName, ThreadKey};
use folio_runner::{ForkOptions, Forked, NewRun, Runner, RunnerError, RunnerOptions, left_folders};
use folio_store::sqlite::OpenOptions;
use folio_store::workspace::TraceQuery;
use folio_store::{RandomIds, RunQuery, SqliteStore, Store, StoreError, SystemClock, Workspace};
use folio_testkit::{Fault, FaultyStore};
use folio_tools::Registry;
use futures_util::FutureExt as _;
use serde_json::{Value, json};

struct House {
    runner: Runner,
    store: Arc<FaultyStore>,
    folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&OpenOptions::at(folder.path().join("folio.db"))).unwrap();
        let store = Arc::new(FaultyStore::new(store));
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
        let workspace = Workspace::new(Arc::clone(&store) as Arc<dyn Store>, clock, ids, SpaceName::main());
        let options = RunnerOptions {
            run_folders: Some(folder.path().join("runs")),
            ..RunnerOptions::default()
        };
        let runner = Runner::new(workspace, Registry::with_builtins(), options);
        Self { runner, store, folder }
    }

    async fn run(&self, plan: &Value) -> (RunId, NodeResult) {
        let plan = plan::parse(&plan.to_string(), &self.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
        let (run, _) = self.runner.submit(new).await.unwrap();
        (run, self.runner.drive(run).await.unwrap())
    }

    async fn fork(&self, run: RunId, path: &str) -> Result<Forked, RunnerError> {
        self.fork_by("test", run, path).await
    }

    async fn fork_by(&self, name: &str, run: RunId, path: &str) -> Result<Forked, RunnerError> {
        let source = self.runner.load(run).await.unwrap();
        let at = ForkAt::Node(source.node_at(path).unwrap().id);
        let by = Actor::new(Role::Human, name);
        let forking = self.runner.fork(run, at, ThreadKey::main(), by, ForkOptions::default());
        Box::pin(forking).await
    }

    /// What calls wrote on the pages of `run`: the title of each page, and the text.
    async fn written(&self, run: RunId) -> Vec<(String, String)> {
        let workspace = self.runner.workspace();
        let query = PageQuery {
            run: Some(run),
            ..PageQuery::default()
        };
        let mut written = Vec::new();
        for page in workspace.store().pages(workspace.space(), &query).await.unwrap() {
            let entries = workspace.page_entries(Ref::Id(page.id)).await.unwrap();
            // The rest follows from the journal.
            let of_calls = entries.into_iter().filter(|entry| entry.fields.source.run.is_some());
            written.extend(of_calls.map(|entry| {
                assert_eq!(entry.fields.source.run, Some(run));
                (page.fields.title.clone(), entry.fields.body)
            }));
        }
        written.sort();
        written
    }

    /// The events of `run` as the trace has them: their names, by whom, and why if that is said.
    async fn traced(&self, run: RunId) -> Vec<(String, String, Option<String>)> {
        let query = TraceQuery {
            run: Some(Ref::Id(run)),
            component: Some("engine".to_owned()),
            limit: 500,
            ..TraceQuery::default()
        };
        let lines = self.runner.workspace().trace(query).await.unwrap();
        let reason = |detail: Option<Value>| Some(detail?.get("reason")?.as_str()?.to_owned());
        lines
            .into_iter()
            .map(|line| (line.operation, line.source, reason(line.detail)))
            .collect()
    }

    /// Checks who did what in `fork`, which `by` forked and nobody drove, before its second step of two.
    async fn check_copied(&self, fork: RunId, by: &str) {
        let traced = self.traced(fork).await;
        let (own, copied) = traced.split_first().unwrap();
        assert_eq!(*own, ("run_started".to_owned(), by.to_owned(), None));
        let copy = || Some("copied from r1".to_owned());
        let expected = [
            ("paused", "bob"),
            ("continued", "bob"),
            ("expanded", "runner"),
            ("started", "runner"),
            ("finished", "runner"),
        ];
        let expected = expected.map(|(event, source)| (event.to_owned(), source.to_owned(), copy()));
        assert_eq!(copied, expected);
        // So do the entries that follow from the events.
        let workspace = self.runner.workspace();
        let main = Ref::Id(projection::main_page(fork));
        let mut told = Vec::new();
        for entry in workspace.page_entries(main).await.unwrap() {
            let version = workspace.versions(Ref::Id(entry.id)).await.unwrap().remove(0);
            told.push((entry.fields.title, version.actor.to_string(), version.reason));
        }
        assert_eq!(told[0], ("Goal".to_owned(), format!("human:{by}"), None));
        assert_eq!((told[1].1.as_str(), &told[1].2), ("human:bob", &copy()));
        let last = told.last().unwrap();
        assert_eq!((last.1.as_str(), &last.2), ("planner:runner", &copy()));
    }

    fn folder_of(&self, run: RunId) -> std::path::PathBuf {
        self.folder.path().join("runs").join(run.to_string())
    }

    /// The last commit, and how many runs and pages there are.
    async fn seen(&self) -> (Seq, usize, u64) {
        let (store, space) = (self.runner.workspace().store(), self.runner.workspace().space());
        let runs = store.runs(space, &RunQuery::default()).await.unwrap();
        let pages = store.page_count(space, &PageQuery::default()).await.unwrap();
        (store.head(space).await.unwrap(), runs.len(), pages)
    }

    /// The number of commits with the journal of `run`.
    async fn commits_of(&self, run: RunId) -> usize {
        let (store, space) = (self.runner.workspace().store(), self.runner.workspace().space());
        let log = store.changes(space, Seq(0), 10_000).await.unwrap();
        let of = |row: &&folio_store::LogRow| row.record.run.as_ref().is_some_and(|append| append.run == run);
        log.iter().filter(of).count()
    }
}

/// A file, a list of many items, and a last step.
fn long() -> Value {
    let items: Vec<u32> = (0..900).collect();
    json!({"title": "Many", "budget": {"nodes": 5_000}, "steps": [
        {"id": "file", "do": {"tool": "write", "args": {"path": "a.md", "content": "a", "mode": "create"}}},
        {"id": "many", "for_each": items, "max_items": 1_000,
         "step": {"id": "one", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ item }}"}}}},
        {"id": "last", "do": {"tool": "text", "args": {"op": "echo", "value": "{{ results.many.output | length }}"}}},
    ]})
}

#[tokio::test]
async fn long_fork_spans_several_commits_and_replays_without_differences() {
    let house = House::new();
    let (run, result) = house.run(&long()).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let forked = house.fork(run, "last").await.unwrap();
    assert!(house.commits_of(forked.id).await > 1);
    assert!(house.folder_of(forked.id).join("a.md").exists());
    let (source, fork) = (
        house.runner.load(run).await.unwrap(),
        house.runner.load(forked.id).await.unwrap(),
    );
    assert_eq!(fork.len(), source.len());
    assert_eq!(fork.variable()["forked_from"]["node"], json!("last"));
    let replayed = house.runner.replay(forked.id).await.unwrap();
    assert_eq!(replayed.differences, Vec::<String>::new());
    let again = house.runner.drive(forked.id).await.unwrap();
    assert_eq!((again.status, &again.output), (Outcome::Ok, &result.output));
    let replayed = house.runner.replay(forked.id).await.unwrap();
    assert_eq!(replayed.differences, Vec::<String>::new());
    let checkup = house.store.check().await.unwrap();
    assert_eq!(checkup.problems, Vec::<String>::new());
}

#[tokio::test]
async fn failed_fork_leaves_no_run_page_or_folder() {
    let house = House::new();
    let (run, _) = house.run(&long()).await;
    let before = house.seen().await;
    house.store.fail_next(Fault::NotWritten);
    let refused = house.fork(run, "last").await.unwrap_err();
    assert!(
        matches!(refused, RunnerError::Store(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(house.seen().await, before);
    let folders = std::fs::read_dir(house.folder.path().join("runs")).unwrap();
    assert_eq!(folders.count(), 1, "that of the other run");
}

#[tokio::test]
async fn dropped_fork_leaves_no_run_or_page() {
    let house = House::new();
    let (run, _) = house.run(&long()).await;
    let (_, runs, pages) = house.seen().await;
    let mut dropped = 0;
    for looks in [1, 10, 100, 1_000] {
        let is_over = {
            let mut fork = pin!(house.fork(run, "last"));
            let mut is_over = false;
            for _ in 0..looks {
                is_over = is_over || fork.as_mut().now_or_never().is_some();
                tokio::task::yield_now().await;
            }
            is_over
        };
        if !is_over {
            let (_, there, written) = house.seen().await;
            assert_eq!((there, written), (runs, pages), "after {looks} looks");
            dropped += 1;
        }
    }
    assert!(dropped > 0, "every fork was over before it was dropped");
    let forked = house.fork(run, "last").await.unwrap();
    assert_eq!(house.runner.drive(forked.id).await.unwrap().status, Outcome::Ok);
    let checkup = house.store.check().await.unwrap();
    assert_eq!(checkup.problems, Vec::<String>::new());
}

#[tokio::test]
async fn fork_has_the_run_files_as_of_its_moment() {
    let house = House::new();
    let write = |id: &str, path: &str, mode: &str| {
        let args = json!({"path": path, "content": format!("{id}\n"), "mode": mode});
        json!({"id": id, "do": {"tool": "write", "args": args}})
    };
    let plan = json!({"title": "Write a log", "steps": [
        write("first", "log/a.md", "create"),
        write("second", "log/a.md", "append"),
        write("third", "later.md", "create"),
        {"id": "read", "do": {"tool": "read", "args": {"path": "{{ results.first.output.path }}"}}},
    ]});
    let (run, result) = house.run(&plan).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let there = |run: RunId, path: &str| std::fs::read_to_string(house.folder_of(run).join(path)).ok();

    let forked = house.fork(run, "second").await.unwrap();
    assert_eq!(
        there(forked.id, "log/a.md").as_deref(),
        Some("first\n"),
        "as it was then"
    );
    assert_eq!((there(forked.id, "later.md"), &forked.files), (None, &None));
    let result = house.runner.drive(forked.id).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    for run in [run, forked.id] {
        assert_eq!(there(run, "log/a.md").as_deref(), Some("first\nsecond\n"));
    }

    // Whoever goes on on another machine does not have them.
    std::fs::remove_dir_all(house.folder_of(run)).unwrap();
    let forked = house.fork(run, "read").await.unwrap();
    let words = forked.files.unwrap_or_default();
    assert!(
        words.starts_with("its files are not there: there is no folder /"),
        "{words}"
    );
    let fork = house.runner.load(forked.id).await.unwrap();
    assert_eq!(fork.variable()["forked_from"]["files"], json!(words));
}

#[tokio::test]
async fn folder_left_by_a_killed_fork_is_found_and_removed() {
    let house = House::new();
    let (run, _) = house.run(&long()).await;
    let runs = house.folder.path().join("runs");
    let forked = house.fork(run, "last").await.unwrap();
    let names = std::fs::read_dir(&runs).unwrap().count();
    assert_eq!(names, 2, "those of both runs, and no mark");
    let (store, now) = (&*house.store, house.store.clock().now().as_nanos());
    let mark = |run: RunId, store: &str, at: i64| {
        std::fs::create_dir_all(house.folder_of(run).join("deep")).unwrap();
        let text = json!({"store": store, "space": "main", "at": at}).to_string();
        std::fs::write(runs.join(format!("{run}.forking")), text).unwrap();
    };
    let [killed, young, of_another] = [1, 2, 3].map(|byte| RunId::from_bytes([byte; 16]));
    mark(killed, &store.location(), 0);
    std::fs::create_dir(runs.join(format!("{killed}.new"))).unwrap();
    mark(young, &store.location(), now);
    mark(of_another, "another.db", 0);
    mark(forked.id, &store.location(), 0);
    let left = left_folders(&runs, store, None).await.unwrap();
    assert_eq!(
        left.iter().map(|left| &left.path).collect::<Vec<_>>(),
        [&house.folder_of(killed)]
    );
    left[0].remove().unwrap();
    let there = |run| {
        (
            house.folder_of(run).exists(),
            runs.join(format!("{run}.forking")).exists(),
        )
    };
    assert_eq!(there(killed), (false, false));
    assert!(!runs.join(format!("{killed}.new")).exists());
    assert_eq!((there(young), there(of_another)), ((true, true), (true, true)));
    assert_eq!(there(forked.id), (true, false), "it began");
}

#[tokio::test]
async fn fork_has_what_kept_calls_wrote_on_pages_once_and_leaves_its_source_alone() {
    let house = House::new();
    let append = |id: &str, page: &str| json!({"id": id, "do": {"tool": "page_append", "args": {"page": page, "body": format!("by {id}")}}});
    let plan = json!({"title": "Write", "steps": [
        append("own", "own"),
        append("main", "main"),
        {"id": "each", "for_each": ["a"], "step": append("one", "own")},
        append("note", "Findings"),
        append("again", "Findings"),
        {"id": "last", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}},
    ]});
    let (run, result) = house.run(&plan).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let all = house.written(run).await;
    let pages: Vec<&str> = all.iter().map(|(page, _)| page.as_str()).collect();
    assert_eq!(pages, ["Findings", "Findings", "Main scratchpad", "one", "own"]);

    let forked = house.fork(run, "again").await.unwrap().id;
    let kept: Vec<_> = all.iter().filter(|(_, text)| text != "by again").cloned().collect();
    assert_eq!(house.written(forked).await, kept);
    assert_eq!(house.runner.drive(forked).await.unwrap().status, Outcome::Ok);
    assert_eq!(house.written(forked).await, all);
    // What was copied is copied again.
    let second = house.fork(forked, "last").await.unwrap().id;
    assert_eq!(house.written(second).await, all);
    assert_eq!(house.runner.drive(second).await.unwrap().status, Outcome::Ok);
    for run in [run, forked, second] {
        assert_eq!(house.written(run).await, all);
        assert_eq!(
            house.runner.replay(run).await.unwrap().differences,
            Vec::<String>::new()
        );
    }
    assert_eq!(house.store.check().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn copied_events_are_of_whoever_did_them_and_name_the_run_where_they_did() {
    let house = House::new();
    let plan = json!({"title": "Two", "steps": [
        {"id": "one", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}},
        {"id": "two", "do": {"tool": "text", "args": {"op": "echo", "value": 2}}},
    ]});
    let plan = plan::parse(&plan.to_string(), &house.runner.known()).unwrap();
    let (run, _) = house
        .runner
        .submit(NewRun::of(plan, Actor::new(Role::Human, "ada")))
        .await
        .unwrap();
    let bob = Actor::new(Role::Human, "bob");
    house.runner.pause(run, None, &bob).await.unwrap();
    house.runner.go_on(run, None, &bob).await.unwrap();
    house.runner.drive(run).await.unwrap();
    let first = house.fork_by("carl", run, "two").await.unwrap().id;
    house.check_copied(first, "carl").await;
    house.runner.drive(first).await.unwrap();
    let second = house.fork_by("dora", first, "two").await.unwrap().id;
    house.check_copied(second, "dora").await;
    // What the source says stays as it was.
    assert!(house.traced(run).await.iter().all(|(_, _, reason)| reason.is_none()));
}

#[tokio::test]
async fn page_of_the_source_that_a_kept_step_names_is_the_page_of_the_fork_in_its_place() {
    let house = House::new();
    let append = |id: &str, page: &str| json!({"id": id, "do": {"tool": "page_append", "args": {"page": page, "body": format!("by {id}")}}});
    // The main page, and the page of the plan.
    let plan = json!({"title": "Write", "steps": [append("a", "own"), append("main", "p2"), append("plan", "p3")]});
    let (run, result) = house.run(&plan).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let all = house.written(run).await;
    assert_eq!(all[0].0, "Main scratchpad");
    let forked = house.fork(run, "main").await.unwrap().id;
    let result = house.runner.drive(forked).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(
        (house.written(run).await, house.written(forked).await),
        (all.clone(), all)
    );
}

#[tokio::test]
async fn page_of_the_first_run_is_that_of_a_fork_of_its_fork() {
    let house = House::new();
    let append = |id: &str, page: &str| json!({"id": id, "do": {"tool": "page_append", "args": {"page": page, "body": format!("by {id}")}}});
    // The main page, and the page of the plan.
    let plan = json!({"title": "Write", "steps": [append("a", "own"), append("main", "p2"), append("plan", "p3")]});
    let (run, _) = house.run(&plan).await;
    let all = house.written(run).await;
    let forked = house.fork(run, "plan").await.unwrap().id;
    house.runner.drive(forked).await.unwrap();
    let again = house.fork(forked, "main").await.unwrap().id;
    let result = house.runner.drive(again).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    for run in [run, forked, again] {
        assert_eq!(house.written(run).await, all, "{run}");
    }
}
