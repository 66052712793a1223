use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_engine::{Event, Run};
use folio_memory::id::Ref;
use folio_memory::keeping::RunTombstone;
use folio_memory::observation::ObservationInput;
use folio_memory::{Actor, Change, Role, RunId, Seq, Timestamp};
use serde_json::json;

use super::*;
use crate::Workspace;
use crate::commit::{Blob, Commit, Record, RunAppend};
use crate::rewritten::RUN_PART_BYTES;
use crate::store::Store;
use crate::system::{RandomIds, SystemClock};
use crate::upkeep::Compaction;
use crate::workspace::ForgetFilter;

#[test]
fn store_can_be_reopened_after_its_threads_failed_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::at(folder.path().join("folio.db"));
    for allowed in 0..2 {
        let mut started = 0;
        let refused = SqliteStore::open_with(&options, &mut |_, work| {
            started += 1;
            if started > allowed {
                return Err(std::io::Error::from_raw_os_error(11));
            }
            std::thread::Builder::new().spawn(work)
        });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("no thread can be started"), "{refused}");
    }
    SqliteStore::open(&options).unwrap();
}

/// Until the reader is done, the file still has what the writer has erased, however often it is asked to.
#[tokio::test]
async fn forgetting_again_reports_a_file_that_somebody_still_reads_m7_6_50() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let store = SqliteStore::open(&OpenOptions::at(&path)).unwrap();
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let memory = Workspace::new(Arc::clone(&store) as Arc<dyn Store>, clock, ids, SpaceName::main());
    let person = Actor::new(Role::Human, "ada");
    let input = ObservationInput {
        content: "the wedding is in the old mill by the river".to_owned(),
        ..ObservationInput::default()
    };
    let entry = memory.add_observation(&person, input, None).await.unwrap().entry;
    let forget = async || {
        let filter = ForgetFilter {
            entries: vec![Ref::Id(entry.id)],
            ..ForgetFilter::default()
        };
        memory
            .forget(&person, &filter, "she asked for it")
            .await
            .unwrap()
            .residue
    };
    store.writer.set_patience(Duration::ZERO);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM log").unwrap();
    let first = forget().await;
    assert_eq!(first.found, [format!("free space of {}-wal", path.display())]);
    let second = forget().await;
    assert_eq!(second.no_longer_known, 1);
    let left = format!("free space of {}: another process is reading it", store.location());
    assert_eq!(second.found, [left]);

    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(forget().await.found, Vec::<String>::new());
}

/// A store with a run, each of whose commits names bodies.
struct Spoke {
    store: Arc<SqliteStore>,
    run: RunId,
}

impl Spoke {
    async fn new() -> Self {
        let (store, run) = (
            SqliteStore::open(&OpenOptions::in_memory()).unwrap(),
            RunId::derived(&["run"]),
        );
        let spoke = Self { store, run };
        let begins = Event::RunStarted {
            format: folio_engine::event::FORMAT,
            goal: String::new(),
            plan: json!({"steps": []}),
            inputs: BTreeMap::new(),
            deadline: None,
            run: json!({"title": ""}),
        };
        let append = RunAppend {
            title: Some(String::new()),
            ..spoke.append(vec![begins], Some(Run::RUNNING))
        };
        spoke.commit(Some(append), String::new(), Vec::new()).await;
        spoke
    }

    fn append(&self, events: Vec<Event>, status: Option<&str>) -> RunAppend {
        RunAppend {
            run: self.run,
            events,
            status: status.map(str::to_owned),
            title: None,
            so_far: None,
        }
    }

    async fn commit(&self, run: Option<RunAppend>, reason: String, blobs: Vec<Blob>) {
        let record = Record {
            run,
            reason: Some(reason),
            ..Record::of(Vec::new())
        };
        self.write(record, blobs).await;
    }

    async fn write(&self, record: Record, blobs: Vec<Blob>) {
        let commit = Commit {
            space: SpaceName::main(),
            at: Timestamp::from_millis(1),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: None,
            expected: Vec::new(),
            record,
            blobs,
        };
        self.store.commit(commit).await.unwrap();
    }

    /// Lets the run say something so long that nothing else is erased together with it, with a body that is named.
    async fn says(&self, body: &Blob) {
        let reason = format!("{} {}", body.hash(), "x".repeat(RUN_PART_BYTES));
        self.commit(Some(self.append(Vec::new(), None)), reason, vec![body.clone()])
            .await;
    }

    /// Marks the run as forgotten. What it said is still there.
    async fn is_forgotten(&self) {
        let ended = self.append(Vec::new(), Some("ok"));
        self.commit(Some(ended), String::new(), Vec::new()).await;
        let erase = Change::EraseRun {
            run: self.run,
            left: RunTombstone {
                status: "ok".to_owned(),
                ended_at: Timestamp::from_millis(1),
                events: 1,
                nodes: 0,
            },
        };
        let record = Record {
            run: Some(self.append(Vec::new(), Some(Run::FORGOTTEN))),
            ..Record::of(vec![erase])
        };
        self.write(record, Vec::new()).await;
    }

    async fn erase_part(&self, after: Seq) -> Option<Seq> {
        self.store
            .erase_run_part(&SpaceName::main(), self.run, after)
            .await
            .unwrap()
    }

    async fn has(&self, body: &Blob) -> bool {
        self.store.blob(&SpaceName::main(), body.hash()).await.is_ok()
    }
}

fn body(text: &str) -> Blob {
    Blob::new(text.as_bytes().to_vec())
}

#[tokio::test]
async fn part_of_a_forgotten_run_is_erased_without_a_search_through_the_log() {
    let mut steps = Vec::new();
    for others in [10, 2_000] {
        let spoke = Spoke::new().await;
        for _ in 0..others {
            spoke.commit(None, "another commit".to_owned(), Vec::new()).await;
        }
        spoke.says(&body("one")).await;
        spoke.says(&body("two")).await;
        spoke.is_forgotten().await;
        let counted = spoke.store.writer.count_steps();
        spoke.erase_part(Seq(0)).await.expect("there is more");
        steps.push(counted.load(Ordering::SeqCst));
    }
    assert!(steps[1] <= steps[0] + steps[0] / 10 + 1, "{steps:?} hundreds of steps");
}

#[tokio::test]
async fn bodies_of_a_forgotten_run_go_with_its_last_part_unless_others_name_them_m7_6_50() {
    let spoke = Spoke::new().await;
    let (own, shared, again) = (body("own"), body("shared"), body("again"));
    let keeps = format!("{} and {}", shared.hash(), "nothing");
    spoke.commit(None, keeps, vec![shared.clone()]).await;
    spoke.says(&own).await;
    spoke.says(&shared).await;
    spoke.says(&again).await;
    spoke.is_forgotten().await;
    let first = spoke.erase_part(Seq(0)).await.expect("there is more");
    spoke.erase_part(first).await.expect("there is more");
    // A long text that comes in pieces, and whose writer is gone before it is complete.
    spoke.write(Record::of(Vec::new()), vec![shared.clone()]).await;
    let tidy = Compaction {
        bury_until: None,
        give_up_until: Some(Timestamp::from_millis(1_000)),
        notes: None,
        limit: 100,
    };
    let tidied = spoke.store.compact(&SpaceName::main(), tidy).await.unwrap();
    assert_eq!(tidied.given_up, 0, "what they are is not known yet");
    // The process ends before the rest is erased, and another one begins anew.
    let mut after = Seq(0);
    while let Some(next) = spoke.erase_part(after).await {
        after = next;
    }
    let left = [&own, &shared, &again].map(|body| async { spoke.has(body).await });
    let [own, shared, again] = left;
    assert_eq!((own.await, shared.await, again.await), (false, true, false));
    let found = spoke.store.check().await.unwrap();
    assert!(found.problems.is_empty(), "{found:?}");
}
