//! Processes that write until every commit of theirs is acknowledged, and what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use folio_memory::{Change, PageRole, Seq, SpaceName};
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_store::{Store, StoreError};
use folio_testkit::SeededIds;
use folio_testkit::contract::scene::Scene;
use folio_testkit::process::{Process, orders, say};
use folio_testkit::whole_log;

/// The number of writing processes.
pub(crate) const PROCESSES: u16 = 8;
/// The number of commits of each process.
pub(crate) const COMMITS_PER_PROCESS: usize = 250;
/// How many tasks of each process write at the same time.
const AT_ONCE: usize = 5;
/// How long the processes may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes, and what they reported.
pub(crate) struct Writers {
    threads: Vec<JoinHandle<bool>>,
    heard: mpsc::Receiver<String>,
    told: WriterReports,
}

/// What the writers were told by their stores.
#[derive(Debug, Default)]
pub(crate) struct WriterReports {
    /// The acknowledged commits by their keys.
    acknowledged: BTreeMap<String, u64>,
    /// How often a writer got `Unavailable`.
    pub(crate) unavailable: usize,
    /// How many commits had been made although their writer had got `Unavailable`.
    pub(crate) found: usize,
    /// The longest that a writer waited for an answer, in milliseconds.
    longest: u128,
    reasons: BTreeSet<String>,
}

impl fmt::Display for WriterReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{PROCESSES} processes had {} commits acknowledged, got Unavailable {} times and found {} of these made; the longest wait was {} ms",
            self.acknowledged.len(),
            self.unavailable,
            self.found,
            self.longest
        )
    }
}

impl Writers {
    /// Starts them on the database at `url`.
    pub(crate) fn start(url: &str) -> Self {
        let (sender, heard) = mpsc::channel();
        let threads = (1..=PROCESSES).map(|number| {
            let mut process = Process::start("writers::child_writes_its_share", Path::new(url), number);
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(line) = process.next_line() {
                    if sender.send(line).is_err() {
                        // Whoever listened has failed; the process ends with this.
                        return false;
                    }
                }
                process.wait_for_success()
            })
        });
        Self {
            threads: threads.collect(),
            heard,
            told: WriterReports::default(),
        }
    }

    /// Waits until so many commits are acknowledged.
    pub(crate) fn wait_for(&mut self, commits: usize) {
        while self.told.acknowledged.len() < commits {
            assert!(self.hear(), "the writers have ended");
        }
    }

    /// Waits until one of them was refused for a reason that says `words`.
    pub(crate) fn wait_for_refusal(&mut self, words: &str) {
        // What was said before counts for nothing.
        while self.heard.try_recv().is_ok_and(|line| self.told.take(&line)) {}
        self.told.reasons.clear();
        while !self.told.reasons.iter().any(|reason| reason.contains(words)) {
            assert!(self.hear(), "the writers have ended");
        }
    }

    /// Waits until all have ended well.
    pub(crate) fn end(mut self) -> WriterReports {
        while self.hear() {}
        for thread in self.threads {
            assert!(thread.join().expect("a thread that listens"), "a writer has failed");
        }
        self.told
    }

    fn hear(&mut self) -> bool {
        match self.heard.recv_timeout(PATIENCE) {
            Ok(line) => self.told.take(&line),
            Err(mpsc::RecvTimeoutError::Disconnected) => false,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing was heard for {PATIENCE:?}: {}", self.told),
        }
    }
}

impl WriterReports {
    fn take(&mut self, line: &str) -> bool {
        let words: Vec<_> = line.splitn(6, ' ').collect();
        match words.as_slice() {
            ["acknowledged", key, seq, found, waited] => {
                let seq = seq.parse().expect("a number");
                assert_eq!(self.acknowledged.insert((*key).to_owned(), seq), None, "{key} twice");
                self.found += usize::from(*found == "true");
                self.longest = self.longest.max(waited.parse().expect("a number"));
            }
            ["unavailable", ..] => {
                self.unavailable += 1;
                self.reasons.insert(line.to_owned());
            }
            _ => panic!("a writer says {line:?}"),
        }
        true
    }

    /// Compares the reports with the database at `url`: it has each commit once, where its writer was told, and
    /// nothing else.
    pub(crate) async fn assert_matches_database(&self, url: &str) {
        let store = PostgresStore::open(&OpenOptions::at(url)).expect("a store");
        let space = SpaceName::main();
        let rows = whole_log(&*store, &space).await.expect("the log");
        assert!(
            rows.iter().zip(1..).all(|(row, number)| row.seq == Seq(number)),
            "there is a gap"
        );
        let there: BTreeMap<String, u64> = rows
            .iter()
            .map(|row| (row.idempotency_key.clone().expect("a key"), row.seq.0))
            .collect();
        assert_eq!(there.len(), rows.len(), "a commit is there twice");
        assert_eq!(there, self.acknowledged);
        assert_eq!(there.len(), usize::from(PROCESSES) * COMMITS_PER_PROCESS);
        assert_eq!(store.check().await.expect("a checkup").problems, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs in a process of its own, started by other tests"]
async fn child_writes_its_share() {
    let Some(orders) = orders() else { return };
    let url = orders.path.to_str().expect("a URL").to_owned();
    let number = orders.number;
    let store = loop {
        match PostgresStore::open(&OpenOptions::at(&url)) {
            Ok(store) => break store,
            Err(StoreError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let scene = std::sync::Arc::new(Scene {
        ids: SeededIds::new(number),
        ..Scene::on(store)
    });
    let writers = (0..AT_ONCE).map(|writer| {
        let scene = std::sync::Arc::clone(&scene);
        tokio::spawn(async move {
            let page = scene.page(PageRole::Note);
            for turn in (writer..COMMITS_PER_PROCESS).step_by(AT_ONCE) {
                let key = format!("{number}/{turn}");
                let note = scene.note(page.id, &key);
                let changes = vec![
                    Change::EnsurePage(Box::new(page.clone())),
                    Change::AddEntry(Box::new(note)),
                ];
                commit(&scene, &key, changes).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
}

/// Commits until there is an answer, with the same key each time.
async fn commit(scene: &Scene, key: &str, changes: Vec<Change>) {
    let mut was_unavailable = false;
    loop {
        let begun = tokio::time::Instant::now();
        match scene.commit_as(key, changes.clone()).await {
            Ok(committed) => {
                let found = committed.replayed;
                assert!(was_unavailable || !found, "{key} was made before it was asked for");
                let (seq, waited) = (committed.seq, begun.elapsed().as_millis());
                return say(format!("acknowledged {key} {seq} {found} {waited}"));
            }
            Err(StoreError::Unavailable { reason, .. }) => {
                was_unavailable = true;
                say(format!("unavailable {reason}"));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{key}: {error}"),
        }
    }
}
