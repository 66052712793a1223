//! Lets many workers share runs that Restate distributes.
//!
//! Restate keeps which runs are to be driven, gives each to one worker at a time, passes it to another worker if that
//! one is gone, and calls a worker again when a due time has come. The state, the pending work and the history of a run
//! stay in its journal in the store: a worker folds the journal, claims the run under a fence, and does what the runner
//! of a single process does, with the same code. Restate stores only the name of a run, so any version of a worker can
//! resume it, and no run is lost if Restate loses all its data: workers look in the store for runs that nobody drives,
//! and submit them again.
//!
//! - [`place`]: where Restate is, and how it names a run
//! - [`ingress`]: submits runs
//! - [`worker`]: takes calls for runs, and drives them; `object`: what Restate calls; `drives`: which runs are driven
//!   here; `listen`: its connections
//! - `admin`: registers workers with Restate; `sweep`: looks for runs that nobody drives
//!
//! This crate never decides what a run does, and writes to a store only through the runner.

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
