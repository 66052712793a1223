//! A run as the fold of its events: its state, what is due, and what follows.
//!
//! - `state`: [`Run`]; `fold`: how each event changes it; `finish`: what the end of a node sets free; `stop`: how parts
//!   of it are stopped; `views`: what callers see of it
//! - `due`: what is due now, derived from the state and never stored; `opening` and `call`: how a node begins that is
//!   expanded, or that makes a call; `action`: what can be due
//! - `grow`: how the tree grows; `inherit`: what a list in a new plan takes over from the one before it
//! - `shown`: a plan as people see it; `edit`: how they change it during its run; `edited`: how the new version takes
//!   the place of the old one; `pauses`: what stays paused then
//! - `purses`: what parts of it may use, and what is set aside; `group_needs`: what a group needs before it begins;
//!   `first_calls`: what the first call for a task costs; `waiting`: calls that wait until others give something back;
//!   `narrow`: the other limits that tasks set for themselves
//! - `resources`: what calls write, and that no two write the same at the same time
//! - `approval`: what waits for a person's approval; `gate`: which plans do; `lost`: calls that a dead driver had
//!   begun; `request_ref`: what exactly an answer refers to; `raise`: how people change limits; `fork`: a run from a
//!   moment of another; `versions`: the versions that a plan had
//! - [`agent`]: tasks that a model does
//! - `conclude`: from the answer of a tool to the event that records it
//! - `aggregate`: from the results of children to the result of their parent; `late`: what remains of it when its time
//!   is over
//! - `needs`: what the steps to come need of the process that drives it
//! - `scope`: what the templates of a node see; `bodies`: the cache of large outputs
//! - `criteria`: what can be checked without a model, and what the runner has to check
//! - `changes`: when something last changed, so that the same call may give something else

mod action;
pub mod agent;
mod aggregate;
mod approval;
mod blocks;
mod bodies;
mod call;
mod changes;
mod conclude;
mod criteria;
mod due;
mod edit;
mod edited;
mod finish;
mod first_calls;
mod fold;
mod fork;
mod gate;
mod group_needs;
mod grow;
mod idle;
mod inherit;
mod late;
mod limit_met;
mod limits;
mod lost;
mod narrow;
mod needs;
mod opening;
mod origins;
mod pauses;
mod purses;
mod raise;
mod ready;
mod request_ref;
mod requests;
mod resources;
mod scope;
mod shown;
mod state;
mod stop;
mod tree;
mod versions;
mod views;
mod waiting;

#[cfg(test)]
mod tests;

pub(crate) use action::call_in_words;
pub use action::{Action, CallAction};
pub use agent::{
    AgentProgram, AskAction, CompactAction, EXECUTOR_TOOLS, Equipment, FailedCallUsage, FixedCosts, Judging,
    ModelAnswer, ModelFailure, ModelFailureKind, ModelSpec, NamedExecutor, OfferedTools, PlanMode, Price,
};
pub use approval::{ApprovalPolicy, GrantedApproval, PendingApproval, RequiredApproval};
pub use conclude::{CallAnswer, CallOutcome};
pub use criteria::{CheckAction, CheckCall, CheckFinding};
pub use edit::EditError;
pub use fork::{ForkAt, ForkBuilder, ForkError, ForkSearch, ForkSearchOutcome, Moment};
pub use gate::{PlanGate, micro_usd};
pub use limit_met::{LimitKind, LimitMet};
pub use limits::Limits;
pub use needs::Needs;
pub use raise::LimitError;
pub use request_ref::RequestRef;
pub use requests::{OpenRequest, Requested};
pub use resources::{IsReadOnlyTool, WritesOf, WrittenElsewhere};
pub use shown::ShownPlan;
pub use state::{JournalError, Run};
pub use tree::{Cancel, NodeKind, NodeView};
pub use versions::{PlanVersion, plan_versions};
pub use views::RunSummary;
