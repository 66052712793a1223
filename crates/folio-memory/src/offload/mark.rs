//! Marks: by the mark of a message, a conversation that was put away is recognized when it comes again.

use serde_json::Value;

use crate::id::EntryId;

/// The mark before the first message of a conversation.
pub const BEGINNING: &str = "";

/// The mark of `message` after a message with the mark `before`. Where two marks are equal, the conversations up to there
/// are.
#[must_use]
pub fn mark_after(before: &str, message: &Value) -> String {
    EntryId::derived(&["message", before, &message.to_string()]).to_string()
}
