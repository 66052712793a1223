//! What a model reads of its task: its text, with the results that it refers to, and its limits (E9.2).

use super::models::*;
use super::*;
use crate::talk::Purpose;

#[test]
fn model_step_reads_earlier_results_and_gives_its_own_output_e9_2() {
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
fn model_is_told_the_budget_of_its_task_e9_2() {
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
    assert!(!free.contains("Budget, including"), "{free}");
    let limits = "Budget, including all subtasks: model calls 3, tokens 90000";
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
fn long_result_in_a_prompt_keeps_only_both_ends_e9_2() {
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
fn results_joined_by_a_template_are_shortened_to_fit_e9_2() {
    let lines: Vec<String> = (0..5_000).map(|n| format!("line {n} of the file")).collect();
    let sim = describing(
        &json!({"lines": lines}),
        "{% for line in results.fetch.output.lines %}{{ line }}\n{% endfor %}",
    );
    let told = &sim.asks[0].messages[1].text;
    assert!(told.len() < 50_000, "{} bytes", told.len());
    assert!(
        told.contains("line 0 of the file\n  line 1 of") && told.contains("line 4999 of the file"),
        "{told}"
    );
}

#[test]
fn inputs_and_author_text_stay_whole_beside_a_long_result_e9_2() {
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
fn long_input_named_by_a_description_is_shown_whole_e9_2() {
    let plan = "version: 1\ntitle: t\ninputs: {letter: string}\nsteps:\n- {id: think, title: think, description: \"{{ inputs.letter }}\"}";
    let letter = "a word ".repeat(10_000);
    let mut sim = Sim::with_inputs(plan, json!({"letter": letter}));
    sim.run.equip(Arc::new(equipment()));
    sim.model = Arc::new(|_| finish("thought"));
    let sim = sim.driven_on();
    assert!(sim.asks[0].messages[1].text.contains(&letter));
}

#[test]
fn failing_read_is_repeated_once_and_then_refused_seed_000() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("fail", json!({"text": "x"})),
        Purpose::Work if ask.call < 5 => calls_answer(&[("fail", json!({"text": "x"}))]),
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
fn empty_model_answer_is_noted_in_the_result_e9_13() {
    let sim = goal("say hello", &json!({}), |ask| match ask.purpose {
        Purpose::Decide => execute("echo", json!({"text": "x"})),
        _ => text_answer(""),
    })
    .driven_on();
    assert_eq!(root(&sim).status, Outcome::Partial);
    assert_eq!(root(&sim).stop_reason, Some(StopReason::Unparseable));
    let asked = sim.asks.iter().filter(|ask| ask.purpose == Purpose::Work).count();
    assert_eq!(asked, 3, "it was asked twice more");
    assert!(
        root(&sim).notes.contains("the model's answer was empty"),
        "{}",
        root(&sim).notes
    );
}
