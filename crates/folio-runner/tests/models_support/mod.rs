//! A house with a model that answers by a script, and a tool that counts its effects.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by several tests, none of which needs all; one that cannot go on has failed"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_engine::plan::{self, Plan};
use folio_memory::{Actor, Role, RunId, SpaceName};
use folio_model::{Cue, Request, Role as ModelRole, ScriptedModel, When};
use folio_runner::{NewRun, Runner, RunnerModel, RunnerModels, RunnerOptions};
use folio_store::sqlite::OpenOptions;
use folio_store::{RandomIds, SqliteStore, Store, SystemClock, Workspace};
use folio_tools::{Effect, Registry, ToolResponse, ToolSpec};
use serde_json::{Value, json};

/// How often each effect happened, by key.
pub(crate) type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

/// The tools, and two with external effects that count by key; one of them needs approval.
pub(crate) fn registry(effects: &Effects) -> Registry {
    let mut registry = Registry::with_builtins();
    let mend = ToolSpec::new("mend", Effect::Idempotent, "Mends something outside.");
    let climb = ToolSpec::new("climb", Effect::Idempotent, "Climbs onto something.").needs_approval();
    for spec in [mend, climb] {
        let done = Arc::clone(effects);
        let spec = spec.optional("what", folio_tools::ArgKind::Text, "What.");
        registry.register_fn(spec, move |request, _| {
            *done.lock().unwrap().entry(request.request_id.clone()).or_default() += 1;
            let response = ToolResponse::ok(&request, json!({"done": request.args}), "mended");
            std::future::ready(Ok(response))
        });
    }
    registry
}

pub(crate) fn sqlite(path: &Path) -> Arc<dyn Store> {
    SqliteStore::open(&OpenOptions::at(path)).unwrap()
}

pub(crate) fn workspace(store: Arc<dyn Store>) -> Workspace {
    Workspace::new(
        store,
        Arc::new(SystemClock),
        Arc::new(RandomIds::default()),
        SpaceName::main(),
    )
}

pub(crate) fn runner(store: Arc<dyn Store>, model: &Arc<ScriptedModel>, effects: &Effects, has_person: bool) -> Runner {
    runner_within(128_000, store, model, effects, has_person)
}

/// A runner whose model has a context window of so many tokens.
pub(crate) fn runner_within(
    window: u32,
    store: Arc<dyn Store>,
    model: &Arc<ScriptedModel>,
    effects: &Effects,
    has_person: bool,
) -> Runner {
    runner_of(window, store, model, None, effects, has_person)
}

/// The same, with a compactor.
pub(crate) fn runner_of(
    window: u32,
    store: Arc<dyn Store>,
    model: &Arc<ScriptedModel>,
    compactor: Option<RunnerModel>,
    effects: &Effects,
    has_person: bool,
) -> Runner {
    let mut asked = RunnerModel::new("scripted", Arc::clone(model) as _);
    asked.window = window;
    asked.answer_tokens = asked.answer_tokens.min(window / 8);
    let options = RunnerOptions {
        models: Some(RunnerModels {
            compactor,
            ..RunnerModels::one(asked)
        }),
        has_person,
        // The process of a run whose store is gone counts as killed.
        outage_patience: Some(Duration::ZERO),
        ..RunnerOptions::default()
    };
    Runner::new(workspace(store), registry(effects), options)
}

pub(crate) fn of_goal(goal: &str, extra: Value) -> NewRun {
    let mut plan = Plan::of_goal(goal);
    let written = json!({"version": 1, "title": "t", "criteria": extra["criteria"].as_array().cloned().unwrap_or_default(),
                         "budget": extra.get("budget").cloned().unwrap_or(json!({})),
                         "steps": extra.get("steps").cloned().unwrap_or(json!(["x"]))});
    let read = plan::from_value(&written, &plan::Known::default()).unwrap_or_else(|errors| panic!("{errors}"));
    plan.criteria = read.criteria;
    plan.budget = read.budget;
    if extra.get("steps").is_some() {
        plan.steps = read.steps;
    }
    NewRun {
        plan_gate: extra["gate"]
            .as_str()
            .map(|gate| gate.parse().unwrap())
            .unwrap_or_default(),
        ..NewRun::of(plan, Actor::new(Role::Human, "test"))
    }
}

pub(crate) fn person(name: &str) -> Actor {
    Actor::new(Role::Human, name)
}

pub(crate) async fn submit(runner: &Runner, new: NewRun) -> RunId {
    runner.submit(new).await.unwrap().0
}

fn task(title: &str) -> String {
    format!("# Task\n{title}\n")
}

/// The decision on the task called `title`.
pub(crate) fn deciding(title: &str, answer: &Value) -> Cue {
    let mut answer = answer.clone();
    let told = answer.as_object_mut().unwrap();
    told.insert("reason".to_owned(), json!("it is so"));
    for test in ["low_complexity", "resources_available", "criteria_testable"] {
        told.insert(test.to_owned(), json!(true));
    }
    When::role(ModelRole::Planner)
        .contains("Decide how")
        .contains(task(title))
        .json(&answer)
        .always()
}

/// The task is done directly, and this is the first call.
pub(crate) fn doing(title: &str, tool: &str, args: Value) -> Cue {
    deciding(
        title,
        &json!({"decision": "execute", "action": {"tool": tool, "args": args}}),
    )
}

/// The task is planned.
pub(crate) fn planning(title: &str, steps: Value) -> Cue {
    deciding(title, &json!({"decision": "plan", "steps": steps}))
}

/// The executor's call when it sees `part`.
pub(crate) fn calling(title: &str, part: &str, tool: &str, args: Value) -> Cue {
    When::role(ModelRole::Executor)
        .contains("Do a task")
        .contains(task(title))
        .contains(part)
        .calls([(tool, args)])
        .always()
}

/// The end of a task.
pub(crate) fn finishing(title: &str) -> Cue {
    calling(
        title,
        "",
        "finish",
        json!({"status": "ok", "notes": format!("{title}: done"), "criteria": [{"id": "c1", "met": true}]}),
    )
}

pub(crate) fn aggregating(title: &str, notes: &str) -> Cue {
    When::role(ModelRole::Planner)
        .contains("Combine the results")
        .contains(task(title))
        .json(&json!({"status": "ok", "notes": notes, "criteria": [{"id": "c1", "met": true}]}))
        .always()
}

pub(crate) fn judging(part: &str, finding: &str) -> Cue {
    When::role(ModelRole::Judge)
        .contains(part)
        .json(&json!({"verdicts": [{"criterion": "c1", "finding": finding, "gap": "the proof"}]}))
        .always()
}

pub(crate) fn replanning(steps: Value) -> Cue {
    When::role(ModelRole::Planner)
        .contains("A plan was carried out")
        .json(&json!({"root_cause": "it broke", "changes": "another way", "steps": steps}))
        .always()
}

pub(crate) fn handing_back(notes: &str) -> Cue {
    When::role(ModelRole::Executor)
        .contains("A limit has been reached")
        .json(&json!({"notes": notes}))
        .always()
}

/// A goal with two steps and a group, one member of which has a plan of its own; each leaf mends something.
pub(crate) fn nested() -> Vec<Cue> {
    let leaf = |title: &str| [doing(title, "mend", json!({"what": title})), finishing(title)];
    let mut cues = vec![
        planning(
            "survey the house",
            json!([
                {"id": "look", "title": "walk through", "criteria": ["every room was seen"], "satisfies": ["c1"]},
                [{"id": "cellar", "title": "check cellar beams", "criteria": ["dry"]},
                 {"id": "roof", "title": "check roof tiles", "criteria": ["tight"]}]
            ]),
        ),
        planning(
            "check roof tiles",
            json!([{"id": "north", "title": "north side", "criteria": ["seen"], "satisfies": ["c1"]},
                   {"id": "south", "title": "south side", "criteria": ["seen"]}]),
        ),
        aggregating("survey the house", "all of the house"),
        aggregating("check roof tiles", "all of the roof"),
        judging("survey the house", "met"),
    ];
    for title in ["walk through", "check cellar beams", "north side", "south side"] {
        cues.extend(leaf(title));
    }
    cues
}

/// A window that holds the beginning of `letters`, but not all of it.
pub(crate) const LETTERS_WINDOW: u32 = 12_000;

/// Mends one letter after the other, each of so many sentences, and names what it must not forget.
pub(crate) fn letters(sentences: usize) -> Vec<Cue> {
    let letter = |n: u32| {
        format!(
            "letter {n}: {}",
            "dear reader, all is well here and the garden grows; ".repeat(sentences)
        )
    };
    // What was said last is looked for first: earlier letters may stand in the conversation, too.
    let mut cues = vec![calling(
        "sort the letters",
        "letter 9:",
        "finish",
        json!({"status": "ok", "notes": "all are sorted", "criteria": [{"id": "c1", "met": true}]}),
    )];
    for n in (2..=9).rev() {
        let seen = format!("letter {}:", n - 1);
        cues.push(
            When::role(ModelRole::Executor)
                .contains(task("sort the letters"))
                .contains(seen)
                .calls([("mend", json!({"what": letter(n)}))])
                .saying(format!("I must not forget letter {n}."))
                .always(),
        );
    }
    cues.push(doing("sort the letters", "mend", json!({"what": letter(1)})));
    cues
}

/// The keys of everything that was asked.
pub(crate) fn keys(asked: &[Request]) -> Vec<String> {
    asked.iter().map(|request| request.idempotency_key.clone()).collect()
}

/// A clock with a broken wheel: a plan that did not know that is followed by one that does.
pub(crate) fn mending() -> Vec<Cue> {
    vec![
        planning(
            "mend the clock",
            json!([{"id": "open", "title": "open the case", "criteria": ["it is open"]},
                   {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"], "satisfies": ["c1"]}]),
        ),
        doing("open the case", "mend", json!({"what": "case"})),
        finishing("open the case"),
        doing(
            "oil its wheels",
            "finish",
            json!({"status": "failed", "notes": "a tooth is broken"}),
        ),
        replanning(
            json!([{"id": "replace", "title": "replace wheel", "needs": ["open"], "criteria": ["it fits"], "satisfies": ["c1"]}]),
        ),
        doing("replace wheel", "mend", json!({"what": "wheel"})),
        finishing("replace wheel"),
        aggregating("mend the clock", "see the steps"),
        judging("replace wheel", "met"),
        judging("", "unmet"),
    ]
}

/// The answers for a goal to visit three towns, each of which becomes a task once they are found, and has an effect.
pub(crate) fn three_towns() -> Vec<Cue> {
    let towns = ["Ulm", "Rom", "Wien"];
    let mut cues = vec![
        planning(
            "visit three towns",
            json!([{"id": "find", "title": "find the towns", "criteria": ["three"]},
                   {"id": "each", "title": "visit each", "for_each": "results.find.output.towns", "as": "town",
                    "step": {"id": "go", "title": "go to {{ town }}", "criteria": ["been there"]}}]),
        ),
        doing(
            "find the towns",
            "finish",
            json!({"notes": "three", "output": {"towns": towns}, "criteria": [{"id": "c1", "met": true}]}),
        ),
        aggregating("visit three towns", "all three"),
    ];
    for town in towns {
        let title = format!("go to {town}");
        cues.extend([doing(&title, "mend", json!({"what": town})), finishing(&title)]);
    }
    cues
}
