//! What a step sees of earlier results if there is not room for all of them (E9.2).

use super::models::*;
use super::*;
use crate::talk::Purpose;

/// What the last of `steps` consecutive steps sees of the results before it, with a model window of 4,096 tokens.
fn told_to_the_last(steps: usize) -> String {
    let mut small = equipment();
    for model in [&mut small.planner, &mut small.executor] {
        model.window = 4_096;
        model.answer_tokens = 400;
    }
    small.tools.clear();
    let step = |n: usize| json!({"id": format!("s{n}"), "title": format!("look at room {n}")});
    let steps: Vec<Value> = (1..=steps).map(step).collect();
    let sim = goal_with("survey the house", &json!({"steps": steps}), small, |ask| {
        let notes = format!("{} is dry", task_named(ask));
        match ask.purpose {
            Purpose::Decide => execute("finish", json!({"notes": notes})),
            _ => finish(&notes),
        }
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Ok, "{}", root(&sim).notes);
    let told = prompt_text(&sim, sim.asks.len() - 1);
    let at = told.find("# Earlier results").expect("it is told of results");
    told[at..].to_owned()
}

#[test]
fn prompt_shows_the_nearest_results_and_only_names_the_others_e9_2() {
    let told = told_to_the_last(17);
    for n in 3..=16 {
        assert!(
            told.contains(&format!("s{n} (ok) look at room {n}: look at room {n} is dry")),
            "{n}: {told}"
        );
    }
    assert!(!told.contains("s2 (ok)"), "{told}");
    let named = "- 2 earlier results; read them by name with result_read: s1, s2\n";
    assert!(told.contains(named), "{told}");
    // Of as many as there is room for each is told.
    let told = told_to_the_last(16);
    assert!(told.contains("s1 (ok)") && !told.contains("earlier results;"), "{told}");
}
