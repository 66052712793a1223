//! Looking for texts in what is kept.

use std::collections::BTreeSet;

use folio_memory::TraceNote;

use crate::upkeep::Residue;

/// Bytes of a text below which finding it says nothing.
const LEAST: usize = 6;
/// Places that are told for all texts together.
const TOLD: usize = 50;

/// What is looked for to find `texts`: each as it is, and as it stands in JSON.
pub(crate) fn looked_for(texts: &[String]) -> BTreeSet<String> {
    let forms = texts
        .iter()
        .flat_map(|text| [text.trim().to_owned(), escaped(text.trim())]);
    forms.filter(|text| text.len() >= LEAST).collect()
}

/// `text` as it stands between quotes in JSON.
pub(crate) fn escaped(text: &str) -> String {
    let json = serde_json::Value::String(text.to_owned()).to_string();
    json.trim_matches('"').to_owned()
}

/// The note that is written `note`, without what was said.
pub(crate) fn without_words(note: &str) -> serde_json::Result<String> {
    serde_json::to_string(&serde_json::from_str::<TraceNote>(note)?.without_words())
}

/// Tells that something stands at `place`.
pub(crate) fn tell(residue: &mut Residue, place: String) {
    if residue.found.len() < TOLD && !residue.found.contains(&place) {
        residue.found.push(place);
    }
}

/// Whether `text` stands somewhere in `bytes`.
pub(crate) fn find(bytes: &[u8], text: &[u8]) -> bool {
    bytes.len() >= text.len() && bytes.windows(text.len()).any(|window| window == text)
}
