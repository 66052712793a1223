//! Cancellation and deadlines (E9.11).

use super::models::{execute, finish, goal, house, nested, plan_answer, prompt_text, task_named, text_answer};
use super::*;
use crate::talk::Purpose;

const PLAN: &str = "steps:
  - {id: done, do: {tool: echo, args: {}}}
  - parallel:
      - {id: runs, do: {tool: echo, args: {}}}
      - id: sub
        plan: {steps: [{id: inner, do: {tool: echo, args: {}}}, {id: later, do: {tool: echo, args: {}}}]}
  - {id: after, do: {tool: echo, args: {}}}";

fn at_work() -> Sim {
    let mut sim = Sim::new(PLAN);
    sim.derive();
    sim.end_one();
    sim.derive();
    assert_eq!(sim.under_way.len(), 2);
    sim
}

#[test]
fn cancelled_run_keeps_finished_steps_and_begins_nothing_new_e9_11() {
    let mut sim = at_work();
    sim.record(Event::CancelRequested {
        node: None,
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(
        (sim.status("done"), sim.status("after"), sim.status("")),
        (Outcome::Ok, Outcome::Cancelled, Outcome::Cancelled)
    );
    assert_eq!(sim.calls.len(), 3);
}

#[test]
fn cancelling_many_pending_items_ends_them_in_bounded_batches_e9_11() {
    let items: Vec<u32> = (0..2_500).collect();
    let plan = json!({"budget": {"nodes": 2_600}, "steps": [{"id": "all", "for_each": items, "max_items": 2_500, "concurrency": 1,
                                 "step": {"id": "one", "do": {"tool": "echo", "args": {}}}}]});
    let mut sim = Sim::new(&plan.to_string());
    sim.derive();
    sim.record(Event::CancelRequested {
        node: None,
        by: "somebody".to_owned(),
    });
    let (mut named, mut most) = (0, 0);
    loop {
        let events: Vec<Event> = (sim.run.due(sim.now, 4).into_iter())
            .filter_map(|action| match action {
                Action::Record(event) => Some(event),
                _ => None,
            })
            .collect();
        if events.is_empty() {
            break;
        }
        most = most.max(events.len());
        named += events.len();
        events.into_iter().for_each(|event| sim.record(event));
    }
    assert!(most <= 1_024, "{most} at once");
    assert_eq!(named, 2_499, "each of them once");
    assert_eq!(sim.driven_on().status("all"), Outcome::Cancelled);
}

#[test]
fn cancelled_subtree_stops_while_the_rest_continues_e9_11() {
    let mut sim = at_work();
    let sub = sim.run.tree().into_iter().find(|node| node.slug() == "sub").unwrap().id;
    sim.record(Event::CancelRequested {
        node: Some(sub),
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.run.node(sub).unwrap().result.unwrap().status, Outcome::Cancelled);
    assert_eq!(sim.status("after"), Outcome::Ok);
}

#[test]
fn repeated_pause_continue_or_cancel_is_known_to_change_nothing_e9_11() {
    let by = || "somebody".to_owned();
    let mut sim = at_work();
    let sub = sim.run.node_at("group-2/sub").unwrap().id;
    for node in [Some(sub), None] {
        let (pause, go_on) = (Event::Paused { node, by: by() }, Event::Continued { node, by: by() });
        let stop = Event::CancelRequested { node, by: by() };
        for (event, again) in [(&pause, &go_on), (&go_on, &pause)] {
            sim.record(event.clone());
            assert!(sim.run.changes_nothing(event) && !sim.run.changes_nothing(again));
        }
        assert!(!sim.run.changes_nothing(&stop));
        sim.record(stop.clone());
        assert!(sim.run.changes_nothing(&stop), "it winds down");
    }
}

#[test]
fn repeated_cancel_request_has_no_further_effect_e9_11() {
    let ended = |times: usize, is_part: bool| {
        let mut sim = at_work();
        let node = is_part.then(|| sim.run.node_at("group-2/sub").unwrap().id);
        let mut owed = Vec::new();
        for _ in 0..times {
            sim.record(Event::CancelRequested {
                node,
                by: "somebody".to_owned(),
            });
            owed.push(sim.run.due(sim.now, 4));
        }
        assert!(owed.iter().all(|due| *due == owed[0]), "nothing more is owed: {owed:?}");
        let sim = sim.driven_on();
        (sim.outcome(), sim.calls.clone(), sim.journal.len() - times)
    };
    for is_part in [false, true] {
        let (once, twice) = (ended(1, is_part), ended(2, is_part));
        assert_eq!(once, twice);
        let cancelled = if is_part { "group-2/sub" } else { "" };
        assert_eq!(once.0[cancelled]["status"], "cancelled");
    }
}

#[test]
fn resume_does_not_repeat_a_cancelled_call_e9_11() {
    let mut sim = at_work();
    sim.record(Event::CancelRequested {
        node: None,
        by: "somebody".to_owned(),
    });
    let sim = Sim::resumed(&sim.journal).driven_on();
    assert_eq!(sim.status(""), Outcome::Cancelled);
    assert_eq!(sim.calls, [], "nothing is called again");
}

#[test]
fn deadline_ends_the_run_with_a_partial_result_e9_10() {
    let mut sim = at_work();
    sim.run.time.set(sim.now);
    let sim = sim.driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::Deadline))
    );
}

#[test]
fn deadline_with_nothing_done_fails_an_uncancelled_run_e9_10() {
    let ended = |sim: &Sim, path: &str| {
        let result = sim.run.node_at(path).unwrap().result.unwrap();
        (result.status, result.stop_reason.unwrap())
    };
    let failed = (Outcome::Failed, StopReason::Deadline);
    let mut sim = Sim::new("steps:\n  - {id: a, do: {tool: echo, args: {}}}\n  - {id: b, do: {tool: echo, args: {}}}");
    sim.derive();
    sim.run.time.set(sim.now);
    let sim = sim.driven_on();
    assert_eq!(ended(&sim, ""), failed);
    // What was stopped with it has not failed.
    let stopped = (Outcome::Cancelled, StopReason::Deadline);
    assert_eq!([ended(&sim, "a"), ended(&sim, "b")], [stopped; 2]);
    // A goal that a model is at work on.
    let mut sim = goal("paint the garden fence", &json!({}), |_| ModelAnswer::Stopped {
        used: None,
    });
    sim.derive();
    sim.run.time.set(sim.now);
    let sim = sim.driven_on();
    assert_eq!(ended(&sim, ""), failed);
    // A person who stops it at that moment has stopped it.
    let mut sim = at_work();
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    sim.run.time.set(sim.now);
    assert_eq!(sim.driven_on().status(""), Outcome::Cancelled);
}

#[test]
fn expired_task_deadline_is_hard_and_skips_dependent_steps_e9_10() {
    let echo = |id: &str| json!({"id": id, "do": {"tool": "echo", "args": {}}});
    let plan = json!({"version": 1, "title": "t", "steps": [
        {"id": "part", "budget": {"deadline": "10s"}, "plan": {"steps": [echo("a")]}},
        {"id": "after", "do": {"tool": "echo", "args": {"of": "{{ results.part.status }}"}}},
    ]});
    let mut sim = Sim::new(&plan.to_string());
    sim.derive();
    sim.now = sim.now.plus(Duration::from_secs(10));
    let sim = sim.driven_on();
    let part = sim.run.node_at("part").unwrap().result.unwrap();
    assert_eq!((part.status, part.severity), (Outcome::Failed, Some(Severity::Hard)));
    assert_eq!(sim.status("after"), Outcome::Skipped);
}

#[test]
fn log_reports_an_expired_deadline_instead_of_a_cancel_request() {
    let sim = Sim::new(r#"{"version": 1, "title": "t", "steps": [{"id": "a", "do": {"tool": "echo", "args": {}}}]}"#);
    for (by, said) in [
        (Run::DEADLINE, "The time for the run is over."),
        ("ada", "ada asked to stop the run."),
    ] {
        let (node, by) = (None, by.to_owned());
        let changes = crate::projection::changes(&sim.run, &Event::CancelRequested { node, by });
        let written = serde_json::to_string(&changes).unwrap();
        assert!(written.contains(said), "{written}");
    }
}

impl Sim {
    pub(super) fn cancel(&mut self, path: &str) {
        let node = self.run.node_at(path).unwrap_or_else(|| panic!("no node {path}")).id;
        self.record(Event::CancelRequested {
            node: Some(node),
            by: "somebody".to_owned(),
        });
    }

    fn began(&self, path: &str) -> bool {
        self.calls.iter().any(|(called, _)| called == path)
    }
}

/// In each plan, `c` reads `a` and comes after `b`, which is cancelled while `a` is under way.
#[test]
fn step_after_a_cancelled_one_still_waits_for_its_inputs_e9_1() {
    let echo = "do: {tool: echo, args: {}}";
    let c = "{id: c, do: {tool: echo, args: {n: '{{ results.a.output }}'}}}";
    let plans = [
        (format!("[{{id: a, {echo}}}, {{id: b, {echo}}}, {c}]"), "b", "c"),
        (
            format!("[{{id: a, {echo}}}, {{id: b, parallel: [{{id: x, {echo}}}]}}, {c}]"),
            "b",
            "c",
        ),
        (
            format!("[{{id: s, sequence: [{{id: a, {echo}}}, {{id: b, {echo}}}, {c}]}}]"),
            "s/b",
            "s/c",
        ),
        (
            format!("[{{id: s, plan: {{steps: [{{id: a, {echo}}}, {{id: b, {echo}}}, {c}]}}}}]"),
            "s/b",
            "s/c",
        ),
        // `c` names a member of the group.
        (
            format!("[{{id: a, {echo}}}, {{id: b, parallel: [{{id: x, {echo}}}]}}, {{id: c, needs: [a, x], {echo}}}]"),
            "b",
            "c",
        ),
    ];
    for (steps, cancelled, last) in plans {
        let mut sim = Sim::new(&format!("steps: {steps}"));
        sim.derive();
        sim.cancel(cancelled);
        sim.derive();
        assert!(!sim.began(last), "{steps}");
        let journal = sim.journal.clone();
        let sim = sim.driven_on();
        assert_eq!(
            (sim.status(cancelled), sim.status(last)),
            (Outcome::Cancelled, Outcome::Ok),
            "{steps}"
        );
        // Whoever goes on with the journal does the same.
        let mut resumed = Sim::resumed(&journal);
        resumed.derive();
        assert!(!resumed.began(last), "{steps}");
    }
}

#[test]
fn cancelled_items_do_not_raise_for_each_concurrency_e9_1() {
    let mut sim = Sim::new(
        "steps: [{id: each, for_each: [0, 1, 2, 3], concurrency: 1, step: {id: look, do: {tool: echo, args: {}}}}]",
    );
    sim.derive();
    sim.cancel("each/look[1]");
    sim.cancel("each/look[2]");
    sim.derive();
    assert_eq!(sim.under_way.len(), 1);
    let sim = sim.driven_on();
    assert_eq!(sim.status("each/look[3]"), Outcome::Ok);
}

#[test]
fn step_added_after_a_cancelled_one_waits_for_its_inputs_e9_1() {
    let added = "steps:
  - {id: a, do: {tool: echo, args: {}}}
  - {id: b, do: {tool: echo, args: {}}}
  - {id: c, do: {tool: echo, args: {n: '{{ results.a.output }}'}}}";
    let before = &added[..added.rfind("\n").unwrap()];
    for is_cancelled_first in [true, false] {
        let mut sim = Sim::new(before);
        sim.derive();
        if is_cancelled_first {
            sim.cancel("b");
            sim.derive();
        }
        let root = NodeId::root(sim.run.id());
        let edit = sim.run.edit_plan(root, added, None, &Known::default(), "ada");
        sim.record(edit.unwrap().unwrap());
        if !is_cancelled_first {
            sim.cancel("b");
        }
        sim.derive();
        assert!(!sim.began("c"));
        assert_eq!(sim.driven_on().status("c"), Outcome::Ok);
    }
}

#[test]
fn paused_run_defers_the_criteria_check_of_a_plan_e9_14() {
    let mut sim = Sim::new(
        "steps:
          - id: part
            criteria: [{id: built, check: {command: [make]}}]
            plan: {steps: [{id: a, do: {tool: echo, args: {}}}]}",
    );
    sim.derive();
    let pause = |node| Event::Paused {
        node,
        by: "ada".to_owned(),
    };
    sim.record(pause(None));
    while sim.end_one() {
        sim.derive();
    }
    assert_eq!(sim.status("part/a"), Outcome::Ok, "what was under way ends");
    assert!(sim.run.node_at("part").unwrap().result.is_none());
    sim.record(Event::Continued {
        node: None,
        by: "ada".to_owned(),
    });
    assert_eq!(sim.driven_on().status("part"), Outcome::Ok);
}

#[test]
fn model_is_told_its_cancelled_call_may_have_taken_effect_e9_11() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("write", json!({"text": "a"})),
        _ => finish("hello"),
    });
    while sim.under_way.is_empty() {
        sim.derive();
        if sim.under_way.is_empty() {
            assert!(sim.end_one());
        }
    }
    sim.record(Event::CancelRequested {
        node: Some(sim.under_way[0].node),
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    let told = &sim.asks[1].messages.last().unwrap().text;
    assert!(
        told.starts_with("cancelled (cancelled_by_user). stopped while it was running; it may have taken effect\n"),
        "{told}"
    );
    assert_eq!(sim.status("call-1"), Outcome::Cancelled);
    assert_eq!(sim.status(""), Outcome::Partial, "none of its calls went well");
}

#[test]
fn cancelled_step_is_aggregated_and_does_not_trigger_a_replan_e9_11() {
    let mut sim = goal("survey the house", &house(), nested);
    let begun = |sim: &Sim| {
        sim.run
            .node_at("group-2/cellar")
            .is_some_and(|node| node.started_at.is_some())
    };
    while !begun(&sim) {
        sim.derive();
        if !begun(&sim) {
            assert!(sim.end_one());
        }
    }
    sim.record(Event::CancelRequested {
        node: Some(sim.run.node_at("group-2/cellar").unwrap().id),
        by: "somebody".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(
        [sim.status("group-2/cellar"), sim.status("group-2/roof"), sim.status("")],
        [Outcome::Cancelled, Outcome::Ok, Outcome::Partial]
    );
    let purposes: Vec<Purpose> = sim.asks.iter().map(|ask| ask.purpose).collect();
    assert!(!purposes.contains(&Purpose::Replan), "{purposes:?}");
    let together = sim
        .asks
        .iter()
        .rposition(|ask| ask.purpose == Purpose::Aggregate)
        .unwrap();
    let told = prompt_text(&sim, together);
    assert!(told.contains("group-2/cellar (cancelled, cancelled_by_user)"), "{told}");
}

/// In each plan, the node at `cancelled` is cancelled while it is under way, and everything beside it succeeds.
#[test]
fn cancelled_child_alone_does_not_make_its_parent_fail_e9_11() {
    let echo = |id: &str| format!("{{id: {id}, do: {{tool: echo, args: {{}}}}}}");
    let (a, b, c) = (echo("a"), echo("b"), echo("c"));
    let nothing = (Outcome::Cancelled, Some(StopReason::CancelledByUser));
    let some = (Outcome::Partial, Some(StopReason::CancelledByUser));
    let cases = [
        (format!("[{a}]"), vec!["a"], vec![("", nothing)]),
        (
            format!("[{{id: g, parallel: [{a}, {b}, {c}]}}]"),
            vec!["g/b"],
            vec![("g", nothing), ("", some)],
        ),
        (
            format!("[{{id: s, plan: {{steps: [{{id: g, parallel: [{a}, {b}]}}]}}}}]"),
            vec!["s/g/b"],
            vec![("s", some), ("", some)],
        ),
        (
            format!("[{{id: s, plan: {{steps: [{a}]}}}}]"),
            vec!["s/a"],
            vec![("s", nothing), ("", nothing)],
        ),
        (
            format!("[{{id: s, plan: {{steps: [{{parallel: [{a}, {b}]}}]}}}}, {c}]"),
            vec!["s/group-1/a", "s/group-1/b"],
            vec![("s", nothing), ("", some)],
        ),
        (
            "[{id: each, for_each: [1, 2], step: {id: one, do: {tool: echo, args: {}}}}]".to_owned(),
            vec!["each/one[0]"],
            vec![("each", nothing), ("", some)],
        ),
        // What failed beside it has failed.
        (
            format!("[{{id: s, plan: {{steps: [{{parallel: [{a}, {{id: b, do: {{tool: fail, args: {{}}}}}}]}}]}}}}]"),
            vec!["s/group-1/a"],
            vec![
                ("s", (Outcome::Failed, Some(StopReason::RetriesExhausted))),
                ("", (Outcome::Failed, Some(StopReason::RetriesExhausted))),
            ],
        ),
    ];
    for (steps, cancelled, ended) in cases {
        let mut sim = Sim::new(&format!("steps: {steps}"));
        sim.derive();
        for path in cancelled {
            sim.cancel(path);
        }
        let sim = sim.driven_on();
        for (path, (status, reason)) in ended {
            let result = sim.run.node_at(path).unwrap().result.unwrap();
            assert_eq!(
                (result.status, result.stop_reason, result.severity.is_some()),
                (status, reason, status == Outcome::Failed),
                "{path:?} of {steps}"
            );
        }
    }
}

/// A goal with a part that a model planned, whose only step is cancelled; `aggregated` is what the part reports.
fn part_without_anything(part: Value, aggregated: &'static str) -> Sim {
    let mut sim = goal("survey the house", &json!({}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "survey the house") => {
                plan_answer(json!([part, {"id": "roof", "do": {"tool": "echo", "args": {}}}]))
            }
            (Purpose::Decide, "see to the beams") => plan_answer(json!([
                {"id": "wait", "satisfies": ["c1"], "do": {"tool": "echo", "args": {}}},
                {"id": "more", "optional": true, "do": {"tool": "echo", "args": {}}},
            ])),
            (Purpose::Aggregate, "see to the beams") => text_answer(aggregated),
            (Purpose::Aggregate, _) => text_answer("{\"status\": \"partial\", \"notes\": \"the roof\"}"),
            (purpose, task) => panic!("{purpose:?} of {task}"),
        }
    });
    while !sim.began("sub/wait") {
        sim.derive();
        if !sim.began("sub/wait") {
            assert!(sim.end_one());
        }
    }
    sim.cancel("sub/wait");
    sim.driven_on()
}

#[test]
fn parent_does_not_replan_a_step_cancelled_in_a_part_e9_11() {
    let written = json!({"id": "sub", "title": "see to the beams", "plan": {"steps": [{"id": "wait", "do": {"tool": "echo", "args": {}}}]}});
    let planned = json!({"id": "sub", "title": "see to the beams", "criteria": ["seen"]});
    for (part, said) in [
        (written, ""),
        (planned.clone(), "{\"status\": \"failed\", \"notes\": \"nothing\"}"),
        (planned, "nonsense"),
    ] {
        let sim = part_without_anything(part.clone(), said);
        let sub = sim.run.node_at("sub").unwrap().result.unwrap();
        assert_eq!(
            (sub.status, sub.stop_reason),
            (Outcome::Cancelled, Some(StopReason::CancelledByUser)),
            "{part} {said}"
        );
        assert_eq!(sim.status(""), Outcome::Partial);
        let waited = sim.calls.iter().filter(|(path, _)| path == "sub/wait");
        assert_eq!(waited.count(), 1, "{part} {said}");
    }
}

#[test]
fn failed_plan_reports_the_stop_reason_of_its_failed_step_e9_11() {
    let mut sim = Sim::new(
        "steps: [{id: s, plan: {steps: [{id: a, needs: [], do: {tool: echo, args: {}}}, {id: b, needs: [], do: {tool: fail, args: {}}}]}}]",
    );
    sim.derive();
    sim.cancel("s/a");
    let sim = sim.driven_on();
    let result = sim.run.node_at("s").unwrap().result.unwrap();
    let ended = (result.status, result.stop_reason);
    assert_eq!(ended, (Outcome::Failed, Some(StopReason::RetriesExhausted)));
}

#[test]
fn interrupted_read_only_call_is_reported_to_change_nothing_e9_11() {
    for (tool, said) in [
        ("echo", "stopped while it was running; it changes nothing"),
        ("write", "stopped while it was running; it may have taken effect"),
    ] {
        let mut sim = Sim::new(&format!("steps: [{{id: a, do: {{tool: {tool}, args: {{}}}}}}]"));
        sim.derive();
        // Its driver dies, and whoever takes it up sees that it was to be stopped meanwhile.
        let mut sim = Sim::resumed(&sim.journal);
        sim.run.set_read_only_tools(Some(Arc::new(|tool| tool == "echo")));
        sim.run.time.set(sim.now);
        let sim = sim.driven_on();
        assert_eq!(sim.run.node_at("a").unwrap().result.unwrap().notes, said);
    }
}

#[test]
fn task_cancelled_before_a_retry_reports_its_last_failure_e9_11() {
    let plan = "steps: [{id: a, do: {tool: fail, args: {}}, retry: {max_attempts: 3, delay: 20m}}]";
    let mut sim = Sim::new(plan);
    sim.derive();
    assert!(sim.end_one());
    sim.cancel("a");
    let sim = sim.driven_on();
    let notes = &sim.run.node_at("a").unwrap().result.unwrap().notes;
    assert_eq!(
        notes,
        "stopped while it waited for another attempt; the last failed: fail failed"
    );
}

#[test]
fn call_that_its_tool_ends_as_cancelled_has_failed_e9_11() {
    for (may_have_changed, severity, reason) in [
        (true, Severity::Hard, StopReason::OutcomeUnknown),
        (false, Severity::Soft, StopReason::RetriesExhausted),
    ] {
        let mut sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}]");
        sim.derive();
        let call = sim.under_way.pop().unwrap();
        let stopped = CallOutcome::Stopped { may_have_changed };
        let event = sim.run.conclude(call.node, stopped, Duration::ZERO, sim.now);
        sim.record(event);
        let result = sim.run.node(call.node).unwrap().result.unwrap();
        assert_eq!(
            (result.status, result.severity, result.stop_reason),
            (Outcome::Failed, Some(severity), Some(reason)),
            "{}",
            result.notes
        );
    }
}
