//! Goals that models work on, in a real store with real tools.

use std::sync::Arc;

use crate::models_support::*;
use folio_engine::plan;
use folio_engine::run::ForkAt;
use folio_engine::{NodeId, Outcome, StopReason};
use folio_memory::passage::Part;
use folio_memory::{EntryQuery, PageQuery, PageRole, RunId, ThreadKey};
use folio_model::{ModelErrorKind, Role, ScriptedModel, When};
use folio_runner::{
    ForkOptions, NewRun, Runner, RunnerError, RunnerExecutor, RunnerModel, RunnerModels, RunnerOptions,
};
use folio_store::RunQuery;
use folio_tools::Registry;
use serde_json::json;

struct House {
    runner: Runner,
    model: Arc<ScriptedModel>,
    effects: Effects,
    _folder: tempfile::TempDir,
}

impl House {
    fn new(cues: Vec<folio_model::Cue>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(ScriptedModel::new(cues));
        let effects = Effects::default();
        let runner = runner(sqlite(&folder.path().join("folio.db")), &model, &effects, true);
        Self {
            runner,
            model,
            effects,
            _folder: folder,
        }
    }

    async fn markdown(&self, run: RunId, branch: Option<&str>) -> String {
        let workspace = self.runner.workspace();
        let query = PageQuery {
            run: Some(run),
            ..PageQuery::default()
        };
        let pages = workspace.pages(&query).await.unwrap();
        let is_it = |page: &&folio_memory::Page| match branch {
            None => page.fields.role == PageRole::ScratchpadRoot,
            Some(branch) => page.fields.branch_id.as_deref() == Some(branch),
        };
        let page = pages.iter().find(is_it).unwrap();
        workspace
            .page_markdown(folio_memory::id::Ref::Id(page.id))
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn goal_is_planned_executed_and_combined_on_the_run_pages_seed_000() {
    let house = House::new(nested());
    let run = submit(
        &house.runner,
        of_goal("survey the house", json!({"criteria": ["the owner knows"]})),
    )
    .await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.notes.as_str()),
        (Outcome::Ok, "all of the house")
    );
    assert_eq!(house.effects.lock().unwrap().len(), 4, "each leaf mended once");
    house.model.finish().unwrap();

    let main = house.markdown(run, None).await;
    for part in [
        "## Goal\n\nsurvey the house",
        "## Iteration 1: plan",
        "walk through",
        "## Branch roll-up",
        "c1: met",
    ] {
        assert!(main.contains(part), "{part:?} is not in\n{main}");
    }
    let leaf = house.markdown(run, Some("group-2/roof/north")).await;
    for part in ["Decision: execute directly", "mend: ok", "north side: done"] {
        assert!(leaf.contains(part), "{part:?} is not in\n{leaf}");
    }
    // The trace tells which model was asked for what, and what it cost.
    let trace = house.runner.workspace().trace(folio_store::workspace::TraceQuery {
        run: Some(folio_memory::id::Ref::Id(run)),
        limit: 1_000,
        ..Default::default()
    });
    let lines = trace.await.unwrap();
    for operation in ["planned", "replied", "checked"] {
        let told: Vec<&str> = lines.iter().map(|line| line.operation.as_str()).collect();
        assert!(told.contains(&operation), "{operation} is not among {told:?}");
    }
}

#[tokio::test]
async fn memory_reaches_the_model_and_its_observations_reach_memory_seed_002() {
    let cues = vec![
        doing(
            "choose a wine",
            "observe",
            json!({"type": "learning", "content": "the guest likes Burgundy", "tags": ["wine"]}),
        ),
        finishing("choose a wine"),
        doing("choose a second wine", "finish", json!({"notes": "Burgundy again"})),
    ];
    let house = House::new(cues);
    let first = submit(&house.runner, of_goal("choose a wine", json!({}))).await;
    assert_eq!(house.runner.drive(first).await.unwrap().status, Outcome::Ok);
    let stored = house
        .runner
        .workspace()
        .observations(EntryQuery::default())
        .await
        .unwrap();
    assert_eq!(stored.items[0].fields.body, "the guest likes Burgundy");
    let second = submit(&house.runner, of_goal("choose a second wine", json!({}))).await;
    house.runner.drive(second).await.unwrap();
    let asked = house.model.asked();
    let asked = asked.last().unwrap();
    let told = &asked.messages[1].text;
    assert!(told.contains("the guest likes Burgundy"), "{told}");
    let all: String = asked.messages.iter().map(|message| &*message.text).collect();
    assert_eq!(all.matches("the guest likes Burgundy").count(), 1, "once only: {all}");
}

#[tokio::test]
async fn replanning_and_combining_read_new_observations_and_pages_e9_16() {
    let mut cues = vec![doing(
        "open the case",
        "observe",
        json!({"type": "learning", "content": "the clock has a crack", "tags": ["clock"]}),
    )];
    cues.extend(mending());
    let house = House::new(cues);
    let run = submit(
        &house.runner,
        of_goal("mend the clock", json!({"criteria": ["it ticks"]})),
    )
    .await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let asked = house.model.asked();
    for words in ["A plan was carried out", "Combine the results"] {
        let told = asked
            .iter()
            .rfind(|asked| asked.messages[0].text.contains(words))
            .unwrap();
        let told = &told.messages[1].text;
        for part in ["the clock has a crack", "# Memory", "Iteration 1: plan", "(oil;"] {
            assert!(told.contains(part), "{part:?} is not in\n{told}");
        }
    }
}

/// Waits until a node asks a person something, and returns it.
async fn asking(house: &House, run: RunId) -> NodeId {
    loop {
        let loaded = house.runner.load(run).await.unwrap();
        if let Some((node, _)) = loaded.questions().first() {
            return *node;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn question_accepts_one_valid_answer_and_refuses_later_ones_e9_14() {
    let house = House::new(vec![
        doing(
            "paint the door",
            "ask_person",
            json!({"question": "Which colour?", "options": ["red", "blue"]}),
        ),
        calling("paint the door", "blue", "finish", json!({"notes": "painted blue"})),
    ]);
    let run = submit(&house.runner, of_goal("paint the door", json!({}))).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let node = asking(&house, run).await;
    let main = folio_memory::id::Ref::Id(folio_engine::projection::main_page(run));
    let asked = "\n## Waiting for people\n\n- the run asks: Which colour? (red, blue)\n";
    let page = house.runner.page_markdown(main).await.unwrap();
    assert!(page.ends_with(asked), "{page}");
    let wrong = house.runner.answer(run, node, "green", &person("ada")).await;
    assert!(matches!(wrong, Err(RunnerError::NotAnOption { .. })));
    for blank in [" \n", "\u{200b}"] {
        let empty = house.runner.answer(run, node, blank, &person("ada")).await;
        assert!(matches!(empty, Err(RunnerError::EmptyAnswer { .. })), "{empty:?}");
    }
    house.runner.answer(run, node, "blue", &person("ada")).await.unwrap();
    let result = driving.await.unwrap().unwrap();
    assert_eq!(result.notes, "painted blue");
    let page = house.runner.page_markdown(main).await.unwrap();
    assert!(
        page.contains("painted blue") && !page.contains("Waiting for people"),
        "{page}"
    );
    // The second answer comes too late, changes nothing, and whoever gives it is told.
    let late = house.runner.answer(run, node, "red", &person("bob")).await;
    assert!(matches!(late, Err(RunnerError::NoQuestion { .. })), "{late:?}");
    assert_eq!(late.unwrap_err().to_string(), "the run has no open question");
}

#[tokio::test]
async fn question_is_answered_although_an_earlier_task_asks_the_same_e9_14() {
    let asks = |task| doing(task, "ask_person", json!({"question": "Which colour?"}));
    let paints = |task| calling(task, "blue", "finish", json!({"notes": "painted blue"}));
    let (door, wall) = ("paint the door", "paint the wall");
    let house = House::new(vec![asks(door), asks(wall), paints(door), paints(wall)]);
    let steps = json!({"version": 1, "title": "t", "steps": [
        {"parallel": [{"id": "door", "title": door}, {"id": "wall", "title": wall}]},
    ]});
    let plan = plan::from_value(&steps, &house.runner.known()).unwrap();
    let run = submit(&house.runner, NewRun::of(plan, person("ada"))).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let second = loop {
        let loaded = house.runner.load(run).await.unwrap();
        let open: Vec<NodeId> = loaded.open_questions().map(|(node, _)| node).collect();
        if let [first, second] = open.as_slice() {
            let listed: Vec<NodeId> = loaded.questions().iter().map(|(node, _)| *node).collect();
            assert_eq!(listed, [*first], "it is shown once");
            break *second;
        }
        tokio::task::yield_now().await;
    };
    house.runner.answer(run, second, "blue", &person("ada")).await.unwrap();
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Ok);
}

#[tokio::test]
async fn fork_needing_a_model_is_refused_without_one_unless_paused() {
    let house = House::new(vec![doing("say hello", "finish", json!({"notes": "hello"}))]);
    let run = submit(&house.runner, of_goal("say hello", json!({}))).await;
    house.runner.drive(run).await.unwrap();
    let workspace = house.runner.workspace();
    let without = Runner::new(workspace.clone(), Registry::with_builtins(), RunnerOptions::default());
    let fork = async |paused: bool| {
        let at = ForkAt::Node(NodeId::root(run));
        let options = ForkOptions {
            paused,
            ..ForkOptions::default()
        };
        without.fork(run, at, ThreadKey::main(), person("ada"), options).await
    };
    let refused = fork(false).await;
    assert!(matches!(refused, Err(RunnerError::NeedsModel { .. })), "{refused:?}");
    let runs = async || {
        let query = RunQuery::default();
        workspace.store().runs(workspace.space(), &query).await.unwrap().len()
    };
    assert_eq!(runs().await, 1);
    // Somebody else may go on with it.
    fork(true).await.unwrap();
    assert_eq!(runs().await, 2);
}

#[tokio::test]
async fn run_whose_work_for_models_is_over_is_driven_without_one_e9_17() {
    let house = House::new(vec![doing("say hello", "finish", json!({"notes": "hello"}))]);
    let steps = json!({"version": 1, "title": "t", "steps": [
        {"id": "hello", "title": "say hello"},
        {"id": "wait", "do": {"tool": "wait", "args": {"ms": 0}}},
    ]});
    let workspace = house.runner.workspace().clone();
    let without = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
    let plan = plan::from_value(&steps, &without.known()).unwrap();
    let run = submit(&house.runner, NewRun::of(plan, person("ada"))).await;
    house.runner.drive(run).await.unwrap();
    let wait = without.load(run).await.unwrap().node_at("wait").unwrap().id;
    let fork = async |node: NodeId| {
        let at = ForkAt::Node(node);
        let options = ForkOptions::default();
        without.fork(run, at, ThreadKey::main(), person("ada"), options).await
    };
    let forked = fork(wait).await.unwrap();
    without.drive(forked.id).await.unwrap();
    assert!(without.load(forked.id).await.unwrap().result().is_some());
    let refused = fork(NodeId::root(run)).await;
    assert!(
        matches!(&refused, Err(RunnerError::NeedsModel { tasks }) if tasks == &["hello"]),
        "{refused:?}"
    );
}

#[tokio::test]
async fn entry_named_in_a_shortened_answer_holds_the_whole_answer_e9_14() {
    let house = House::new(vec![
        doing("paint the door", "ask_person", json!({"question": "Which colour?"})),
        calling("paint the door", "blue", "finish", json!({"notes": "painted blue"})),
    ]);
    let run = submit(&house.runner, of_goal("paint the door", json!({}))).await;
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let node = asking(&house, run).await;
    let answer = "blue as the sea ".repeat(2_000);
    house.runner.answer(run, node, &answer, &person("ada")).await.unwrap();
    driving.await.unwrap().unwrap();
    let asked = house.model.asked();
    let told = &asked.last().unwrap().messages.last().unwrap().text;
    assert!(told.len() < 10_000 && told.ends_with("ada)"), "{told}");
    let (_, named) = told.split_once("result_read node=").unwrap();
    let entry = named.split(']').next().unwrap();
    let everything = Part::Bytes { from: 0, to: u64::MAX };
    let read = house
        .runner
        .workspace()
        .read_body(entry, &everything, 100_000)
        .await
        .unwrap();
    assert_eq!(read.total_bytes, answer.len() as u64);
}

#[tokio::test]
async fn entry_named_in_shortened_notes_holds_the_whole_notes() {
    let notes = "painted well ".repeat(1_000);
    let house = House::new(vec![doing(
        "paint the door",
        "finish",
        json!({"notes": notes, "output": {"colour": "blue"}}),
    )]);
    let run = submit(&house.runner, of_goal("paint the door", json!({}))).await;
    let told = house.runner.drive(run).await.unwrap().notes;
    assert!(told.chars().count() < 4_200, "{told}");
    let (_, named) = told.split_once("result_read node=").expect("where the rest is");
    let entry = named.split(']').next().unwrap();
    let everything = Part::Bytes { from: 0, to: u64::MAX };
    let workspace = house.runner.workspace();
    let read = workspace.read_body(entry, &everything, 100_000).await.unwrap();
    assert_eq!(read.total_bytes, notes.trim().len() as u64);
}

#[tokio::test]
async fn drive_without_a_needed_model_leaves_the_run_intact() {
    let house = House::new(vec![doing("paint the door", "finish", json!({"notes": "painted"}))]);
    let run = submit(&house.runner, of_goal("paint the door", json!({}))).await;
    let workspace = house.runner.workspace().clone();
    let without = Runner::new(workspace, registry(&house.effects), RunnerOptions::default());
    let refused = without.drive(run).await.unwrap_err();
    assert!(matches!(refused, RunnerError::NeedsModel { .. }), "{refused}");
    assert_eq!(
        house.runner.drive(run).await.unwrap().status,
        Outcome::Ok,
        "it was not harmed"
    );
}

#[tokio::test]
async fn run_lacking_tools_or_executors_is_refused_and_left_unchanged_e9_17() {
    let house = House::new(vec![doing("judge it", "finish", json!({"notes": "fine"})).always()]);
    let steps = json!([
        {"id": "first", "do": {"tool": "text", "args": {"op": "echo", "value": "a"}}},
        {"id": "part", "plan": {"steps": [{"id": "door", "do": {"tool": "mend", "args": {"what": "door"}}}]}},
        {"id": "judge", "title": "judge it", "executor": "reviewer"},
    ]);
    let named = |tools: &[&str], executors: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        (owned(tools), owned(executors))
    };
    let workspace = house.runner.workspace().clone();
    let equipped = |tools: Registry, executors: &[&str]| {
        let mut models = RunnerModels::one(RunnerModel::new("scripted", Arc::clone(&house.model) as _));
        for name in executors {
            let model = RunnerModel::new("scripted", Arc::clone(&house.model) as _);
            let about = "something is to be reviewed".to_owned();
            models
                .executors
                .insert((*name).to_owned(), RunnerExecutor { model, about });
        }
        let options = RunnerOptions {
            models: Some(models),
            ..RunnerOptions::default()
        };
        Runner::new(workspace.clone(), tools, options)
    };
    let whole = equipped(registry(&house.effects), &["reviewer"]);
    let new = of_goal("see to the door", json!({"steps": steps}));
    let missing = |error: RunnerError| match error {
        RunnerError::NotEquipped { tools, executors } => (tools, executors),
        error => panic!("{error}"),
    };
    let without = equipped(Registry::with_builtins(), &[]);
    let refused = without.submit(new.clone()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "steps of the run need the tool mend and the executor reviewer, which this process does not have"
    );
    assert_eq!(missing(refused), named(&["mend"], &["reviewer"]));
    let run = submit(&whole, new).await;
    let head = async || {
        let row = workspace
            .store()
            .run(workspace.space(), folio_memory::id::Ref::Id(run))
            .await;
        row.unwrap().head
    };
    let before = head().await;
    for (tools, executors, lacks) in [
        (Registry::with_builtins(), &[][..], named(&["mend"], &["reviewer"])),
        (Registry::with_builtins(), &["reviewer"], named(&["mend"], &[])),
        (registry(&house.effects), &["another"], named(&[], &["reviewer"])),
    ] {
        let refused = equipped(tools, executors).drive(run).await.unwrap_err();
        assert_eq!(missing(refused), lacks);
        assert_eq!(head().await, before, "nothing was written");
    }
    assert_eq!(whole.drive(run).await.unwrap().status, Outcome::Ok);
    // What has ended needs nothing any more.
    assert_eq!(without.drive(run).await.unwrap().status, Outcome::Ok);
}

#[tokio::test]
async fn run_is_left_to_others_once_an_edit_names_an_executor_that_its_driver_lacks_e9_17() {
    let house = House::new(vec![doing("write it", "finish", json!({"notes": "written"})).always()]);
    let run = submit(
        &house.runner,
        of_goal(
            "a letter",
            json!({"steps": [{"id": "visit", "title": "visit it", "executor": "human"}]}),
        ),
    )
    .await;
    // Another process, whose settings name the executor.
    let writer = RunnerExecutor {
        model: RunnerModel::new("scripted", Arc::clone(&house.model) as _),
        about: "something is to be written".to_owned(),
    };
    let mut models = RunnerModels::one(writer.model.clone());
    models.executors.insert("writer".to_owned(), writer);
    let options = RunnerOptions {
        models: Some(models),
        ..RunnerOptions::default()
    };
    let editor = Runner::new(house.runner.workspace().clone(), Registry::with_builtins(), options);

    let act = async {
        let node = loop {
            let loaded = editor.load(run).await.unwrap();
            match loaded.questions().first() {
                Some((node, _)) => break *node,
                None => tokio::task::yield_now().await,
            }
        };
        let steps = json!({"steps": [
            {"id": "visit", "title": "visit it", "executor": "human"},
            {"id": "write", "title": "write it", "executor": "writer"},
        ]});
        let (text, ada) = (steps.to_string(), person("ada"));
        editor.edit_plan(run, None, &text, Some(1), &ada).await.unwrap();
        editor.answer(run, node, "seen", &ada).await.unwrap();
    };
    let (result, ()) = tokio::join!(house.runner.drive(run), act);
    let missing = match result {
        Err(RunnerError::NotEquipped { executors, .. }) => executors,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing, ["writer"]);
    assert!(house.model.asked().is_empty(), "nobody did it instead");
    assert_eq!(editor.drive(run).await.unwrap().status, Outcome::Ok);
    assert!(!house.model.asked().is_empty(), "who has it goes on");
}

#[tokio::test]
async fn rejected_api_key_fails_the_run_with_stop_reason_auth_e9_4() {
    let house = House::new(vec![When::any().error(ModelErrorKind::Unauthorised).always()]);
    let run = submit(&house.runner, of_goal("paint the door", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, Some(StopReason::Auth))
    );
    assert!(result.notes.contains("did not answer"), "{}", result.notes);
}

#[tokio::test]
async fn task_timeout_ends_a_model_call_without_a_retry() {
    let slow = std::time::Duration::from_secs(60);
    let house = House::new(vec![When::any().text("too late").latency(slow).always()]);
    let plan = "steps: [{id: paint, title: paint the door, timeout: 100ms}]";
    let plan = plan::parse(plan, &house.runner.known()).unwrap();
    let new = NewRun {
        plan,
        ..of_goal("x", json!({}))
    };
    let run = submit(&house.runner, new).await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!((result.status, house.model.asked().len()), (Outcome::Failed, 1));
    assert!(
        result
            .notes
            .contains("within 100ms, the `timeout` of the task, and is not asked again"),
        "{}",
        result.notes
    );
}

#[tokio::test]
async fn long_retry_after_makes_runs_use_the_fallback_model_e9_15() {
    let hour = std::time::Duration::from_secs(3600);
    let away = Arc::new(ScriptedModel::new([When::any()
        .error(ModelErrorKind::RateLimited)
        .retry_after(hour)]));
    let painted = ["paint the door", "paint the gate"].map(|goal| doing(goal, "finish", json!({"notes": "painted"})));
    let here = Arc::new(ScriptedModel::new(painted));
    let next = RunnerModel::new("here:m", Arc::clone(&here) as _);
    let options = RunnerOptions {
        models: Some(RunnerModels::one(
            RunnerModel::new("away:m", Arc::clone(&away) as _).or(next),
        )),
        ..RunnerOptions::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let store = workspace(sqlite(&folder.path().join("folio.db")));
    let runner = Runner::new(store, registry(&Effects::default()), options);
    for goal in ["paint the door", "paint the gate"] {
        let run = submit(&runner, of_goal(goal, json!({}))).await;
        let result = tokio::time::timeout(hour / 60, runner.drive(run))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(result.notes, "painted");
    }
    assert_eq!(away.asked().len(), 1, "it was left alone");
}

#[tokio::test]
async fn secret_in_a_reply_is_redacted_from_notes_and_journal() {
    let secret = ["ghp", "_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let house = House::new(vec![doing(
        "find the key",
        "finish",
        json!({"notes": format!("it is {secret}")}),
    )]);
    let run = submit(&house.runner, of_goal("find the key", json!({}))).await;
    let result = house.runner.drive(run).await.unwrap();
    assert!(!result.notes.contains(&secret), "{}", result.notes);
    let journal = house
        .runner
        .workspace()
        .journal(run, folio_memory::Seq(0))
        .await
        .unwrap();
    assert!(!serde_json::to_string(&journal.events).unwrap().contains(&secret));
}

#[tokio::test]
async fn model_task_exchanges_results_with_calls_of_a_written_plan() {
    let house = House::new(vec![
        When::role(Role::Planner)
            .contains("Decide how")
            .contains("# Task\njudge it\nthere are 3")
            .json(&json!({"decision": "execute", "reason": "small", "action": {"tool": "finish", "args": {"notes": "three is fine", "output": {"fine": true}}}})),
    ]);
    let plan = "
title: Count and judge
steps:
  - {id: count, do: {tool: text, args: {op: count, value: [a, b, c]}}}
  - {id: judge, title: judge it, description: 'there are {{ results.count.output.value }}'}
  - {id: say, do: {tool: text, args: {op: echo, value: '{{ results.judge.output.fine }}'}}}
output: '{{ results.say.output.value }}'
";
    let plan = plan::parse(plan, &house.runner.known()).unwrap();
    let run = submit(
        &house.runner,
        NewRun {
            plan,
            ..of_goal("x", json!({}))
        },
    )
    .await;
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    assert_eq!(json!(result.output), json!({"inline": true}));
}

#[tokio::test]
async fn model_concurrency_limit_holds_while_a_confirmation_is_pending_e9_15() {
    let steps: Vec<_> = ["one", "two", "three", "four"]
        .iter()
        .map(|name| format!("    - {{id: {name}, title: do {name}}}\n"))
        .collect();
    let cues =
        ["one", "two", "three", "four"].map(|name| doing(&format!("do {name}"), "finish", json!({"notes": name})));
    let house = House::new(cues.into());
    let waiting = folio_memory::observation::ObservationInput {
        type_name: Some("pending_confirmation".to_owned()),
        content: "the guest has to say yes".to_owned(),
        ..Default::default()
    };
    let somebody = folio_memory::Actor::new(folio_memory::Role::Human, "test");
    let workspace = house.runner.workspace();
    workspace.add_observation(&somebody, waiting, None).await.unwrap();
    let plan = format!(
        "title: Four\nbudget: {{concurrency: 2}}\nsteps:\n- parallel:\n{}",
        steps.concat()
    );
    let plan = plan::parse(&plan, &house.runner.known()).unwrap_or_else(|errors| panic!("{errors}"));
    let new = NewRun {
        plan,
        ..of_goal("x", json!({}))
    };
    let run = submit(&house.runner, new).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let (mut under_way, mut most) = (0_i32, 0);
    for (_, event) in workspace.journal(run, folio_memory::Seq(0)).await.unwrap().events {
        match event {
            folio_engine::Event::Asked { .. } => under_way += 1,
            folio_engine::Event::Replied { .. } => under_way -= 1,
            _ => {}
        }
        most = most.max(under_way);
    }
    assert_eq!(most, 2);
}

/// A house whose model does every task in one call, giving `reason`.
fn house_with_direct_executor(reason: &str) -> House {
    let cue = When::any().json(&json!({
        "decision": "execute", "reason": reason, "low_complexity": true, "resources_available": true,
        "criteria_testable": true, "action": {"tool": "finish", "args": {"notes": "done"}},
    }));
    House::new(vec![cue.always()])
}

async fn submit_plan(house: &House, plan: &serde_json::Value) -> RunId {
    let plan = plan::from_value(plan, &plan::Known::default()).unwrap();
    let new = NewRun {
        plan,
        ..of_goal("four at once", json!({}))
    };
    submit(&house.runner, new).await
}

#[tokio::test]
async fn calls_begun_in_one_commit_stay_within_the_budget_together_e9_10() {
    let house = house_with_direct_executor("it is small");
    let plan = json!({"title": "four at once", "budget": {"model_calls": 3}, "steps": [
        {"id": "a", "title": "walk through cellars", "needs": []},
        {"id": "b", "title": "weigh old stones", "needs": []},
        {"id": "c", "title": "paint a door", "needs": []},
        {"id": "d", "title": "count swallows", "needs": []},
    ]});
    let run = submit_plan(&house, &plan).await;
    house.runner.drive(run).await.unwrap();
    let purse = *house.runner.load(run).await.unwrap().purse().unwrap();
    assert_eq!(
        purse.spent.model_calls, 2,
        "one is kept, and the others have nothing to hand back"
    );
    assert_eq!(house.model.asked().len(), 2);
}

#[tokio::test]
async fn long_simultaneous_replies_are_split_across_commits() {
    let reason = "it is small, ".repeat(11_000);
    let house = house_with_direct_executor(&reason);
    let steps: Vec<_> = [
        "walk through cellars",
        "weigh old stones",
        "paint a door",
        "count swallows",
    ]
    .iter()
    .map(|title| json!({"title": title, "needs": []}))
    .collect();
    let plan = json!({"title": "four at once", "steps": steps});
    let run = submit_plan(&house, &plan).await;
    assert_eq!(house.runner.drive(run).await.unwrap().status, Outcome::Ok);
    let workspace = house.runner.workspace();
    let log = workspace
        .store()
        .changes(workspace.space(), folio_memory::Seq(0), 1_000)
        .await
        .unwrap();
    let is_reply = |event: &&folio_engine::Event| matches!(event, folio_engine::Event::Replied { .. });
    let replies = log.iter().filter_map(|commit| {
        let events = &commit.record.run.as_ref()?.events;
        Some(events.iter().filter(is_reply).count()).filter(|replies| *replies > 0)
    });
    let replies: Vec<usize> = replies.collect();
    assert_eq!(replies.iter().sum::<usize>(), 4);
    assert!(replies.iter().all(|replies| *replies <= 2), "{replies:?}");
}

/// A runner whose model makes such `calls` by a script and then is done, and its cassette.
async fn with_calls(calls: serde_json::Value) -> (House, RunId, folio_model::Cassette) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.json");
    let cues = json!({"version": 1, "cues": [
        {"role": "planner", "json": {"decision": "execute", "reason": "it is small", "low_complexity": true,
                                     "resources_available": true, "criteria_testable": true}},
        {"role": "executor", "calls": calls},
        {"role": "executor", "calls": [{"tool": "finish", "args": {"notes": "all of it"}}]},
    ]});
    std::fs::write(&script, cues.to_string()).unwrap();
    let model = Arc::new(ScriptedModel::read(&script).unwrap());
    std::fs::remove_file(&script).unwrap();
    let effects = Effects::default();
    let asked = RunnerModel::new("scripted", Arc::clone(&model) as _);
    let (models, recording) = folio_runner::Recording::of(RunnerModels::one(asked), false);
    let options = RunnerOptions {
        models: Some(models),
        ..RunnerOptions::default()
    };
    let store = sqlite(&folder.path().join("folio.db"));
    let runner = Runner::new(workspace(store), registry(&effects), options);
    let run = submit(&runner, of_goal("mend both", json!({}))).await;
    let result = runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{result:?}");
    let cassette = recording.cassette(runner.workspace());
    let house = House {
        runner,
        model,
        effects,
        _folder: folder,
    };
    (house, run, cassette)
}

/// The latest results that the model got, call by call.
fn answers(house: &House) -> Vec<(String, String)> {
    let asked = house.model.asked();
    let messages = &asked.last().unwrap().messages;
    let answered = messages.iter().filter_map(|message| {
        let id = message.answers.clone()?;
        Some((id, message.text.clone()))
    });
    answered.collect()
}

#[tokio::test]
async fn calls_with_equal_or_empty_ids_are_all_answered_e9_12() {
    for (id, names) in [("a", ["a", "call_2"]), ("", ["call_1", "call_2"])] {
        let call = |what: &str| json!({"tool": "mend", "id": id, "args": {"what": what}});
        let (house, run, cassette) = with_calls(json!([call("roof"), call("door")])).await;
        assert_eq!(house.effects.lock().unwrap().len(), 2, "each of them was mended");
        let answers = answers(&house);
        let told: Vec<&str> = answers.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(told, names);
        assert!(
            answers[0].1.contains("roof") && answers[1].1.contains("door"),
            "{answers:?}"
        );
        let tape = folio_runner::Tape::of(cassette).unwrap();
        let found = house.runner.replay_with(run, tape).await.unwrap();
        assert_eq!(found.differences, Vec::<String>::new());
    }
}

#[tokio::test]
async fn call_with_a_secret_id_is_made_without_storing_it() {
    let keys = ["AKIAIOSFODNN7EXAMPL", "E"].concat();
    let keys = [keys.clone(), keys.replace("7EX", "8EX")];
    let calls = json!([{"tool": "mend", "id": keys[0], "args": {"what": "roof"}},
                       {"tool": "mend", "id": keys[1], "args": {"what": "door"}}]);
    let (house, run, cassette) = with_calls(calls).await;
    assert_eq!(house.effects.lock().unwrap().len(), 2);
    let answers = answers(&house);
    assert_ne!(answers[0].0, answers[1].0);
    assert!(
        answers[0].1.contains("roof") && answers[1].1.contains("door"),
        "{answers:?}"
    );
    let file = house._folder.path().join("take.json");
    cassette.write(&file).unwrap();
    for entry in std::fs::read_dir(house._folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for key in &keys {
            let holds = bytes.windows(key.len()).any(|window| window == key.as_bytes());
            assert!(!holds, "{} holds the id", path.display());
        }
    }
    let tape = folio_runner::Tape::of(cassette).unwrap();
    let found = house.runner.replay_with(run, tape).await.unwrap();
    assert_eq!(found.differences, Vec::<String>::new());
}
