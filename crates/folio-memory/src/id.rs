//! Names: ULIDs internally and in exports, short handles for people and models.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::time::Timestamp;
use crate::warning::brief;

/// The source of new ids. Production draws random bits; tests count.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// Returns a new id whose time part is `now`. The ids of one source sort in the order in which they were drawn.
    fn next(&self, now: Timestamp) -> Ulid;
}

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// The prefix of the written form.
            pub const PREFIX: &'static str = $prefix;

            /// Draws a new id from `source`.
            #[must_use]
            pub fn draw(source: &dyn IdSource, now: Timestamp) -> Self {
                Self(source.next(now))
            }

            /// The id derived from `parts`: the same parts give the same id in every process.
            #[must_use]
            pub fn derived(parts: &[&str]) -> Self {
                Self(Ulid::from_bytes(digest_of(parts)))
            }

            /// The id derived from `parts` for something made at `at`. Its time part is that instant, so that a store
            /// keeps together what was made together.
            #[must_use]
            pub fn derived_at(at: Timestamp, parts: &[&str]) -> Self {
                let millis = u64::try_from(at.as_millis()).unwrap_or(0);
                Self(Ulid::from_parts(millis, u128::from_be_bytes(digest_of(parts))))
            }

            /// When the id was made, to the millisecond. Meaningless for an id from [`Self::derived`].
            #[must_use]
            pub fn made_at(self) -> Timestamp {
                Timestamp::from_millis(i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX))
            }

            /// The sixteen bytes that a store keeps.
            #[must_use]
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// Reads the bytes that [`Self::to_bytes`] returns.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let bare = text.strip_prefix($prefix).unwrap_or(text);
                parse_ulid(bare)
                    .map(Self)
                    .ok_or_else(|| IdError::of(text, concat!($prefix, "<ulid>")))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

ulid_id! {
    /// The permanent id of an entry. Written `obs_<ulid>` whatever its kind, the form that seed 002 calls
    /// `observation_id`.
    EntryId, "obs_"
}
ulid_id! {
    /// The permanent id of a page.
    PageId, "page_"
}
ulid_id! {
    /// The permanent id of a run.
    RunId, "run_"
}
ulid_id! {
    /// The permanent id of a turn: one input handled in a thread.
    TurnId, "turn_"
}

/// Parses 26 characters of five bits each. The first has room for more than the 128 bits of an id: such a text is no
/// id, and must not be taken for another one.
fn parse_ulid(text: &str) -> Option<Ulid> {
    let ulid = Ulid::from_string(text).ok()?;
    let first = text.chars().next()?;
    let is_within = matches!(first, '0'..='7' | 'O' | 'o' | 'I' | 'i' | 'L' | 'l');
    is_within.then_some(ulid)
}

/// A text that should have been an id or a handle but is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not of the form {wanted}")]
pub struct IdError {
    /// The text that was given.
    pub given: String,
    /// The form that was expected.
    pub wanted: &'static str,
}

impl IdError {
    fn of(text: &str, wanted: &'static str) -> Self {
        // No id is that long, and the caller knows the text anyway.
        let given = brief(text, 128).into_owned();
        Self { given, wanted }
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $letter, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($letter)
                    .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .map(Self)
                    .ok_or_else(|| IdError::of(text, concat!($letter, "<number>")))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

handle! {
    /// The short name of an entry in its space (`e42`). Counts up with the log and is never reused.
    EntryHandle, "e"
}
handle! {
    /// The short name of a page in its space (`p7`).
    PageHandle, "p"
}
handle! {
    /// The short name of a run in its space (`r3`).
    RunHandle, "r"
}
handle! {
    /// The short name of a turn in its space (`t5`).
    TurnHandle, "t"
}

/// A reference to something by handle or by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ref<I, H> {
    /// A reference by id.
    Id(I),
    /// A reference by handle.
    Handle(H),
}

impl<I: FromStr<Err = IdError>, H: FromStr<Err = IdError>> FromStr for Ref<I, H> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse()
            .map(Self::Handle)
            .or_else(|_: IdError| text.parse().map(Self::Id))
    }
}

impl<I: fmt::Display, H: fmt::Display> fmt::Display for Ref<I, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Handle(handle) => handle.fmt(f),
        }
    }
}

/// An entry, named by handle or id.
pub type EntryRef = Ref<EntryId, EntryHandle>;
/// A page, named by handle or id.
pub type PageRef = Ref<PageId, PageHandle>;
/// A run, named by handle or id.
pub type RunRef = Ref<RunId, RunHandle>;
/// A turn, named by handle or id.
pub type TurnRef = Ref<TurnId, TurnHandle>;

/// The number of a commit in its space: 1, 2, 3 … without gaps. Zero means before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The first sixteen bytes of the SHA-256 of `parts`. The length of each part is hashed before it, so that no two lists
/// collide.
fn digest_of(parts: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_parses_with_and_without_its_prefix() {
        let id = EntryId::derived(&["a"]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string()["obs_".len()..].parse(), Ok(id));
    }

    #[test]
    fn text_with_more_than_128_bits_is_no_id() {
        let last = "7".to_owned() + &"Z".repeat(25);
        assert_eq!(last.parse::<EntryId>().unwrap().to_bytes(), [0xff; 16]);
        for first in ["8", "9", "A", "Z", "z"] {
            let beyond = first.to_owned() + &"Z".repeat(25);
            assert!(beyond.parse::<EntryId>().is_err(), "{beyond}");
            assert!(format!("obs_{beyond}").parse::<EntryRef>().is_err(), "{beyond}");
        }
    }

    #[test]
    fn id_derived_at_an_instant_sorts_by_that_instant() {
        let at = |ms| PageId::derived_at(Timestamp::from_millis(ms), &["x"]);
        assert!(at(1_700_000_000_000) < at(1_700_000_000_001));
        assert_eq!(at(5).made_at(), Timestamp::from_millis(5));
        assert_ne!(at(5), PageId::derived_at(Timestamp::from_millis(5), &["y"]));
    }

    #[test]
    fn derived_id_depends_on_the_boundaries_of_its_parts() {
        assert_ne!(PageId::derived(&["ab", "c"]), PageId::derived(&["a", "bc"]));
    }

    #[test]
    fn invalid_entry_reference_error_names_the_expected_form() {
        assert_eq!("e42".parse::<EntryRef>(), Ok(Ref::Handle(EntryHandle(42))));
        assert!("e".parse::<EntryRef>().is_err());
        assert_eq!(
            "nonsense".parse::<EntryRef>().unwrap_err().to_string(),
            "\"nonsense\" is not of the form obs_<ulid>"
        );
    }
}
