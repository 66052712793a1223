//! The server of the Model Context Protocol, as the official client sees it, over a pipe.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arguments;
mod begin;
mod lines;
mod pair;
mod plan;
mod prompts;
mod resources;
mod run_keys;
mod run_results;
mod run_texts;
mod runs;
mod sets;
mod shapes;
mod tools;
