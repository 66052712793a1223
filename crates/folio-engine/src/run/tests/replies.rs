//! How replies are read that have mistakes, contain more than was asked for, or are too long (E9.13), and what the
//! notes of a result say about them.

use std::cell::RefCell;
use std::rc::Rc;

use super::models::*;
use super::*;
use crate::argument::ArgKind;
use crate::plan::KnownTool;
use crate::result::{Finding, Output};
use crate::talk::{Purpose, Reply, Stop, Wanted};

pub(super) fn plan_in_four() -> String {
    let step = |id: &str| json!({"id": id, "title": format!("{id} of the fence"), "criteria": ["x"]});
    let steps: Vec<Value> = ["posts", "boards", "paint", "gate"].into_iter().map(step).collect();
    let ModelAnswer::Replied { reply, .. } = plan_answer(json!(steps)) else {
        unreachable!()
    };
    reply.text
}

pub(super) fn count(sim: &Sim, name: &str) -> usize {
    sim.journal.iter().filter(|(_, event)| event.name() == name).count()
}

pub(super) fn output_of(result: &crate::NodeResult) -> Value {
    match &result.output {
        Output::Inline(inline) => (*inline.value()).clone(),
        other @ Output::Blob { .. } => panic!("{other:?}"),
    }
}

pub(super) fn claimed(notes: &str) -> ModelAnswer {
    let args = json!({"notes": notes, "criteria": [{"id": "c1", "met": true}]});
    calls_answer(&[("finish", args)])
}

#[test]
fn invalid_result_is_asked_for_again_with_every_mistake_e9_13() {
    let wrong = json!({"notes": 5, "status": "great", "severity": "bad", "evidence": "none", "criteria": ["c1", {"zz": 1}], "output": 7});
    let always = wrong.clone();
    let sim = |again: Value| {
        let first = wrong.clone();
        goal("build the fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide => execute("finish", first.clone()),
            _ => calls_answer(&[("finish", again.clone())]),
        })
        .driven_on()
    };
    let right = sim(json!({"notes": "built", "status": null, "evidence": [], "criteria": null, "more": 1}));
    assert_eq!(
        (root(&right).status, root(&right).notes.as_str()),
        (Outcome::Ok, "built")
    );
    assert_eq!(count(&right, "rejected"), 1);
    let told = prompt_text(&right, 1);
    for problem in [
        "status is \"great\"; it must be",
        "notes is 5; it must be a string",
        "severity is \"bad\"; it must be",
        "evidence is \"none\"; it must be a list",
        "criteria[0] is \"c1\"; it must be an object",
        "criteria[1] is {\"zz\":1}; it must be an object",
    ] {
        assert!(told.contains(problem), "{problem}: {told}");
    }
    // Who cannot do it has a result all the same, which says so.
    let sim_always = sim(always);
    let result = root(&sim_always);
    assert_eq!(
        (
            result.status,
            result.stop_reason,
            output_of(result),
            count(&sim_always, "rejected")
        ),
        (Outcome::Partial, Some(StopReason::Unparseable), json!(7), 2)
    );
    assert!(result.notes.contains("not in the required form"), "{}", result.notes);
    // Notes are required, unless something is said beside the call.
    assert_eq!(count(&sim(json!({"output": 1})), "rejected"), 2);
}

#[test]
fn step_may_report_criteria_in_the_form_of_judge_verdicts_e9_13() {
    let sim = |said_of_it: Value| {
        goal("build the fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide if task_named(ask) == "build the fence" => text_answer(&plan_in_four()),
            Purpose::Decide => execute("finish", json!({"notes": "done", "criteria": [said_of_it]})),
            Purpose::Work => calls_answer(&[("finish", json!({"notes": "done", "criteria": [said_of_it]}))]),
            _ => text_answer(r#"{"notes": "all of it"}"#),
        })
        .driven_on()
    };
    let met = sim(json!({"criterion": "c1", "finding": "met"}));
    assert_eq!((root(&met).status, count(&met, "rejected")), (Outcome::Ok, 0));
    let unmet = sim(json!({"criterion": "c1", "finding": "unmet", "gap": "a nail"}));
    let step = unmet.run.node_at("posts").unwrap();
    assert_eq!(
        step.result.unwrap().verdicts[0].finding,
        Finding::Unmet("a nail".to_owned())
    );
}

#[test]
fn draft_before_the_final_answer_is_ignored_e9_13() {
    let draft = r#"First draft: {"status": "failed", "notes": "not yet"}, with {"steps": 4}."#;
    let model = move |ask: &AskAction| match ask.purpose {
        Purpose::Decide if task_named(ask) == "build the fence" => text_answer(&plan_in_four()),
        Purpose::Decide => execute("echo", json!({})),
        Purpose::Work => claimed("done"),
        _ => text_answer(&format!(
            "{draft} Final answer:\n```json\n{{\"status\": \"ok\", \"notes\": \"it stands\"}}\n```\nAs {{\"notes\": 1}} says."
        )),
    };
    let sim = goal("build the fence", &json!({}), model).driven_on();
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str()),
        (Outcome::Ok, "it stands")
    );
}

#[test]
fn overlong_notes_are_cut_visibly_or_moved_to_output_e9_13() {
    let finished = |output: Value| {
        let sim = goal("say much", &json!({}), move |_| {
            execute("finish", json!({"notes": "long ".repeat(2_000), "output": output}))
        })
        .driven_on();
        (root(&sim).notes.clone(), output_of(root(&sim)))
    };
    let (notes, output) = finished(Value::Null);
    assert_eq!(output, json!("long ".repeat(2_000).trim()));
    assert!(
        notes.ends_with("[the first part of 9999 characters; the output has the full text]"),
        "{notes}"
    );
    let (notes, output) = finished(json!({"words": 2_000}));
    assert_eq!(output, json!({"words": 2_000}));
    let (_, rest) = notes.rsplit_once('\n').unwrap();
    let entry = rest.strip_prefix("[6000 of 9999 characters left out; use result_read node=");
    assert!(entry.is_some(), "{notes}");
    assert!(notes.chars().count() < 4_200);
}

#[test]
fn calls_made_beside_finish_are_named_as_not_executed_e9_13() {
    let model = |stop: Stop| {
        move |ask: &AskAction| {
            let call = |id: &str, tool: &str, args: Value| Wanted {
                id: id.to_owned(),
                tool: tool.to_owned(),
                args,
            };
            let mut calls = vec![call("w0", "finish", json!({"status": "ok", "notes": "written"}))];
            if stop == Stop::Done {
                calls.push(call("w1", "write", json!({"text": "the report"})));
            }
            match ask.purpose {
                Purpose::Decide => execute("echo", json!({})),
                _ => reply_answer(Reply {
                    text: String::new(),
                    calls,
                    stop,
                    permissions: Vec::new(),
                }),
            }
        }
    };
    for (stop, named) in [
        (Stop::Done, "write text=the report"),
        (Stop::Length, "one that was cut off"),
    ] {
        let sim = goal("write a report", &json!({}), model(stop)).driven_on();
        assert_eq!(count(&sim, "rejected"), 2);
        let result = root(&sim);
        assert_eq!(
            (result.status, result.stop_reason),
            (Outcome::Partial, Some(StopReason::Unparseable))
        );
        let remark = format!("written (calls made together with finish were not executed: {named})");
        assert_eq!(result.notes, remark);
    }
}

#[test]
fn result_notes_say_which_model_request_failed_and_why_e9_13() {
    let away = || ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Unauthorised, "the key is refused"));
    let refusing = || {
        reply_answer(Reply {
            text: "I would rather not".to_owned(),
            calls: Vec::new(),
            stop: Stop::Refusal,
            permissions: Vec::new(),
        })
    };
    let silent = reply_answer(Reply {
        text: " \n".to_owned(),
        calls: Vec::new(),
        stop: Stop::Refusal,
        permissions: Vec::new(),
    });
    let (away, refusing, unreadable) = (away(), refusing(), text_answer("so so"));
    for (whom, answer, reason, words) in [
        (
            Purpose::Aggregate,
            &away,
            StopReason::Auth,
            "the results were not combined: the model did not answer: the key is refused; 2 ok",
        ),
        (
            Purpose::Aggregate,
            &refusing,
            StopReason::Refused,
            "the results were not combined: the model refused: I would rather not; 2 ok",
        ),
        (
            Purpose::Aggregate,
            &silent,
            StopReason::Refused,
            "the results were not combined: the model refused; 2 ok",
        ),
        (
            Purpose::Aggregate,
            &unreadable,
            StopReason::Unparseable,
            "the results were not combined: the model's answer could not be read: there is no JSON object in the answer; 2 ok",
        ),
        (
            Purpose::Judge,
            &away,
            StopReason::Auth,
            "all of it; c1 (it shines) could not be checked: the judge did not answer: the key is refused",
        ),
        (
            Purpose::Judge,
            &unreadable,
            StopReason::Unparseable,
            "all of it; c1 (it shines) could not be checked: the judge's answer could not be read",
        ),
    ] {
        let answer = answer.clone();
        let sim = goal(
            "paint the fence",
            &json!({"criteria": ["it shines"]}),
            move |ask| match (ask.purpose, task_named(ask).as_str()) {
                (purpose, _) if purpose == whom => answer.clone(),
                (Purpose::Decide, "paint the fence") => plan_answer(json!([
                    {"id": "left", "title": "left half", "criteria": ["x"], "satisfies": ["c1"]},
                    {"id": "right", "title": "right half", "criteria": ["x"]}
                ])),
                (Purpose::Decide, task) => execute(
                    "finish",
                    json!({"notes": format!("{task}: done"), "criteria": [{"id": "c1", "met": true}]}),
                ),
                (Purpose::Judge, _) => verdict_answer("met"),
                _ => text_answer("{\"notes\": \"all of it\"}"),
            },
        )
        .driven_on();
        let result = root(&sim);
        assert!(result.notes.starts_with(words), "{whom:?}: {}", result.notes);
        assert_eq!((result.status, result.stop_reason), (Outcome::Partial, Some(reason)));
    }
}

#[test]
fn result_notes_say_why_no_new_plan_was_made_e9_13() {
    let sim = goal("paint the fence", &json!({}), |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "paint the fence") => plan_answer(json!([
                {"id": "left", "title": "left half", "criteria": ["x"]},
                {"id": "right", "title": "right half", "criteria": ["x"]}
            ])),
            (Purpose::Decide, "left half") => execute("finish", json!({"status": "failed", "notes": "no paint"})),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => ModelAnswer::Failed(ModelFailure::new(ModelFailureKind::Invalid, "no such model")),
            _ => text_answer("{\"notes\": \"half of it\"}"),
        }
    })
    .driven_on();
    let result = root(&sim);
    let words =
        "no new plan was made: the model did not answer: no such model; half of it (not all of its steps are ok: ";
    assert!(result.notes.starts_with(words), "{}", result.notes);
    assert_eq!(result.stop_reason, Some(StopReason::InvalidInput));
}

#[test]
fn unmet_criterion_without_a_stated_gap_has_the_notes_as_its_gap_e9_6() {
    let told = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&told);
    let sim = goal("paint the fence", &json!({}), move |ask| {
        let last = ask
            .messages
            .last()
            .map(|message| message.text.clone())
            .unwrap_or_default();
        seen.borrow_mut().push((ask.purpose, last));
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "paint the fence") => plan_answer(json!([
                {"id": "left", "title": "left half", "criteria": ["it shines"]},
                {"id": "right", "title": "right half", "criteria": ["x"]}
            ])),
            (Purpose::Decide | Purpose::Work, "left half") => {
                let args = json!({"notes": "dull: the paint is old", "criteria": [{"id": "c1", "met": false}]});
                if ask.purpose == Purpose::Decide {
                    execute("finish", args)
                } else {
                    calls_answer(&[("finish", args)])
                }
            }
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Replan, _) => text_answer("{\"root_cause\": \"bad paint\", \"give_up\": true}"),
            _ => text_answer("{\"notes\": \"half of it\"}"),
        }
    })
    .driven_on();
    let left = sim.run.node_at("left").unwrap().result.unwrap();
    assert_eq!(
        left.notes, "dull: the paint is old; c1 (it shines) is not met",
        "nothing is said twice"
    );
    let finding = &left.verdicts[0].finding;
    assert_eq!(*finding, Finding::Unmet("dull: the paint is old".to_owned()));
    let sent_back = sim.journal.iter().find_map(|(_, event)| match event {
        Event::SentBack { gaps, .. } => Some(gaps.clone()),
        _ => None,
    });
    let gap = "c1 (it shines) is not met: dull: the paint is old";
    assert_eq!(sent_back, Some(vec![gap.to_owned()]), "whoever watches is told this");
    let told = told.borrow();
    assert!(
        told.iter()
            .any(|(purpose, text)| *purpose == Purpose::Work && text.contains(gap)),
        "so is the second attempt: {told:?}"
    );
    let is_told_to_planner =
        |(purpose, text): &(Purpose, String)| *purpose == Purpose::Replan && text.contains("dull: the paint is old");
    assert!(told.iter().any(is_told_to_planner), "and the planner");
}

#[test]
fn notes_say_why_a_claimed_success_does_not_count_e9_4() {
    let sim = goal("paint the fence", &json!({}), |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "paint the fence") => plan_answer(json!([
                {"id": "left", "title": "left half", "criteria": ["x"]},
                {"id": "right", "title": "right half", "criteria": ["x"]}
            ])),
            (Purpose::Decide, "left half") => execute("fail", json!({})),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Work, _) => claimed("all is well"),
            (Purpose::Replan, _) => text_answer("{\"root_cause\": \"bad paint\", \"give_up\": true}"),
            _ => text_answer("{\"status\": \"ok\", \"notes\": \"all is painted\"}"),
        }
    })
    .driven_on();
    let left = sim.run.node_at("left").unwrap().result.unwrap();
    assert_eq!(
        (left.status, left.notes.as_str()),
        (Outcome::Partial, "all is well (none of its tool calls succeeded)")
    );
    assert_eq!(
        (root(&sim).status, root(&sim).notes.as_str()),
        (
            Outcome::Partial,
            "all is painted (not all of its steps are ok: 1 ok, 1 partial; left: all is well (none of its tool calls succeeded))"
        )
    );
}

#[test]
fn three_rounds_of_invalid_tool_arguments_are_a_loop_e9_13() {
    let mut equipment = equipment();
    let echo = KnownTool {
        required: vec!["text".to_owned()],
        kinds: BTreeMap::from([("text".to_owned(), ArgKind::Text)]),
        ..KnownTool::default()
    };
    equipment.known.tools = Some(BTreeMap::from([("echo".to_owned(), echo)]));
    let model = |good: u32| {
        move |ask: &AskAction| match ask.purpose {
            Purpose::Decide => execute("echo", json!({"txt": "a"})),
            Purpose::Work if ask.call == good => calls_answer(&[("echo", json!({"text": "a"}))]),
            Purpose::Work => calls_answer(&[("echo", json!({"text": [ask.call]}))]),
            _ => text_answer("{\"notes\": \"nothing\"}"),
        }
    };
    let never = goal_with("say hello", &json!({}), equipment.clone(), model(0)).driven_on();
    let told = prompt_text(&never, 1);
    assert!(
        told.contains(
            "not called: invalid arguments for echo: `text` is missing; there is no argument `txt`: did you mean `text`?"
        ),
        "{told}"
    );
    assert_eq!(
        (root(&never).status, root(&never).stop_reason),
        (Outcome::Partial, Some(StopReason::Loop))
    );
    assert_eq!(
        (never.calls.len(), purposes(&never).len()),
        (0, 4),
        "a decision, two more, and the end"
    );
    assert_eq!(never.run.purse().unwrap().spent.tool_calls, 0);
    // In a row: one that is made in between begins the count anew.
    let once = goal_with("say hello", &json!({}), equipment, model(3)).driven_on();
    assert_eq!((once.calls.len(), purposes(&once).len()), (1, 7));
}

#[test]
fn repaired_reply_is_marked_and_kept_verbatim_e9_13() {
    let whole = r#"{"notes": "it stands"}"#;
    let open = whole.strip_suffix('}').unwrap();
    let fenced = format!("Here it is:\n```json\n{whole}\n```");
    for (answer, is_mended) in [
        (whole, false),
        (" {\"notes\": \"it stands\"}\n", false),
        (&*fenced, true),
        (open, true),
        (r#"{"notes": "it stands",}"#, true),
        // What is not read is not mended, either.
        ("it stands", false),
    ] {
        let text = answer.to_owned();
        let sim = goal("build the fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide if task_named(ask) == "build the fence" => text_answer(&plan_in_four()),
            Purpose::Decide => execute("echo", json!({})),
            Purpose::Work => claimed("done"),
            _ => text_answer(&text),
        })
        .driven_on();
        let told: Vec<(bool, &str, String)> = sim
            .journal
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Replied { mended, reply, .. } => Some((*mended, &*reply.text, event.in_words())),
                _ => None,
            })
            .collect();
        let last = told.iter().find(|(_, text, _)| *text == answer).unwrap();
        assert_eq!(
            (last.0, last.2.contains("; the answer was repaired")),
            (is_mended, is_mended),
            "{answer}"
        );
        let others = told.iter().filter(|(_, text, _)| *text != answer);
        assert!(others.clone().all(|(mended, ..)| !mended), "{told:?}");
    }
}

#[test]
fn task_whose_plan_repeats_an_enclosing_plan_is_done_directly_e9_3() {
    let step = |id: &str, title: &str| json!({"id": id, "title": title, "criteria": ["done"], "satisfies": ["c1"]});
    let first = json!([step("a", "wash windows"), step("b", "sweep floors")]);
    let second = json!([step("c", "fetch ladders"), step("d", "polish glass")]);
    let sim = goal("clean a house", &json!({"criteria": ["clean"]}), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "clean a house" | "fetch ladders") => plan_answer(first.clone()),
            (Purpose::Decide, "wash windows") => plan_answer(second.clone()),
            (Purpose::Decide | Purpose::Work, task) => finish(task),
            (Purpose::Judge, _) => verdict_answer("met"),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    })
    .driven_on();
    let ladders = sim.run.node_at("a/c").unwrap();
    assert_eq!(sim.run.children(ladders.id).len(), 0);
    let by = sim.journal.iter().find_map(|(_, event)| match event {
        Event::Decided { node, by, .. } if *node == ladders.id => Some(by.as_str()),
        _ => None,
    });
    assert_eq!(by, Some("plan_again"));
}

#[test]
fn answer_without_its_main_key_is_sent_back_with_every_mistake_e9_13() {
    let problems_of = |sim: &Sim| {
        let rejected = sim.journal.iter().find_map(|(_, event)| match event {
            Event::Rejected { problems, .. } => Some(problems.clone()),
            _ => None,
        });
        rejected.expect("an answer was sent back")
    };
    let two_steps = || {
        json!([
            {"id": "open", "title": "open the case", "criteria": ["it is open"]},
            {"id": "oil", "title": "oil its wheels", "criteria": ["it ticks"]},
        ])
    };
    let answering = |purpose: Purpose, answer: &'static str| {
        goal("mend the clock", &json!({}), move |ask| match ask.purpose {
            wanted if wanted == purpose => text_answer(answer),
            Purpose::Decide if task_named(ask) == "mend the clock" => plan_answer(two_steps()),
            Purpose::Decide if task_named(ask) == "oil its wheels" && purpose == Purpose::Replan => {
                execute("finish", json!({"status": "failed", "notes": "no oil"}))
            }
            Purpose::Decide => execute(
                "finish",
                json!({"notes": "so", "criteria": [{"id": "c1", "met": true}]}),
            ),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        })
        .driven_on()
    };
    let sim = answering(Purpose::Replan, r#"{"steps": "none", "drop": ["oil"]}"#);
    insta::assert_debug_snapshot!(problems_of(&sim), @r#"
    [
        "`root_cause` is empty: state why the plan did not reach its goal",
        "`changes` is empty: state what you change",
        "drop names oil, which is not a step that ended ok; those are open",
        "steps must be a list with at least one step",
    ]
    "#);
    let sim = answering(Purpose::Decide, r#"{"decision": "maybe", "steps": "none"}"#);
    insta::assert_debug_snapshot!(problems_of(&sim), @r#"
    [
        "decision must be execute or plan",
        "steps must be a list with at least one step",
    ]
    "#);
    let sim = answering(Purpose::Aggregate, r#"{"status": "great", "evidence": 5}"#);
    insta::assert_debug_snapshot!(problems_of(&sim), @r#"
    [
        "`notes` is missing",
        "status is \"great\"; it must be \"ok\", \"partial\" or \"failed\"",
        "evidence is 5; it must be a list of objects",
    ]
    "#);
    let sim = answering(
        Purpose::Aggregate,
        r#"{"status": "great", "evidence": 5, "notes": "all"}"#,
    );
    insta::assert_debug_snapshot!(problems_of(&sim), @r#"
    [
        "status is \"great\"; it must be \"ok\", \"partial\" or \"failed\"",
        "evidence is 5; it must be a list of objects",
    ]
    "#);
}
