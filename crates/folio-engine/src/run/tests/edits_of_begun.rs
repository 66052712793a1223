//! Edits of what waits, is at work or has ended, and what of a page is no step (E9.14).

use super::edits::THREE;
use super::*;
use crate::plan::to_markdown;
use crate::run::RequiredApproval;

#[test]
fn call_that_waits_for_approval_can_be_edited_and_dropped_e9_14() {
    for (line, called) in [
        (
            "- a {#a}\n  ```yaml\n  do: {tool: echo, args: {n: 7}}\n  ```\n",
            vec!["a", "b", "c"],
        ),
        ("", vec!["b", "c"]),
    ] {
        let mut sim = Sim::new(
            "steps:\n  - {id: a, do: {tool: write, args: {}}}\n  - {id: b, do: {tool: echo, args: {}}}\n  - {id: c, do: {tool: echo, args: {}}}",
        );
        let asks_first = |tool: &str, _: &Value| RequiredApproval::from(tool == "write");
        sim.run.set_approval_policy(Some(Arc::new(asks_first)));
        sim.derive();
        let asked = sim.id("a");
        assert_eq!(sim.run.pending_approvals().len(), 1);
        sim.edit("", &format!("{line}- b {{#b}}\n- c {{#c}}\n"));
        assert_eq!(sim.run.pending_approvals().len(), 0, "nothing waits any more");
        let sim = sim.driven_on();
        assert_eq!(sim.called(), called);
        let dropped = sim.run.node(asked).unwrap().result.unwrap();
        assert_eq!(
            (dropped.status, dropped.stop_reason),
            (Outcome::Skipped, Some(StopReason::Superseded))
        );
        for cut in 1..sim.journal.len() {
            let mut resumed = Sim::resumed(&sim.journal[..cut]);
            resumed
                .run
                .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
            if sim.journal[..cut]
                .iter()
                .any(|(_, event)| event.name() == "plan_edited")
            {
                assert_eq!(resumed.driven_on().outcome(), sim.outcome(), "{cut}");
            }
        }
    }
}

#[test]
fn dropping_a_begun_step_with_a_dash_is_refused_e9_14() {
    let mut sim = Sim::new(
        "steps:\n  - {id: a, do: {tool: echo, args: {}}}\n  - {id: b, do: {tool: echo, args: {}}}\n  - {id: c, do: {tool: echo, args: {}}}",
    );
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.derive();
    let dropped = |text: &str| match sim.edit_of("", text) {
        Err(EditError::ReadOnly { steps }) => steps,
        other => panic!("{other:?}"),
    };
    let as_dropped = |id: &str| vec![(id.to_owned(), "dropped")];
    assert_eq!(
        dropped("- a {#a}\n- [-] b {#b}\n- c {#c}\n"),
        as_dropped("b"),
        "at work"
    );
    assert_eq!(dropped("- [-] a {#a}\n- b {#b}\n- c {#c}\n"), as_dropped("a"), "ended");
}

#[test]
fn pages_listed_below_a_plan_are_no_steps_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    let page = format!("# Three\n\n{}\n## Pages\n\n- p7 The third (open)\n", sim.markdown(""));
    assert_eq!(sim.edit_of("", &page), Ok(None));
    // Headings of one's own mean nothing.
    let own = page.replace("## Pages", "## And then");
    assert!(matches!(sim.edit_of("", &own), Ok(Some(_))));
}

/// The plan of `sim` in both of its forms, as people get it over HTTP.
fn in_both_forms(sim: &Sim) -> Value {
    let plan = sim.run.shown_plan(sim.id("")).unwrap();
    let steps: Vec<Value> = plan.steps.iter().map(|shown| json!(shown.step)).collect();
    json!({"plan_version": plan.version, "steps": steps, "markdown": to_markdown(&plan.steps)})
}

#[test]
fn either_form_of_a_plan_may_be_edited_although_steps_begin_and_end_meanwhile_e9_14() {
    let mut sim = Sim::new(
        "steps:
  - {id: a, do: {tool: echo, args: {n: 1}}}
  - [{id: x, do: {tool: echo}}, {id: y, title: 'Of {{ results.a.output.n }}', do: {tool: deny}, optional: true}]
  - {id: each, for_each: [1, 2], do: {tool: echo, args: {n: '{{ item }}'}}}
  - {id: c, title: The last, do: {tool: echo, args: {n: '{{ results.a.output.n }}'}}}",
    );
    sim.concurrency = 1;
    sim.derive();
    let read = in_both_forms(&sim);
    let markdown = read["markdown"].as_str().unwrap();
    let mut by_steps = read.clone();
    let more = json!({"id": "e", "do": {"tool": "echo", "args": {}}});
    by_steps["steps"].as_array_mut().unwrap().push(more);
    let mut by_markdown = read.clone();
    by_markdown["markdown"] = json!(markdown.replace("The last {#c}", "At last {#c}"));
    let mut both = by_steps.clone();
    both["markdown"] = by_markdown["markdown"].clone();
    let mut misspelt = read.clone();
    misspelt["markdown"] = json!(markdown.replace("  optional: true", "  optinal: true"));
    assert_ne!(misspelt, read);
    let told = |sim: &Sim, edit: &Value| match sim.edit_of("", &edit.to_string()) {
        Ok(None) => "the same".to_owned(),
        Ok(Some(Event::PlanEdited { difference, .. })) => difference.in_words(),
        Err(EditError::Mistakes(errors)) => errors.listed[0].message.clone(),
        other => panic!("{other:?}"),
    };
    let mut moments = 0;
    while sim.run.node_at("c").unwrap().state == NodeState::Created {
        assert_eq!(told(&sim, &read), "the same");
        assert_eq!(told(&sim, &by_steps), "added e; kept a, group-2, each, c");
        assert_eq!(told(&sim, &by_markdown), "changed c; kept a, group-2, each");
        assert!(told(&sim, &both).contains("both differ"));
        let misspelt = told(&sim, &misspelt);
        assert!(misspelt.contains("optinal"), "{misspelt}");
        assert!(sim.end_one());
        sim.derive();
        moments += 1;
        assert_ne!(read["markdown"], json!(sim.markdown("")), "its marks are others");
    }
    assert_eq!(moments, 5);
}

#[test]
fn stale_plan_version_is_reported_before_anything_is_compared_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.derive();
    let mut edit = in_both_forms(&sim);
    let more = json!({"id": "e", "do": {"tool": "echo", "args": {}}});
    edit["steps"].as_array_mut().unwrap().push(more);
    let edit = edit.to_string();
    sim.edit("", &edit);
    // The untouched form differs from the plan by now as well.
    let wrong = "<!-- folio plan edit r1, version 1 -->\n- [ ] New {#n}\n  ```yaml\n  needs: [nobody]\n  ```\n";
    let unknown = edit.replace("\"echo\"", "7");
    for text in [edit.as_str(), wrong, unknown.as_str()] {
        let refused = sim.edit_of("", text);
        assert!(
            matches!(
                refused,
                Err(EditError::Stale {
                    current: 2,
                    given: Some(1),
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    let by_number = sim
        .run
        .edit_plan(sim.id(""), "no: {plan", Some(1), &Known::default(), "ada");
    assert!(matches!(by_number, Err(EditError::Stale { .. })), "{by_number:?}");
}
