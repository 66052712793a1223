//! An estimate by script, for models whose vocabulary nobody knows.

use std::sync::OnceLock;

use super::Tokens;

/// An estimate by script that errs on the high side: a budget that it keeps, a model keeps.
///
/// Needs no vocabulary. English prose and code come to about twice what a vocabulary of today makes of them, other
/// scripts to one token a letter, ideographs and what is rare to two or three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Estimate;

/// Costs are counted in thirds of a token.
const TOKEN: u32 = 3;

/// Words that every vocabulary of today has as one token behind a space: the most frequent ones of o200k_base.
const WORDS: &str = include_str!("words.txt");
/// Bytes of the longest of them.
const WORD_MAX: usize = 16;

/// By its first letter, which letters make a pair with it that is often found inside one token.
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

/// Which groups of 256 ideographs, from U+4E00 on, have one that is three tokens.
const RARE_IDEOGRAPHS: u128 = 0x0002_e200_0600_0000_1000_8000;

/// Which groups of 64 syllables of Hangul, from U+AC00 on, are three tokens each unless they are frequent.
const RARE_HANGUL: [u64; 3] = [0x6804_0ba4_4280_e440, 0xfd20_800f_d001_fc22, 0x0000_180b_2280_40a0];

impl Tokens for Estimate {
    fn count(&self, text: &str) -> u32 {
        let bytes = text.as_bytes();
        let (mut thirds, mut at) = (0_u64, 0);
        while let Some(byte) = bytes.get(at) {
            let cost = match byte {
                b'a'..=b'z' | b'A'..=b'Z' => {
                    let end = at + letters(&bytes[at..]);
                    let word = &text[at..end];
                    let follows_space = at > 0 && bytes[at - 1] == b' ';
                    at = end;
                    if follows_space && is_known(word) {
                        TOKEN
                    } else {
                        spelled(word.as_bytes())
                    }
                }
                // One space belongs to the word behind it.
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
}

fn letters(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| !byte.is_ascii_alphabetic())
        .unwrap_or(bytes.len())
}

fn is_known(word: &str) -> bool {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    word.len() <= WORD_MAX && KNOWN.get_or_init(Known::new).has(word.as_bytes())
}

/// The words that are known, each as one number in one of the places that follow from it: every word of every prompt is looked up.
struct Known(Box<[u128; PLACES]>);

/// Places for words, so many that nearly every word stands in its first one.
const PLACES: usize = 8192;

impl Known {
    fn new() -> Self {
        let mut known = Self(Box::new([0; PLACES]));
        for word in WORDS.split_ascii_whitespace().filter(|word| word.len() <= WORD_MAX) {
            let (number, place) = known.find(word.as_bytes());
            known.0[place] = number;
        }
        known
    }

    fn has(&self, word: &[u8]) -> bool {
        let (number, place) = self.find(word);
        self.0[place] == number
    }

    /// The number of a word that is not empty, and the place where it stands, or which is free for it.
    fn find(&self, word: &[u8]) -> (u128, usize) {
        let mut bytes = [0; WORD_MAX];
        bytes[..word.len()].copy_from_slice(word);
        let number = u128::from_le_bytes(bytes);
        // The upper half of a product follows from all of the number.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 100;
        let mut place = usize::try_from(mixed).unwrap_or(0) % PLACES;
        while self.0[place] != 0 && self.0[place] != number {
            place = (place + 1) % PLACES;
        }
        (number, place)
    }
}

/// A word letter by letter: the first is a token, each that often follows the one before is a third of one, each other is one.
fn spelled(word: &[u8]) -> u32 {
    let mut cost = TOKEN;
    for pair in word.windows(2) {
        let (first, second) = (pair[0].to_ascii_lowercase() - b'a', pair[1]);
        let goes_on = second.is_ascii_lowercase() && PAIRS[usize::from(first)] >> (second - b'a') & 1 == 1;
        cost += if goes_on { 1 } else { TOKEN };
    }
    cost
}

/// Tokens of one character beyond ASCII. At most one for each of its bytes, whatever the vocabulary.
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
    use super::*;

    #[test]
    fn a_word_is_known_if_it_is_one_of_the_list() {
        let words: std::collections::HashSet<&str> = WORDS.split_ascii_whitespace().collect();
        assert!(words.len() > 2_000 && words.len() < PLACES / 2);
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
}
