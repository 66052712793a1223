//! Workers of two versions side by side, as during the upgrade of a fleet: this one and the last one that wrote an
//! older journal format. The newer one finishes what the older one began, and the older one leaves alone what the
//! newer one has touched.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use folio_testkit::postgres::Database;
use folio_testkit::restate::Restate;
use serde_json::json;
use support::Folio;
use support::working::{Worker, plan_of, submitting, worker};

/// The variable that names the older program, which `./test` builds from the commit in `tests/previous/commit`.
const PREVIOUS: &str = "FOLIO_TEST_PREVIOUS";
/// The rounds of one run: each waits, notes something, and has an external effect that must not happen twice.
const ROUNDS: usize = 15;
/// The nodes of one run: three per round, and the root.
const NODES: usize = 3 * ROUNDS + 1;
/// The round in which runs wait until [`World::release_held`], so that they stay under way as long as a test needs.
const HELD_ROUND: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Older,
    Newer,
}

struct World {
    folio: Folio,
    database: Database,
    restate: Restate,
    listen: String,
    submitted: usize,
}

impl World {
    /// The environment for runs, with the tables of the older version.
    fn new() -> Self {
        let world = Self {
            folio: Folio::new(),
            database: Database::fresh(),
            restate: Restate::start(),
            listen: std::net::TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .to_string(),
            submitted: 0,
        };
        assert!(world.program(Version::Older, &["runs"]).status().unwrap().success());
        world
    }

    fn program(&self, version: Version, arguments: &[&str]) -> Command {
        let mut command = match version {
            Version::Newer => self.folio.process(&[]),
            Version::Older => {
                #[expect(clippy::disallowed_methods, reason = "tests are told by the script that runs them")]
                let program = std::env::var(PREVIOUS);
                let program =
                    program.unwrap_or_else(|_| panic!("{PREVIOUS} names no program: run ./test, which builds it"));
                let mut command = Command::new(program);
                command.env_clear().current_dir(self.folio.path());
                command.env("HOME", self.folio.path().join("home"));
                command
            }
        };
        command
            .args(["--store", &format!("{}&lease=2", self.database.url())])
            .args(arguments)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts a worker; Restate knows it when this returns.
    fn start_worker(&self, version: Version) -> Worker {
        let (ingress, admin) = (format!("restate={}", self.restate.ingress(0)), self.restate.admin(0));
        Worker::start(&mut self.program(version, &worker(&ingress, &self.listen, &admin)))
    }

    /// Submits `runs` runs without waiting for them.
    fn submit(&mut self, version: Version, runs: usize) {
        let ingress = format!("restate={}", self.restate.ingress(0));
        for _ in 0..runs {
            let run = self.submitted;
            self.submitted += 1;
            let name = format!("plan{run}.yaml");
            self.folio.file(&name, plan_of(run, ROUNDS, 80, Some(HELD_ROUND)));
            // Once somebody drives it, who submitted it may go.
            let mut child = self.program(version, &submitting(&ingress, &name)).spawn().unwrap();
            let is_taken = format!(
                "SELECT count(*) FROM run WHERE title = 'Run {run}' AND (owner IS NOT NULL OR status <> 'running')"
            );
            self.wait_until(|world| world.ask(&is_taken) == "1");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Lets runs continue that wait in the round [`HELD_ROUND`].
    fn release_held(&self) {
        self.folio.file("go", "");
    }

    fn ask(&self, sql: &str) -> String {
        self.database.ask(sql).unwrap()
    }

    /// How many events are of the type `which`.
    fn count_events(&self, which: &str) -> usize {
        let counted = self.ask(&format!(
            "SELECT count(*) FROM log, jsonb_array_elements(log.record::jsonb -> 'run' -> 'events') AS event WHERE {which}"
        ));
        counted.parse().unwrap()
    }

    /// How many nodes have ended.
    fn finished(&self) -> usize {
        self.count_events("event ->> 'event' = 'finished'")
    }

    /// How many journals record that a newer version continued them.
    fn count_continued(&self) -> usize {
        self.count_events("event ->> 'event' = 'format_raised'")
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
            self.ask("SELECT title, status FROM run")
        );
    }

    /// Waits until all runs have ended, and checks that everything was done once. Returns how many commands had begun
    /// when their worker died, so that their outcome is unknown.
    fn assert_all_done(&self) -> usize {
        self.wait_until(|world| world.ask("SELECT count(*) FROM run WHERE status = 'running'") == "0");
        let well = self.ask("SELECT count(*) FROM run WHERE status IN ('ok', 'partial')");
        assert_eq!(well, self.submitted.to_string());
        let once = self.ask(
            "SELECT count(DISTINCT event ->> 'node') FROM log, jsonb_array_elements(log.record::jsonb -> 'run' -> 'events') AS event
             WHERE event ->> 'event' = 'finished'",
        );
        let nodes = self.submitted * NODES;
        assert_eq!(
            (once.parse(), self.finished()),
            (Ok(nodes), nodes),
            "every node ended once"
        );
        let unknown = self
            .count_events("event ->> 'event' = 'finished' AND event -> 'result' ->> 'stop_reason' = 'outcome_unknown'");
        let posted = std::fs::read_to_string(self.folio.path().join("posted")).unwrap();
        let mut lines: Vec<&str> = posted.lines().collect();
        lines.sort_unstable();
        let all = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), all, "no command had its effect twice");
        assert!(
            all + unknown >= self.submitted * ROUNDS,
            "an effect is missing without being called unknown"
        );
        let store = self.database.url();
        let seen = self
            .folio
            .json(&["--store", &store, "observe", "list", "--limit", "1000"]);
        assert_eq!(
            seen["items"].as_array().map(Vec::len),
            Some(self.submitted * ROUNDS),
            "every note is there once"
        );
        assert_eq!(self.folio.json(&["--store", &store, "doctor"])["problems"], json!([]));
        unknown
    }
}

#[test]
fn newer_version_finishes_runs_of_the_older_version() {
    let mut world = World::new();
    let older = world.start_worker(Version::Older);
    world.submit(Version::Older, 4);
    world.wait_until(|world| world.finished() > 8);
    let _newer = world.start_worker(Version::Newer);
    assert_eq!(world.count_continued(), 0, "they go on where they are");
    assert!(
        world.finished() <= 4 * (3 * HELD_ROUND + 2),
        "they wait for the newer one"
    );
    world.release_held();
    // It waits for what is under way, and lets go.
    older.end();
    assert_eq!(world.assert_all_done(), 0);
    assert_eq!(world.count_continued(), 4, "each says from where on it is newer");
    assert_eq!(
        world.count_events("event ->> 'event' = 'resumed'"),
        0,
        "nothing was under way when they were handed over"
    );
}

#[test]
fn older_version_leaves_runs_of_the_newer_version_alone() {
    let mut world = World::new();
    world.release_held();
    let mut older = world.start_worker(Version::Older);
    world.submit(Version::Older, 2);
    let newer = world.start_worker(Version::Newer);
    // Side by side: each call of Restate comes to one or the other.
    world.submit(Version::Newer, 4);
    let before = world.finished();
    world.wait_until(|world| world.finished() > before + 12);
    // Killed, with everything that it was about to write. Whatever Restate calls from now on, it calls at the older
    // one.
    drop(newer);
    let running = |titles: &str| {
        let count = format!("SELECT count(*) FROM run WHERE status = 'running' AND title {titles} ('Run 0', 'Run 1')");
        world.ask(&count).parse::<u32>().unwrap()
    };
    let left = running("NOT IN");
    assert!(left > 0, "none is cut off");
    world.wait_until(|_| running("IN") == 0);
    // Commits of any journal: the older one may still end the turns of its own.
    let written = || world.ask("SELECT count(*) FROM log WHERE record::jsonb -> 'run' IS NOT NULL");
    let then = written();
    std::thread::park_timeout(Duration::from_secs(2));
    assert_eq!((written(), running("NOT IN")), (then, left), "it leaves them alone");
    assert!(older.is_there(), "and is not harmed");
    let _newer = world.start_worker(Version::Newer);
    world.assert_all_done();
}
