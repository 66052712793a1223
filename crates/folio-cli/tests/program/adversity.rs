//! Adverse conditions: a full disk, a huge output, odd names, two processes at once, plans full of mistakes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use crate::support::{Called, Folio};
use serde_json::{Value, json};

/// Calls the program with a limit of `blocks` blocks of 1,024 bytes per file, which looks like a full disk to it.
fn on_a_full_disk(folio: &Folio, blocks: u32, arguments: &[&str]) -> Called {
    let program = assert_cmd::cargo::cargo_bin!("folio");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).arg(program).args(arguments);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folio.path().join("home"))
        .current_dir(folio.path());
    Called::of(command.output().unwrap())
}

fn problem(called: &Called) -> Value {
    serde_json::from_str(called.stderr.lines().last().unwrap()).unwrap_or_else(|e| panic!("{e}: {}", called.stderr))
}

/// Calls the program as a user without rights to protected folders and to the memory of other processes: root has to
/// drop its privileges.
fn call_unprivileged(folio: &Folio, arguments: &[&str]) -> Called {
    let mut command = folio.process(arguments);
    if rustix::process::geteuid().is_root() {
        let less = "-dac_override,-dac_read_search,-sys_ptrace,-sys_admin,-perfmon";
        let as_root = std::mem::replace(&mut command, Command::new("setpriv"));
        command
            .args(["--inh-caps", less, "--bounding-set", less])
            .arg(as_root.get_program())
            .args(as_root.get_args())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", folio.path().join("home"))
            .current_dir(folio.path());
    }
    Called::of(command.output().unwrap())
}

#[test]
#[cfg(target_os = "linux")]
fn command_cannot_read_the_environment_of_the_program() {
    let folio = Folio::new();
    std::fs::write(
        folio.path().join("plan.yaml"),
        r"
title: Curious
steps:
  - {id: own, do: {tool: shell, args: {command: 'cat /proc/self/environ'}}}
  - {id: parent, do: {tool: shell, args: {command: 'cat /proc/$PPID/environ'}}}
report: '{{ results.own.status }} {{ results.parent.status }}: {{ results.parent.output.stderr }}'
",
    )
    .unwrap();
    let called = call_unprivileged(&folio, &["run", "--plan", "plan.yaml", "--allow-shell"]);
    assert!(called.stdout.contains("ok failed: cat: /proc/"), "{called}");
    assert!(called.stdout.contains("/environ: Permission denied"), "{called}");
}

#[test]
fn store_in_a_read_only_folder_stays_readable() {
    use std::os::unix::fs::PermissionsExt as _;
    let folio = Folio::new();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let (store, home) = ("sqlite:closed ä%/folio.db", folio.path().join("home"));
    let at = |arguments: &[&str]| call_unprivileged(&folio, &[&["--store", store], arguments].concat());
    std::fs::create_dir(&home).unwrap();
    mode(&home, 0o777);
    folio.file(
        "plan.yaml",
        "title: One\nsteps: [{id: a, do: {tool: observe, args: {content: here}}}]\n",
    );
    folio.ok(&["--store", store, "run", "--plan", "plan.yaml"]);
    // An index of words that is behind could not catch up there.
    folio.ok(&["--store", store, "search", "here"]);
    let (folder, file) = (folio.path().join("closed ä%"), folio.path().join("closed ä%/folio.db"));
    mode(folio.path(), 0o755);
    mode(&file, 0o644);
    mode(&folder, 0o555);
    let before = std::fs::read_dir(&folder).unwrap().count();
    for (arguments, has) in [
        (["observe", "list"].as_slice(), "here"),
        (&["runs"], "r1 ok One"),
        (&["show", "r1"], "r1 ok: 1 ok"),
        (&["search", "here"], "here"),
        (&["doctor"], "looked at"),
        (&["export"], "here"),
        (&["backup", "home/copy.db"], "copied"),
    ] {
        let called = at(arguments);
        assert!(
            called.code == 0 && called.stdout.contains(has),
            "{arguments:?}: {called}"
        );
        assert_eq!(called.stderr, "", "{arguments:?}");
    }
    for arguments in [["observe", "add", "there"].as_slice(), &["run", "--plan", "plan.yaml"]] {
        let called = at(arguments);
        assert_eq!(called.code, 5, "{called}");
        assert!(called.stderr.contains("is not writable"), "{called}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), before);

    // What a process that was killed left in the log beside it cannot be read from there, and is not left out.
    mode(&folder, 0o755);
    leave_write_ahead_log(&file);
    mode(&folder, 0o555);
    let called = at(&["runs"]);
    mode(&folder, 0o755);
    assert_eq!(called.code, 5, "{called}");
    assert!(called.stderr.contains("it was not closed"), "{called}");
}

/// Leaves a write-ahead log beside `file`, as a killed process does.
fn leave_write_ahead_log(file: &std::path::Path) {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    std::fs::write(&log, [0_u8; 64]).unwrap();
}

#[test]
fn full_disk_run_exits_with_5_and_resumes_without_loss() {
    let folio = Folio::new();
    let steps: Vec<String> = (0..1000)
        .map(|n| format!("  - {{id: s{n}, do: {{tool: observe, args: {{content: 'saw {n}'}}}}}}"))
        .collect();
    folio.file("plan.yaml", format!("title: Many\nsteps:\n{}\n", steps.join("\n")));
    folio.ok(&["observe", "add", "before"]);

    let called = on_a_full_disk(&folio, 2000, &["run", "--plan", "plan.yaml", "--json"]);
    assert_eq!(called.code, 5, "{}", called.stderr);
    let problem = problem(&called);
    assert_eq!(problem["code"], "store_unavailable", "{problem}");
    // A disk that is full says so itself; here it is a limit that a shell sets.
    let detail = problem["detail"].to_string();
    assert!(detail.contains("(`ulimit -f`); raise that limit"), "{problem}");
    let hints = problem["hints"].to_string();
    assert!(hints.contains("resume it with `folio resume r1`"), "{problem}");
    let finished = called
        .stdout
        .lines()
        .filter(|line| line.contains("\"event\":\"finished\""))
        .count();
    assert!(finished > 0, "nothing was done before the disk was full");

    assert_eq!(folio.json(&["doctor"])["problems"], Value::Array(Vec::new()));
    folio.ok(&["resume", "--quiet"]);
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "ok");
    assert_eq!(folio.json(&["observe", "list", "--limit", "1"])["total"], 1001);
}

#[test]
fn doctor_reports_an_unreadable_run_journal() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]\n",
    );
    let at = |arguments: &[&str]| folio.call(&[&["--store", "sqlite:s.db"], arguments].concat());
    let ran = at(&["run", "--plan", "plan.yaml"]);
    assert_eq!(ran.code, 0, "{ran}");
    let healthy = at(&["doctor"]);
    assert_eq!(healthy.code, 0, "{healthy}");
    assert!(healthy.stdout.contains("the journals of 1 run,"), "{healthy}");

    // One letter of the plan in the journal is another one: the rows say what the log says, and it is no plan.
    let file = folio.path().join("s.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let (right, wrong) = (b"\"steps\":", b"\"stepz\":");
    let places: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(right)).collect();
    assert!(!places.is_empty(), "the plan is not in the file as it is written");
    for place in places {
        bytes[place..place + wrong.len()].copy_from_slice(wrong);
    }
    std::fs::write(&file, bytes).unwrap();
    let shown = at(&["show", "r1"]);
    assert_eq!(shown.code, 6, "{shown}");
    assert!(shown.stderr.contains("error[run_unreadable]"), "{shown}");
    let damaged = at(&["doctor"]);
    assert_eq!(damaged.code, 6, "{damaged}");
    assert!(damaged.stdout.contains("space main: run r1: "), "{damaged}");
}

#[test]
fn fifty_megabytes_of_tool_output_are_truncated_with_a_note() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Loud\nsteps: [{id: loud, do: {tool: shell, args: {command: 'head -c 52428800 /dev/zero | tr \"\\\\0\" x'}}}]\n",
    );
    let called = folio
        .command(&["run", "--plan", "plan.yaml", "--allow-shell"])
        .env("PATH", "/usr/bin:/bin")
        .output();
    assert_eq!(Called::of(called.unwrap()).code, 0);
    let show = folio.json(&["show", "r1"]);
    assert_eq!(
        (&show["spent"], &show["paused"]),
        (&json!({"tool_calls": 1}), &json!(false))
    );
    let notes = show["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["path"] == "loud")
        .unwrap()["notes"]
        .clone();
    assert!(notes.as_str().unwrap().contains("52428800"), "{notes}");
    let size: u64 = walk(folio.path())
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert!(size < 8 * 1024 * 1024, "{size} bytes were kept of it");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn non_utf8_file_names_are_listed_and_read() {
    let folio = Folio::new();
    let place = folio.path().join("place");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join(OsStr::from_bytes(b"odd\xff.txt")), "inside").unwrap();
    folio.file(
        "plan.yaml",
        "title: Odd
inputs: {place: path}
steps:
  - {id: list, do: {tool: list, args: {path: '{{ inputs.place }}'}}}
  - {id: read, do: {tool: read, args: {path: '{{ results.list.output.files[0].path }}'}}}
output: ['{{ results.list.output.files[0].path }}', '{{ results.read.output.text }}']
",
    );
    folio.ok(&["run", "--plan", "plan.yaml", "--input", "place=place"]);
    assert_eq!(
        folio.json(&["show", "r1"])["result"]["output"],
        serde_json::json!(["odd\\xff.txt", "inside"])
    );

    let mut command = folio.command(&["run", "--plan", "plan.yaml", "--input"]);
    let called = Called::of(command.arg(OsStr::from_bytes(b"place=\xff")).output().unwrap());
    assert_eq!(called.code, 2, "{}", called.stderr);
    assert!(called.stderr.contains("invalid UTF-8"), "{}", called.stderr);
}

#[test]
fn two_processes_creating_one_store_both_finish() {
    let folio = Folio::new();
    folio.file("plan.yaml", "title: Two\nsteps: [{id: a, do: {tool: observe, args: {content: here}}}, {id: b, do: {tool: wait, args: {ms: 200}}}]\n");
    let running: Vec<_> = (0..4)
        .map(|_| folio.spawn(&["run", "--plan", "plan.yaml", "--quiet", "--no-resume"]))
        .collect();
    for running in running {
        let called = running.wait();
        assert_eq!(called.code, 0, "{}", called.stderr);
    }
    let runs = folio.json(&["runs"]);
    assert_eq!(runs["total"], 4);
    assert!(
        runs["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|run| run["status"] == "ok"),
        "{runs}"
    );
    assert_eq!(
        folio.json(&["observe", "list", "--type", "contextual_insight"])["total"],
        4
    );
    assert_eq!(folio.json(&["doctor"])["problems"], Value::Array(Vec::new()));
}

#[test]
fn plan_with_ten_mistakes_reports_all_and_starts_no_run() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: Wrong
inputs: {n: {type: integer, default: many}}
colour: red
steps:
  - {id: a, do: {tool: grpe, args: {pattern: x}}}
  - {id: a, do: {tool: text, args: {op: echo}}}
  - {id: b, needs: [nobody], do: {tool: text, args: {op: echo}}}
  - {id: c, needs: [d], do: {tool: text, args: {op: echo}}}
  - {id: d, needs: [c], do: {tool: text, args: {op: echo}}}
  - {id: e, do: {tool: text, args: {op: echo, value: '{{ inputs.missing }}'}}}
  - {id: f, do: {tool: text, args: {op: echo, value: '{{ results.later.output }}'}}}
  - {id: g, do: {tool: read, args: {}}}
  - {id: h, timeout: soon, do: {tool: text, args: {op: echo}}}
  - {parallel: []}
",
    );
    let called = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(called.code, 2);
    let mistakes: Vec<&str> = called
        .stderr
        .lines()
        .filter(|line| line.starts_with("plan.yaml:"))
        .collect();
    assert!(mistakes.len() >= 10, "{}", called.stderr);
    for word in [
        "grpe",
        "nobody",
        "wait for each other",
        "missing",
        "later",
        "soon",
        "colour",
    ] {
        assert!(
            mistakes.iter().any(|line| line.contains(word)),
            "{word} is not named:\n{}",
            called.stderr
        );
    }
    assert_eq!(folio.json(&["runs"])["total"], 0);
}

#[test]
fn next_run_resumes_a_run_whose_process_was_killed() {
    let folio = Folio::new();
    folio.file("slow.yaml", "title: Slow\nsteps: [{id: first, do: {tool: observe, args: {content: once}}}, {id: second, do: {tool: wait, args: {ms: 800}}}]\n");
    folio.file(
        "quick.yaml",
        "title: Quick\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]\n",
    );
    let running = folio.spawn(&["run", "--plan", "slow.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["observe", "list"], |list| list["total"] == 1);
    running.kill();
    let called = folio.call(&["run", "--plan", "quick.yaml"]);
    assert_eq!(called.code, 0, "{}", called.stderr);
    assert!(called.stderr.contains("resuming r1"), "{}", called.stderr);
    let runs = folio.json(&["runs"]);
    let statuses: Vec<_> = runs["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["status"])
        .collect();
    assert_eq!(statuses, ["ok", "ok"], "{runs}");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
}

#[test]
fn own_api_key_in_tool_and_model_output_is_redacted() {
    let key = "correct-horse-battery";
    let folio = Folio::new();
    let found = json!({"role": "planner", "contains": "Decide how", "json": {
        "decision": "execute", "reason": "it is small", "action": {"tool": "read", "args": {"path": "found.txt"}}
    }});
    let repeated = json!({"notes": format!("the key is {key}"), "output": {"keys": [key]}});
    let repeated = json!({"role": "executor", "calls": [{"tool": "finish", "args": repeated}]});
    folio.file(
        "script.json",
        json!({"version": 1, "cues": [found, repeated]}).to_string(),
    );
    folio.file("found.txt", format!("my key is {key}\n"));
    let run = [
        "run",
        "Look around",
        "--model",
        "scripted:script.json",
        "--quiet",
        "--json",
    ];
    let ran = folio.command(&run).env("OPENAI_API_KEY", key).output();
    let ran = Called::of(ran.unwrap());
    assert!(
        ran.code == 0 && ran.stdout.contains("the key is [redacted:own_secret]"),
        "{ran}"
    );
    assert!(!ran.stdout.contains(key), "{ran}");
    let page = folio.ok(&["page", "show", "p2"]);
    assert!(page.contains("my key is [redacted:own_secret]"), "{page}");
    let written = walk(&folio.path().join("home"));
    assert!(!written.is_empty());
    for file in written {
        let bytes = std::fs::read(&file).unwrap();
        let is_there = bytes.windows(key.len()).any(|part| part == key.as_bytes());
        assert!(!is_there, "{}", file.display());
    }
}

#[test]
fn full_disk_error_names_the_output_file_and_leaves_none() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", &"a long note ".repeat(5_000)]);
    for arguments in [["backup", "copy.db"].as_slice(), &["export", "--out", "copy.db"]] {
        let called = on_a_full_disk(&folio, 48, arguments);
        assert_eq!(called.code, 5, "{called}");
        assert!(called.stderr.contains("copy.db: "), "{called}");
        assert!(!called.stderr.contains("--store"), "{called}");
        let left = walk(folio.path())
            .iter()
            .any(|file| file.to_string_lossy().contains("copy.db"));
        assert!(!left, "{arguments:?}");
    }
}

#[test]
fn store_on_a_full_disk_can_be_read_and_copied_elsewhere() {
    let folio = Folio::new();
    folio.ok(&["observe", "add", "before"]);
    // Not even the index of a log has room.
    let on_a_full_disk = |arguments: &[&str]| on_a_full_disk(&folio, 1, arguments);
    let list = on_a_full_disk(&["observe", "list"]);
    assert_eq!(list.code, 0, "{list}");
    assert!(list.stdout.contains("before"), "{list}");
    let exported = on_a_full_disk(&["export"]);
    assert_eq!(exported.code, 0, "{exported}");
    assert_eq!(exported.stdout, folio.ok(&["export"]));
    for change in [["observe", "add", "after"], ["observe", "archive", "e1"]] {
        let refused = on_a_full_disk(&change);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("full"), "{refused}");
    }
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
}

#[test]
fn name_that_leaves_no_room_for_files_beside_it_is_refused_and_leaves_no_file() {
    for (length, fits) in [(242, true), (243, false), (247, false), (250, false), (255, false)] {
        let folio = Folio::new();
        let name = format!("{}.db", "n".repeat(length - 3));
        let called = folio.call(&["--store", &format!("sqlite:{name}"), "observe", "add", "x"]);
        assert_eq!(called.code, if fits { 0 } else { 5 }, "{length}: {called}");
        let is_named = called
            .stderr
            .contains("its name, or that of a file beside it, is too long");
        assert_eq!(is_named, !fits, "{length}: {called}");
        assert_eq!(folio.path().join(&name).exists(), fits, "{length}");
    }
    // What an earlier version created like that is not called unreadable for no reason.
    let folio = Folio::new();
    let name = format!("{}.db", "n".repeat(247));
    folio.file(&name, "");
    let called = folio.call(&["--store", &format!("sqlite:{name}"), "observe", "add", "x"]);
    assert!(called.stderr.contains("is too long"), "{called}");
}
