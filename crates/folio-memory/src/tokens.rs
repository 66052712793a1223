//! What a text costs a model.

use std::fmt;

/// The seam of a tokenizer: the exact one of a model where it is known, an estimate otherwise.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// How many tokens `text` is, or a little more.
    fn count(&self, text: &str) -> u32;
}

/// An estimate by script that errs on the high side: a budget that it keeps, a model keeps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Estimate;

impl Tokens for Estimate {
    fn count(&self, text: &str) -> u32 {
        let (mut thirds, mut letters, mut after_space) = (0_u32, 0_u32, true);
        for c in text.chars() {
            let cost = match c {
                'a'..='z' | 'A'..='Z' => {
                    letters += 1;
                    // The first letter of a word is a token, three more are the next. A capital within a word begins one.
                    if letters == 1 || c.is_ascii_uppercase() { 3 } else { 1 }
                }
                ' ' if !after_space => 0,
                '0'..='9' | ' ' | '\n' | '\t' | '\r' => 3,
                '!'..='~' => 3,
                // Two characters of such an alphabet are seldom less than one token.
                '\u{a0}'..='\u{24f}' | '\u{370}'..='\u{5ff}' => 3,
                '\u{2010}'..='\u{203a}' => 6,
                '\u{3000}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => 6,
                _ => 3 * u32::try_from(c.len_utf8()).unwrap_or(4),
            };
            if !c.is_ascii_alphabetic() {
                letters = 0;
            }
            after_space = c == ' ';
            thirds = thirds.saturating_add(cost);
        }
        thirds.div_ceil(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_not_below_what_models_count_m7_8_v3() {
        // What o200k_base makes of these texts.
        for (text, counted) in [
            ("hello world", 2),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("e42 [task/in_progress] Write the tests (phase, 60%)", 17),
            ("2026-01-01T00:00:00Z", 14),
            ("今日は良い天気です", 8),
            ("Größe", 3),
            ("🙂", 2),
        ] {
            let estimate = Estimate.count(text);
            assert!(estimate >= counted, "{text:?}: {estimate} is less than {counted}");
        }
        assert_eq!(Estimate.count(""), 0);
    }

    #[test]
    fn a_text_costs_at_least_what_a_part_of_it_costs() {
        let text = "e42 [risk_alert/active] Größe 今日 🙂 a-b";
        let mut last = 0;
        for (end, _) in text.char_indices() {
            let count = Estimate.count(&text[..end]);
            assert!(count >= last);
            last = count;
        }
    }
}
