//! Runs in a real store, with real tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use folio_engine::plan;
use folio_engine::{Event, NodeId, NodeResult, Outcome, StopReason};
use folio_memory::id::Ref;
use folio_memory::{Actor, EntryQuery, PageQuery, PageRole, Role, RunId, Seq, SpaceName};
use folio_runner::{NewRun, Runner, RunnerError, RunnerOptions, Watch, row_as_of};
use folio_store::sqlite::OpenOptions;
use folio_store::workspace::Eviction;
use folio_store::{BlobHash, LogRow, RandomIds, RunRow, SqliteStore, Store, StoreError, SystemClock, Workspace};
use folio_testkit::{Fault, FaultyStore};
use folio_tools::{Registry, ShellPolicy};
use serde_json::{Value, json};

struct House {
    shell: ShellPolicy,
    runner: Runner,
    folder: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        Self::with(RunnerOptions::default())
    }

    fn with(options: RunnerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runner = runner_on(&folder.path().join("folio.db"), options);
        Self {
            shell: ShellPolicy::default(),
            runner,
            folder,
        }
    }

    async fn submit(&self, plan: &str) -> Result<RunId, RunnerError> {
        let plan = plan::parse(plan, &self.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
        let new = NewRun {
            folder: Some(self.folder.path().to_owned()),
            shell: self.shell.clone(),
            ..NewRun::of(plan, Actor::new(Role::Human, "test"))
        };
        Ok(self.runner.submit(new).await?.0)
    }

    async fn run(&self, plan: &str) -> (RunId, NodeResult) {
        let run = self.submit(plan).await.unwrap();
        (run, self.runner.drive(run).await.unwrap())
    }

    async fn output(&self, run: RunId, path: &str) -> Value {
        let run = self.runner.load(run).await.unwrap();
        json!(
            run.node_at(path)
                .unwrap_or_else(|| panic!("no node {path}"))
                .result
                .unwrap()
                .output
        )
    }
}

fn runner_on(path: &Path, options: RunnerOptions) -> Runner {
    runner_in(SqliteStore::open(&OpenOptions::at(path)).unwrap(), options)
}

fn runner_in(store: Arc<dyn Store>, options: RunnerOptions) -> Runner {
    let workspace = Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    );
    Runner::new(workspace, Registry::with_builtins(), options)
}

const ECHO: &str = "
title: Echo
steps:
  - {id: a, do: {tool: text, args: {op: echo, value: {n: 2}}}}
  - parallel:
      - {id: b, do: {tool: text, args: {op: echo, value: '{{ results.a.output.value.n }}'}}}
      - id: c
        plan:
          steps: [{id: inner, do: {tool: text, args: {op: echo, value: deep}}}]
          output: '{{ results.inner.output.value }}'
  - {id: d, do: {tool: text, args: {op: concat, values: ['{{ results.c.output }}', '{{ results.b.output.value }}']}}}
";

#[tokio::test]
async fn plan_runs_through_and_later_steps_read_earlier_results() {
    let house = House::new();
    let (run, result) = house.run(ECHO).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(house.output(run, "d").await, json!({"inline": {"value": "deep2"}}));
}

#[tokio::test]
async fn large_for_each_lists_are_split_across_commits() {
    let house = House::new();
    let each = |n: u32| {
        json!({"id": format!("e{n}"), "for_each": ["{{ results.long.output.value }}"],
            "step": {"id": "one", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}})
    };
    let members: Vec<Value> = (0..6).map(each).collect();
    let template = "{% raw %}{% for i in range(10000) %}{{ v }}{% endfor %}{% endraw %}";
    let args = json!({"op": "template", "data": {"v": "y".repeat(750)}, "template": template});
    let plan = json!({"title": "Six long lists", "steps": [
        {"id": "long", "do": {"tool": "text", "args": args}},
        {"parallel": members},
    ]});
    let (_, result) = house.run(&plan.to_string()).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);

    let workspace = house.runner.workspace();
    let commits = workspace
        .store()
        .changes(workspace.space(), Seq(0), 1_000)
        .await
        .unwrap();
    let bytes = |row: &LogRow| -> u64 {
        let run = row.record.run.iter();
        run.flat_map(|run| &run.events).map(Event::bytes).sum()
    };
    let largest = commits.iter().map(bytes).max().unwrap_or_default();
    assert!((20_000_000..40_000_000).contains(&largest), "{largest}");
}

#[tokio::test]
async fn result_read_returns_results_of_earlier_steps() {
    let house = House::new();
    let long = "x".repeat(100_000);
    let items: Vec<u32> = (0..100).collect();
    let plan = json!({"title": "Look back", "budget": {"items": 100}, "steps": [
        {"id": "small", "do": {"tool": "text", "args": {"op": "echo", "value": {"n": 2}}}},
        {"id": "large", "do": {"tool": "text", "args": {"op": "echo", "value": long}}},
        [
            {"id": "of-small", "do": {"tool": "result_read", "args": {"node": "small"}}},
            {"id": "of-large", "do": {"tool": "result_read", "args": {"node": "large", "max_bytes": 10}}},
            {"id": "of-itself", "optional": true, "do": {"tool": "result_read", "args": {"node": "group-3/of-itself"}}},
            {"id": "of-none", "optional": true, "do": {"tool": "result_read", "args": {"node": "nowhere"}}},
        ],
        {"id": "all", "for_each": items, "max_items": 100,
         "step": {"id": "one", "do": {"tool": "result_read", "args": {"node": "small"}}}},
    ]});
    let (run, _) = house.run(&plan.to_string()).await;
    let read = async |path: &str| house.output(run, path).await["inline"]["text"].clone();
    let small = "{\n  \"value\": {\n    \"n\": 2\n  }\n}";
    assert_eq!(read("group-3/of-small").await, small);
    let of_large = house.output(run, "group-3/of-large").await;
    let size = of_large["inline"]["total_bytes"].as_u64().unwrap_or_default();
    assert!(size > 100_000, "{of_large}");
    for item in [0, 63, 99] {
        assert_eq!(read(&format!("all/one[{item}]")).await, small);
    }
    let run = house.runner.load(run).await.unwrap();
    let notes = |path: &str| run.node_at(path).unwrap().result.unwrap().notes.clone();
    assert!(
        notes("group-3/of-itself").contains("group-3/of-itself has no result yet"),
        "{}",
        notes("group-3/of-itself")
    );
    assert!(
        notes("group-3/of-none").contains("there is no node \"nowhere\" in this run"),
        "{}",
        notes("group-3/of-none")
    );
}

#[tokio::test]
async fn result_read_reads_field_lines_even_of_evicted_results_m7_8_v9() {
    let house = House::new();
    let lines: String = (0..9_000).map(|line| format!("line {line}\n")).collect();
    let answer = json!({"stdout": lines, "exit_code": 0}).to_string();
    let eviction = Eviction {
        limit_tokens: 200,
        tool: "shell".to_owned(),
        ..Eviction::default()
    };
    let (workspace, agent) = (house.runner.workspace(), Actor::new(Role::Client, "agent"));
    let evicted = workspace.evict(&agent, std::io::Cursor::new(answer.into_bytes()), eviction);
    let handle = evicted.await.unwrap().kept.unwrap().handle.to_string();
    let read = |id: &str, node: &str| {
        let args = json!({"node": node, "field": "stdout", "lines": "3-4"});
        json!({"id": id, "optional": true, "do": {"tool": "result_read", "args": args}})
    };
    let echo = json!({"op": "echo", "value": {"stdout": lines}});
    let plan = json!({"title": "Look back", "steps": [
        {"id": "own", "do": {"tool": "text", "args": echo}},
        {"id": "back", "parallel": [
            read("away", &handle),
            {"id": "here", "do": {"tool": "result_read", "args": {"node": "own", "field": "value.stdout", "lines": "3-4"}}},
            read("nowhere", "nothing"),
        ]},
    ]});
    let (run, _) = house.run(&plan.to_string()).await;
    for step in ["back/away", "back/here"] {
        let read = house.output(run, step).await["inline"]["text"].clone();
        assert_eq!(read, "line 2\nline 3\n", "{step}");
    }
    let run = house.runner.load(run).await.unwrap();
    let notes = &run.node_at("back/nowhere").unwrap().result.unwrap().notes;
    assert!(notes.contains("there is no node \"nothing\" in this run"), "{notes}");
}

#[tokio::test]
async fn result_read_of_groups_and_for_each_returns_members_e9_2() {
    let house = House::new();
    let echo =
        |id: &str, value: Value| json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": value}}});
    let long = "x".repeat(100_000);
    let read = |node: &str| json!({"id": format!("of-{node}"), "do": {"tool": "result_read", "args": {"node": node, "max_bytes": 900_000}}});
    let plan = json!({"title": "Look back", "steps": [
        {"id": "pair", "parallel": [
            {"id": "both", "sequence": [echo("small", json!(1)), echo("large", json!(long))]},
            {"id": "gone", "optional": true, "do": {"tool": "read", "args": {"path": "nowhere.md"}}},
        ]},
        {"id": "each", "for_each": ["a", "b"], "step": echo("one", json!("{{ item }}"))},
        {"id": "back", "parallel": [read("pair"), read("each")]},
    ]});
    let (run, result) = house.run(&plan.to_string()).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    let workspace = house.runner.workspace();
    let pair = json!({"both": {"small": {"value": 1}, "large": {"value": long}}, "gone": null});
    for (node, expected) in [("pair", pair), ("each", json!([{"value": "a"}, {"value": "b"}]))] {
        let mut read = house.output(run, &format!("back/of-{node}")).await["inline"].clone();
        if read.is_null() {
            let hash = house.output(run, &format!("back/of-{node}")).await["blob"]["hash"].clone();
            let hash = BlobHash(hash.as_str().unwrap().to_owned());
            let bytes = workspace.store().blob(workspace.space(), &hash).await.unwrap();
            read = serde_json::from_slice(&bytes).unwrap();
        }
        let read: Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
        assert_eq!(read, expected, "{node}");
    }
}

#[tokio::test]
async fn stale_run_row_takes_its_status_from_the_journal() {
    let house = House::new();
    let run = house.submit(ECHO).await.unwrap();
    let (before, begun) = house.runner.seen(run).await.unwrap();
    assert_eq!((before.status.as_str(), begun.result()), ("running", None));
    house.runner.drive(run).await.unwrap();
    let (after, ended) = house.runner.seen(run).await.unwrap();
    assert_eq!((after.status.as_str(), after.driven), ("ok", false));
    assert_eq!(after, house.runner.workspace().run(Ref::Id(run)).await.unwrap());
    let stale = row_as_of(&ended, RunRow { driven: true, ..before });
    assert_eq!((stale.status.as_str(), stale.driven), ("ok", false));
}

#[tokio::test]
async fn run_pages_form_the_tree_of_seed_000() {
    let house = House::new();
    let (run, _) = house.run(ECHO).await;
    let workspace = house.runner.workspace();
    let query = PageQuery {
        run: Some(run),
        ..PageQuery::default()
    };
    let pages = workspace.store().pages(workspace.space(), &query).await.unwrap();
    let title_of = |id| {
        pages
            .iter()
            .find(|page| Some(page.id) == id)
            .map_or("-", |page| page.fields.title.as_str())
    };
    let tree: Vec<String> = pages
        .iter()
        .map(|page| {
            format!(
                "{} < {} ({}, {})",
                page.fields.title,
                title_of(page.fields.parent),
                page.fields.role,
                page.fields.status
            )
        })
        .collect();
    assert_eq!(
        tree,
        [
            "Echo < - (workspace, ok)",
            "Main scratchpad < Echo (scratchpad_root, ok)",
            "Plan < Echo (plan, ok)",
            "a < Main scratchpad (scratchpad_exec, ok)",
            "b < Main scratchpad (scratchpad_exec, ok)",
            "c < Main scratchpad (scratchpad_exec, ok)",
            "inner < c (scratchpad_exec, ok)",
            "d < Main scratchpad (scratchpad_exec, ok)",
            "Iteration 1 < Main scratchpad (iteration_summary, ok)",
        ]
    );
}

#[tokio::test]
async fn observations_of_a_run_are_added_once_with_their_source() {
    let house = House::new();
    let (run, _) = house
        .run(
            "steps:
  - {id: say, do: {tool: observe, args: {type: risk_alert, content: careful, tags: [x], confidence: 2}}}
  - id: rule
    do: {tool: text, args: {op: echo, value: [1, 2]}}
    observe: [{type: learning, content: 'saw {{ item }}', for_each: result.output.value}]",
        )
        .await;
    let workspace = house.runner.workspace();
    let found = workspace.observations(EntryQuery::default()).await.unwrap();
    let bodies: Vec<&str> = found.items.iter().map(|entry| entry.fields.body.as_str()).collect();
    assert_eq!(bodies, ["saw 2", "saw 1", "careful"]);
    assert!(found.items.iter().all(|entry| entry.fields.source.run == Some(run)));
    assert_eq!(found.items[2].fields.source.tool.as_deref(), Some("observe"));
    assert!((found.items[2].fields.confidence.unwrap().value() - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn large_output_is_stored_as_body_and_read_later() {
    let house = House::new();
    std::fs::write(house.folder.path().join("large.txt"), "word \n".repeat(40_000)).unwrap();
    let (run, result) = house
        .run(
            "steps:
  - {id: text, do: {tool: read, args: {path: large.txt}}}
  - {id: count, do: {tool: text, args: {op: count, value: '{{ results.text.output.text }}', of: lines}}}",
        )
        .await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert!(house.output(run, "text").await.get("blob").is_some());
    assert_eq!(house.output(run, "count").await["inline"]["value"], json!(40_000));
}

#[tokio::test]
async fn memory_writes_of_tools_are_charged_to_the_run_e9_10() {
    let house = House::new();
    let written = async |content: &str| {
        let plan = format!("steps: [{{id: say, do: {{tool: observe, args: {{content: '{content}'}}}}}}]");
        let (run, _) = house.run(&plan).await;
        let run = house.runner.load(run).await.unwrap();
        let wrote = run.node_at("say").unwrap().result.unwrap().wrote;
        (wrote, run.purse().unwrap().bytes)
    };
    let (short, bytes_of_short) = written("seen").await;
    let (long, bytes_of_long) = written(&"seen ".repeat(2_000)).await;
    assert!(short > 256, "{short}");
    assert_eq!(long - short, 10_000 - 4);
    assert!(
        bytes_of_long - bytes_of_short >= 10_000 - 4,
        "{bytes_of_short} {bytes_of_long}"
    );
}

#[tokio::test]
async fn shell_command_is_denied_unless_the_policy_allows_it() {
    let plan = "steps: [{id: hi, do: {tool: shell, args: {argv: [echo, hi]}}}]";
    let house = House::new();
    let (run, result) = house.run(plan).await;
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, Some(StopReason::PolicyDenied)),
        "{run}"
    );

    let environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let mut house = House::with(RunnerOptions {
        environment,
        ..RunnerOptions::default()
    });
    house.shell = ShellPolicy::AllowAll;
    let (_, result) = house.run(plan).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
}

#[tokio::test]
async fn output_of_a_failed_command_is_read_by_later_steps_e9_2() {
    let mut house = House::with(RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..RunnerOptions::default()
    });
    house.shell = ShellPolicy::AllowAll;
    let plan = "steps:
      - {id: build, optional: true, do: {tool: shell, args: {command: 'echo out; echo err >&2; exit 7'}}}
      - {id: after, do: {tool: text, args: {op: echo, value: '{{ results.build.output }}'}}}";
    let (run, _) = house.run(plan).await;
    let build = house.output(run, "build").await["inline"].take();
    assert_eq!(
        (&build["exit_code"], &build["stderr"]),
        (&json!(7), &json!("err\n")),
        "{build}"
    );
    assert_eq!(house.output(run, "after").await["inline"]["value"], build);
}

#[tokio::test]
async fn plan_with_memory_writes_in_racing_branches_is_rejected_e9_5() {
    let house = House::new();
    for second in ["observe, args: {content: slow}", "page_append, args: {body: slow}"] {
        let plan = format!(
            "steps: [{{join: first_ok, parallel: [{{id: a, do: {{tool: observe, args: {{content: quick}}}}}}, {{id: b, do: {{tool: {second}}}}}]}}]"
        );
        let mistakes = plan::parse(&plan, &house.runner.known()).unwrap_err();
        let codes: Vec<_> = mistakes.listed.iter().map(|mistake| mistake.code.to_owned()).collect();
        assert_eq!(codes, ["P022"], "{second}");
    }
}

#[tokio::test]
async fn allowing_the_shell_tool_allows_every_command() {
    let house = House::with(RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        has_person: true,
        ..RunnerOptions::default()
    });
    let plan = "steps: [{id: post, do: {tool: shell, args: {command: 'echo sent'}}}]";
    let plan = plan::parse(plan, &house.runner.known()).unwrap();
    let new = NewRun {
        folder: Some(house.folder.path().to_owned()),
        allow_tools: vec!["shell".to_owned()],
        ..NewRun::of(plan, Actor::new(Role::Human, "test"))
    };
    let (run, _) = house.runner.submit(new).await.unwrap();
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
}

/// How a run ends whose criterion is checked by a command, after a person approved or rejected it; and how often the
/// command ran.
async fn checked_by_a_command(is_approved: bool) -> (NodeResult, usize) {
    let house = House::with(RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        has_person: true,
        ..RunnerOptions::default()
    });
    let run = house
        .submit("steps: [{id: say, do: {tool: text, args: {op: echo, value: hi}}, criteria: [{id: c1, text: it ran, check: {command: [sh, -c, 'echo ran >> ran']}}]}]")
        .await
        .unwrap();
    let mut watch = Watch::new(house.runner.workspace().store().clone(), SpaceName::main(), run);
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let node = loop {
        let news = watch.next().await.unwrap().expect("it waits for somebody");
        let asked = news.into_iter().find_map(|(_, event)| match event {
            Event::Questioned { node, .. } => Some(node),
            _ => None,
        });
        if let Some(node) = asked {
            break node;
        }
    };
    let ran = || std::fs::read_to_string(house.folder.path().join("ran")).map_or(0, |ran| ran.lines().count());
    assert_eq!(ran(), 0, "before anybody said yes");
    // An answer is no yes, whoever gives it, and a model is not asked.
    let (ada, model) = (Actor::new(Role::Human, "ada"), Actor::new(Role::Client, "x"));
    for by in [&ada, &model] {
        let answered = house.runner.answer(run, node, "yes", by).await;
        assert!(matches!(answered, Err(RunnerError::NoQuestion { .. })), "{answered:?}");
    }
    let said = house.runner.approve(run, node, None, &model).await;
    assert!(matches!(said, Err(RunnerError::NotAPerson { .. })), "{said:?}");
    assert_eq!(ran(), 0, "before a person said yes");
    if is_approved {
        house.runner.approve(run, node, None, &ada).await.unwrap();
    } else {
        house.runner.reject(run, node, "not here", &ada).await.unwrap();
    }
    (driving.await.unwrap().unwrap(), ran())
}

#[tokio::test]
async fn check_command_runs_only_after_a_person_approves_it_e9_6() {
    let (result, ran) = checked_by_a_command(true).await;
    assert_eq!((result.status, ran), (Outcome::Ok, 1), "{}", result.notes);
    let (result, ran) = checked_by_a_command(false).await;
    assert_eq!((result.status, ran), (Outcome::Partial, 0), "{}", result.notes);
}

/// How often a call begins while another one that declared the same resource is under way.
async fn overlaps(house: &House, run: RunId) -> usize {
    let workspace = house.runner.workspace();
    let journal = workspace.store().journal(workspace.space(), run, Seq(0)).await.unwrap();
    let mut under_way: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    let mut overlaps = 0;
    for (_, event) in &journal.events {
        match event {
            Event::Started { node, writes, .. } => {
                overlaps += under_way.values().filter(|other| *other == writes).count();
                under_way.insert(*node, writes.clone());
            }
            Event::Finished { node, .. } => drop(under_way.remove(node)),
            _ => {}
        }
    }
    overlaps
}

#[tokio::test]
async fn commands_in_one_folder_run_in_turn_unless_not_alone_e9_15() {
    let mut house = House::with(RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..RunnerOptions::default()
    });
    house.shell = ShellPolicy::AllowAll;
    let plan = |command: &str, more: &str| {
        let members =
            (0..6).map(|n| format!("{{id: c{n}, do: {{tool: shell, args: {{command: '{command}'{more}}}}}}}"));
        format!(
            "steps: [{{id: all, parallel: [{}]}}]",
            members.collect::<Vec<_>>().join(", ")
        )
    };
    // Each of them fails if another one is at work.
    let (run, result) = house
        .run(&plan("mkdir busy && echo x >> order && rmdir busy", ""))
        .await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(overlaps(&house, run).await, 0);
    let order = std::fs::read_to_string(house.folder.path().join("order")).unwrap();
    assert_eq!(order.lines().count(), 6);
    // Four may be under way, and nothing keeps them from it.
    let (run, result) = house.run(&plan("true", ", alone: false")).await;
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert!(overlaps(&house, run).await >= 3);
}

#[tokio::test]
async fn interrupted_command_is_rerun_after_a_person_approves_it_e9_12() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let options = || RunnerOptions {
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        has_person: true,
        // The process of a run whose store is gone counts as killed.
        outage_patience: Some(std::time::Duration::ZERO),
        ..RunnerOptions::default()
    };
    let store = Arc::new(FaultyStore::new(SqliteStore::open(&OpenOptions::at(&path)).unwrap()));
    let house = House {
        shell: ShellPolicy::AllowAll,
        runner: runner_in(Arc::clone(&store) as _, options()),
        folder,
    };
    let run = house
        .submit("steps: [{id: post, do: {tool: shell, args: {command: 'echo sent >> post'}}}]")
        .await
        .unwrap();
    // That it began is written, and what came of it is not.
    store.fail(store.commits() + 2, Fault::Gone);
    assert!(house.runner.drive(run).await.is_err());
    // The process is gone, with everything that it held.
    let House { folder, runner, .. } = house;
    drop((runner, store));

    let runner = runner_on(&path, options());
    let mut watch = Watch::new(runner.workspace().store().clone(), SpaceName::main(), run);
    let driver = runner.clone();
    let driving = tokio::spawn(async move {
        loop {
            match driver.drive(run).await {
                // What it still had under way has not let go of the run yet.
                Err(RunnerError::Store(StoreError::RunTaken { .. })) => tokio::task::yield_now().await,
                ended => return ended,
            }
        }
    });
    let node = loop {
        let news = watch.next().await.unwrap().expect("it waits for somebody");
        let asked = news.into_iter().find_map(|(_, event)| match event {
            Event::ApprovalAsked { node, approval } if approval.again => Some(node),
            _ => None,
        });
        if let Some(node) = asked {
            break node;
        }
    };
    let sent = || std::fs::read_to_string(folder.path().join("post")).unwrap();
    assert_eq!(sent(), "sent\n");
    let ada = Actor::new(Role::Human, "ada");
    runner.approve(run, node, None, &ada).await.unwrap();
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
    assert_eq!(sent(), "sent\nsent\n");
}

#[tokio::test]
async fn call_beyond_its_timeout_is_stopped_and_fails() {
    let house = House::new();
    let (_, result) = house
        .run("steps: [{id: slow, timeout: 50ms, do: {tool: wait, args: {ms: 60000}}}]")
        .await;
    assert_eq!(result.status, Outcome::Failed);
    assert!(
        result.notes.contains("longer than its limit of 50ms"),
        "{}",
        result.notes
    );
}

#[tokio::test]
async fn cancel_by_another_runner_ends_a_running_run_e9_11() {
    let mut house = House::new();
    house.shell = ShellPolicy::AllowAll;
    let plan = "steps:
  - parallel:
      - {id: slow, do: {tool: wait, args: {ms: 60000}}}
      - {id: command, do: {tool: shell, args: {argv: [sleep, '60']}}}
  - {id: after, do: {tool: text, args: {op: echo, value: 1}}}";
    let run = house.submit(plan).await.unwrap();
    let other = runner_on(&house.folder.path().join("folio.db"), RunnerOptions::default());
    let driving = tokio::spawn({
        let runner = house.runner.clone();
        async move { runner.drive(run).await }
    });
    let mut watch = Watch::new(Arc::clone(other.workspace().store()), SpaceName::main(), run);
    while watch.run().in_flight().len() < 2 {
        watch.next().await.unwrap();
    }
    assert!(
        matches!(other.drive(run).await, Err(RunnerError::Store(error)) if error.kind() == folio_store::ErrorKind::Conflict)
    );
    other
        .cancel(run, None, &Actor::new(Role::Human, "somebody"))
        .await
        .unwrap();
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Cancelled);
    let run = other.load(run).await.unwrap();
    assert_eq!(run.node_at("after").unwrap().result.unwrap().status, Outcome::Cancelled);
    // What a call may have done before it was stopped, its class says.
    let notes = |path: &str| run.node_at(path).unwrap().result.unwrap().notes.clone();
    assert_eq!(
        notes("group-1/slow"),
        "stopped while it was running; it changes nothing"
    );
    assert_eq!(
        notes("group-1/command"),
        "stopped while it was running; it may have taken effect"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_cancel_requests_neither_lose_nor_repeat_a_step() {
    let house = House::new();
    std::fs::write(house.folder.path().join("large.txt"), "word \n".repeat(40_000)).unwrap();
    let mut plan = "steps:
  - {id: first, do: {tool: text, args: {op: echo, value: 1}}}
  - {id: large, do: {tool: read, args: {path: large.txt}}}
"
    .to_owned();
    for n in 0..60 {
        plan += &format!(
            "  - {{id: s{n}, do: {{tool: observe, args: {{content: 'saw {n}'}}}}, criteria: [{{check: {{file_exists: large.txt}}}}]}}\n"
        );
    }
    plan +=
        "  - {id: count, do: {tool: text, args: {op: count, value: '{{ results.large.output.text }}', of: lines}}}\n";
    let run = house.submit(&plan).await.unwrap();
    let driving = tokio::spawn({
        let runner = house.runner.clone();
        async move { runner.drive(run).await }
    });
    let other = runner_on(&house.folder.path().join("folio.db"), RunnerOptions::default());
    let mut asked = 0;
    // Fewer than the conflicts in a row after which a driver gives up, so that none of them can make it do so.
    while !driving.is_finished() && asked < 60 {
        // Of what is done there is nothing to stop, but the request stands in the journal.
        if let Some(first) = other
            .load(run)
            .await
            .unwrap()
            .node_at("first")
            .filter(|node| node.result.is_some())
        {
            let id = first.id;
            other
                .cancel(run, Some(id), &Actor::new(Role::Human, "somebody"))
                .await
                .unwrap();
            asked += 1;
        }
    }
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert!(asked > 0);
    let observations = house
        .runner
        .workspace()
        .observations(EntryQuery::default())
        .await
        .unwrap();
    assert_eq!(observations.total, 60);
}

#[tokio::test]
async fn driving_an_ended_run_returns_its_result_and_commits_nothing() {
    let house = House::new();
    let (run, result) = house.run(ECHO).await;
    let head = house.runner.workspace().store().head(&SpaceName::main()).await.unwrap();
    assert_eq!(house.runner.drive(run).await.unwrap(), result);
    assert_eq!(
        house.runner.workspace().store().head(&SpaceName::main()).await.unwrap(),
        head
    );
}

#[tokio::test]
async fn unfinished_lists_more_than_five_hundred_runs_oldest_first() {
    // Without a file: so many commits wait for the disk for a minute.
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let mut house = House::new();
    house.runner = runner_in(store, RunnerOptions::default());
    let plan = "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";
    let mut submitted = Vec::new();
    for _ in 0..501 {
        submitted.push(house.submit(plan).await.unwrap());
    }
    house.runner.drive(submitted.remove(1)).await.unwrap();
    let found = house.runner.unfinished().await.unwrap();
    let found: Vec<_> = found.into_iter().map(|row| row.id).collect();
    assert_eq!(found, submitted, "all but the one that has ended, the oldest first");
}

#[tokio::test]
async fn plan_needing_a_model_is_refused_with_its_task_names() {
    let house = House::new();
    let error = house
        .submit("steps: [think, {id: do-it, plan: {steps: [decide]}}]")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RunnerError::NeedsModel { tasks } if tasks == &["decide", "think"]),
        "{error}"
    );
}

#[tokio::test]
async fn file_exists_check_looks_in_the_folder_of_the_run() {
    let house = House::new();
    std::fs::write(house.folder.path().join("here.txt"), "x").unwrap();
    let (run, _) = house
        .run(
            "steps:
  - {id: there, do: {tool: text, args: {op: echo, value: 1}}, criteria: [{text: it is there, check: {file_exists: here.txt}}]}
  - {id: missing, do: {tool: text, args: {op: echo, value: 1}}, criteria: [{text: it is there, check: {file_exists: gone.txt}}]}",
        )
        .await;
    let run = house.runner.load(run).await.unwrap();
    let status = |path: &str| run.node_at(path).unwrap().result.unwrap().status;
    assert_eq!((status("there"), status("missing")), (Outcome::Ok, Outcome::Failed));
}

#[tokio::test]
async fn main_scratchpad_has_goal_plan_and_roll_up_in_order() {
    let house = House::new();
    let (run, _) = house.run(ECHO).await;
    let workspace = house.runner.workspace();
    let query = PageQuery {
        run: Some(run),
        roles: vec![PageRole::ScratchpadRoot],
        ..PageQuery::default()
    };
    let pages = workspace.store().pages(workspace.space(), &query).await.unwrap();
    let entries = EntryQuery {
        page: Some(pages[0].id),
        order: folio_memory::Order::Oldest,
        limit: 100,
        ..EntryQuery::default()
    };
    let entries = workspace
        .store()
        .entries(workspace.space(), &entries, workspace.now())
        .await
        .unwrap()
        .items;
    let titles: Vec<&str> = entries.iter().map(|entry| entry.fields.title.as_str()).collect();
    assert_eq!(titles, ["Goal", "Iteration 1: plan", "Branch roll-up"]);
}

#[tokio::test]
async fn only_people_and_clients_can_submit_or_cancel_a_run_m7_7() {
    let house = House::new();
    let plan = "steps: [{id: wait, do: {tool: wait, args: {ms: 1}}}]";
    let run = house.submit(plan).await.unwrap();
    for role in [Role::Tool, Role::Executor, Role::Planner, Role::Cleaner] {
        let actor = Actor::new(role, "somebody");
        let plan = plan::parse(plan, &house.runner.known()).unwrap();
        let started = house.runner.submit(NewRun::of(plan, actor.clone())).await;
        assert!(matches!(started, Err(RunnerError::Refused(_))), "{role}: {started:?}");
        let stopped = house.runner.cancel(run, None, &actor).await;
        assert!(matches!(stopped, Err(RunnerError::Refused(_))), "{role}: {stopped:?}");
    }
    let program = Actor::new(Role::Client, "ci");
    house.runner.cancel(run, None, &program).await.unwrap();
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Cancelled);
}
