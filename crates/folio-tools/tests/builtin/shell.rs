//! `shell`: what may run, what it can see, and how it ends.

use std::time::Duration;

use crate::support::World;
use folio_tools::{FailureKind, ShellPolicy};
use serde_json::json;

fn world() -> World {
    World::new().with_shell(ShellPolicy::AllowAll)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn shell_is_denied_by_default() {
    let world = World::new();
    let response = world.call("shell", json!({"argv": ["touch", "x"]})).await;
    let error = response.error.unwrap();
    assert_eq!(error.kind, FailureKind::Denied);
    assert_eq!(
        error.message,
        "shell: `touch x` was not run: this run allows no commands"
    );
    assert!(error.hints[0].contains("--allow-shell"));
    assert!(!world.repo().join("x").exists());
}

#[tokio::test]
async fn shell_allow_list_matches_commands_word_by_word() {
    let policy = ShellPolicy::AllowList(vec![words("echo hi"), words("git * --version"), vec![]]);
    let world = World::new().with_shell(policy);
    assert!(
        world
            .call("shell", json!({"argv": ["echo", "hi", "there"]}))
            .await
            .is_ok()
    );
    for args in [
        json!({"argv": ["echo"]}),
        json!({"argv": ["echo", "hi; id"]}),
        json!({"argv": ["./echo", "hi"]}),
        json!({"argv": ["/bin/echo", "hi"]}),
        json!({"command": "echo hi"}),
        json!({"argv": ["echo", "hi"], "env": {"LD_PRELOAD": "/tmp/x.so"}}),
        json!({"argv": ["echo", "hi"], "env": {}}),
    ] {
        assert_eq!(
            world.error("shell", args.clone()).await.kind,
            FailureKind::Denied,
            "{args}"
        );
    }
}

#[tokio::test]
async fn shell_command_gets_only_the_given_environment() {
    let world = world();
    let run = world
        .outputs("shell", json!({"argv": ["env"], "env": {"ANSWER": 42}}))
        .await;
    let mut lines: Vec<&str> = run["stdout"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["ANSWER=42", "PATH=/usr/local/bin:/usr/bin:/bin"]);
}

#[tokio::test]
async fn shell_command_runs_in_a_granted_folder_with_empty_stdin() {
    let world = world();
    world.file("sub/a.txt", "");
    let run = world
        .outputs("shell", json!({"command": "pwd; ls; cat", "cwd": "sub"}))
        .await;
    let expected = format!(
        "{}\na.txt\n",
        world.repo().canonicalize().unwrap().join("sub").display()
    );
    assert_eq!((&run["stdout"], &run["exit_code"]), (&json!(expected), &json!(0)));
    for cwd in ["..", "/", "/tmp"] {
        assert_eq!(
            world.error("shell", json!({"command": "pwd", "cwd": cwd})).await.code,
            "path_outside_root"
        );
    }
    std::os::unix::fs::symlink("/", world.repo().join("slash")).unwrap();
    assert_eq!(
        world
            .error("shell", json!({"command": "pwd", "cwd": "slash"}))
            .await
            .kind,
        FailureKind::Denied
    );
    assert_eq!(
        world
            .error("shell", json!({"command": "pwd", "cwd": "sub/a.txt"}))
            .await
            .message,
        "sub/a.txt is not a folder"
    );
}

#[tokio::test]
async fn nonzero_exit_code_fails_and_keeps_the_outputs() {
    let response = world()
        .call("shell", json!({"command": "echo out; echo 'bad luck' >&2; exit 3"}))
        .await;
    let error = response.error.unwrap();
    assert_eq!((error.kind, error.code.as_str()), (FailureKind::Failed, "exit_code"));
    assert_eq!(error.hints, ["its last line: bad luck"]);
    assert_eq!(
        (
            &response.outputs["exit_code"],
            &response.outputs["stdout"],
            &response.outputs["stderr"]
        ),
        (&json!(3), &json!("out\n"), &json!("bad luck\n"))
    );
    let error = world().error("shell", json!({"command": "kill -SEGV $$"})).await;
    assert!(error.message.ends_with("was ended by signal 11"));
    let error = world().error("shell", json!({"argv": ["no-such-program"]})).await;
    assert_eq!(
        (error.kind, error.code.as_str()),
        (FailureKind::NotFound, "no_such_program")
    );
}

#[tokio::test]
async fn shell_output_of_fifty_megabytes_is_truncated_in_bounded_memory() {
    let world = world();
    let before = peak_kib();
    let command = "echo first; head -c 50000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last";
    let response = world.call("shell", json!({"command": command})).await;
    assert!(response.is_ok());
    let text = response.outputs["stdout"].as_str().unwrap();
    assert!(
        text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\n"),
        "{}",
        &text[text.len() - 50..]
    );
    assert!(text.contains(" bytes left out …\n"));
    let truncated = response.truncated.unwrap();
    assert!(truncated.total_bytes > 50_000_000 && truncated.kept_bytes <= 512 * 1024);
    assert!(peak_kib() - before < 20_000, "{} KiB", peak_kib() - before);
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn shell_timeout_ends_a_command_that_ignores_sigterm() {
    let world = world().with_limits(|limits| limits.kill_grace = Duration::from_millis(300));
    // Neither the command nor its child listens to being asked.
    let command = "trap '' TERM; echo begun; (trap '' TERM; sleep 30; touch survived) & sleep 30";
    let start = tokio::time::Instant::now();
    let response = world.call("shell", json!({"command": command, "timeout_s": 0.3})).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(response.error.unwrap().kind, FailureKind::TimedOut);
    assert_eq!(
        (&response.outputs["timed_out"], &response.outputs["stdout"]),
        (&json!(true), &json!("begun\n"))
    );
}

#[tokio::test]
async fn background_children_end_with_their_shell_command() {
    let world = world();
    let start = tokio::time::Instant::now();
    let run = world
        .outputs("shell", json!({"command": "(sleep 1.5; touch late) & echo $!"}))
        .await;
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(run["exit_code"], 0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!world.repo().join("late").exists());
}

#[tokio::test]
async fn cancelled_or_dropped_shell_call_ends_its_processes() {
    let world = world();
    let cancel = world.context.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    let error = world.error("shell", json!({"command": "sleep 30"})).await;
    assert_eq!(error.kind, FailureKind::Cancelled);

    let world = self::world();
    let call = world.call(
        "shell",
        json!({"command": "(sleep 1; touch late) & (sleep 1; touch later)"}),
    );
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!world.repo().join("late").exists() && !world.repo().join("later").exists());
}

#[tokio::test]
async fn shell_refuses_invalid_arguments() {
    let world = world();
    for args in [
        json!({}),
        json!({"argv": []}),
        json!({"command": " "}),
        json!({"argv": ["a"], "command": "b"}),
        json!({"argv": [true]}),
        json!({"argv": ["echo", "a\u{0}b"]}),
        json!({"argv": ["echo"], "env": {"A=B": "x"}}),
        json!({"argv": ["echo"], "env": {"A": []}}),
        json!({"argv": ["echo"], "env": {"A": "\u{0}"}}),
        json!({"argv": ["echo"], "timeout_s": 0}),
        json!({"argv": ["echo"], "timeout_s": -1}),
        json!({"argv": ["echo"], "timeout_s": 1e300}),
    ] {
        assert_eq!(
            world.error("shell", args.clone()).await.kind,
            FailureKind::InvalidArgs,
            "{args}"
        );
    }
}

#[tokio::test]
async fn shell_resource_is_its_working_folder_unless_alone_is_false_e9_15() {
    let world = world();
    let repo = world.repo().canonicalize().unwrap().display().to_string();
    let names = |args: serde_json::Value| world.resources("shell", &args).join(" ");
    assert_eq!(names(json!({"command": "x"})), repo);
    assert_eq!(names(json!({"command": "x", "alone": true})), repo);
    let sub = format!("{repo}/sub");
    assert_eq!(names(json!({"command": "x", "cwd": "./sub/"})), sub);
    assert_eq!(names(json!({"command": "x", "cwd": sub})), sub);
    assert_eq!(names(json!({"command": "x", "alone": false})), "");
    assert_eq!(names(json!({"command": "x", "alone": "false"})), "");
}

#[tokio::test]
async fn write_names_its_file_as_resource_and_read_tools_name_none_e9_15() {
    let world = world();
    let one = world.resources("write", &json!({"path": "notes/a.md", "content": ""}));
    assert_eq!(one.len(), 1);
    assert!(one[0].ends_with("/notes/a.md"), "{one:?}");
    assert_eq!(
        world.resources("write", &json!({"path": "run:notes/a.md", "content": ""})),
        one
    );
    assert_eq!(
        world.resources("scratch_update", &json!({"id": "e42"})),
        ["scratchbook/e42"]
    );
    let nothing: [String; 0] = [];
    for tool in [
        "read",
        "list",
        "git",
        "text",
        "scratch_add",
        "scratch_read",
        "observe",
        "page_append",
    ] {
        assert_eq!(
            world.resources(tool, &json!({"path": "a", "id": "e1"})),
            nothing,
            "{tool}"
        );
    }
    // Nothing is made by asking.
    assert!(!std::path::Path::new(&one[0]).parent().unwrap().exists());
}

#[tokio::test]
async fn shell_allow_list_treats_numeric_arguments_as_text() {
    let policy = ShellPolicy::AllowList(vec![words("echo 1")]);
    let args = json!({"argv": ["echo", 1]});
    assert!(policy.allows(&args));
    // What is not allowed is asked about, and not run or refused because a word of it is a number.
    for other in [
        json!({"argv": ["echo", 2]}),
        json!({"argv": ["rm", 1], "timeout_s": "5"}),
    ] {
        assert!(!policy.allows(&other), "{other}");
    }
    let world = World::new().with_shell(policy);
    assert_eq!(world.outputs("shell", args).await["stdout"], "1\n");
}
