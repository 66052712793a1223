//! Runs that a real Restate server assigns to workers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../folio-runner/tests/cases/mod.rs"]
mod cases;
#[path = "../../../folio-runner/tests/models_support/mod.rs"]
mod models_support;
mod same;
#[path = "../support/mod.rs"]
mod support;
mod worker;
