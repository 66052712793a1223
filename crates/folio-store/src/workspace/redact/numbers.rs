//! Numbers that carry check digits: payment cards and bank accounts.

use leakguard::{Detector, FnDetector, Kind, Match};
use regex::Regex;

/// Detects payment cards, in one piece or in groups with one kind of separator.
pub(super) fn cards() -> impl Detector {
    let number = Regex::new(r"(?-u)\b[2-6][0-9]{3}(?:[0-9]{9,15}|(?:[ \-][0-9]{4}){3}|[ \-][0-9]{6}[ \-][0-9]{5})\b")
        .expect("the expression is a constant and a test uses it");
    FnDetector::new(Kind::CreditCard, move |input: &str, out: &mut Vec<Match>| {
        for found in number.find_iter(input) {
            let digits: Vec<u32> = found.as_str().chars().filter_map(|c| c.to_digit(10)).collect();
            // A number with a point is a measurement, one with hyphens around it an identifier.
            let is_part = input[..found.start()].ends_with(['.', '-', '_', '/', '='])
                || input[found.end()..].starts_with(['-', '_', '/'])
                || input[found.end()..]
                    .strip_prefix('.')
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            if !is_part && begins_like_a_card(&digits) && passes_luhn(&digits) {
                out.push(Match::new(Kind::CreditCard, found.start(), found.end()));
            }
        }
    })
}

/// Whether the first digits are those of a card network, with a length that it issues. The check digit alone lets one
/// number in ten through.
fn begins_like_a_card(digits: &[u32]) -> bool {
    let first = digits.iter().take(4).fold(0, |number, digit| number * 10 + digit);
    match first {
        4000..=4999 => matches!(digits.len(), 13 | 16 | 19),
        5100..=5599 | 2221..=2720 => digits.len() == 16,
        3400..=3499 | 3700..=3799 => digits.len() == 15,
        3000..=3059 | 3600..=3699 | 3800..=3999 => digits.len() == 14 || digits.len() == 16,
        6011 | 6440..=6599 | 6200..=6299 | 3528..=3589 => (16..=19).contains(&digits.len()),
        5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763 => (13..=19).contains(&digits.len()),
        _ => false,
    }
}

fn passes_luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Detects bank accounts in the format of ISO 13616, in one piece or in groups of four.
pub(super) fn accounts() -> impl Detector {
    let number =
        Regex::new(r"(?-u)\b[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?:[ \-][A-Z0-9]{4}){2,7}(?:[ \-][A-Z0-9]{1,3})?)\b")
            .expect("the expression is a constant and a test uses it");
    FnDetector::new(Kind::Iban, move |input: &str, out: &mut Vec<Match>| {
        for found in number.find_iter(input) {
            // A word in capitals after the number may have been matched as its last group.
            let mut text = found.as_str();
            while text.len() >= 15 && !passes_mod_97(text) {
                text = text.rfind([' ', '-']).map_or("", |end| &text[..end]);
            }
            if text.len() >= 15 {
                out.push(Match::new(Kind::Iban, found.start(), found.start() + text.len()));
            }
        }
    })
}

fn passes_mod_97(number: &str) -> bool {
    let plain: Vec<char> = number.chars().filter(char::is_ascii_alphanumeric).collect();
    let rest = plain.iter().cycle().skip(4).take(plain.len()).fold(0, |rest, c| {
        let value = c.to_digit(36).unwrap_or(0);
        (rest * if value > 9 { 100 } else { 10 } + value) % 97
    });
    (15..=34).contains(&plain.len()) && rest == 1
}
