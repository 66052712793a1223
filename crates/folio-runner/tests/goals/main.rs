//! Runs that models plan and do: what they are told, how they are checked, and how history is made shorter.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advisor;
mod agents_by_tool;
mod briefs;
mod compact;
mod compactor;
mod compactor_beside;
mod judged;
mod memory;
mod models;
#[path = "../models_support/mod.rs"]
mod models_support;
mod observed;
mod task_tools;
mod turns;
