//! The results of runs, whatever drives them: cases for every runner, each in a house of its own.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by the tests of several runners, none of which needs all; one that cannot go on has failed"
)]

mod failing;
mod goals;
mod steering;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use folio_engine::event::NewLimits;
use folio_engine::plan::{self, Known};
use folio_engine::spend::Allowance;
use folio_engine::{Event, NodeId, NodeResult, Outcome, Run};
use folio_memory::{Actor, Role, RunId, Seq};
use folio_model::{Cue, ScriptedModel, When};
use folio_runner::{Folded, NewRun, Runner, RunnerModel, RunnerModels, RunnerOptions, Watch};
use folio_tools::Registry;
use serde_json::{Value, json};

use crate::models_support::{self, Effects, aggregating, calling, deciding, doing, finishing, nested, of_goal};

/// A runner, the effects of its tools, and everything that has to live meanwhile.
pub(crate) struct House {
    /// Submits runs, and reports their results.
    pub(crate) runner: Runner,
    /// How often each effect happened.
    pub(crate) effects: Effects,
    /// What has to live as long as the runner.
    pub(crate) keeps: Box<dyn Any + Send + Sync>,
}

/// What runs need: models that answer by a script, tools that count.
pub(crate) struct Equipment {
    /// The options, with the models; a person is there.
    pub(crate) options: RunnerOptions,
    /// The tools.
    pub(crate) registry: Registry,
    /// The effects of the tools.
    pub(crate) effects: Effects,
}

impl Equipment {
    fn of(cues: Vec<Cue>) -> Self {
        let effects = Effects::default();
        let model = Arc::new(ScriptedModel::new(cues));
        let options = RunnerOptions {
            models: Some(RunnerModels::one(RunnerModel::new("scripted", model))),
            has_person: true,
            ..RunnerOptions::default()
        };
        Self {
            options,
            registry: models_support::registry(&effects),
            effects,
        }
    }
}

/// Creates houses.
#[async_trait]
pub(crate) trait Houses: Sync {
    /// Creates a house with an empty store.
    async fn house(&self, equipment: Equipment) -> House;

    /// How many items the longest list has. Ten thousand take as long as all other cases together, so that many are
    /// carried out once (in `here.rs`); a thousand are still split over many commits and lists of nodes.
    fn items(&self) -> usize {
        1_000
    }

    /// Makes the driver of the runs of `house` begin nothing more, and puts another driver in its place: its own
    /// runner, unless another process drives them.
    async fn another(&self, house: &mut House, equipment: Equipment) {
        house.runner.leave();
        let workspace = house.runner.workspace().clone();
        house.runner = Runner::new(workspace, equipment.registry, equipment.options);
    }
}

type Done<'h> = Pin<Box<dyn Future<Output = (House, RunId)> + Send + 'h>>;

/// A case: what is done, and whether it can happen in only one order.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: for<'h> fn(&'h dyn Houses) -> Done<'h>,
    pub(crate) same_order: bool,
}

macro_rules! cases {
    ($($name:path $(, $how:ident)?;)*) => {
        /// All cases.
        pub(crate) const ALL: &[Case] = &[
            $(Case { name: stringify!($name), run: |houses| Box::pin($name(houses)), same_order: cases!(@ $($how)?) }),*
        ];
    };
    (@) => { true };
    (@ unordered) => { false };
}

cases! {
    results_flow_forward;
    a_goal_is_taken_apart_and_put_together, unordered;
    a_question_waits_for_its_answer;
    a_call_waits_for_a_yes;
    a_plan_waits_for_a_yes_and_is_edited;
    a_limit_ends_a_run_and_a_raised_one_lets_it_go_on;
    a_part_is_stopped_and_the_rest_goes_on, unordered;
    a_paused_run_begins_nothing, unordered;
    what_fails_for_a_while_is_tried_again;
    a_deep_tree;
    a_wide_tree, unordered;
    thousands_of_items, unordered;
    goals::what_was_not_met_is_planned_anew;
    goals::each_item_that_was_found_is_a_task, unordered;
    goals::a_limit_has_a_task_hand_back_what_it_has;
    goals::a_model_that_refuses_its_key_ends_the_run;
    goals::a_task_of_a_model_stands_between_calls;
    goals::what_a_model_notices_reaches_memory_once;
    goals::a_question_that_nobody_answers_has_its_default;
    failing::a_required_step_that_is_read_fails_its_run;
    failing::a_required_step_that_nobody_reads_leaves_the_rest;
    failing::a_member_that_fails_hard_stops_the_others, unordered;
    failing::what_fails_is_tried_as_often_as_it_may;
    steering::a_call_that_is_refused_is_not_made;
    steering::a_plan_is_edited_while_it_is_carried_out;
    steering::a_part_is_paused_and_the_rest_goes_on, unordered;
    steering::a_whole_run_is_stopped;
    steering::a_run_ends_at_its_deadline;
    steering::a_call_that_takes_too_long_is_stopped;
    steering::a_large_output_is_kept_beside_and_read_by_what_follows;
    steering::a_driver_that_leaves_is_followed_by_another;
}

async fn house(houses: &dyn Houses, cues: Vec<Cue>) -> House {
    houses.house(Equipment::of(cues)).await
}

async fn submit(house: &House, plan: &Value) -> RunId {
    let known = Known {
        limits: plan::Limits {
            children: 1_000,
            ..plan::Limits::default()
        },
        ..house.runner.known()
    };
    let plan = plan::from_value(plan, &known).unwrap_or_else(|errors| panic!("{errors}"));
    let new = NewRun::of(plan, Actor::new(Role::Human, "test"));
    house.runner.submit(new).await.unwrap().0
}

async fn drive(house: &House, run: RunId) -> NodeResult {
    let result = house.runner.drive(run).await.unwrap();
    assert_eq!(result.status, Outcome::Ok, "{}", result.notes);
    result
}

/// Drives `run`, and applies `steer` to it once `moment` has come.
async fn steered<S>(
    house: &House,
    run: RunId,
    moment: impl Fn(&Run, &[Event]) -> bool,
    steer: impl FnOnce(Runner, Folded) -> S,
) -> NodeResult
where
    S: Future<Output = ()>,
{
    let driver = house.runner.clone();
    let driving = tokio::spawn(async move { driver.drive(run).await });
    let workspace = house.runner.workspace();
    let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), run);
    let mut seen = Vec::new();
    while !moment(watch.run(), &seen) {
        let news = watch.next().await.unwrap();
        let news = news.unwrap_or_else(|| panic!("it ended before: {:?}", watch.run().result()));
        seen.extend(news.into_iter().map(|(_, event)| event));
    }
    let now = house.runner.load(run).await.unwrap();
    steer(house.runner.clone(), now).await;
    driving.await.unwrap().unwrap()
}

/// The run at its end, as its journal says.
async fn ended(house: &House, run: RunId) -> Folded {
    let run = house.runner.load(run).await.unwrap();
    assert!(run.result().is_some());
    run
}

/// The events of the run, in order.
async fn journal(house: &House, run: RunId) -> Vec<Event> {
    let journal = house.runner.workspace().journal(run, Seq(0)).await.unwrap();
    journal.events.into_iter().map(|(_, event)| event).collect()
}

/// The result of the node at `path`, in a run that has ended.
async fn result_at(house: &House, run: RunId, path: &str) -> NodeResult {
    let ended = ended(house, run).await;
    ended.node_at(path).and_then(|node| node.result.cloned()).unwrap()
}

fn ada() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn echo(id: &str, value: Value) -> Value {
    json!({"id": id, "do": {"tool": "text", "args": {"op": "echo", "value": value}}})
}

async fn results_flow_forward(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let inner = json!({"id": "c", "plan": {"steps": [echo("inner", json!("deep"))], "output": "{{ results.inner.output.value }}"}});
    let joined = json!({"op": "concat", "values": ["{{ results.c.output }}", "{{ results.b.output.value }}"]});
    let plan = json!({"title": "Echo", "budget": {"concurrency": 1}, "output": "{{ results.d.output.value }}", "steps": [
        echo("a", json!({"n": 2})),
        {"parallel": [echo("b", json!("{{ results.a.output.value.n }}")), inner]},
        {"id": "d", "do": {"tool": "text", "args": joined}},
        {"id": "say", "do": {"tool": "observe", "args": {"content": "it was {{ results.d.output.value }}"}}},
    ]});
    let run = submit(&house, &plan).await;
    let result = drive(&house, run).await;
    assert_eq!(json!(result.output), json!({"inline": "deep2"}));
    (house, run)
}

async fn a_goal_is_taken_apart_and_put_together(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, nested()).await;
    let goal = of_goal(
        "survey the house",
        json!({"criteria": ["the owner knows"], "budget": {"concurrency": 1}}),
    );
    let (run, _) = house.runner.submit(goal).await.unwrap();
    let result = drive(&house, run).await;
    assert_eq!(result.notes, "all of the house");
    let effects = house.effects.lock().unwrap().clone();
    assert_eq!(
        effects.into_values().collect::<Vec<_>>(),
        [1; 4],
        "each leaf mended once"
    );
    (house, run)
}

fn painting() -> Vec<Cue> {
    let asked = json!({"question": "Which colour?", "options": ["red", "blue"]});
    vec![
        doing("paint the door", "ask_person", asked),
        calling("paint the door", "blue", "finish", json!({"notes": "painted blue"})),
    ]
}

async fn a_question_waits_for_its_answer(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, painting()).await;
    let (run, _) = house.runner.submit(of_goal("paint the door", json!({}))).await.unwrap();
    let asks = |run: &Run, _: &[Event]| !run.questions().is_empty();
    let result = steered(&house, run, asks, async |runner, now| {
        let node = now.questions()[0].0;
        runner
            .answer(run, node, "blue", &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
    });
    assert_eq!(result.await.notes, "painted blue");
    (house, run)
}

async fn a_call_waits_for_a_yes(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let plan = json!({"title": "Roof", "steps": [{"id": "up", "do": {"tool": "climb", "args": {"what": "roof"}}}]});
    let run = submit(&house, &plan).await;
    let waits = |run: &Run, _: &[Event]| !run.pending_approvals().is_empty();
    let result = steered(&house, run, waits, async |runner, now| {
        let node = now.pending_approvals()[0].0;
        runner.approve(run, node, None, &ada()).await.unwrap();
    });
    assert_eq!(result.await.status, Outcome::Ok);
    assert_eq!(house.effects.lock().unwrap().len(), 1);
    (house, run)
}

async fn a_plan_waits_for_a_yes_and_is_edited(houses: &dyn Houses) -> (House, RunId) {
    let steps = json!([
        {"id": "dust", "title": "dust the shelf", "criteria": ["clean"]},
        {"id": "wash", "title": "wash both windows", "criteria": ["clear"]},
    ]);
    let mut cues = vec![
        deciding("clean the room", &json!({"decision": "plan", "steps": steps})),
        aggregating("clean the room", "it is clean"),
    ];
    for title in ["dust the shelf", "wash both windows", "sweep the floor"] {
        cues.extend([doing(title, "mend", json!({"what": title})), finishing(title)]);
    }
    let house = house(houses, cues).await;
    let (run, _) = house
        .runner
        .submit(of_goal("clean the room", json!({"gate": "root"})))
        .await
        .unwrap();
    let waits = |run: &Run, _: &[Event]| !run.pending_approvals().is_empty();
    let result = steered(&house, run, waits, async |runner, now| {
        let node = now.pending_approvals()[0].0;
        let text = plan::to_markdown(&now.shown_plan(node).unwrap().steps) + "- [ ] sweep the floor {#sweep}\n";
        runner
            .edit_plan(run, Some(node), &text, None, &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
        // Edited by a person, it needs no other yes.
        let now = runner.load(run).await.unwrap();
        if !now.pending_approvals().is_empty() {
            runner.approve(run, node, None, &ada()).await.unwrap();
        }
    });
    assert_eq!(result.await.notes, "it is clean");
    assert_eq!(
        house.effects.lock().unwrap().len(),
        3,
        "the step that was added was done"
    );
    (house, run)
}

async fn a_limit_ends_a_run_and_a_raised_one_lets_it_go_on(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, painting()).await;
    let goal = of_goal("paint the door", json!({"budget": {"model_calls": 2}}));
    let (run, _) = house.runner.submit(goal).await.unwrap();
    let asks = |run: &Run, _: &[Event]| !run.questions().is_empty();
    let result = steered(&house, run, asks, async |runner, now| {
        let more = |_: &Run| {
            NewLimits::from(Allowance {
                model_calls: Some(10),
                ..Allowance::default()
            })
        };
        runner.change_limits(run, None, more, &ada()).await.unwrap();
        runner
            .answer(run, now.questions()[0].0, "blue", &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
    });
    assert_eq!(result.await.notes, "painted blue");
    (house, run)
}

async fn a_part_is_stopped_and_the_rest_goes_on(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let slow = |id: &str| json!({"id": id, "do": {"tool": "wait", "args": {"ms": 60_000}}});
    let plan = json!({"title": "Stop", "steps": [
        {"id": "both", "parallel": [{"id": "long", "optional": true, "plan": {"steps": [slow("first"), slow("second")]}}, echo("short", json!(1))]},
        echo("after", json!(2)),
    ]});
    let run = submit(&house, &plan).await;
    let begun = |run: &Run, _: &[Event]| {
        !run.in_flight().is_empty() && run.node_at("both/short").is_some_and(|node| node.result.is_some())
    };
    let result = steered(&house, run, begun, async |runner, now| {
        let long = now.node_at("both/long").unwrap().id;
        runner
            .cancel(run, Some(long), &Actor::new(Role::Human, "ada"))
            .await
            .unwrap();
    });
    let status = result.await.status;
    let ended = house.runner.load(run).await.unwrap();
    let of = |path: &str| ended.node_at(path).unwrap().result.unwrap().status;
    assert_eq!(
        (of("both/long"), of("both/long/second"), of("after")),
        (Outcome::Cancelled, Outcome::Cancelled, Outcome::Ok)
    );
    assert_ne!(status, Outcome::Cancelled);
    (house, run)
}

async fn a_paused_run_begins_nothing(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let wait = |id: &str| json!({"id": id, "do": {"tool": "wait", "args": {"ms": 300}}});
    let plan = json!({"title": "Pause", "steps": [wait("one"), wait("two"), echo("three", json!(3))]});
    let run = submit(&house, &plan).await;
    let begun = |run: &Run, _: &[Event]| !run.in_flight().is_empty();
    let result = steered(&house, run, begun, async |runner, _| {
        runner.pause(run, None, &Actor::new(Role::Human, "ada")).await.unwrap();
        let workspace = runner.workspace();
        let mut watch = Watch::new(Arc::clone(workspace.store()), workspace.space().clone(), run);
        // What is under way ends, and is the last that happens.
        while watch.run().node_at("one").is_none_or(|node| node.result.is_none()) {
            watch.next().await.unwrap();
        }
        let quiet = std::time::Duration::from_millis(700);
        assert!(
            tokio::time::timeout(quiet, watch.next()).await.is_err(),
            "nothing happens while it is paused"
        );
        runner.go_on(run, None, &Actor::new(Role::Human, "ada")).await.unwrap();
    });
    assert_eq!(result.await.status, Outcome::Ok);
    (house, run)
}

async fn what_fails_for_a_while_is_tried_again(houses: &dyn Houses) -> (House, RunId) {
    use folio_model::{ModelErrorKind, Role as ModelRole};
    let away = When::role(ModelRole::Planner)
        .error(ModelErrorKind::Unavailable)
        .retry_after(std::time::Duration::from_millis(400));
    let house = house(
        houses,
        vec![away, doing("paint the door", "finish", json!({"notes": "painted"}))],
    )
    .await;
    let (run, _) = house.runner.submit(of_goal("paint the door", json!({}))).await.unwrap();
    assert_eq!(drive(&house, run).await.notes, "painted");
    (house, run)
}

async fn a_deep_tree(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let mut steps = json!([echo("leaf", json!(1))]);
    for depth in 0..7 {
        steps = json!([echo(&format!("before{depth}"), json!(1)), {"id": format!("level{depth}"), "plan": {"steps": steps}}]);
    }
    let plan = json!({"title": "Deep", "budget": {"depth": 8, "concurrency": 1}, "steps": steps});
    let run = submit(&house, &plan).await;
    drive(&house, run).await;
    (house, run)
}

async fn a_wide_tree(houses: &dyn Houses) -> (House, RunId) {
    let house = house(houses, Vec::new()).await;
    let group =
        |g: u32| json!({"parallel": (0..200).map(|n| echo(&format!("g{g}-{n}"), json!(n))).collect::<Vec<_>>()});
    let plan = json!({"title": "Wide", "budget": {"nodes": 10_000, "children": 1_000, "concurrency": 32},
                      "steps": (0..5).map(group).collect::<Vec<_>>()});
    let run = submit(&house, &plan).await;
    drive(&house, run).await;
    assert_eq!(once(&house, run).await, 1_000);
    (house, run)
}

async fn thousands_of_items(houses: &dyn Houses) -> (House, RunId) {
    let (items, house) = (houses.items(), house(houses, Vec::new()).await);
    let plan = json!({"title": "Items", "budget": {"nodes": 20_000, "children": 10_000, "concurrency": 64}, "steps": [
        {"id": "each", "for_each": format!("{{{{ range({items}) | list }}}}"), "as": "n", "max_items": 10_000, "step": echo("item", json!("{{ n }}"))},
    ]});
    let run = submit(&house, &plan).await;
    drive(&house, run).await;
    assert_eq!(once(&house, run).await, items);
    (house, run)
}

/// How many calls there were; asserts that each ended once.
async fn once(house: &House, run: RunId) -> usize {
    let mut ended = std::collections::BTreeMap::<NodeId, u32>::new();
    let mut begun = std::collections::BTreeSet::new();
    for event in journal(house, run).await {
        match event {
            Event::Started { node, .. } => drop(begun.insert(node)),
            Event::Finished { node, .. } => *ended.entry(node).or_default() += 1,
            _ => {}
        }
    }
    assert!(begun.iter().all(|node| ended.get(node) == Some(&1)));
    begun.len()
}
