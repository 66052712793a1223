use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{compute, summarize_result};
use crate::response::FailureKind;

const BYTES_MAX: usize = 1_000_000;

fn run_ok(args: Value) -> Value {
    compute(&args, BYTES_MAX, &CancellationToken::new()).unwrap_or_else(|error| panic!("{}", error.message))
}

fn run_error(args: Value) -> String {
    compute(&args, BYTES_MAX, &CancellationToken::new())
        .unwrap_err()
        .message
}

fn files() -> Value {
    json!([
        {"path": "b.rs", "bytes": 20, "info": {"lang": "Rust"}},
        {"path": "a.py", "bytes": 100, "info": {"lang": "Python"}},
        {"path": "c.rs", "bytes": 20.5, "info": {"lang": "Rust"}},
        {"path": "d", "bytes": 3},
    ])
}

#[test]
fn text_template_renders_data_and_value_without_escaping() {
    assert_eq!(
        run_ok(json!({
            "op": "template",
            "template": "{{ title }}:\n{% for f in value %}- {{ f.path }} ({{ f.bytes }})\n{% endfor %}{{ value[0] }}\n",
            "data": {"title": "Files"},
            "value": [{"path": "a", "bytes": 1}],
        })),
        "Files:\n- a (1)\n{\"bytes\":1,\"path\":\"a\"}\n"
    );
    assert_eq!(
        run_ok(json!({"op": "template", "template": "<{{ x }}>", "data": {"x": "<&>"}})),
        "<<&>>"
    );
    assert_eq!(
        run_ok(json!({"op": "template", "template": "{{ x }} {{ [x] }}", "data": {"x": true}})),
        "true [true]"
    );
}

#[test]
fn template_intermediate_values_and_expression_length_are_limited() {
    let doubled = format!(
        "{{% set x = 'a' %}}{}{{{{ x|length }}}}",
        "{% set x = x ~ x %}".repeat(40)
    );
    for bomb in [
        "{{ ('a\n' * 100000)|indent(100000)|length }}",
        "{{ '%0999999999d'|format(1)|length }}",
        "{{ ('a' * 100000)|replace('a', 'b' * 100000)|length }}",
        "{{ range(100000)|join('a' * 100000)|length }}",
        "{{ ([0] * 99999999)|list|length }}",
        doubled.as_str(),
    ] {
        let told = run_error(json!({"op": "template", "template": bomb}));
        assert!(
            told.contains("intermediate texts and lists are too long"),
            "{bomb}: {told}"
        );
    }
    let told =
        run_error(json!({"op": "filter", "value": [1], "where": "('a' * 99999)|replace('', 'b' * 99999) == ''"}));
    assert!(told.contains("intermediate texts and lists are too long"), "{told}");
    // The language reads an expression by recursion.
    let long = format!("{{{{ {}1 }}}}", "-".repeat(20_000));
    assert!(run_error(json!({"op": "template", "template": long})).contains("pieces in one expression"));
}

#[test]
fn template_errors_name_the_line_and_the_cause() {
    assert_eq!(
        run_error(json!({"op": "template", "template": "a\n{{ nope }}"})),
        "text template: cannot be filled in: line 2: `nope` is undefined"
    );
    assert!(run_error(json!({"op": "template", "template": "{% if"})).contains("syntax error"));
    assert_eq!(
        run_error(
            json!({"op": "template", "template": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"})
        ),
        "text template: cannot be filled in: it takes too many steps"
    );
    assert_eq!(
        run_error(json!({"op": "template"})),
        "text template: `template` is missing"
    );
    let long = "{% for a in range(99999) %}0123456789 0123456789{% endfor %}";
    assert!(run_error(json!({"op": "template", "template": long})).contains("more than 1000000 bytes"));
}

#[test]
fn text_notes_use_singular_and_plural_units() {
    for (value, note) in [
        (json!("x"), "1 character"),
        (json!([1]), "1 item"),
        (json!({"a": 1}), "1 field"),
        (json!([]), "0 items"),
    ] {
        assert_eq!(summarize_result(&value), note);
    }
}

#[test]
fn text_count_counts_characters_words_bytes_lines_items_and_fields() {
    assert_eq!(run_ok(json!({"op": "count", "value": [1, 2]})), 2);
    assert_eq!(run_ok(json!({"op": "count", "value": {"a": 1}})), 1);
    assert_eq!(run_ok(json!({"op": "count", "value": "zwei Wörter\n"})), 12);
    assert_eq!(
        run_ok(json!({"op": "count", "value": "zwei Wörter\n", "of": "words"})),
        2
    );
    assert_eq!(
        run_ok(json!({"op": "count", "value": "zwei Wörter\n", "of": "bytes"})),
        13
    );
    assert_eq!(run_ok(json!({"op": "count", "value": "a\nb", "of": "lines"})), 2);
    assert_eq!(run_ok(json!({"op": "count"})), 0);
    assert_eq!(
        run_error(json!({"op": "count", "value": 3})),
        "text count: `value` is a text, a list or an object, not a number"
    );
}

#[test]
fn text_split_lines_join_concat_and_slice_return_expected_values() {
    assert_eq!(
        run_ok(json!({"op": "split", "value": "a, b", "by": ", "})),
        json!(["a", "b"])
    );
    assert_eq!(run_ok(json!({"op": "split", "value": " a  b\n"})), json!(["a", "b"]));
    assert_eq!(run_ok(json!({"op": "lines", "value": "a\r\nb\n"})), json!(["a", "b"]));
    assert_eq!(
        run_ok(json!({"op": "join", "value": ["a", 1, {"b": 2}], "by": "|"})),
        "a|1|{\"b\":2}"
    );
    assert_eq!(run_ok(json!({"op": "concat", "values": ["a", null, "b", 1]})), "ab1");
    assert_eq!(
        run_ok(json!({"op": "concat", "value": [[1], null, [2, 3]]})),
        json!([1, 2, 3])
    );
    assert!(run_error(json!({"op": "concat", "value": [[1], "x"]})).contains("one is a string"));
    assert_eq!(
        run_ok(json!({"op": "slice", "value": "häuser", "from": 1, "to": 3})),
        "äu"
    );
    assert_eq!(
        run_ok(json!({"op": "slice", "value": [1, 2, 3], "from": 2, "to": 1})),
        json!([])
    );
    assert_eq!(
        run_error(json!({"op": "split", "value": "a", "by": ""})),
        "text split: `by` is empty"
    );
}

#[test]
fn text_head_tail_keeps_both_ends_and_counts_omitted_items() {
    assert_eq!(
        run_ok(json!({"op": "head_tail", "value": [1, 2, 3, 4, 5], "head": 1, "tail": 2})),
        json!({"head": [1], "tail": [4, 5], "left_out": 2})
    );
    assert_eq!(
        run_ok(json!({"op": "head_tail", "value": "a\nb\nc\nd", "head": 1, "tail": 1})),
        "a\n… 2 lines left out …\nd"
    );
    assert_eq!(
        run_ok(json!({"op": "head_tail", "value": "a\nb\n", "head": 1, "tail": 1})),
        "a\nb\n"
    );
}

#[test]
fn text_sort_top_and_unique_by_field_put_missing_values_last() {
    let paths = |args: Value| {
        let mut args = args;
        args["value"] = files();
        let sorted = run_ok(args);
        let paths: Vec<String> = sorted
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["path"].as_str().unwrap().to_owned())
            .collect();
        paths.join(" ")
    };
    assert_eq!(paths(json!({"op": "sort", "by": "bytes"})), "d b.rs c.rs a.py");
    assert_eq!(paths(json!({"op": "sort", "by": "info.lang"})), "a.py b.rs c.rs d");
    assert_eq!(
        paths(json!({"op": "sort", "by": "info.lang", "desc": true})),
        "b.rs c.rs a.py d"
    );
    assert_eq!(paths(json!({"op": "top", "by": "bytes", "n": 2})), "a.py c.rs");
    assert_eq!(paths(json!({"op": "unique", "by": "info.lang"})), "b.rs a.py d");
    assert_eq!(
        run_ok(json!({"op": "sort", "value": [3, "a", null, [1], 2.5, true]})),
        json!([null, true, 2.5, 3, "a", [1]])
    );
}

#[test]
fn text_filter_keeps_items_by_expression_or_field() {
    let kept = |args: Value| {
        let mut args = args;
        args["op"] = json!("filter");
        args["value"] = files();
        run_ok(args).as_array().unwrap().len()
    };
    assert_eq!(
        kept(json!({"where": "item.bytes > 20 and item.path is endingwith('.rs') or index == 4"})),
        2
    );
    assert_eq!(
        kept(json!({"where": "item.info is defined and item.info.lang == wanted", "data": {"wanted": "Rust"}})),
        2
    );
    assert_eq!(kept(json!({"field": "info.lang", "equals": "Rust"})), 2);
    assert_eq!(kept(json!({"field": "bytes", "equals": 20.0})), 1);
    assert_eq!(kept(json!({"field": "path", "in": ["d", "b.rs"]})), 2);
    assert_eq!(kept(json!({"field": "path", "matches": r"\.(rs|py)$"})), 3);
    assert!(run_error(json!({"op": "filter", "value": []})).contains("give one of"));
    assert!(run_error(json!({"op": "filter", "value": [], "field": "x", "matches": "("})).contains("unclosed group"));
    assert!(run_error(json!({"op": "filter", "value": [1], "where": "1 +"})).contains("syntax error"));
}

#[test]
fn text_map_returns_fields_objects_or_rendered_templates() {
    assert_eq!(
        run_ok(json!({"op": "map", "value": files(), "field": "info.lang"})),
        json!(["Rust", "Python", "Rust", null])
    );
    assert_eq!(
        run_ok(json!({"op": "map", "value": [{"a": 1, "b": 2, "c": 3}], "fields": ["a", "c"]})),
        json!([{"a": 1, "c": 3}])
    );
    assert_eq!(
        run_ok(
            json!({"op": "map", "value": ["x", "y"], "template": "{{ index }}{{ sign }} {{ item }}", "data": {"sign": "."}})
        ),
        json!(["1. x", "2. y"])
    );
    let one_megabyte = "{% for i in range(1000) %}{{ item }}{% endfor %}";
    let items = vec!["x".repeat(100); 20];
    assert!(
        run_error(json!({"op": "map", "value": items, "template": one_megabyte})).contains("the text is more than")
    );
}

#[test]
fn text_group_count_orders_groups_by_descending_count() {
    assert_eq!(
        run_ok(json!({"op": "group_count", "value": files(), "by": "info.lang"})),
        json!([{"key": "Rust", "count": 2}, {"key": null, "count": 1}, {"key": "Python", "count": 1}])
    );
    assert_eq!(
        run_ok(json!({"op": "group_count", "value": ["b", "a", "b"]})),
        json!([{"key": "b", "count": 2}, {"key": "a", "count": 1}])
    );
}

#[test]
fn text_sum_adds_numbers_and_reports_overflow_and_non_numbers() {
    assert_eq!(run_ok(json!({"op": "sum", "value": files(), "by": "bytes"})), 143.5);
    assert_eq!(run_ok(json!({"op": "sum", "value": [1, null, -3]})), -2);
    assert_eq!(run_ok(json!({"op": "sum", "value": [u64::MAX, -1]})), u64::MAX - 1);
    assert_eq!(run_ok(json!({"op": "sum"})), 0);
    assert_eq!(
        run_error(json!({"op": "sum", "value": [1, "2"]})),
        "text sum: item 2 holds a string, not a number"
    );
    assert_eq!(
        run_error(json!({"op": "sum", "value": [u64::MAX, u64::MAX]})),
        "text sum: the sum is too large for a number"
    );
    assert_eq!(
        run_error(json!({"op": "sum", "value": [1e308, 1e308]})),
        "text sum: the sum is too large for a number"
    );
}

#[test]
fn text_json_parse_returns_the_value_or_explains_the_error() {
    assert_eq!(
        run_ok(json!({"op": "json_parse", "value": "{\"a\": [1]}"})),
        json!({"a": [1]})
    );
    assert!(run_error(json!({"op": "json_parse", "value": "{"})).starts_with("text json_parse: this is not JSON: EOF"));
    assert!(
        compute(
            &json!({"op": "json_parse", "value": "[".repeat(100_000)}),
            BYTES_MAX,
            &CancellationToken::new()
        )
        .is_err()
    );
}

#[test]
fn text_echo_returns_its_value_unchanged() {
    assert_eq!(
        run_ok(json!({"op": "echo", "value": {"a": [1, 2]}})),
        json!({"a": [1, 2]})
    );
    assert_eq!(run_ok(json!({"op": "echo"})), Value::Null);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c.0]{0,2}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_op() -> impl Strategy<Value = &'static str> {
    let ops: Vec<&'static str> = super::OPS.iter().map(|(op, _)| *op).collect();
    prop::sample::select(ops)
}

proptest! {
    #[test]
    fn text_operations_never_panic_on_arbitrary_arguments(
        op in any_op(),
        value in any_value(),
        other in any_value(),
        by in prop::option::of(".{0,4}"),
        template in "[{}%a-z .|()\\[\\]0-9~*\"äß-]{0,40}",
        n in 0_u64..5,
        choice in 0_u8..6,
    ) {
        let mut args = json!({"op": op, "value": value, "by": by, "template": template, "n": n, "head": n, "tail": n, "from": n, "to": 3});
        match choice {
            0 => args["where"] = json!(template),
            1 => args["matches"] = json!(template),
            2 => args["in"] = json!([other]),
            3 => args["field"] = json!(by),
            4 => args["fields"] = json!([by]),
            _ => args["values"] = json!([other, value]),
        }
        // What counts is that it comes back.
        let result = compute(&args, BYTES_MAX, &CancellationToken::new());
        prop_assert!(result.is_ok() || result.is_err_and(|error| !error.message.is_empty()));
    }

    #[test]
    fn text_sort_is_idempotent_and_keeps_the_item_count(items in prop::collection::vec(any_value(), 0..12)) {
        let sorted = run_ok(json!({"op": "sort", "value": items}));
        let again = run_ok(json!({"op": "sort", "value": sorted}));
        prop_assert_eq!(&sorted, &again);
        prop_assert_eq!(sorted.as_array().unwrap().len(), items.len());
    }

    #[test]
    fn text_split_and_join_round_trip(text in ".{0,60}", by in "[a-z,;]{1,2}") {
        let parts = run_ok(json!({"op": "split", "value": text, "by": by}));
        prop_assert_eq!(run_ok(json!({"op": "join", "value": parts, "by": by})), text);
    }
}

#[test]
fn json_parse_keeps_oversized_integers_as_strings() {
    assert_eq!(
        run_ok(json!({"op": "json_parse", "value": "{\"id\": 12345678901234567890123, \"n\": [1, 1e3]}"})),
        json!({"id": "12345678901234567890123", "n": [1, 1e3]})
    );
    let why = run_error(json!({"op": "json_parse", "value": "{\"id\": 12345678901234567890123"}));
    assert!(why.contains("column 30"), "{why}");
}

#[test]
fn text_filter_equals_null_matches_null_fields() {
    let value = json!([{"a": null, "n": 1}, {"a": 1}, {"b": 2}]);
    assert_eq!(
        run_ok(json!({"op": "filter", "value": value, "field": "a", "equals": null})),
        json!([{"a": null, "n": 1}])
    );
    assert_eq!(
        run_ok(json!({"op": "filter", "value": value, "field": "a", "equals": null, "in": [1]})),
        json!([{"a": 1}])
    );
}

#[test]
fn text_operations_stop_at_the_output_limit_instead_of_building_more() {
    let items: Vec<Value> = (0..20_000).map(Value::from).collect();
    let names: Vec<String> = (0..20_000).map(|at| format!("name-{at}")).collect();
    let nested = json!({"a": {"a": {"a": "x".repeat(400_000)}}});
    for (args, made) in [
        (
            json!({"op": "join", "value": items, "by": "x".repeat(BYTES_MAX)}),
            "text",
        ),
        (
            json!({"op": "join", "value": ["x".repeat(BYTES_MAX), "y"], "by": ""}),
            "text",
        ),
        (json!({"op": "concat", "values": ["x".repeat(BYTES_MAX), "y"]}), "text"),
        (json!({"op": "map", "value": items, "fields": names}), "list"),
        (
            json!({"op": "map", "value": [nested], "fields": ["a", "a.a", "a.a.a"]}),
            "list",
        ),
        (json!({"op": "map", "value": vec![nested; 3], "field": "a"}), "list"),
        (
            json!({"op": "split", "value": ",".repeat(BYTES_MAX / 2), "by": ","}),
            "list",
        ),
        (json!({"op": "lines", "value": "\n".repeat(BYTES_MAX / 2)}), "list"),
    ] {
        let told = run_error(args.clone());
        let op = args["op"].as_str().unwrap();
        assert_eq!(told, format!("text {op}: the {made} is more than {BYTES_MAX} bytes"));
    }
    // What just fits is made.
    let halves = json!(["x".repeat(BYTES_MAX / 2), "y".repeat(BYTES_MAX / 2 - 1)]);
    let joined = run_ok(json!({"op": "join", "value": halves, "by": ","}));
    assert_eq!(joined.as_str().unwrap().len(), BYTES_MAX);
}

#[test]
fn text_operations_end_between_items_when_cancelled() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    for args in [
        json!({"op": "map", "value": [1], "template": "{{ item }}"}),
        json!({"op": "filter", "value": [1], "where": "item == 1"}),
        json!({"op": "filter", "value": [1], "in": [1]}),
        json!({"op": "filter", "value": [1], "matches": "1"}),
        json!({"op": "map", "value": [1], "fields": ["a"]}),
    ] {
        let error = compute(&args, BYTES_MAX, &cancel).unwrap_err();
        assert_eq!(error.kind, FailureKind::Cancelled, "{args}");
    }
}
