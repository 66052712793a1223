//! Criteria that refer to results, as people and judges read them (E9.6, E9.14).

use super::judged::{answer_question, drive_to_question};
use super::models::*;
use super::*;
use crate::result::Finding;
use crate::talk::Purpose;

fn attended(extra: &Value, finding: &'static str) -> Sim {
    let mut equipment = equipment();
    equipment.has_person = true;
    goal_with("write", extra, equipment, move |ask| {
        assert_eq!(ask.purpose, Purpose::Judge);
        verdict_answer(finding)
    })
}

fn written(criterion: &Value) -> Value {
    json!({"steps": [
        {"id": "who", "do": {"tool": "echo", "args": {"name": "Ann"}}},
        {"id": "a", "do": {"tool": "echo", "args": {"text": "hello"}}, "criteria": [criterion]},
    ]})
}

const WORDS: &str = "{{ result.output.text }} is how {{ results.who.output.name }} writes it";

#[test]
fn question_about_a_criterion_has_its_template_filled_in_e9_14() {
    let human = json!({"id": "c1", "text": WORDS, "check": "human"});
    let mut sim = attended(&written(&human), "met");
    let (node, asked) = drive_to_question(&mut sim).unwrap();
    assert_eq!(
        asked,
        r#"Is this criterion met: hello is how Ann writes it? Result: {"text":"hello"}"#
    );
    answer_question(&mut sim, node, "no");
    assert_eq!(drive_to_question(&mut sim), None);
    let notes = &sim.run.node_at("a").unwrap().result.unwrap().notes;
    assert!(notes.contains("c1 (hello is how Ann writes it) is not met"), "{notes}");
}

#[test]
fn judge_prompt_has_criterion_templates_filled_in_e9_6() {
    let sim = attended(&written(&json!({"id": "c1", "text": WORDS})), "unmet").driven_on();
    let read = prompt_text(&sim, 0);
    assert!(read.contains("c1: hello is how Ann writes it"), "{read}");
    let notes = &sim.run.node_at("a").unwrap().result.unwrap().notes;
    assert!(
        notes.contains("c1 (hello is how Ann writes it) is not met: the proof"),
        "{notes}"
    );
}

#[test]
fn criterion_of_the_plan_can_read_step_results_e9_6() {
    let mut extra = written(&json!({"id": "w", "text": "it is short", "check": {"regex": "hello"}}));
    extra["criteria"] = json!([{"id": "c1", "text": "{{ results.who.output.name }} is greeted"}]);
    let sim = attended(&extra, "unmet").driven_on();
    let read = prompt_text(&sim, 0);
    assert!(read.contains("c1: Ann is greeted"), "{read}");
    assert!(
        root(&sim).notes.contains("c1 (Ann is greeted) is not met"),
        "{}",
        root(&sim).notes
    );
}

#[test]
fn approval_question_for_a_check_command_fills_in_the_criterion_e9_6() {
    let command = json!({"id": "c1", "text": WORDS, "check": {"command": {"argv": ["true"]}}});
    let mut sim = attended(&written(&command), "met");
    sim.run
        .set_approval_policy(Some(Arc::new(|tool: &str, _: &Value| (tool == "shell").into())));
    let (_, asked) = drive_to_question(&mut sim).unwrap();
    assert!(
        asked.ends_with("(to check this criterion: hello is how Ann writes it)"),
        "{asked}"
    );
}

#[test]
fn second_attempt_is_told_the_filled_in_unmet_criterion_e9_6() {
    let extra = json!({"steps": [
        {"id": "who", "do": {"tool": "echo", "args": {"name": "Ann"}}},
        {"id": "a", "title": "greet", "atomic": true, "criteria": [{"id": "c1", "text": "{{ result.output.said }} is for {{ results.who.output.name }}"}]},
    ]});
    let sim = goal_with("write", &extra, equipment(), |ask| match ask.purpose {
        Purpose::Work => finish("hello"),
        _ => verdict_answer("unmet"),
    })
    .driven_on();
    let again = sim.asks.iter().rposition(|ask| ask.purpose == Purpose::Work).unwrap();
    let read = prompt_text(&sim, again);
    assert!(read.contains("c1 (hello is for Ann) is not met: the proof"), "{read}");
}

#[test]
fn long_criterion_values_are_cut_and_missing_ones_unfilled_e9_6() {
    let long = json!({"steps": [{
        "id": "a", "do": {"tool": "echo", "args": {"text": "long ".repeat(900)}},
        "criteria": [{"id": "c1", "text": "{{ result.output.text }} is long", "check": "human"}],
    }]});
    let (_, asked) = drive_to_question(&mut attended(&long, "met")).unwrap();
    let (criterion, result) = asked.split_once("? Result: ").unwrap();
    assert!(criterion.chars().count() < 700 && result.ends_with('…'), "{asked}");
    let missing = written(&json!({"id": "c1", "text": "{{ result.output.none.at_all }}", "check": "human"}));
    let (_, asked) = drive_to_question(&mut attended(&missing, "met")).unwrap();
    assert_eq!(
        asked,
        r#"Is this criterion met: {{ result.output.none.at_all }}? Result: {"text":"hello"}"#
    );
}

#[test]
fn criterion_of_a_task_never_reads_a_step_of_its_own_plan_by_an_outer_name_e9_6() {
    let criteria = json!([
        {"id": "c1", "text": "as filed", "check": {"regex": {"pattern": "^outer$", "of": "results.files.output.text"}}},
        {"id": "c2", "text": "built", "check": {"command": ["make", "{{ results.files.output.text }}"]}},
    ]);
    let step = |text: &str| json!({"id": "files", "do": {"tool": "echo", "args": {"text": text}}});
    let commands = |sim: &mut Sim| loop {
        sim.derive();
        if let Some(check) = sim.checking.first() {
            return check.calls.iter().map(|call| call.args.clone()).collect::<Vec<_>>();
        }
        assert!(sim.end_one());
    };
    let of_outer = [json!({"argv": ["make", "outer"]})];
    // In a written plan.
    let review = json!({"id": "review", "title": "review", "criteria": criteria, "plan": {"steps": [step("inner")]}});
    let mut sim = attended(&json!({"steps": [step("outer"), review]}), "met");
    assert_eq!(commands(&mut sim), of_outer);
    let sim = sim.driven_on();
    let result = sim.run.node_at("review").unwrap().result.unwrap();
    assert_eq!(result.verdicts[0].finding, Finding::Met, "{}", result.notes);
    // In a plan that a model makes for the task.
    let review = json!({"id": "review", "title": "review", "criteria": criteria});
    let mut sim = goal(
        "write",
        &json!({"steps": [step("outer"), review]}),
        move |ask| match ask.purpose {
            Purpose::Decide => plan_answer(json!([step("inner")])),
            _ => text_answer("{\"status\": \"ok\", \"notes\": \"reviewed\"}"),
        },
    );
    assert_eq!(commands(&mut sim), of_outer);
}
