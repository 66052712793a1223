//! A server that looks again and again for runs whose process is gone (E9.9).

use std::sync::Arc;

use folio_engine::plan;
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_runner::{NewRun, Runner, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{
    Commit, ErrorKind, Expected, RandomIds, Record, RunAppend, SqliteStore, Store, SystemClock, Workspace,
};
use folio_testkit::FaultyStore;
use folio_tools::Registry;

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

struct House {
    store: Arc<FaultyStore>,
    runner: Runner,
}

impl House {
    fn new() -> Self {
        let inner = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let store = Arc::new(FaultyStore::new(inner));
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(shared, Arc::new(SystemClock), ids, SpaceName::main());
        let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
        Self { store, runner }
    }

    async fn submit(&self) -> RunId {
        let text = "title: Later\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
        let plan = plan::parse(text, &plan::Known::default()).unwrap();
        self.runner.submit(NewRun::of(plan, ada())).await.unwrap().0
    }

    /// Writes to the journal as versions did whose commits do not say what lists show.
    async fn write_as_earlier(&self, run: RunId) {
        let workspace = self.runner.workspace();
        let row = workspace.run(folio_memory::id::Ref::Id(run)).await.unwrap();
        let append = RunAppend {
            run,
            events: vec![folio_engine::Event::Paused {
                node: None,
                by: "ada".to_owned(),
            }],
            status: None,
            title: None,
            so_far: None,
        };
        let commit = Commit {
            space: SpaceName::main(),
            at: workspace.now(),
            actor: ada(),
            idempotency_key: None,
            expected: vec![Expected::RunHead {
                run,
                head: row.head,
                fence: None,
            }],
            record: Record {
                run: Some(append),
                ..Record::of(Vec::new())
            },
            blobs: Vec::new(),
        };
        workspace.commit(commit).await.unwrap();
    }

    /// Of how many runs was asked, and how many parts of journals were read, in one look.
    async fn look(&self) -> (usize, u64) {
        let (asked, read) = (self.store.summaries_asked(), self.store.journals_read());
        self.runner.leftovers().await.unwrap();
        (self.store.summaries_asked() - asked, self.store.journals_read() - read)
    }
}

#[tokio::test]
async fn runs_that_have_not_changed_are_not_read_again_e9_9() {
    let house = House::new();
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(house.submit().await);
    }
    house.write_as_earlier(runs[0]).await;
    let (asked, read) = house.look().await;
    assert!(asked == 4 && read > 0, "{asked} {read}");
    assert_eq!(house.look().await, (0, 0));
    let paused = house.runner.leftovers().await.unwrap();
    assert!(paused[0].summary.paused && !paused[1].summary.paused);
    // One that changed is read again, and so is a new one; what has ended is forgotten.
    house.runner.pause(runs[1], None, &ada()).await.unwrap();
    house.submit().await;
    house.runner.drive(runs[2]).await.unwrap();
    assert_eq!(house.look().await.0, 2);
    assert_eq!(house.look().await, (0, 0));
    assert!(house.runner.leftovers().await.unwrap()[1].summary.paused);
}

#[tokio::test]
async fn run_that_could_not_be_read_is_read_at_the_next_look_e9_9() {
    let house = House::new();
    let run = house.submit().await;
    house.write_as_earlier(run).await;
    house.store.fail_journals(1);
    let error = house.runner.load(run).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    house.store.fail_journals(1);
    assert!(!house.runner.leftovers().await.unwrap()[0].summary.paused);
    assert!(house.runner.leftovers().await.unwrap()[0].summary.paused);
}
