//! Workers with Restate, while they, Restate, PostgreSQL and the network between them are killed, stopped and cut off:
//! every run ends well, and nothing is done twice that its tool does not allow to be done twice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_testkit::cluster::{Cluster, ClusterOptions};
use folio_testkit::restate::Restate;
use rustix::process::Signal;
use serde_json::json;
use support::working::{Worker, plan_of, submitting, worker};
use support::{Folio, Running};

/// How many runs there are at the same time.
const RUNS: usize = 8;
/// The rounds of one run: each waits, notes something, and has an external effect that must not happen twice.
const ROUNDS: usize = 25;
/// As many as last longer than a fault that is over within a second.
const FEW_ROUNDS: usize = 15;

/// Everything that runs need.
struct World {
    folio: Folio,
    postgres: Cluster,
    restate: Restate,
    /// The address on which all workers listen.
    listen: String,
    /// The address at which Restate reaches them.
    advertise: String,
    workers: Vec<Worker>,
    submitted: Vec<Running>,
    rounds: usize,
    /// How many nodes had ended when the fault was injected.
    before: usize,
}

impl World {
    fn new(restate: Restate) -> Self {
        let listen = free_address();
        let mut world = Self {
            folio: Folio::new(),
            postgres: Cluster::start(ClusterOptions::default()),
            restate,
            advertise: format!("http://{listen}"),
            listen,
            workers: Vec::new(),
            submitted: Vec::new(),
            rounds: ROUNDS,
            before: 0,
        };
        // The tables are there before several come.
        world.folio.ok(&["--store", &world.store(), "runs"]);
        for _ in 0..2 {
            world.start_worker();
        }
        world
    }

    /// The nodes of all runs: three per round, and the root of each.
    fn nodes(&self) -> usize {
        RUNS * (3 * self.rounds + 1)
    }

    /// The store, with a lease short enough for tests.
    fn store(&self) -> String {
        format!("{}&lease=2", self.postgres.url())
    }

    fn ingress(&self) -> String {
        format!("restate={}", self.restate.ingress(0))
    }

    /// Starts another worker; Restate knows it when this returns.
    fn start_worker(&mut self) {
        let (store, ingress, admin) = (self.store(), self.ingress(), self.restate.admin(0));
        let mut command = self.folio.process(&["--store", &store]);
        command.args(worker(&ingress, &self.listen, &admin));
        command.args(["--advertise", &self.advertise]);
        command.env("PATH", "/usr/bin:/bin");
        self.workers.push(Worker::start(&mut command));
    }

    /// Submits the runs without waiting for them.
    fn submit(&mut self) {
        for run in 0..RUNS {
            let name = format!("plan{run}.yaml");
            self.folio.file(&name, plan_of(run, self.rounds, 60, None));
            let (store, ingress) = (self.store(), self.ingress());
            let submitting = submitting(&ingress, &name);
            let submitted = self.folio.spawn(&[&["--store", &store], &submitting[..]].concat());
            self.submitted.push(submitted);
        }
        self.wait_until(|world| world.finished() > 2 * RUNS);
        self.before = self.finished();
        assert!(
            self.before < self.nodes() / 2,
            "they are too far already: {}",
            self.before
        );
    }

    /// How many nodes have ended, in all runs.
    fn finished(&self) -> usize {
        self.ask(
            "SELECT count(*) FROM log, jsonb_array_elements(log.record::jsonb -> 'run' -> 'events') AS event
             WHERE event ->> 'event' = 'finished'",
        )
        .parse()
        .unwrap()
    }

    fn ask(&self, sql: &str) -> String {
        self.postgres.ask(sql)
    }

    fn wait_until(&self, wanted: impl Fn(&Self) -> bool) {
        for _ in 0..1_200 {
            if wanted(self) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        panic!(
            "what was waited for did not come: {}",
            self.folio.ok(&["--store", &self.store(), "runs"])
        );
    }

    /// Waits until all runs have ended, and checks how often everything was done.
    #[expect(clippy::print_stdout, reason = "the counts are what is wanted to be known")]
    fn assert_all_done(&self, what: &str) {
        self.wait_until(|world| world.ask("SELECT count(*) FROM run WHERE status = 'running'") == "0");
        let ends = self.ask("SELECT count(*) FROM run WHERE status IN ('ok', 'partial')");
        assert_eq!(
            ends,
            RUNS.to_string(),
            "{}",
            self.folio.ok(&["--store", &self.store(), "runs"])
        );
        let count = |event: &str, which: &str| -> BTreeMap<String, u32> {
            let rows = self.ask(&format!(
                "SELECT (event ->> 'node') || ' ' || coalesce(event ->> 'call', '') FROM log,
                     jsonb_array_elements(log.record::jsonb -> 'run' -> 'events') AS event
                 WHERE event ->> 'event' = '{event}' {which}"
            ));
            let mut counts = BTreeMap::new();
            for row in rows.lines() {
                *counts.entry(row.to_owned()).or_default() += 1;
            }
            counts
        };
        let finished = count("finished", "");
        assert_eq!(finished.len(), self.nodes(), "every node has ended");
        assert!(finished.values().all(|times| *times == 1), "and once");
        let started = count("started", "");
        let again: Vec<&String> = started
            .iter()
            .filter(|(_, times)| **times > 1)
            .map(|(call, _)| call)
            .collect();
        assert!(
            again.iter().all(|call| !call.contains("shell")),
            "a command was begun twice: {again:?}"
        );
        let unknown = count(
            "finished",
            "AND event -> 'result' ->> 'stop_reason' = 'outcome_unknown'",
        )
        .len();
        // What writes to memory is written with its outcome: as often as there are rounds, whatever died.
        let seen = self
            .folio
            .json(&["--store", &self.store(), "observe", "list", "--limit", "1000"]);
        let mut notes: Vec<String> = seen["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["content"].to_string())
            .collect();
        notes.sort();
        let all = notes.len();
        notes.dedup();
        let rounds = RUNS * self.rounds;
        assert_eq!((all, notes.len()), (rounds, rounds));
        let posted = std::fs::read_to_string(self.folio.path().join("posted")).unwrap();
        let mut posts = BTreeMap::<&str, u32>::new();
        for line in posted.lines() {
            *posts.entry(line).or_default() += 1;
        }
        assert!(
            posts.values().all(|times| *times == 1),
            "a command had its effect twice"
        );
        assert!(
            posts.len() + unknown >= rounds,
            "an effect is missing without being called unknown"
        );
        let found = self.folio.json(&["--store", &self.store(), "doctor"]);
        assert_eq!(found["problems"], json!([]));
        println!(
            "{what}, when {} of {} nodes had ended: all ended, once; begun again, as their tools allow: {}; commands with an unknown \
             outcome: {unknown}, with two effects: 0",
            self.before,
            self.nodes(),
            again.len(),
        );
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

fn pause(millis: u64) {
    std::thread::park_timeout(Duration::from_millis(millis));
}

#[test]
fn runs_survive_repeated_worker_kills() {
    let mut world = World::new(Restate::start());
    world.rounds = FEW_ROUNDS;
    world.submit();
    for _ in 0..3 {
        world.workers.remove(0).kill();
        world.start_worker();
        pause(300);
    }
    world.assert_all_done("three workers killed");
}

#[test]
fn runs_survive_a_restate_server_kill_and_restart() {
    let mut world = World::new(Restate::start());
    world.rounds = FEW_ROUNDS;
    world.submit();
    world.restate.kill(0);
    pause(500);
    world.restate.start_again(0);
    world.assert_all_done("Restate killed and started again");
}

#[test]
fn runs_survive_killed_nodes_of_a_restate_cluster() {
    let mut world = World::new(Restate::three());
    world.submit();
    world.restate.kill(2);
    pause(2_000);
    world.restate.start_again(2);
    world.restate.kill(1);
    world.assert_all_done("one of three nodes killed, then another");
}

#[test]
fn runs_survive_workers_stalled_past_their_lease() {
    let mut world = World::new(Restate::start());
    world.submit();
    for worker in &world.workers {
        worker.signal(Signal::STOP);
    }
    world.start_worker();
    pause(6_000);
    for worker in &world.workers[..2] {
        worker.signal(Signal::CONT);
    }
    world.assert_all_done("both workers hung for six seconds, three times their lease, and a third came");
}

#[test]
fn runs_survive_a_database_kill_and_restart() {
    let mut world = World::new(Restate::start());
    world.rounds = FEW_ROUNDS;
    world.submit();
    world.postgres.kill();
    pause(1_000);
    world.postgres.start_again();
    world.assert_all_done("PostgreSQL killed and started again");
}

#[test]
fn runs_survive_a_network_cut_between_restate_and_workers() {
    let wire = CuttableProxy::new();
    let mut world = World {
        advertise: wire.advertise.clone(),
        listen: wire.to.clone(),
        ..World::new(Restate::start())
    };
    // Those that listened elsewhere.
    world.workers.clear();
    for _ in 0..2 {
        world.start_worker();
    }
    world.submit();
    wire.cut_connection();
    pause(4_000);
    wire.restore_connection();
    world.assert_all_done("the network between Restate and its workers cut for four seconds");
}

/// The connection between Restate and its workers. When cut, it swallows everything.
struct CuttableProxy {
    to: String,
    advertise: String,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl CuttableProxy {
    fn new() -> Self {
        let to = free_address();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let advertise = format!("http://{}", listener.local_addr().unwrap());
        let (is_cut, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let wire = Self {
            to: to.clone(),
            advertise,
            is_cut: Arc::clone(&is_cut),
            open: Arc::clone(&open),
        };
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let (Ok(from), Ok(onward)) = (from, TcpStream::connect(&to)) else {
                    continue;
                };
                let ends = [from.try_clone().unwrap(), onward.try_clone().unwrap()];
                open.lock().unwrap().extend(ends);
                let back = (onward.try_clone().unwrap(), from.try_clone().unwrap());
                for (read, write) in [(from, onward), back] {
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || forward_bytes(read, write, &is_cut));
                }
            }
        });
        wire
    }

    fn cut_connection(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Restores the connection; what was open meanwhile has lost data, and is closed.
    fn restore_connection(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            // One that is closed already cannot be closed.
            drop(end.shutdown(Shutdown::Both));
        }
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn forward_bytes(mut read: TcpStream, mut write: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count) = read.read(&mut bytes) {
        if count == 0 {
            break;
        }
        if !is_cut.load(Ordering::SeqCst) && write.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(write.shutdown(Shutdown::Both));
}
