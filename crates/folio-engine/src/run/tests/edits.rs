//! People change a plan while it is carried out (E9.1, E9.14).

use super::models::{execute, finish, goal, house, nested};
use super::*;
use crate::argument::ArgKind;
use crate::plan::{KnownTool, to_markdown};
use crate::talk::Purpose;

pub(super) const THREE: &str = "steps:
  - {id: a, do: {tool: echo, args: {n: 1}}}
  - {id: b, do: {tool: echo, args: {n: 2}}}
  - {id: c, title: The third, do: {tool: echo, args: {n: '{{ results.a.output.n }}'}}}";

impl Sim {
    pub(super) fn id(&self, path: &str) -> NodeId {
        self.run.node_at(path).unwrap_or_else(|| panic!("no node {path}")).id
    }

    pub(super) fn edit_of(&self, path: &str, text: &str) -> Result<Option<Event>, EditError> {
        self.run.edit_plan(self.id(path), text, None, &Known::default(), "ada")
    }

    /// Changes the plan of a node, which must succeed.
    pub(super) fn edit(&mut self, path: &str, text: &str) {
        let event = self.edit_of(path, text).unwrap_or_else(|error| panic!("{error:?}"));
        self.record(event.expect("the edit changes something"));
    }

    /// The same for a plan of which there were other versions: the edit is based on `version`.
    pub(super) fn edit_at(&mut self, path: &str, text: &str, version: u32) {
        let id = self.id(path);
        let event = self.run.edit_plan(id, text, Some(version), &Known::default(), "ada");
        self.record(event.expect("it may be edited").expect("the edit changes something"));
    }

    pub(super) fn markdown(&self, path: &str) -> String {
        to_markdown(&self.run.shown_plan(self.id(path)).unwrap().steps)
    }

    pub(super) fn called(&self) -> Vec<&str> {
        self.calls.iter().map(|(path, _)| path.as_str()).collect()
    }
}

#[test]
fn edit_can_drop_move_and_add_pending_steps_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    let (a, b, c) = (sim.id("a"), sim.id("b"), sim.id("c"));
    let plan = sim.markdown("");
    assert_eq!(
        plan,
        "- [~] a {#a}\n  ```yaml\n  do:\n    tool: echo\n    args: {n: 1}\n  ```\n".to_owned()
            + "- [ ] b {#b}\n  ```yaml\n  do:\n    tool: echo\n    args: {n: 2}\n  ```\n"
            + "- [ ] The third {#c}\n  ```yaml\n  do:\n    tool: echo\n    args: {n: \"{{ results.a.output.n }}\"}\n  ```\n"
    );
    sim.edit(
        "",
        "- [~] a {#a}\n- [ ] The third {#c}\n- [ ] Another {#x}\n  ```yaml\n  do: {tool: echo, args: {n: '{{ results.c.output.n }}'}}\n  ```\n",
    );
    let Some((
        _,
        Event::PlanEdited {
            version,
            kept,
            difference,
            by,
            ..
        },
    )) = sim.journal.last()
    else {
        panic!("no edit")
    };
    assert_eq!((*version, by.as_str()), (2, "ada"));
    assert_eq!(*kept, [a, c], "what is the same keeps its node");
    assert_eq!(difference.in_words(), "added x; dropped b; kept a, c");
    let sim = sim.driven_on();
    assert_eq!(sim.called(), ["a", "c", "x"]);
    assert_eq!(sim.args("x"), json!({"n": 1}));
    assert_eq!(sim.status(""), Outcome::Ok);
    let dropped = sim.run.node(b).unwrap().result.unwrap();
    assert_eq!(
        (dropped.status, dropped.stop_reason),
        (Outcome::Skipped, Some(StopReason::Superseded))
    );
}

#[test]
fn edited_step_becomes_a_new_node_that_later_steps_read_e9_1() {
    let mut sim = Sim::new(
        "steps:
      - {id: a, do: {tool: echo, args: {n: 1}}}
      - {id: b, do: {tool: echo, args: {n: 2}}}
      - {id: c, do: {tool: echo, args: {n: '{{ results.b.output.n }}'}}}",
    );
    sim.concurrency = 1;
    sim.derive();
    let old = sim.id("b");
    sim.edit(
        "",
        "- [~] a {#a}\n- [ ] b {#b}\n  ```yaml\n  do: {tool: echo, args: {n: 20}}\n  ```\n- [ ] c {#c}\n",
    );
    assert_ne!(sim.id("b"), old);
    let sim = sim.driven_on();
    assert_eq!(sim.args("c"), json!({"n": 20}));
    assert_eq!(sim.called(), ["a", "b", "c"]);
}

#[test]
fn edit_of_begun_steps_is_refused_and_names_them_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.derive();
    // a has ended, b is at work.
    let refused = sim.edit_of("", "- [ ] b {#b}\n  ```yaml\n  do: {tool: echo, args: {n: 3}}\n  ```\n- [ ] Last {#z}\n  ```yaml\n  do: {tool: echo}\n  ```\n");
    let Err(EditError::ReadOnly { steps }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(steps, [("b".to_owned(), "changed"), ("a".to_owned(), "dropped")]);
}

#[test]
fn edit_without_a_version_of_a_plan_that_changed_is_stale_even_if_it_names_begun_steps_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    let change = "- [ ] b {#b}\n  ```yaml\n  do: {tool: echo, args: {n: 3}}\n  ```\n";
    let first = sim.markdown("");
    sim.edit(
        "",
        &format!("{first}- [ ] Last {{#z}}\n  ```yaml\n  do: {{tool: echo}}\n  ```\n"),
    );
    sim.end_one();
    sim.derive();
    // It changes b, which is at work, and drops others: whoever wrote it saw neither.
    let refused = sim.edit_of("", change);
    assert!(
        matches!(
            refused,
            Err(EditError::Stale {
                current: 2,
                given: None,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn edit_of_a_stale_plan_version_is_refused_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.derive();
    let text = format!(
        "<!-- folio plan edit r1, version 1 -->\n{}- [ ] More {{#m}}\n  ```yaml\n  do: {{tool: echo}}\n  ```\n",
        sim.markdown("")
    );
    sim.edit("", &text);
    let root = NodeId::root(sim.run.id());
    let again = sim.edit_of("", &text);
    assert!(
        matches!(
            again,
            Err(EditError::Stale {
                current: 2,
                given: Some(1),
                ..
            })
        ),
        "{again:?}"
    );
    let says_none = sim.edit_of("", THREE);
    assert!(
        matches!(says_none, Err(EditError::Stale { given: None, .. })),
        "{says_none:?}"
    );
    let by_number = sim.run.edit_plan(root, THREE, Some(7), &Known::default(), "ada");
    assert!(
        matches!(by_number, Err(EditError::Stale { given: Some(7), .. })),
        "{by_number:?}"
    );
}

#[test]
fn edit_reports_all_mistakes_at_once_with_their_lines_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.derive();
    let wrong = sim.edit_of(
        "",
        "- [~] a {#a}\n- [ ] New {#n}\n  ```yaml\n  needs: [nobody]\n  do: {tool: echo, args: {x: '{{ results.gone.output }}'}}\n  ```\n- [ ] Again {#n}\n",
    );
    let Err(EditError::Mistakes(errors)) = wrong else {
        panic!("{wrong:?}")
    };
    let told: Vec<(u32, &str)> = errors.listed.iter().map(|e| (e.place.line, e.code)).collect();
    assert_eq!(told, [(4, "P010"), (5, "P019"), (7, "P009")], "{errors}");
    let unread = sim.edit_of("", "steps: [{id: a, do: {tool: echo, args: {n: 1}}}]\nreport: Nothing.");
    let Err(EditError::Mistakes(errors)) = unread else {
        panic!("{unread:?}")
    };
    assert!(errors.to_string().contains("`report` was changed"), "{errors}");
}

#[test]
fn group_members_can_be_added_only_before_the_group_begins_e9_14() {
    let plan = "- {id: first, do: {tool: echo}}\n- [{id: x, do: {tool: echo}}, {id: y, do: {tool: echo}}]\n- {id: last, do: {tool: echo}}";
    let mut sim = Sim::new(plan);
    sim.concurrency = 1;
    sim.derive();
    let group = sim.id("group-2");
    // Whoever writes the list again without its names means the same group, wherever it stands.
    sim.edit("", "- {id: first, do: {tool: echo}}\n- {id: between, do: {tool: echo}}\n- [{id: x, do: {tool: echo}}, {id: y, do: {tool: echo}}]\n- {id: last, do: {tool: echo}}");
    assert_eq!(sim.id("group-2"), group);
    let with_z = sim.markdown("").replace(
        "  - [ ] y {#y}",
        "  - [ ] z {#z}\n    ```yaml\n    do: {tool: echo}\n    ```\n  - [ ] y {#y}",
    );
    sim.edit("", &format!("<!-- folio plan edit r1, version 2 -->\n{with_z}"));
    assert_ne!(sim.id("group-2"), group, "its members are part of it");
    for _ in 0..3 {
        sim.end_one();
        sim.derive();
    }
    let text = sim.markdown("").replace(
        "  - [ ] y {#y}",
        "  - [ ] q {#q}\n    ```yaml\n    do: {tool: echo}\n    ```\n  - [ ] y {#y}",
    );
    let root = NodeId::root(sim.run.id());
    let late = sim.run.edit_plan(root, &text, Some(3), &Known::default(), "ada");
    assert!(matches!(late, Err(EditError::ReadOnly { .. })), "{late:?}");
    let sim = sim.driven_on();
    assert_eq!(
        sim.called(),
        ["first", "between", "group-2/x", "group-2/z", "group-2/y", "last"]
    );
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn edit_with_invalid_tool_arguments_is_refused_e9_1() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    let echo = KnownTool {
        required: vec!["n".to_owned()],
        kinds: BTreeMap::from([("n".to_owned(), ArgKind::Count)]),
        ..KnownTool::default()
    };
    let known = Known {
        tools: Some(BTreeMap::from([("echo".to_owned(), echo)])),
        ..Known::default()
    };
    let text = sim.markdown("").replace("{n: 2}", "{n: two}");
    let refused = sim.run.edit_plan(sim.id(""), &text, None, &known, "ada").unwrap_err();
    let refused = format!("{refused:?}");
    assert!(
        refused.contains("P029") && refused.contains("not \\\"two\\\""),
        "{refused}"
    );
    let text = sim.markdown("").replace("{n: 2}", "{n: '22'}");
    assert!(sim.run.edit_plan(sim.id(""), &text, None, &known, "ada").is_ok());
}

#[test]
fn edit_tolerates_invalid_arguments_of_unchanged_steps_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    // A rule that came after the run had begun: the plan breaks it in each of its steps, also in the one that has
    // begun.
    let echo = KnownTool {
        optional: vec!["n".to_owned()],
        kinds: BTreeMap::from([("n".to_owned(), ArgKind::Flag)]),
        ..KnownTool::default()
    };
    let known = Known {
        tools: Some(BTreeMap::from([("echo".to_owned(), echo)])),
        ..Known::default()
    };
    let edited = |text: &str| sim.run.edit_plan(sim.id(""), text, None, &known, "ada");
    let shown = sim.markdown("");
    let more = format!("{shown}- [ ] More {{#more}}\n  ```yaml\n  do: {{tool: echo, args: {{n: true}}}}\n  ```\n");
    assert!(edited(&more).unwrap().is_some());
    // What somebody changes is held against it.
    let refused = format!("{:?}", edited(&shown.replace("{n: 2}", "{n: 22}")).unwrap_err());
    assert_eq!(refused.matches("P029").count(), 1, "{refused}");
    let refused = format!("{:?}", edited(&more.replace("{n: true}", "{n: 7}")).unwrap_err());
    assert_eq!(refused.matches("P029").count(), 1, "{refused}");
}

#[test]
fn edit_of_one_item_sub_plan_leaves_other_items_unchanged_e9_14() {
    let mut sim = Sim::new(
        "inputs: {}
steps:
  - {id: base, do: {tool: echo, args: {n: 5}}}
  - id: each
    for_each: [1, 2]
    as: item
    concurrency: 1
    step:
      id: look
      plan:
        steps:
          - {id: one, do: {tool: echo, args: {i: '{{ item }}'}}}
          - {id: two, do: {tool: echo, args: {i: '{{ results.one.output.i }}'}}}
        output: '{{ results.two.output }}'",
    );
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.derive();
    let gone = sim.edit_of("each/look[0]", "- [~] one {#one}\n");
    let Err(EditError::Mistakes(errors)) = gone else {
        panic!("{gone:?}")
    };
    assert!(
        errors.to_string().contains("there is no step `two`"),
        "the output of the plan reads it: {errors}"
    );
    sim.edit("each/look[0]", "- [~] one {#one}\n- [ ] two {#two}\n  ```yaml\n  do: {tool: echo, args: {i: '{{ results.base.output.n + item }}'}}\n  ```\n");
    let sim = sim.driven_on();
    assert_eq!(sim.args("each/look[0]/two"), json!({"i": 6}));
    assert_eq!(
        sim.args("each/look[1]/two"),
        json!({"i": 2}),
        "the other item keeps its plan"
    );
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn edit_after_a_failure_lets_later_steps_run_e9_14() {
    let mut sim = Sim::new(
        "steps:
      - parallel:
        - sequence:
            - {id: wait, do: {tool: echo}}
        - id: sub
          plan:
            steps:
              - {id: a, do: {tool: deny}}
              - {id: b, do: {tool: echo}}
              - {id: c, optional: true, do: {tool: echo}}",
    );
    sim.concurrency = 2;
    sim.seed = 3;
    sim.derive();
    // The denied call ends first; what follows it in its plan is skipped when that is recorded.
    let denied = sim.under_way.iter().position(|call| call.tool == "deny").unwrap();
    let call = sim.under_way.remove(denied);
    let event = sim.run.conclude(call.node, answer(&call), Duration::ZERO, sim.now);
    sim.record(event);
    let text = sim.markdown("group-1/sub").replace("{#a}", "{#a} · failed")
        + "- [ ] Mend {#mend}\n  ```yaml\n  do: {tool: echo}\n  ```\n";
    sim.edit("group-1/sub", &text);
    let sim = sim.driven_on();
    assert!(
        sim.called().contains(&"group-1/sub/mend") && sim.called().contains(&"group-1/sub/b"),
        "{:?}",
        sim.called()
    );
    assert_eq!(sim.status("group-1/sub"), Outcome::Partial);
}

#[test]
fn editing_a_model_plan_does_not_count_as_a_replan_e9_14() {
    let mut sim = goal("survey the house", &house(), |ask| {
        match (ask.purpose, models::task_named(ask).as_str()) {
            (Purpose::Decide, "check the garden") => execute(
                "finish",
                json!({"notes": "green", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => nested(ask),
        }
    });
    sim.concurrency = 1;
    while !sim
        .journal
        .iter()
        .any(|(_, event)| matches!(event, Event::Planned { .. }))
    {
        sim.derive();
        sim.end_one();
        sim.derive();
    }
    let text = sim.markdown("") + "- [ ] check the garden {#garden}\n";
    sim.edit("", &text);
    let sim = sim.driven_on();
    assert_eq!(sim.status("garden"), Outcome::Ok);
    assert_eq!(sim.run.node(NodeId::root(sim.run.id())).unwrap().plan_version, 2);
    assert_eq!(sim.run.replans, 0);
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn edited_run_resumed_from_any_event_reaches_the_same_end_e9_9() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    sim.edit(
        "",
        "- [~] a {#a}\n- [ ] The third {#c}\n- [ ] Another {#x}\n  ```yaml\n  do: {tool: echo}\n  ```\n",
    );
    let edited = sim.journal.len();
    let whole = sim.driven_on();
    for cut in edited..=whole.journal.len() {
        let mut sim = Sim::resumed(&whole.journal[..cut]);
        sim.concurrency = 1;
        assert_eq!(sim.driven_on().outcome(), whole.outcome(), "cut at {cut}");
    }
}

#[test]
fn edit_of_a_task_without_a_plan_is_refused_e9_14() {
    let mut sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({})),
        _ => finish("hello"),
    });
    sim.derive();
    sim.end_one();
    sim.derive();
    let refused = sim.edit_of("", "- [ ] x {#x}\n");
    assert!(matches!(refused, Err(EditError::NoPlan { .. })), "{refused:?}");
    let sim = sim.driven_on();
    let refused = sim.edit_of("", "- [ ] x {#x}\n");
    assert!(matches!(refused, Err(EditError::Ended { .. })), "{refused:?}");
}

/// A plan in the short forms that people write.
const SHORT: &str = "title: About {{ inputs.who }}
goal: See it
description: For everybody.
inputs: {repo: {type: path, default: .}, n: integer, who: {default: me}}
criteria: [The folder is looked at]
budget: {deadline: 1m30s}
steps:
  - {id: a, do: {tool: echo, args: {n: 1}}}
  - id: sub
    plan: {steps: [{id: k, do: {tool: echo}}], output: {a: 1}}
report: |
  Done {{ results.a.output.n }}
output: {n: '{{ results.a.output.n }}'}";

#[test]
fn edit_with_the_original_plan_file_changes_nothing_e9_14() {
    let mut sim = Sim::with_inputs(SHORT, json!({"repo": ".", "n": 1, "who": "me"}));
    sim.derive();
    // The title of a run is filled in when it is submitted.
    for text in [SHORT.to_owned(), SHORT.replace("me}", "me, type: string}")] {
        assert!(
            matches!(sim.edit_of("", &text), Ok(None)),
            "{:?}",
            sim.edit_of("", &text)
        );
    }
    let changed = SHORT.replace("{n: 1}", "{n: 2}").replace("id: a,", "id: b,");
    let told = format!("{:?}", sim.edit_of("", &changed));
    assert!(!told.contains("was changed"), "{told}");
}

#[test]
fn edit_of_anything_but_the_steps_is_refused_by_key_e9_14() {
    let mut sim = Sim::with_inputs(SHORT, json!({"repo": ".", "n": 1, "who": "me"}));
    sim.derive();
    for (key, old, new) in [
        ("title", "title: About", "title: Of"),
        ("goal", "See it", "See something else"),
        ("description", "For everybody", "For nobody"),
        ("inputs", "n: integer", "n: number"),
        ("criteria", "is looked at", "is looked into"),
        ("budget", "1m30s", "90m"),
        ("report", "Done {{", "Well done {{"),
        ("output", "output: {n:", "output: {m:"),
    ] {
        let told = sim.edit_of("", &SHORT.replacen(old, new, 1));
        let Err(EditError::Mistakes(errors)) = told else {
            panic!("{key}: {told:?}")
        };
        let told = errors.to_string();
        assert!(told.contains(&format!("`{key}` was changed")), "{told}");
        assert_eq!(errors.listed.len(), 1, "{told}");
    }
    let told = sim.edit_of("", &SHORT.replace("goal:", "gaol:"));
    assert!(format!("{told:?}").contains("a plan has no key `gaol`"), "{told:?}");
    sim.end_one();
    sim.derive();
    let part = |output: &str| {
        sim.edit_of(
            "sub",
            &format!("steps: [{{id: k, do: {{tool: echo}}}}]\noutput: {output}"),
        )
    };
    assert!(matches!(part("{a: 1}"), Ok(None)), "{:?}", part("{a: 1}"));
    assert!(matches!(part("{a: 2}"), Err(EditError::Mistakes(_))));
}

#[test]
fn edit_that_ticks_a_pending_step_is_refused_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    sim.end_one();
    sim.derive();
    let shown = sim.markdown("");
    assert!(shown.starts_with("- [x] a {#a}"), "{shown}");
    let told = sim.edit_of("", &shown.replace("- [ ] The third", "- [x] The third"));
    let Err(EditError::Mistakes(errors)) = told else {
        panic!("{told:?}")
    };
    assert_eq!(
        errors.listed[0].message,
        "`c` has not begun, and ticking it does not mark it as done"
    );
}

#[test]
fn group_members_removed_by_an_edit_do_not_run_e9_14() {
    let plan =
        "- {id: first, do: {tool: echo}}\n- {id: g, parallel: [{id: x, do: {tool: echo}}, {id: y, do: {tool: echo}}]}";
    let mut sim = Sim::new(plan);
    sim.concurrency = 1;
    sim.derive();
    let told = sim.edit_of("", "- [~] first {#first}\n- [ ] g {#g .parallel}\n");
    let Err(EditError::Mistakes(errors)) = told else {
        panic!("{told:?}")
    };
    assert!(errors.to_string().contains("the group has no steps"), "{errors}");
    sim.edit("", "- [~] first {#first}\n- [ ] g {#g .parallel}\n  - [ ] y {#y}\n");
    assert_eq!(sim.driven_on().called(), ["first", "g/y"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn shown_plan_handed_back_at_any_moment_changes_nothing_e9_14(
        plan in properties::plans(), seed: u64, ended in 0..12_usize,
    ) {
        let mut sim = Sim::new(&plan.to_string());
        sim.seed = seed;
        sim.derive();
        for _ in 0..ended {
            if !sim.end_one() { break; }
            sim.derive();
        }
        let plans: Vec<NodeId> = sim.run.tree().iter()
            .filter(|view| view.kind == NodeKind::Plan && view.result.is_none() && view.plan_version > 0)
            .filter(|view| view.state != NodeState::Cancelling)
            .map(|view| view.id).collect();
        for node in plans {
            let shown = sim.run.shown_plan(node).unwrap();
            let skipped = shown.steps.iter().any(|step| step.is_open && step.outcome.is_some());
            for text in [to_markdown(&shown.steps), plan::to_yaml_steps(&shown.steps)] {
                // Some editors put a mark in front.
                for text in [format!("\u{feff}{text}"), text] {
                    let edit = sim.run.edit_plan(node, &text, None, &Known::default(), "ada");
                    prop_assert!(skipped || matches!(edit, Ok(None)), "{:?}\n{}", edit, text);
                }
            }
        }
    }

    #[test]
    fn run_ends_with_all_results_after_adding_a_step_anytime_e9_14(
        plan in properties::plans(), seed: u64, ended in 0..12_usize, at: prop::sample::Index,
    ) {
        let mut sim = Sim::new(&plan.to_string());
        sim.seed = seed;
        sim.derive();
        for _ in 0..ended {
            if !sim.end_one() { break; }
            sim.derive();
        }
        let root = NodeId::root(sim.run.id());
        if sim.run.result().is_none() {
            let mut steps: Vec<Value> = sim.run.shown_plan(root).unwrap().steps.iter().map(|shown| json!(shown.step)).collect();
            steps.insert(at.index(steps.len() + 1), json!({"id": "guest", "do": {"tool": "echo", "args": {}}}));
            let edit = sim.run.edit_plan(root, &json!({"steps": steps}).to_string(), None, &Known::default(), "ada");
            sim.record(edit.unwrap().unwrap());
            let whole = sim.driven_on();
            prop_assert!(whole.run.tree().iter().all(|view| view.result.is_some()));
            prop_assert!(whole.run.node_at("guest").is_some());
        }
    }
}

#[test]
fn replan_repeating_the_plan_before_an_edit_is_a_loop_e9_8() {
    let screws = || {
        json!([
            {"id": "left", "title": "turn the left screw", "criteria": ["it holds"], "satisfies": ["c1"]},
            {"id": "right", "title": "turn the right screw", "criteria": ["it holds"]}
        ])
    };
    let mut sim = goal("mend the shelf", &json!({"criteria": ["it hangs"]}), move |ask| match (
        ask.purpose,
        models::task_named(ask).as_str(),
    ) {
        (Purpose::Decide, "mend the shelf") => models::plan_answer(screws()),
        (Purpose::Decide, _) => execute("finish", json!({"status": "failed", "notes": "rust"})),
        (Purpose::Replan, _) => {
            models::text_answer(&json!({"root_cause": "rust", "changes": "none", "steps": screws()}).to_string())
        }
        _ => models::text_answer("{\"notes\": \"it fell\"}"),
    });
    sim.concurrency = 1;
    while !sim.journal.iter().any(|(_, event)| event.name() == "planned") {
        sim.derive();
        sim.end_one();
        sim.derive();
    }
    let text = sim.markdown("") + "- [ ] take a hammer {#hammer}\n";
    sim.edit("", &text);
    let sim = sim.driven_on();
    assert_eq!(sim.status("hammer"), Outcome::Failed);
    let plans = sim.journal.iter().filter(|(_, event)| event.name() == "planned");
    assert_eq!(
        (plans.count(), models::root(&sim).stop_reason),
        (1, Some(StopReason::Loop))
    );
}

/// A step that is added after all others.
const LAST: &str = "- [ ] Last {#z}\n  ```yaml\n  do: {tool: echo}\n  ```\n";

#[test]
fn edit_around_a_group_keeps_its_budgeted_concurrency_e9_10() {
    let member = |n: u32| json!({"id": format!("m{n}"), "title": format!("look at room {n}")});
    let members: Vec<Value> = (1..=6).map(member).collect();
    let extra = json!({"budget": {"tokens": 9_000}, "steps": [{"id": "g", "parallel": members}]});
    let mut sim = goal("survey the house", &extra, |ask| match ask.purpose {
        Purpose::Decide => execute("finish", json!({"notes": "seen"})),
        _ => finish("seen"),
    });
    sim.concurrency = 6;
    sim.derive();
    assert_eq!(sim.asking.len(), 2, "there are tokens for two at a time");
    sim.edit("", &(sim.markdown("") + LAST));
    for _ in 0..4 {
        sim.derive();
        assert_eq!(sim.asking.len(), 2);
        assert!(sim.end_one());
    }
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Ok, "{}", models::root(&sim).notes);
    assert_eq!(sim.called(), ["z"]);
    assert!(sim.run.purse().unwrap().held.is_nothing());
}

#[test]
fn hard_failure_in_a_group_holds_members_after_an_edit_e9_5() {
    let mut sim = Sim::new(
        "steps:
          - id: g
            parallel:
              - {id: bad, do: {tool: deny}}
              - {id: m1, do: {tool: echo}}
              - {id: m2, do: {tool: echo}}",
    );
    sim.concurrency = 2;
    sim.derive();
    let bad = sim.under_way.remove(0);
    let event = sim.run.conclude(bad.node, answer(&bad), Duration::ZERO, sim.now);
    sim.record(event);
    // Nobody has recorded yet that the third does not begin.
    sim.edit("", &(sim.markdown("") + LAST));
    let sim = sim.driven_on();
    assert_eq!(sim.called(), ["g/bad", "g/m1"]);
    assert_eq!(
        [sim.status("g/m1"), sim.status("g/m2")],
        [Outcome::Ok, Outcome::Skipped]
    );
}

#[test]
fn edit_around_a_failed_group_does_not_begin_its_members_e9_14() {
    let mut sim = Sim::new(
        "budget: {tool_calls: 2}
steps:
  - {id: g, parallel: [{id: a, do: {tool: echo}}, {id: b, do: {tool: echo}}, {id: c, do: {tool: echo}}]}
  - {id: beside, needs: [], do: {tool: echo}}",
    );
    while sim.run.node_at("g").is_none_or(|group| group.result.is_none()) {
        let action = sim.run.due(sim.now, 1).remove(0);
        sim.take(action);
    }
    assert_eq!(
        sim.status("g"),
        Outcome::Failed,
        "there are too few calls for all of it"
    );
    sim.edit("", &(sim.markdown("") + LAST));
    let sim = sim.driven_on();
    assert!(
        sim.called().iter().all(|path| !path.starts_with("g/")),
        "{:?}",
        sim.called()
    );
    assert_eq!(sim.status("g/c"), Outcome::Skipped);
}

#[test]
fn edit_before_anything_began_is_summarized_in_words_e9_14() {
    let mut sim = Sim::new(THREE);
    let root = NodeId::root(sim.run.id());
    sim.record(Event::Expanded {
        node: root,
        items: Vec::new(),
        set_aside: None,
        limits: None,
    });
    sim.edit(
        "",
        "- [ ] Only this {#x}\n  ```yaml\n  do: {tool: echo, args: {}}\n  ```\n",
    );
    let page = sim
        .pages
        .read(crate::projection::iteration_summary_page(sim.run.id(), 1));
    assert!(
        page.contains("\n## Iteration 1: partial\n\n3 steps: 3 unfinished.\n\nThe plan was changed.\n")
            || page.contains("\n\nNone of its steps was carried out.\n\nThe plan was changed.\n"),
        "{page}"
    );
}

#[test]
fn step_that_takes_the_place_of_a_paused_one_is_paused_e9_14() {
    let mut sim = Sim::new(THREE);
    sim.concurrency = 1;
    sim.derive();
    let b = sim.id("b");
    sim.record(Event::Paused {
        node: Some(b),
        by: "ada".to_owned(),
    });
    sim.edit("", &sim.markdown("").replace("n: 2", "n: 7"));
    assert_ne!(sim.id("b"), b);
    while sim.end_one() {
        sim.derive();
    }
    assert!(!sim.called().contains(&"b"), "{:?}", sim.calls);
    let b = sim.id("b");
    assert!(sim.run.node(b).unwrap().paused);
    sim.record(Event::Continued {
        node: Some(b),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.status("b"), Outcome::Ok);
}
