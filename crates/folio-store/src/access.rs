//! Access tokens, by which programs identify themselves to a server: each opens one space in one role (M7.6.51, M7.7).
//!
//! A token is shown once, when it is made. The store keeps only its hash, from which the token cannot be recovered, so
//! a reader of the store cannot use what it finds there.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use data_encoding::HEXLOWER;
use folio_memory::{Role, SpaceName, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::system::random_bytes;

/// The prefix of every token, by which people and secret scanners recognise one.
pub(crate) const PREFIX: &str = "folio_";
/// Number of digits of a token's id.
const ID_DIGITS: usize = 12;

/// An access token, which grants what its [`KeptToken`] says. Only [`AccessToken::reveal`] gives its text.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl AccessToken {
    /// Draws a new token of 256 random bits.
    #[must_use]
    pub fn draw() -> Self {
        let bytes = [random_bytes(), random_bytes()].concat();
        Self(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)))
    }

    /// The token's text, as its owner sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The form in which the store keeps the token: it opens `space` in `role` from `now` on, for `lifetime`.
    #[must_use]
    pub fn kept(
        &self,
        space: SpaceName,
        role: Role,
        name: String,
        now: Timestamp,
        lifetime: Option<Duration>,
    ) -> KeptToken {
        let hash = hash_of(&self.0);
        KeptToken {
            id: hash.chars().take(ID_DIGITS).collect(),
            space,
            role,
            name,
            hash,
            created_at: now,
            expires_at: lifetime.map(|lifetime| now.plus(lifetime)),
            revoked_at: None,
        }
    }
}

/// The hash under which the token with the text `text` is kept.
#[must_use]
pub fn hash_of(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

/// A token as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptToken {
    /// The token's id, shown in lists: the first digits of its hash.
    pub id: String,
    /// The only space that the token opens.
    pub space: SpaceName,
    /// The role in which it opens the space.
    pub role: Role,
    /// The name of the actor; empty if the role is enough.
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: String,
    /// When the token was made.
    pub created_at: Timestamp,
    /// When the token expires; `None` if it does not.
    pub expires_at: Option<Timestamp>,
    /// When the token was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl KeptToken {
    /// Whether the token is valid at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lifetime: Option<Duration>) -> KeptToken {
        let now = Timestamp::from_millis(1_000);
        AccessToken::draw().kept(SpaceName::main(), Role::Client, String::new(), now, lifetime)
    }

    #[test]
    fn stored_token_keeps_only_a_hash_and_is_never_printed() {
        let token = AccessToken::draw();
        let kept = token.kept(
            SpaceName::main(),
            Role::Client,
            "ci".to_owned(),
            Timestamp::default(),
            None,
        );
        assert_eq!(kept.hash, hash_of(token.reveal()));
        assert!(kept.hash.starts_with(&kept.id) && token.reveal().len() > 40);
        assert!(!format!("{token:?} {kept:?}").contains(token.reveal()));
        assert_ne!(AccessToken::draw(), token);
    }

    #[test]
    fn token_is_invalid_once_expired_or_revoked() {
        let at = Timestamp::from_millis;
        let short = kept(Some(Duration::from_secs(1)));
        assert!(short.is_valid(at(1_999)) && !short.is_valid(at(2_000)));
        let mut lasting = kept(None);
        assert!(lasting.is_valid(Timestamp::MAX));
        lasting.revoked_at = Some(at(5));
        assert!(!lasting.is_valid(at(6)));
    }
}
