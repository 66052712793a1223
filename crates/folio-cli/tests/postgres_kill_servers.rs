//! Several servers share one database: each shows the runs of all, and resumes those of one that was killed or hangs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{BufRead as _, BufReader};

use folio_testkit::postgres::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::served::Served;
use support::{Called, Folio};

/// The number of steps of a run; each takes a moment, and records that it was done.
const STEPS: u64 = 10;
const RUNS_PATH: &str = "/v1/spaces/main/runs";

/// A database, and a folder to start the program in.
struct SharedStore {
    folio: Folio,
    database: Database,
}

impl SharedStore {
    fn new() -> Self {
        Self {
            folio: Folio::new(),
            database: Database::fresh(),
        }
    }

    /// The address of the database, with a lease short enough for tests.
    fn url(&self) -> String {
        format!("{}&lease=2", self.database.url())
    }

    fn server(&self) -> Served {
        let url = self.url();
        Served::of(
            self.folio
                .process(&["--store", &url, "serve", "--listen", "127.0.0.1:0"]),
        )
    }

    /// Asserts that the run has ended, each of its steps was done once, and the database is undamaged.
    fn assert_done_once(&self, run: &str) {
        let ended = self
            .folio
            .until(&["--store", &self.url(), "show", run], |run| run["status"] != "running");
        assert_eq!(ended["status"], "ok", "{ended}");
        let list = self
            .folio
            .json(&["--store", &self.url(), "observe", "list", "--limit", "100"]);
        let mut seen: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["content"].clone())
            .collect();
        seen.sort_by_key(ToString::to_string);
        let mut wanted: Vec<_> = (1..=STEPS).map(|step| json!(format!("step {step} was done"))).collect();
        wanted.sort_by_key(ToString::to_string);
        assert_eq!(seen, wanted);
        let ends = self.ask(
            "SELECT count(DISTINCT log.seq) FROM log, jsonb_array_elements(log.record::jsonb -> 'run' -> 'events') AS event
             WHERE event ->> 'event' = 'finished' AND log.record::jsonb -> 'run' ->> 'status' = 'ok'",
        );
        assert_eq!(ends, "1", "commits that end the run");
        let found = self.folio.json(&["--store", &self.url(), "doctor"]);
        assert_eq!(found["problems"], json!([]));
    }

    fn ask(&self, sql: &str) -> String {
        self.database.ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

fn plan() -> String {
    let steps = (1..=STEPS).map(|step| {
        format!(
            "  - {{id: wait{step}, do: {{tool: wait, args: {{ms: 150}}}}}}
  - {{id: step{step}, do: {{tool: observe, args: {{content: 'step {step} was done'}}}}}}"
        )
    });
    format!("title: Shared\nsteps:\n{}\n", steps.collect::<Vec<_>>().join("\n"))
}

/// Starts the run on a server, and returns its id.
fn start(server: &Served) -> String {
    let answer = server.post(RUNS_PATH, &json!({"plan": plan()}).to_string());
    let body: Value =
        serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap_or_else(|e| panic!("{e}: {answer}"));
    body["run_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The live events of a run from a server.
struct Events(BufReader<std::net::TcpStream>);

impl Events {
    fn of(server: &Served, run: &str) -> Self {
        Self(BufReader::new(server.open(&format!("{RUNS_PATH}/{run}/events"), None)))
    }

    /// Reads until an event with that name; `None` if the stream has ended.
    fn read_until(&mut self, name: &str) -> Option<()> {
        let wanted = format!("event: {name}\n");
        let mut line = String::new();
        while line != wanted {
            line.clear();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
        }
        Some(())
    }
}

#[test]
fn every_server_streams_a_run_that_another_server_drives() {
    let shared = SharedStore::new();
    let servers: Vec<_> = (0..3).map(|_| shared.server()).collect();
    let run = start(&servers[0]);
    let mut streams: Vec<_> = servers[1..].iter().map(|server| Events::of(server, &run)).collect();
    for stream in &mut streams {
        stream.read_until("finished").unwrap();
    }
    // Heard while it goes on.
    let seen = shared.folio.json(&["--store", &shared.url(), "runs"])["items"][0].clone();
    assert_eq!(
        (&seen["status"], &seen["driven"]),
        (&json!("running"), &json!(true)),
        "{seen}"
    );
    for stream in &mut streams {
        stream.read_until("end").unwrap();
    }
    shared.assert_done_once(&run);
}

#[test]
fn run_of_a_killed_server_resumes_on_another_server() {
    let shared = SharedStore::new();
    let (first, second) = (shared.server(), shared.server());
    let run = start(&first);
    let mut stream = Events::of(&second, &run);
    for _ in 0..4 {
        stream.read_until("finished").unwrap();
    }
    let pid = Pid::from_child(&first.child);
    kill_process(pid, Signal::KILL).unwrap();
    // Nobody has to ask: whoever lives goes on with it, and whoever watches sees it.
    stream.read_until("resumed").unwrap();
    stream.read_until("end").unwrap();
    shared.assert_done_once(&run);
}

#[test]
fn process_stalled_past_its_lease_loses_its_run() {
    let shared = SharedStore::new();
    shared.folio.file("plan.yaml", plan());
    let server = shared.server();
    let url = shared.url();
    let mut stalled = shared.folio.process(&["--store", &url, "run", "--plan", "plan.yaml"]);
    stalled
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let stalled = stalled.spawn().unwrap();
    let runs = shared.folio.until(&["--store", &url, "runs"], |runs| {
        runs["items"][0]["driven"] == true && runs["items"][0]["updated_at"] != runs["items"][0]["created_at"]
    });
    let run = runs["items"][0]["run_id"].as_str().unwrap().to_owned();
    let mut stream = Events::of(&server, &run);
    for _ in 0..4 {
        stream.read_until("finished").unwrap();
    }
    let pid = Pid::from_child(&stalled);
    kill_process(pid, Signal::STOP).unwrap();
    stream.read_until("resumed").unwrap();
    // In the middle of what the other one does now, it wakes up.
    stream.read_until("finished").unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    let called = Called::of(stalled.wait_with_output().unwrap());
    assert_eq!(called.code, 4, "{called}");
    assert!(called.stderr.contains("it was taken over"), "{called}");
    stream.read_until("end").unwrap();
    shared.assert_done_once(&run);
}

/// The database server goes away in the middle of a run, for longer than anything waits, and comes back.
#[test]
fn run_resumes_when_its_database_comes_back() {
    let cluster = folio_testkit::cluster::Cluster::start(folio_testkit::cluster::ClusterOptions::default());
    let folio = Folio::new();
    let url = format!("{}&lease=2", cluster.url());
    let server = Served::of(folio.process(&["--store", &url, "serve", "--listen", "127.0.0.1:0"]));
    let run = start(&server);
    let mut stream = Events::of(&server, &run);
    for _ in 0..4 {
        stream.read_until("finished").unwrap();
    }
    cluster.kill();
    // Whoever asks waits ten seconds, and whoever drives the run no longer than that and once more to give it up.
    for _ in 0..2 {
        let refused = server.post("/v1/spaces/main/observations", r#"{"content": "lost"}"#);
        assert!(
            refused.contains(" 503 ") && refused.contains("store_unavailable"),
            "{refused}"
        );
    }
    cluster.start_again();
    let ended = folio.until(&["--store", &url, "show", &run], |run| run["status"] != "running");
    assert_eq!(ended["status"], "ok", "{ended}");
    let list = folio.json(&["--store", &url, "observe", "list", "--limit", "100"]);
    assert_eq!(list["total"], STEPS, "{list}");
    assert_eq!(folio.json(&["--store", &url, "doctor"])["problems"], json!([]));
}

/// What a tool noticed while the database was away waits in the outbox, and another process delivers it, once.
#[test]
fn observation_during_a_database_outage_is_delivered_once_m7_3_26() {
    let cluster = folio_testkit::cluster::Cluster::start(folio_testkit::cluster::ClusterOptions::default());
    let folio = Folio::new();
    let url = cluster.url().to_owned();
    let server = Served::of(folio.process(&["--store", &url, "serve", "--listen", "127.0.0.1:0"]));
    let noticed = |call: &str, content: &str| {
        let answer = json!({"tool_id": "scan", "request_id": call, "observations": [{"content": content}]});
        server.post("/v1/spaces/main/tool-responses", &answer.to_string())
    };
    let before = noticed("first", "there before");
    assert!(before.contains(" 200 ") && !before.contains("spooled"), "{before}");
    cluster.kill();
    let away = noticed("second", "kept meanwhile");
    assert!(away.contains(" 200 ") && away.contains("\"spooled\":1"), "{away}");
    cluster.start_again();
    folio.ok(&["--store", &url, "turn", "begin", "--input", "go on"]);
    // The server looks for its database every second, and refuses at once until then.
    for _ in 0..400 {
        if server.status("/v1/spaces/main/observations", None) == "200" {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(25));
    }
    let after = noticed("third", "there after");
    assert!(after.contains(" 200 ") && !after.contains("spooled"), "{after}");
    let list = folio.json(&["--store", &url, "observe", "list"]);
    let seen: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["content"])
        .collect();
    assert_eq!(seen, ["there after", "kept meanwhile", "there before"]);
}
