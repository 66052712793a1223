//! Parsing one item of an answer from JSON to an input.

use serde::Deserialize;
use serde_json::Value;

use crate::entry::EntryKind;
use crate::observation::{one_or_more, read};
use crate::scratchbook::ItemInput;
use crate::view::is_blank;
use crate::warning::Invalid;

/// Something worth remembering for longer, in the forms that tools use for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryWrite {
    #[serde(alias = "text", alias = "fact", alias = "body")]
    content: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    /// `note` or `fact`, if the tool sends it; both become a note.
    #[serde(default, alias = "type")]
    kind: Option<String>,
}

/// Parses something worth remembering: a text, or an object with one.
pub(super) fn memory_write(item: &Value) -> Result<ItemInput, Invalid> {
    let write = match item {
        Value::String(content) => MemoryWrite {
            content: content.clone(),
            title: None,
            tags: Vec::new(),
            kind: None,
        },
        Value::Object(fields) => {
            let mut fields = fields.clone();
            one_or_more(&mut fields, "tags");
            read(fields)?
        }
        _ => return Err(malformed("a memory write is a text or an object")),
    };
    if let Some(kind) = write.kind.filter(|kind| !["note", "fact"].contains(&kind.as_str())) {
        return Err(Invalid::new(
            "kind_invalid",
            "kind",
            format!("{kind:?} is not note or fact"),
        ));
    }
    if is_blank(&write.content) {
        return Err(Invalid::new("content_empty", "content", "is empty"));
    }
    Ok(ItemInput {
        kind: EntryKind::Note,
        title: write.title,
        body: write.content,
        tags: write.tags,
        phase: None,
        progress: None,
    })
}

fn malformed(message: impl Into<String>) -> Invalid {
    Invalid::new("observation_malformed", "item", message)
}
