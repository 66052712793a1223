//! Observations: what tools and roles notice (seeds 002 and 004).

mod draft;
mod patch;
mod priority;
mod types;

pub use draft::{Draft, MAX_CONTENT_BYTES, ObservationInput, TtlInput, draft};
pub use patch::{ObservationPatch, patch};
pub use priority::by_priority;
pub use types::{Class, ObservationType, TypeRegistry};
