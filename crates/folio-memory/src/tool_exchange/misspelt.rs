//! Fields of an answer that are named almost like one with items: nothing in them is stored, which nobody would notice.

use serde_json::{Map, Value};

use super::{Channel, Correction};
use crate::warning::Warning;

/// The parts of an answer that have items.
const CHANNELS: [Channel; 3] = [Channel::Observations, Channel::ScratchPageWrites, Channel::MemoryWrites];
/// How many letters may be wrong, missing or too many.
const TYPOS_MAX: usize = 2;

/// Returns a warning for each of the unknown fields `rest` that has items and is named almost like a channel.
pub(super) fn misspelt_channels(rest: &Map<String, Value>) -> Vec<Correction> {
    let has_items = |value: &Value| matches!(value, Value::Array(items) if !items.is_empty());
    let meant = |name: &str| CHANNELS.into_iter().find(|channel| is_almost(name, channel.as_str()));
    let mut found: Vec<Correction> = rest
        .iter()
        .filter(|(_, value)| has_items(value))
        .filter_map(|(name, _)| Some((name, meant(name)?)))
        .map(|(name, channel)| {
            let message = format!("the field {name:?} is not read; {channel} may be meant");
            Correction {
                index: 0,
                channel,
                warning: Warning::new("channel_unknown", message, name.as_str(), Value::Null),
            }
        })
        .collect();
    found.sort_by(|one, other| one.warning.message.cmp(&other.warning.message));
    found
}

/// Whether `name` is `known` but for a few letters, capitals and separators. They begin alike: "reservations" are no
/// observations.
fn is_almost(name: &str, known: &str) -> bool {
    let letters = |text: &str| -> Vec<u8> {
        let letters = text.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    let (name, known) = (letters(name), letters(known));
    name.first() == known.first()
        && name.len().abs_diff(known.len()) <= TYPOS_MAX
        && distance(&name, &known) <= TYPOS_MAX
}

/// The number of letters by which two words differ (Levenshtein).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ToolResponse;

    #[test]
    fn misspelt_channel_with_items_gives_a_warning_m7_3_25() {
        let warned = |answer| {
            let response: ToolResponse = serde_json::from_value(answer).unwrap();
            let warnings = response.misspelt_channels();
            let warned = warnings
                .iter()
                .map(|one| (one.channel.to_string(), one.warning.given.clone()));
            warned.collect::<Vec<_>>()
        };
        let item = json!({"content": "c"});
        for (name, meant) in [
            ("observatons", "observations"),
            ("observation", "observations"),
            ("memoryWrites", "memory_writes"),
            ("scratch_page_write", "scratch_page_writes"),
        ] {
            assert_eq!(warned(json!({name: [item]})), [(meant.to_owned(), json!(name))]);
        }
        for fine in [
            json!({"observations": [item]}),
            json!({"observatons": []}),
            json!({"observatons": "none"}),
            json!({"reservations": [item], "conversations": [item]}),
        ] {
            assert_eq!(warned(fine), []);
        }
    }
}
