//! What models say that is meant well, and what they are told about it (E9.2, E9.6, E9.7, E9.8, E9.13).

use super::models::*;
use super::*;
use crate::talk::Purpose;

fn finish_ok(notes: &str, evidence: &Value) -> ModelAnswer {
    calls_answer(&[("finish", json!({"status": "ok", "notes": notes, "evidence": evidence}))])
}

fn judged(sim: &Sim) -> String {
    let ask = sim.asks.iter().find(|ask| ask.purpose == Purpose::Judge).unwrap();
    ask.messages[1].text.clone()
}

/// A house whose paint fails after walls and roof, which are done at the same time, and a door. The model that plans
/// anew first names a step that there is not.
fn house_with_bad_paint(extra: &Value) -> Sim {
    goal("build a house", extra, |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "build a house") => plan_answer(json!([
                [
                    {"id": "walls", "title": "raise walls", "criteria": ["they stand"]},
                    {"id": "roof", "title": "lay tiles", "criteria": ["it holds"]}
                ],
                {"id": "door", "title": "hang a door", "criteria": ["it opens"]},
                {"id": "paint", "title": "mix paint", "criteria": ["it is blue"]}
            ])),
            (Purpose::Decide, "mix paint") => execute("finish", json!({"status": "failed", "notes": "no pigment"})),
            (Purpose::Decide, task) => execute(
                "finish",
                json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => {
                let was_told = ask
                    .messages
                    .iter()
                    .any(|message| message.text.contains("there is no step"));
                let needs = if was_told { "walls" } else { "roll-up-1" };
                text_answer(
                    &json!({"root_cause": "no pigment", "changes": "chalk", "steps": [
                        {"id": "say", "do": {"tool": "echo", "args": {"text": "{{ results.roof.notes }}"}}},
                        {"id": "chalk", "title": "spread chalk", "needs": [needs], "criteria": ["it is white"]}
                    ]})
                    .to_string(),
                )
            }
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on()
}

#[test]
fn new_plan_may_name_a_member_of_a_kept_group_e9_8() {
    let sim = house_with_bad_paint(&json!({}));
    assert_eq!(sim.status("chalk"), Outcome::Ok);
    let begun = sim.asks.iter().filter(|ask| task_named(ask) == "raise walls").count();
    assert_eq!(begun, 1, "it is kept");
    let said: Vec<&Value> = sim
        .calls
        .iter()
        .filter(|(path, _)| path == "say")
        .map(|(_, args)| args)
        .collect();
    assert_eq!(said, [&json!({"text": "lay tiles: done"})]);
}

#[test]
fn names_of_the_steps_are_told_where_roll_ups_stand_for_their_results_e9_8() {
    let read = |extra: &Value| {
        let sim = house_with_bad_paint(extra);
        let replan = sim.asks.iter().position(|ask| ask.purpose == Purpose::Replan).unwrap();
        prompt_text(&sim, replan)
    };
    let steps = "# Steps of the plan, by the names for needs and drop\n\
                 - group-1 (ok)\n- walls (ok)\n- roof (ok)\n- door (ok)\n- paint (failed)\n";
    let combined = read(&json!({"budget": {"fan_in": 2}}));
    assert!(combined.contains(steps), "{combined}");
    let whole = read(&json!({}));
    assert!(
        !whole.contains("# Steps of the plan"),
        "each result names its step: {whole}"
    );
}

#[test]
fn rejected_call_is_named_to_the_judge_e9_14() {
    let extra = json!({"criteria": [{"id": "c1", "text": "it is tidy"}]});
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let mut sim = goal_with("tidy up", &extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("write", json!({"text": "x"})),
        Purpose::Judge => text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": "met"}]}).to_string()),
        _ => finish("left as it was"),
    });
    sim.run.set_approval_policy(steering::ask_before_writes());
    sim.settled();
    sim.reject_call("call-1");
    let sim = sim.driven_on();
    let judged = judged(&sim);
    assert!(
        judged.contains("- write text=x -> failed ada rejected it: not today [tool_call "),
        "{judged}"
    );
}

#[test]
fn unknown_need_of_a_new_plan_is_answered_with_the_steps_that_are_kept_e9_8() {
    let sim = house_with_bad_paint(&json!({}));
    let mut replans = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Replan);
    let last = replans.next_back().unwrap().messages.last().unwrap();
    assert!(
        last.text
            .contains("there is no step `roll-up-1` (earlier steps are door, group-1, roof, walls)"),
        "{}",
        last.text
    );
}

#[test]
fn needs_narrow_which_kept_results_a_step_reads_e9_1() {
    let sim = house_with_bad_paint(&json!({}));
    let chalk = sim
        .asks
        .iter()
        .position(|ask| task_named(ask) == "spread chalk")
        .unwrap();
    let read = prompt_text(&sim, chalk);
    let (_, given) = read.split_once("# Earlier results\n").unwrap();
    let (given, _) = given.split_once("</data-").unwrap();
    assert!(given.contains("group-1/walls (ok)"), "{given}");
    assert!(!given.contains("group-1/roof") && !given.contains("door"), "{given}");
}

#[test]
fn evidence_is_understood_as_a_text_and_as_a_path_and_unknown_evidence_is_named_e9_7() {
    let mut sim = goal("look around", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "files"})),
        _ => {
            let answer = &ask.messages.last().unwrap().text;
            let id = answer.split_once("[tool_call ").unwrap().1.trim_end_matches(']');
            finish_ok(
                "looked",
                &json!([id, "a.rs:3", {"kind": "node", "id": "call-1"}, {"id": "https://example.org"}, "made-up.rs"]),
            )
        }
    });
    while sim.under_way.is_empty() {
        sim.derive();
        if sim.under_way.is_empty() {
            assert!(sim.end_one());
        }
    }
    let reference = |kind: &str, id: &str| crate::Evidence {
        kind: kind.to_owned(),
        id: id.to_owned(),
        hash: None,
        span: None,
    };
    let answer = CallOutcome::Answered(CallAnswer {
        evidence: vec![reference("file", "a.rs"), reference("url", "https://example.org")],
        ..CallAnswer::default()
    });
    let call = sim.under_way.remove(0).node;
    assert_eq!(sim.run.node(call).unwrap().path, "call-1");
    let ended = sim.run.conclude(call, answer, Duration::ZERO, sim.now);
    sim.record(ended);
    let sim = sim.driven_on();
    let result = root(&sim);
    let found: Vec<(&str, &str, Option<&str>)> = result
        .evidence
        .iter()
        .map(|evidence| (&*evidence.kind, &*evidence.id, evidence.span.as_deref()))
        .collect();
    let id = call.to_string();
    assert_eq!(
        found,
        [
            ("tool_call", &*id, None),
            ("file", "a.rs", Some("3")),
            ("url", "https://example.org", None)
        ]
    );
    assert_eq!(
        result.notes,
        "looked (1 reference to unknown evidence was left out: made-up.rs)"
    );
}

#[test]
fn judge_reads_long_notes_once_and_that_nothing_was_called_e9_6() {
    let extra = json!({"criteria": [{"id": "c1", "text": "it shines"}]});
    let notes = format!("begin {}", "shine ".repeat(900));
    let sim = goal_with("polish it", &extra, equipment(), move |ask| match ask.purpose {
        Purpose::Judge => text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": "met"}]}).to_string()),
        _ => execute("finish", json!({"status": "ok", "notes": notes})),
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    let judged = judged(&sim);
    assert!(judged.contains("- ok: the notes are the output\n"), "{judged}");
    assert_eq!(judged.matches("begin shine").count(), 1, "{judged}");
    assert!(judged.contains("\n- nothing: no tool was called\n"), "{judged}");
}

#[test]
fn judge_reads_the_place_of_a_reference_and_which_call_it_is_e9_6() {
    let extra = json!({"criteria": [{"id": "c1", "text": "it shines"}]});
    let sim = goal_with("polish it", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Judge => text_answer(&json!({"verdicts": [{"criterion": "c1", "finding": "met"}]}).to_string()),
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish_ok("done", &json!([{"kind": "tool_call", "id": "call-1", "span": "2-4"}])),
    })
    .driven_on();
    let judged = judged(&sim);
    let id = sim.run.node_at("call-1").unwrap().id;
    assert!(
        judged.contains(&format!("evidence: tool_call {id}:2-4 (call-1)\n")),
        "{judged}"
    );
    assert!(judged.contains("- echo text=x -> ok "), "{judged}");
    assert!(!judged.contains("null"), "{judged}");
}

#[test]
fn call_with_arguments_that_are_no_json_is_answered_with_what_is_wrong_e9_13() {
    let sim = goal("look around", &json!({}), |ask| {
        let was_told = ask
            .messages
            .iter()
            .any(|message| message.text.contains("not valid JSON"));
        match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ if was_told => finish("done"),
            _ => calls_answer(&[("echo", json!("{\"text\": y}"))]),
        }
    })
    .driven_on();
    assert_eq!(root(&sim).notes, "done");
    let answers: Vec<&str> = sim
        .asks
        .last()
        .unwrap()
        .messages
        .iter()
        .map(|message| &*message.text)
        .collect();
    assert!(
        answers
            .iter()
            .any(|text| text.starts_with("not called: the arguments of echo are not valid JSON: ")),
        "{answers:?}"
    );
}

#[test]
fn long_goal_is_told_once_e9_2() {
    let words = format!("Count {} in every file of the house", "the words ".repeat(20));
    let sim = goal(&words, &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => finish("counted"),
    })
    .driven_on();
    let told = prompt_text(&sim, 0);
    assert_eq!(told.matches("Count the words").count(), 1, "{told}");
    assert!(told.contains("in every file of the house"), "{told}");
}

#[test]
fn answer_of_a_call_beside_a_refused_finish_says_that_it_was_not_made_e9_13() {
    let sim = goal("look around", &json!({}), |ask| {
        let was_told = ask
            .messages
            .iter()
            .any(|message| message.text.contains("call it alone"));
        match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            _ if was_told => finish("done"),
            _ => calls_answer(&[
                ("echo", json!({"text": "y"})),
                ("finish", json!({"status": "ok", "notes": "done"})),
            ]),
        }
    })
    .driven_on();
    let told = &sim.asks.last().unwrap().messages;
    let count = told
        .iter()
        .filter(|message| message.text == "not called: the answer with this call was not accepted")
        .count();
    assert_eq!(count, 2, "{told:?}");
}
