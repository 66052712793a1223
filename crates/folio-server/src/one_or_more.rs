//! Fields that take one text or several, on every surface.

use serde::{Deserialize, Deserializer};

/// Reads a text or a list of texts (M7.2.12).
pub(crate) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum Several {
        One(String),
        Any(Vec<String>),
    }

    Ok(match Several::deserialize(deserializer)? {
        Several::One(text) => vec![text],
        Several::Any(texts) => texts,
    })
}
