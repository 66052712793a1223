//! The shared store: the contract, and what only a server can do to a program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod between;
mod check;
mod contract;
#[path = "../damage/mod.rs"]
mod damage;
mod drivers;
mod newer;
mod plans;
mod silent;
mod spaces;
mod tls;
