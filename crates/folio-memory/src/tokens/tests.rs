//! Counts, and the estimate beside them.

use proptest::prelude::*;

use super::*;

fn o200k(text: &str) -> u32 {
    Vocabulary::O200k.count(text)
}

#[test]
fn token_counts_match_the_openai_tokenizer_m7_8_v3() {
    // The counts of OpenAI's own tokenizer.
    for (text, o200k, cl100k) in [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("2026-01-01T00:00:00Z", 13, 13),
        ("<|endoftext|>", 7, 7),
    ] {
        assert_eq!(Vocabulary::O200k.count(text), o200k, "{text:?}");
        assert_eq!(Vocabulary::Cl100k.count(text), cl100k, "{text:?}");
    }
}

#[test]
fn token_counter_is_chosen_by_the_model_name_m7_8_v3() {
    for (model, method) in [
        ("gpt-4o", "o200k_base"),
        ("openai:gpt-5.1-mini", "o200k_base"),
        ("openai/o3", "o200k_base"),
        ("ft:gpt-4o:my-org::abc123", "o200k_base"),
        ("openai+http://127.0.0.1:8080/v1:gpt-4.1", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("anthropic:claude-sonnet-4-5", "o200k_base × 1.2, estimated"),
        ("google/gemini-2.5-pro", "o200k_base × 1.1, estimated"),
        (
            "ollama:llama3.2",
            "o200k_base × 1.15, more for digits and other scripts, estimated",
        ),
        ("", "estimated"),
    ] {
        assert_eq!(for_model(model).method(), method, "{model}");
    }
    let text = "five words are not enough";
    assert_eq!(for_model("claude").count(text), (o200k(text) * 12).div_ceil(10));
}

#[test]
fn likely_count_of_prose_and_code_is_at_most_a_quarter_more_m7_8_v3() {
    for text in [
        include_str!("../../../../ARCHITECTURE.md"),
        include_str!("../../../../docs/goals.md"),
        include_str!("../context/mod.rs"),
        include_str!("../../../../clients/python/tools/shapes.py"),
        include_str!("../../../../docs/openapi.json"),
    ] {
        let start = &text[..text.floor_char_boundary(60)];
        for vocabulary in [Vocabulary::O200k, Vocabulary::Cl100k] {
            let (likely, exact) = (Likely.count(text), vocabulary.count(text));
            assert!(
                likely >= exact && likely * 4 <= exact * 5,
                "{likely} for {exact}: {start}"
            );
        }
    }
}

#[test]
fn likely_count_holds_where_vocabularies_differ_m7_8_v3() {
    let base64 = "TW9kZWxzIGNvdW50IHRva2Vucywgc29tZSBtb3JlIHRoYW4gb3RoZXJz".repeat(8);
    for text in [
        "今日は良い天気です。明日も晴れるでしょう。",
        "如果某个进程中途退出，日志仍然保留，下一个进程会从那里继续。",
        "이것은 한국어 문장입니다.",
        "Größenwahnsinnige Übungsplätze für Straßenbahnschaffner",
        "Съешь ещё этих мягких французских булок, да выпей чаю",
        &base64,
        include_str!("../../../../Cargo.lock"),
    ] {
        let start = &text[..text.floor_char_boundary(60)];
        assert!(Likely.count(text) >= Vocabulary::O200k.count(text), "{start}");
        // Fewer vocabularies have so few words of other languages as cl100k has.
        assert!(Likely.count(text) * 5 >= Vocabulary::Cl100k.count(text) * 4, "{start}");
    }
    // Some vocabularies have a token for each digit.
    for text in ["2026-12-01T09:30:00Z", "0.7136 0.2945 0.8811"] {
        let digits = text.chars().filter(char::is_ascii_digit).count();
        assert!(Likely.count(text) >= u32::try_from(digits).unwrap(), "{text}");
    }
}

#[test]
fn estimate_of_prose_is_less_than_twice_its_exact_count_m7_8_v3() {
    let text = include_str!("../../../../ARCHITECTURE.md");
    let (estimate, exact) = (Estimate.count(text), o200k(text));
    assert!(estimate >= exact && estimate < exact * 2, "{estimate} for {exact}");
}

#[test]
fn estimate_of_documents_is_not_below_their_exact_count_m7_8_v3() {
    for text in [
        include_str!("../../../../README.md"),
        include_str!("../context/mod.rs"),
        include_str!("../../../../Cargo.lock"),
        "今日は良い天気です。明日も晴れるでしょう。",
        "이것은 한국어 문장입니다.",
        "Größenwahnsinnige Übungsplätze für Straßenbahnschaffner",
        "Съешь ещё этих мягких французских булок, да выпей чаю",
        "👩‍👩‍👧‍👦 🇪🇺 👍🏽 🙂🙃",
        "zalgo: h̷̢̛e̸l̵l̶o̴",
    ] {
        let start = &text[..text.floor_char_boundary(60)];
        assert!(Estimate.count(text) >= o200k(text), "{start}");
        // Nor may the estimate be too low for any single line.
        for line in text.lines() {
            assert!(Estimate.count(line) >= o200k(line), "{line}");
        }
    }
}

#[test]
fn estimate_of_vowelless_words_is_not_below_their_exact_count_m7_8_v3() {
    for text in [
        "tthtthtthtthtthtthtthtth",
        "spsspsspsspsspsspsspssps",
        "yngrrynghtrr",
        "acoceg iewofof Htthtthtt",
    ] {
        assert!(Estimate.count(text) >= o200k(text), "{text}");
    }
}

#[test]
fn estimate_of_any_character_is_not_below_its_exact_count_m7_8_v3() {
    let too_low: String = ('\u{80}'..=char::MAX)
        .filter(|c| {
            let mut bytes = [0; 4];
            let text = &*c.encode_utf8(&mut bytes);
            Estimate.count(text) < o200k(text)
        })
        .collect();
    assert_eq!(too_low, "");
}

#[test]
fn estimate_of_two_letters_is_not_below_their_exact_count_m7_8_v3() {
    let letters: Vec<char> = ('\u{80}'..='\u{700}')
        .filter(|c| Estimate.count(&c.to_string()) == 1)
        .collect();
    assert!(letters.len() > 200);
    let pairs = letters
        .iter()
        .flat_map(|first| letters.iter().map(move |second| format!("{first}{second}")));
    let too_low: Vec<String> = pairs.filter(|pair| o200k(pair) > 2).collect();
    assert!(
        too_low.is_empty(),
        "{} of {}: {too_low:?}",
        too_low.len(),
        letters.len().pow(2)
    );
}

/// Words that are in no language but look like one: each letter makes a pair with the one before.
fn made_up() -> impl Strategy<Value = String> {
    let steps = proptest::collection::vec(any::<prop::sample::Index>(), 0..40);
    (b'a'..=b'z', steps).prop_map(|(first, steps)| {
        let mut word = vec![first];
        for step in steps {
            let last = word.last().copied().unwrap_or(first);
            let nexts: Vec<u8> = (b'a'..=b'z').filter(|next| estimate::is_pair(last, *next)).collect();
            // A few letters form no pair with any other.
            word.push(if nexts.is_empty() { first } else { *step.get(&nexts) });
        }
        word.into_iter().map(char::from).collect()
    })
}

/// The first letters of such a word, repeated.
fn repeated_made_up_word() -> impl Strategy<Value = String> {
    (made_up(), 2..8_usize, 1..12_usize)
        .prop_map(|(word, letters, times)| word[..letters.min(word.len())].repeat(times))
}

/// Texts of one kind that people and programs write.
fn some_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Zäöüßéèçñøå ,.]{0,80}",
        "([A-Z]?[a-z]{1,9} ){0,12}",
        "[一-龥ぁ-んァ-ヶ。、가-힣]{0,40}",
        "[\u{1f300}-\u{1faff}\u{200d}\u{fe0f}☀-➿]{0,20}",
        "(fn|let|self|impl|if|\\{|\\}|\\(|\\)|;|::|->|_|[a-z_]{1,12}|\n|    |[0-9]{1,4}){0,40}",
        "([a-z][\u{300}-\u{36f}]{0,3}){0,20}",
        "[0-9., -]{0,60}",
        "[A-Za-z0-9+/]{0,80}={0,2}",
        "[0-9a-f]{0,64}",
        "[א-תء-يа-яά-ώ ]{0,60}",
        "[\\x20-\\x7e]{0,80}",
        "[ \t\r\n]{0,40}",
        "\\PC{0,40}",
        proptest::collection::vec(prop_oneof![made_up(), repeated_made_up_word()], 1..8)
            .prop_map(|words| words.join(" ")),
    ]
}

proptest! {
    // The same cases every time, unless PROPTEST_RNG_SEED says otherwise.
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn estimate_of_any_text_is_not_below_its_exact_count_m7_8_v3(parts in proptest::collection::vec(some_text(), 1..4)) {
        let text = parts.concat();
        prop_assert!(Estimate.count(&text) >= o200k(&text), "{} < {} for {text:?}", Estimate.count(&text), o200k(&text));
    }

    #[test]
    fn token_counts_agree_with_tiktoken_rs_m7_8_v3(parts in proptest::collection::vec(some_text(), 1..4)) {
        let text = parts.concat();
        let theirs = tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len();
        prop_assert_eq!(o200k(&text), u32::try_from(theirs).unwrap());
        let theirs = tiktoken_rs::cl100k_base_singleton().encode_ordinary(&text).len();
        prop_assert_eq!(Vocabulary::Cl100k.count(&text), u32::try_from(theirs).unwrap());
    }
}
