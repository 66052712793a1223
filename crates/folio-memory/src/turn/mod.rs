//! Turns: one input handled in a thread, and what its stages decide (seed 004, M7.11).
//!
//! Each stage is a small trait with rules as its default implementation, which can be replaced ([`Stages`]): [`Router`]
//! → [`Clarifier`] → [`Orderer`] → the work → [`Evaluator`] → [`Reflector`] → [`export`]. Every stage names the entries
//! that its decision rests on.

mod clarifier;
mod decision;
mod evaluator;
mod executor;
pub mod export;
mod joined;
mod record;
mod reflector;
mod router;
mod stages;
pub mod words;

#[cfg(test)]
mod tests;

pub use clarifier::{
    Answer, Clarifier, Clarity, RuleClarifier, Settled, SettledBy, clarification_of, is_clarification,
    settled_clarifications,
};
pub use decision::{Decision, Stage, Used};
pub use evaluator::{Evaluation, Evaluator, Finished, RuleEvaluator};
pub use executor::{Orderer, RuleOrderer, WorkOrder};
pub use joined::{JOINED_WITHIN, can_be_joined, joined_turn};
pub use record::{NewTurn, Turn, TurnEnd, TurnEnded, TurnQuery};
pub use reflector::{Ending, Reflection, Reflector, RuleReflector};
pub use router::{Assessment, Router, RuleRouter, Situation, Urgency};
pub use stages::Stages;
