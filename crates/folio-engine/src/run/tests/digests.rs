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

/// A list whose items have long notes and no output, and the prompt of the step after it.
fn after_a_list(chars: usize) -> (Sim, String) {
    let body = json!({"id": "room", "title": "look at {{ item }}"});
    let steps = json!([
        {"id": "each", "for_each": ["hall", "cellar"], "step": body},
        {"id": "sum", "title": "say it all"},
    ]);
    let long = "n".repeat(chars);
    let sim = goal_with("survey the house", &json!({"steps": steps}), equipment(), move |ask| {
        execute(
            "finish",
            json!({"notes": format!("{}: it is dry {long}", task_named(ask))}),
        )
    })
    .driven_on();
    let told = prompt_text(&sim, sim.asks.len() - 1);
    (sim, told)
}

#[test]
fn notes_of_items_without_output_reach_later_steps_and_can_be_read_e9_2() {
    let (sim, told) = after_a_list(10);
    assert!(
        told.contains("look at hall: it is dry") && told.contains("look at cellar: it is dry"),
        "{told}"
    );
    let (sim_long, told) = after_a_list(3_000);
    assert!(told.contains("characters left out; use result_read node="), "{told}");
    for (sim, chars) in [(&sim, 10), (&sim_long, 3_000)] {
        let notes = |room: &str| format!("look at {room}: it is dry {}", "n".repeat(chars));
        let readable = |path: &str| {
            let tree = sim.run.readable(sim.run.node_at(path).unwrap().id).unwrap();
            (*tree.value(&mut |output| Ok::<_, ()>(output.value().unwrap())).unwrap()).clone()
        };
        assert_eq!(readable("each"), json!([notes("hall"), notes("cellar")]));
        assert_eq!(readable("each/room[1]"), json!(notes("cellar")));
        // Templates see what the plan gives.
        assert_eq!(
            sim.run
                .given(sim.run.node_at("each").unwrap().id)
                .unwrap()
                .outputs()
                .len(),
            2
        );
    }
}

#[test]
fn long_notes_without_output_say_how_much_is_left_out_e9_2() {
    let extra = json!({"steps": [{"id": "look", "title": "look"}, {"id": "sum", "title": "say it all"}]});
    let sim = goal_with("survey the house", &extra, equipment(), |_| {
        execute("finish", json!({"notes": "wall ".repeat(600)}))
    })
    .driven_on();
    let told = prompt_text(&sim, sim.asks.len() - 1);
    let look = sim.run.node_at("look").unwrap().id;
    assert!(
        told.contains(&format!("characters left out; use result_read node={look}]")),
        "{told}"
    );
    assert!(told.matches("wall").count() > 180, "{told}");
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
