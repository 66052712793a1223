//! `folio migrate`: from a file to a database and back, while others write, repeatedly, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use folio_testkit::postgres::Database;
use serde_json::{Value, json};
use support::Folio;

const FILE_STORE: &str = "sqlite:f.db";

/// A folder to start the program in, and a database.
struct Stores {
    folio: Folio,
    database: Database,
}

impl Stores {
    fn new() -> Self {
        Self {
            folio: Folio::new(),
            database: Database::fresh(),
        }
    }

    fn url(&self) -> String {
        self.database.url()
    }

    /// Fills a store with something of every kind.
    fn fill(&self, store: &str) {
        let folio = &self.folio;
        let call = |arguments: &[&str]| folio.ok(&[&["--store", store], arguments].concat());
        folio.file("plan.yaml", PLAN);
        let log: Vec<_> = (0..4_000).map(|line| format!("line {line} of a long log")).collect();
        folio.file("build.log", log.join("\n"));
        call(&[
            "observe",
            "add",
            "the tests need a database",
            "--tag",
            "tests",
            "--context",
            "goal_id=green",
        ]);
        call(&[
            "observe",
            "add",
            "the oak is old",
            "--type",
            "risk_alert",
            "--confidence",
            "0.9",
        ]);
        call(&["observe", "add", "said by nobody else"]);
        call(&["observe", "confirm", "e1"]);
        call(&["observe", "update", "e2", "--status", "resolved"]);
        call(&["observe", "archive", "e2"]);
        call(&["turn", "begin", "--thread", "t", "--input", "tidy up"]);
        call(&["book", "add", "todo", "write the tests", "--thread", "t"]);
        call(&[
            "book",
            "add",
            "note",
            "the port is 8080",
            "--thread",
            "t",
            "--tag",
            "net",
        ]);
        call(&["book", "pin", "e5"]);
        call(&["book", "complete", "e4"]);
        call(&["turn", "end", "t1"]);
        call(&["page", "new", "Findings", "--tag", "review"]);
        call(&["page", "append", "p3", "ten files are hot", "--title", "Hot files"]);
        call(&["evict", "build.log", "--limit", "80", "--tool", "shell"]);
        call(&["policy", "set", "types.weather.class=alert"]);
        call(&["run", "--plan", "plan.yaml"]);
        call(&["forget", "e3", "--yes", "--reason", "asked"]);
        call(&["token", "new", "--role", "client", "--name", "ci"]);
        call(&["--space", "other", "observe", "add", "of another space"]);
        call(&["--space", "other", "search", "another"]);
        call(&["observe", "list"]);
        // From here on, questions are not noted: what is compared does not change because somebody looks.
        for space in ["main", "other"] {
            call(&["--space", space, "policy", "set", "trace.questions=false"]);
        }
    }

    /// The contents of `store`, as the surfaces show them.
    fn contents(&self, store: &str) -> Vec<String> {
        let mut all = Vec::new();
        for (space, questions) in [("main", &QUESTIONS[..]), ("other", &QUESTIONS[..4])] {
            for question in questions {
                let words: Vec<_> = question.split(' ').collect();
                let told = self
                    .folio
                    .ok(&[&["--store", store, "--space", space], &words[..]].concat());
                all.push(format!("{space}: {question}\n{}", without_varying_parts(&told)));
            }
        }
        all
    }

    /// Creates the tables of the database, so that triggers can be created: the first writer does, and a small text is
    /// not evicted.
    fn create_tables(&self) {
        self.folio.file("small.txt", "all is well\n");
        self.folio.ok(&["--store", &self.url(), "evict", "small.txt"]);
    }

    fn migrate(&self, from: &str, to: &str) -> Value {
        let moved = self.folio.json(&["--store", from, "migrate", "--to", to]);
        assert_eq!(moved["problems"], json!([]), "{moved}");
        moved
    }
}

/// The queries to a space.
const QUESTIONS: [&str; 15] = [
    "export",
    "trace --json --limit 1000",
    "observe list --json --limit 100 --include-expired",
    "policy show --json",
    "observe list --json --status archived",
    "runs --json",
    "show r1 --json",
    "tree --json",
    "page show p3 --json",
    "turn show t1 --json",
    "book list --thread t --json",
    "blob e7 --lines 3990-4000",
    "search tests --json",
    "token list --json",
    "goals --json",
];

const PLAN: &str = "
title: Everything
steps:
  - {id: list, do: {tool: text, args: {op: echo, value: [a, b, c]}}}
  - id: each
    for_each: results.list.output.value
    step: {id: note, do: {tool: observe, args: {content: 'saw {{ item }}'}}}
";

/// `told` without what differs in each answer: the time of an export, and cursors, which contain the time of the first
/// page.
fn without_varying_parts(told: &str) -> String {
    let is_of_place = |line: &&str| line.contains("\"exported_at\"") || line.trim_start().starts_with("\"next\":");
    let lines = told.lines().filter(|line| !is_of_place(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn migration_to_a_database_and_back_preserves_everything() {
    let stores = Stores::new();
    stores.fill(FILE_STORE);
    let before = stores.contents(FILE_STORE);
    let moved = stores.migrate(FILE_STORE, &stores.url());
    assert!(
        moved["commits"].as_u64().unwrap() > 20 && moved["bodies"].as_u64().unwrap() > 0,
        "{moved}"
    );
    assert_eq!((&moved["spaces"], &moved["tokens"]), (&json!(2), &json!(1)), "{moved}");
    assert_eq!(stores.contents(&stores.url()), before);
    stores.migrate(&stores.url(), "sqlite:back.db");
    assert_eq!(stores.contents("sqlite:back.db"), before);
    // Whoever goes on there has handles and numbers of their own.
    let added = stores
        .folio
        .json(&["--store", "sqlite:back.db", "observe", "add", "one more"]);
    let there = stores
        .folio
        .json(&["--store", FILE_STORE, "observe", "add", "one more"]);
    assert_eq!(added["handle"], there["handle"]);
    assert_eq!(
        stores.folio.json(&["--store", "sqlite:back.db", "doctor"])["problems"],
        json!([])
    );
}

#[test]
fn repeated_migration_updates_the_copy_and_forgets_in_it() {
    let stores = Stores::new();
    stores.fill(FILE_STORE);
    stores.migrate(FILE_STORE, &stores.url());
    let nothing = stores.migrate(FILE_STORE, &stores.url());
    assert_eq!(
        (&nothing["commits"], &nothing["notes"]),
        (&json!(0), &json!(0)),
        "{nothing}"
    );
    stores.folio.ok(&["--store", FILE_STORE, "observe", "add", "later"]);
    stores.folio.ok(&["--store", FILE_STORE, "search", "oak"]);
    stores.folio.ok(&[
        "--store", FILE_STORE, "forget", "--text", "oak", "--yes", "--reason", "asked",
    ]);
    let more = stores.migrate(FILE_STORE, &stores.url());
    assert!(more["commits"].as_u64().unwrap() >= 2, "{more}");
    assert_eq!(stores.contents(&stores.url()), stores.contents(FILE_STORE));
    for table in ["log WHERE record", "trace WHERE note", "entry WHERE fields"] {
        let left = stores
            .database
            .ask(&format!("SELECT count(*) FROM {table} LIKE '%oak%'"))
            .unwrap();
        assert_eq!(left, "0", "{table}");
    }
}

#[test]
fn migration_of_a_store_being_written_to_catches_up() {
    let stores = Stores::new();
    stores.fill(FILE_STORE);
    let before = stores.migrate(FILE_STORE, "sqlite:before.db")["commits"]
        .as_u64()
        .unwrap();
    // The copy lingers at its first commit while others write to the store.
    stores.create_tables();
    let ask = |sql: &str| stores.database.ask(sql).unwrap();
    ask("CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NEW; END'");
    ask("CREATE TRIGGER lingers BEFORE INSERT ON log FOR EACH ROW WHEN (NEW.seq = 1) EXECUTE FUNCTION linger()");
    let observations: Vec<_> = (0..3_000).map(|n| format!("number {n}")).collect();
    let entity = json!({"type": "entity", "name": "many", "entityType": "x", "observations": observations});
    stores.folio.file("many.jsonl", entity.to_string());
    let writer = stores
        .folio
        .spawn(&["--store", FILE_STORE, "import", "--from", "mcp-memory", "many.jsonl"]);
    let first = stores.migrate(FILE_STORE, &stores.url());
    assert!(
        first["commits"].as_u64().unwrap() > before,
        "nothing was written meanwhile: {first}"
    );
    assert_eq!(writer.wait().code, 0);
    stores.migrate(FILE_STORE, &stores.url());
    assert_eq!(stores.contents(&stores.url()), stores.contents(FILE_STORE));
}

#[test]
fn killed_migration_continues_where_it_stopped() {
    let stores = Stores::new();
    stores.fill(FILE_STORE);
    let steps: Vec<_> = (0..600)
        .map(|n| format!("  - {{id: s{n}, do: {{tool: observe, args: {{content: 'saw {n}'}}}}}}"))
        .collect();
    stores
        .folio
        .file("many.yaml", format!("title: Many\nsteps:\n{}\n", steps.join("\n")));
    stores.folio.ok(&["--store", FILE_STORE, "run", "--plan", "many.yaml"]);
    let url = stores.url();
    let all = stores.folio.json(&["--store", FILE_STORE, "observe", "list"])["as_of"]
        .as_u64()
        .unwrap();
    stores.create_tables();
    let ask = |sql: &str| stores.database.ask(sql).unwrap();
    ask("CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'");
    let of_held = |what: &str| {
        let held = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()";
        ask(&format!("SELECT {what} {held}"))
    };
    let mut heads = vec![0];
    for part in 1..=4 {
        ask(&format!(
            "CREATE TRIGGER held BEFORE INSERT ON log FOR EACH ROW WHEN (NEW.seq = {}) EXECUTE FUNCTION hold()",
            all * part / 5
        ));
        let copying = stores.folio.spawn(&["--store", FILE_STORE, "migrate", "--to", &url]);
        let is_held = (0..2_000).any(|_| {
            // Each look is a process: without a pause they would take the processor that the copy needs.
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            of_held("count(*)") != "0"
        });
        assert!(is_held, "the copy did not reach commit {}", all * part / 5);
        copying.kill();
        // The server would notice only with its answer that the client is gone.
        of_held("pg_terminate_backend(pid, 60000)");
        ask("DROP TRIGGER held ON log");
        let head: u64 = ask("SELECT coalesce(max(head), 0) FROM space_end").parse().unwrap();
        assert!(head < all * part / 5, "{head} of {all}, part {part}");
        heads.push(head);
    }
    assert!(
        heads.is_sorted() && heads[4] > heads[1],
        "none of them continued an earlier one: {heads:?}"
    );
    stores.migrate(FILE_STORE, &url);
    assert_eq!(stores.contents(&url), stores.contents(FILE_STORE));
}

#[test]
fn migration_refuses_a_target_that_is_no_copy() {
    let stores = Stores::new();
    let url = stores.url();
    let refused = |to: &str| {
        let called = stores
            .folio
            .call(&["--store", FILE_STORE, "--json", "migrate", "--to", to]);
        let problem: Value = serde_json::from_str(called.stderr.lines().last().unwrap()).unwrap();
        (called.code, problem["code"].as_str().unwrap().to_owned())
    };
    stores.folio.ok(&["--store", FILE_STORE, "observe", "add", "mine"]);
    stores.folio.ok(&["--store", &url, "observe", "add", "theirs"]);
    let not_a_copy = (4, "target_not_a_copy".to_owned());
    assert_eq!(refused(&url), not_a_copy);
    assert_eq!(refused(FILE_STORE), (2, "target_is_source".to_owned()));
    // A copy that somebody has written to is none any more.
    stores.migrate(FILE_STORE, "sqlite:copy.db");
    stores
        .folio
        .ok(&["--store", "sqlite:copy.db", "observe", "add", "on top"]);
    assert_eq!(refused("sqlite:copy.db"), not_a_copy);
    let seen = stores.folio.json(&["--store", "sqlite:copy.db", "observe", "list"]);
    assert_eq!(seen["total"], 2, "{seen}");
    assert_eq!(stores.folio.json(&["--store", &url, "observe", "list"])["total"], 1);
}

#[test]
fn mistyped_database_name_creates_nothing() {
    let stores = Stores::new();
    let url = stores.url();
    for arguments in [&["migrate", "--to", FILE_STORE] as &[&str], &["doctor"]] {
        let called = stores.folio.call(&[&["--store", &url], arguments].concat());
        assert_eq!(called.code, 3, "{called}");
        assert!(
            called.stderr.contains("there is no store in the database postgres://"),
            "{called}"
        );
    }
    let made = stores
        .database
        .ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'folio'");
    assert_eq!(made.as_deref(), Ok("0"));
    assert!(!stores.folio.path().join("f.db").exists());
}
