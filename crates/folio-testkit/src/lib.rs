//! Test doubles and contract suites for the tests of Folio. Never shipped.
//!
//! - [`sim_clock`], [`seeded_ids`]: time and ids that a test controls
//! - [`faulty_store`]: a store that fails on demand
//! - [`any_text`]: promises about any text, for property tests and fuzzers
//! - [`postgres`]: databases on a real server, one for each test
//! - [`cluster`]: PostgreSQL servers for a single test, to be killed and replaced
//! - [`restate`]: Restate servers for a single test
//! - [`process`]: a second process, for tests in which several processes use one file
//! - [`oauth`]: an authorization server that issues tokens for another server
//! - [`whole_log`]: all commits of a space
//! - [`contract`]: the contract of a store, as test cases that any store can be put through

pub mod any_text;
pub mod cluster;
pub mod contract;
pub mod faulty_store;
pub mod oauth;
pub mod postgres;
pub mod process;
pub mod restate;
pub mod seeded_ids;
pub mod sim_clock;
mod whole_log;

pub use faulty_store::{Fault, FaultyStore, Gate, Work};
pub use oauth::OAuthServer;
pub use seeded_ids::SeededIds;
pub use sim_clock::SimClock;
pub use whole_log::whole_log;
