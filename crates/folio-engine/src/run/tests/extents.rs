//! How much requests without tools tell: as much as there is room for, and less rather than no request at all (E9.2,
//! E9.6, E9.10).

use super::models::*;
use super::*;
use crate::result::Finding;
use crate::talk::Purpose;

/// Runs a task with a criterion after `before` steps, each of which gives `chars` characters. The task makes `calls`
/// calls that give as many. The judge has a window of `window` tokens.
fn judged(window: u32, before: usize, calls: u32, chars: usize) -> Sim {
    let mut equipment = equipment();
    (equipment.judge.window, equipment.judge.answer_tokens) = (window, 1_000);
    let look = |n: usize| {
        let text = format!("{n} {}", "word ".repeat(chars / 5));
        json!({"id": format!("look{n}"), "do": {"tool": "echo", "args": {"text": text}}})
    };
    let mut steps: Vec<Value> = (0..before).map(look).collect();
    steps.push(json!({"id": "say", "title": "say how it is", "criteria": [{"id": "c1", "text": "it is said"}]}));
    let text = "done ".repeat(chars / 5);
    goal_with("look", &json!({"steps": steps}), equipment, move |ask| {
        match ask.purpose {
            Purpose::Judge => verdict_answer("met"),
            Purpose::Decide => execute("echo", json!({"text": text})),
            Purpose::Work if ask.call <= calls => {
                calls_answer(&[("echo", json!({"text": format!("{} {text}", ask.call)}))])
            }
            _ => finish("it is green"),
        }
    })
    .driven_on()
}

fn task_in(ask: &AskAction) -> &str {
    &ask.messages[1].text
}

fn asked_to(sim: &Sim, purpose: Purpose) -> &AskAction {
    sim.asks.iter().find(|ask| ask.purpose == purpose).unwrap()
}

#[test]
fn judge_with_a_small_window_judges_a_task_with_many_earlier_results_e9_6() {
    for window in [4_096, 8_192, 16_384, 128_000] {
        let sim = judged(window, 12, 6, 4_000);
        let say = sim.run.node_at("say").unwrap().result.unwrap();
        assert_eq!(
            say.verdicts.first().map(|v| &v.finding),
            Some(&Finding::Met),
            "{window}: {}",
            say.notes
        );
        let told = task_in(asked_to(&sim, Purpose::Judge));
        assert!(told.contains("it is green") && told.contains("echo text=6 "), "{told}");
    }
}

#[test]
fn judge_reads_as_much_of_what_was_given_as_there_is_room_for_e9_6() {
    let sim = judged(128_000, 3, 0, 4_000);
    let told = task_in(asked_to(&sim, Purpose::Judge));
    assert!(
        !told.contains("left out") && told.matches("word ").count() > 2_300,
        "{told}"
    );
    // Nothing names a tool, because the judge has none.
    let sim = judged(128_000, 30, 6, 9_000);
    let told = task_in(asked_to(&sim, Purpose::Judge));
    assert!(
        told.contains("characters left out]") && !told.contains("result_read"),
        "{told}"
    );
}

#[test]
fn requests_without_tools_name_no_tool_and_those_with_tools_do_e9_2() {
    let long = "word ".repeat(8_000);
    let sim = goal_with("look", &json!({}), equipment(), move |ask| {
        match (ask.purpose, task_named(ask).as_str()) {
            (Purpose::Decide, "look") => plan_answer(json!([
                {"id": "one", "title": "the first", "criteria": ["x"]},
                {"id": "two", "title": "the second", "criteria": ["x"]},
            ])),
            (Purpose::Decide, _) => execute(
                "finish",
                json!({"status": "ok", "notes": "x", "output": long, "criteria": [{"id": "c1", "met": true}]}),
            ),
            (Purpose::Aggregate, _) => text_answer(r#"{"status": "partial", "notes": "some"}"#),
            (Purpose::Replan, _) => text_answer(r#"{"root_cause": "x", "changes": "y", "give_up": true}"#),
            _ => finish("x"),
        }
    })
    .driven_on();
    let told = |purpose| task_in(asked_to(&sim, purpose));
    let aggregated = told(Purpose::Aggregate);
    assert!(
        aggregated.contains("characters left out]") && !aggregated.contains("result_read"),
        "{aggregated}"
    );
    assert!(aggregated.chars().count() > 14_000, "{}", aggregated.chars().count());
    let second = sim
        .asks
        .iter()
        .filter(|ask| ask.purpose == Purpose::Decide)
        .nth(2)
        .unwrap();
    assert!(
        task_in(second).contains("characters left out; use result_read node="),
        "{}",
        task_in(second)
    );
    assert!(task_in(second).chars().count() < 4_000);
}

/// A step after `before` long results, whose model calls a tool that gives as much until `tokens` are used.
fn stopped(tokens: u64, before: usize) -> Sim {
    let look = |n: usize| {
        let text = format!("{n} {}", "word ".repeat(1_600));
        json!({"id": format!("look{n}"), "do": {"tool": "echo", "args": {"text": text}}})
    };
    let mut steps: Vec<Value> = (0..before).map(look).collect();
    steps.push(json!({"id": "count", "title": "count the words", "budget": {"tokens": tokens}}));
    goal_with("look", &json!({"steps": steps}), equipment(), |ask| {
        let answer = match ask.purpose {
            Purpose::Decide => execute("echo", json!({"text": "done ".repeat(1_600)})),
            Purpose::Work => calls_answer(&[(
                "echo",
                json!({"text": format!("{} {}", ask.call, "done ".repeat(1_600))}),
            )]),
            _ => text_answer(r#"{"notes": "many words"}"#),
        };
        let ModelAnswer::Replied { reply, model, .. } = answer else {
            panic!("it answers")
        };
        let used = Some(ask.reserved);
        ModelAnswer::Replied { reply, used, model }
    })
    .driven_on()
}

#[test]
fn last_call_is_made_with_what_is_kept_of_a_limit_however_much_was_given_e9_10() {
    for tokens in [24_000, 37_000, 60_000, 120_000] {
        let sim = stopped(tokens, 20);
        let count = sim.run.node_at("count").unwrap().result.unwrap();
        assert_eq!(
            (count.stop_reason, count.notes.as_str()),
            (Some(StopReason::BudgetTokens), "many words"),
            "{tokens}"
        );
        let last = asked_to(&sim, Purpose::HandBack);
        assert!(task_in(last).contains("# Work done\n"), "{tokens}: {}", task_in(last));
        assert!(last.answer_tokens >= 256, "{tokens}: {}", last.answer_tokens);
    }
}

#[test]
fn last_call_of_a_task_with_room_reads_some_of_what_it_was_given_e9_10() {
    let sim = stopped(400_000, 20);
    let told = task_in(asked_to(&sim, Purpose::HandBack));
    let (given, done) = told.split_once("# Work done\n").unwrap();
    let given = given.split_once("# Earlier results\n").expect("some of it").1;
    assert!((500..5_000).contains(&given.chars().count()), "{given}");
    assert!(done.chars().count() > 10_000, "{done}");
}
