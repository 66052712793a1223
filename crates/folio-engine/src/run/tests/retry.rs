//! Attempts, and the actions that are due after a crash.

use super::forks::with_more_calls;
use super::*;

#[test]
fn failed_attempt_is_retried_only_after_its_delay() {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: flaky, args: {}}, retry: {max_attempts: 3, delay: 2s}}]");
    sim.derive();
    sim.end_one();
    assert_eq!(sim.run.due(sim.now, 4), []);
    assert_eq!(sim.run.wakes_at(), Some(sim.now.plus(Duration::from_secs(2))));
    let parked = sim.run.node_at("a").unwrap().parked;
    assert_eq!(
        parked,
        Some((sim.now.plus(Duration::from_secs(2)), "flaky failed")),
        "E9.19"
    );
    let sim = sim.driven_on();
    let node = sim.run.node_at("a").unwrap();
    assert_eq!(node.parked, None);
    assert_eq!((node.attempt, sim.status("a")), (2, Outcome::Ok));
}

#[test]
fn task_fails_when_all_its_attempts_failed() {
    let sim = Sim::new("steps: [{id: a, do: {tool: fail, args: {}}, retry: {max_attempts: 3}}]").driven_on();
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!((result.status, result.attempts), (Outcome::Failed, 3));
    assert_eq!(result.stop_reason, Some(StopReason::RetriesExhausted));
    assert_eq!(result.code.as_deref(), Some("failed"), "why the last one did");
}

#[test]
fn denied_call_is_not_retried() {
    let sim = Sim::new("steps: [{id: a, do: {tool: deny, args: {}}, retry: {max_attempts: 3}}]").driven_on();
    assert_eq!(sim.run.node_at("a").unwrap().attempt, 1);
}

#[test]
fn interrupted_call_is_owed_again_as_the_same_attempt_e9_9() {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {x: 1}}}]");
    sim.derive();
    let resumed = Sim::resumed(&sim.journal);
    let due = resumed.run.due(resumed.now, 4);
    let [Action::Call(call)] = due.as_slice() else {
        panic!("{due:?}")
    };
    assert!(call.again);
    assert_eq!((call.attempt, &call.args), (1, &json!({"x": 1})));
}

#[test]
fn call_in_flight_is_not_due_again() {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: echo, args: {}}}]");
    sim.derive();
    assert_eq!(sim.run.due(sim.now, 4), []);
}

#[test]
fn overdue_retry_begins_at_once_after_resume_e9_9() {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: flaky, args: {}}, retry: {max_attempts: 3, delay: 2s}}]");
    sim.derive();
    sim.end_one();
    let mut resumed = Sim::resumed(&sim.journal);
    assert_eq!(
        resumed.run.due(resumed.now, 4),
        [],
        "a moment that is not over is waited for"
    );
    resumed.now = resumed.run.wakes_at().unwrap().plus(Duration::from_secs(3_600));
    resumed.derive();
    assert_eq!(resumed.calls.len(), 1);
    assert_eq!(resumed.driven_on().status("a"), Outcome::Ok);
}

#[test]
fn failed_call_keeps_its_output_within_the_size_limit_e9_4() {
    for (limit, output, more) in [
        (1_000, json!({"exit_code": 7}), ""),
        (
            10,
            Value::Null,
            "; what it gave has more than the 10 bytes that the budget allows",
        ),
    ] {
        let plan = json!({"version": 1, "title": "t", "budget": {"output_bytes": limit},
                          "steps": [{"id": "a", "do": {"tool": "fail", "args": {}}}]});
        let mut sim = Sim::new(&plan.to_string());
        sim.derive();
        let call = sim.under_way.remove(0);
        let CallOutcome::Failed { failure, .. } = answer(&call) else {
            panic!("it fails")
        };
        let failed = CallOutcome::Failed {
            failure,
            output: Arc::new(json!({"exit_code": 7})),
        };
        let event = sim.run.conclude(call.node, failed, Duration::from_millis(1), sim.now);
        sim.record(event);
        let result = sim.run.node_at("a").unwrap().result.unwrap();
        assert_eq!(result.notes, format!("fail failed{more}"));
        assert_eq!(result.output.value().map(|value| (*value).clone()), Some(output));
    }
}

#[test]
fn retry_due_after_the_deadline_is_given_up_at_once_e9_10() {
    let retry = "retry: {max_attempts: 3, delay: 1h}";
    for plan in [
        format!("steps: [{{id: a, budget: {{deadline: 2s}}, do: {{tool: fail, args: {{}}}}, {retry}}}]"),
        format!(
            "steps: [{{id: s, budget: {{deadline: 2s}}, plan: {{steps: [{{id: a, do: {{tool: fail, args: {{}}}}, {retry}}}]}}}}]"
        ),
    ] {
        let mut sim = Sim::new(&plan);
        let began = sim.now;
        sim.derive();
        assert!(sim.end_one());
        sim.derive();
        let result = sim.run.result().expect("it waits for nothing");
        assert_eq!(result.status, Outcome::Failed);
        assert_eq!(sim.now, began);
        let path = if plan.contains("id: s") { "s/a" } else { "a" };
        let result = sim.run.node_at(path).unwrap().result.unwrap();
        assert_eq!(result.stop_reason, Some(StopReason::Deadline));
        assert_eq!(result.notes, "fail failed; the time is over before another attempt");
        let limited = path.split('/').next().unwrap();
        let limited = sim.run.node_at(limited).unwrap().id;
        let met: Vec<(StopReason, NodeId)> = sim.run.limits_met().map(|(reason, met)| (reason, met.node)).collect();
        assert_eq!(met, [(StopReason::Deadline, limited)], "more time would help");
    }
}

#[test]
fn retry_that_no_budget_allows_reports_the_failure_with_its_output_e9_10() {
    let mut sim = Sim::new(
        "steps: [{id: a, do: {tool: fail, args: {}}, budget: {tool_calls: 1}, retry: {max_attempts: 3, delay: 2s}}]",
    );
    sim.derive();
    let call = sim.under_way.pop().unwrap();
    let failure = Failure {
        code: "exit_7".to_owned(),
        message: "the command ended with 7".to_owned(),
        reason: StopReason::RetriesExhausted,
        may_retry: true,
    };
    let output = Arc::new(json!({"exit": 7}));
    let outcome = CallOutcome::Failed { failure, output };
    let event = sim.run.conclude(call.node, outcome, Duration::ZERO, sim.now);
    sim.record(event);
    let result = sim
        .run
        .node(call.node)
        .unwrap()
        .result
        .expect("there is no other attempt");
    assert_eq!(
        (result.stop_reason, result.attempts),
        (Some(StopReason::BudgetToolCalls), 1)
    );
    assert_eq!(
        result.notes,
        "the command ended with 7; the calls of tools that its budget allows are used up"
    );
    assert_eq!(result.code.as_deref(), Some("exit_7"));
    assert_eq!(json!(result.output), json!({"inline": {"exit": 7}}));
}

#[test]
fn retry_whose_budget_ran_out_meanwhile_reports_the_last_failure_e9_10() {
    let mut sim = Sim::new(
        "budget: {tool_calls: 2}
steps:
  - {id: a, do: {tool: fail, args: {}}, retry: {max_attempts: 3, delay: 2s}}
  - {id: b, do: {tool: echo, args: {}}, needs: []}",
    );
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.derive();
    sim.end_one();
    assert_eq!(sim.status("b"), Outcome::Ok, "it took the last call");
    let sim = sim.driven_on();
    let result = sim.run.node_at("a").unwrap().result.unwrap();
    assert_eq!(
        (result.stop_reason, result.notes.as_str()),
        (
            Some(StopReason::BudgetToolCalls),
            "the calls of tools that its budget allows are used up; the last attempt failed: fail failed"
        )
    );
}

#[test]
fn fork_before_the_limit_that_stopped_a_retry_goes_on_with_it_e9_10() {
    let sim = Sim::new(
        "budget: {tool_calls: 1}
steps: [{id: a, do: {tool: flaky, args: {}}, retry: {max_attempts: 5}}]",
    )
    .driven_on();
    let met: Vec<_> = sim.run.limits_met().map(|(reason, _)| reason).collect();
    assert_eq!(met, [StopReason::BudgetToolCalls]);
    let more = with_more_calls(&sim, ForkAt::Limit);
    assert_eq!((more.called(), more.status("a")), (vec!["a", "a"], Outcome::Ok));
}

#[test]
fn longest_pause_is_at_least_the_delay_if_nothing_is_said() {
    let retry = |retry: &str| {
        let plan = format!("steps: [{{id: a, do: {{tool: fail, args: {{}}}}, retry: {retry}}}]");
        let mut sim = Sim::new(&plan);
        sim.derive();
        sim.end_one();
        sim.run.wakes_at().unwrap().since(sim.now)
    };
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    assert_eq!(retry("{max_attempts: 3, delay: 1h}"), minutes(60));
    assert_eq!(
        retry("{max_attempts: 3, delay: 1h, delay_max: 2m}"),
        minutes(2),
        "that is what it says"
    );
}
