//! Tasks that a person does (E9.17, E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::{equipment, execute, finish, goal_with, plan_answer, prompt_text, root, text_answer};
use super::*;
use crate::event::{NewLimits, Question};
use crate::result::Output;
use crate::run::RequiredApproval;
use crate::talk::Purpose;

const VISIT: &str = "steps:
  - {id: survey, do: {tool: echo, args: {text: the cellar}}}
  - id: both
    parallel:
    - {id: visit, executor: human, title: Look at it, description: 'Go to {{ results.survey.output.text }}.', reason: no tool can,
       criteria: [{id: dry, text: it is said whether it is dry, check: {regex: 'dry|wet'}}]}
    - {id: beside, do: {tool: echo, args: {}}}
  - {id: report, do: {tool: echo, args: {text: 'It is {{ results.both.output.visit }}'}}}";

/// The plan, with a person to ask and no model.
fn attended(plan: &str) -> Sim {
    let mut sim = Sim::new(plan);
    sim.run
        .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
    sim
}

fn notes<'s>(sim: &'s Sim, path: &str) -> &'s str {
    &sim.run.node_at(path).unwrap().result.unwrap().notes
}

#[test]
fn answer_of_a_person_becomes_the_result_of_their_task_e9_17() {
    let mut sim = attended(VISIT);
    let (visit, asked) = drive_to_question(&mut sim).unwrap();
    assert_eq!(
        asked,
        "Task for a person: Look at it\nGo to the cellar.\nWhy: no tool can\nDone when:\n- it is said whether it is dry\n\
         Earlier results:\n- survey (ok) survey\n  output: {\"text\":\"the cellar\"}\n\
         Answer with the outcome. If it cannot be done, answer `failed:` and the reason."
    );
    // Only this branch waits, and nothing is held for it.
    while sim.end_one() {
        sim.derive();
    }
    assert_eq!(sim.status("both/beside"), Outcome::Ok);
    assert_eq!(sim.under_way_count(), 0);
    answer_question(&mut sim, visit, "dry as a bone");
    assert_eq!(drive_to_question(&mut sim), None);
    assert_eq!(sim.status(""), Outcome::Ok);
    assert_eq!(sim.args("report"), json!({"text": "It is dry as a bone"}));
    assert_eq!(notes(&sim, "both/visit"), "dry as a bone");
    assert!(sim.asks.is_empty());

    // Whoever takes it up hands it over once in all.
    for cut in 1..sim.journal.len() {
        let mut resumed = Sim::resumed(&sim.journal[..cut]);
        resumed
            .run
            .set_approval_policy(Some(Arc::new(|_, _| RequiredApproval::Nothing)));
        while let Some((node, _)) = drive_to_question(&mut resumed) {
            answer_question(&mut resumed, node, "dry as a bone");
        }
        assert_eq!(resumed.outcome(), sim.outcome(), "cut after {cut}");
        let asked = resumed.journal.iter().filter(|(_, event)| event.name() == "questioned");
        assert_eq!(asked.count(), 1, "cut after {cut}");
    }
}

#[test]
fn person_reads_as_much_whatever_the_windows_of_the_models_are_e9_17() {
    let text = "sand ".repeat(150);
    let plan = format!(
        "steps:
- {{id: survey, do: {{tool: echo, args: {{text: '{text}'}}}}}}
- {{id: visit, executor: human, title: Look at it}}"
    );
    let asked_with = |window: Option<u32>| {
        let mut sim = attended(&plan);
        if let Some(window) = window {
            let mut equipment = equipment();
            equipment.has_person = true;
            equipment.executor.window = window;
            sim.run.equip(Arc::new(equipment));
        }
        drive_to_question(&mut sim).unwrap().1
    };
    let asked = asked_with(Some(2_000));
    assert!(asked.contains(text.trim_end()), "{asked}");
    assert_eq!(asked, asked_with(None));

    // However many results there are, it ends with how to answer.
    let surveys: String = (0..60)
        .map(|n| format!("- {{id: s{n}, do: {{tool: echo, args: {{text: '{text}'}}}}}}\n"))
        .collect();
    let mut sim = attended(&format!(
        "steps:\n{surveys}- {{id: visit, executor: human, title: Look at it}}"
    ));
    let (_, asked) = drive_to_question(&mut sim).unwrap();
    assert!(asked.ends_with("answer `failed:` and the reason."), "{asked}");
}

#[test]
fn human_tasks_in_a_group_use_no_model_budget_e9_10() {
    let mut sim = attended(
        "budget: {model_calls: 1, tokens: 3000}
steps:
- parallel:
  - {id: left, executor: human, title: look at the left wall}
  - {id: right, executor: human, title: look at the right wall}",
    );
    let mut equipment = equipment();
    equipment.has_person = true;
    sim.run.equip(Arc::new(equipment));
    while let Some((node, _)) = drive_to_question(&mut sim) {
        answer_question(&mut sim, node, "it stands");
    }
    assert_eq!((root(&sim).status, sim.asks.len()), (Outcome::Ok, 0));
}

#[test]
fn default_time_of_a_run_does_not_end_a_task_that_waits_for_a_person_e9_10() {
    let plan = "steps: [{id: visit, executor: human, title: Look at it, timeout: 2h}, {id: after, do: {tool: echo, args: {}}}]";
    let begin = || {
        let mut sim = attended(plan);
        sim.run.time.deadline = Some(sim.now.plus(Duration::from_secs(1_800)));
        let (visit, _) = drive_to_question(&mut sim).unwrap();
        let asked_at = sim.now;
        (sim, visit, asked_at)
    };
    let (mut sim, visit, asked_at) = begin();
    let question_ends = asked_at.plus(Duration::from_secs(7_200));
    assert_eq!(sim.run.wakes_at(), Some(question_ends));
    sim.now = asked_at.plus(Duration::from_secs(3_600));
    assert!(sim.run.due(sim.now, 4).is_empty());
    answer_question(&mut sim, visit, "dry as a bone");
    // From here on its time counts again.
    assert_eq!(
        sim.run.deadline(),
        Some(asked_at.plus(Duration::from_secs(3_600 + 1_800)))
    );
    assert_eq!(sim.driven_on().status(""), Outcome::Ok);

    let (mut sim, visit, asked_at) = begin();
    sim.run.time.set(asked_at.plus(Duration::from_secs(600)));
    assert_eq!(
        sim.run.may_wait_until(visit),
        Some(asked_at.plus(Duration::from_secs(600)))
    );
    sim.now = asked_at.plus(Duration::from_secs(3_600));
    assert_eq!(
        sim.driven_on().status("visit"),
        Outcome::Cancelled,
        "somebody set that limit"
    );
}

/// A task for a person, and then one for a model.
const VISIT_AND_COUNT: &str = "
- {id: visit, executor: human, title: Look at it, timeout: 24h}
- {id: count, title: count the stones, criteria: [{text: counted, check: result_nonempty}]}";

/// A run of `plan`, ten hours after its question was asked.
fn asked_ten_hours_ago(plan: &str) -> (Sim, NodeId) {
    let mut sim = attended(plan);
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"n": 1})),
        _ => finish("counted"),
    });
    sim.run.time.deadline = Some(sim.now.plus(Duration::from_secs(1_800)));
    let (visit, _) = drive_to_question(&mut sim).unwrap();
    sim.now = sim.now.plus(Duration::from_secs(36_000));
    (sim, visit)
}

#[test]
fn long_wait_for_a_person_does_not_shorten_the_time_for_models_afterwards_e9_10() {
    let plan = format!("steps: {VISIT_AND_COUNT}");
    let (mut sim, visit) = asked_ten_hours_ago(&plan);
    answer_question(&mut sim, visit, "dry as a bone");
    let sim = sim.driven_on();
    assert_eq!((sim.status("count"), sim.status("")), (Outcome::Ok, Outcome::Ok));

    // Nor does it if somebody gives the run more time after the wait, or had set a limit before.
    for is_set_before in [false, true] {
        let (mut sim, visit) = asked_ten_hours_ago(&plan);
        if is_set_before {
            sim.run.time.set(sim.now.plus(Duration::from_secs(600)));
        }
        let more = NewLimits {
            deadline: Some(sim.now.plus(Duration::from_secs(2_400))),
            ..NewLimits::default()
        };
        let event = sim.run.change_limits(None, more, "ada", sim.now).unwrap();
        sim.record(event);
        answer_question(&mut sim, visit, "dry as a bone");
        assert_eq!(sim.driven_on().status("count"), Outcome::Ok, "{is_set_before}");
    }

    // The same holds of a task with a time of its own.
    let steps = VISIT_AND_COUNT.replace('\n', "\n    ");
    let plan = format!("steps:\n- id: survey\n  title: x\n  budget: {{deadline: 10h30m}}\n  plan:\n    steps: {steps}");
    let (mut sim, visit) = asked_ten_hours_ago(&plan);
    answer_question(&mut sim, visit, "dry as a bone");
    assert_eq!(sim.driven_on().status("survey/count"), Outcome::Ok);
}

#[test]
fn run_waits_while_nothing_but_an_answer_is_missing_e9_9() {
    let plan = "steps: [{id: visit, executor: human, title: Look at it, timeout: 2h}, {id: after, do: {tool: echo, args: {}}}]";
    let mut sim = attended(plan);
    assert!(!sim.run.summary().waits_at(sim.now), "its first step may begin");
    let (visit, _) = drive_to_question(&mut sim).unwrap();
    let waits = |sim: &Sim, seconds| {
        let summary = sim.run.summary();
        summary.waits_at(sim.now.plus(Duration::from_secs(seconds)))
    };
    assert!(waits(&sim, 0) && waits(&sim, 7_199));
    assert!(!waits(&sim, 7_200), "nobody answered in time: its task is due to end");
    answer_question(&mut sim, visit, "dry as a bone");
    assert!(!waits(&sim, 0), "what follows may begin");
    assert!(!waits(&sim.driven_on(), 0), "it has ended");

    let mut beside = attended(VISIT);
    drive_to_question(&mut beside).unwrap();
    assert!(!waits(&beside, 0), "another branch goes on");
    while beside.end_one() {
        beside.derive();
    }
    assert!(waits(&beside, 0));
}

#[test]
fn person_is_asked_once_more_when_a_criterion_is_unmet_e9_6() {
    let mut sim = attended(VISIT);
    let (visit, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, visit, "I was there");
    let (visit, asked) = drive_to_question(&mut sim).unwrap();
    assert!(
        asked.contains("The result is not accepted yet:\n- dry (it is said whether it is dry) is not met:"),
        "{asked}"
    );
    answer_question(&mut sim, visit, "it is wet");
    assert_eq!(drive_to_question(&mut sim), None);
    assert_eq!(
        (sim.status("both/visit"), notes(&sim, "both/visit")),
        (Outcome::Ok, "it is wet")
    );

    let mut sim = attended(VISIT);
    let mut times = 0;
    while let Some((node, _)) = drive_to_question(&mut sim) {
        answer_question(&mut sim, node, "I was there");
        times += 1;
    }
    assert_eq!((times, sim.status("both/visit")), (2, Outcome::Failed));
}

#[test]
fn person_can_answer_with_a_failure_or_structured_output_e9_17() {
    let plan = "steps: [{id: visit, executor: human, title: Look at it}]";
    let answered = |answer: &str| {
        let mut sim = attended(plan);
        let (visit, _) = drive_to_question(&mut sim).unwrap();
        answer_question(&mut sim, visit, answer);
        assert_eq!(drive_to_question(&mut sim), None);
        let result = sim.run.node_at("visit").unwrap().result.unwrap().clone();
        let output = match &result.output {
            Output::Inline(inline) => (*inline.value()).clone(),
            other @ Output::Blob { .. } => panic!("{other:?}"),
        };
        (result.status, result.severity, result.notes, output)
    };
    let (status, severity, said, _) = answered("Failed: nobody opened");
    assert_eq!(
        (status, severity, said.as_str()),
        (Outcome::Failed, Some(Severity::Soft), "nobody opened")
    );
    assert_eq!(answered("partial: one half").0, Outcome::Partial);
    assert_eq!(answered("what failed: nothing").0, Outcome::Ok);
    assert_eq!(answered("[1, 2]").3, json!([1, 2]));
    // JSON has no room for the number, and it keeps its digits as a text.
    let digits = "123456789012345678901234567890";
    assert_eq!(answered(&format!("[{digits}]")).3, json!([digits]));
    let whole = r#"{"notes": "two rooms", "output": {"rooms": 2}}"#;
    let (status, _, said, output) = answered(whole);
    assert_eq!(
        (status, said.as_str(), output),
        (Outcome::Ok, "two rooms", json!({"rooms": 2}))
    );
}

#[test]
fn human_task_without_a_timely_answer_fails_softly_e9_14() {
    let plan = "steps: [{id: visit, executor: human, title: Look at it, timeout: 10s, optional: true}]";
    let sim = Sim::new(plan).driven_on();
    let result = sim.run.node_at("visit").unwrap().result.unwrap();
    assert_eq!(
        (result.stop_reason, result.severity),
        (Some(StopReason::NeedsInput), Some(Severity::Soft))
    );

    let mut sim = attended(plan);
    let began = sim.now;
    assert!(drive_to_question(&mut sim).is_some());
    sim.now = sim.run.wakes_at().unwrap();
    assert_eq!(sim.now, began.plus(Duration::from_secs(10)));
    assert_eq!(drive_to_question(&mut sim), None);
    let result = sim.run.node_at("visit").unwrap().result.unwrap();
    assert_eq!(result.stop_reason, Some(StopReason::NeedsInput));
}

#[test]
fn task_waiting_for_a_person_can_be_cancelled_e9_11() {
    let mut sim = attended(VISIT);
    let (visit, _) = drive_to_question(&mut sim).unwrap();
    sim.record(Event::CancelRequested {
        node: Some(visit),
        by: "ada".to_owned(),
    });
    assert_eq!(drive_to_question(&mut sim), None);
    assert_eq!(sim.status("both/visit"), Outcome::Cancelled);
    assert_eq!(notes(&sim, "both/visit"), "stopped before it was finished");
}

#[test]
fn models_may_choose_human_executor_only_when_configured_e9_17() {
    let run = |human: Option<&str>| {
        let mut equipment = equipment();
        equipment.has_person = true;
        equipment.human = human.map(str::to_owned);
        let told = human.is_some();
        goal_with("two things", &json!({}), equipment, move |ask| {
            let text = &ask.messages[1].text;
            assert_eq!(
                text.contains("- human: going and looking"),
                told && ask.purpose == Purpose::Decide
            );
            match ask.purpose {
                Purpose::Decide if text.contains("# Task\ntwo things") => plan_answer(json!([
                    {"id": "a", "title": "go there", "criteria": [{"check": "result_nonempty"}], "executor": "human"},
                    {"id": "b", "title": "look at it", "criteria": [{"check": "result_nonempty"}]},
                ])),
                Purpose::Decide => {
                    text_answer(&json!({"decision": "execute", "reason": "so", "executor": "human"}).to_string())
                }
                Purpose::Work => finish("done"),
                _ => text_answer("{\"notes\": \"all of it\"}"),
            }
        })
    };
    let mut sim = run(Some("going and looking"));
    let mut asked = Vec::new();
    while let Some((node, text)) = drive_to_question(&mut sim) {
        asked.push(text.lines().next().unwrap().to_owned());
        answer_question(&mut sim, node, "done");
    }
    assert_eq!(asked, ["Task for a person: go there", "Task for a person: look at it"]);
    assert_eq!(root(&sim).status, Outcome::Ok);
    // What people write may name them all the same; whoever plans or decides may not.
    let mut sim = run(None);
    assert_eq!(drive_to_question(&mut sim), None);
    let told = sim.asks[1].messages.last().unwrap();
    assert!(told.text.contains("unknown executor \"human\""), "{}", told.text);
}

#[test]
fn person_is_told_why_their_answer_cannot_be_used_e9_13() {
    let mut sim = attended("steps: [{id: roof, executor: human, title: Look at the roof}]");
    let (roof, asked) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, roof, r#"{"status": "skipped", "notes": "too high"}"#);
    let (_, again) = drive_to_question(&mut sim).unwrap();
    assert!(!asked.contains("skipped"));
    assert!(
        again.contains("This answer cannot be used") && again.contains("skipped"),
        "{again}"
    );
}

#[test]
fn reason_for_an_unmet_human_criterion_reaches_the_executor_e9_6() {
    let plan =
        "steps: [{id: roof, executor: human, title: Mend the roof, criteria: [{text: it is dry, check: human}]}]";
    let mut sim = attended(plan);
    let (roof, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, roof, "mended");
    drive_to_question(&mut sim).unwrap();
    let question = sim.run.questions()[0].1.clone();
    assert!(question.accepts("yes") && question.accepts("it leaks above the door"));
    answer_question(&mut sim, roof, "it leaks above the door");
    let (_, again) = drive_to_question(&mut sim).unwrap();
    assert!(again.contains("it leaks above the door"), "{again}");
}

#[test]
fn cancelled_task_withdraws_its_question_and_hides_no_other_e9_14() {
    let mut equipment = equipment();
    equipment.has_person = true;
    let extra = json!({"steps": [{"parallel": [
        {"id": "door", "title": "paint the door"}, {"id": "gate", "title": "paint the gate"},
        {"id": "visit", "executor": "human", "title": "look at it"},
    ]}]});
    let mut sim = goal_with("paint", &extra, equipment, |ask| match ask.purpose {
        Purpose::Decide => execute("ask_person", json!({"question": "Which colour?"})),
        _ => finish("painted"),
    });
    sim.settled();
    let asked = |sim: &Sim| -> Vec<String> {
        let questions = sim.run.questions();
        let path = |(node, _): &(NodeId, _)| sim.run.node(*node).unwrap().path.to_owned();
        questions.iter().map(path).collect()
    };
    let stop = |sim: &mut Sim, path: &str| {
        let node = Some(sim.run.node_at(path).unwrap().id);
        sim.record(Event::CancelRequested {
            node,
            by: "ada".to_owned(),
        });
    };
    // What two ask is asked once.
    assert_eq!(asked(&sim), ["group-1/door", "group-1/visit"]);
    // Nobody drives it, so nobody has written down yet that they have ended.
    stop(&mut sim, "group-1/door");
    stop(&mut sim, "group-1/visit");
    assert_eq!(asked(&sim), ["group-1/gate"]);
    let gate = sim.run.node_at("group-1/gate").unwrap().id;
    answer_question(&mut sim, gate, "green");
    let sim = sim.driven_on();
    assert_eq!(
        ["door", "gate", "visit"].map(|id| sim.status(&format!("group-1/{id}"))),
        [Outcome::Cancelled, Outcome::Ok, Outcome::Cancelled]
    );
}

#[test]
fn question_that_a_person_would_see_cut_is_sent_back_with_every_mistake_e9_13() {
    let many: Vec<String> = (0..17).map(|n| format!("o{n}")).collect();
    for (args, mistakes) in [
        (json!({"question": " "}), "`question` is empty"),
        (
            json!({"question": "x".repeat(2_001)}),
            "`question` is longer than 2000 characters",
        ),
        (
            json!({"question": "Which?", "options": many, "default": "o99"}),
            "`options` has 17 entries, more than 16; `default` is not one of `options`",
        ),
        (
            json!({"question": "Which?", "options": [1, 2, null, "1"], "minutes": "5", "default": 7}),
            "`options` must be a list of texts; `default` must be a text; `minutes` must be a number from 0 to 43200",
        ),
        (
            json!({"question": "Which?", "options": "red", "minutes": -5}),
            "`options` must be a list of texts; `minutes` must be a number from 0 to 43200",
        ),
        (
            json!({"question": "Which?", "options": ["a", "b"], "default": "c"}),
            "`default` is not one of `options`",
        ),
    ] {
        let equipment = Equipment {
            has_person: true,
            ..equipment()
        };
        let asked = args.clone();
        let sim = goal_with("paint a door", &json!({}), equipment, move |ask| match ask.call {
            1 => execute("ask_person", asked.clone()),
            _ => finish("painted"),
        })
        .driven_on();
        assert!(sim.run.questions().is_empty(), "{args}");
        let told = prompt_text(&sim, 1);
        assert!(
            told.contains(&format!("not asked: {mistakes}\n")) || told.ends_with(&format!("not asked: {mistakes}")),
            "{told}"
        );
    }
    // What a model leaves out may be null.
    let args = json!({"question": "Which?", "options": null, "default": null, "minutes": null});
    let equipment = Equipment {
        has_person: true,
        ..equipment()
    };
    let mut sim = goal_with("paint a door", &json!({}), equipment, move |_| {
        execute("ask_person", args.clone())
    });
    sim.derive();
    while sim.run.questions().is_empty() {
        assert!(sim.end_one());
        sim.derive();
    }
    assert_eq!(sim.run.questions()[0].1.text, "Which?");
}

#[test]
fn answer_that_names_only_an_outcome_is_empty_e9_17() {
    let mut sim = attended(VISIT);
    sim.derive();
    while sim.run.questions().is_empty() {
        assert!(sim.end_one());
        sim.derive();
    }
    let (_, task) = sim.run.questions()[0];
    for (answer, is_empty) in [
        (" \u{200b}", true),
        ("partial:  ", true),
        ("Failed :\u{200b}", true),
        ("failed: too dark", false),
        ("failed", false),
        ("cellar:", false),
    ] {
        assert_eq!(task.is_empty_answer(answer), is_empty, "{answer:?}");
    }
    // Where something else is asked, such a word is an answer like any other.
    let question = Question {
        call: "w1".to_owned(),
        ..task.clone()
    };
    assert!(!question.is_empty_answer("partial:"));
}

#[test]
fn answer_means_an_option_whatever_its_case_if_only_one_is_alike_e9_14() {
    let question = |options: &[&str]| Question {
        call: "c".to_owned(),
        text: "Which?".to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        default: None,
        deadline: None,
    };
    let colours = question(&["blue", "Red", "red"]);
    for (answer, meant) in [
        (" Blue\n", Some("blue")),
        ("red", Some("red")),
        ("RED", None),
        ("green", None),
    ] {
        assert_eq!(colours.option_meant(answer), meant, "{answer}");
    }
    assert_eq!(question(&[]).option_meant("blue"), None);
}

/// A goal one step of which a model hands to a person, with a criterion of its own, after the answer to the first
/// question about that step; and what is asked then.
fn signed(answer: &str) -> (Sim, Option<String>) {
    let mut equipment = equipment();
    equipment.has_person = true;
    equipment.human = Some("signing".to_owned());
    let met = json!([{"id": "c1", "met": true}]);
    let mut sim = goal_with("get it signed", &json!({}), equipment, move |ask| {
        match (ask.purpose, &*models::task_named(ask)) {
            (Purpose::Decide, "get it signed") => plan_answer(json!([
                {"id": "sign", "title": "sign the form", "criteria": ["the form is signed"], "executor": "human"},
                {"id": "file", "title": "file it", "criteria": ["it is filed"]},
            ])),
            (Purpose::Decide, _) => execute("finish", json!({"notes": "filed", "criteria": met})),
            _ => text_answer("{\"notes\": \"all of it\"}"),
        }
    });
    let (sign, _) = drive_to_question(&mut sim).unwrap();
    answer_question(&mut sim, sign, answer);
    let asked = drive_to_question(&mut sim).map(|(_, text)| text);
    (sim, asked)
}

#[test]
fn answer_of_a_person_meets_the_criteria_that_a_model_wrote_for_their_step_e9_17() {
    let whole = r#"{"notes": "I signed it", "output": {"by": "me"}}"#;
    for answer in ["I signed it", whole] {
        let (sim, asked) = signed(answer);
        assert_eq!(asked, None, "{answer}");
        assert_eq!((sim.status("sign"), notes(&sim, "sign")), (Outcome::Ok, "I signed it"));
        assert_eq!(root(&sim).status, Outcome::Ok);
    }
    assert_eq!(signed("failed: no pen").0.status("sign"), Outcome::Failed);
}

#[test]
fn what_a_person_says_of_a_criterion_counts_and_is_asked_about_in_plain_words_e9_17() {
    let gap = r#"{"notes": "no pen", "criteria": [{"id": "c1", "met": false, "gap": "there is no pen"}]}"#;
    let asked = signed(gap).1.unwrap();
    assert!(asked.contains("there is no pen"), "{asked}");
    let asked = signed(r#"{"status": "skipped", "notes": "too high"}"#).1.unwrap();
    assert!(asked.contains("This answer cannot be used:\n- status is"), "{asked}");
    for for_programs in ["You have worked on this task", "JSON Schema"] {
        assert!(!asked.contains(for_programs), "{asked}");
    }
}
