//! What the checks of criteria see of a result and of what is around it (E9.6).

use super::judged::drive_to_question;
use super::models::*;
use super::*;

#[test]
fn result_nonempty_counts_the_notes_of_those_who_write_them_e9_6() {
    // A model says in its notes what it came to, and may have no output.
    let task = json!({"steps": [{"id": "a", "title": "look", "atomic": true, "criteria": [{"id": "c1", "check": "result_nonempty"}]}]});
    let sim = goal("look around", &task, |_| {
        calls_answer(&[("finish", json!({"status": "ok", "notes": "nothing was there"}))])
    })
    .driven_on();
    assert_eq!(sim.status("a"), Outcome::Ok);
    // A plan without an output has only the notes on its steps.
    let with = |output: &str| {
        let steps = "steps: [{id: a, do: {tool: echo, args: {value: ''}}}]";
        let plan = format!("criteria: [{{id: c1, check: result_nonempty}}]\n{steps}\n{output}");
        Sim::new(&plan).driven_on().run.result().unwrap().status
    };
    assert_eq!(with(""), Outcome::Ok);
    // With an output, that is the result.
    assert_eq!(with("output: '{{ results.a.output.value }}'"), Outcome::Failed);
}

#[test]
fn json_schema_check_fails_what_does_not_satisfy_it_e9_6() {
    let checked = |value: &str| {
        let schema = "{type: object, properties: {n: {type: integer}}}";
        let check = format!("criteria: [{{id: c1, check: {{json_schema: {{schema: {schema}}}}}}}]");
        let sim = Sim::new(&format!(
            "steps: [{{id: a, do: {{tool: echo, args: {{n: {value}}}}}, {check}}}]"
        ))
        .driven_on();
        sim.status("a")
    };
    assert_eq!((checked("1"), checked("one")), (Outcome::Ok, Outcome::Failed));
}

#[test]
fn checks_read_the_inputs_of_the_plan_and_the_item_of_their_step_e9_6() {
    let plan = "
inputs: {word: {type: string}, words: {type: list}}
steps:
  - {id: own, do: {tool: echo, args: {a: 1}}, criteria: [{id: c1, check: {regex: {pattern: '^hello$', of: inputs.word}}}]}
  - id: each
    for_each: inputs.words
    as: word
    do: {tool: echo, args: {a: 1}}
    criteria: [{id: c1, check: {regex: {pattern: '^hello$', of: word}}}]
";
    let sim = Sim::with_inputs(plan, json!({"word": "hello", "words": ["hello", "hello"]})).driven_on();
    assert_eq!((sim.status("own"), sim.status("each")), (Outcome::Ok, Outcome::Ok));
    let sim = Sim::with_inputs(plan, json!({"word": "bye", "words": ["hello", "bye"]})).driven_on();
    assert_eq!(sim.status("own"), Outcome::Failed);
}

#[test]
fn long_criterion_is_shown_as_it_was_written_e9_14() {
    let text = format!("{} for {{{{ result.output.name }}}}", "kind ".repeat(110).trim_end());
    let criterion = json!({"id": "c1", "text": text, "check": "human"});
    let steps = json!([{"id": "a", "do": {"tool": "echo", "args": {"name": "Ann"}}, "criteria": [criterion]}]);
    let mut equipment = equipment();
    equipment.has_person = true;
    let mut sim = goal_with("greet", &json!({"steps": steps}), equipment, |_| {
        unreachable!("a person is asked")
    });
    let (_, asked) = drive_to_question(&mut sim).unwrap();
    assert!(asked.contains("kind kind for Ann?"), "{asked}");
}

#[test]
fn only_checks_with_commands_are_recorded_before_they_begin_e9_6() {
    let check = |tool| CheckAction {
        node: NodeId::root(RunId::derived(&["test"])),
        calls: vec![CheckCall {
            criterion: "c1".to_owned(),
            tool,
            args: json!({}),
            exit: 0,
            allowed: true,
        }],
        writes: Vec::new(),
    };
    assert_eq!(check("list").begins(), None);
    let begun = check("shell").begins();
    assert!(
        matches!(&begun, Some(Event::Checked { begins: Some(begins), .. }) if begins.commands == 1),
        "{begun:?}"
    );
}
