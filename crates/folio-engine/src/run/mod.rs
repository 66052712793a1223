//! A run as the fold of its events: what is, what is owed, and what follows.
//!
//! - `state`: [`Run`], and how each event changes it
//! - `due`: what is owed now, derived from the state and never stored
//! - `conclude`: from what a tool answered to the event that records it
//! - `aggregate`: from the results of children to the result of their parent
//! - `scope`: what the templates of a node see
//! - `criteria`: what can be checked without a model, and what needs the runner's hands

mod aggregate;
mod conclude;
mod criteria;
mod due;
mod limits;
mod scope;
mod state;
mod tree;

#[cfg(test)]
mod tests;

pub use conclude::{CallAnswer, CallOutcome};
pub use criteria::{CheckCall, CheckFinding};
pub use due::{Action, CallAction};
pub use limits::Limits;
pub use state::{JournalError, Run};
pub use tree::{Cancel, NodeKind, NodeView};
