//! What happens to work that was begun but not seen to its end, and to results that no model summarised (E9.4, E9.12,
//! E9.13).

use super::models::{calls_answer, equipment, execute, goal_with, plan_answer, text_answer};
use super::*;
use crate::event::Question;
use crate::result::Finding;
use crate::run::RequiredApproval;
use crate::talk::Purpose;

/// A run whose only call had begun when its driver died, with or without a person to approve.
fn cut_off(has_person: bool) -> (Sim, CallAction) {
    let mut sim =
        Sim::new("steps: [{id: mail, do: {tool: echo, args: {to: ada}}}, {id: next, do: {tool: echo, args: {}}}]");
    sim.derive();
    let mut sim = Sim::resumed(&sim.journal);
    if has_person {
        sim.run
            .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    }
    let due = sim.run.due(sim.now, 4);
    let lost = due.into_iter().find_map(|action| match action {
        Action::Call(call) if call.again => Some(*call),
        _ => None,
    });
    (sim, lost.expect("it is owed again"))
}

#[test]
fn interrupted_call_is_made_again_after_approval_e9_12() {
    let (mut sim, call) = cut_off(true);
    sim.record(sim.run.call_lost(&call));
    let waiting = sim.run.pending_approvals();
    let [(node, PendingApproval::Call(approval))] = waiting.as_slice() else {
        panic!("{waiting:?}");
    };
    assert!(approval.again && approval.in_words().starts_with("retry?"));
    assert!(
        approval.in_words().ends_with(r#"echo {"to":"ada"}"#),
        "{}",
        approval.in_words()
    );
    let node = *node;
    sim.derive();
    assert!(sim.under_way.is_empty(), "what reads it waits as well");
    sim.record(Event::CallApproved {
        node,
        always: None,
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(sim.run.node(node).unwrap().result.unwrap().attempts, 1);
}

#[test]
fn rejecting_a_repeated_call_ends_it_as_outcome_unknown_e9_12() {
    let (mut sim, call) = cut_off(true);
    sim.record(sim.run.call_lost(&call));
    sim.record(Event::CallRejected {
        node: call.node,
        reason: "it was sent".to_owned(),
        by: "ada".to_owned(),
    });
    let sim = sim.driven_on();
    let result = sim.run.node(call.node).unwrap().result.unwrap();
    assert_eq!(
        (result.status, result.severity, result.stop_reason),
        (Outcome::Failed, Some(Severity::Hard), Some(StopReason::OutcomeUnknown))
    );
    assert!(
        result.notes.ends_with("it was not retried, as ada said: it was sent"),
        "{}",
        result.notes
    );
}

#[test]
fn interrupted_call_without_a_person_ends_as_outcome_unknown_e9_12() {
    let (sim, call) = cut_off(false);
    let Event::Finished { result, .. } = sim.run.call_lost(&call) else {
        panic!("there is nobody to ask");
    };
    assert_eq!(result.stop_reason, Some(StopReason::OutcomeUnknown));
    // Somebody was asked, and then nobody is there any more.
    let (mut sim, call) = cut_off(true);
    sim.record(sim.run.call_lost(&call));
    let sim = Sim::resumed(&sim.journal).driven_on();
    let result = sim.run.node(call.node).unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::OutcomeUnknown));
}

#[test]
fn approval_of_a_tool_does_not_cover_repeated_calls_e9_12() {
    let (mut sim, call) = cut_off(true);
    sim.record(sim.run.call_lost(&call));
    let lost = sim.run.pending_approvals().len();
    // Somebody allows the same call elsewhere for good.
    let node = sim.run.node_at("next").unwrap().id;
    sim.record(Event::ApprovalAsked {
        node,
        approval: Box::new(crate::event::Approval {
            tool: "echo".to_owned(),
            args: json!({}),
            hash: "0".to_owned(),
            again: false,
        }),
    });
    sim.record(Event::CallApproved {
        node,
        always: Some(crate::event::Always::Tool),
        by: "ada".to_owned(),
    });
    assert_eq!(sim.run.pending_approvals().len(), lost);
}

/// Two independent steps; the first fails with `severity`.
fn failing(severity: Value) -> Sim {
    goal_with("two things", &json!({}), equipment(), move |ask| {
        let text = &ask.messages[1].text;
        match ask.purpose {
            Purpose::Decide if text.contains("# Task\ntwo things") => plan_answer(json!([
                {"id": "first", "title": "try it", "criteria": ["x"]},
                {"id": "second", "title": "light the lamp", "criteria": ["x"], "needs": []},
                {"id": "third", "title": "sweep", "criteria": ["x"], "needs": []},
            ])),
            Purpose::Decide => execute("echo", json!({"text": "x"})),
            Purpose::Work if text.contains("# Task\ntry it") => calls_answer(&[(
                "finish",
                json!({"status": "failed", "notes": "it burns", "severity": severity}),
            )]),
            Purpose::Work => calls_answer(&[(
                "finish",
                json!({"status": "ok", "notes": "done", "criteria": [{"id": "c1", "met": true}]}),
            )]),
            Purpose::Replan => text_answer(&json!({"root_cause": "fire", "changes": "", "give_up": true}).to_string()),
            _ => text_answer("{\"notes\": \"see the steps\"}"),
        }
    })
    .driven_on()
}

#[test]
fn executor_may_state_the_severity_of_its_failure_e9_4() {
    for (said, severity, reason) in [
        (json!("hard"), Severity::Hard, StopReason::Unsatisfiable),
        (json!("soft"), Severity::Soft, StopReason::CriteriaUnmet),
        (json!("dreadful"), Severity::Soft, StopReason::CriteriaUnmet),
        (Value::Null, Severity::Soft, StopReason::CriteriaUnmet),
    ] {
        let sim = failing(said.clone());
        assert_eq!(sim.severity("first"), Some(severity), "{said}");
        let first = sim.run.node_at("first").unwrap().result.unwrap();
        assert_eq!(first.stop_reason, Some(reason), "{said}");
    }
    // A failure that others need stays hard, whatever is said of it.
    let plan =
        "steps: [{id: a, do: {tool: fail, args: {}}}, {id: b, do: {tool: echo, args: {x: '{{ results.a.output }}'}}}]";
    let sim = Sim::new(plan).driven_on();
    assert_eq!(sim.severity("a"), Some(Severity::Hard));
}

#[test]
fn aggregation_decides_the_severity_of_a_failed_task_e9_4() {
    // A step of the inner task is refused, which is hard for its own plan; what the inner task makes of it is soft
    // unless it says so.
    for (said_of_it, severity) in [(Value::Null, Severity::Soft), (json!("hard"), Severity::Hard)] {
        let by_whom = said_of_it.clone();
        let sim = goal_with("a house", &json!({}), equipment(), move |ask| {
            let text = &ask.messages[1].text;
            match ask.purpose {
                Purpose::Decide if text.contains("# Task\na house") => plan_answer(json!([
                    {"id": "roof", "title": "mend the roof", "criteria": ["x"]},
                    {"id": "walls", "title": "paint the walls", "criteria": ["x"]},
                ])),
                Purpose::Decide if text.contains("# Task\nmend the roof") => plan_answer(json!([
                    {"id": "climb", "title": "climb up", "do": {"tool": "deny", "args": {}}},
                    {"id": "look", "title": "look", "do": {"tool": "echo", "args": {}}, "needs": [], "satisfies": ["c1"]},
                ])),
                Purpose::Decide => execute("finish", json!({"status": "ok", "notes": "done"})),
                Purpose::Replan => {
                    text_answer(&json!({"root_cause": "no ladder", "changes": "", "give_up": true}).to_string())
                }
                _ => text_answer(&json!({"notes": "not done", "status": "failed", "severity": by_whom}).to_string()),
            }
        })
        .driven_on();
        assert_eq!(sim.severity("roof/climb"), Some(Severity::Hard));
        assert_eq!(sim.severity("roof"), Some(severity), "{said_of_it}");
        let is_left_out = sim.status("walls") == Outcome::Skipped;
        assert_eq!(is_left_out, severity == Severity::Hard, "{said_of_it}");
    }
}

#[test]
fn unreadable_aggregation_lists_each_step_with_its_outcome_e9_13() {
    let sim = goal_with("two things", &json!({}), equipment(), |ask| match ask.purpose {
        Purpose::Decide => plan_answer(json!([
            {"id": "one", "title": "one", "do": {"tool": "echo", "args": {}}},
            {"id": "two", "title": "two", "optional": true, "do": {"tool": "fail", "args": {}}},
        ])),
        _ => text_answer("words, words"),
    })
    .driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Partial, Some(StopReason::Unparseable))
    );
    assert!(
        result
            .notes
            .ends_with("there is no JSON object in the answer; 1 ok, 1 failed; two: fail failed\none (ok)\ntwo (failed): fail failed"),
        "{}",
        result.notes
    );
}

/// A task that asks for a colour, with a time limit for the answer.
fn asking(args: Value) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = true;
    goal_with("paint", &json!({}), equipment, move |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ if ask.call == 2 => calls_answer(&[("ask_person", args.clone())]),
        _ => {
            let said = ask
                .messages
                .iter()
                .rev()
                .find(|message| message.text.contains("answered by"));
            models::finish(said.map_or("no answer", |message| &message.text))
        }
    })
}

#[test]
fn question_past_its_deadline_gets_its_default_answer_e9_14() {
    let sim = asking(json!({"question": "Which colour?", "default": "blue", "minutes": 1.5})).driven_on();
    let asked = sim.journal.iter().find_map(|(at, event)| match event {
        Event::Questioned { question, .. } => Some((*at, question.deadline)),
        _ => None,
    });
    let (at, deadline) = asked.unwrap();
    assert_eq!(deadline, Some(at.plus(Duration::from_secs(90))));
    assert_eq!(sim.run.result().unwrap().notes, "blue\n(answered by default)");
    // Without a default the task that asks fails softly.
    let sim = asking(json!({"question": "Which colour?", "minutes": 0})).driven_on();
    let result = sim.run.result().unwrap();
    assert_eq!(
        (result.status, result.stop_reason),
        (Outcome::Failed, Some(StopReason::NeedsInput))
    );
    let mut sim = asking(json!({"question": "Which colour?", "minutes": null}));
    sim.derive();
    while sim.run.questions().is_empty() {
        assert!(sim.end_one());
        sim.derive();
    }
    assert_eq!((sim.run.questions()[0].1.deadline, sim.run.wakes_at()), (None, None));
}

/// A goal with one criterion for a judge and two for a person.
fn painted(has_person: bool) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = has_person;
    let criteria = json!({"criteria": [
        {"id": "c1", "text": "the wall is blue"},
        {"id": "c2", "text": "it looks good", "check": "human"},
        {"id": "c3", "text": "it smells good", "check": "human", "required": false},
    ]});
    goal_with("paint", &criteria, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        Purpose::Judge => text_answer(
            &json!({"verdicts": [
            {"criterion": "c1", "finding": "met"}, {"criterion": "c2", "finding": "met"}]})
            .to_string(),
        ),
        _ => models::finish("it is painted"),
    })
}

/// Answers the questions in this order, and continues to the end.
fn answering(mut sim: Sim, answers: &[&str]) -> (Sim, Vec<Question>) {
    let mut asked = Vec::new();
    let mut answers = answers.iter();
    for _ in 0..200 {
        sim.derive();
        let open = sim
            .run
            .questions()
            .first()
            .map(|(node, question)| (*node, (*question).clone()));
        if let Some((node, question)) = open {
            asked.push(question);
            sim.record(Event::Answered {
                node,
                answer: (*answers.next().expect("no more is asked")).to_owned(),
                by: "ada".to_owned(),
            });
        } else if sim.run.result().is_some() {
            return (sim, asked);
        } else if !sim.end_one() {
            break;
        }
    }
    panic!("it does not end");
}

fn findings(sim: &Sim) -> Vec<(&str, &Finding)> {
    let verdicts = sim.run.result().unwrap().verdicts.iter();
    verdicts
        .map(|verdict| (verdict.criterion.as_str(), &verdict.finding))
        .collect()
}

#[test]
fn human_criterion_is_asked_about_after_all_others_are_met_e9_6() {
    let (sim, asked) = answering(painted(true), &["Yes, it does.", "no"]);
    let texts: Vec<&str> = asked.iter().map(|question| question.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            r#"Is this criterion met: it looks good? Result: it is painted: {"said":"it is painted"}"#,
            r#"Is this criterion met: it smells good? Result: it is painted: {"said":"it is painted"}"#
        ]
    );
    assert_eq!(sim.status(""), Outcome::Ok);
    let no = Finding::Unmet("ada said no".to_owned());
    assert_eq!(
        findings(&sim),
        [("c1", &Finding::Met), ("c2", &Finding::Met), ("c3", &no)]
    );
    // What stands in the journal is the same for whoever reads it, and each answer has an entry of its own.
    for cut in 1..sim.journal.len() {
        drop(Sim::resumed(&sim.journal[..cut]));
    }
    let mut run = Run::new(sim.run.id(), Arc::new(Templates::new()));
    let mut entries = std::collections::BTreeSet::new();
    let mut of_answers = 0;
    for (at, event) in &sim.journal {
        run.apply(*at, event).unwrap();
        for change in crate::projection::changes(&run, event) {
            if let Change::AddEntry(entry) = change {
                assert!(entries.insert(entry.id), "{event:?} writes an entry that is there");
                of_answers += usize::from(event.name() == "answered");
            }
        }
    }
    assert_eq!(of_answers, 2);
}

#[test]
fn unmet_human_criterion_sends_the_task_back_once_e9_6() {
    let (sim, asked) = answering(painted(true), &["the corner is white", "yes", "yes"]);
    assert_eq!(
        asked.len(),
        3,
        "where something is missing nobody is asked about the rest"
    );
    let back = sim.journal.iter().find_map(|(_, event)| match event {
        Event::SentBack { gaps, .. } => Some(gaps.clone()),
        _ => None,
    });
    assert_eq!(
        back.unwrap(),
        ["c2 (it looks good) is not met: ada said: the corner is white"]
    );
    assert_eq!(sim.status(""), Outcome::Ok);
}

#[test]
fn human_criterion_without_a_person_is_unverifiable_e9_6() {
    let sim = painted(false).driven_on();
    assert_eq!(sim.status(""), Outcome::Partial);
    assert_eq!(
        findings(&sim)[1],
        ("c2", &Finding::Unverifiable("nobody was asked".to_owned()))
    );
    // Somebody was asked, and the next driver has nobody.
    let mut sim = painted(true);
    while sim.run.questions().is_empty() {
        sim.derive();
        sim.end_one();
    }
    let sim = Sim::resumed_with(&sim.journal, equipment(), Arc::clone(&sim.model)).driven_on();
    assert_eq!(sim.status(""), Outcome::Partial);
    let nobody = Finding::Unverifiable("nobody was available to answer".to_owned());
    assert_eq!(findings(&sim)[1], ("c2", &nobody));
}

#[test]
fn interrupted_call_is_repeated_beyond_budget_and_counted_once_e9_12() {
    let plan = "steps: [{id: mail, do: {tool: echo, args: {to: ada}}, budget: {tool_calls: 1}}]";
    let mut begun = Sim::new(plan);
    begun.derive();
    let sim = Sim::resumed(&begun.journal);
    let due = sim.run.due(sim.now, 4);
    assert!(
        matches!(due.as_slice(), [Action::Call(call)] if call.again && sim.run.is_still_due(&due[0])),
        "{due:?}"
    );
    let sim = sim.driven_on();
    assert_eq!(sim.status("mail"), Outcome::Ok);
    assert_eq!(sim.run.node_at("mail").unwrap().spent.tool_calls, 1);
}

#[test]
fn repeatedly_broken_off_run_is_left_alone_until_progress_e9_9() {
    let mut sim =
        Sim::new("steps: [{id: pure, do: {tool: echo, args: {to: ada}}}, {id: next, do: {tool: echo, args: {}}}]");
    sim.derive();
    for times in 1..=RunSummary::BROKEN_OFF_MAX {
        assert!(!sim.run.summary().needs_manual_resume(), "{times}");
        sim = Sim::resumed(&sim.journal);
        // It is about to be called again, and its process is gone.
        sim.derive();
        assert_eq!(sim.run.summary().broken_off, times);
    }
    assert!(sim.run.summary().needs_manual_resume());
    assert!(sim.end_one());
    assert_eq!(sim.run.summary().broken_off, 0);
}
