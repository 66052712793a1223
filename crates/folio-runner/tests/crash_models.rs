//! The store fails at every commit of a suite of runs with models, and another process resumes them: the end is the
//! same, what was answered is not asked again, and no effect whose end was recorded happens twice, nor under two keys
//! (E9.9).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod models_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use folio_engine::event::NewLimits;
use folio_engine::spend::Allowance;
use folio_engine::{Event, NodeId, Run};
use folio_memory::{Actor, Role, RunId, Seq};
use folio_model::{Cue, ScriptedModel, When};
use folio_runner::{NewRun, Runner, RunnerModel};
use folio_store::Store;
use folio_testkit::{Fault, FaultyStore};
use folio_tools::ShellPolicy;
use models_support::*;
use serde_json::{Value, json};

/// A kind of run that is interrupted everywhere.
struct Scenario {
    name: &'static str,
    goal: &'static str,
    extra: Value,
    cues: fn() -> Vec<Cue>,
    /// What a person does once it has begun.
    outside: Outside,
    /// The model's context window in tokens.
    window: u32,
    /// Whether there is a compactor.
    has_compactor: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Nothing,
    /// Answers every question.
    Answers,
    /// Approves everything that waits for approval.
    Approves,
    /// Adds a step to the plan that waits for approval.
    Edits,
    /// Raises a limit of the run whose plan waits, and then approves it.
    Raises,
}

fn counting() -> Vec<Cue> {
    vec![
        doing("count the stars", "mend", json!({"what": "1"})),
        calling("count the stars", "", "mend", json!({"what": "2"})),
        handing_back("some are counted"),
    ]
}

fn asking() -> Vec<Cue> {
    vec![
        planning(
            "paint two doors",
            json!([[{"id": "front", "title": "front door", "criteria": ["x"]}, {"id": "back", "title": "back door", "criteria": ["x"]}]]),
        ),
        doing("front door", "ask_person", json!({"question": "Which colour?"})),
        calling(
            "front door",
            "blue",
            "finish",
            json!({"notes": "blue", "criteria": [{"id": "c1", "met": true}]}),
        ),
        doing("back door", "mend", json!({"what": "door"})),
        finishing("back door"),
        aggregating("paint two doors", "all doors"),
    ]
}

fn gated() -> Vec<Cue> {
    vec![
        planning(
            "paint two doors",
            json!([{"id": "front", "title": "front door", "criteria": ["x"]}, {"id": "back", "title": "back door", "criteria": ["x"]}]),
        ),
        doing("front door", "mend", json!({"what": "front"})),
        finishing("front door"),
        doing("back door", "mend", json!({"what": "back"})),
        finishing("back door"),
        doing("sweep the floor", "mend", json!({"what": "floor"})),
        finishing("sweep the floor"),
        aggregating("paint two doors", "all doors"),
    ]
}

fn judged() -> Vec<Cue> {
    vec![judging("the gate is shut", "met"), judging("the house is safe", "met")]
}

/// Criteria that are checked by programs, so that no model is asked; so is the plan's own criterion.
fn checked_by_programs() -> Value {
    let check = |id: &str, argv: Value| json!({"id": id, "text": "it holds", "check": {"command": argv}});
    let gate = |name: &str| {
        let criteria = json!([check("c1", json!(["/bin/sh", "-c", "exit 0"])), {"id": "c2", "text": "it is said", "check": {"regex": name}}]);
        json!({"id": name, "do": {"tool": "mend", "args": {"what": name}}, "criteria": criteria})
    };
    json!({
        "criteria": [check("c1", json!(["/bin/sh", "-c", "exit 0"]))],
        "steps": [{"parallel": [gate("front"), gate("back")]}, {"id": "tell", "do": {"tool": "mend", "args": {"what": "{{ results.front.status }}"}}}],
    })
}

fn climbing() -> Vec<Cue> {
    vec![
        doing("clear the gutter", "climb", json!({"what": "ladder"})),
        finishing("clear the gutter"),
    ]
}

fn scenarios() -> Vec<Scenario> {
    let of = |name, goal, extra, cues, outside| Scenario {
        name,
        goal,
        extra,
        cues,
        outside,
        window: 128_000,
        has_compactor: false,
    };
    vec![
        of(
            "recursive",
            "survey the house",
            json!({"criteria": ["the owner knows"]}),
            nested as fn() -> _,
            Outside::Nothing,
        ),
        of(
            "for_each",
            "visit three towns",
            json!({}),
            three_towns,
            Outside::Nothing,
        ),
        of(
            "re-plan",
            "mend the clock",
            json!({"criteria": ["it ticks"]}),
            mending,
            Outside::Nothing,
        ),
        of(
            "judged",
            "shut the house",
            json!({
                "criteria": [{"id": "c1", "text": "the house is safe"}, {"id": "c2", "text": "everybody is in", "check": "human"}],
                "steps": [{"id": "gate", "do": {"tool": "mend", "args": {"what": "gate"}}, "criteria": [
                    {"id": "c1", "text": "the gate is shut"}, {"id": "c2", "text": "nobody saw it", "check": "human"},
                ]}],
            }),
            judged,
            Outside::Answers,
        ),
        of(
            "checked by programs",
            "shut the gates",
            checked_by_programs(),
            Vec::new,
            Outside::Nothing,
        ),
        of("question", "paint two doors", json!({}), asking, Outside::Answers),
        of(
            "gate",
            "paint two doors",
            json!({"gate": "root"}),
            gated,
            Outside::Approves,
        ),
        of(
            "edit",
            "paint two doors",
            json!({"gate": "root"}),
            gated,
            Outside::Edits,
        ),
        of(
            "raise",
            "paint two doors",
            json!({"gate": "root", "budget": {"model_calls": 4}}),
            gated,
            Outside::Raises,
        ),
        of("approval", "clear the gutter", json!({}), climbing, Outside::Approves),
        of(
            "budget stop",
            "count the stars",
            json!({"budget": {"model_calls": 5}}),
            counting,
            Outside::Nothing,
        ),
        Scenario {
            window: LETTERS_WINDOW,
            ..of(
                "put away",
                "sort the letters",
                json!({}),
                || letters(30),
                Outside::Nothing,
            )
        },
        Scenario {
            window: LETTERS_WINDOW,
            has_compactor: true,
            ..of(
                "put away by a compactor",
                "sort the letters",
                json!({}),
                || letters(30),
                Outside::Nothing,
            )
        },
    ]
}

/// The run of `scenario`, which may start programs in `folder`.
fn run_of(scenario: &Scenario, folder: &Path) -> NewRun {
    NewRun {
        shell: ShellPolicy::AllowAll,
        folder: Some(folder.to_owned()),
        ..of_goal(scenario.goal, scenario.extra.clone())
    }
}

/// A runner for `scenario`, as in a process of its own.
fn runner_for(scenario: &Scenario, store: Arc<dyn Store>, model: &Arc<ScriptedModel>, effects: &Effects) -> Runner {
    let compactor = scenario.has_compactor.then(|| {
        let said = json!({"summary": "The letters so far are sorted.", "next_actions": ["sort the rest"]});
        let cue = When::role(folio_model::Role::Compactor)
            .calls([("done", said)])
            .always();
        let mut model = RunnerModel::new("scripted", Arc::new(ScriptedModel::new([cue])));
        model.answer_tokens = 500;
        model
    });
    runner_of(scenario.window, store, model, compactor, effects, true)
}

/// All results of a run, except times and the number of attempts.
fn outcome(run: &Run) -> BTreeMap<String, Value> {
    let of = |node: folio_engine::NodeView<'_>| {
        let result = node.result.expect("a run that has ended has results");
        let told = json!([
            result.status,
            result.stop_reason,
            result.notes,
            result.output,
            result.verdicts
        ]);
        (node.path.to_owned(), told)
    };
    run.tree().into_iter().map(of).collect()
}

async fn answered_calls(runner: &Runner, id: RunId) -> BTreeSet<(NodeId, u32)> {
    let journal = runner.workspace().journal(id, Seq(0)).await.unwrap();
    let answered = journal.events.iter().filter_map(|(_, event)| match event {
        Event::Replied { node, call, .. } => Some((*node, *call)),
        _ => None,
    });
    answered.collect()
}

/// The calls that had begun and whose end is not recorded.
async fn in_flight(runner: &Runner, id: RunId) -> BTreeSet<NodeId> {
    let journal = runner.workspace().journal(id, Seq(0)).await.unwrap();
    let mut open = BTreeSet::new();
    for (_, event) in &journal.events {
        match event {
            Event::Started { node, .. } => drop(open.insert(*node)),
            Event::AttemptFailed { node, .. } | Event::Proposed { node, .. } | Event::Finished { node, .. } => {
                open.remove(node);
            }
            _ => {}
        }
    }
    open
}

/// How often the effect of each node of `run` happened.
fn by_path(effects: &Effects, run: &Run) -> BTreeMap<String, u32> {
    let effects = effects.lock().unwrap();
    let of = |(key, times): (&String, &u32)| {
        let node = key.rsplit('/').next().unwrap().parse().unwrap();
        (run.node(node).unwrap().path.to_owned(), *times)
    };
    effects.iter().map(of).collect()
}

/// Drives the run, and acts as the person meanwhile.
async fn drive(runner: &Runner, run: RunId, outside: Outside) -> Result<(), folio_runner::RunnerError> {
    let driver = runner.clone();
    let mut driving = tokio::spawn(async move { driver.drive(run).await });
    loop {
        tokio::select! {
            driven = &mut driving => return driven.unwrap().map(|_| ()),
            () = tokio::task::yield_now(), if outside != Outside::Nothing => {
                let Ok(loaded) = runner.load(run).await else { continue };
                if steered(runner, &loaded, outside).await.is_err() {
                    // The store is gone, and whoever drives the run waits for an answer: its process ends, too.
                    driving.abort();
                    let _aborted = driving.await;
                    return Ok(());
                }
            }
        }
    }
}

/// Acts as the person, if it is time.
async fn steered(runner: &Runner, run: &Run, outside: Outside) -> Result<(), folio_runner::RunnerError> {
    let (id, ada) = (run.id(), Actor::new(Role::Human, "ada"));
    if let Some((node, question)) = run.questions().first() {
        let answer = question.options.first().map_or("blue", String::as_str);
        return runner.answer(id, *node, answer, &Actor::new(Role::Human, "ada")).await;
    }
    let Some((node, _)) = run.pending_approvals().first().copied() else {
        return Ok(());
    };
    match outside {
        Outside::Edits => {
            let shown = run.shown_plan(node).unwrap();
            let text = folio_engine::plan::to_markdown(&shown.steps) + "- [ ] sweep the floor {#sweep}\n";
            runner
                .edit_plan(id, Some(node), &text, None, &Actor::new(Role::Human, "ada"))
                .await
                .map(drop)
        }
        Outside::Raises if run.limits().allowance.model_calls == Some(4) => {
            let more = |_: &Run| {
                NewLimits::from(Allowance {
                    model_calls: Some(40),
                    ..Allowance::default()
                })
            };
            runner.change_limits(id, None, more, &ada).await
        }
        _ => runner.approve(id, node, None, &ada).await,
    }
}

/// Drives a run whose driver is gone, as soon as the driver's remaining work has ended and released the run.
async fn taken_up(runner: &Runner, run: RunId, outside: Outside, told: &str) {
    for _ in 0..10_000 {
        match drive(runner, run, outside).await {
            Ok(()) => return,
            Err(folio_runner::RunnerError::Store(folio_store::StoreError::RunTaken { .. })) => {
                // What it had under way ends on other threads, which a busy machine keeps waiting.
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            Err(error) => panic!("{told}: {error}"),
        }
    }
    panic!("{told}: its first driver never lets go of it");
}

/// Cuts the run of `scenario` off at each of its commits, and returns how often that was.
async fn resumes_after_each_failed_commit(scenario: Scenario) -> u32 {
    let mut cut = 0;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FaultyStore::new(sqlite(&folder.path().join("whole.db"))));
    let (model, effects) = (Arc::new(ScriptedModel::new((scenario.cues)())), Effects::default());
    let whole = runner_for(&scenario, Arc::clone(&store) as Arc<dyn Store>, &model, &effects);
    let run = submit(&whole, run_of(&scenario, folder.path())).await;
    let before = store.commits();
    drive(&whole, run, scenario.outside).await.unwrap();
    let commits = store.commits();
    let ended = whole.load(run).await.unwrap();
    let expected = outcome(&ended);
    let made: BTreeSet<String> = by_path(&effects, &ended).into_keys().collect();
    let is_cut_short = scenario.name == "budget stop";

    for (last, fault) in (before + 1..=commits).flat_map(|at| [(at, Fault::Gone), (at, Fault::WrittenUnanswered)]) {
        let told = format!("{}: {fault:?} at commit {last} of {before}..{commits}", scenario.name);
        let path = folder.path().join(format!("{last}-{fault:?}.db"));
        let store = Arc::new(FaultyStore::new(sqlite(&path)));
        let (model, effects) = (Arc::new(ScriptedModel::new((scenario.cues)())), Effects::default());
        let first = runner_for(&scenario, Arc::clone(&store) as Arc<dyn Store>, &model, &effects);
        let run = submit(&first, run_of(&scenario, folder.path())).await;
        store.fail(last, fault);
        // What comes after the run's end (its turn) may fail without the run failing.
        let _ended = drive(&first, run, scenario.outside).await;
        // The process is gone, with everything that it held.
        drop((first, store));
        let second_model = Arc::new(ScriptedModel::new((scenario.cues)()));
        let second = runner_for(&scenario, sqlite(&path), &second_model, &effects);
        let answered = answered_calls(&second, run).await;
        let in_flight = in_flight(&second, run).await;
        taken_up(&second, run, scenario.outside, &told).await;

        let ended = second.load(run).await.unwrap();
        let spent = ended.purse().unwrap();
        if !is_cut_short {
            assert_eq!(outcome(&ended), expected, "{told}");
        } else {
            // A call whose end nobody saw counts as spent, so there may be fewer.
            assert_eq!(
                ended.result().unwrap().stop_reason,
                Some(folio_engine::StopReason::BudgetModelCalls),
                "{told}"
            );
            assert!(
                spent.spent.model_calls <= 5,
                "{told}: {} calls",
                spent.spent.model_calls
            );
        }
        assert_eq!(spent.reserved, folio_engine::spend::Spend::default(), "{told}");
        for key in keys(&second_model.asked()) {
            let mut parts = key.split('/').skip(1);
            let (node, call) = (
                parts.next().unwrap().parse().unwrap(),
                parts.next().unwrap().split('-').next().unwrap().parse().unwrap(),
            );
            assert!(!answered.contains(&(node, call)), "{told}: {key} was asked again");
        }
        // Each effect is made, under its own key, and once; again only what its driver had under way, whose class
        // says that it may be.
        let effects = by_path(&effects, &ended);
        for (path, times) in &effects {
            let may_be_again = in_flight.contains(&ended.node_at(path).unwrap().id);
            let most = if may_be_again { 2 } else { 1 };
            assert!(*times <= most, "{told}: {path} was made {times} times");
        }
        let paths: BTreeSet<String> = effects.into_keys().collect();
        let is_all = paths == made;
        assert!(is_all || is_cut_short && paths.is_subset(&made), "{told}: {paths:?}");
        cut += 1;
    }
    cut
}

#[tokio::test]
async fn run_resumes_to_the_same_end_after_any_failed_commit_e9_9() {
    // Each waits for the disk most of the time.
    let counts: Vec<_> = scenarios()
        .into_iter()
        .map(|scenario| tokio::spawn(resumes_after_each_failed_commit(scenario)))
        .collect();
    let mut cut = 0;
    for count in counts {
        cut += count.await.unwrap();
    }
    println!("cut off {cut} times, and gone on to the same end every time");
    assert!(cut > 100, "only {cut} cuts");
}
