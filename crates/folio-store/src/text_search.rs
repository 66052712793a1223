//! Searching stored data for texts.

use std::collections::BTreeSet;

use folio_memory::TraceNote;
use folio_memory::text::plain;

use crate::needles::Needles;
use crate::upkeep::Residue;

/// Length in bytes below which finding a text means nothing.
const MIN_TEXT_BYTES: usize = 6;
/// The most places that are reported for all texts together.
const MAX_REPORTED_PLACES: usize = 50;

/// The most bytes of a text that a note keeps. Of a longer text it keeps the beginning.
pub(crate) const NOTE_TEXT_BYTES: usize = 1024;
/// Length of the beginning by which a longer text is recognised in a note.
const BEGINNING_BYTES: usize = 256;

/// The sign that marks where a note, or a quotation in it, cut a text.
const CUT: char = '…';
/// How many bytes before such a sign are searched for the beginning of a text: more than a note keeps of one, even when
/// it is escaped.
const BEFORE_CUT_BYTES: usize = 8 * NOTE_TEXT_BYTES;

/// Those of `texts` that are long enough to be searched for.
pub(crate) fn searchable_texts(texts: &[String]) -> BTreeSet<&str> {
    let texts = texts.iter().map(|text| text.trim());
    texts.filter(|text| text.len() >= MIN_TEXT_BYTES).collect()
}

/// Texts to search for as people read them, in the form that [`plain`] makes: the request may spell them differently
/// than the store. Searching costs about the same however many they are.
pub(crate) struct SearchTexts<'t> {
    texts: Needles<&'t str>,
    /// Their beginnings: searched for where a note was cut.
    beginnings: Needles<()>,
}

impl<'t> SearchTexts<'t> {
    /// All of `texts`.
    pub(crate) fn of(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self {
            texts: Needles::of(texts.into_iter().map(|text| (plain(text), text))),
            beginnings: Needles::of(std::iter::empty::<(&str, ())>()),
        }
    }

    /// Those that notes may contain; for long ones, and where a note was cut, also their beginnings.
    pub(crate) fn of_notes(texts: &'t [String]) -> Self {
        let texts = texts.iter().map(String::as_str);
        let long = texts.clone().filter(|text| text.len() > NOTE_TEXT_BYTES);
        let beginnings = long.map(|text| &text[..text.floor_char_boundary(BEGINNING_BYTES)]);
        let shortened = |text: &str| plain(&text[..text.floor_char_boundary(BEFORE_CUT_BYTES)]);
        Self {
            beginnings: Needles::of(texts.clone().map(|text| (shortened(text), ()))),
            ..Self::of(texts.chain(beginnings))
        }
    }

    /// Those of the texts that occur in `bytes`, as plain text or in JSON strings.
    pub(crate) fn in_bytes(&self, bytes: &[u8]) -> BTreeSet<&'t str> {
        let forms = plain_forms(bytes);
        let found = forms.iter().flat_map(|text| self.texts.in_text(text.as_bytes()));
        found.copied().collect()
    }

    /// Whether `note` contains any of the texts, or was cut inside one, so that it ends with its beginning.
    pub(crate) fn are_in_note(&self, note: &str) -> bool {
        if self.are_in(note.as_bytes()) {
            return true;
        }
        note.match_indices(CUT).any(|(at, _)| {
            let from = note.floor_char_boundary(at.saturating_sub(BEFORE_CUT_BYTES));
            let mut kept = note[from..at].to_owned();
            // A refusal quotes its input, with escapes of its own.
            loop {
                if self.begin_at_end_of(&kept) {
                    return true;
                }
                let inside = unescaped(&kept);
                if inside == kept {
                    return false;
                }
                kept = inside;
            }
        })
    }

    /// Whether `kept` ends with the beginning of one of the texts.
    fn begin_at_end_of(&self, kept: &str) -> bool {
        let kept = plain(kept);
        let mut chars = kept.chars();
        // A combining mark may have been cut off the last character, which makes it a different character.
        let endings = [kept.as_str(), chars.next_back().map_or("", |_| chars.as_str())];
        endings
            .iter()
            .any(|end| self.beginnings.begin_at_end_of(end.as_bytes(), MIN_TEXT_BYTES))
    }

    /// Whether any of the texts occurs in `bytes`.
    pub(crate) fn are_in(&self, bytes: &[u8]) -> bool {
        plain_forms(bytes).iter().any(|text| self.texts.are_in(text.as_bytes()))
    }
}

/// The text in `bytes` in the form that is compared, as it is written and, if it may be JSON, as JSON means it. Bytes
/// that are not UTF-8 contain no text; the rest is searched.
fn plain_forms(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let inside = text.contains('\\').then(|| plain(&unescaped(&text)));
    std::iter::once(plain(&text)).chain(inside).collect()
}

/// The ways in which `text` may occur in the bytes of a file, if ASCII is compared case-insensitively: as written, in
/// lower case and in upper case, and each of them escaped as in JSON.
pub(crate) fn forms(text: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([text.to_ascii_lowercase()]);
    if !text.is_ascii() {
        forms.extend([text.to_lowercase(), text.to_uppercase().to_ascii_lowercase()]);
    }
    let in_json: Vec<_> = forms.iter().map(|text| escaped(text)).collect();
    forms.extend(in_json);
    forms
}

/// `text` as it appears between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let json = serde_json::Value::String(text.to_owned()).to_string();
    json[1..json.len() - 1].to_owned()
}

/// The texts in `line` of JSON, whole or torn, with every escaped character decoded.
pub(crate) fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        // Two escapes make one character beyond the first 65,536.
        let code = [12, 6, 2].into_iter().find_map(|length| {
            let code = rest.get(before.len()..before.len() + length)?;
            let decoded: String = serde_json::from_str(&format!("\"{code}\"")).ok()?;
            (decoded.chars().count() == 1).then_some((decoded, length))
        });
        match code {
            Some((decoded, length)) => {
                text.push_str(&decoded);
                rest = &rest[before.len() + length..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// The note in the JSON text `note`, without the words that were said.
pub(crate) fn without_words(note: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<TraceNote>(note)?.without_words())
}

/// Reports that a text occurs at `place`.
pub(crate) fn report_place(residue: &mut Residue, place: String) {
    if residue.found.len() < MAX_REPORTED_PLACES && !residue.found.contains(&place) {
        residue.found.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_json_escapes_are_decoded_and_invalid_ones_kept() {
        for (line, text) in [
            (r#"{"a":"x\ny\"z"#, "{\"a\":\"x\ny\"z"),
            (r"caf\u00e9 \ud83d\ude00 \\n", "café 😀 \\n"),
            (r"\q \u12 \", r"\q \u12 \"),
            ("日\\", "日\\"),
        ] {
            assert_eq!(unescaped(line), text);
        }
    }

    #[test]
    fn truncated_note_matches_if_it_ends_inside_a_sought_text_m7_6_50() {
        let texts = ["Old \nMILL by the café \"Au lait\"".to_owned(), "tiny".to_owned()];
        let wanted = SearchTexts::of_notes(&texts);
        for (note, says) in [
            (r#"{"a":"see the old mill b… (1399 bytes)","b":1}"#, true),
            (r#"{"a":"see the old\nmill by the cafe… (1399 bytes)"}"#, true),
            (r#"{"a":"OLD mill by the café \"AU… (1399 bytes)"}"#, true),
            (
                r#"{"a":"\"so\\nthe old\\nmill by the café \\\"A…\" is not a cursor"}"#,
                true,
            ),
            (r#"{"a":"x… (9 bytes)","b":"old mill by… (99 bytes)"}"#, true),
            (r#"{"a":"see the old… (1399 bytes)"}"#, false),
            (r#"{"a":"the old mill by the sea… (1399 bytes)"}"#, false),
            (r#"{"a":"the old mill b"}"#, false),
            (r#"{"a":"tin…"}"#, false),
            ("…", false),
        ] {
            assert_eq!(wanted.are_in_note(note), says, "{note}");
        }
    }

    #[test]
    fn sought_text_is_found_despite_case_accents_spacing_and_encoding() {
        let wanted = SearchTexts::of(["Old MILL", "Café"]);
        for (bytes, found) in [
            (&br#"{"a":"the OLD\nmill"}"#[..], &["Old MILL"][..]),
            ("cafe\u{301}, old  mill".as_bytes(), &["Old MILL", "Café"]),
            (b"\xff\xfeold mill\xff", &["Old MILL"]),
            (b"oldmill", &[]),
        ] {
            assert_eq!(wanted.in_bytes(bytes), found.iter().copied().collect());
        }
    }
}
