//! What people read of how a run went: notes that quote only what matters, and pages without odd counts or times.

use super::models::{goal, house, nested};
use super::*;
use crate::projection::{branch_page, iteration_summary_page, main_page, plan_page};
use crate::run::conclude::push_note;

fn notes<'s>(sim: &'s Sim, path: &str) -> &'s str {
    let node = if path.is_empty() {
        Some(NodeId::root(sim.run.id()))
    } else {
        sim.run.node_at(path).map(|view| view.id)
    };
    &sim.run.node(node.unwrap()).unwrap().result.unwrap().notes
}

#[test]
fn notes_on_an_unanswered_task_quote_its_title_only_e9_14() {
    let sim = Sim::new(
        "steps:
          - {id: ships, title: List the ships, do: {tool: echo, args: {text: many words}}}
          - id: ask
            executor: human
            title: Ask in the harbour
            description: |
              Which harbour is open?
              Tell its name as it stands on the chart.
            reason: nobody else knows",
    )
    .driven_on();
    assert_eq!(notes(&sim, "ask"), "nobody answered: Ask in the harbour");
    assert_eq!(
        notes(&sim, ""),
        "1 ok, 1 failed; ask: nobody answered: Ask in the harbour"
    );
    let asked = sim
        .journal
        .iter()
        .find(|(_, event)| event.name() == "questioned")
        .unwrap();
    assert_eq!(asked.1.in_words(), "a task for a person: Ask in the harbour");
}

#[test]
fn notes_on_groups_name_each_failure_once_by_its_own_path() {
    let sim = Sim::new(
        "steps:
          - {id: one, do: {tool: fail, args: {}}, optional: true}
          - id: both
            parallel:
              - {id: a, do: {tool: echo, args: {}}}
              - sequence:
                  - {id: b, do: {tool: fail, args: {}}}
          - id: nested
            plan:
              - {id: in1, do: {tool: echo, args: {}}}
              - {id: in2, do: {tool: fail, args: {}}}",
    )
    .driven_on();
    assert_eq!(
        notes(&sim, ""),
        "1 partial, 2 failed; one: fail failed; both/sequence-4/b: fail failed; nested/in2: fail failed"
    );
    assert_eq!(notes(&sim, "both"), "1 ok, 1 failed; both/sequence-4/b: fail failed");
    assert_eq!(notes(&sim, "nested"), "1 ok, 1 failed; nested/in2: fail failed");
}

#[test]
fn notes_on_a_plan_that_lacks_something_itself_carry_its_name() {
    let sim = Sim::new(
        "steps:
          - id: nested
            plan: [{id: in1, do: {tool: echo, args: {}}}, {id: in2, do: {tool: fail, args: {}}}]
            criteria: [{id: c1, text: it is whole, check: {regex: whole}}]",
    )
    .driven_on();
    assert_eq!(
        notes(&sim, ""),
        "1 failed; nested: 1 ok, 1 failed; nested/in2: fail failed; \
         c1 (it is whole) is not met: nothing matches `whole`"
    );
}

#[test]
fn note_after_a_sentence_needs_no_semicolon() {
    let joined = |first: &str| {
        let mut notes = first.to_owned();
        push_note(&mut notes, "c1 is not met");
        notes
    };
    assert_eq!(joined(""), "c1 is not met");
    assert_eq!(joined("2 ok"), "2 ok; c1 is not met");
    assert_eq!(joined("It is closed."), "It is closed. c1 is not met");
}

#[test]
fn pages_count_one_step_as_one_and_give_times_to_the_millisecond() {
    let mut sim = Sim::new("steps: [{id: a, title: Try it, retry: 2, do: {tool: flaky, args: {}}}]");
    // A clock does not stand at whole milliseconds.
    sim.now = sim.now.plus(Duration::from_nanos(1_234_567));
    let sim = sim.driven_on();
    let main = sim.pages.read(main_page(sim.run.id()));
    assert!(
        main.contains("\n## Iteration 1: plan\n\n1 step is planned.\n"),
        "{main}"
    );
    let branch = sim.pages.read(branch_page(&sim.run, sim.run.node_at("a").unwrap().id));
    let (_, told) = branch.split_once("The next attempt is not before ").unwrap();
    let (time, _) = told.split_once("Z.\n").unwrap();
    let fraction = time.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    assert!((1..=3).contains(&fraction.len()), "{time}");
}

/// What the summary of the first iteration says.
fn summary(sim: &Sim) -> String {
    sim.pages.read(iteration_summary_page(sim.run.id(), 1))
}

#[test]
fn summary_of_a_plan_that_ended_well_says_what_it_found_e9_16() {
    let steps = "steps: [{id: a, do: {tool: echo, args: {text: teal}}}]";
    let with_report = format!("{steps}\nreport: |\n  # Colour\n\n  Tally is {{{{ results.a.output.text }}}}.");
    let told = summary(&Sim::new(&with_report).driven_on());
    assert!(told.contains("1 step: 1 ok.\n\n"), "{told}");
    assert!(
        told.contains("Colour\nTally is teal.") && !told.contains("# Colour"),
        "{told}"
    );
    // Without a report, it is what the steps noted, which the steps of groups do as well.
    let told = summary(&Sim::new("steps: [{parallel: [{id: a, do: {tool: noted, args: {text: teal}}}]}]").driven_on());
    assert!(told.contains("\n\na: 0 items"), "{told}");
    // A long report is found by its beginning.
    let long = format!("{steps}\nreport: '{}'", "much ".repeat(2_000));
    let told = summary(&Sim::new(&long).driven_on());
    assert!(told.contains("much much") && told.len() < 2_600, "{}", told.len());
}

#[test]
fn pages_of_a_cancelled_run_keep_its_steps_and_count_each_once_e9_11() {
    let mut sim = Sim::new(
        "steps:
          - {id: first, do: {tool: echo, args: {}}}
          - for_each: [1, 2]
            id: each
            step: {id: it, do: {tool: echo, args: {}}}
          - {id: last, do: {tool: echo, args: {}}}",
    );
    sim.derive();
    while sim.run.node_at("each/it[0]").is_none() {
        assert!(sim.end_one());
        sim.derive();
    }
    sim.record(Event::CancelRequested {
        node: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    let run = sim.run.id();
    insta::assert_snapshot!(sim.pages.read(plan_page(run)), @r"
    # Plan

    <!-- p3 plan · planner · cancelled · iteration 1 -->

    - [x] first {#first} · ok
    - [!] each {#each} · cancelled
    - [!] last {#last} · cancelled
    ");
    insta::assert_snapshot!(sim.pages.read(iteration_summary_page(run, 1)), @r"
    # Iteration 1

    <!-- p7 iteration_summary · planner · cancelled · iteration 1 -->

    ## Iteration 1: cancelled

    3 steps: 1 ok, 2 cancelled.
    The whole run, 5 nodes: 1 ok, 4 cancelled.

    *remaining*

    - each
    - last
    ");
}

#[test]
fn page_of_a_model_task_names_steps_by_path_and_its_calls_only_where_they_were_made() {
    let sim = goal("survey the house", &house(), nested).driven_on();
    let branch = |path: &str| branch_page(&sim.run, sim.run.node_at(path).unwrap().id);
    insta::assert_snapshot!(sim.pages.read(main_page(sim.run.id())), @r"
    # Main scratchpad

    <!-- p2 scratchpad_root · planner · ok · iteration 1 -->

    ## Goal

    survey the house

    ## Iteration 1: plan

    it has parts

    The task is complex, its resources are available, and its criteria are testable here.

    2 steps are planned.

    *remaining*

    - walk through
    - check cellar beams, check roof tiles

    ## Criteria

    *results*

    - c1: met

    ## Branch roll-up

    all of survey the house

    *results*

    - look ok: walk through done [p4]
    - cellar ok: check cellar beams done [p5]
    - roof ok: all of check roof tiles [p6]

    ## Pages

    - p4 walk through (ok)
    - p5 check cellar beams (ok)
    - p6 check roof tiles (ok)
    - p9 Iteration 1 (ok)
    ");
    insta::assert_snapshot!(sim.pages.read(branch("look")), @r#"
    # walk through

    <!-- p4 scratchpad_exec · executor · ok · branch look · iteration 1 -->

    ## Decision: execute directly

    it is small

    The task is well understood, its resources are available, and its criteria are testable here.

    ## Actions

    - echo text=walk through

    ## echo: ok

    *results*

    - {"text":"walk through"}

    ## ok

    walk through done
    "#);
    insta::assert_snapshot!(sim.pages.read(branch("group-2/roof")), @r"
    # check roof tiles

    <!-- p6 scratchpad_exec · executor · ok · branch group-2/roof · iteration 1 -->

    ## Plan, version 1

    it has parts

    The task is complex, its resources are available, and its criteria are testable here.

    2 steps are planned.

    *remaining*

    - north side
    - south side

    - [x] north side {#north} · ok
    - [x] south side {#south} · ok

    ## ok

    all of check roof tiles

    *results*

    - north ok: north side done [p7]
    - south ok: south side done [p8]

    ## Pages

    - p7 north side (ok)
    - p8 south side (ok)
    ");
}
