//! Who should act on an entry.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::view::is_blank;
use crate::warning::Invalid;

/// Who should act (M7.3.30): `agent`, `user`, `tool:<name>`, `role:<name>`, or a role of seed 000 by its bare name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// The agent, the default owner of an observation.
    #[must_use]
    pub fn agent() -> Self {
        Self("agent".to_owned())
    }

    /// The user.
    #[must_use]
    pub fn user() -> Self {
        Self("user".to_owned())
    }

    /// The planner of seed 000.
    #[must_use]
    pub fn planner() -> Self {
        Self("planner".to_owned())
    }

    /// The executor of seed 000.
    #[must_use]
    pub fn executor() -> Self {
        Self("executor".to_owned())
    }

    /// Whether the owner is a kind of worker rather than anybody in particular: the agent, the planner or the executor.
    #[must_use]
    pub fn is_anybody(&self) -> bool {
        [Self::agent(), Self::planner(), Self::executor()].contains(self)
    }

    /// Parses a name of 1 to 128 visible characters.
    ///
    /// # Errors
    ///
    /// `owner_invalid` if the name is empty or too long, has white space or control characters, or is a tool or role
    /// without a name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_valid =
            !is_blank(text) && text.len() <= 128 && !text.chars().any(|c| c.is_whitespace() || c.is_control());
        let message = if !is_valid {
            format!("{text:?} is not 1 to 128 characters without white space")
        } else if ["tool:", "role:"]
            .iter()
            .any(|kind| text.strip_prefix(kind).is_some_and(is_blank))
        {
            format!("{text:?} has no name after the colon")
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(Invalid::new("owner_invalid", "owner", message))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_names_are_validated_by_form_and_length_m7_3_30() {
        assert_eq!(Owner::agent().as_str(), "agent");
        for name in [
            "agent",
            "user",
            "tool:web_search",
            "role:reviewer",
            "planner",
            "executor",
            "ada",
            &"x".repeat(128),
        ] {
            assert_eq!(Owner::parse(name).unwrap().as_str(), name);
        }
        for wrong in [
            "",
            " ",
            "two words",
            "a\u{7}",
            "tool:",
            "role:",
            "\u{200b}",
            "role:\u{2060}",
            &"x".repeat(129),
        ] {
            assert_eq!(Owner::parse(wrong).unwrap_err().code, "owner_invalid", "{wrong:?}");
        }
        let anybody = ["agent", "planner", "executor", "user", "tool:agent", "role:planner"];
        let anybody = anybody.map(|name| Owner::parse(name).unwrap().is_anybody());
        assert_eq!(anybody, [true, true, true, false, false, false]);
    }
}
