//! Carries out the actions of runs in this process.
//!
//! The engine decides what is due. This crate performs it, records the outcome in one commit with everything that it
//! writes to memory, and asks the engine again. It waits, retries, stops and reads the clock; it never decides.
//!
//! - [`runner`]: submits, drives, resumes and cancels runs; `reads`: queries about runs; `leftovers`: runs whose process
//!   is gone
//! - `drive`: the loop of one run; [`dispatch`]: runs that other processes drive; `busy`: counts runs that do more than
//!   wait
//! - [`models`]: the models of a runner, and one call of a model; `brief`: what a model is told from memory first;
//!   `pages`: what the pages of a run say, cached by its driver
//! - `sessions`: agent programs that can continue an earlier session
//! - `bodies`: large outputs, loaded when needed and dropped again; `outputs`: where outputs are kept
//! - `perform`: one call of a tool, from its permissions to its outcome
//! - `memory`: what a call writes (observations and page entries), in the same commit as its outcome
//! - `book`: the scratchbook of the run's thread, for tools
//! - `prefer`: which calls come first when more are due than may be under way
//! - [`watch`]: a run as other processes see it, live; `folded`: runs that somebody looked at, cached for a minute;
//!   [`observer`]: a run followed while this process drives it, for observers; `journal`: the journal read part by
//!   part; `fork`: a new run from a moment of another one; `takeover`: the files that a fork copies; `left_folders`:
//!   run folders of forks that never began, and of forgotten runs; `replay`: whether the pages of a run match its journal; `journals`: checks
//!   whether all journals can be read
//! - [`cassette`]: records what the models of a run answer, and replays a run with it

mod advisor;
mod attendance;
mod bodies;
mod book;
mod brief;
mod busy;
pub mod cassette;
mod compact;
mod compactor;
mod derive;
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
mod leftovers;
mod locks;
pub mod lost;
mod memory;
mod metered_model;
pub mod models;
mod new_run;
pub mod observer;
mod others;
mod outage;
mod outputs;
mod owner;
mod pages;
mod paths;
mod pending_writes;
mod perform;
mod places;
mod prefer;
mod reads;
mod replay;
mod request;
mod results;
mod run_time;
mod run_variable;
pub mod runner;
mod seen;
mod sessions;
mod steps;
mod submitted;
mod takeover;
mod tool_executor;
pub mod watch;

pub use advisor::{ADVISOR_TIME, ModelAdvisor};
pub use busy::{Busy, BusyRun};
pub use cassette::{Asked, Recording, Tape};
pub use compactor::{COMPACTOR_TIME, ModelCompactor};
pub use dispatch::{Dispatch, Driven, Fate};
pub use error::RunnerError;
pub use folded::Folded;
pub use fork::{ForkOptions, Forked};
pub use grants::{allows_tool, check_allowed};
pub use journals::check_journals;
pub use known::known_tools;
pub use left_folders::{LeftFolder, left_folders, remove_run_folders};
pub use leftovers::{Hindrance, LEFTOVER_PATIENCE, Leftover, ResumedRuns};
pub use locks::HeldUp;
pub use lost::{LostCall, LostCalls};
pub use models::{RunnerExecutor, RunnerModel, RunnerModels};
pub use new_run::NewRun;
pub use observer::{DriveFollower, ObservedEvent, Observer};
pub use paths::{PathInputError, PathProblem, resolve_path_inputs, resolve_path_inputs_within};
pub use reads::row_as_of;
pub use replay::Replayed;
pub use runner::{Runner, RunnerOptions, Submitted};
pub use steps::needs_model;
pub use watch::Watch;
