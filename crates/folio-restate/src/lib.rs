//! Runs that many workers share, handed out by Restate.
//!
//! Restate keeps which runs are to be driven, gives each to one worker at a time, gives it to another one when that is gone, and
//! calls it again when a time has come. What a run is, what it is owed and what has happened in it stays in the journal in the
//! store: whoever drives it folds that, claims the run under a fence, and does what the runner of a single process does, with
//! the same code. Nothing of a run is kept in Restate but its name, so that any version of a worker goes on with it, and losing
//! all that Restate has loses no run: workers look in the store for runs that nobody drives, and hand them in again.
//!
//! - [`place`]: where Restate is, and how it names a run
//! - [`ingress`]: hands runs in
//! - [`worker`]: takes runs that are given out, and drives them; `object`: what Restate calls; `drives`: which are driven here;
//!   `listen`: its connections
//! - `admin`: tells Restate where workers are; `sweep`: looks for runs that nobody drives
//!
//! It never decides what a run does, and never writes to a store but through the runner.

mod admin;
mod drives;
pub mod ingress;
mod listen;
mod object;
pub mod place;
mod sweep;
pub mod worker;

pub use ingress::Ingress;
pub use place::{Place, PlaceError, RunKey};
pub use worker::{Worker, WorkerError, WorkerOptions};
