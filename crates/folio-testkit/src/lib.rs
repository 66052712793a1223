//! Stand-ins and contract suites for the tests of Folio. Never shipped.
//!
//! - [`sim_clock`], [`seeded_ids`]: time and ids that a test decides
//! - [`faulty_store`]: a store that fails when it is told to
//! - [`any_text`]: what holds for any text, for properties and for fuzzers
//! - [`postgres`]: databases of a real server, one for each test
//! - [`cluster`]: servers of PostgreSQL of a test's own, to be killed and replaced
//! - [`restate`]: servers of Restate of a test's own
//! - [`process`]: a second process, for whatever several of them do to one file
//! - [`oauth`]: a server that gives out tokens for another one
//! - [`whole_log`]: all commits of a space
//! - [`contract`]: what every store promises, as cases that any store can be put through

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
