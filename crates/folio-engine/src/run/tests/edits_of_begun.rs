//! Edits of what waits, is at work or has ended, and what of a page is no step (E9.14).

use super::edits::THREE;
use super::*;
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
