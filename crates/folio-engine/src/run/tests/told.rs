//! What a model reads of its task: its text, with the results that it refers to, and its limits (E9.2).

use super::models::*;
use super::*;
use crate::talk::Purpose;

#[test]
fn a_model_in_a_written_plan_sees_the_results_before_it_and_gives_its_own_e9_2() {
    let mut sim = Sim::new(
        "version: 1\ntitle: t\nsteps:\n- {id: a, do: {tool: echo, args: {n: 7}}}\n- {id: b, title: think, description: \"about {{ results.a.output.n }}\"}\n- {id: c, do: {tool: echo, args: {x: \"{{ results.b.output.said }}\"}}}",
    );
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|ask| {
        assert!(ask.messages[1].text.contains("about 7"), "{}", ask.messages[1].text);
        execute("finish", json!({"notes": "thought", "output": {"said": "well"}}))
    });
    let sim = sim.driven_on();
    assert_eq!(sim.args("c"), json!({"x": "well"}));
}

#[test]
fn a_model_is_told_of_the_limits_that_its_task_has_e9_2() {
    let mut sim = Sim::new(
        "version: 1\ntitle: t\nsteps:\n- {id: free, title: think}\n- {id: tight, title: think less, budget: {tokens: 90000, model_calls: 3}}",
    );
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    let sim = sim.driven_on();
    let told: Vec<_> = sim.asks.iter().map(|ask| &ask.messages[1].text).collect();
    let [free, tight] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(!free.contains("Limits"), "{free}");
    let limits = r#"Budget, including all subtasks: {"model_calls":3,"tokens":90000}"#;
    assert!(tight.lines().any(|line| line == limits), "{tight}");
}

/// A plan in which `fetch` returns what `tool` returns for `args`, and a model reads `description`.
fn describing(args: &Value, description: &str) -> Sim {
    let plan = json!({"version": 1, "title": "t", "steps": [
        {"id": "fetch", "do": {"tool": "echo", "args": args}},
        {"id": "think", "title": "think", "description": description, "reason": "{{ results.fetch.status }}: {{ results.fetch.output }}"},
    ]});
    let mut sim = Sim::new(&plan.to_string());
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    sim.driven_on()
}

#[test]
fn of_a_result_that_a_text_names_a_model_has_the_two_ends_and_the_way_to_the_rest_e9_2() {
    let long = format!("BEGIN {} END", "middle ".repeat(20_000));
    let sim = describing(
        &json!({"text": long, "n": 7}),
        "Look at {{ results.fetch.output.text }} and at {{ results.fetch.output.n }}.",
    );
    let told = &sim.asks[0].messages[1].text;
    assert!(told.len() < 40_000, "{} bytes", told.len());
    for kept in [
        "Look at BEGIN middle",
        "middle  END and at 7.",
        "Why: ok: {\"n\":7,\"text\":\"BEGIN middle",
    ] {
        assert!(told.contains(kept), "{kept} is not in {told}");
    }
    assert_eq!(
        told.matches("characters left out; result_read returns full results]")
            .count(),
        2,
        "{told}"
    );
}

#[test]
fn of_many_results_that_a_text_puts_together_a_model_has_no_more_than_fits_e9_2() {
    let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} of the file")).collect();
    let sim = describing(
        &json!({"lines": lines}),
        "{% for line in results.fetch.output.lines %}{{ line }}\n{% endfor %}",
    );
    let told = &sim.asks[0].messages[1].text;
    assert!(told.len() < 50_000, "{} bytes", told.len());
    assert!(
        told.contains("line 0 of the file\nline 1 of") && told.contains("line 4999 of the file"),
        "{told}"
    );
}

#[test]
fn inputs_and_what_its_author_wrote_stand_in_whole_beside_a_long_result_e9_2() {
    let (letter, words) = ("a word ".repeat(5_000), "as it was written ".repeat(2_000));
    let plan = json!({"version": 1, "title": "t", "inputs": {"letter": "string"}, "steps": [
        {"id": "fetch", "do": {"tool": "echo", "args": {"text": "middle ".repeat(20_000)}}},
        {"id": "think", "title": "think", "description": format!("{words}{{{{ inputs.letter }}}} and {{{{ results.fetch.output.text }}}}")},
    ]});
    let mut sim = Sim::with_inputs(&plan.to_string(), json!({"letter": letter}));
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    let sim = sim.driven_on();
    let told = &sim.asks[0].messages[1].text;
    assert!(told.contains(&words) && told.contains(&letter), "{} bytes", told.len());
    assert!(told.len() < 100_000, "{} bytes", told.len());
}

#[test]
fn what_a_text_names_of_the_inputs_a_model_has_in_whole_e9_2() {
    let plan = "version: 1\ntitle: t\ninputs: {letter: string}\nsteps:\n- {id: think, title: think, description: \"{{ inputs.letter }}\"}";
    let letter = "a word ".repeat(10_000);
    let mut sim = Sim::with_inputs(plan, json!({"letter": letter}));
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    let sim = sim.driven_on();
    assert!(sim.asks[0].messages[1].text.contains(&letter));
}

#[test]
fn the_same_look_that_fails_is_made_twice_and_then_told_of_seed_000() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("fail", json!({"text": "x"})),
        Purpose::Work if ask.call < 5 => wants(&[("fail", json!({"text": "x"}))]),
        _ => finish("hello"),
    })
    .driven_on();
    assert_eq!(sim.calls.len(), 2, "{:?}", sim.calls);
    let told = &sim.asks.last().unwrap().messages;
    let refusal = "the same call failed 2 times and nothing has changed since";
    assert_eq!(told.iter().filter(|message| message.text.contains(refusal)).count(), 2);
    assert_eq!(root(&sim).status, Outcome::Partial, "nothing that was called went well");
}

#[test]
fn who_says_nothing_has_a_result_that_says_so_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => said(""),
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Partial);
    assert!(
        root(&sim).notes.contains("the model's answer was empty"),
        "{}",
        root(&sim).notes
    );
}
