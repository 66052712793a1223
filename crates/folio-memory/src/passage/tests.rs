use proptest::prelude::*;

use super::*;
use crate::entry::{BodyPiece, BodyRef};

fn pieces_of(text: &[u8], size: usize) -> Vec<BodyPiece> {
    text.chunks(size.max(1))
        .map(|piece| BodyPiece {
            hash: String::new(),
            bytes: piece.len() as u64,
            newlines: newlines(piece),
        })
        .collect()
}

/// Reads a part of `text` as if it were kept in pieces of `size` bytes.
fn read_in_pieces(text: &[u8], size: usize, part: &Part, max: usize) -> Passage {
    let body = BodyRef {
        hash: String::new(),
        bytes: text.len() as u64,
        pieces: pieces_of(text, size),
    };
    let range = pieces_for(&body.pieces, part, max);
    let (at, newlines_before) = start_of(&body, &range);
    let start = usize::try_from(at).unwrap();
    let len: u64 = body.pieces[range].iter().map(|piece| piece.bytes).sum();
    let end = start + usize::try_from(len).unwrap();
    let window = Window {
        bytes: &text[start..end],
        at,
        newlines_before,
        goes_on: end < text.len(),
    };
    cut_out(window, part, max)
}

#[test]
fn line_range_parser_accepts_ranges_and_single_lines() {
    let lines = |from, to| Some(Part::Lines { from, to });
    assert_eq!(Part::lines("10-20"), lines(10, 20));
    assert_eq!(Part::lines("10:20"), lines(10, 20));
    assert_eq!(Part::lines("10-"), lines(10, u64::MAX));
    assert_eq!(Part::lines("7"), lines(7, 7));
    for wrong in ["", "a", "0", "3-2", "-3", "1-2-3"] {
        assert_eq!(Part::lines(wrong), None, "{wrong}");
    }
}

#[test]
fn reversed_line_range_reads_nothing_m7_8_v9() {
    let Reading::Passage(none) = read(b"one\ntwo\nthree\n", &Part::Lines { from: 3, to: 1 }, 100).reading else {
        panic!("a passage")
    };
    assert_eq!((none.bytes.len(), none.from_line, none.next), (0, 3, None));
}

#[test]
fn search_continues_from_its_next_position_m7_8_v9() {
    let text = "one error\nfine\ntwo ERROR\nthree error";
    let mut shown = Vec::new();
    let mut from = 0;
    loop {
        let Reading::Found(found) = read(
            text.as_bytes(),
            &Part::Search {
                words: "Error".to_owned(),
                from,
            },
            40,
        )
        .reading
        else {
            panic!("a search finds lines");
        };
        assert_eq!(found.count, 3 - shown.len() as u64);
        shown.extend(found.matches.into_iter().map(|found| found.line));
        match found.next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(shown, [1, 3, 4]);
}

#[test]
fn character_split_between_pieces_is_read_whole_m7_8_v9() {
    let bytes = "a🙂é\n日b".as_bytes();
    for size in 1..bytes.len() {
        for from in 0..bytes.len() as u64 {
            let part = Part::Bytes { from, to: from + 1 };
            let Reading::Passage(whole) = read(bytes, &part, 1).reading else {
                panic!("a passage")
            };
            let in_pieces = read_in_pieces(bytes, size, &part, 1);
            assert_eq!(
                (&whole.bytes, whole.from),
                (&in_pieces.bytes, in_pieces.from),
                "{size} {from}"
            );
        }
    }
}

#[test]
fn search_finds_words_across_the_pieces_of_a_very_long_line_m7_8_v9() {
    const PIECE: usize = 64 * 1024;
    let found_at = |at: usize, word: &str, searched: &str| {
        let text = format!("{}{word}{}", "é".repeat(at / 2), "é".repeat(1024 * 1024));
        let mut search = Search::new(searched, 0, 1_000);
        text.as_bytes().chunks(PIECE).for_each(|piece| search.feed(piece));
        let found = search.finish();
        assert!(
            found
                .matches
                .iter()
                .all(|line| line.line == 1 && line.text.contains(word)),
            "{found:?}"
        );
        found.count
    };
    // Pieces are fed until a line has more than its maximum at once.
    let border = 1024 * 1024 + PIECE;
    for before in (0..24).chain([26, 40]) {
        assert_eq!(
            found_at(border - before, "zwölf Ölfässer", "ZWÖLF ölfässer"),
            1,
            "{before}"
        );
        // Such a letter becomes two in lower case.
        assert_eq!(found_at(border - before, "Aİİİİİİİİb", "aİİİİİİİİb"), 1, "{before}");
    }
}

#[test]
fn search_of_a_very_long_line_continues_from_any_piece_m7_8_v9() {
    let text = format!("{}needle{}needle", "x".repeat(1_099_999), "x".repeat(2_000_000));
    let search_from = |from| {
        let mut search = Search::new("needle", from, 1);
        text.as_bytes().chunks(100_000).for_each(|piece| search.feed(piece));
        search.finish()
    };
    let first = search_from(0);
    assert_eq!((first.count, first.matches.len()), (2, 1));
    let second = search_from(first.next.unwrap());
    assert_eq!((second.count, second.matches.len(), second.next), (1, 1, None));
}

proptest! {
    #[test]
    fn adjacent_byte_ranges_join_to_the_whole_text_e9_16(
        text in "[a-c\n é日🙂]{0,60}", size in 1_usize..20, step in 1_u64..9,
    ) {
        let bytes = text.as_bytes();
        let mut read = Vec::new();
        let mut from = 0;
        while from < bytes.len() as u64 {
            let passage = read_in_pieces(bytes, size, &Part::Bytes { from, to: from + step }, 100);
            prop_assert!(std::str::from_utf8(&passage.bytes).is_ok(), "{:?}", passage);
            read.extend_from_slice(&passage.bytes);
            from += step;
        }
        prop_assert_eq!(read, bytes);
    }

    #[test]
    fn passage_of_a_body_is_independent_of_its_pieces_m7_8_v9(
        text in "[a-c\n é日🙂]{0,200}", size in 1_usize..40, from in 0_u64..80, len in 0_u64..80, max in 1_usize..60,
    ) {
        let bytes = text.as_bytes();
        for part in [
            Part::Bytes { from, to: from + len },
            Part::Bytes { from, to: u64::MAX },
            Part::Lines { from: from + 1, to: from + 1 + len },
            Part::Lines { from: from + 1, to: u64::MAX },
        ] {
            let Reading::Passage(whole) = read(bytes, &part, max).reading else { panic!("a passage") };
            let in_pieces = read_in_pieces(bytes, size, &part, max);
            prop_assert_eq!(&whole.bytes, &in_pieces.bytes, "{:?}", part);
            prop_assert_eq!(
                (whole.from, whole.to, whole.from_line, whole.next.is_some()),
                (in_pieces.from, in_pieces.to, in_pieces.from_line, in_pieces.next.is_some()),
                "{:?}", part
            );
        }
    }

    #[test]
    fn continued_reading_returns_every_byte_once_m7_8_v9(
        text in "[a-c\n é日🙂]{0,200}", size in 1_usize..40, max in 1_usize..30, by_lines in any::<bool>(),
    ) {
        let bytes = text.as_bytes();
        let mut part = if by_lines { Part::Lines { from: 1, to: u64::MAX } } else { Part::WHOLE };
        let mut read = Vec::new();
        for _ in 0..=bytes.len() {
            let passage = read_in_pieces(bytes, size, &part, max);
            prop_assert!(passage.bytes.len() <= max.max(4));
            prop_assert!(std::str::from_utf8(&passage.bytes).is_ok());
            read.extend_from_slice(&passage.bytes);
            match passage.next {
                Some(next) => part = next,
                None => break,
            }
        }
        prop_assert_eq!(read, bytes);
    }

    #[test]
    fn search_of_a_body_is_independent_of_its_pieces_m7_8_v9(text in "[ab\n é]{0,120}", size in 1_usize..20) {
        let mut in_pieces = Search::new("a", 0, 200);
        text.as_bytes().chunks(size).for_each(|piece| in_pieces.feed(piece));
        let mut whole = Search::new("a", 0, 200);
        whole.feed(text.as_bytes());
        prop_assert_eq!(whole.finish(), in_pieces.finish());
    }
}
