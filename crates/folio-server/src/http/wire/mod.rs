//! The JSON that goes out. Domain types never do: what they are called inside may change, these names may not.

pub(crate) mod event;
pub(crate) mod list;
pub(crate) mod observation;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod view;

use folio::Timestamp;

/// How long something took, in whole microseconds.
fn micros_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX)
}
