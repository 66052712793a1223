//! Runs, through the program: started, shown, watched, cancelled, killed and resumed.

use crate::support::{Folio, Running};
use folio::store::workspace::Write;
use folio::store::{RunAppend, RunQuery};
use folio::{Actor, Role, SpaceName};
use insta::assert_snapshot;
use serde_json::{Value, json};

const PLAN: &str = "
title: Letters of {{ inputs.name }}
inputs: {name: {type: string, default: Ada}}
steps:
  - {id: list, title: List the letters, do: {tool: text, args: {op: echo, value: [a, b]}}}
  - id: each
    title: Each letter
    for_each: results.list.output.value
    concurrency: 1
    step:
      id: look
      title: Letter {{ item }}
      plan:
        steps:
          - {id: note, title: Note it, do: {tool: observe, args: {type: learning, content: 'saw {{ item }}'}}}
        output: '{{ item }}'
  - {id: count, title: Count them, do: {tool: text, args: {op: count, value: '{{ results.each.output }}'}}}
output: {letters: '{{ results.count.output.value }}'}
report: {title: Letters, body: 'There are {{ results.count.output.value }} letters.'}
";

/// A plan that runs until it is stopped.
const SLOW_PLAN: &str = "
title: Slow
steps:
  - {id: first, do: {tool: text, args: {op: echo, value: 1}}}
  - {id: second, do: {tool: wait, args: {ms: 60000}}}
";

/// A plan that takes a second.
const ONE_SECOND_PLAN: &str = "
title: A second
steps:
  - {id: first, do: {tool: observe, args: {type: learning, content: once}}}
  - {id: second, do: {tool: wait, args: {ms: 1000}}}
";

fn folio_with(name: &str, plan: &str) -> Folio {
    let folio = Folio::new();
    folio.file(name, plan);
    folio
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the second step of a run is under way.
fn is_second_step_active(show: &Value) -> bool {
    show["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|node| node["path"] == "second" && node["state"] == "executing")
}

#[test]
fn run_prints_its_steps_report_and_follow_up_commands() {
    let folio = folio_with("plan.yaml", PLAN);
    assert_snapshot!(folio.seen(&["run", "--plan", "plan.yaml"]), @"
    # Letters

    There are 2 letters.
    ! [TIME] ok        list  2 items
    ! [TIME] ok        each/look[0]/note  1 observation
    ! [TIME] ok        each/look[0]  1 ok
    ! [TIME] ok        each/look[1]/note  1 observation
    ! [TIME] ok        each/look[1]  1 ok
    ! [TIME] ok        each  2 ok
    ! [TIME] ok        count  2
    ! [TIME] ok        run  3 ok
    ! 
    ! 
    ! r1 ok: 3 ok
    !   pages           folio tree --run r1
    !   steps           folio show r1
    !   trace           folio trace --run r1
    !   in the browser  folio serve
    ");
    assert_snapshot!(folio.seen(&["runs"]), @"r1 ok Letters of Ada 0.0s TIME");
    assert_snapshot!(folio.seen(&["show", "r1"]), @"
    ✓ Letters of Ada
      ✓ List the letters  list · 2 items
      ✓ Each letter  each · 2 ok
        ✓ Letter a  each/look[0] · 1 ok
          ✓ Note it  each/look[0]/note · 1 observation
        ✓ Letter b  each/look[1] · 1 ok
          ✓ Note it  each/look[1]/note · 1 observation
      ✓ Count them  count · 2
    0.0s · 7 of 7 done

    r1 ok: 3 ok
    with name=Ada

    # Letters

    There are 2 letters.
    ");
    let cut = folio.ok(&["show", "r1", "--limit", "3"]);
    let (tree, _) = cut.split_once(" · 7 of 7 done").unwrap();
    assert!(tree.lines().count() <= 4, "three lines, and the one that counts: {cut}");
    let cut = folio.json(&["show", "r1", "--limit", "3"]);
    assert_eq!(
        (cut["nodes"].as_array().unwrap().len(), &cut["nodes_left_out"]),
        (3, &5.into()),
        "the run itself is a node, too"
    );
    assert_snapshot!(folio.seen(&["tree", "--run", "r1"]), @"
    p1 Letters of Ada workspace ok
    ├─ p2 Main scratchpad scratchpad_root ok
    │  ├─ p4 List the letters scratchpad_exec ok
    │  ├─ p5 Letter a scratchpad_exec ok
    │  │  └─ p6 Note it scratchpad_exec ok
    │  ├─ p8 Letter b scratchpad_exec ok
    │  │  └─ p9 Note it scratchpad_exec ok
    │  ├─ p10 Count them scratchpad_exec ok
    │  └─ p11 Iteration 1 iteration_summary ok
    ├─ p3 Plan plan ok
    └─ p12 Letters note ok
    ");
    assert_eq!(folio.json(&["observe", "list"])["total"], 2);
}

#[test]
fn quiet_run_prints_only_the_report() {
    let folio = folio_with("plan.yaml", PLAN);
    let called = folio.call(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!(
        (called.code, called.stdout.as_str(), called.stderr.as_str()),
        (0, "# Letters\n\nThere are 2 letters.\n", "")
    );
}

#[test]
fn json_run_streams_events_and_ends_with_the_result() {
    let folio = folio_with("plan.yaml", PLAN);
    let stream = lines(&folio.ok(&["run", "--plan", "plan.yaml", "--input", "name=Bob", "--json"]));
    assert_eq!(
        (&stream[0]["event"], &stream[0]["title"]),
        (&json!("run_started"), &json!("Letters of Bob"))
    );
    let finished: Vec<_> = stream
        .iter()
        .filter(|line| line["event"] == "finished")
        .map(|line| &line["path"])
        .collect();
    assert_eq!(finished.len(), 8, "{finished:?}");
    let end = stream.last().unwrap();
    assert_eq!(
        (&end["event"], &end["status"], &end["result"]["output"]),
        (&json!("run_ended"), &json!("ok"), &json!({"letters": 2}))
    );
    assert_eq!(end["pages"]["workspace"], "p1");
    let watched = lines(&folio.ok(&["watch", "r1", "--json"]));
    assert_eq!(watched, stream, "who comes late sees the same");
}

#[test]
fn failed_run_exits_with_1_and_states_the_reason() {
    let plan = "steps: [{id: look, do: {tool: read, args: {path: nowhere.txt}}}]";
    let folio = folio_with("plan.yaml", plan);
    let called = folio.call(&["run", "look for it", "--plan", "plan.yaml"]);
    assert_eq!(called.code, 1);
    // In the line of the step, and at the end.
    let reason = "cannot read nowhere.txt: there is no such file or folder";
    assert_eq!(called.stderr.matches(reason).count(), 3, "{}", called.stderr);
}

/// Tools name what they find by its place below the folder that was granted, and later runs find it by that name.
#[test]
fn path_input_is_resolved_before_tools_and_templates_use_it() {
    let folio = Folio::new();
    folio.file("repo/src/a.txt", "TODO: sweep");
    folio.file("repo/docs/b.txt", "");
    std::os::unix::fs::symlink("repo", folio.path().join("link")).unwrap();
    folio.file(
        "plan.yaml",
        "title: Look at {{ inputs.where | basename }}
inputs: {where: path}
steps:
  - {id: find, do: {tool: grep, args: {path: '{{ inputs.where }}/src', pattern: TODO}}}
output: {given: '{{ inputs.where }}', found: '{{ results.find.output.matches[0].path }}'}
",
    );
    let repo = folio.path().canonicalize().unwrap().join("repo");
    let above = format!("where={}/repo/src/../docs/..", folio.path().display());
    for (nth, given) in ["where=repo/docs/..", &above, "where=link", "where=repo"]
        .iter()
        .enumerate()
    {
        folio.ok(&["run", "--plan", "plan.yaml", "--input", given]);
        let show = folio.json(&["show", &format!("r{}", nth + 1)]);
        assert_eq!(show["title"], "Look at repo", "{given}");
        let output = json!({"given": repo.to_str().unwrap(), "found": "src/a.txt"});
        assert_eq!(show["result"]["output"], output, "{given}: {show}");
    }
}

#[test]
fn step_that_cannot_have_a_plan_says_what_it_is() {
    let folio = folio_with("plan.yaml", PLAN);
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    let seen = ["list", "each"].map(|node| folio.seen(&["plan", "show", "r1", "--node", node]));
    assert_snapshot!(seen.join("----\n"), @r"
    ! error[no_plan]: list is a call of a tool, which has no plan
    !   hint: `folio show r1 --json` lists its nodes and their states
    = 3
    ----
    ! error[no_plan]: each is a group of steps, which stand in the plan around it
    !   hint: `folio show r1 --json` lists its nodes and their states
    = 3
    ");
}

#[test]
fn invalid_run_request_is_refused_before_a_run_begins() {
    let folio = folio_with("plan.yaml", PLAN);
    folio.file(
        "model.yaml",
        "steps: [{id: think, title: Think about it, description: hard}]",
    );
    folio.file(
        "path.yaml",
        "inputs: {where: {type: path}}\nsteps: [{id: look, do: {tool: list, args: {path: .}}}]",
    );
    let seen = [
        folio.seen(&["run"]),
        folio.seen(&["run", "  "]),
        folio.seen(&["run", "make it better"]),
        folio.seen(&["run", "--plan", "model.yaml"]),
        folio.seen(&["run", "--plan", "path.yaml"]),
        folio.seen(&["run", "--plan", "path.yaml", "--input", "where=nowhere"]),
        folio.seen(&["run", "--plan", "path.yaml", "--input", "where="]),
        folio.seen(&["run", "--plan", "plan.yaml", "--input", "nme=x"]),
        folio.seen(&["run", "--plan", "missing.yaml"]),
        folio.seen(&["run", "--plan", "plan.yaml", "--input", "nonsense"]),
        folio.seen(&["run", "plan.yaml"]),
        folio.seen(&["run", "--plan", "plan.yaml", "--allow-tool", "shel"]),
        folio.seen(&["run", "--plan", "plan.yaml", "--allow-tool", "desk.*"]),
    ];
    assert_snapshot!(seen.join("----\n"), @r#"
    ! error[nothing_to_run]: there is neither a plan nor a goal
    !   hint: without a model: folio plan example | folio run --plan - --input repo=.
    = 2
    ----
    ! error[nothing_to_run]: there is neither a plan nor a goal
    !   hint: without a model: folio plan example | folio run --plan - --input repo=.
    = 2
    ----
    ! error[no_model]: only a model can make a plan for a goal, and none is configured
    !   hint: name one with --model anthropic:NAME, openai:NAME, ollama:NAME or openai+http://HOST/v1:NAME
    !   hint: or put it into FOLIO_MODEL, or into folio.toml as model = "…"
    !   hint: without a model: folio plan example | folio run --plan - --input repo=.
    = 2
    ----
    ! error[needs_model]: model.yaml: only a model can do think, and no model is configured
    !   hint: set one with --model, FOLIO_MODEL or model = "…" in folio.toml, or give the task a `do:`
    = 2
    ----
    ! error[inputs_invalid]: path.yaml: the inputs do not fit the plan: the input `where` is missing: a path
    !   hint: pass inputs with --input NAME=VALUE
    = 2
    ----
    ! error[file_unusable]: cannot use the input where, FOLDER/nowhere: no such file or directory
    = 3
    ----
    ! error[inputs_invalid]: path.yaml: the inputs do not fit the plan: the input `where` is empty; name a file or a folder, such as `.` for this folder
    !   hint: pass inputs with --input NAME=VALUE
    = 2
    ----
    ! error[inputs_invalid]: plan.yaml: the inputs do not fit the plan: the plan has no input `nme`; did you mean `name`?
    !   hint: pass inputs with --input NAME=VALUE
    = 2
    ----
    ! error[file_unusable]: cannot read missing.yaml: no such file or directory
    = 3
    ----
    ! error: invalid value 'nonsense' for '--input <NAME=VALUE>': not of the form KEY=VALUE
    ! 
    ! For more information, try '--help'.
    = 2
    ----
    ! error[no_model]: only a model can make a plan for a goal, and none is configured
    !   hint: plan.yaml is a file; if it is a plan, use: folio run --plan plan.yaml
    = 2
    ----
    ! error[usage]: --allow-tool: there is no tool `shel`
    !   hint: did you mean `shell`?
    = 2
    ----
    ! error[usage]: --allow-tool: there is no tool `desk.*`
    !   hint: the tools are: git, grep, http_get, list, observe, page_append, read, result_read, scratch_add, scratch_complete, scratch_pin, scratch_read, scratch_unpin, scratch_update, shell, text, wait, write
    = 2
    "#);
    assert_eq!(folio.json(&["runs"])["total"], 0);
}

#[test]
fn interrupt_cancels_the_run_and_exits_with_130() {
    let folio = folio_with("plan.yaml", SLOW_PLAN);
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["show", "r1"], is_second_step_active);
    running.interrupt();
    let called = running.wait();
    assert_eq!(called.code, 130, "{}", called.stderr);
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "cancelled");
}

/// A run whose second step is active, and whose store cannot be written, after Ctrl-C was pressed once.
fn interrupted_while_the_disk_is_full(folio: &Folio) -> Running {
    let mut running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["show", "r1"], is_second_step_active);
    running.limit_files(Some(0));
    running.interrupt();
    let told = running.said("press Ctrl-C again to exit at once: cannot write to");
    let expected = "the store cannot be written now; r1 is cancelled as soon as it can; press";
    assert!(told.contains(expected), "{told}");
    running
}

#[test]
fn interrupt_while_the_store_cannot_be_written_cancels_the_run_as_soon_as_it_can_e9_11() {
    let folio = folio_with("plan.yaml", SLOW_PLAN);
    let running = interrupted_while_the_disk_is_full(&folio);
    running.limit_files(None);
    let called = running.wait();
    assert_eq!(called.code, 130, "{}", called.stderr);
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "cancelled");
}

#[test]
fn second_interrupt_while_the_store_cannot_be_written_leaves_the_run_e9_11() {
    let folio = folio_with("plan.yaml", SLOW_PLAN);
    let running = interrupted_while_the_disk_is_full(&folio);
    running.interrupt();
    let called = running.wait();
    assert_eq!(called.code, 130, "{}", called.stderr);
    assert!(called.stderr.contains("left r1 before it ended"), "{}", called.stderr);
    // To resume it would do what was to be cancelled.
    assert!(
        called.stderr.contains("cancel it with `folio cancel r1"),
        "{}",
        called.stderr
    );
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "running");
}

#[test]
fn node_of_a_run_is_cancelled_from_another_process() {
    let folio = folio_with("plan.yaml", SLOW_PLAN);
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["show", "r1"], is_second_step_active);
    assert_eq!(folio.call(&["resume", "r1"]).code, 4, "a living process drives it");
    assert_eq!(folio.call(&["cancel", "r1", "--node", "nowhere"]).code, 3);
    folio.ok(&["cancel", "r1", "--node", "second"]);
    let called = running.wait();
    assert_eq!(called.code, 1, "a part of it was not done: {}", called.stderr);
    let run = folio.json(&["show", "r1"]);
    let statuses: Vec<_> = run["nodes"].as_array().unwrap().iter().collect();
    let statuses: Vec<_> = statuses.iter().map(|node| (&node["path"], &node["status"])).collect();
    assert_eq!(
        statuses,
        [
            (&json!(""), &json!("partial")),
            (&json!("first"), &json!("ok")),
            (&json!("second"), &json!("cancelled"))
        ]
    );
    assert!(
        folio.ok(&["cancel", "r1"]).contains("r1"),
        "asking too late is no mistake"
    );
}

#[test]
fn run_of_a_killed_process_resumes_without_repeating_steps() {
    let folio = folio_with("plan.yaml", ONE_SECOND_PLAN);
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["show", "r1"], is_second_step_active);
    running.kill();
    folio.until(&["runs"], |runs| runs["items"][0]["driven"] == false);
    assert!(folio.ok(&["runs"]).contains("interrupted"));
    assert_eq!(folio.call(&["resume", "--quiet"]).code, 0);
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "ok");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);
    assert_snapshot!(folio.seen(&["resume"]), @"! every run has ended");
}

#[test]
fn undriven_run_is_cancelled_at_once() {
    let folio = folio_with("plan.yaml", SLOW_PLAN);
    let running = folio.spawn(&["run", "--plan", "plan.yaml"]);
    folio.until(&["runs"], |runs| runs["total"] == 1);
    folio.until(&["show", "r1"], is_second_step_active);
    running.kill();
    folio.until(&["runs"], |runs| runs["items"][0]["driven"] == false);
    assert_eq!(folio.json(&["cancel", "r1"])["status"], "cancelled");
}

#[test]
fn run_continues_after_its_output_is_closed() {
    let folio = folio_with("plan.yaml", ONE_SECOND_PLAN);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("folio"));
    command
        .args(["run", "--plan", "plan.yaml", "--json"])
        .env_clear()
        .current_dir(folio.path());
    command
        .env("HOME", folio.path().join("home"))
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(folio.json(&["runs"])["items"][0]["status"], "ok");
}

#[test]
fn commands_on_an_unknown_run_exit_with_3() {
    let folio = Folio::new();
    // Without a store nothing is known, either, and that is another reason.
    folio.ok(&["observe", "add", "x"]);
    for command in ["show", "watch", "resume", "cancel"] {
        let called = folio.call(&[command, "r9"]);
        assert_eq!(called.code, 3, "{command}: {called}");
        assert!(
            called
                .stderr
                .starts_with("error[not_found]: there is no run r9 in this space"),
            "{command}: {called}"
        );
    }
}

#[test]
fn role_without_permission_to_begin_runs_exits_with_4_m7_7() {
    let folio = Folio::new();
    folio.file(
        "plan.yaml",
        "title: x\nsteps: [{id: a, do: {tool: observe, args: {content: seen}}}]",
    );
    let refused = folio.call(&["--role", "tool", "run", "--plan", "plan.yaml", "--json"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    let problem: Value = serde_json::from_str(refused.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(problem["code"], "role_denied");
    let told = problem["detail"].as_str().unwrap();
    assert!(!told.contains("plan.yaml"), "the plan is not to blame: {told}");
}

#[test]
fn run_json_includes_the_output_of_each_node() {
    let plan = "title: Twice\nsteps:\n  - {id: each, for_each: [1, 2], as: n, do: {tool: text, args: {op: echo, value: '{{ n }}'}}}\n  \
                - {id: long, do: {tool: text, args: {op: echo, value: '{{ \"x\" * 70000 }}'}}}\n";
    let folio = folio_with("plan.yaml", plan);
    folio.ok(&["run", "--plan", "plan.yaml"]);
    let show = folio.json(&["show", "r1"]);
    let of = |path: &str| {
        let nodes = show["nodes"].as_array().unwrap();
        nodes
            .iter()
            .find(|node| node["path"] == path)
            .unwrap_or_else(|| panic!("{path}: {show}"))
    };
    assert_eq!(of("each/each[0]")["result"]["output"], json!({"value": 1}));
    assert_eq!(of("each")["result"]["output"], json!([{"value": 1}, {"value": 2}]));
    assert!(of("long")["result"]["output_ref"]["hash"].is_string(), "{show}");
    assert_eq!(of("long").get("output_omitted"), None);
}

#[test]
fn spending_of_older_runs_is_read_from_their_journal() {
    let folio = folio_with("plan.yaml", PLAN);
    let store = ["--store", "sqlite:f.db"];
    let told = |folio: &Folio| folio.json(&[&store[..], &["runs"]].concat())["items"][0]["spent"].clone();
    folio.ok(&[&store[..], &["run", "--plan", "plan.yaml"]].concat());
    let spent = told(&folio);
    assert_eq!(spent, json!({"tool_calls": 4}));
    // An older version writes what happens in a run without what it comes to by then.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let url = format!("sqlite:{}", folio.path().join("f.db").display());
        let workspace = folio::Folio::open(&url).await.unwrap().workspace(SpaceName::main());
        let row = workspace.runs(&RunQuery::default()).await.unwrap().remove(0);
        let append = RunAppend {
            run: row.id,
            events: Vec::new(),
            status: None,
            title: None,
            so_far: None,
        };
        let write = Write {
            run: Some(append),
            ..Write::default()
        };
        workspace.record(&Actor::new(Role::Human, "ada"), write).await.unwrap();
        assert_eq!(workspace.runs_so_far(&[row]).await.unwrap().len(), 0);
    });
    assert_eq!(told(&folio), spent);
}

#[test]
fn untitled_plan_names_its_run_after_goal_or_file() {
    let folio = Folio::new();
    folio.file(
        "count-letters.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
    );
    folio.file(
        "goal.yaml",
        "goal: One\nsteps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]",
    );
    folio.ok(&["run", "--plan", "count-letters.yaml", "--quiet"]);
    folio.ok(&["run", "--plan", "goal.yaml", "--quiet"]);
    folio.ok(&["run", "Two", "--plan", "count-letters.yaml", "--quiet"]);
    let runs = folio.json(&["runs"]);
    let titles: Vec<_> = runs["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["title"])
        .collect();
    assert_eq!(titles, ["Two", "One", "count-letters"]);
}

/// A plan with a failure, nobody to do a step, and a list without items.
const MIXED: &str = r##"
title: Harbours
steps:
  - {id: none, title: Nothing to see, for_each: [], do: {tool: text, args: {op: echo, value: 1}}}
  - id: both
    parallel:
      - {id: a, do: {tool: text, args: {op: echo, value: 1}}}
      - {id: b, title: Read it, do: {tool: read, args: {path: gone.txt}}}
  - {id: ask, executor: human, title: Ask in the harbour, description: Which one is open?, reason: Nobody else knows.}
report:
  title: Harbours
  body: "# Harbours\n\nNone.\n"
"##;

#[test]
fn a_run_that_went_badly_is_told_without_noise() {
    let folio = folio_with("plan.yaml", MIXED);
    let run = folio.call(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, "# Harbours\n\nNone.\n"), "{run}");
    assert_snapshot!(folio.seen(&["show", "r1"]), @r"
    ◐ Harbours
      ✓ Nothing to see  none · nothing to do
      ✗ both  invalid_input: 1 ok, 1 failed; both/b: cannot read gone.txt: there is no such file or folder (use `list` to see what there is)
        ✓ a  both/a · 1
        ✗ Read it  both/b · invalid_input: cannot read gone.txt: there is no such file or folder (use `list` to see what there is)
      ✗ Ask in the harbour  ask · needs_input: nobody answered: Ask in the harbour
    0.0s · 2 of 5 done · 3 failed

    r1 partial (invalid_input): 1 ok, 2 failed; both/b: cannot read gone.txt: there is no such file or folder (use `list` to see what there is); ask: nobody answered: Ask in the harbour

    # Harbours

    None.
    ");
    assert_snapshot!(folio.seen(&["page", "show", "p2"]), @r"
    # Main scratchpad

    <!-- p2 scratchpad_root · planner · partial · iteration 1 -->

    ## Goal

    Harbours

    ## Iteration 1: plan

    3 steps are planned.

    *remaining*

    - Nothing to see
    - both
    - Ask in the harbour

    ## Nothing to see: 0 items

    ## Branch roll-up

    1 ok, 2 failed; both/b: cannot read gone.txt: there is no such file or folder (use `list` to see what there is); ask: nobody answered: Ask in the harbour

    *results*

    - none ok: nothing to do
    - a ok: 1 [p4]
    - b failed: cannot read gone.txt: there is no such file or folder (use `list` to see what there is) [p5]
    - ask failed: nobody answered: Ask in the harbour [p6]

    ## Pages

    - p4 a (ok)
    - p5 Read it (failed)
    - p6 Ask in the harbour (failed)
    - p7 Iteration 1 (partial)
    ");
    let trace = folio.seen(&["trace", "--run", "r1", "--component", "engine"]);
    let line = |words: &str| {
        trace
            .lines()
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("{words}: {trace}"))
    };
    let failed = line("finished both/b by runner");
    assert!(failed.contains(": invalid_input: cannot read gone.txt: "), "{failed}");
    assert!(failed.contains(" failed ") && !failed.contains("outcome="), "{failed}");
    assert!(
        line("questioned ask by runner").ends_with(": a task for a person: Ask in the harbour"),
        "{trace}"
    );
    assert!(line("finished run by runner").contains(" partial"), "{trace}");
    // Programs read the ids.
    let lines = folio.json(&["trace", "--run", "r1", "--component", "engine"]);
    let shown = folio.json(&["show", "r1"]);
    let mut nodes = shown["nodes"].as_array().unwrap().iter();
    let id = &nodes.find(|node| node["path"] == "both/b").unwrap()["node_id"];
    let mut lines_of = lines["items"].as_array().unwrap().iter();
    assert!(id.is_string() && lines_of.any(|line| line["node_id"] == *id), "{lines}");
    assert!(!lines.to_string().contains("\"node_id\":\"both/b\""), "{lines}");
}

/// A rule that cannot be filled in changes no result, so nobody would look for what it left out.
#[test]
fn rule_of_observe_that_cannot_be_filled_in_is_named_where_the_run_ends() {
    let rules = "[{type: learning, content: 'saw {{ result.output.vlaue }}'}, {type: learning, content: 'saw {{ result.output.value }}'}]";
    let step = |observe: &str| {
        format!("title: x\nsteps: [{{id: a, do: {{tool: text, args: {{op: echo, value: y}}}}, observe: {observe}}}]")
    };
    let folio = folio_with("plan.yaml", &step(rules));
    let called = folio.call(&["run", "--plan", "plan.yaml"]);
    assert_eq!(called.code, 0, "{called}");
    let left_out = "not everything was written to memory: observe[0]: `result.output.vlaue`:";
    assert!(called.stderr.contains(left_out), "{called}");
    let command = "left out        folio trace --run r1 --component scratch_page";
    assert!(called.stderr.contains(command), "{called}");
    let trace = folio.json(&["trace", "--run", "r1", "--component", "scratch_page"]);
    let rejected = trace["items"].as_array().unwrap();
    let rejected = rejected.iter().find(|line| line["status"] == "rejected").unwrap();
    assert_eq!(rejected["detail"]["code"], "rule_unfilled");
    assert_eq!(folio.json(&["observe", "list"])["total"], 1);

    let told = lines(&folio.ok(&["run", "--plan", "plan.yaml", "--json"]));
    let reason = told.last().unwrap()["unwritten"].as_str().unwrap();
    assert!(reason.starts_with("observe[0]: `result.output.vlaue`:"), "{reason}");

    folio.file("plan.yaml", step("{type: learning, content: seen}"));
    let called = folio.call(&["run", "--plan", "plan.yaml"]);
    assert!(!called.stderr.contains("not everything"), "{called}");
    let told = lines(&folio.ok(&["run", "--plan", "plan.yaml", "--json"]));
    assert_eq!(told.last().unwrap().get("unwritten"), None);
}
