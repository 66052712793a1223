//! Carries out what a run is owed, in this process.
//!
//! The engine decides what is due; this crate performs it, records what became of it in one commit with everything that
//! it writes to memory, and asks again. It waits, retries, stops and reads the clock; it never decides.
//!
//! - [`runner`]: submit, drive, resume, cancel; `reads`: what is known of runs
//! - `drive`: the loop of one run; [`dispatch`]: runs that others drive; `busy`: how many do more than wait
//! - [`models`]: the models of a runner, and one call of one of them; `brief`: what memory tells them first;
//!   `pages`: what the pages of a run tell, kept by its driver
//! - `sessions`: programs that can go on with what they were at work on
//! - `bodies`: large outputs, read when they are lacking and let go of again; `outputs`: where outputs are kept
//! - `perform`: one call of a tool, from its permissions to its outcome
//! - `memory`: what a call writes: observations and page entries, in the same commit as its outcome
//! - `book`: the scratchbook of the run's thread, for tools
//! - `prefer`: what comes first when more is due than may be under way
//! - [`watch`]: a run as others see it, live; `folded`: runs that somebody looked at, kept for a minute; [`beside`]: the same while it is driven here, for whoever is told so; `journal`: the same part by part; `fork`: another run from a moment of one;
//!   `takeover`: the files that such a run takes over; `left_folders`: those of one that never began; `again`: whether the pages of a run say what it says;
//!   `journals`: whether those of all runs can be gone through
//! - [`cassette`]: what models of a run answer, kept, and a run gone through with it

mod advisor;
mod again;
mod ahead;
pub mod beside;
mod bodies;
mod book;
mod brief;
mod busy;
mod by_tool;
pub mod cassette;
mod compact;
mod compactor;
pub mod dispatch;
mod drive;
mod equipped;
pub mod error;
mod folded;
mod fork;
mod grants;
mod held;
mod journal;
mod journals;
mod known;
mod left_folders;
mod locks;
mod lone;
pub mod lost;
mod memory;
pub mod models;
mod new_run;
mod others;
mod outputs;
mod pages;
mod perform;
mod places;
mod prefer;
mod reads;
mod request;
mod results;
mod run_time;
pub mod runner;
mod sessions;
mod steps;
mod submitted;
mod takeover;
pub mod watch;

pub use advisor::{ADVISOR_TIME, ModelAdvisor};
pub use again::Replayed;
pub use beside::{Beside, Happened, Observer};
pub use busy::{Busy, BusyRun};
pub use cassette::{Asked, Recording, Tape};
pub use compactor::{COMPACTOR_TIME, ModelCompactor};
pub use dispatch::{Dispatch, Driven, Fate};
pub use error::RunnerError;
pub use folded::Folded;
pub use fork::Forked;
pub use grants::{allows_tool, check_allowed};
pub use journals::check_journals;
pub use known::known_tools;
pub use left_folders::{LeftFolder, left_folders};
pub use locks::HeldUp;
pub use lost::{LostCall, LostCalls};
pub use models::{RunnerExecutor, RunnerModel, RunnerModels};
pub use new_run::NewRun;
pub use reads::row_as_of;
pub use runner::{Runner, RunnerOptions, Submitted};
pub use steps::needs_model;
pub use watch::Watch;
