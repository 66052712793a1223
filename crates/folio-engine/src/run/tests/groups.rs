//! Parallel groups when a member fails hard or enough have succeeded (E9.5).

use super::models::*;
use super::*;
use crate::run::RequiredApproval;

fn group(policy: &str) -> String {
    format!(
        "steps:
          - id: g
            parallel:
              - {{id: bad, do: {{tool: deny, args: {{}}}}}}
              - {{id: m1, do: {{tool: echo, args: {{}}}}}}
              - {{id: m2, do: {{tool: echo, args: {{}}}}}}
            {policy}
          - {{id: after, do: {{tool: echo, args: {{}}}}}}"
    )
}

/// `bad` and `m1` are under way, `m2` has not begun, when `bad` fails hard.
fn with_bad_first(policy: &str) -> Sim {
    let mut sim = Sim::new(&group(policy));
    sim.concurrency = 2;
    sim.derive();
    let bad = sim.under_way.remove(0);
    let event = sim.run.conclude(bad.node, answer(&bad), Duration::ZERO, sim.now);
    sim.record(event);
    sim
}

#[test]
fn hard_failure_holds_pending_members_and_lets_running_ones_finish_e9_5() {
    let sim = with_bad_first("").driven_on();
    let statuses = ["g/bad", "g/m1", "g/m2", "after"].map(|path| sim.status(path));
    assert_eq!(
        statuses,
        [Outcome::Failed, Outcome::Ok, Outcome::Skipped, Outcome::Skipped]
    );
}

#[test]
fn on_hard_continue_carries_out_every_member_e9_5() {
    let sim = with_bad_first("on_hard: continue").driven_on();
    assert_eq!([sim.status("g/m1"), sim.status("g/m2")], [Outcome::Ok, Outcome::Ok]);
    // The group is still as its worst required member, so the plan stops after it.
    assert_eq!(
        [sim.status("g"), sim.status("after")],
        [Outcome::Failed, Outcome::Skipped]
    );
}

#[test]
fn hard_failure_in_a_group_holds_the_steps_around_it_before_the_group_has_ended_e9_4() {
    // Each has a member that fails hard, one that goes on, and a step that needs what failed or what it skipped.
    let slow = "{id: slow, do: {tool: echo, args: {}}}";
    let bad = "{id: bad, do: {tool: deny, args: {}}}";
    let cases = [
        (format!("{{id: g, parallel: [{bad}, {slow}]}}"), "bad", Outcome::Skipped),
        (
            format!("{{id: g, parallel: [{bad}, {slow}], on_hard: continue}}"),
            "bad",
            Outcome::Skipped,
        ),
        (
            format!("{{id: g, parallel: [{{id: h, parallel: [{bad}]}}, {slow}]}}"),
            "h",
            Outcome::Skipped,
        ),
        (
            format!(
                "{{id: g, parallel: [{{id: s, sequence: [{bad}, {{id: next, do: {{tool: echo, args: {{}}}}}}]}}, {slow}]}}"
            ),
            "next",
            Outcome::Skipped,
        ),
        (
            format!("{{id: g, parallel: [{{id: s, sequence: [{bad}], optional: true}}, {slow}]}}"),
            "bad",
            Outcome::Ok,
        ),
        (
            format!("{{id: g, parallel: [{bad}, {slow}], join: first_ok}}"),
            "bad",
            Outcome::Ok,
        ),
    ];
    for (group, needed, expected) in cases {
        let steps =
            format!("steps:\n  - {group}\n  - {{id: deploy, needs: [{needed}], do: {{tool: echo, args: {{}}}}}}");
        let mut sim = Sim::new(&steps);
        sim.concurrency = 2;
        sim.derive();
        let at = sim.under_way.iter().position(|call| call.tool == "deny").unwrap();
        let bad = sim.under_way.remove(at);
        let event = sim.run.conclude(bad.node, answer(&bad), Duration::ZERO, sim.now);
        sim.record(event);
        let sim = sim.driven_on();
        assert_eq!(sim.status("deploy"), expected, "{steps}");
        for cut in 1..sim.journal.len() {
            let mut resumed = Sim::resumed(&sim.journal[..cut]);
            resumed.concurrency = 2;
            assert_eq!(resumed.driven_on().status("deploy"), expected, "{cut}: {steps}");
        }
    }
}

#[test]
fn on_hard_cancel_stops_running_members_e9_5() {
    let sim = with_bad_first("on_hard: cancel");
    assert!(
        sim.run
            .due(sim.now, 2)
            .iter()
            .any(|action| matches!(action, Action::Stop(_)))
    );
    let sim = sim.driven_on();
    assert_eq!(
        [sim.status("g/m1"), sim.status("g/m2")],
        [Outcome::Cancelled, Outcome::Cancelled]
    );
}

#[test]
fn first_ok_group_cancels_the_losers_and_ends_ok_e9_5() {
    let sim = Sim::new(
        "steps:
          - id: race
            join: first_ok
            parallel:
              - {id: slow, do: {tool: fail, args: {}}}
              - {id: quick, do: {tool: echo, args: {}}}
              - {id: never, do: {tool: echo, args: {}}}
          - {id: after, do: {tool: echo, args: {}}}",
    );
    let mut sim = sim;
    sim.concurrency = 2;
    sim.derive();
    let quick = sim.under_way.remove(1);
    let event = sim.run.conclude(quick.node, answer(&quick), Duration::ZERO, sim.now);
    sim.record(event);
    let slow = sim.run.node_at("race/slow").unwrap().id;
    assert!(sim.run.due(sim.now, 2).contains(&Action::Stop(slow)));
    let sim = sim.driven_on();
    assert_eq!([sim.status("race"), sim.status("after")], [Outcome::Ok, Outcome::Ok]);
    for loser in ["race/slow", "race/never"] {
        let result = sim.run.node_at(loser).unwrap().result.unwrap();
        assert_eq!(
            (result.status, result.stop_reason),
            (Outcome::Cancelled, Some(StopReason::CancelledByParent)),
            "{loser}"
        );
    }
    assert!(!sim.calls.iter().any(|(path, _)| path == "race/never"));
}

#[test]
fn winnable_race_goes_on_after_a_hard_failure_e9_5() {
    let plan = |join: &str, rest: &str| {
        format!("steps: [{{id: race, join: {join}, parallel: [{{id: bad, do: {{tool: deny, args: {{}}}}}}, {rest}]}}]")
    };
    let good = "{id: good, do: {tool: echo, args: {}}}";
    // One after the other: the first has failed hard before the second may begin.
    let mut sim = Sim::new(&plan("first_ok", good));
    sim.concurrency = 1;
    let sim = sim.driven_on();
    assert_eq!(
        [
            sim.status("race/bad"),
            sim.status("race/good"),
            sim.status("race"),
            sim.status("")
        ],
        [Outcome::Failed, Outcome::Ok, Outcome::Ok, Outcome::Ok]
    );
    // What cannot be won any more is not gone on with.
    let mut sim = Sim::new(&plan(
        "quorum(2)",
        &format!("{{id: worse, do: {{tool: deny, args: {{}}}}}}, {good}"),
    ));
    sim.concurrency = 1;
    let sim = sim.driven_on();
    assert_eq!(
        [sim.status("race/worse"), sim.status("race/good"), sim.status("race")],
        [Outcome::Failed, Outcome::Skipped, Outcome::Failed]
    );
}

#[test]
fn hard_failure_in_a_nested_group_skips_later_steps_e9_4() {
    let sim = Sim::new(
        "steps:
          - sequence:
              - parallel:
                  - {id: bad, do: {tool: deny, args: {}}}
              - {id: next, do: {tool: echo, args: {}}}
          - {id: after, do: {tool: echo, args: {}}}",
    )
    .driven_on();
    let next = sim.run.tree().into_iter().find(|node| node.slug() == "next").unwrap();
    assert_eq!(next.result.unwrap().status, Outcome::Skipped);
    assert_eq!(sim.status("after"), Outcome::Skipped);
}

#[test]
fn step_with_needs_waits_only_for_the_named_steps_e9_1() {
    let mut sim = Sim::new(
        "steps:
          - {id: a, do: {tool: echo, args: {}}}
          - {id: b, do: {tool: echo, args: {}}}
          - {id: c, needs: [a], do: {tool: echo, args: {}}}",
    );
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.concurrency = 4;
    sim.derive();
    let begun: Vec<&str> = sim.calls.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(begun, ["a", "b", "c"]);
}

#[test]
fn quorum_cancels_losers_and_counts_their_set_aside_tokens_e9_5() {
    let extra = json!({"steps": [{"id": "g", "join": "quorum(2)", "parallel": [
        {"id": "a", "title": "walk through cellars"},
        {"id": "b", "title": "paint a door"},
        {"id": "c", "title": "count swallows"},
    ]}]});
    let mut sim = goal_with("survey the house", &extra, equipment(), |_| {
        execute("finish", json!({"notes": "done"}))
    });
    sim.concurrency = 3;
    sim.derive();
    assert_eq!(sim.asking.len(), 3);
    let loser = sim.asking[2].clone();
    for _ in 0..2 {
        sim.end_nth(0);
        sim.derive();
    }
    let node = sim.run.node(loser.node).unwrap();
    assert_eq!(node.state, NodeState::Cancelling, "two of three are enough");
    let stopped = sim
        .run
        .model_answered(loser.node, ModelAnswer::Stopped { used: None }, Duration::ZERO, sim.now);
    sim.asking.clear();
    sim.record(stopped.unwrap());
    let sim = sim.driven_on();
    assert_eq!([sim.status("g"), sim.status("g/c")], [Outcome::Ok, Outcome::Cancelled]);
    let purse = sim.run.purse().unwrap();
    assert_eq!(purse.spent.model_calls, 3);
    assert_eq!(
        purse.spent.tokens(),
        2 * 120 + loser.reserved.tokens(),
        "remote work may go on"
    );
    assert!(purse.reserved.is_nothing() && purse.held.is_nothing());
}

/// The paths of the nodes that made calls.
fn called(sim: &Sim) -> Vec<&str> {
    sim.calls.iter().map(|(path, _)| path.as_str()).collect()
}

/// A group whose first branch fails hard while the others have only been opened.
fn with_opened(policy: &str) -> Sim {
    let mut sim = Sim::new(&format!(
        "steps:
          - id: g
            parallel:
              - {{id: bad, do: {{tool: deny, args: {{}}}}}}
              - {{id: late, plan: {{steps: [{{id: wr, do: {{tool: echo, args: {{}}}}}}]}}}}
              - {{id: deep, sequence: [{{id: in, parallel: [{{id: one, do: {{tool: echo, args: {{}}}}}}, {{id: two, do: {{tool: echo, args: {{}}}}}}]}}]}}
              - {{id: each, for_each: [1, 2], step: {{id: item, do: {{tool: echo, args: {{}}}}}}}}
              - {{id: single, do: {{tool: echo, args: {{}}}}}}
            {policy}"
    ));
    sim.concurrency = 1;
    sim
}

#[test]
fn hard_failure_skips_opened_branches_that_have_not_begun_e9_5() {
    let sim = with_opened("").driven_on();
    assert_eq!(called(&sim), ["g/bad"]);
    for path in ["late", "late/wr", "deep", "each", "each/item[0]", "single"] {
        let result = sim.run.node_at(&format!("g/{path}")).unwrap().result.unwrap();
        let ended = (result.status, result.stop_reason);
        assert_eq!(ended, (Outcome::Skipped, Some(StopReason::UpstreamFailed)), "{path}");
    }
    // Whoever takes it up at any moment holds them, too.
    for cut in 1..sim.journal.len() {
        let mut resumed = Sim::resumed(&sim.journal[..cut]);
        resumed.concurrency = 1;
        assert_eq!(resumed.driven_on().outcome(), sim.outcome(), "{cut}");
    }
    assert_eq!(called(&with_opened("on_hard: continue").driven_on()).len(), 7);
    // The items of a list.
    let mut items = Sim::new(
        "steps: [{id: each, for_each: [1, 2, 3, 4], step: {sequence: [{id: a, do: {tool: deny, args: {}}}, {id: b, do: {tool: echo, args: {}}}]}}]",
    );
    items.concurrency = 1;
    assert_eq!(called(&items.driven_on()).len(), 1);
}

#[test]
fn old_journal_branch_begun_after_hard_failure_goes_on_e9_9() {
    let mut sim = with_opened("");
    sim.derive();
    let bad = sim.under_way.remove(0);
    let event = sim.run.conclude(bad.node, answer(&bad), Duration::ZERO, sim.now);
    sim.record(event);
    sim.record(Event::Started {
        node: sim.run.node_at("g/late/wr").unwrap().id,
        attempt: 1,
        call: "echo".to_owned(),
        writes: Vec::new(),
        limits: None,
    });
    let mut resumed = Sim::resumed(&sim.journal);
    resumed.concurrency = 1;
    let sim = resumed.driven_on();
    assert_eq!(
        [sim.status("g/late"), sim.status("g/deep")],
        [Outcome::Ok, Outcome::Skipped]
    );
}

#[test]
fn group_below_its_quorum_fails_although_every_branch_is_optional_e9_5() {
    let branch = |id: &str, tool: &str| json!({"id": id, "optional": true, "do": {"tool": tool, "args": {}}});
    for (join, branches, status) in [
        (
            "first_ok",
            json!([branch("b", "fail"), branch("c", "fail")]),
            Outcome::Failed,
        ),
        (
            "quorum(2)",
            json!([branch("a", "echo"), branch("b", "fail"), branch("c", "fail")]),
            Outcome::Failed,
        ),
        (
            "quorum(2)",
            json!([branch("a", "echo"), branch("b", "echo"), branch("c", "fail")]),
            Outcome::Ok,
        ),
        (
            "all_settled",
            json!([branch("b", "fail"), branch("c", "fail")]),
            Outcome::Ok,
        ),
    ] {
        let plan = json!({"version": 1, "title": "t", "steps": [{"id": "g", "parallel": branches, "join": join}]});
        let sim = Sim::new(&plan.to_string()).driven_on();
        assert_eq!(sim.status("g"), status, "{plan}");
    }
}

#[test]
fn every_node_of_an_ended_run_has_a_result_e9_5() {
    let echo = |id: &str| format!("{{id: {id}, do: {{tool: echo, args: {{}}}}}}");
    let (x, y, b) = (echo("x"), echo("y"), echo("b"));
    let inner = [
        format!("{{id: s, sequence: [{x}, {{id: t, parallel: [{y}]}}]}}"),
        format!("{{id: s, parallel: [{{id: t, parallel: [{{id: u, sequence: [{x}, {y}]}}]}}]}}"),
    ];
    for inner in inner {
        let bad = "{id: bad, do: {tool: deny, args: {}}}";
        for plan in [
            format!("steps:\n  - {bad}\n  - {{id: g, parallel: [{inner}, {b}]}}"),
            format!("steps:\n  - {bad}\n  - {{id: g, sequence: [{inner}, {b}]}}"),
            format!("budget: {{tool_calls: 1}}\nsteps:\n  - {{id: g, parallel: [{b}, {inner}]}}"),
            format!("steps: [{{id: p, plan: [{bad}, {{id: g, parallel: [{inner}]}}]}}]"),
            format!("steps: [{{id: g, on_hard: cancel, parallel: [{bad}, {inner}]}}]"),
        ] {
            let sim = Sim::new(&plan).driven_on();
            let missing: Vec<&str> = sim
                .run
                .tree()
                .iter()
                .filter(|view| view.result.is_none())
                .map(|view| view.path)
                .collect();
            assert_eq!(missing, Vec::<&str>::new(), "{plan}");
            for cut in 1..sim.journal.len() {
                let resumed = Sim::resumed(&sim.journal[..cut]).driven_on();
                assert_eq!(resumed.outcome().len(), sim.outcome().len(), "{cut}: {plan}");
            }
        }
    }
}

#[test]
fn hard_failure_in_a_cancelled_group_holds_nothing_around_it_e9_4() {
    let mut sim = Sim::new(
        "steps:
  - {id: g, parallel: [{id: bad, do: {tool: deny, args: {}}}, {id: slow, do: {tool: echo, args: {}}}]}
  - {id: next, do: {tool: echo, args: {}}}",
    );
    sim.derive();
    let group = sim.id("g");
    sim.record(Event::CancelRequested {
        node: Some(group),
        by: "ada".to_owned(),
    });
    let at = sim.under_way.iter().position(|call| call.tool == "deny").unwrap();
    let bad = sim.under_way.remove(at);
    let event = sim.run.conclude(bad.node, answer(&bad), Duration::ZERO, sim.now);
    sim.record(event);
    let sim = sim.driven_on();
    assert_eq!(
        (sim.severity("g/bad"), sim.status("g")),
        (Some(Severity::Hard), Outcome::Cancelled)
    );
    assert_eq!(sim.status("next"), Outcome::Ok);
}

#[test]
fn group_of_which_a_call_was_rejected_before_it_began_ends_as_failed_e9_5() {
    let asking = |policy: &str| {
        let mut sim = Sim::new(&format!(
            "steps:
              - id: g
                parallel: [{{id: a, do: {{tool: write, args: {{}}}}}}, {{id: b, do: {{tool: write, args: {{}}}}}}]
                {policy}
              - {{id: after, do: {{tool: echo, args: {{}}}}}}"
        ));
        let asks_first = |tool: &str, _: &Value| RequiredApproval::from(tool == "write");
        sim.run.set_approval_policy(Some(Arc::new(asks_first)));
        sim.derive();
        assert_eq!(sim.run.pending_approvals().len(), 2);
        sim.record(Event::CallRejected {
            node: sim.id("g/a"),
            reason: "no".to_owned(),
            by: "ada".to_owned(),
        });
        sim.derive();
        sim
    };
    let held = asking("").driven_on();
    let of = |sim: &Sim, path: &str| {
        let result = sim.run.node_at(path).unwrap().result.unwrap();
        (result.status, result.stop_reason)
    };
    assert_eq!(of(&held, "g"), (Outcome::Failed, Some(StopReason::PolicyDenied)));
    assert_eq!(of(&held, "g/b"), (Outcome::Skipped, Some(StopReason::UpstreamFailed)));
    assert_eq!(of(&held, "after"), (Outcome::Skipped, Some(StopReason::UpstreamFailed)));

    let mut going_on = asking("on_hard: continue");
    assert_eq!(going_on.run.pending_approvals().len(), 1, "the other is still asked");
    let b = going_on.id("g/b");
    going_on.record(Event::CallApproved {
        node: b,
        always: None,
        by: "ada".to_owned(),
    });
    let going_on = going_on.driven_on();
    assert_eq!(going_on.status("g/b"), Outcome::Ok);
    assert_eq!(of(&going_on, "g"), (Outcome::Failed, Some(StopReason::PolicyDenied)));
    assert_eq!(going_on.status("after"), Outcome::Skipped);
}
