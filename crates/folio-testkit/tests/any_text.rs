//! The fuzz targets without a fuzzer: the same bodies, on the texts in `fuzz/corpus`, on damaged versions of them, and
//! on texts combined from fragments that matter to the parsers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use folio_testkit::any_text;
use proptest::prelude::*;

const PIECES: &str = "([ \\n]|\\n- |\\n  - |\\n    |- \\[ \\] |\\[x\\] |\\[-\\] |\\{#a\\}|```yaml\\n|```|json\\n|: |, |,\\}|,\\]|\\{|\\}|\\[|\\]|\"|'|\\\\|\\{\\{ | \\}\\}|\
                      steps|id|do|plan|parallel|for_each|needs|&a |\\*a|\"decision\"|\"execute\"|\"action\"|\"reason\"|\"tool\"|finish|\"notes\"|true|null|-1e9|é|[a-c])";

fn pieces(most: usize) -> impl Strategy<Value = String> {
    let piece = proptest::string::string_regex(PIECES).unwrap();
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// The corpus of a target.
fn corpus(target: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = std::fs::read_dir(&folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let texts: Vec<String> = paths
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(
        texts.len() >= 3,
        "{} texts are kept in {}",
        texts.len(),
        folder.display()
    );
    texts
}

fn damaged(text: &str, at: prop::sample::Index, more: &str, gone: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = at.index(chars.len() + 1);
    let rest = &chars[(at + gone).min(chars.len())..];
    chars[..at]
        .iter()
        .copied()
        .chain(more.chars())
        .chain(rest.iter().copied())
        .collect()
}

#[test]
fn corpus_texts_are_parsed_without_panic_e9_1_e9_13() {
    for (target, body) in [
        ("plan", any_text::plan as fn(&str)),
        ("markdown", any_text::markdown),
        ("answer", |text| {
            any_text::answer(text);
            any_text::talk(text);
        }),
    ] {
        corpus(target).iter().for_each(|text| body(text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_parses_as_a_plan_or_yields_ordered_mistakes_e9_1(text in pieces(60)) {
        any_text::plan(&text);
        any_text::markdown(&text);
    }

    #[test]
    fn damaged_plan_parses_or_yields_ordered_mistakes_e9_1(
        nth: prop::sample::Index, at: prop::sample::Index, more in pieces(4), gone in 0..20_usize,
    ) {
        for target in ["plan", "markdown"] {
            let texts = corpus(target);
            any_text::markdown(&damaged(&texts[nth.index(texts.len())], at, &more, gone));
        }
    }

    #[test]
    fn model_answer_parsing_is_deterministic_e9_13(text in pieces(60)) {
        any_text::answer(&text);
    }

    #[test]
    fn run_ends_whatever_a_model_repeatedly_answers_e9_13(
        nth: prop::sample::Index, at: prop::sample::Index, more in pieces(4), gone in 0..20_usize, other in pieces(30),
    ) {
        let texts = corpus("answer");
        let text = damaged(&texts[nth.index(texts.len())], at, &more, gone);
        any_text::answer(&text);
        any_text::talk(&text);
        any_text::talk(&other);
    }
}
