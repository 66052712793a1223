//! What is made of models that are not careful, and of those that stop in the middle of their work (E9.10, E9.13, E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::*;
use super::*;
use crate::talk::{Purpose, Speaker};

fn attended() -> Equipment {
    Equipment {
        has_person: true,
        ..equipment()
    }
}

fn rejected(sim: &Sim) -> usize {
    let is_rejected = |(_, event): &&(Timestamp, Event)| matches!(event, Event::Rejected { .. });
    sim.journal.iter().filter(is_rejected).count()
}

#[test]
fn result_written_as_text_is_read_as_the_call_of_finish_e9_13() {
    let sim = |text: &'static str| {
        goal("count files", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => execute("echo", json!({})),
            _ => text_answer(text),
        })
        .driven_on()
    };
    for text in [
        r#"{"status": "ok", "notes": "There are two.", "output": ["a", "b"]}"#,
        "Here is it:\n```json\n{\"status\": \"done\", \"notes\": \"There are two.\", \"output\": [\"a\", \"b\"],}\n```",
    ] {
        let sim = sim(text);
        let result = root(&sim);
        assert_eq!(
            (result.status, result.notes.as_str()),
            (Outcome::Ok, "There are two."),
            "{text}"
        );
        assert_eq!(sim.run.value_of(&result.output), Some(Arc::new(json!(["a", "b"]))));
        let mended = |(_, event): &(Timestamp, Event)| matches!(event, Event::Replied { mended: true, .. });
        assert!(sim.journal.iter().any(mended) && rejected(&sim) == 0);
    }
    // What says nothing of a status is no result, but something that was said on the way.
    let on_the_way = sim(r#"{"notes": "I will list the files"}"#);
    assert_eq!(rejected(&on_the_way), 1);
    assert_eq!(root(&on_the_way).stop_reason, Some(StopReason::Unparseable));
}

/// A task in two parts, of which the first ends with one of `answers`: the first of them, and once that cannot be used,
/// the second.
fn looked_around(answers: [Value; 2]) -> Sim {
    goal("look around", &json!({}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "look around") => plan_answer(json!([
                {"id": "left", "title": "look to the left", "criteria": ["seen", "written down"]},
                {"id": "right", "title": "turn right", "criteria": ["x"]},
            ])),
            (Purpose::Decide, _) => execute("echo", json!({"text": "left"})),
            (Purpose::Work, "turn right") => finish("turned"),
            (Purpose::Work, _) => {
                let is_again = ask.messages.last().unwrap().text.contains("cannot be used");
                calls_answer(&[("finish", answers[usize::from(is_again)].clone())])
            }
            (Purpose::Aggregate, _) => text_answer(r#"{"status": "ok", "notes": "seen"}"#),
            (Purpose::Replan, _) => text_answer(r#"{"root_cause": "night", "changes": "none", "give_up": true}"#),
            (purpose, _) => panic!("{purpose:?} was asked"),
        }
    })
    .driven_on()
}

#[test]
fn who_says_that_a_step_is_done_is_asked_once_for_a_finding_on_each_criterion_e9_6() {
    let half = json!({"status": "ok", "notes": "a", "criteria": [{"id": "c1", "met": true}]});
    let sim = |second: Value| looked_around([half.clone(), second]);
    let both = json!([{"id": "c1", "met": true}, {"id": "c2", "met": true}]);
    let done = sim(json!({"status": "ok", "notes": "b", "criteria": both}));
    assert_eq!((root(&done).status, rejected(&done)), (Outcome::Ok, 1));
    let asked_again = done
        .asks
        .iter()
        .filter(|ask| ask.purpose == Purpose::Work)
        .nth(1)
        .unwrap();
    let told = &asked_again.messages.last().unwrap().text;
    assert!(told.contains("criteria says nothing of c2: "), "{told}");
    // Unfinished work need not say of everything that it is missing.
    let unfinished = sim(json!({"status": "partial", "notes": "it is dark"}));
    assert_eq!(rejected(&unfinished), 1);
}

#[test]
fn combined_result_may_be_a_call_of_finish_e9_13() {
    let sim = goal("look around", &json!({}), |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "look around") => plan_answer(json!([
                {"id": "left", "title": "look to the left", "criteria": ["x"]},
                {"id": "right", "title": "turn right", "criteria": ["x"]},
            ])),
            (Purpose::Aggregate, _) => {
                calls_answer(&[("finish", json!({"status": "ok", "notes": "nothing anywhere"}))])
            }
            _ => execute(
                "finish",
                json!({"notes": "seen", "criteria": [{"id": "c1", "met": true}]}),
            ),
        }
    })
    .driven_on();
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str(), rejected(&sim)),
        (Outcome::Ok, "nothing anywhere", 0)
    );
}

#[test]
fn finishing_twice_alike_counts_once_e9_13() {
    let sim = |second: Value| {
        let first = json!({"status": "ok", "notes": "all is well"});
        goal("look", &json!({}), move |ask| match (ask.purpose, ask.call) {
            (Purpose::Decide, _) => execute("echo", json!({})),
            (_, 2) => calls_answer(&[("finish", first.clone()), ("finish", second.clone())]),
            _ => finish("it is not"),
        })
        .driven_on()
    };
    let alike = sim(json!({"status": "ok", "notes": "all is well"}));
    assert_eq!((root(&alike).notes.as_str(), rejected(&alike)), ("all is well", 0));
    let other = sim(json!({"status": "failed", "notes": "it is not"}));
    assert_eq!((root(&other).notes.as_str(), rejected(&other)), ("it is not", 1));
    let told = prompt_text(&other, 2);
    assert!(
        told.contains("finish was called more than once with different results"),
        "{told}"
    );
}

#[test]
fn question_beside_other_calls_is_asked_after_them_e9_14() {
    let question = |text: &str| ("ask_person", json!({ "question": text }));
    let mut sim = goal_with("paint", &json!({}), attended(), move |ask| {
        match (ask.purpose, ask.call) {
            (Purpose::Decide, _) => execute("echo", json!({"n": 0})),
            (_, 2) => calls_answer(&[
                question("Which colour?"),
                ("echo", json!({"n": 1})),
                question("Which brush?"),
                ("echo", json!({"n": 2})),
            ]),
            _ => finish("painted"),
        }
    });
    let (node, asked) = drive_to_question(&mut sim).unwrap();
    assert_eq!(asked, "Which colour?");
    assert_eq!(sim.calls.len(), 3, "what was called beside it has ended");
    // Whoever takes the run over waits for the same answer.
    let mut sim = Sim::resumed_with(&sim.journal, attended(), Arc::clone(&sim.model));
    sim.settled();
    assert_eq!(sim.run.questions().len(), 1);
    answer_question(&mut sim, node, "green");
    let sim = sim.driven_on();
    assert_eq!(root(&sim).notes, "painted");
    let last = &sim.asks.last().unwrap().messages;
    let at = last
        .iter()
        .rposition(|message| message.speaker == Speaker::Assistant)
        .unwrap();
    let answers: Vec<&str> = last[at + 1..]
        .iter()
        .filter_map(|message| message.answers.as_deref())
        .collect();
    let calls: Vec<&str> = last[at].calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(answers.len(), calls.len(), "each call has one answer: {answers:?}");
    assert!(calls.iter().all(|call| answers.contains(call)), "{calls:?} {answers:?}");
    let told = prompt_text(&sim, sim.asks.len() - 1);
    assert!(told.contains("green\n(answered by ada)"), "{told}");
    assert!(told.contains("not asked: ask one question at a time"), "{told}");
}

#[test]
fn question_beside_refused_calls_is_no_round_without_progress_e9_14() {
    let mut sim = goal_with("paint", &json!({}), attended(), |ask| match (ask.purpose, ask.call) {
        (Purpose::Decide, _) => execute("echo", json!({"n": 0})),
        (_, call @ 2..=6) => calls_answer(&[
            ("no_such_tool", json!({})),
            (
                "ask_person",
                json!({"question": format!("Which colour, for the time {call}?")}),
            ),
        ]),
        _ => finish("painted"),
    });
    for _ in 2..=6 {
        let (node, _) = drive_to_question(&mut sim).unwrap();
        answer_question(&mut sim, node, "green");
    }
    assert_eq!(root(&sim.driven_on()).notes, "painted");
}

#[test]
fn unknown_tool_is_answered_with_every_tool_there_is_e9_13() {
    let told = |equipment: Equipment| {
        let sim = goal_with("paint", &json!({}), equipment, |ask| match ask.purpose {
            Purpose::Decide => execute("ask", json!({})),
            _ => finish("painted"),
        })
        .driven_on();
        prompt_text(&sim, 1)
    };
    assert!(told(attended()).contains(", ask_person, finish"));
    assert!(!told(equipment()).contains("ask_person"));
}

#[test]
fn question_beside_a_call_is_asked_before_the_limit_that_follows_e9_10() {
    let mut sim = goal_with(
        "paint",
        &json!({"budget": {"tool_calls": 2}}),
        attended(),
        |ask| match (ask.purpose, ask.call) {
            (Purpose::Decide, _) => execute("echo", json!({"n": 0})),
            (Purpose::Work, 2) => calls_answer(&[
                ("ask_person", json!({"question": "Which colour?"})),
                ("echo", json!({"n": 1})),
            ]),
            (Purpose::Work, _) => calls_answer(&[("echo", json!({"n": 2}))]),
            _ => text_answer("{\"notes\": \"half of it\"}"),
        },
    );
    let (node, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, node, "green");
    let sim = sim.driven_on();
    assert_eq!(
        (root(&sim).status, root(&sim).stop_reason),
        (Outcome::Partial, Some(StopReason::BudgetToolCalls))
    );
}

#[test]
fn model_that_fails_in_mid_work_leaves_its_calls_in_the_result_e9_10() {
    let sim = |kind: ModelFailureKind| {
        goal("paint", &json!({}), move |ask| match (ask.purpose, ask.call) {
            (Purpose::Decide, _) => execute("echo", json!({"n": 0})),
            (Purpose::Work, 2) => calls_answer(&[("echo", json!({"n": 1}))]),
            (Purpose::HandBack, _) => text_answer("{\"notes\": \"half of it\"}"),
            _ => ModelAnswer::Failed(ModelFailure::new(kind, "it said 400")),
        })
        .driven_on()
    };
    let failed = sim(ModelFailureKind::Invalid);
    let result = root(&failed);
    assert_eq!((result.status, result.evidence.len()), (Outcome::Failed, 2));
    assert_eq!(result.notes, "it said 400\ncall-1 (ok)\ncall-2 (ok)");
    let too_long = sim(ModelFailureKind::TooLong);
    let result = root(&too_long);
    assert_eq!(
        (result.status, result.stop_reason, result.notes.as_str()),
        (Outcome::Partial, Some(StopReason::WindowFull), "half of it")
    );
    // If there is no room for that either, what was done is listed.
    let never = goal("paint", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 0})),
        _ => ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::TooLong, "too much")),
    })
    .driven_on();
    let result = root(&never);
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::WindowFull))
    );
    assert!(
        result.notes.contains("too much") && result.notes.contains("call-1 (ok)"),
        "{}",
        result.notes
    );
}

/// A list with a task for a model for each of its items.
fn list(items: &Value, step: &Value) -> Value {
    json!({"steps": [{"id": "each", "for_each": items, "as": "it", "on_item": "continue", "step": step}]})
}

#[test]
fn task_whose_words_cannot_be_filled_in_fails_and_is_not_asked_e9_1() {
    let items = json!(["a", {"name": "b"}]);
    for (key, words) in [
        ("title", "paint {{ it.name }}"),
        ("description", "It is {{ it.name }}."),
    ] {
        let mut step = json!({"id": "do", "title": "paint it"});
        step[key] = json!(words);
        let sim = goal("paint", &list(&items, &step), |ask| match ask.purpose {
            Purpose::Decide => execute("finish", json!({"notes": "painted"})),
            _ => text_answer("{\"notes\": \"all\"}"),
        })
        .driven_on();
        let item = |at: usize| sim.run.node_at(&format!("each/do[{at}]")).unwrap().result.unwrap();
        assert_eq!(
            (item(0).status, item(0).stop_reason),
            (Outcome::Failed, Some(StopReason::InvalidInput)),
            "{key}"
        );
        assert!(
            item(0).notes.starts_with(&format!("its {key} cannot be filled in: ")),
            "{}",
            item(0).notes
        );
        assert_eq!(item(1).status, Outcome::Ok);
        assert_eq!(sim.asks.len(), 1, "{key}");
    }
}

#[test]
fn task_of_a_list_is_told_its_item_unless_its_words_name_it_e9_2() {
    let read = |step: Value| {
        let sim = goal("paint", &list(&json!([{"colour": "red"}]), &step), |_| {
            execute("finish", json!({"notes": "painted"}))
        })
        .driven_on();
        prompt_text(&sim, 0)
    };
    let told = read(json!({"title": "paint it"}));
    assert!(
        told.contains("# Task\npaint it\nItem: {\"colour\":\"red\"}\n"),
        "{told}"
    );
    let named = read(json!({"title": "paint", "description": "In {{ it.colour }}."}));
    assert!(!named.contains("Item: ") && named.contains("In red."), "{named}");
    // So is a member of a group that is done for each item, but no step of a plan of its own.
    let members = json!([{"id": "sand", "title": "sand it"}, {"id": "coat", "title": "paint {{ it.colour }}"}]);
    for group in ["sequence", "parallel"] {
        let of_member = read(json!({"id": "both", group: members}));
        assert!(
            of_member.contains("# Task\nsand it\nItem: {\"colour\":\"red\"}\n"),
            "{of_member}"
        );
    }
    let in_plan = read(json!({"id": "p", "title": "p", "plan": {"steps": [{"id": "sand", "title": "sand it"}]}}));
    assert!(!in_plan.contains("Item: "), "{in_plan}");
    let mut sim = goal_with(
        "paint",
        &list(&json!(["door"]), &json!({"title": "paint it", "executor": "human"})),
        attended(),
        |_| finish("never asked"),
    );
    let (_, asked) = drive_to_question(&mut sim).unwrap();
    assert!(
        asked.starts_with("Task for a person: paint it\nItem: door\n"),
        "{asked}"
    );
}

#[test]
fn long_title_is_whole_for_whoever_does_the_task_e9_1() {
    let question = format!("{} to the end", "why ".repeat(200));
    let sim = goal(
        "ask",
        &list(&json!([question]), &json!({"title": "Answer: {{ it }}"})),
        |_| execute("finish", json!({"notes": "because"})),
    )
    .driven_on();
    let told = prompt_text(&sim, 0);
    assert!(told.contains(&format!("# Task\nAnswer: {question}\n")), "{told}");
}

/// A goal with a plan of two steps, of which the second fails, and `replan` as the answer of who plans anew.
fn anew(replan: Value) -> Sim {
    goal("mend it", &json!({"criteria": ["it holds"]}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "mend it") => plan_answer(json!([
                {"id": "sum", "title": "count its parts", "criteria": ["x"], "satisfies": ["c1"]},
                {"id": "glue", "title": "glue all together", "criteria": ["x"]},
            ])),
            (Purpose::Decide, "glue all together") => execute("finish", json!({"status": "failed", "notes": "no"})),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "ok", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => text_answer(&replan.to_string()),
            (Purpose::Judge, _) => verdict_answer("unmet"),
            _ => text_answer("{\"status\": \"partial\", \"notes\": \"it is in parts\"}"),
        }
    })
    .driven_on()
}

#[test]
fn kept_step_that_a_replan_writes_again_is_kept_e9_8() {
    let again = json!([
        {"id": "sum", "title": "count its parts", "criteria": ["x"], "satisfies": ["c1"]},
        {"id": "nail", "title": "nail the boards", "criteria": ["x"], "satisfies": ["c1"]},
    ]);
    let sim = anew(json!({"root_cause": "dust", "changes": "nail", "steps": again}));
    let planned = sim.journal.iter().filter_map(|(_, event)| match event {
        Event::Planned { steps, kept, .. } => Some((steps.as_array().map_or(0, Vec::len), kept.len())),
        _ => None,
    });
    assert_eq!(planned.collect::<Vec<_>>()[..2], [(2, 0), (1, 1)]);
    assert_eq!((sim.status("sum"), sim.status("nail")), (Outcome::Ok, Outcome::Ok));
    // With other words it is another step.
    let other = json!([{"id": "sum", "title": "count them twice", "criteria": ["x"], "satisfies": ["c1"]}]);
    let sim = anew(json!({"root_cause": "dust", "changes": "nail", "steps": other}));
    let told = sim
        .asks
        .iter()
        .filter(|ask| ask.purpose == Purpose::Replan)
        .nth(1)
        .unwrap();
    let told = &told.messages.last().unwrap().text;
    assert!(told.contains("the id `sum` belongs to a step that is kept"), "{told}");
}

#[test]
fn reason_for_giving_up_is_in_the_result_e9_3() {
    let sim = anew(json!({"root_cause": "the wood is rotten", "give_up": true}));
    let notes = &root(&sim).notes;
    let said = "no new plan was made, because going on cannot help: the wood is rotten; it is in parts";
    assert!(notes.starts_with(said), "{notes}");
}

#[test]
fn request_in_place_of_a_lost_one_has_a_key_of_its_own_e9_9() {
    let model = |ask: &AskAction| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => text_answer(r#"{"notes": "nothing yet"}"#),
    };
    let mut purposes = Vec::new();
    for tokens in (3_000..20_000).step_by(500) {
        let budget = json!({"budget": {"tokens": tokens}});
        let mut first = goal_with("count files", &budget, equipment(), model);
        first.derive();
        let [lost] = first.asking.as_slice() else { continue };
        // The driver dies before there is an answer: what was set aside for it is spent.
        let sim = Sim::resumed_with(&first.journal, equipment(), Arc::new(model)).driven_on();
        let Some(next) = sim.asks.first() else { continue };
        assert_eq!(
            next.idempotency_key == lost.idempotency_key,
            next.purpose == lost.purpose,
            "{next:?}"
        );
        purposes.push((lost.purpose, next.purpose));
    }
    assert!(purposes.contains(&(Purpose::Decide, Purpose::Decide)), "{purposes:?}");
    assert!(purposes.contains(&(Purpose::Decide, Purpose::Work)), "{purposes:?}");
}

#[test]
fn what_an_answer_leaves_out_is_asked_for_once_and_with_all_other_mistakes_e9_6() {
    let bare = json!({"status": "ok", "notes": "a"});
    let twice = looked_around([bare.clone(), bare.clone()]);
    assert_eq!(rejected(&twice), 1, "it is asked once");
    assert_eq!(twice.status("left"), Outcome::Partial);
    let form = looked_around([json!({"status": "ok", "notes": "a", "evidence": "none"}), bare]);
    assert_eq!(rejected(&form), 1);
    let told = form.journal.iter().find_map(|(_, event)| match event {
        Event::Rejected { problems, .. } => Some(problems.join("; ")),
        _ => None,
    });
    let told = told.unwrap();
    assert!(
        told.contains("criteria says nothing of c1, c2") && told.contains("evidence"),
        "{told}"
    );
}
