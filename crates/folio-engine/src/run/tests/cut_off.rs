//! How replies are read that were cut off (E9.13).

use std::cell::Cell;

use super::models::*;
use super::replies::{claimed, count, output_of, plan_in_four};
use super::*;
use crate::talk::{Purpose, Reply, Stop};

/// An answer that reached its limit.
fn cut_off(text: &str) -> ModelAnswer {
    reply_answer(Reply {
        text: text.to_owned(),
        calls: Vec::new(),
        stop: Stop::Length,
        permissions: Vec::new(),
    })
}

/// `whole` up to `gone`.
fn before<'t>(whole: &'t str, gone: &str) -> &'t str {
    &whole[..whole.find(gone).unwrap()]
}

#[test]
fn truncated_plan_is_asked_for_again_with_more_tokens_e9_13() {
    let (reason, steps) = (r#""reason":"it has parts""#, r#""steps":"#);
    // Written by hand, so that its keys stand where the text is cut.
    let step = |id: &str| format!(r#"{{"criteria":["x"],"id":"{id}","title":"{id} of the fence"}}"#);
    let four = ["posts", "boards", "paint", "gate"].map(step).join(",");
    let whole = format!(
        r#"{{"decision":"plan",{reason},"low_complexity":false,"resources_available":true,"criteria_testable":true,{steps}[{four}]}}"#
    );
    for gone in [
        r#"{"criteria":["x"],"id":"paint""#,
        "nt of the fence",
        ",{\"criteria\":[\"x\"],\"id\":\"gate\"",
    ] {
        let part = before(&whole, gone).to_owned();
        let text = whole.clone();
        let always = part.clone();
        let decide = move |ask: &AskAction, part: &str| match ask.purpose {
            Purpose::Decide if task_named(ask) == "build the fence" => cut_off(part),
            Purpose::Decide => execute("echo", json!({})),
            Purpose::Work => claimed("done"),
            _ => text_answer(r#"{"notes": "all of it"}"#),
        };
        // The second time there is room for all of it.
        let sim = goal("build the fence", &json!({}), move |ask| match ask.call {
            2 if task_named(ask) == "build the fence" => text_answer(&text),
            _ => decide(ask, &part),
        })
        .driven_on();
        assert_eq!(sim.run.steps(NodeId::root(sim.run.id())).len(), 4, "{gone}");
        let of_goal = sim.asks.iter().filter(|ask| task_named(ask) == "build the fence");
        let room: Vec<u32> = of_goal.map(|ask| ask.answer_tokens).collect();
        assert_eq!(room, [1_000, 2_000, 2_000], "once it needed more, it gets more");
        assert_eq!(root(&sim).status, Outcome::Ok);

        let sim = goal("build the fence", &json!({}), move |ask| decide(ask, &always)).driven_on();
        assert_eq!((count(&sim, "rejected"), count(&sim, "planned")), (2, 0), "{gone}");
        let read = prompt_text(&sim, 1);
        assert!(
            read.contains("cut off inside `steps`; the answer reached its limit"),
            "{read}"
        );
    }
}

#[test]
fn truncated_output_is_dropped_from_the_result_e9_13() {
    let sim = |answer: fn(&str) -> ModelAnswer| {
        goal("build the fence", &json!({}), move |ask| match ask.purpose {
            Purpose::Decide if task_named(ask) == "build the fence" => text_answer(&plan_in_four()),
            Purpose::Decide => execute("echo", json!({})),
            Purpose::Work => claimed("done"),
            _ => answer(r#"{"status":"ok","notes":"all items follow","output":[{"item":1},{"item":2},{"item":3"#),
        })
        .driven_on()
    };
    // Whether or not whoever answered knows that it was cut off.
    for sim in [sim(cut_off), sim(text_answer)] {
        let result = root(&sim);
        assert_eq!(
            (result.status, result.stop_reason, output_of(result)),
            (Outcome::Partial, Some(StopReason::Unparseable), Value::Null)
        );
        assert!(result.notes.contains("posts (ok)"), "{}", result.notes);
    }
}

#[test]
fn truncated_judge_verdicts_are_not_used_e9_6() {
    let extra = json!({"criteria": ["it stands", "it is red"]});
    let whole =
        r#"{"verdicts":[{"criterion":"c1","finding":"met"},{"criterion":"c2","finding":"unmet","gap":"blue"}]}"#;
    let model = |room: u32| {
        move |ask: &AskAction| match ask.purpose {
            Purpose::Decide => execute("echo", json!({})),
            Purpose::Work => finish("built"),
            _ if ask.answer_tokens > room => text_answer(whole),
            _ => cut_off(before(whole, r#"","gap""#)),
        }
    };
    let sim = goal("build the fence", &extra, model(1_500)).driven_on();
    assert_eq!(root(&sim).verdicts[1].finding, Finding::Unmet("blue".to_owned()));
    let sim = goal("build the fence", &extra, model(5_000)).driven_on();
    assert_eq!(root(&sim).status, Outcome::Partial);
    let unread = Finding::Unverifiable("the judge's answer could not be read".to_owned());
    assert_eq!(root(&sim).verdicts.len(), 2);
    assert!(root(&sim).verdicts.iter().all(|verdict| verdict.finding == unread));
}

#[test]
fn reply_truncated_in_the_middle_of_a_text_is_partial_e9_13() {
    const CUT: &str = r#"{"status":"ok","notes":"the posts stand, the bo"#;
    let model = |answer: fn(&str) -> ModelAnswer, text: &'static str| {
        move |ask: &AskAction| match ask.purpose {
            Purpose::Decide if task_named(ask) == "build the fence" => text_answer(&plan_in_four()),
            Purpose::Decide => execute("echo", json!({})),
            Purpose::Work => claimed("done"),
            _ => answer(text),
        }
    };
    // At its limit, or where the model says that it is done.
    for answer in [cut_off, text_answer] {
        let sim = goal("build the fence", &json!({}), model(answer, CUT)).driven_on();
        assert_eq!(count(&sim, "rejected"), 1);
        assert_eq!(
            (root(&sim).status, root(&sim).stop_reason),
            (Outcome::Partial, Some(StopReason::Unparseable))
        );
        assert_eq!(
            root(&sim).notes,
            "the posts stand, the bo (the answer was cut off; this is what it held up to there)"
        );
    }
    // Who only forgot a bracket is not asked again.
    let unclosed = r#"{"status":"ok","notes":"the posts stand""#;
    let sim = goal("build the fence", &json!({}), model(text_answer, unclosed)).driven_on();
    assert_eq!((count(&sim, "rejected"), root(&sim).status), (0, Outcome::Ok));
    assert!(root(&sim).notes.contains("Folio closed it"), "{}", root(&sim).notes);
}

#[test]
fn finish_written_as_a_text_that_was_cut_off_is_asked_for_again_e9_13() {
    const CUT: &str = r#"{"status":"ok","notes":"I changed a.txt and b"#;
    let whole = r#"{"status":"ok","notes":"I changed a.txt and b.txt"}"#;
    let model = |then: &'static str| {
        let is_first = Cell::new(true);
        let answers = move |ask: &AskAction| match ask.purpose {
            Purpose::Decide => execute("echo", json!({})),
            _ => text_answer(if is_first.replace(false) { CUT } else { then }),
        };
        goal("change both", &json!({}), answers).driven_on()
    };
    let sim = model(whole);
    assert_eq!((count(&sim, "rejected"), root(&sim).status), (1, Outcome::Ok));
    assert_eq!(root(&sim).notes, "I changed a.txt and b.txt");
    let sim = model(CUT);
    assert_eq!(
        (root(&sim).status, root(&sim).stop_reason),
        (Outcome::Partial, Some(StopReason::Unparseable))
    );
}

#[test]
fn truncated_first_call_of_a_decision_is_not_made_e9_13() {
    let whole = r#"{"decision":"execute","reason":"r","low_complexity":true,"resources_available":true,"criteria_testable":true,"action":{"tool":"write","args":{"text":"#;
    let sim = goal("say hello", &json!({}), move |ask| match ask.purpose {
        Purpose::Decide => cut_off(&format!("{whole}\"half of it")),
        _ => finish("hello"),
    })
    .driven_on();
    assert!(sim.calls.is_empty(), "{:?}", sim.calls);
}
