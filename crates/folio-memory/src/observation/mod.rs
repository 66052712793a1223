//! Observations: what tools and roles notice (seeds 002 and 004).

mod draft;
mod from_json;
mod names;
mod patch;
mod priority;
mod read_only;
mod stored;
mod ttl;
mod types;

use crate::entry::Owner;
use crate::id::PageId;
use crate::page::{PageFields, PageRole};
use crate::space::SpaceName;

pub(crate) use draft::{check_context, check_metadata};
pub(crate) use from_json::{null_field_names, one_or_more, read};
pub(crate) use stored::check_stored;

pub use draft::{Draft, NewTypes, ObservationInput, UnknownType, draft};
pub use names::field_name;
pub use patch::{ObservationPatch, patch};
pub use priority::by_priority;
pub use read_only::ttl_minutes;
pub use ttl::TtlInput;
pub use types::{Class, ObservationType, TypeRegistry};

/// The scratch page of `space`. Its id is the same wherever it is computed.
#[must_use]
pub fn page_of(space: &SpaceName) -> (PageId, PageFields) {
    let id = PageId::derived(&["scratch_page", space.as_str()]);
    (
        id,
        PageFields::new(PageRole::ScratchPage, "Scratch page", Owner::agent()),
    )
}
