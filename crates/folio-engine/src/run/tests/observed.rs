//! Observations that a plan's rules make from results (E9.6).

use super::*;
use crate::result::NodeResult;

/// The observations that the rule of `t` makes from `output`, and what it could not make.
fn observed(output: &Value) -> (Vec<String>, Vec<String>) {
    let mut sim = Sim::new(
        "- id: t
  do: {tool: echo}
  observe: {type: reminder, content: 'file {{ item.p }}: {{ item.m }}', for_each: result.output}",
    );
    sim.derive();
    let node = sim.run.node_at("t").unwrap().id;
    let result = NodeResult::new(Outcome::Ok, String::new());
    let (made, problems) = sim.run.observations(node, &result, output);
    let text = |one: &Value| one["content"].as_str().unwrap().to_owned();
    (made.iter().map(text).collect(), problems)
}

#[test]
fn observation_with_a_missing_value_does_not_drop_later_elements_e9_6() {
    let output = json!([{"p": "a", "m": "one"}, {"p": "b"}, {"p": "c", "m": "three"}, {"p": "d", "m": "four"}]);
    let (made, problems) = observed(&output);
    assert_eq!(made, ["file a: one", "file c: three", "file d: four"]);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("observe[0][1]: "), "{problems:?}");
}

#[test]
fn failed_observation_elements_are_named_up_to_a_limit_e9_6() {
    let (made, problems) = observed(&json!(vec![json!({"p": "a"}); 20]));
    assert_eq!((made.len(), problems.len()), (0, 9));
    assert_eq!(problems[8], "observe[0]: 12 more elements in the same way");
    assert_eq!(observed(&json!(7)).1.len(), 1);
}
