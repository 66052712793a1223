//! Entries: the only unit of content.

mod body;
mod confidence;
mod fields;
mod imported_times;
mod kind;
mod lifetime;
mod outcome;
mod owner;
mod pii;
mod status;
mod tag;

pub use body::{BodyPiece, BodyRef, MAX_INLINE_BYTES, MAX_TEXT_BYTES, check_text, preview_of, without_nul};
pub use confidence::Confidence;
pub use fields::{Entry, EntryFields};
pub use imported_times::ImportedTimes;
pub use kind::EntryKind;
pub use lifetime::Lifetime;
pub use outcome::Outcome;
pub use owner::Owner;
pub use pii::Pii;
pub use status::{Family, State, Status};
pub use tag::Tag;
