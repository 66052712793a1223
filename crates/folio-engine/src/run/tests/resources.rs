//! Calls that write the same resource are made one after the other (E9.15).

use super::*;

/// Declares that a call writes what its argument `to` names: one name, or several separated by a space.
fn with_declared_writes(mut sim: Sim) -> Sim {
    sim.run.set_declared_writes(Some(Arc::new(|_tool, args: &Value| {
        let names = args["to"].as_str().unwrap_or_default();
        names.split_whitespace().map(str::to_owned).collect()
    })));
    sim
}

fn group(members: &[(&str, &str)]) -> Sim {
    let members: Vec<String> = members
        .iter()
        .map(|(id, to)| format!("{{id: {id}, do: {{tool: echo, args: {{to: '{to}'}}}}}}"))
        .collect();
    with_declared_writes(Sim::new(&format!(
        "steps: [{{id: all, parallel: [{}]}}]",
        members.join(", ")
    )))
}

fn under_way(sim: &Sim) -> Vec<String> {
    let node = |call: &CallAction| sim.run.node(call.node).unwrap().slug().to_owned();
    sim.under_way.iter().map(node).collect()
}

/// Ends the call of the step `slug`, and begins what can begin then.
fn end(sim: &mut Sim, slug: &str) {
    let at = under_way(sim).iter().position(|name| name == slug).unwrap();
    sim.end_nth(at);
    sim.derive();
}

#[test]
fn calls_writing_one_resource_run_one_after_the_other_e9_15() {
    let mut sim = group(&[("a", "board"), ("b", "board"), ("c", "desk"), ("d", "")]);
    sim.derive();
    assert_eq!(under_way(&sim), ["a", "c", "d"]);
    assert_eq!(sim.run.held_resource_names(), [("board", "all/a"), ("desk", "all/c")]);
    end(&mut sim, "c");
    assert_eq!(under_way(&sim), ["a", "d"]);
    end(&mut sim, "a");
    assert_eq!(under_way(&sim), ["d", "b"]);
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(sim.run.held_resource_names(), []);
}

#[test]
fn rejected_call_ends_without_waiting_for_what_it_would_write_e9_15() {
    let mut sim = Sim::new(
        "steps: [{id: all, parallel: [
            {id: a, do: {tool: echo, args: {to: board}}}, {id: b, do: {tool: write, args: {to: board}}},
        ]}]",
    );
    sim.run
        .set_approval_policy(Some(Arc::new(|tool: &str, _: &Value| (tool == "write").into())));
    let mut sim = with_declared_writes(sim);
    sim.derive_whole();
    assert_eq!(under_way(&sim), ["a"]);
    let b = sim.run.node_at("all/b").unwrap().id;
    assert_eq!(sim.run.pending_approvals()[0].0, b, "it is asked about at once");
    sim.record(Event::CallRejected {
        node: b,
        reason: "not so".to_owned(),
        by: "ada".to_owned(),
    });
    sim.derive();
    assert_eq!(under_way(&sim), ["a"]);
    let result = sim.run.node(b).unwrap().result.expect("it has ended");
    assert_eq!(result.stop_reason, Some(StopReason::PolicyDenied));
}

#[test]
fn folder_and_its_contents_are_never_written_together_e9_15() {
    let mut sim = group(&[
        ("one", "/repo/a"),
        ("two", "/repo/b"),
        ("whole", "/repo"),
        ("late", "/repo/c"),
        ("far", "/other"),
    ]);
    sim.concurrency = 5;
    sim.derive();
    // Whoever comes later does not overtake who waits for the whole folder.
    assert_eq!(under_way(&sim), ["one", "two", "far"]);
    end(&mut sim, "one");
    assert_eq!(under_way(&sim), ["two", "far"]);
    end(&mut sim, "two");
    assert_eq!(under_way(&sim), ["far", "whole"]);
    end(&mut sim, "whole");
    assert_eq!(under_way(&sim), ["far", "late"]);
}

#[test]
fn call_waiting_for_a_resource_takes_no_concurrency_slot_e9_15() {
    let mut sim = group(&[("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")]);
    sim.concurrency = 2;
    sim.derive();
    assert_eq!(under_way(&sim), ["a", "d"]);
}

#[test]
fn resource_is_free_between_two_attempts_e9_15() {
    let plan = "steps: [{id: all, parallel: [
        {id: a, retry: {max_attempts: 2, delay: 10s}, do: {tool: flaky, args: {to: x}}},
        {id: b, do: {tool: echo, args: {to: x}}}]}]";
    let mut sim = with_declared_writes(Sim::new(plan));
    sim.derive();
    assert_eq!(under_way(&sim), ["a"]);
    end(&mut sim, "a");
    assert_eq!(under_way(&sim), ["b"]);
    // Its time has come, and what it writes is being written.
    sim.now = sim.run.wakes_at().unwrap();
    sim.derive();
    assert_eq!(under_way(&sim), ["b"]);
    end(&mut sim, "b");
    assert_eq!(under_way(&sim), ["a"]);
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);
}

#[test]
fn resource_of_an_interrupted_call_stays_taken_after_resume_e9_15() {
    let mut sim = group(&[("a", "x"), ("b", "x"), ("c", "y")]);
    sim.derive();
    assert_eq!(under_way(&sim), ["a", "c"]);
    // The next driver knows no more than the journal of what calls write.
    let mut sim = Sim::resumed(&sim.journal);
    sim.run.set_declared_writes(Some(Arc::new(|_, _| vec!["x".to_owned()])));
    sim.derive();
    assert_eq!(under_way(&sim), ["a", "c"]);
    let held: Vec<&Vec<String>> = sim.under_way.iter().map(|call| &call.writes).collect();
    assert_eq!(held, [&["x".to_owned()], &["y".to_owned()]]);
    end(&mut sim, "a");
    assert_eq!(under_way(&sim), ["c", "b"]);
}

#[test]
fn cancelled_call_releases_its_resource_when_it_ends_e9_15() {
    let mut sim = group(&[("a", "x"), ("b", "x")]);
    sim.derive();
    let node = sim.run.node_at("all/a").unwrap().id;
    sim.record(Event::CancelRequested {
        node: Some(node),
        by: "ada".to_owned(),
    });
    sim.derive();
    assert_eq!(under_way(&sim), ["a"], "it has not ended yet");
    end(&mut sim, "a");
    assert_eq!(under_way(&sim), ["b"]);
}

#[test]
fn started_event_without_writes_is_still_read_e9_15() {
    let text = r#"{"event": "started", "node": "0123456789abcdef", "attempt": 1, "call": "echo"}"#;
    let Event::Started { writes, .. } = serde_json::from_str(text).unwrap() else {
        panic!("it is a start");
    };
    assert_eq!(writes, Vec::<String>::new());
}

fn names_conflict(one: &str, other: &str) -> bool {
    one == other || one.starts_with(&format!("{other}/")) || other.starts_with(&format!("{one}/"))
}

fn assert_no_conflicts(sim: &Sim) {
    for (at, call) in sim.under_way.iter().enumerate() {
        for other in &sim.under_way[at + 1..] {
            let clash = call
                .writes
                .iter()
                .any(|a| other.writes.iter().any(|b| names_conflict(a, b)));
            assert!(!clash, "{:?} and {:?} at one time", call.writes, other.writes);
        }
    }
}

/// Drives `sim` to its end, and checks after every event that no two calls under way write the same resource.
fn drive_without_conflicts(mut sim: Sim) -> Sim {
    for _ in 0..10_000 {
        sim.derive();
        assert_no_conflicts(&sim);
        if sim.run.result().is_some() {
            return sim;
        }
        if !sim.end_one() {
            sim.now = sim.run.wakes_at().expect("nobody waits for ever");
        }
    }
    panic!("the run does not end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn conflicting_calls_all_run_but_never_at_the_same_time_e9_15(
        names in prop::collection::vec("(a|b|a/x|a/y|a/x/z|/|/a)( (b|c|a/y))?", 1..12),
        tools in prop::collection::vec(prop_oneof![4 => Just("echo"), 1 => Just("flaky")], 12),
        concurrency in 1_usize..5,
        seed in any::<u64>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let members: Vec<Value> = names.iter().zip(&tools).enumerate().map(|(at, (to, tool))| json!({
            "id": format!("s{at}"), "retry": {"max_attempts": 2, "delay": "1s"}, "do": {"tool": tool, "args": {"to": to}},
        })).collect();
        let plan = json!({"steps": [{"id": "all", "parallel": members}]}).to_string();
        let begun = |sim: Sim| Sim { concurrency, seed, ..with_declared_writes(sim) };
        let sim = drive_without_conflicts(begun(Sim::new(&plan)));
        prop_assert_eq!(sim.status(""), Outcome::Ok);
        prop_assert_eq!(sim.run.held_resource_names(), []);
        // Whoever takes it up at any moment keeps them apart as well.
        let at = 1 + cut.index(sim.journal.len() - 1);
        let resumed = drive_without_conflicts(begun(Sim::resumed(&sim.journal[..at])));
        let ends = |sim: &Sim| sim.outcome().into_iter().map(|(path, result)| (path, result["status"].clone())).collect::<Vec<_>>();
        prop_assert_eq!(ends(&resumed), ends(&sim));
        prop_assert_eq!(resumed.status(""), Outcome::Ok);
    }
}

#[test]
fn interrupted_call_holding_a_needed_resource_goes_on_after_resume_e9_15() {
    let step = |id: &str, needs: &str, to: &str| {
        format!("{{id: {id}, needs: [{needs}], do: {{tool: echo, args: {{to: '{to}'}}}}}}")
    };
    let (early, first) = (step("early", "first", "x"), step("first", "", ""));
    let plan = format!(
        "steps: [{{id: all, parallel: [{first}, {early}, {}]}}]",
        step("late", "", "x")
    );
    let mut sim = with_declared_writes(Sim::new(&plan));
    sim.derive();
    assert_eq!(under_way(&sim), ["first", "late"]);
    sim.end_nth(0);
    let sim = with_declared_writes(Sim::resumed(&sim.journal)).driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn waiting_calls_look_up_a_shared_resource_only_once_e9_15() {
    let members: Vec<_> = (0..60).map(|number| format!("m{number}")).collect();
    let members: Vec<_> = members.iter().map(|id| (id.as_str(), "folder/x")).collect();
    let mut sim = group(&members);
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    // Another run has it.
    sim.run.set_written_elsewhere(Some(Arc::new(move |_| {
        counts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        true
    })));
    sim.derive();
    assert!(under_way(&sim).is_empty());
    let before = asked.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(sim.run.due(sim.now, 4), []);
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), before + 1);
}
