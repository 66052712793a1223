//! Answers that arrive while a part is paused, and deadlines that pass then (E9.9, E9.14).

use super::models::*;
use super::*;
use crate::talk::Purpose;

pub(super) fn pause_node(sim: &mut Sim, path: &str) {
    let node = Some(sim.id(path));
    let by = "ada".to_owned();
    sim.record(Event::Paused { node, by });
}

fn pause(sim: &mut Sim) {
    sim.record(Event::Paused {
        node: None,
        by: "ada".to_owned(),
    });
}

#[test]
fn reply_during_a_pause_is_recorded_but_nothing_follows_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    });
    sim.derive();
    assert!(sim.end_one(), "it decides");
    sim.derive();
    assert!(sim.end_one(), "the call");
    sim.derive();
    assert_eq!(sim.asking.len(), 1);
    pause(&mut sim);
    assert!(sim.end_one(), "it finishes");
    sim.derive();
    let is_proposed = |(_, event): &(Timestamp, Event)| matches!(event, Event::Proposed { .. });
    assert_eq!(sim.journal.iter().filter(|event| is_proposed(event)).count(), 1);
    assert!(sim.run.result().is_none(), "nothing follows from it yet");
    // What was paid for is there, also if nobody has it go on.
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(root(&sim).status, Outcome::Cancelled);
    assert!(root(&sim).notes.contains("hello"), "{}", root(&sim).notes);
}

#[test]
fn decision_during_a_pause_begins_no_call_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("hello"),
    });
    sim.derive();
    pause(&mut sim);
    assert!(sim.end_one());
    sim.settled();
    assert!(sim.calls.is_empty() && sim.under_way.is_empty(), "{:?}", sim.calls);
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!((root(&sim).status, sim.asks.len()), (Outcome::Ok, 2));
}

#[test]
fn default_time_of_a_run_does_not_count_while_everything_is_paused_e9_10() {
    for is_set in [false, true] {
        let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ => finish("hello"),
        });
        let deadline = sim.now.plus(Duration::from_secs(1_800));
        sim.run.time.deadline = Some(deadline);
        if is_set {
            sim.run.time.set(deadline);
        }
        sim.derive();
        pause(&mut sim);
        assert_eq!(sim.run.wakes_at(), Some(deadline), "its call is under way");
        assert!(sim.end_one());
        sim.settled();
        let (began, root_id) = (sim.now, NodeId::root(sim.run.id()));
        sim.now = began.plus(Duration::from_secs(7_200));
        if is_set {
            assert_eq!(sim.run.wakes_at(), Some(deadline));
            assert_eq!(root(&sim.driven_on()).stop_reason, Some(StopReason::Deadline));
            continue;
        }
        assert_eq!((sim.run.wakes_at(), sim.run.may_wait_until(root_id)), (None, None));
        let later = deadline.plus(sim.now.since(began));
        assert_eq!(sim.run.deadline_of(root_id, sim.now), Some(later));
        sim.record(Event::Continued {
            node: None,
            by: "ada".to_owned(),
        });
        assert_eq!((sim.run.deadline(), sim.run.wakes_at()), (Some(later), Some(later)));
        assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
    }
}

#[test]
fn paused_task_in_backoff_sets_no_wake_up_time_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.call {
        1 => ModelAnswer::Failed(ModelFailure {
            retry_after: Some(Duration::from_secs(20)),
            ..ModelFailure::new(ModelFailureKind::RateLimited, "not so fast")
        }),
        _ => execute("finish", json!({"notes": "hello"})),
    });
    sim.settled();
    let parked = sim.run.wakes_at();
    assert!(
        parked.is_some_and(|at| at.since(sim.now) == Duration::from_secs(20)),
        "{parked:?}"
    );
    let waits = |sim: &Sim, seconds| {
        let summary = sim.run.summary();
        summary.waits_at(sim.now.plus(Duration::from_secs(seconds)))
    };
    assert!(waits(&sim, 19) && !waits(&sim, 20));
    pause(&mut sim);
    assert_eq!(sim.run.wakes_at(), None);
    assert!(waits(&sim, 20));
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    assert_eq!(sim.run.wakes_at(), parked);
    assert_eq!(root(&sim.driven_on()).status, Outcome::Ok);
}

const GROUP: &str = "steps:
  - {id: a, do: {tool: echo, args: {n: 1}}}
  - id: both
    parallel:
      - {id: b, do: {tool: echo, args: {n: 2}}}
      - {id: c, do: {tool: echo, args: {n: 3}}}";

/// Carries out what may be, and returns the paths that are shown as paused.
pub(super) fn carried_out(sim: &mut Sim) -> Vec<&str> {
    while sim.end_one() {
        sim.derive();
    }
    let paused = sim.run.tree().into_iter().filter(|node| node.paused);
    paused.map(|node| node.path).collect()
}

#[test]
fn paused_member_stays_paused_when_its_group_is_edited_e9_14() {
    type Edit = fn(&str) -> String;
    let edits: [(&str, Edit, &str); 3] = [
        ("beside it", |plan| plan.replace("n: 3", "n: 7"), "both/b"),
        ("itself", |plan| plan.replace("n: 2", "n: 7"), "both/b"),
        (
            "its group is gone",
            |plan| {
                plan.replace("  - id: both\n    parallel:\n", "")
                    .replace("      - ", "  - ")
            },
            "b",
        ),
    ];
    for (what, edit, path) in edits {
        let mut sim = Sim::new(GROUP);
        sim.concurrency = 1;
        sim.derive();
        pause_node(&mut sim, "both/b");
        sim.edit("", &edit(GROUP));
        assert_eq!(carried_out(&mut sim), [path], "{what}");
        let goes_on = what != "its group is gone";
        assert_eq!(
            sim.called().iter().any(|call| call.ends_with('c')),
            goes_on,
            "{what}: {:?}",
            sim.calls
        );
        assert!(
            !sim.called().iter().any(|call| call.ends_with('b')),
            "{what}: {:?}",
            sim.calls
        );
    }
}

#[test]
fn members_of_a_paused_group_stay_paused_when_an_edit_dissolves_it_e9_14() {
    let mut sim = Sim::new(GROUP);
    sim.concurrency = 1;
    sim.derive();
    pause_node(&mut sim, "both");
    sim.edit(
        "",
        &GROUP
            .replace("  - id: both\n    parallel:\n", "")
            .replace("      - ", "  - "),
    );
    assert_eq!(carried_out(&mut sim), ["b", "c"]);
}

#[test]
fn paused_step_that_an_edit_moves_into_a_group_stays_paused_and_is_listed_once_e9_14() {
    let mut sim = Sim::new(edits::THREE);
    sim.concurrency = 1;
    sim.derive();
    pause_node(&mut sim, "b");
    let moved = "steps:
  - {id: a, do: {tool: echo, args: {n: 1}}}
  - id: both
    parallel:
      - {id: b, do: {tool: echo, args: {n: 2}}}
      - {id: d, do: {tool: echo, args: {n: 4}}}";
    sim.edit("", moved);
    assert_eq!(carried_out(&mut sim), ["both/b"]);
    assert_eq!(sim.called(), ["a", "both/d"]);
}

#[test]
fn step_of_another_plan_is_paused_as_the_one_of_its_name_was_e9_14() {
    let mut sim = goal("build", &json!({}), |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "build") => plan_answer(json!([
                {"id": "walls", "title": "raise walls", "criteria": ["they stand"]},
                {"id": "paint", "title": "mix paint", "criteria": ["it is blue"], "needs": ["walls"]},
            ])),
            (Purpose::Decide, "raise walls") => execute(
                "finish",
                json!({"status": "failed", "severity": "hard", "notes": "no bricks"}),
            ),
            (Purpose::Replan, _) => text_answer(
                &json!({"root_cause": "no bricks", "changes": "wood", "steps": [
                    {"id": "beams", "title": "raise beams", "criteria": ["they stand"]},
                    {"id": "paint", "title": "mix other paint", "criteria": ["it is blue"]},
                ]})
                .to_string(),
            ),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => text_answer(r#"{"notes": "all of it"}"#),
        }
    });
    sim.derive();
    assert!(sim.end_one(), "it plans");
    sim.derive();
    pause_node(&mut sim, "paint");
    assert_eq!(carried_out(&mut sim), ["paint"]);
    assert_eq!(sim.status("beams"), Outcome::Ok);
    assert!(sim.run.node_at("paint").unwrap().result.is_none());
}

#[test]
fn pause_of_the_root_by_its_name_pauses_the_run_and_says_who_did_it_e9_14() {
    let mut sim = Sim::new(edits::THREE);
    sim.derive();
    let node = Some(NodeId::root(sim.run.id()));
    for (by, node) in [("ada", None), ("bob", node)] {
        let by = by.to_owned();
        sim.record(Event::Paused { node, by });
        sim.record(Event::Continued {
            node,
            by: "ada".to_owned(),
        });
    }
    let by = "carl".to_owned();
    sim.record(Event::Paused { node, by });
    assert_eq!(sim.run.paused_by(), Some("carl"));
    let by = "carl".to_owned();
    sim.record(Event::CancelRequested { node, by });
    let main = sim.pages.read(crate::projection::main_page(sim.run.id()));
    assert!(main.contains("carl paused the run."), "{main}");
    assert!(main.contains("carl asked to stop the run."), "{main}");
}

#[test]
fn run_whose_items_need_not_be_done_again_does_not_wait_e9_10() {
    let whole = replans::listed(&replans::count_one(), replans::list_again(&replans::count_one())).driven_on();
    let opened = whole
        .journal
        .iter()
        .rposition(|(_, event)| matches!(event, Event::Expanded { .. }));
    let model = Arc::clone(&whole.model);
    let mut sim = Sim::resumed_with(&whole.journal[..=opened.unwrap()], equipment(), model);
    pause_node(&mut sim, "each");
    assert!(!sim.run.due(sim.now, 1).is_empty());
    assert!(!sim.run.summary().waits_at(sim.now), "results are to be recorded");
}
