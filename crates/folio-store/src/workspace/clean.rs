//! Takes secrets out before anything is decided on a value, for those who keep state beside the log.

use serde_json::Value;

use super::{Workspace, redact};

impl Workspace {
    /// Replaces the secrets in `text`.
    ///
    /// A runner does this before it folds a result in, so that what later steps read is what the journal says.
    pub fn clean_text(&self, text: &mut String) {
        redact::Cleaner::default().text(text, "notes");
    }

    /// `value` without its secrets; `None` if it has none, which costs no copy.
    #[must_use]
    pub fn cleaned_value(&self, value: &Value) -> Option<Value> {
        redact::has_secret(value).then(|| {
            let mut clean = value.clone();
            redact::Cleaner::default().value(&mut clean, "output");
            clean
        })
    }
}
