//! Keeping a space small, and forgetting: through the workspace, on real files, with a clock that tests move.

#![expect(clippy::unwrap_used, reason = "what a helper of a test cannot do fails the test")]

mod forget;
mod forget_run;
mod house;
mod kept;
mod long_text;
mod personal;
mod privacy;
mod tidy;
mod year;
