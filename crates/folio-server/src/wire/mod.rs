//! The types of JSON answers: the same over HTTP, over the Model Context Protocol and with `--json`.
//!
//! Domain types are not sent where a stable wire type exists: names inside the program may change, these names may not.
//! Each wire type has a JSON schema, and the description of the interface is built from these schemas.

pub mod any_entry;
pub mod commit;
pub mod diff;
pub(crate) mod event;
pub mod exchange;
pub mod export;
pub mod found;
pub mod history;
pub mod keeping;
pub mod list;
pub mod long;
pub mod observation;
pub mod page;
pub mod plan;
pub mod policy;
pub mod question;
pub mod replay;
pub(crate) mod run;
pub mod trace;
pub mod turn;
pub mod view;
pub mod why;
pub mod written;

pub use self::any_entry::AnyEntry;
pub use self::commit::{ChangeShape, CommitShape};
pub use self::diff::DiffShape;
pub use self::exchange::{Seen, TakenIn};
pub use self::export::{manifest_line, touched_line};
pub use self::found::Found;
pub use self::history::VersionShape;
pub use self::keeping::{Forgot, Named, Received};
pub use self::list::{AsJson, List};
pub use self::long::{Conversation, EvictedShape, PassageShape, ReadOn, SaidShape};
pub use self::observation::Observation;
pub use self::page::{EntryShape, LinkShape, PageShape};
pub use self::plan::{StepState, plan_mistake};
pub use self::policy::PolicyShape;
pub use self::question::QuestionShape;
pub use self::replay::ReplayShape;
pub use self::run::{
    HeldUpShape, INTERRUPTED, NodeInFull, NodeShape, OriginShape, ResultShape, RunInFull, RunShape, SpendShape,
    standing,
};
pub use self::trace::TraceLine;
pub use self::turn::{
    BegunShape, ContextShape, EndedShape, EpisodeShape, EpisodesShape, GoalShape, ReceiptShape, SectionShape, TurnShape,
};
pub use self::view::{RollupShape, ViewShape};
pub use self::why::WhyShape;
pub use self::written::Written;

use folio::Timestamp;

/// Returns the whole microseconds from `from` to `to`.
fn micros_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_micros()).unwrap_or(u64::MAX)
}
