//! What the steps to come need of the process that drives the run (E9.17).

use super::*;

fn tools(sim: &Sim) -> Vec<String> {
    sim.run.needs().tools.into_iter().collect()
}

#[test]
fn run_needs_only_the_tools_of_steps_without_a_result_e9_17() {
    let mut sim = Sim::new(
        "steps:
  - {id: one, do: {tool: one, args: {}}}
  - {id: part, plan: {steps: [{id: in, do: {tool: nested, args: {}}}]}}
  - [{id: left, do: {tool: left, args: {}}}, {id: right, do: {tool: right, args: {}}}]
  - {id: each, for_each: [1, 2], step: {id: item, do: {tool: item, args: {}}}}",
    );
    assert_eq!(tools(&sim), ["item", "left", "nested", "one", "right"]);
    sim.concurrency = 1;
    for left in [
        &["item", "left", "nested", "one", "right"][..],
        &["item", "left", "nested", "right"],
        &["item", "left", "right"],
        &["item", "right"],
        &["item"],
        &["item"],
        &[],
    ] {
        sim.derive();
        assert_eq!(tools(&sim), left);
        assert_eq!(Sim::resumed(&sim.journal).run.needs(), sim.run.needs());
        sim.end_one();
    }
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn cancelled_run_needs_nothing_e9_17() {
    let mut sim = Sim::new("steps: [{id: a, do: {tool: a, args: {}}}, {id: b, do: {tool: b, args: {}}}]");
    sim.derive();
    assert_eq!(tools(&sim), ["a", "b"]);
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    assert!(tools(&sim).is_empty(), "{:?}", sim.run.needs());
}

#[test]
fn human_executor_is_not_needed_from_the_process_e9_17() {
    let sim = Sim::new("steps: [{title: sign it, executor: human}, {title: review it, executor: reviewer}, look]");
    let executors: Vec<_> = sim.run.needs().executors.into_iter().collect();
    assert_eq!(executors, ["reviewer"]);
}

#[test]
fn run_needs_models_only_for_tasks_without_a_result_e9_17() {
    let mut sim = Sim::new(
        "steps: [{id: think, title: think}, {id: call, do: {tool: echo, args: {}}}, {id: sign, title: sign, executor: human}]",
    );
    let models = |sim: &Sim| sim.run.needs().models.into_iter().collect::<Vec<_>>();
    assert_eq!(models(&sim), ["think"]);
    sim.run.equip(Arc::new(models::equipment()));
    sim.model = Arc::new(|_| models::execute("finish", json!({"notes": "thought"})));
    while sim.run.node_at("think").is_none_or(|node| node.result.is_none()) {
        assert_eq!(models(&sim), ["think"]);
        sim.derive();
        assert!(sim.end_one());
    }
    assert_eq!(models(&sim), Vec::<String>::new());
    let goal = models::goal("say hello", &json!({}), |_| panic!("nobody asks"));
    assert_eq!(models(&goal), ["the goal"]);
}
