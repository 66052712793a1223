//! Regular expressions of plans: how many are compiled at the check, and how large one may be.

use folio_engine::plan::{Known, from_value, parse};
use serde_json::json;

/// Each takes milliseconds to compile, so that a plan of a mebibyte would take minutes.
#[test]
fn expressions_beyond_the_first_two_hundred_are_compiled_when_they_are_needed() {
    let criteria: Vec<_> = (0..300)
        .map(|n| json!({"check": {"regex": format!("(unclosed {n}")}}))
        .collect();
    let step = json!({"id": "a", "do": {"tool": "list"}, "criteria": criteria});
    let errors = from_value(&json!({"title": "x", "steps": [step]}), &Known::default()).unwrap_err();
    assert_eq!(errors.count(), 200);
    assert!(errors.listed.iter().all(|error| error.code == "P023"), "{errors}");
}

#[test]
fn expression_of_a_criterion_that_is_too_large_is_a_mistake() {
    let large = r"(\p{L}{1,60}){1,50}";
    let checks = [
        json!({"regex": large}),
        json!({"json_schema": {"schema": {"pattern": large}}}),
    ];
    for check in checks {
        let step = json!({"id": "a", "do": {"tool": "list"}, "criteria": [{ "check": check }]});
        let errors = from_value(&json!({"title": "x", "steps": [step]}), &Known::default()).unwrap_err();
        let codes: Vec<_> = errors.listed.iter().map(|error| error.code).collect();
        assert!(codes == ["P023"] || codes == ["P024"], "{codes:?}");
    }
}

#[test]
fn braces_of_another_program_are_reported_with_a_hint_to_mark_them_as_raw() {
    for description in ["use ${{ secrets.TOKEN }}", "run ${{ matrix.os }}-${{ a b }}"] {
        let plan = format!("title: t\nsteps: [{{id: a, title: b, description: '{description}'}}]");
        let errors = parse(&plan, &Known::default()).unwrap_err();
        let hint = errors.listed[0].hint.as_deref().unwrap_or_default();
        assert!(hint.contains("{% raw %}"), "{description}: {errors}");
    }
}
