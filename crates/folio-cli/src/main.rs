//! The program `folio`: parses, presents, and turns failures into exit codes. It contains no rules.

mod arguments;
mod bench;
mod commands;
mod counting;
mod error;
mod follow;
mod later;
mod leftovers;
mod models;
mod output;
mod progress;
mod report;
mod servers;
mod settings;
mod who;

use std::io::Write as _;
use std::process::ExitCode;

use arguments::Arguments;
use clap::{CommandFactory as _, Parser as _};
use error::{Exit, Failure};
use output::Output;
use settings::Settings;

/// What hands out memory: quicker than the C library's where many threads take and give it back, as those that drive runs do.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let mut output = Output::new(&arguments.global);
    match run(arguments, &mut output) {
        Ok(exit) => exit.into(),
        // Whoever reads our output has seen enough.
        Err(failure) if failure.is_closed_pipe() => Exit::Done.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.exit().into()
        }
    }
}

fn run(arguments: Arguments, output: &mut Output) -> Result<Exit, Failure> {
    let Some(command) = arguments.command else {
        output.text(&Arguments::command().render_help().to_string())?;
        return Ok(Exit::Done);
    };
    let settings = Settings::resolve(&arguments.global)?;
    output.set_color(settings.color);
    settings.describe(output);
    // What only asks or adds is one conversation with one store; only runs have work for many threads.
    let mut runtime = if command.drives_runs() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| Failure::cannot("start", "the program", error))?;
    let result = runtime.block_on(commands::run(command, settings, output));
    // What is still under way was left on purpose: its run goes on when somebody takes it up.
    runtime.shutdown_background();
    result
}

/// What clap says: help and version are answers, everything else is a mistake in the call.
fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let message = error.to_string();
        let failure = Failure::usage(
            "usage",
            message.trim_start_matches("error: ").lines().next().unwrap_or_default(),
        )
        .hint("`folio --help` lists the commands, `folio COMMAND --help` their options");
        // Nobody is left to tell if this cannot be written.
        let _unwritten = writeln!(std::io::stderr(), "{}", failure.problem());
    } else {
        let _unwritten = error.print();
    }
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}
