//! The language of plans, as a user of the crate reads, checks and writes them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod calls;
mod expressions;
mod forms;
mod graph;
mod markdown;
mod mistakes;
mod plan_support;
mod properties;
mod schema;
mod tools;
