//! Secrets: they are passed on to the provider, and never printed, stored or compared.

use std::fmt;

/// A key. `Debug` and `Display` hide it.
#[derive(Clone, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`, trimmed: keys are often read from files that end with a line break.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        let value: String = value.into();
        Self(value.trim().to_owned())
    }

    /// The value, for sending it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with the value replaced by `[key]`.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.0, "[key]")
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Keys by provider. Whoever opens a model passes them in; nothing here reads the environment.
#[derive(Debug, Clone, Default)]
pub struct ModelKeys {
    /// The key for Anthropic.
    pub anthropic: Option<Secret>,
    /// The key for OpenAI, for both Chat Completions and Responses.
    pub openai: Option<Secret>,
    /// The key for Gemini.
    pub gemini: Option<Secret>,
    /// The key for models at custom addresses. Without it these get the key of their provider, but never over plain
    /// HTTP to another machine.
    pub own: Option<Secret>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_redacted_in_debug_display_and_messages() {
        let keys = ModelKeys {
            openai: Some(Secret::new("sk-not-for-eyes\n")),
            ..ModelKeys::default()
        };
        let key = keys.openai.clone().unwrap();
        assert_eq!(key.reveal(), "sk-not-for-eyes");
        for shown in [format!("{keys:?}"), format!("{keys:#?}"), format!("{key} {key:?}")] {
            assert!(!shown.contains("not-for-eyes"), "{shown}");
        }
        assert_eq!(key.redact("no: sk-not-for-eyes."), "no: [key].");
    }
}
