//! An estimate by script, for where no model is named.

use std::sync::OnceLock;

use super::Tokens;

/// An estimate by script that errs on the high side: what fits a budget by the estimate fits it by the model's own
/// count.
///
/// It needs no vocabulary. English prose and code are estimated at about twice the count of a current vocabulary,
/// unknown words at two tokens for three letters, other scripts at one token per letter, and ideographs and rare
/// characters at two or three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Estimate;

/// Costs are counted in thirds of a token.
const TOKEN: u32 = 3;
/// The cost of a letter that forms a pair with the one before.
const PAIR: u32 = 2;

/// Words that are one token in every current vocabulary: the most frequent ones of `o200k_base`. Those after the empty
/// line are one token only after a space.
const WORDS: &str = include_str!("words.txt");
/// The length of the longest of these words, in bytes.
const WORD_MAX: usize = 16;

/// For each first letter, the set of second letters with which it forms a pair that is one token in any context.
const PAIRS: [u32; 26] = [
    0x03fe_bfce,
    0x0000_0010,
    0x000a_4c94,
    0x0010_0018,
    0x01ce_bc6e,
    0x0008_4020,
    0x0002_0090,
    0x0008_0010,
    0x02ae_fe7f,
    0x0000_0000,
    0x0000_0010,
    0x0100_4918,
    0x0000_0011,
    0x0008_0058,
    0x01fe_bc6e,
    0x000e_8890,
    0x0010_0000,
    0x0102_4111,
    0x000c_c090,
    0x010a_4090,
    0x000e_bc7a,
    0x0000_4010,
    0x0000_4010,
    0x0008_0000,
    0x0004_2000,
    0x0000_0000,
];

/// The groups of 256 ideographs, from U+4E00 on, that contain one of three tokens.
const RARE_IDEOGRAPHS: u128 = 0x0002_e200_0600_0000_1000_8000;

/// The groups of 64 Hangul syllables, from U+AC00 on, that have three tokens each unless they are frequent.
const RARE_HANGUL: [u64; 3] = [0x6804_0ba4_4280_e440, 0xfd20_800f_d001_fc22, 0x0000_180b_2280_40a0];

impl Tokens for Estimate {
    fn count(&self, text: &str) -> u32 {
        let bytes = text.as_bytes();
        let (mut thirds, mut at) = (0_u64, 0);
        while let Some(byte) = bytes.get(at) {
            let cost = match byte {
                b'a'..=b'z' | b'A'..=b'Z' => {
                    let rest = &bytes[at..];
                    let length = letters(rest);
                    let before = at.checked_sub(1).map(|before| bytes[before]);
                    at += length;
                    if is_known(rest, length, before) {
                        TOKEN
                    } else {
                        spelled(&rest[..length])
                    }
                }
                // A single space belongs to the following word.
                b' ' => {
                    at += 1;
                    let is_free = bytes.get(at).is_some_and(|next| next.is_ascii_alphabetic());
                    if is_free { 0 } else { TOKEN }
                }
                0..=0x7f => {
                    at += 1;
                    TOKEN
                }
                _ => {
                    let c = text[at..].chars().next().unwrap_or_default();
                    at += c.len_utf8();
                    TOKEN * of_character(c)
                }
            };
            thirds += u64::from(cost);
        }
        u32::try_from(thirds.div_ceil(u64::from(TOKEN))).unwrap_or(u32::MAX)
    }

    fn method(&self) -> String {
        "estimated".to_owned()
    }
}

fn letters(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| !byte.is_ascii_alphabetic())
        .unwrap_or(bytes.len())
}

/// Whether the word of `length` letters at the beginning of `rest` is one token after the byte `before`, if any.
fn is_known(rest: &[u8], length: usize, before: Option<u8>) -> bool {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = || KNOWN.get_or_init(Known::new).get(number_of(rest, length));
    length <= WORD_MAX
        && match before {
            Some(b' ') => known().is_some(),
            // An apostrophe joins the letters after it to the word before, and so does a letter of another script.
            Some(b'\'' | 0x80..) => false,
            _ => known() == Some(WordContext::Anywhere),
        }
}

/// The context in which a known word is one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordContext {
    Anywhere,
    BehindSpace,
}

/// A hash table of the known words as numbers, since every word of every prompt is looked up.
struct Known(Box<[u128; PLACES]>);

/// The flag in the number of a word that is known only after a space: no ASCII letter has that bit.
const AFTER_SPACE_FLAG: u128 = 0x80;

/// The number of slots, so large that nearly every word is in its first slot.
const PLACES: usize = 8192;

impl Known {
    fn new() -> Self {
        let mut known = Self(Box::new([0; PLACES]));
        let (anywhere, behind_space) = WORDS.split_once("\n\n").unwrap_or((WORDS, ""));
        for (words, flag) in [(anywhere, 0), (behind_space, AFTER_SPACE_FLAG)] {
            for word in words.split_ascii_whitespace().filter(|word| word.len() <= WORD_MAX) {
                let number = number_of(word.as_bytes(), word.len());
                let place = known.find(number);
                known.0[place] = number | flag;
            }
        }
        known
    }

    fn get(&self, number: u128) -> Option<WordContext> {
        match self.0[self.find(number)] {
            found if found == number => Some(WordContext::Anywhere),
            found if found == number | AFTER_SPACE_FLAG => Some(WordContext::BehindSpace),
            _ => None,
        }
    }

    /// The slot of the word with this number, or the free slot for it.
    fn find(&self, number: u128) -> usize {
        // The upper half of a product depends on all bits of the number.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 100;
        let mut place = usize::try_from(hash).unwrap_or(0) % PLACES;
        while self.0[place] != 0 && self.0[place] & !AFTER_SPACE_FLAG != number {
            place = (place + 1) % PLACES;
        }
        place
    }
}

/// The first `length` of `bytes`, from 1 to [`WORD_MAX`], as one number.
fn number_of(bytes: &[u8], length: usize) -> u128 {
    match bytes.first_chunk::<WORD_MAX>() {
        Some(chunk) => u128::from_le_bytes(*chunk) & (u128::MAX >> (8 * (WORD_MAX - length))),
        None => {
            let mut chunk = [0; WORD_MAX];
            chunk[..length].copy_from_slice(&bytes[..length]);
            u128::from_le_bytes(chunk)
        }
    }
}

/// The cost of a word by its letters: the first is one token, each that forms a pair with the letter before is two
/// thirds of a token, and each other letter is one token.
///
/// This is never too low: the letters of such a pair are never both left single, so of three letters at least two are
/// one token. A capital letter often stays single.
fn spelled(word: &[u8]) -> u32 {
    let mut cost = TOKEN;
    for pair in word.windows(2) {
        cost += if is_pair(pair[0], pair[1]) { PAIR } else { TOKEN };
    }
    cost
}

/// Whether two letters are one of [`PAIRS`].
pub(super) fn is_pair(first: u8, second: u8) -> bool {
    first.is_ascii_lowercase()
        && second.is_ascii_lowercase()
        && PAIRS[usize::from(first - b'a')] >> (second - b'a') & 1 == 1
}

/// The number of tokens of one character beyond ASCII: at most one per byte, whatever the vocabulary.
fn of_character(c: char) -> u32 {
    match c {
        'À'..='Ú'
        | 'Ü'..='ÿ'
        | 'ά'..='ί'
        | 'α'..='ώ'
        | 'Α'..='Ρ'
        | 'Σ'..='Ω'
        | 'А'..='я'
        | 'ё'
        | 'א'..='ת'
        | 'ء'..='غ'
        | 'ف'..='ي' => 1,
        '\u{900}'..='\u{eff}' | '\u{2010}'..='\u{203a}' | '\u{2190}'..='\u{22ff}' | '\u{3000}'..='\u{30ff}' => 2,
        '\u{4e00}'..='\u{9fff}' if RARE_IDEOGRAPHS >> ((u32::from(c) - 0x4e00) >> 8) & 1 == 0 => 2,
        '\u{ac00}'..='\u{d7a3}' if !is_rare_hangul(u32::from(c)) => 2,
        _ => u32::try_from(c.len_utf8()).unwrap_or(4),
    }
}

fn is_rare_hangul(c: u32) -> bool {
    let group = (c - 0xac00) / 64;
    let word = RARE_HANGUL.get(usize::try_from(group / 64).unwrap_or(usize::MAX));
    word.is_none_or(|word| word >> (group % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::Vocabulary;
    use super::*;

    fn words_of(text: &str) -> HashSet<&str> {
        text.split_ascii_whitespace().collect()
    }

    #[test]
    fn word_is_known_only_if_the_list_contains_it() {
        let words = words_of(WORDS);
        assert!(words.len() > 2_000 && words.len() < PLACES / 2);
        let is_known = |word: &str| is_known(word.as_bytes(), word.len(), Some(b' '));
        for word in &words {
            assert!(is_known(word), "{word}");
            for other in [format!("{word}q"), word[1..].to_owned(), word.to_uppercase()] {
                assert!(
                    other.is_empty() || is_known(&other) == words.contains(&*other),
                    "{other}"
                );
            }
        }
        assert!(!is_known("abcdefghijklmnopqrstuvwxyz"));
    }

    #[test]
    fn estimate_of_known_words_is_not_below_their_exact_count_m7_8_v3() {
        let (anywhere, behind_space) = WORDS.split_once("\n\n").expect("there are two parts");
        assert!(words_of(anywhere).is_disjoint(&words_of(behind_space)));
        let signs = (0..0x80_u8).filter(|byte| !byte.is_ascii_alphanumeric());
        let before: Vec<Option<u8>> = signs.map(Some).chain([None]).collect();
        for word in words_of(WORDS) {
            for before in before
                .iter()
                .copied()
                .filter(|before| is_known(word.as_bytes(), word.len(), *before))
            {
                for behind in ["", "'s", "é", "ñ", "ß", "я"] {
                    let sign = before.map(char::from).map(String::from).unwrap_or_default();
                    let text = format!("{sign}{word}{behind}");
                    let exact = Vocabulary::O200k.count(&text);
                    assert!(Estimate.count(&text) >= exact, "{text:?} is {exact}");
                }
            }
        }
    }

    #[test]
    fn known_letter_pairs_are_one_token_each_m7_8_v3() {
        for first in b'a'..=b'z' {
            for second in (b'a'..=b'z').filter(|second| is_pair(first, *second)) {
                let pair = String::from_iter([char::from(first), char::from(second)]);
                assert_eq!(Vocabulary::O200k.count(&pair), 1, "{pair}");
            }
        }
    }
}
