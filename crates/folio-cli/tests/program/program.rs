//! The program itself: help, settings, exit codes, and error messages.

use crate::support::{Called, Folio};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// The line of JSON that a failure prints with `--json`; standard output must be empty.
fn problem(called: &Called) -> Value {
    assert_eq!(called.stdout, "");
    assert_eq!(called.stderr.lines().count(), 1, "{}", called.stderr);
    serde_json::from_str(&called.stderr).unwrap()
}

#[test]
fn call_without_arguments_prints_an_overview() {
    let seen = Folio::new().call(&[]);
    assert_eq!((seen.code, seen.stderr.as_str()), (0, ""));
    for wanted in [
        "folio plan example | folio run --plan -",
        "observe",
        "Exit codes",
        "FOLIO_STORE",
    ] {
        assert!(seen.stdout.contains(wanted), "{wanted}:\n{}", seen.stdout);
    }
    assert!(
        seen.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        seen.stdout
    );
}

#[test]
fn main_commands_print_their_usage_as_help() {
    let folio = Folio::new();
    let all = folio.ok(&["--help"]);
    let commands: Vec<&str> = all
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| *word != "folio" && word.starts_with(|first: char| first.is_ascii_lowercase()))
        .collect();
    assert!(commands.len() > 40 && commands.contains(&"doctor"), "{commands:?}");
    for command in commands {
        assert!(folio.ok(&[command, "--help"]).contains("Usage: folio"), "{command}");
    }
}

#[test]
fn usage_error_is_explained_and_exits_with_2() {
    let folio = Folio::new();
    let seen = [
        folio.seen(&["observe", "list", "--colour"]),
        folio.seen(&["obsrve"]),
        folio.seen(&["observe", "get", "nonsense"]),
        folio.seen(&["observe", "update", "e1"]),
        folio.seen(&["observe", "list", "--space", "No Space"]),
        folio.seen(&["observe", "list", "--store", "folio.db"]),
    ];
    assert_snapshot!(seen.join("----\n"), @r#"
    ! error: unexpected argument '--colour' found
    ! 
    !   tip: a similar argument exists: '--color'
    ! 
    ! Usage: folio observe list --color <WHEN>
    ! 
    ! For more information, try '--help'.
    = 2
    ----
    ! error: unrecognized subcommand 'obsrve'
    ! 
    !   tip: some similar subcommands exist: 'serve', 'observe'
    ! 
    ! Usage: folio [OPTIONS] [COMMAND]
    ! 
    ! For more information, try '--help'.
    = 2
    ----
    ! error: invalid value 'nonsense' for '<OBSERVATION>': not a handle like e42 or an id like obs_01J…
    ! 
    ! For more information, try '--help'.
    = 2
    ----
    ! error: the following required arguments were not provided:
    !   <--content <TEXT>|--title <TITLE>|--status <STATUS>|--confidence <NUMBER>|--tag <TAG>|--owner <OWNER>|--context <KEY=VALUE>|--metadata <KEY=VALUE>|--from <FILE>>
    ! 
    ! Usage: folio observe update <--content <TEXT>|--title <TITLE>|--status <STATUS>|--confidence <NUMBER>|--tag <TAG>|--owner <OWNER>|--context <KEY=VALUE>|--metadata <KEY=VALUE>|--from <FILE>> <OBSERVATION>
    ! 
    ! For more information, try '--help'.
    = 2
    ----
    ! error[space_invalid]: "No Space" is not a space name: 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit
    = 2
    ----
    ! error[store_url_invalid]: "folio.db" does not begin with a kind of store and a colon
    !   hint: if it is a file, write sqlite:folio.db; other stores are postgres://… and memory:
    = 2
    "#);
}

#[test]
fn json_failure_is_one_problem_on_stderr() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x"]);
    let not_found = problem(&folio.call(&["observe", "get", "e7", "--json"]));
    let wanted = json!({
        "type": "docs/errors/not_found.md", "title": "Not found", "status": 404, "code": "not_found",
        "detail": "there is no entry e7 in this space", "hints": [],
    });
    assert_eq!(not_found, wanted);
    let usage = problem(&folio.call(&["observe", "list", "--json", "--colour"]));
    assert_eq!((&usage["code"], &usage["status"]), (&json!("usage"), &json!(400)));
    assert_eq!(usage["detail"], "unexpected argument '--colour' found");
    assert_eq!(usage["hints"][0], "a similar argument exists: '--color'");
    // Programs are told what is missing, and what could be said, as people are.
    let missing = problem(&folio.call(&["observe", "get", "--json"]));
    let wanted = "the following required arguments were not provided: <OBSERVATION>";
    assert_eq!(missing["detail"], wanted);
    let nothing = problem(&folio.call(&["--json", "import"]));
    assert_eq!(nothing["detail"], "a command or an argument is missing");
    assert_eq!(nothing["hints"][0], "Usage: folio import [OPTIONS] <PATH>");
    let unknown = problem(&folio.call(&["run", "--planning", "soon", "--json"]));
    let wanted = "invalid value 'soon' for '--planning <WHEN>' [possible values: always, auto, never]";
    assert_eq!(unknown["detail"], wanted);
}

#[test]
fn handle_without_a_verb_is_refused_with_the_command_that_shows_it() {
    let folio = Folio::new();
    for (line, tip) in [
        ("page p2", Some("folio page show p2")),
        ("--quiet plan r1 --yaml", Some("folio --quiet plan show r1 --yaml")),
        ("observe e3", Some("folio observe get e3")),
        ("turn t1", Some("folio turn show t1")),
        // A page has no turn, and `p` is no handle.
        ("page t1", None),
        ("page p", None),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = folio.call(&words);
        assert_eq!(said.code, 2, "{said}");
        let word = words.iter().find(|word| word.len() < 3).unwrap();
        let tip = tip.map(|meant| format!("tip: to show '{word}', write '{meant}'\n"));
        assert_eq!(tip.is_some(), said.stderr.contains("tip: to show"), "{said}");
        assert!(said.stderr.contains(&tip.unwrap_or_default()), "{said}");
    }
}

#[test]
fn role_option_after_the_command_is_refused_with_a_hint() {
    let said = Folio::new().call(&["observe", "add", "hi", "--role", "tool"]);
    assert_eq!(said.code, 2, "{said}");
    assert!(said.stderr.contains("'folio --role ROLE COMMAND'"), "{said}");
    assert!(!said.stderr.contains("-- --role"), "{said}");
}

#[test]
fn help_of_mcp_and_serve_lists_the_tool_sets() {
    let folio = Folio::new();
    for command in ["mcp", "serve"] {
        let help = folio.ok(&[command, "--help"]);
        // In one line or in two; the words alone stand elsewhere as well.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let names = folio_server::ToolSet::ALL.map(folio_server::ToolSet::as_str).join(", ");
        assert!(
            help.contains(&format!("separated by commas: {names}")),
            "{command}: {names}\n{help}"
        );
    }
}

#[test]
fn example_plan_passes_the_plan_check() {
    let folio = Folio::new();
    let plan = folio.ok(&["plan", "example"]);
    folio.file("review.yaml", &plan);
    let checked = folio.ok(&["plan", "check", "review.yaml"]);
    assert!(checked.starts_with("ok review.yaml"), "{checked}");
}

#[test]
fn unreachable_database_is_reported_without_its_password() {
    let url = "postgres://me:hunter2@127.0.0.1:1/x?sslmode=disable";
    assert_snapshot!(Folio::new().seen(&["observe", "list", "--store", url]), @"
    ! error[store_unavailable]: cannot open postgres://127.0.0.1:1/x: the connection to the server was lost, or could not be made; try again
    !   caused by: error connecting to server
    !   caused by: Connection refused (os error 111)
    !   hint: try again when the server is back, or name another one with --store postgres://USER:PASSWORD@HOST:PORT/DATABASE
    = 5
    ");
    assert_snapshot!(Folio::new().seen(&["backup", "copy.db", "--store", url]), @"
    ! error[store_not_copied]: a PostgreSQL database is copied by PostgreSQL's own tools
    !   hint: docs/postgres.md shows the role that pg_dump needs; `folio migrate --to sqlite:FILE` needs no such role
    = 2
    ");
}

#[test]
fn store_file_that_cannot_be_created_is_unavailable() {
    let folio = Folio::new();
    folio.file("file", "");
    assert_snapshot!(folio.seen(&["observe", "add", "a", "--store", "sqlite:file/folio.db"]), @"
    ! error[store_unavailable]: cannot create FOLDER/file: a part of its path is a file, not a folder
    !   caused by: File exists (os error 17)
    !   hint: name another file with --store sqlite:PATH
    = 5
    ");
    // Who only reads is not told that there is none, either.
    assert_snapshot!(folio.seen(&["runs", "--store", "sqlite:file/folio.db"]), @"
    ! error[store_unavailable]: cannot create FOLDER/file: a part of its path is a file, not a folder
    !   caused by: File exists (os error 17)
    !   hint: name another file with --store sqlite:PATH
    = 5
    ");
    assert_snapshot!(folio.seen(&["observe", "add", "a", "--store", "sqlite:/proc/folio.db"]), @"
    ! error[store_unavailable]: cannot open /proc/folio.db: the file cannot be opened
    !   caused by: unable to open database file: /proc/folio.db
    !   hint: name another file with --store sqlite:PATH
    = 5
    ");
}

/// Commands that read or act on existing things, with their exit code if there is no store.
const COMMANDS_ON_EXISTING: [(&[&str], i32); 35] = [
    (&["runs"], 0),
    (&["resume"], 0),
    (&["questions"], 0),
    (&["observe", "list"], 0),
    (&["observe", "active"], 0),
    (&["book", "list"], 0),
    (&["book", "view"], 0),
    (&["tree"], 0),
    (&["search", "anything"], 0),
    (&["context"], 0),
    (&["goals"], 0),
    (&["turn", "list"], 0),
    (&["trace"], 0),
    (&["tokens"], 0),
    (&["episodes"], 0),
    (&["patterns", "--find"], 0),
    (&["calibration"], 0),
    (&["files", "ls"], 0),
    (&["history"], 0),
    (&["policy", "show"], 0),
    (&["token", "list"], 0),
    (&["tidy"], 0),
    (&["forget", "--text", "anything", "--yes"], 0),
    (&["show", "r1"], 3),
    (&["watch", "r1"], 3),
    (&["cancel", "r1"], 3),
    (&["pause", "r1"], 3),
    (&["fork", "r1", "--at", "a"], 3),
    (&["diff", "r1", "r2"], 3),
    (&["plan", "show", "r1"], 3),
    (&["observe", "get", "e1"], 3),
    (&["book", "complete", "e1"], 3),
    (&["archive", "e1"], 3),
    (&["page", "show", "p1"], 3),
    (&["export"], 3),
];

#[test]
fn read_only_commands_create_no_store() {
    let folio = Folio::new();
    for (arguments, code) in COMMANDS_ON_EXISTING {
        let called = folio.call(&[&["--store", "sqlite:folder/none.db"], arguments].concat());
        assert_eq!(called.code, code, "{arguments:?}: {called}");
        assert!(
            called.stderr.contains("there is no file folder/none.db"),
            "{arguments:?}: {called}"
        );
        assert!(!folio.path().join("folder").exists(), "{arguments:?}");
    }
    // Nor does who would write, and has nothing to.
    folio.file("none.jsonl", "");
    for (line, code) in [
        ("import nowhere.jsonl --from folio", 3),
        ("import nowhere --from colony", 3),
        ("import none.jsonl --from mcp-memory --dry-run", 0),
        ("hook session-start", 0),
        ("hook stop", 0),
    ] {
        let line = format!("--store sqlite:folder/none.db {line}");
        let called = folio.call(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(called.code, code, "{line}: {called}");
        assert!(!folio.path().join("folder").exists(), "{line}");
    }
    // Programs are told nothing but the answer.
    let told = folio.call(&["--store", "sqlite:none.db", "runs", "--json"]);
    let list: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&list["items"], told.stderr.as_str()), (&json!([]), ""));
}

#[test]
fn truncated_and_non_sqlite_stores_are_reported_as_damaged() {
    let folio = Folio::new();
    folio.file(
        "text.db",
        "this is no database, whatever its name says; it goes on for a while".repeat(100),
    );
    assert_snapshot!(folio.seen(&["observe", "list", "--store", "sqlite:text.db"]), @"
    ! error[store_damaged]: text.db is damaged: it is not an SQLite file
    !   caused by: file is not a database
    !   hint: restore the file from a backup, or name another one with --store
    = 6
    ");
    folio.ok(&["observe", "add", "x", "--store", "sqlite:cut.db"]);
    let bytes = std::fs::read(folio.path().join("cut.db")).unwrap();
    folio.file("cut.db", &bytes[..bytes.len() / 2]);
    assert_snapshot!(folio.seen(&["doctor", "--store", "sqlite:cut.db"]), @"
    ! error[store_damaged]: cut.db is damaged: its pages contradict each other; restore it from a backup
    !   caused by: database disk image is malformed
    !   hint: restore the file from a backup, or name another one with --store
    = 6
    ");
}

#[test]
fn doctor_reports_an_intact_store_as_healthy() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x"]);
    let nowhere = folio.call(&["doctor", "--store", "sqlite:nowhere.db"]);
    assert_eq!(nowhere.code, 3, "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("there is no file"), "{}", nowhere.stderr);
    assert!(nowhere.stdout.contains("problem there is no file"), "{nowhere}");
    let found = folio.json(&["doctor"]);
    assert_eq!((&found["healthy"], &found["problems"]), (&json!(true), &json!([])));
}

#[test]
fn settings_come_from_flags_then_the_environment_then_the_file() {
    let folio = Folio::new();
    folio.settings("store = \"sqlite:from-file.db\"\nspace = \"file\"\n");
    let used = |folio: &Folio, variable: Option<&str>, arguments: &[&str]| {
        let mut command = folio.command(&[arguments, &["observe", "list", "-v"]].concat());
        command.envs(variable.map(|value| ("FOLIO_SPACE", value)));
        folio.without_accidents(&Called::of(command.output().unwrap()).stderr)
    };
    assert_snapshot!(used(&folio, None, &[]), @"
    settings: FOLDER/folio.toml
    store: sqlite:FOLDER/from-file.db, space: file, thread: main
    there is no file FOLDER/from-file.db yet
    no observation matches
    ");
    assert_snapshot!(used(&folio, Some("environment"), &["--config", "/dev/null"]), @"
    settings: /dev/null
    store: sqlite:FOLDER/home/.local/share/folio/folio.db, space: environment, thread: main
    there is no file FOLDER/home/.local/share/folio/folio.db yet
    no observation matches
    ");
    assert_snapshot!(used(&folio, Some("environment"), &["--space", "flag", "--thread", "t"]), @"
    settings: FOLDER/folio.toml
    store: sqlite:FOLDER/from-file.db, space: flag, thread: t
    there is no file FOLDER/from-file.db yet
    no observation matches
    ");
}

#[test]
fn store_at_a_tilde_is_refused_with_what_to_write_wherever_it_is_set() {
    let folio = Folio::new();
    assert_snapshot!(folio.seen(&["observe", "add", "x", "--store", "sqlite:~/x.db"]), @r#"
    ! error[store_url_invalid]: only a shell replaces the `~` at the beginning of ~/x.db
    !   hint: write the whole path, for example sqlite:/home/ada/x.db, or in a shell "sqlite:$HOME/x.db"
    = 2
    "#);
    for store in ["~/x.db", "sqlite:~/x.db", "sqlite:~", "sqlite://~/x.db"] {
        let by_flag = folio.call(&["observe", "add", "x", "--store", store]);
        assert_eq!(by_flag.code, 2, "{store}: {by_flag}");
        assert!(by_flag.stderr.contains("replaces the `~`"), "{store}: {by_flag}");
        folio.settings(format!("store = \"{store}\"\n"));
        let by_file = folio.call(&["observe", "add", "x"]);
        assert!(
            by_file.stderr.contains("store in ") && by_file.stderr.contains("replaces the `~`"),
            "{by_file}"
        );
        let mut command = folio.command(&["observe", "add", "x"]);
        let by_variable = Called::of(command.env("FOLIO_STORE", store).output().unwrap());
        assert!(
            by_variable
                .stderr
                .contains("FOLIO_STORE: only a shell replaces the `~`"),
            "{by_variable}"
        );
        folio.settings("");
    }
    assert!(!folio.path().join("~").exists());
}

#[test]
fn quiet_prints_failures_all_the_same() {
    let folio = Folio::new();
    folio.file(
        "fails.json",
        json!({"title": "t", "steps": [{"id": "a", "do": {"tool": "read", "args": {"path": "nowhere"}}}]}).to_string(),
    );
    let failed = folio.call(&["--quiet", "run", "--plan", "fails.json"]);
    assert_eq!(failed.code, 1, "{failed}");
    assert!(failed.stderr.starts_with("r1 "), "{failed}");
    assert_eq!(failed.stderr.lines().count(), 1, "{failed}");
    let resumed = folio.call(&["--quiet", "resume", "r1"]);
    assert_eq!((resumed.code, resumed.stderr), (1, failed.stderr));
    let well = json!({"title": "t", "steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo"}}}]});
    folio.file("well.json", well.to_string());
    assert_eq!(folio.call(&["--quiet", "run", "--plan", "well.json"]).stderr, "");
    folio.file("answer.json", json!({"observations": [{"type": 5}]}).to_string());
    let ingested = folio.call(&["--quiet", "tool", "ingest", "answer.json", "--tool", "x"]);
    assert!(ingested.stderr.contains("rejected: "), "{ingested}");
}

#[test]
fn invalid_settings_file_is_reported_with_its_position() {
    let folio = Folio::new();
    folio.settings("space = \"x\"\ncolour = \"auto\"\n");
    assert_snapshot!(folio.seen(&["observe", "list"]), @"
    ! error[settings_invalid]: FOLDER/folio.toml:2:1: unknown field `colour`, expected one of `store`, `space`, `thread`, `model`, `models`, `agents`, `mcp`, `http`, `telemetry`, `lost_calls`, `color`
    = 2
    ");
    assert_snapshot!(folio.seen(&["observe", "list", "--config", "missing.toml"]), @"
    ! error[file_unusable]: cannot read the settings in missing.toml: no such file or directory
    = 3
    ");
}

#[test]
fn quiet_option_suppresses_warnings() {
    let folio = Folio::new();
    let add = ["observe", "add", "x", "--confidence", "7"];
    let told = folio.call(&add);
    assert!(told.stderr.starts_with("warning: confidence "), "{told}");
    let called = folio.call(&[&add[..], &["--quiet"]].concat());
    assert_eq!((called.code, called.stderr.as_str()), (0, ""));
    assert!(called.stdout.starts_with("e2 "), "{called}");
}

#[test]
fn colour_is_used_only_on_request_and_never_in_json() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "x"]);
    assert!(!folio.ok(&["observe", "list"]).contains('\u{1b}'));
    assert!(folio.ok(&["observe", "list", "--color", "always"]).contains('\u{1b}'));
    assert!(
        !folio
            .ok(&["observe", "list", "--color", "always", "--json"])
            .contains('\u{1b}')
    );
}

#[test]
fn terminal_escapes_in_content_are_not_printed() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "a\u{1b}]0;owned\u{7}b"]);
    for arguments in [
        ["observe", "list"].as_slice(),
        &["observe", "get", "e1"],
        &["page", "show", "p1"],
        &["trace"],
    ] {
        let shown = folio.ok(arguments);
        assert!(
            shown.contains("a]0;ownedb") && !shown.contains(['\u{1b}', '\u{7}']),
            "{arguments:?}: {shown}"
        );
    }
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    let folio = Folio::new();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("folio"));
    let mut child = command
        .args(["plan", "schema"])
        .env_clear()
        .env("HOME", folio.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}

#[test]
fn closed_output_pipe_does_not_change_the_exit_code() {
    let folio = Folio::new();
    folio.file("other.txt", "no json\n");
    folio.file(
        "plan.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: json_parse, value: 'no json'}}}]",
    );
    for (line, code) in [
        ("import other.txt --from mcp-memory", 1),
        ("run --plan plan.yaml", 1),
        ("watch r1", 1),
        ("--json watch r1", 1),
        ("runs", 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let arguments: Vec<_> = line.split(' ').collect();
        let called = folio.process(&arguments).stdout(writer).output().unwrap();
        let told = String::from_utf8(called.stderr).unwrap();
        assert_eq!(called.status.code(), Some(code), "{line}: {told}");
        assert!(!told.contains("error"), "{line}: {told}");
    }
}

#[test]
fn shell_completions_include_the_commands() {
    let folio = Folio::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(folio.ok(&["completions", shell]).contains("observe"), "{shell}");
    }
}

#[test]
fn plan_schema_command_prints_a_json_schema() {
    let schema: Value = serde_json::from_str(&Folio::new().ok(&["plan", "schema"])).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"), "{schema}");
}

const PLAN: &str = "\
version: 1
title: Look around
inputs:
  where: {type: path, default: .}
steps:
  - id: files
    title: List the files
    do: {tool: list, args: {path: .}}
";

#[test]
fn valid_plan_passes_the_plan_check() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    assert_snapshot!(folio.seen(&["plan", "check", "plan.yaml"]), @"ok plan.yaml: Look around (1 step)");
    assert_eq!(folio.json(&["plan", "check", "plan.yaml"])["valid"], true);
    folio.file("wrong.yaml", "stepz: []\n");
    let both = folio.call(&["plan", "check", "wrong.yaml", "plan.yaml", "wrong.yaml"]);
    assert_eq!(
        (both.code, both.stdout.as_str()),
        (2, "ok plan.yaml: Look around (1 step)\n"),
        "{both}"
    );
    assert!(both.stderr.contains("mistakes in wrong.yaml, wrong.yaml"), "{both}");
    let both = folio.json(&["plan", "check", "plan.yaml", "plan.yaml"]);
    assert_eq!(both[1]["title"], "Look around", "{both}");
    folio
        .command(&["plan", "check", "-"])
        .write_stdin(PLAN)
        .assert()
        .success();
}

#[test]
fn unreadable_plan_file_does_not_hide_the_mistakes_of_others() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    folio.file("wrong.yaml", "stepz: []\n");
    folio.file("odd.yaml", [0xff]);
    let check = |files: &str| {
        let words: Vec<&str> = ["plan", "check"].into_iter().chain(files.split(' ')).collect();
        folio.seen(&words)
    };
    let seen = [
        "wrong.yaml missing.yaml plan.yaml",
        "odd.yaml wrong.yaml",
        "gone.yaml odd.yaml",
        "plan.yaml missing.yaml",
    ];
    assert_snapshot!(seen.map(check).join("----\n"), @"
    ok plan.yaml: Look around (1 step)
    ! wrong.yaml:1:1: P005 `steps` is missing: a plan is a list of steps
    ! wrong.yaml:1:1: P003 a plan has no key `stepz` [stepz]
    !   hint: did you mean `steps`?
    ! cannot read missing.yaml: no such file or directory
    ! error[file_unusable]: 2 mistakes in wrong.yaml; not checked: missing.yaml
    !   hint: `folio plan schema` prints the JSON Schema of plans
    = 3
    ----
    ! wrong.yaml:1:1: P005 `steps` is missing: a plan is a list of steps
    ! wrong.yaml:1:1: P003 a plan has no key `stepz` [stepz]
    !   hint: did you mean `steps`?
    ! odd.yaml is not valid UTF-8 (byte 0)
    ! error[plan_invalid]: 2 mistakes in wrong.yaml; not checked: odd.yaml
    !   hint: `folio plan schema` prints the JSON Schema of plans
    = 2
    ----
    ! cannot read gone.yaml: no such file or directory
    ! odd.yaml is not valid UTF-8 (byte 0)
    ! error[file_unusable]: not checked: gone.yaml, odd.yaml
    = 3
    ----
    ok plan.yaml: Look around (1 step)
    ! error[file_unusable]: cannot read missing.yaml: no such file or directory
    = 3
    ");
}

/// A program knows the form of the answer from its own call.
#[test]
fn json_form_of_the_plan_check_depends_on_the_number_of_files() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    folio.file("wrong.yaml", "stepz: []\n");
    let called = folio.call(&["--json", "plan", "check", "plan.yaml", "wrong.yaml", "missing.yaml"]);
    let files: Value = serde_json::from_str(&called.stdout).unwrap();
    let valid: Vec<_> = files.as_array().unwrap().iter().map(|file| &file["valid"]).collect();
    assert_eq!(valid, [true, false, false]);
    let failure: Value = serde_json::from_str(&called.stderr).unwrap();
    let keys = |mistake: &Value| mistake.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (missing, mistake) = (&files[2]["errors"][0], &files[1]["errors"][0]);
    assert_eq!(keys(missing), keys(mistake));
    assert_eq!(
        (&missing["file"], &missing["code"]),
        (&json!("missing.yaml"), &json!("file_unusable"))
    );
    let listed = failure["errors"].as_array().unwrap();
    assert!(listed.contains(missing) && listed.contains(mistake), "{failure}");
    assert_eq!(called.code, 3);
    let neither = folio.call(&["--json", "plan", "check", "wrong.yaml", "wrong.yaml"]);
    assert!(neither.stdout.starts_with('['), "{neither}");
    for (name, code, exit) in [
        ("wrong.yaml", &mistake["code"], 2),
        ("missing.yaml", &missing["code"], 3),
    ] {
        let single = folio.call(&["--json", "plan", "check", name]);
        let file: Value = serde_json::from_str(&single.stdout).unwrap();
        assert_eq!((&file["file"], &file["valid"]), (&json!(name), &json!(false)));
        assert_eq!((&file["errors"][0]["code"], single.code), (code, exit), "{single}");
    }
}

#[test]
fn plan_mistakes_are_reported_with_line_and_column() {
    let folio = Folio::new();
    let plan = PLAN
        .replace("tool: list", "tool: lst")
        .replace("title: List", "titel: List")
        .replace("type: path", "type: way");
    folio.file("plan.yaml", plan);
    assert_snapshot!(folio.seen(&["plan", "check", "plan.yaml"]), @r#"
    ! plan.yaml:4:17: P007 "way" is not one of the choices [inputs.where.type]
    !   hint: use one of: string, integer, number, boolean, path, list, object
    ! plan.yaml:7:5: P003 a task has no key `titel` [steps[0].titel]
    !   hint: did you mean `title`?
    ! plan.yaml:8:16: P004 unknown tool "lst" [steps[0].do.tool]
    !   hint: did you mean `list`?
    ! error[plan_invalid]: 3 mistakes in plan.yaml
    !   hint: `folio plan schema` prints the JSON Schema of plans
    = 2
    "#);
    let called = folio.call(&["plan", "check", "plan.yaml", "--json"]);
    let problem: Value = serde_json::from_str(&called.stderr).unwrap();
    assert_eq!(problem["code"], "plan_invalid");
    assert_eq!(problem["errors"][0]["line"], 4);
    assert_snapshot!(folio.seen(&["plan", "check", "missing.yaml"]), @"
    ! error[file_unusable]: cannot read missing.yaml: no such file or directory
    = 3
    ");
}

/// A file that accepts no writes, which looks like a full disk.
fn full_device() -> std::process::Stdio {
    std::fs::File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn unwritable_standard_output_exits_with_5() {
    let folio = Folio::new();
    for arguments in [
        &["--help"] as &[&str],
        &["--version"],
        &["run", "--help"],
        &[],
        &["observe", "list", "--json"],
        &["completions", "bash"],
    ] {
        let called = folio.process(arguments).stdout(full_device()).output().unwrap();
        let told = String::from_utf8(called.stderr).unwrap();
        assert_eq!(called.status.code(), Some(5), "{arguments:?}: {told}");
        assert!(
            told.contains("cannot write to standard output"),
            "{arguments:?}: {told}"
        );
    }
}

#[test]
fn run_completes_when_its_output_cannot_be_written() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
    );
    let arguments = ["--json", "run", "--plan", "plan.yaml"];
    let called = folio.process(&arguments).stdout(full_device()).output().unwrap();
    let told = String::from_utf8(called.stderr).unwrap();
    assert_eq!(called.status.code(), Some(5), "{told}");
    assert!(
        told.contains("cannot write to standard output") && told.contains("r1 has ended: ok"),
        "{told}"
    );
    assert!(!told.contains("folio resume"), "{told}");
    assert_eq!(folio.json(&["show", "r1"])["status"], "ok");
}

#[test]
fn migration_of_a_store_onto_itself_is_refused() {
    let folio = Folio::new();
    folio.ok(&["--store", "sqlite:f.db", "observe", "add", "x"]);
    for other in ["sqlite:f.db", "sqlite:./f.db", "sqlite://f.db"] {
        let called = folio.call(&["--store", "sqlite:f.db", "migrate", "--to", other]);
        assert_eq!(called.code, 2, "{other}: {called}");
        assert!(called.stderr.contains("a copy of itself"), "{other}: {called}");
    }
}

#[test]
fn access_token_that_could_not_be_printed_is_revoked() {
    let folio = Folio::new();
    let made = folio
        .process(&["token", "new", "--role", "client"])
        .stdout(full_device())
        .output()
        .unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(5), "{told}");
    assert!(told.contains("is revoked") && !told.contains("the only time"), "{told}");
    // So it is where nobody reads what it says.
    let mut unread = folio.process(&["token", "new", "--role", "client"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(unread.stdout(writer).status().unwrap().code(), Some(5));
    assert_eq!(folio.json(&["token", "list"])["total"], 0);
    assert_eq!(folio.json(&["token", "list", "--all"])["total"], 2);
}

#[test]
fn settings_file_that_is_a_pipe_is_refused_without_waiting() {
    let folio = Folio::new();
    let pipe = folio.path().join("folio.toml");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let called = folio
        .command(&["observe", "list"])
        .timeout(std::time::Duration::from_secs(20))
        .output()
        .unwrap();
    let told = String::from_utf8(called.stderr).unwrap();
    assert_eq!(called.status.code(), Some(2), "{told}");
    assert!(told.contains("folio.toml: it is not a file"), "{told}");
}
