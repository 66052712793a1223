//! Forks of runs.

use super::models::{equipment, goal_with, house, nested, text_answer};
use super::pages::Pages;
use super::*;
use crate::event::NewLimits;
use crate::run::RequiredApproval;
use crate::spend::Allowance;
use crate::talk::Purpose;

/// A fork of a run.
#[derive(Debug)]
pub(super) struct Fork {
    pub(super) run: Run,
    pub(super) events: Vec<Event>,
}

/// The run `id`, forked from `source`, with `first` as its first event.
pub(super) fn forked(
    (source, journal): (RunId, &[(Timestamp, Event)]),
    at: ForkAt,
    id: RunId,
    first: Event,
    now: Timestamp,
) -> Result<Fork, ForkError> {
    let templates = Arc::new(Templates::new());
    let mut search = ForkSearch::new(source, at, &templates);
    let moment = loop {
        for (at, event) in journal {
            search.take(*at, event)?;
            if search.is_too_far() {
                break;
            }
        }
        match search.end()? {
            ForkSearchOutcome::Found(moment) => break *moment,
            ForkSearchOutcome::Earlier(again) => search = *again,
        }
    };
    let mut forking = ForkBuilder::new(moment, id, first, now);
    let mut events = Vec::new();
    for (at, event) in journal {
        events.extend(forking.rewrite_event(*at, event)?);
    }
    assert!(forking.is_over());
    let run = forking.into_run();
    Ok(Fork { run, events })
}

#[test]
fn fork_at_any_node_repeats_no_call_finished_before() {
    let mut whole = goal_with("survey the house", &house(), equipment(), nested);
    whole.concurrency = 2;
    let whole = whole.driven_on();
    let first = whole.journal[0].1.clone();
    let id = RunId::derived(&["forked"]);
    for view in whole.run.tree() {
        let made = forked(
            (whole.run.id(), &whole.journal),
            ForkAt::Node(view.id),
            id,
            first.clone(),
            whole.now,
        );
        let made = made.unwrap_or_else(|error| panic!("{}: {error}", view.path));
        assert!(
            made.run.in_flight().is_empty(),
            "{}: what was under way has not begun",
            view.path
        );
        assert!(made.run.node(view.id).is_none(), "ids are those of the new run");
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.run.equip(Arc::new(equipment()));
        sim.model = Arc::new(nested);
        sim.journal = made.events.into_iter().map(|event| (whole.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        let before: Vec<String> = sim
            .run
            .tree()
            .iter()
            .filter(|v| v.result.is_some())
            .map(|v| v.path.to_owned())
            .collect();
        let sim = sim.driven_on();
        let statuses = |sim: &Sim| -> Vec<(String, Outcome, String)> {
            let views = sim.run.tree();
            views
                .iter()
                .map(|v| {
                    (
                        v.path.to_owned(),
                        v.result.unwrap().status,
                        v.result.unwrap().notes.clone(),
                    )
                })
                .collect()
        };
        assert_eq!(statuses(&sim), statuses(&whole), "forked at {}", view.path);
        for (path, _) in &sim.calls {
            assert!(!before.contains(path), "{path} was done again");
        }
        // Its journal folds by itself.
        let mut again = Run::new(id, Arc::new(Templates::new()));
        for (at, event) in &sim.journal {
            again.apply(*at, event).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    let unknown = NodeId::root(RunId::derived(&["nobody"]));
    let refused = forked(
        (whole.run.id(), &whole.journal),
        ForkAt::Node(unknown),
        id,
        first,
        whole.now,
    );
    assert!(matches!(refused, Err(ForkError::NotBegun { .. })));
}

/// Two consecutive steps, of which the first is under way.
fn one_of_two_under_way() -> Sim {
    let mut sim = Sim::new(
        "steps:\n  - {id: one, do: {tool: echo, args: {a: 1}}}\n  - {id: two, do: {tool: echo, args: {a: 2}}}",
    );
    sim.derive();
    sim
}

fn forked_and_driven_on(source: &Sim, at: ForkAt) -> Sim {
    let (first, id) = (source.journal[0].1.clone(), RunId::derived(&["forked"]));
    let made = forked((source.run.id(), &source.journal), at, id, first, source.now).unwrap();
    let mut sim = Sim::empty();
    sim.run = made.run;
    sim.journal = made.events.into_iter().map(|event| (source.now, event)).collect();
    sim.pages = Pages::of(sim.run.id(), &sim.journal);
    sim.driven_on()
}

#[test]
fn fork_at_a_cancelled_node_precedes_the_cancel_request() {
    for node in [true, false] {
        let mut sim = one_of_two_under_way();
        let two = sim.run.node_at("two").unwrap().id;
        sim.record(Event::CancelRequested {
            node: node.then_some(two),
            by: "ada".to_owned(),
        });
        let sim = sim.driven_on();
        assert_eq!(sim.status("two"), Outcome::Cancelled);
        let again = forked_and_driven_on(&sim, ForkAt::Node(two));
        assert_eq!((again.status("one"), again.status("two")), (Outcome::Ok, Outcome::Ok));
    }
}

#[test]
fn fork_restarts_the_answer_deadline_of_a_question() {
    let mut sim = Sim::new(
        "steps:
  - id: both
    parallel:
    - {id: visit, executor: human, title: Look at it, timeout: 2h}
    - sequence:
      - {id: one, do: {tool: echo, args: {}}}
      - {id: two, do: {tool: echo, args: {}}}",
    );
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    sim.derive();
    while sim.end_one() {
        sim.derive();
    }
    let asked = |run: &Run| run.questions().first().map(|(_, question)| question.deadline.unwrap());
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    assert_eq!(asked(&sim.run), Some(sim.now.plus(hours(2))));
    let (first, id) = (sim.journal[0].1.clone(), RunId::derived(&["forked"]));
    let two = sim.run.tree().iter().find(|view| view.slug() == "two").unwrap().id;
    let now = sim.now.plus(hours(5));
    let made = forked((sim.run.id(), &sim.journal), ForkAt::Node(two), id, first, now).unwrap();
    assert_eq!(asked(&made.run), Some(now.plus(hours(2))));
}

#[test]
fn fork_before_a_limit_precedes_the_missed_deadline_e9_10() {
    let mut sim = one_of_two_under_way();
    sim.record(Event::CancelRequested {
        node: None,
        by: Run::DEADLINE.to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.run.result().unwrap().status, Outcome::Failed);
    let again = forked_and_driven_on(&sim, ForkAt::Limit);
    assert_eq!(again.run.result().unwrap().status, Outcome::Ok);
}

#[test]
fn fork_before_a_limit_ends_like_an_unlimited_run_e9_10() {
    let driven = |mut sim: Sim| {
        sim.concurrency = 2;
        sim.driven_on()
    };
    let whole = driven(goal_with("survey the house", &house(), equipment(), nested));
    let notes = |sim: &Sim| -> Vec<_> {
        let views = sim.run.tree();
        let end = |v: &NodeView<'_>| {
            (
                v.path.to_owned(),
                v.result.unwrap().status,
                v.result.unwrap().notes.clone(),
            )
        };
        views.iter().map(end).collect()
    };
    for calls in 1..u64::try_from(whole.asks.len()).unwrap() {
        let mut limited = house();
        limited["budget"] = json!({"model_calls": calls});
        let short = |ask: &AskAction| match ask.purpose {
            Purpose::HandBack => text_answer("{\"notes\": \"some of it\"}"),
            _ => nested(ask),
        };
        let stopped = driven(goal_with("survey the house", &limited, equipment(), short));
        let (first, id) = (stopped.journal[0].1.clone(), RunId::derived(&["more"]));
        let source = (stopped.run.id(), stopped.journal.as_slice());
        let made = forked(source, ForkAt::Limit, id, first, stopped.now).unwrap();
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.run.equip(Arc::new(equipment()));
        sim.model = Arc::new(nested);
        sim.journal = made.events.into_iter().map(|event| (stopped.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        let more = NewLimits::from(Allowance {
            model_calls: Some(1_000),
            ..Allowance::default()
        });
        let event = sim.run.change_limits(None, more, "ada", stopped.now).unwrap();
        sim.record(event);
        assert_eq!(notes(&driven(sim)), notes(&whole), "stopped after {calls}");
    }
    let first = whole.journal[0].1.clone();
    let source = (whole.run.id(), whole.journal.as_slice());
    let refused = forked(source, ForkAt::Limit, RunId::derived(&["x"]), first, whole.now);
    assert!(matches!(refused, Err(ForkError::Unlimited)));
}

#[test]
fn unreadable_judge_is_not_a_limit_to_fork_before_e9_10() {
    let sim = goal_with("survey the house", &house(), equipment(), |ask| match ask.purpose {
        Purpose::Judge => text_answer("words, words"),
        _ => nested(ask),
    })
    .driven_on();
    let is_unjudged = |(_, event): &(Timestamp, Event)| matches!(event, Event::Checked { limit: Some(_), .. });
    assert!(sim.journal.iter().any(is_unjudged));
    let first = sim.journal[0].1.clone();
    let source = (sim.run.id(), sim.journal.as_slice());
    let refused = forked(source, ForkAt::Limit, RunId::derived(&["x"]), first, sim.now);
    assert!(matches!(refused, Err(ForkError::Unlimited)), "{refused:?}");
}

#[test]
fn fork_at_a_skipped_step_begins_before_the_step_that_failed() {
    for (plan, at) in [
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: second, do: {tool: deny, args: {}}}
  - {id: third, do: {tool: echo, args: {}}}",
            "third",
        ),
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: second, do: {tool: deny, args: {}}}
  - {id: part, sequence: [{id: third, do: {tool: echo, args: {}}}]}",
            "part/third",
        ),
        (
            "steps:
  - {id: first, do: {tool: echo, args: {}}}
  - {id: both, parallel: [{id: second, do: {tool: deny, args: {}}}, {id: third, do: {tool: echo, args: {}}}], on_hard: cancel}",
            "both/third",
        ),
    ] {
        let mut whole = Sim::new(plan);
        whole.concurrency = 1;
        let whole = whole.driven_on();
        let node = whole.run.node_at(at).unwrap_or_else(|| panic!("no {at}"));
        assert!(node.attempt == 0, "{at} has not begun");
        let made = forked(
            (whole.run.id(), &whole.journal),
            ForkAt::Node(node.id),
            RunId::derived(&["forked"]),
            whole.journal[0].1.clone(),
            whole.now,
        )
        .unwrap();
        let mut sim = Sim::empty();
        sim.run = made.run;
        sim.journal = made.events.into_iter().map(|event| (whole.now, event)).collect();
        sim.pages = Pages::of(sim.run.id(), &sim.journal);
        sim.derive();
        let begun: Vec<&str> = sim.under_way.iter().map(|call| call.tool.as_str()).collect();
        assert!(begun.contains(&"deny"), "{at}: {begun:?}");
        assert!(!sim.calls.iter().any(|(path, _)| path == "first"), "{:?}", sim.calls);
        // It is done if the other one succeeds this time.
        let second = sim.under_way.iter().position(|call| call.tool == "deny").unwrap();
        let call = sim.under_way.remove(second);
        let answered = CallOutcome::Answered(CallAnswer::default());
        let event = sim.run.conclude(call.node, answered, Duration::ZERO, sim.now);
        sim.record(event);
        let sim = sim.driven_on();
        assert_eq!(sim.status(at), Outcome::Ok, "{at}");
    }
}
