//! Results that are checked before they count: by a judge, by commands (E9.6).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::models_support::*;
use folio_engine::event::NewLimits;
use folio_engine::{NodeId, Outcome};
use folio_memory::{Actor, Clock as _, EntryQuery, Role, SpaceName};
use folio_model::ScriptedModel;
use folio_runner::{Driven, NewRun, Runner, RunnerError, RunnerOptions};
use folio_store::Workspace;
use folio_testkit::{SeededIds, SimClock};
use folio_tools::ShellPolicy;
use serde_json::json;

/// What is observed of a call with a text of so many characters, and how the run ends.
async fn observed_of(characters: usize, finding: &str) -> (Outcome, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new([judging("it is long enough", finding)]));
    let runner = runner(
        sqlite(&folder.path().join("folio.db")),
        &model,
        &Effects::default(),
        false,
    );
    let steps = json!([{
        "id": "say",
        "do": {"tool": "mend", "args": {"what": "x".repeat(characters)}},
        "criteria": [{"id": "c1", "text": "it is long enough"}],
        "observe": [{"type": "learning", "content": "{{ result.output.done.what | length }} characters, {{ result.status }}"}],
    }]);
    let run = submit(&runner, of_goal("say it", json!({"steps": steps}))).await;
    let status = runner.drive(run).await.unwrap().status;
    let observed = runner.workspace().observations(EntryQuery::default()).await.unwrap();
    let texts = observed.items.into_iter().map(|entry| entry.fields.body).collect();
    model.finish().unwrap();
    (status, texts)
}

#[tokio::test]
async fn planned_observation_is_added_only_if_the_judge_finds_met_e9_6() {
    let (status, observed) = observed_of(7, "met").await;
    assert_eq!((status, observed), (Outcome::Ok, vec!["7 characters, ok".to_owned()]));
    // Of a result that is kept beside the journal, too.
    let (status, observed) = observed_of(100_000, "met").await;
    assert_eq!(
        (status, observed),
        (Outcome::Ok, vec!["100000 characters, ok".to_owned()])
    );
    let (status, observed) = observed_of(7, "unmet").await;
    assert_eq!((status, observed), (Outcome::Failed, Vec::new()));
}

#[tokio::test]
async fn planned_observations_are_added_for_every_kind_of_successful_task_e9_6() {
    let folder = tempfile::tempdir().unwrap();
    let done = json!({"status": "ok", "notes": "done", "output": 5});
    let model = Arc::new(ScriptedModel::new([calling("ask somebody", "", "finish", done)]));
    let runner = runner(
        sqlite(&folder.path().join("folio.db")),
        &model,
        &Effects::default(),
        false,
    );
    let echo =
        |id: &str, value: &str| json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": value}}});
    let observe = |name: &str| json!([{"type": "learning", "content": format!("{name} {{{{ result.output }}}}")}]);
    let part = |step: serde_json::Value| json!({"steps": [step], "output": "{{ results.in.output.value }}"});
    let steps = json!([
        {"id": "part", "plan": part(echo("in", "1")), "observe": observe("part")},
        {"id": "checked", "plan": part(echo("in", "2")), "criteria": [{"check": "result_nonempty"}], "observe": observe("checked")},
        {"id": "commanded", "plan": part(echo("in", "3")), "criteria": [{"check": {"command": ["true"]}}], "observe": observe("commanded")},
        {"id": "each", "for_each": ["4"], "step": {"id": "one", "plan": part(echo("in", "{{ item }}")), "observe": observe("item")}},
        {"id": "asked", "title": "ask somebody", "atomic": true, "observe": observe("model")},
        {"id": "lost", "optional": true, "plan": part(json!({"id": "in", "do": {"tool": "read", "args": {"path": "nope"}}})), "observe": observe("lost")},
    ]);
    let new = NewRun {
        shell: ShellPolicy::AllowAll,
        folder: Some(folder.path().to_owned()),
        ..of_goal("see to it", json!({"steps": steps}))
    };
    let run = submit(&runner, new).await;
    runner.drive(run).await.unwrap();
    let observed = runner.workspace().observations(EntryQuery::default()).await.unwrap();
    let mut texts: Vec<_> = observed.items.into_iter().map(|entry| entry.fields.body).collect();
    texts.sort();
    assert_eq!(texts, ["checked 2", "commanded 3", "item 4", "model 5", "part 1"]);
}

/// The id of the process that wrote it into `file`, once it did.
async fn process_in(file: &Path) -> u32 {
    for _ in 0..1_500 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Ok(number) = text.trim().parse() {
            return number;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody writes {}", file.display());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn cancelling_a_task_ends_its_check_command_e9_11() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new([]));
    let runner = runner(
        sqlite(&folder.path().join("folio.db")),
        &model,
        &Effects::default(),
        false,
    );
    let [of_call, of_plan] = ["call", "plan"].map(|name| folder.path().join(name));
    let checked = |file: &Path| {
        let command = format!("echo $$ > {}; exec sleep 300", file.display());
        json!([{"check": {"command": ["sh", "-c", command]}}])
    };
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let steps = json!([
        {"parallel": [
            {"id": "call", "do": echo, "criteria": checked(&of_call)},
            {"id": "plan", "plan": {"steps": [{"id": "in", "do": {"tool": "wait", "args": {"ms": 500}}}]}, "criteria": checked(&of_plan)},
        ]},
        {"id": "after", "do": {"tool": "wait", "args": {"ms": 60_000}}},
    ]);
    let actor = Actor::new(Role::Human, "ada");
    let new = NewRun {
        shell: ShellPolicy::AllowAll,
        folder: Some(folder.path().to_owned()),
        ..of_goal("check it", json!({"steps": steps}))
    };
    let run = submit(&runner, new).await;
    let driving = tokio::spawn({
        let runner = runner.clone();
        async move { runner.drive(run).await }
    });
    // One after the other, for both have the folder to themselves.
    for (path, file) in [("group-1/call", &of_call), ("group-1/plan", &of_plan)] {
        let process = process_in(file).await;
        let part = runner.load(run).await.unwrap().node_at(path).unwrap().id;
        runner.cancel(run, Some(part), &actor).await.unwrap();
        let begun = tokio::time::Instant::now();
        while Path::new(&format!("/proc/{process}")).exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{path} goes on");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(!driving.is_finished(), "the rest of the run goes on");
    runner.cancel(run, None, &actor).await.unwrap();
    assert_eq!(driving.await.unwrap().unwrap().status, Outcome::Cancelled);
    let ended = runner.load(run).await.unwrap();
    let result = |path: &str| ended.node_at(path).unwrap().result.unwrap();
    let (call, plan) = (result("group-1/call"), result("group-1/plan"));
    assert_eq!((call.status, plan.status), (Outcome::Cancelled, Outcome::Cancelled));
    // What a call gave was there by then, and nobody knows whether it is what was wanted.
    assert_eq!(call.output.value().unwrap()["value"], json!(1));
    assert_eq!(call.notes, "done, and stopped while it was checked: 1");
}

#[cfg(unix)]
#[tokio::test]
async fn check_commands_and_shells_in_one_folder_run_in_turn_e9_15() {
    let folder = tempfile::tempdir().unwrap();
    let (store, model) = (
        sqlite(&folder.path().join("folio.db")),
        Arc::new(ScriptedModel::new([])),
    );
    let runner = runner(store, &model, &Effects::default(), false);
    let alone = "mkdir busy || echo met >> met; sleep 0.03; rmdir busy; echo ran >> ran";
    let argv = json!(["/bin/sh", "-c", format!("PATH=/usr/bin:/bin; {alone}")]);
    let step =
        |id: &str, call: &serde_json::Value| json!({"id": id, "do": call, "criteria": [{"check": {"command": argv}}]});
    let echo = json!({"tool": "text", "args": {"op": "echo", "value": 1}});
    let shell = json!({"tool": "shell", "args": {"argv": argv}});
    let steps = json!([{"parallel": [step("a", &echo), step("b", &shell), step("c", &shell), step("d", &echo)]}]);
    let new = NewRun {
        shell: ShellPolicy::AllowAll,
        folder: Some(folder.path().to_owned()),
        ..of_goal("check it", json!({"steps": steps, "budget": {"tool_calls": 7}}))
    };
    let run = submit(&runner, new).await;
    let result = runner.drive(run).await.unwrap();
    let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).map_or(0, |text| text.lines().count());
    // Four calls and three of the four commands: so many there may be.
    assert_eq!((lines("met"), lines("ran")), (0, 5), "{}", result.notes);
    assert_eq!(result.status, Outcome::Partial);
    let spent = runner.load(run).await.unwrap().purse().unwrap().spent;
    assert_eq!(spent.tool_calls, 7);
}

#[tokio::test]
async fn late_answer_is_refused_although_no_process_drives_the_run_e9_9() {
    let folder = tempfile::tempdir().unwrap();
    let model = Arc::new(ScriptedModel::new([]));
    let runner = runner(
        sqlite(&folder.path().join("folio.db")),
        &model,
        &Effects::default(),
        true,
    );
    let steps = json!([{"id": "look", "title": "look at it", "executor": "human", "timeout": "1s"}]);
    let run = submit(&runner, of_goal("see to it", json!({"steps": steps}))).await;
    let patience = Duration::from_millis(10);
    assert!(matches!(
        runner.drive_while_due(run, patience).await.unwrap(),
        Driven::Waits { .. }
    ));
    let (node, _) = runner.load(run).await.unwrap().questions()[0];
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = runner.answer(run, node, "it is fine", &person("ada")).await;
    assert!(
        matches!(late, Err(RunnerError::NoQuestion { over: Some(_), .. })),
        "{late:?}"
    );
    assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Failed);
}

/// The space is an hour ahead of the clock.
#[tokio::test]
async fn run_waits_by_the_time_of_its_space_whoever_drives_it_next_m7_1_9() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, hour) = (SimClock::default(), Duration::from_secs(3_600));
    let runner = Runner::new(
        Workspace::new(
            sqlite(&folder.path().join("folio.db")),
            Arc::new(clock.clone()),
            Arc::new(SeededIds::new(1)),
            SpaceName::main(),
        ),
        registry(&Effects::default()),
        RunnerOptions {
            has_person: true,
            ..RunnerOptions::default()
        },
    );
    let now = clock.now();
    clock.set(now.plus(hour));
    let steps = json!([{"id": "look", "title": "look at it", "executor": "human", "timeout": "30s"}]);
    let run = submit(&runner, of_goal("see to it", json!({"steps": steps}))).await;
    clock.set(now);
    let driven = runner.drive_while_due(run, Duration::from_millis(10)).await.unwrap();
    let Driven::Waits {
        until: Some(until),
        wait: Some(wait),
        ..
    } = driven
    else {
        panic!("{driven:?}");
    };
    assert!(until >= now.plus(hour) && wait <= Duration::from_secs(30), "{wait:?}");
    clock.advance(wait);
    // For one that begins now, no time has passed.
    let budget = json!({"deadline": "10s"});
    let newer = submit(
        &runner,
        of_goal("see to it, too", json!({"steps": steps, "budget": budget})),
    )
    .await;
    let driven = runner.drive_while_due(newer, Duration::from_millis(10)).await.unwrap();
    assert!(matches!(driven, Driven::Waits { wait: Some(_), .. }), "{driven:?}");
    let driven = runner.drive_while_due(run, Duration::from_millis(10)).await.unwrap();
    assert!(
        matches!(&driven, Driven::Ended(result) if result.status == Outcome::Failed),
        "{driven:?}"
    );
}

#[tokio::test]
async fn decisions_after_a_deadline_are_refused_until_it_is_raised_e9_9() {
    let human = json!({"id": "look", "title": "look at it", "executor": "human"});
    let command = json!({"id": "mend", "do": {"tool": "shell", "args": {"command": "true"}}});
    let in_task = json!({"id": "part", "budget": {"deadline": "10s"}, "plan": {"steps": [human]}});
    for (extra, path, whose) in [
        (
            json!({"steps": [human], "budget": {"deadline": "10s"}}),
            "look",
            "the run",
        ),
        (
            json!({"steps": [command], "budget": {"deadline": "10s"}}),
            "mend",
            "the run",
        ),
        (json!({"steps": [in_task]}), "part/look", "part"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = SimClock::default();
        let runner = Runner::new(
            Workspace::new(
                sqlite(&folder.path().join("folio.db")),
                Arc::new(clock.clone()),
                Arc::new(SeededIds::new(1)),
                SpaceName::main(),
            ),
            registry(&Effects::default()),
            RunnerOptions {
                has_person: true,
                ..RunnerOptions::default()
            },
        );
        let new = NewRun {
            folder: Some(folder.path().to_owned()),
            ..of_goal("see to it", extra)
        };
        let run = submit(&runner, new).await;
        let driven = runner.drive_while_due(run, Duration::from_millis(10)).await.unwrap();
        assert!(matches!(driven, Driven::Waits { .. }), "{driven:?}");
        let node = runner.load(run).await.unwrap().node_at(path).unwrap().id;
        let decide = || async {
            match path {
                "mend" => runner.approve(run, node, None, &person("ada")).await,
                _ => runner.answer(run, node, "it is fine", &person("ada")).await,
            }
        };
        clock.advance(Duration::from_secs(10));
        let error = decide().await.unwrap_err();
        assert!(
            matches!(&error, RunnerError::TimeIsUp { path, .. } if path == whose),
            "{error:?}"
        );
        // With more time, it is decided as usual.
        let part = runner.load(run).await.unwrap().node_at("part").map(|view| view.id);
        let minutes = |run: &folio_engine::Run| NewLimits {
            deadline: run
                .deadline_of(part.unwrap_or(NodeId::root(run.id())), clock.now())
                .map(|at| at.plus(Duration::from_secs(60))),
            ..NewLimits::default()
        };
        runner.change_limits(run, part, minutes, &person("ada")).await.unwrap();
        decide().await.unwrap();
        assert_eq!(runner.drive(run).await.unwrap().status, Outcome::Ok, "{path}");
    }
}
