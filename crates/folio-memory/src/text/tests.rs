use proptest::prelude::*;

use super::*;
use crate::actor::Trust;
use crate::entry::{Owner, Tag};

fn terms(text: &str) -> Vec<String> {
    token::tokens(text).map(|token| token.term).collect()
}

fn fields(title: &str, body: &str, tags: &[&str]) -> EntryFields {
    let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
    (fields.title, fields.body) = (title.to_owned(), body.to_owned());
    fields.tags = tags.iter().map(|tag| Tag::parse(tag).unwrap()).collect();
    fields
}

fn finds(query: &str, text: &str) -> bool {
    TextQuery::of(query, TextMatch::All).matches(&fields("", text, &[]))
}

fn finds_any(query: &str, text: &str) -> bool {
    TextQuery::of(query, TextMatch::Any).matches(&fields("", text, &[]))
}

/// A test of time: comparing every pair of the run with every other would take minutes.
#[test]
fn query_of_a_long_text_without_spaces_takes_linear_time() {
    let run: String = (0..200_000_u32)
        .filter_map(|n| char::from_u32(0x4e00 + n * 7_919 % 20_000))
        .collect();
    assert!(finds(&run, &run));
}

#[test]
fn search_ignores_case_accents_and_width_m7_2_17() {
    for (query, text) in [
        ("zurich", "Zürich"),
        ("ZÜRICH", "zu\u{308}rich"),
        ("Ｚｕｒｉｃｈ", "ZURICH"),
        ("strasse", "Straße"),
        ("STRASSE", "straße"),
        ("smorrebrod", "Smørrebrød"),
        ("ΟΔΥΣΣΕΎΣ", "οδυσσευς"),
        ("istanbul", "İstanbul"),
        ("ﬁle", "FILE"),
        ("мосты", "МОСТЫ"),
        ("שלום", "שָׁלוֹם"),
        ("co\u{ad}operate", "cooperate"),
    ] {
        assert!(
            finds(query, text),
            "{query} in {text}: {:?} {:?}",
            terms(query),
            terms(text)
        );
        assert!(finds(text, query), "{text} in {query}");
    }
}

#[test]
fn search_stems_english_words_but_no_others_m7_2_17() {
    for (query, text) in [
        ("flight", "flights"),
        ("running", "he runs"),
        ("Résumés", "resume"),
        ("dog", "the dog's bone"),
    ] {
        assert!(finds(query, text), "{query} in {text}");
    }
    assert!(!finds("мост", "мосты"));
    assert_eq!(terms("v2 utf8 x"), ["v2", "utf8", "x"]);
}

#[test]
fn search_finds_any_part_of_text_without_spaces_m7_2_17() {
    let text = "明日は東京都に行きます";
    for part in ["東", "東京", "東京都", "京都に", "す", text] {
        assert!(finds(part, text), "{part}");
    }
    for other in ["都京", "西", "東都"] {
        assert!(!finds(other, text), "{other}");
    }
    assert!(finds("パリ", "ﾊﾟﾘへ"));
    assert!(finds("항공", "항공편을 예약"));
    assert!(finds("กรุงเทพ", "ไปกรุงเทพฯ"));
    assert!(finds("東京 tower", "東京Towerの夜"));
}

#[test]
fn identifier_is_found_whole_and_by_its_words() {
    let text = "call HTTPServer.parse_request or readFile in src/sqlite/wake.rs";
    for query in [
        "httpserver",
        "server http",
        "HttpServer",
        "parse_request",
        "request",
        "parserequest",
        "readFile",
        "wake.rs",
        "src/sqlite/wake.rs",
        "sqlite",
    ] {
        assert!(finds(query, text), "{query}: {:?} {:?}", terms(query), terms(text));
    }
    assert_eq!(terms("HTTPServer_v2"), ["httpserverv2", "http", "server", "v2"]);
}

#[test]
fn text_query_requires_all_words_or_any_as_requested() {
    assert!(finds("paris flight", "a flight to Paris"));
    assert!(!finds("paris train", "a flight to Paris"));
    assert!(finds_any("paris train", "a flight to Paris"));
    assert!(!finds_any("rome train", "a flight to Paris"));
    let query = TextQuery::of("burgundy wine alpha", TextMatch::All);
    assert!(
        query.matches(&fields("Burgundy", "likes it, alpha", &["wine/red"])),
        "over all fields"
    );
}

#[test]
fn stop_words_count_only_in_queries_without_other_words() {
    assert!(finds("the flight to Paris", "flights, Paris"));
    assert!(!finds("the of", "flights"));
    assert!(finds("the of", "the end of it"));
}

#[test]
fn query_without_words_matches_nothing_and_signs_are_no_syntax() {
    for query in ["", "  ", "\"", "*", "- + ()", "''", "\u{0}"] {
        assert!(TextQuery::of(query, TextMatch::All).is_empty(), "{query:?}");
        assert!(!finds(query, "anything \" * -"), "{query:?}");
        assert!(!finds_any(query, "anything"), "{query:?}");
    }
    for query in [
        "\"flight\"",
        "flight*",
        "title:flight",
        "-flight",
        "NEAR(flight)",
        "flight AND",
        "(flight",
    ] {
        assert!(finds(query, "title near and flight"), "{query:?}");
    }
    assert!(finds("🔥", "hot 🔥🔥"));
}

#[test]
fn query_and_entry_terms_are_limited_in_number() {
    let long = (0..100_000).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    let query = TextQuery::of(&long, TextMatch::All);
    assert_eq!((query.words().len(), query.is_cut()), (MAX_QUERY_TERMS, true));
    let most = (0..MAX_QUERY_TERMS)
        .map(|n| format!("w{n}"))
        .collect::<Vec<_>>()
        .join(" ");
    let twice = TextQuery::of(&format!("{most} {most}"), TextMatch::All);
    assert_eq!((twice.words().len(), twice.is_cut()), (MAX_QUERY_TERMS, false));
    let body = fields("title", &long, &["tag"]);
    assert_eq!(EntryTerms::of(&body).iter().count(), 100_002);
    assert!(query.matches(&body));
    let longer = fields("", &"日".repeat(INDEXED_BYTES), &[]);
    assert_eq!(
        EntryTerms::of(&longer).body.len(),
        INDEXED_BYTES / 3 * 2 - 1,
        "of a longer text, its first mebibyte counts"
    );
    let names = fields("", &"a_b ".repeat(INDEXED_BYTES), &["tag"]);
    assert!(EntryTerms::of(&names).iter().count() <= MAX_TERMS);
    let (ones, more) = ("1".repeat(64), "1".repeat(70));
    assert!(finds(&ones, &more), "the rest of a long term does not count");
}

fn shown(text: &str, query: &str, max: usize) -> String {
    let parts = snippet(text, &TextQuery::of(query, TextMatch::All), max).parts;
    parts
        .iter()
        .map(|part| {
            if part.hit {
                format!("[{}]", part.text)
            } else {
                part.text.clone()
            }
        })
        .collect()
}

#[test]
fn snippet_shows_the_passage_with_most_query_words() {
    assert_eq!(shown("A flight to Paris", "paris flights", 40), "A [flight] to [Paris]");
    assert_eq!(shown("no such word", "other", 7), "no such…");
    let text = format!("paris {} the flight\nto Paris {}", "x ".repeat(50), "y ".repeat(50));
    assert_eq!(shown(&text, "flight paris", 24), "…  the [flight] to [Paris] y …");
    assert_eq!(shown("東京都に行く", "京都に", 3), "…[京都に]…");
    assert_eq!(shown("x e\u{301}te\u{301} x", "ete", 30), "x [e\u{301}te\u{301}] x");
}

#[test]
fn snippet_is_cut_between_graphemes() {
    let family = "👨\u{200d}👩\u{200d}👧";
    assert_eq!(shown(&family.repeat(3), "none", 2), format!("{}…", family.repeat(2)));
}

proptest! {
    #[test]
    fn search_terms_are_bounded_and_contain_no_spaces(text in "\\PC{0,40}") {
        for term in terms(&text) {
            prop_assert!(!term.is_empty() && term.len() <= MAX_TERM_BYTES);
            prop_assert!(term.chars().all(|c| !c.is_ascii() || c.is_ascii_lowercase() || c.is_ascii_digit()), "{term:?}");
        }
    }

    #[test]
    fn every_text_with_words_matches_itself_as_a_query(text in "\\PC{0,40}") {
        let query = TextQuery::of(&text, TextMatch::All);
        prop_assert_eq!(query.matches(&fields("", &text, &[])), !query.is_empty());
    }

    #[test]
    fn snippet_is_a_substring_of_its_text(text in "\\PC{0,60}", query in "\\PC{0,10}", max in 0_usize..20) {
        let parts = snippet(&text, &TextQuery::of(&query, TextMatch::Any), max).parts;
        let whole: String = parts.iter().map(|part| part.text.as_str()).collect();
        let inner = whole.trim_start_matches(ELLIPSIS).trim_end_matches(ELLIPSIS);
        prop_assert!(text.contains(inner), "{whole:?}");
    }
}

const ELLIPSIS: char = '…';

#[test]
fn snippet_of_a_text_full_of_matches_compares_the_first_thousand() {
    let words = TextQuery::of("word thing", TextMatch::Any);
    let text = "word ".repeat(2_000) + "thing word";
    let shown = snippet(&text, &words, 20).text();
    assert_eq!(shown, "word word word word …");
    // What lies between does not count, however long it is.
    let text = "other ".repeat(20_000) + "thing";
    assert!(snippet(&text, &words, 20).text().ends_with("other thing"));
}
