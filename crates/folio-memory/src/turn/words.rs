//! The words that a text, a tag or a context is about: all the understanding that rules have.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::entry::Entry;

/// Words that do not say what a text is about.
const STOP: &[&str] = &[
    "a", "about", "action", "agent", "alert", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "for",
    "from", "goal", "have", "how", "i", "id", "in", "is", "it", "me", "my", "of", "on", "or", "our", "please",
    "should", "task", "that", "the", "them", "this", "to", "turn", "user", "was", "we", "what", "when", "which", "who",
    "will", "with", "would", "you", "your",
];

/// Words that belong together although they differ: an alert about fraud concerns a payment.
const TOPICS: &[(&str, &[&str])] = &[
    (
        "money",
        &[
            "bank",
            "bill",
            "buy",
            "card",
            "charge",
            "checkout",
            "finance",
            "financial",
            "fraud",
            "invoice",
            "money",
            "order",
            "pay",
            "payment",
            "purchase",
            "refund",
            "transaction",
            "transfer",
            "wire",
        ],
    ),
    (
        "mail",
        &[
            "attachment",
            "email",
            "inbox",
            "mail",
            "message",
            "phishing",
            "sender",
            "spam",
        ],
    ),
    (
        "access",
        &[
            "access",
            "account",
            "breach",
            "credential",
            "login",
            "password",
            "permission",
            "security",
            "token",
        ],
    ),
    (
        "travel",
        &["airport", "booking", "flight", "hotel", "train", "travel", "trip"],
    ),
];

/// The words of `text` that say what it is about, normalized: lower case, without a plural `s`.
///
/// Han, kana and hangul are written without spaces, so every two consecutive characters count as a word there.
#[must_use]
pub fn words(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let mut found = BTreeSet::new();
    for word in lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if word.chars().any(is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            found.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
            if let [single_char] = chars[..] {
                found.insert(single_char.to_string());
            }
        } else if !word.chars().all(char::is_numeric) && !STOP.contains(&word) {
            found.insert(singular(word).to_owned());
        }
    }
    found
}

/// The [`words`] of `text`, and the topics that they belong to.
#[must_use]
pub fn subjects(text: &str) -> BTreeSet<String> {
    with_topics(words(text))
}

/// What an entry is about according to its tags and its context, topics included. Empty if they do not say.
#[must_use]
pub fn subjects_of(entry: &Entry) -> BTreeSet<String> {
    with_topics(words_about(entry))
}

/// The [`words`] of an entry itself: those of its title, text, tags and context, without topics.
#[must_use]
pub fn words_of(entry: &Entry) -> BTreeSet<String> {
    let mut found = words_about(entry);
    found.extend(words(&entry.fields.title));
    found.extend(words(&entry.fields.body));
    found
}

fn words_about(entry: &Entry) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for tag in &entry.fields.tags {
        found.extend(words(tag.as_str()));
    }
    if let Some(context) = &entry.fields.context {
        of_value(context, &mut found);
    }
    found
}

/// The words in both `a` and `b`, as a reason names them.
#[must_use]
pub fn common(a: &BTreeSet<String>, b: &BTreeSet<String>) -> Vec<String> {
    a.intersection(b).cloned().collect()
}

fn with_topics(mut words: BTreeSet<String>) -> BTreeSet<String> {
    let topics: Vec<_> = TOPICS
        .iter()
        .filter(|(_, members)| members.iter().any(|member| words.contains(*member)))
        .map(|(topic, _)| format!("topic:{topic}"))
        .collect();
    words.extend(topics);
    words
}

fn of_value(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => found.extend(words(text)),
        Value::Array(items) => items.iter().for_each(|item| of_value(item, found)),
        Value::Object(map) => map.values().for_each(|item| of_value(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_stemmed_and_stop_words_removed() {
        let found: Vec<_> = words("Please transfer the Invoices, 500 EUR").into_iter().collect();
        assert_eq!(found, ["eur", "invoice", "transfer"]);
    }

    #[test]
    fn text_without_spaces_is_split_into_character_pairs() {
        assert!(words("確認付款").contains("付款"));
    }

    #[test]
    fn fraud_and_payment_share_the_money_topic() {
        assert_eq!(common(&subjects("fraud"), &subjects("pay Bob")), ["topic:money"]);
    }
}
