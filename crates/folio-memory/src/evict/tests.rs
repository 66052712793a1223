use crate::canonical::canonical;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::tokens::Estimate;

/// A tokenizer that knows words only, so that costs of parts do not add up as those of [`Estimate`] do.
#[derive(Debug)]
struct Words;

impl Tokens for Words {
    fn count(&self, text: &str) -> u32 {
        u32::try_from(
            text.split_whitespace()
                .map(|word| word.len().div_ceil(6))
                .sum::<usize>(),
        )
        .unwrap()
    }

    fn method(&self) -> String {
        "six letters to a token".to_owned()
    }
}

/// Counts three bytes as one token, so that expected texts do not depend on the estimate.
#[derive(Debug)]
struct Thirds;

impl Tokens for Thirds {
    fn count(&self, text: &str) -> u32 {
        u32::try_from(text.len().div_ceil(3)).unwrap()
    }

    fn method(&self) -> String {
        "three bytes to a token".to_owned()
    }
}

fn sampled(text: &str, limit: u32, piece: usize) -> Sample {
    let mut sampler = Sampler::new(limit);
    text.as_bytes().chunks(piece).for_each(|bytes| sampler.feed(bytes));
    sampler.finish()
}

fn shown(text: &str, limit: u32) -> Preview {
    preview(&sampled(text, limit, 1_000), "e42", limit, &Thirds)
}

/// Results of every kind and script that a tool may give.
fn results() -> impl Strategy<Value = String> {
    let scripts = [
        "word ",
        "größer ",
        "日本語の文章",
        "👩‍👩‍👧‍👦🇩🇪",
        "สวัสดี ",
        "e\u{301}u\u{308}",
        "{\"a\":[1,",
        "\t",
        "\u{0}",
    ];
    let text = prop::collection::vec(prop::sample::select(scripts.to_vec()), 0..400).prop_map(|words| words.concat());
    let line = prop_oneof![4 => "[a-z0-9 é日/:.-]{0,60}", 1 => "[a-z é日]{0,30} error: [a-zé日 ]{0,300}"];
    let lines = prop::collection::vec(line, 0..120).prop_map(|lines| lines.join("\n"));
    let one_line = "[a-zA-Z0-9+/]{0,3000}";
    prop_oneof![
        text,
        lines,
        one_line,
        json().prop_map(|value| value.to_string()),
        json().prop_map(|value| serde_json::to_string_pretty(&value).unwrap())
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "[a-zé日\"\\\\\n🙂 ]{0,80}".prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(5, 400, 40, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
            prop::collection::btree_map("[a-zé\"]{1,12}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::vec(tree, 0..30).prop_map(Value::from)
}

proptest! {
    #[test]
    fn preview_of_any_result_fits_its_token_limit_m7_8_v9(
        text in results(),
        limit in prop_oneof![0_u32..20, 20_u32..400, 400_u32..3_000],
        piece in 1_usize..300,
    ) {
        for tokens in [&Estimate as &dyn Tokens, &Words] {
            let sample = sampled(&text, limit, piece);
            prop_assert_eq!(sample.bytes(), text.len() as u64);
            prop_assert_eq!(sample.lines(), text.lines().count() as u64);
            let preview = preview(&sample, "e42", limit, tokens);
            prop_assert_eq!(preview.tokens, tokens.count(&preview.text));
            prop_assert!(preview.tokens <= limit, "{} of {limit}: {}", preview.tokens, preview.text);
            prop_assert!(!preview.text.contains('\u{fffd}'), "{}", preview.text);
            let whole = sample.whole_within(limit, tokens);
            prop_assert_eq!(whole.is_some(), text.len() <= Sampler::new(limit).room() && tokens.count(&text) <= limit);
        }
    }

    #[test]
    fn preview_is_independent_of_how_the_result_is_chunked_m7_8_v5(text in results(), a in 1_usize..300, b in 1_usize..300) {
        let of = |piece| preview(&sampled(&text, 200, piece), "e1", 200, &Estimate);
        prop_assert_eq!(of(a), of(b));
    }

    #[test]
    fn json_preview_is_valid_json_that_agrees_with_the_result_m7_8_v9(value in json(), limit in 200_u32..2_000) {
        let text = value.to_string();
        let sample = sampled(&text, limit, 64);
        let preview = preview(&sample, "e42", limit, &Estimate);
        let (notice, body) = preview.text.split_once('\n').unwrap_or((&preview.text, ""));
        prop_assert_eq!(sample.outline.is_some(), value.is_array() || value.is_object());
        match &sample.outline {
            // Its beginning and end are shown only if not even the least structure fits.
            Some(outline) if body.is_empty() || body.contains(" bytes left out …") => {
                let least = format!("{notice}\n{}", outline.render(*outline::DETAILS.last().unwrap()));
                prop_assert!(Estimate.count(&least) > limit, "{} for {least}", preview.text);
            }
            Some(_) => {
                let shown: Value = serde_json::from_str(body).unwrap();
                prop_assert!(agrees(&shown, &value), "{shown} of {value}");
            }
            None => prop_assert!(!notice.contains("structure"), "{notice}"),
        }
    }
}

/// Whether everything in `shown` agrees with `whole`.
fn agrees(shown: &Value, whole: &Value) -> bool {
    match (shown, whole) {
        (Value::Object(shown), Value::Object(whole)) => {
            let left_out = shown.get("…").and_then(Value::as_str);
            let missing = whole.len() - (shown.len() - usize::from(left_out.is_some()));
            left_out.map_or(missing == 0, |said| said == format!("{missing} keys"))
                && shown
                    .iter()
                    .filter(|(key, _)| *key != "…")
                    .all(|(key, value)| agrees(value, &whole[key]))
        }
        (Value::Array(shown), Value::Array(whole)) => {
            let is_mark = |item: &Value| {
                item.as_str()
                    .is_some_and(|text| text.starts_with("… ") && text.ends_with(" items"))
            };
            match shown.iter().position(is_mark) {
                None => shown.len() == whole.len() && shown.iter().zip(whole).all(|(a, b)| agrees(a, b)),
                Some(at) => {
                    let (head, tail) = (&shown[..at], &shown[at + 1..]);
                    let left_out = whole.len() - head.len() - tail.len();
                    shown[at] == format!("… {left_out} items")
                        && head.iter().zip(whole).all(|(a, b)| agrees(a, b))
                        && tail.iter().rev().zip(whole.iter().rev()).all(|(a, b)| agrees(a, b))
                }
            }
        }
        (Value::String(shown), Value::String(whole)) => {
            shown == whole || shown.split_once('…').is_some_and(|(start, _)| whole.starts_with(start))
        }
        (shown, whole) => shown == whole,
    }
}

#[test]
fn tiny_preview_limit_leaves_only_the_handle_or_nothing_m7_8_v9() {
    let text = "word ".repeat(10_000);
    let at = |limit| shown(&text, limit).text;
    assert_eq!(at(0), "");
    assert_eq!(at(1), "e42");
    assert_eq!(at(2), "e42");
    assert_eq!(at(7), "[e42 cut]");
    assert!(
        at(60).starts_with("[e42: 50000 bytes, cut; result_read reads them]\nword "),
        "{}",
        at(60)
    );
}

#[test]
fn text_preview_shows_whole_first_and_last_lines_m7_8_v9() {
    let text: String = (1..=2_000).map(|n| format!("line {n}: nothing special\n")).collect();
    assert_eq!(
        shown(&text, 90).text,
        "[e42: 52893 bytes, cut; result_read reads them]\n\
         line 1: nothing special\nline 2: nothing special\nline 3: nothing special\nline 4: nothing special\n\
         … 52744 bytes left out …\n\
         line 1999: nothing special\nline 2000: nothing special\n"
    );
}

#[test]
fn text_preview_shows_the_lines_between_that_report_a_failure_m7_8_v9() {
    let line = |n: u32| match n {
        700 => "\u{1b}[1m\u{1b}[31merror[E0308]\u{1b}[0m: mismatched types\n".to_owned(),
        701 => "  --> src/lib.rs:4:5\n".to_owned(),
        800..=900 => "error: the same again\n".to_owned(),
        1_500 => "test parses ... FAILED\n".to_owned(),
        _ => format!("line {n}: no errors here, 0 failed\n"),
    };
    let text: String = (1..=2_000).map(line).collect();
    assert_eq!(
        shown(&text, 240).text,
        "[e42: 69562 bytes in 2000 lines were put away. Its first and last lines follow; result_read {\"node\": \"e42\", \
         \"lines\": \"1-50\"} reads a part, also by \"from\" and \"to\" or \"search\".]\n\
         line 1: no errors here, 0 failed\nline 2: no errors here, 0 failed\n\
         line 3: no errors here, 0 failed\nline 4: no errors here, 0 failed\n\
         line 5: no errors here, 0 failed\nline 6: no errors here, 0 failed\n\
         … 69257 bytes left out …\n\
         lines that report a failure, 3 of 103:\n\
         700: error[E0308]: mismatched types\n\
         701: --> src/lib.rs:4:5\n\
         800: error: the same again\n\
         1500: test parses ... FAILED\n\
         …\n\
         line 1998: no errors here, 0 failed\nline 1999: no errors here, 0 failed\n\
         line 2000: no errors here, 0 failed\n"
    );
    // What the beginning or the end shows is not shown twice.
    let twice = format!("error: at the beginning\n{}error: at the end\n", "x\n".repeat(2_000));
    let preview = shown(&twice, 160).text;
    assert_eq!(preview.matches("error: at the ").count(), 2, "{preview}");
    assert!(!preview.contains("report a failure"), "{preview}");
}

#[test]
fn failures_come_before_what_stands_beside_them_m7_8_v9() {
    let line = |n: u32| match n {
        1_201 => "error[E0308]: mismatched types\n".to_owned(),
        2_001 => "test billing::parses ... FAILED\n".to_owned(),
        _ => format!("   Compiling crate_{n} v0.{n}\n"),
    };
    let text: String = (1..=3_000).map(line).collect();
    let preview = preview(&sampled(&text, 400, 1_000), "e42", 400, &Estimate).text;
    assert!(preview.contains("lines that report a failure, 2 of 2:\n"), "{preview}");
    assert!(
        preview.contains("1201: error") && preview.contains("2001: test"),
        "{preview}"
    );
}

#[test]
fn first_and_last_failures_of_many_are_shown_m7_8_v9() {
    let text: String = (1..=50_000)
        .map(|n| {
            if n % 10 == 0 {
                format!("fatal: number {n}\n")
            } else {
                format!("step {n}\n")
            }
        })
        .collect();
    let preview = shown(&text, 300).text;
    assert!(preview.contains(" of 5000:\n"), "{preview}");
    let numbers: Vec<u32> = preview
        .lines()
        .filter_map(|line| line.split_once(": fatal: number ")?.0.parse().ok())
        .collect();
    assert!(numbers.len() >= 4 && numbers.is_sorted(), "{preview}");
    assert!(numbers[0] < 100 && *numbers.last().unwrap() > 49_900, "{preview}");
}

#[test]
fn json_preview_keeps_keys_list_lengths_first_and_last_items_m7_8_v9() {
    let rows: Vec<Value> = (0..5_000)
        .map(|id| serde_json::json!({"id": id, "name": format!("row {id}"), "tags": ["a", "b"]}))
        .collect();
    let whole = serde_json::json!({"total": 5_000, "rows": rows, "note": "x".repeat(900)});
    let preview = shown(&canonical(whole).to_string(), 200);
    assert_eq!(
        preview.text,
        "[e42: 233713 bytes in one line were put away. Its structure follows; result_read {\"node\": \"e42\", \"from\": 0, \"to\": 4000} reads \
         a part, also by \"search\".]\n\
         {\"note\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (900 bytes)\",\
         \"rows\":[{\"id\":0,\"name\":\"row 0\",\"tags\":[\"a\",\"b\"]},{\"id\":1,\"name\":\"row 1\",\"tags\":[\"a\",\"b\"]},\
         {\"id\":2,\"name\":\"row 2\",\"tags\":[\"a\",\"b\"]},{\"id\":3,\"name\":\"row 3\",\"tags\":[\"a\",\"b\"]},\
         {\"id\":4,\"name\":\"row 4\",\"tags\":[\"a\",\"b\"]},\"… 4993 items\",{\"id\":4998,\"name\":\"row 4998\",\"tags\":[\"a\",\"b\"]},\
         {\"id\":4999,\"name\":\"row 4999\",\"tags\":[\"a\",\"b\"]}],\"total\":5000}"
    );
}

#[test]
fn json_preview_keeps_the_last_item_of_the_deepest_list_m7_8_v9() {
    let whole = format!(
        "{{\"deep\":[[[[[{{\"a\":1}},5,6]]]]],\"rest\":\"{}\"}}",
        "x".repeat(900)
    );
    let preview = shown(&whole, 200);
    let wanted = "{\"deep\":[[[[[\"… 2 items\",6]]]]],";
    assert!(preview.text.contains(wanted), "{}", preview.text);
}

#[test]
fn preview_of_one_long_line_is_cut_between_graphemes_m7_8_v9() {
    let family = "👩‍👩‍👧‍👦";
    let preview = shown(&family.repeat(500), 400);
    let (_, body) = preview.text.split_once('\n').unwrap();
    let (head, tail) = body.split_once("\n… ").unwrap();
    let (_, tail) = tail.split_once(" …\n").unwrap();
    assert!(!head.is_empty() && head.len() % family.len() == 0, "{head}");
    assert!(!tail.is_empty() && tail.len() % family.len() == 0, "{tail}");
}

#[test]
fn text_that_only_begins_like_json_gets_no_outline_m7_8_v9() {
    for text in [
        "{\"a\": 1}\n{\"a\": 2}\n",
        "[1, 2",
        "[1,, 2]",
        "{a: 1}",
        "{\"a\" 1}",
        "[1] and more",
        "\"x\"",
        "[tru]",
    ] {
        assert!(sampled(text, 100, 3).outline.is_none(), "{text}");
    }
    assert!(sampled(&"[".repeat(200), 100, 7).outline.is_none());
    assert!(sampled(" [ ] \n", 100, 1).outline.is_some());
}
