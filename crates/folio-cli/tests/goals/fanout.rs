//! `folio bench fanout`: decomposed questions run as plans, in order, and their answers come back.

use crate::support::Folio;
use serde_json::{Value, json};

fn question(id: &str, depends_on: &[&str], answer: Value, decomposition: Vec<Value>) -> Value {
    json!({"id": id, "question": format!("What about {{{{ {id} }}}} {{% x %}}?"), "depends_on": depends_on, "answer": answer,
        "decomposition": decomposition, "evidence": null})
}

#[test]
fn fanout_bench_answers_arrive_in_dependency_order() {
    let folio = Folio::new();
    let years = vec![
        question("c1", &[], json!(["1901", "1902"]), vec![]),
        question("c2", &[], json!(7), vec![]),
        question(
            "c3",
            &["c1", "c2"],
            json!({"1901": "{{ no template }}"}),
            vec![
                question("d1", &[], json!(true), vec![]),
                question("d2", &["d1"], json!(null), vec![]),
            ],
        ),
        question("c4", &["c3"], json!("four"), vec![]),
    ];
    let questions = json!([
        question("r", &[], json!({"x": 1.5}), years),
        question("alone", &[], json!("yes"), vec![])
    ]);
    folio.file("questions.json", questions.to_string());
    let found = folio.json(&["bench", "fanout", "questions.json"]);
    for (key, wanted) in [
        ("questions", json!(2)),
        ("refused", json!([])),
        ("plans", json!(4)),
        ("groups", json!(1)),
        ("dependencies", json!(4)),
        ("out_of_order", json!(0)),
        ("answers", json!(8)),
        ("wrong", json!([])),
    ] {
        assert_eq!(found[key], wanted, "{key}: {found}");
    }
}

#[test]
fn fanout_bench_refuses_cyclic_questions_and_runs_the_rest() {
    let folio = Folio::new();
    let circle = vec![
        question("a", &["b"], json!(1), vec![]),
        question("b", &["a"], json!(2), vec![]),
    ];
    let questions = json!([
        question("r", &[], json!(1), circle),
        question("s", &["elsewhere"], json!(2), vec![]),
        question(
            "t",
            &[],
            json!(3),
            vec![
                question("u", &[], json!(1), vec![]),
                question("u", &[], json!(2), vec![])
            ]
        ),
        question("v", &[], json!(4), vec![])
    ]);
    folio.file("questions.json", questions.to_string());
    let called = folio.call(&["bench", "fanout", "questions.json", "--json"]);
    let found: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!((called.code, &found["answers"]), (1, &json!(1)), "{found}");
    assert_eq!(
        found["refused"],
        json!([
            "question 1 has questions that wait for one another",
            "question 2 has a question that depends on \"elsewhere\", which is neither beside it nor before it",
            "question 3 has two questions with the id \"u\""
        ])
    );
    folio.file("none.json", "{}");
    let none = folio.call(&["bench", "fanout", "none.json"]);
    assert_eq!(none.code, 2);
    let said = "none.json is not a list of questions: invalid type: object, expected a list at line 1";
    assert!(none.stderr.contains(said), "{none}");
    folio.file("empty.json", "[]");
    let empty = folio.call(&["bench", "fanout", "empty.json"]);
    assert_eq!(empty.code, 2);
    assert!(empty.stderr.contains("empty.json has no questions"), "{}", empty.stderr);
}

#[test]
fn fanout_bench_handles_long_answers_and_null_lists() {
    let folio = Folio::new();
    let long = question("long", &[], json!("x".repeat(100_000)), vec![]);
    let reader = question("reader", &["long"], json!("short"), vec![]);
    // What is below something that waits may name what that waits for.
    let below = question(
        "below",
        &["long"],
        json!(1),
        vec![question("deep", &["long"], json!(2), vec![])],
    );
    let mut last = question("last", &[], json!(3), vec![]);
    (last["decomposition"], last["depends_on"]) = (Value::Null, Value::Null);
    let questions = json!([question("r", &[], json!("all"), vec![long, reader, below, last])]);
    folio.file("questions.json", questions.to_string());
    let found = folio.json(&["bench", "fanout", "questions.json"]);
    assert_eq!((&found["answers"], &found["wrong"]), (&json!(6), &json!([])), "{found}");
}
