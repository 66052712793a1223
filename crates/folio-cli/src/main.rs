//! The program `folio`: parses, presents, and turns failures into exit codes. It contains no rules.

mod again;
mod arguments;
mod bench;
mod calls;
mod commands;
mod counting;
mod error;
mod follow;
mod groups;
mod later;
mod leftovers;
mod models;
mod noticed;
mod output;
mod progress;
mod report;
mod servers;
mod settings;
mod signals;
mod store_watch;
mod unwritten;
mod who;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use arguments::{Arguments, Command};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};
use error::{Exit, Failure, without_passwords};
use folio::store::sqlite;
use output::Output;
use settings::{Settings, Untrusted};

/// The memory allocator: faster than the C library's when many threads allocate and free, as those that drive runs do.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static MEMORY: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A hint on where the commands and options are described.
const HELP_HINT: &str = "`folio --help` lists the commands, `folio COMMAND --help` their options";
/// How long the store may take to close.
const CLOSING_PATIENCE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    keep_memory_private();
    let parsed = command_line().try_get_matches();
    let parsed = parsed
        .and_then(|matches| Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command_line())));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return usage(&with_verb_of_handle(with_place_of_value(with_place_of_role(error)))),
    };
    let mut output = Output::new(&arguments.global);
    let is_hook = matches!(arguments.command, Some(Command::Hook(_)));
    match run(arguments, &mut output) {
        Ok(exit) => exit.into(),
        // The reader of the output has seen enough.
        Err(failure) if failure.is_closed_pipe() => Exit::Done.into(),
        Err(failure) => {
            // Every failure of a hook, including those before the hook begins.
            let failure = if is_hook {
                failure.with_exit(Exit::RunNotOk)
            } else {
                failure
            };
            let failure = failure.map_hints(|hint| output.again(hint));
            output.failure(&failure);
            failure.exit().into()
        }
    }
}

/// On Linux, keeps programs of the same user out of the memory and the environment of this one: they have keys, and what
/// runs as a tool may be what a model wrote. Nor does a crash leave them in a core dump.
fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // A sandbox may forbid the call. It is one hurdle of several, and no reason not to start.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
    }
}

/// The command line, with its help.
fn command_line() -> clap::Command {
    groups::by_purpose(Arguments::command())
}

fn run(arguments: Arguments, output: &mut Output) -> Result<Exit, Failure> {
    let Some(command) = arguments.command else {
        output.text(&command_line().render_help().to_string())?;
        return Ok(Exit::Done);
    };
    let untrusted = command.with_untrusted();
    let settings = Settings::resolve(&arguments.global, untrusted)?;
    output.set_color(settings.color);
    output.set_dumb(settings.is_dumb_terminal);
    output.set_again(settings.again());
    settings.describe(output);
    if let Some(unseen) = settings
        .passed_over
        .as_ref()
        .filter(|_| untrusted == Untrusted::PassedOver)
    {
        output.note(format_args!(
            "{unseen}, so it is ignored; look at it, then run `folio trust`"
        ));
    }
    // Commands that only query or add talk to one store; only runs have work for many threads.
    let mut runtime = if command.drives_runs() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| Failure::cannot("start", "the program", error))?;
    let outcome = runtime.block_on(commands::run(command, settings, output));
    // What is still under way was left on purpose: its run continues when it is resumed.
    runtime.shutdown_background();
    // The runtime releases the store in its own time. If that takes longer, the program ends all the same: nothing is
    // lost, but the write-ahead log stays beside the file.
    if !outcome.is_held_up {
        sqlite::wait_until_closed(CLOSING_PATIENCE);
    }
    outcome.done
}

/// Reports what clap returns: help and version are answers, everything else is a mistake in the call.
fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let message = in_words(error);
    let safe_message = without_passwords(&message);
    let written = if error.use_stderr() && wants_json {
        writeln!(
            std::io::stderr(),
            "{}",
            usage_failure(error.kind(), &safe_message).problem()
        )
    } else if error.use_stderr() && safe_message != error.to_string() {
        // The message repeats what was given, or was reworded, and is then printed without colours.
        write!(std::io::stderr(), "{safe_message}")
    } else {
        error.print()
    };
    if !error.use_stderr() {
        return match written {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let failure = Failure::cannot("write to", "standard output", error);
                // If this cannot be written, there is nobody left to tell.
                let _unwritten = writeln!(std::io::stderr(), "{failure}");
                failure.exit().into()
            }
            _ => Exit::Done.into(),
        };
    }
    if asks_for_a_hook() {
        Exit::RunNotOk.into()
    } else {
        Exit::Usage.into()
    }
}

/// The message of clap, with errors about numbers in plain words.
fn in_words(error: &clap::Error) -> String {
    let message = error.to_string();
    let cause = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    let is_negative = message.contains("invalid value '-");
    let explanation = match cause.as_str() {
        "invalid digit found in string" if is_negative => "not a whole number from 0",
        "invalid digit found in string" | "cannot parse integer from empty string" => "not a whole number",
        "invalid float literal" | "cannot parse float from empty string" => "not a number",
        _ => return message,
    };
    message.replacen(&format!("': {cause}"), &format!("': {explanation}"), 1)
}

/// The message of clap, for programs: the first paragraph with everything that it names, and its tips as hints. If it
/// only shows how a command is used, something was left out.
fn usage_failure(kind: ErrorKind, text: &str) -> Failure {
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let called = text.lines().find(|line| line.starts_with("Usage: "));
        let missing = Failure::usage("usage", "a command or an argument is missing");
        return called.into_iter().fold(missing, Failure::hint).hint(HELP_HINT);
    }
    let mut paragraph = text
        .trim_start_matches("error: ")
        .lines()
        .take_while(|line| !line.is_empty());
    let first = paragraph.next().unwrap_or_default().to_owned();
    let details: Vec<&str> = paragraph.map(str::trim).collect();
    let message = if details.is_empty() {
        first
    } else {
        format!("{first} {}", details.join(", "))
    };
    let tips = text.lines().filter_map(|line| line.trim_start().strip_prefix("tip: "));
    tips.fold(Failure::usage("usage", message), Failure::hint)
        .hint(HELP_HINT)
}

/// Explains where `--role` belongs if it follows a command: it is neither an option of the command nor a value, as
/// clap would guess.
fn with_place_of_role(mut error: clap::Error) -> clap::Error {
    let is_role = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(name)) if name == "--role");
    if error.kind() == ErrorKind::UnknownArgument && is_role {
        let tip = "put the role before the command: 'folio --role ROLE COMMAND'";
        let _guessed = error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Explains how to give an option a value that begins with `-`: after `--`, as clap suggests, it would not be the
/// option's value.
fn with_place_of_value(mut error: clap::Error) -> clap::Error {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return error;
    };
    let arguments: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut command = command_line();
    command.build();
    let follows = arguments.windows(2).find_map(|pair| match pair {
        [option, value] if value.starts_with(given.as_str()) && takes_value(&command, option) => Some((option, value)),
        _ => None,
    });
    if let Some((option, value)) = follows.filter(|(_, value)| value.starts_with('-')) {
        let tip = format!("to pass '{value}' as the value of '{option}', write '{option}={value}'");
        let _guessed = error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Explains what stands between a command and the handle of something that it shows: `page p2` is meant as
/// `page show p2`.
fn with_verb_of_handle(mut error: clap::Error) -> clap::Error {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return error;
    };
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let (true, Some(place)) = (
        is_handle(word),
        arguments.iter().position(|argument| *argument == **word),
    ) else {
        return error;
    };
    let meant = ["show", "get"].into_iter().find_map(|verb| {
        let mut meant = arguments.clone();
        meant.insert(place, verb.into());
        command_line().try_get_matches_from(&meant).ok()?;
        // The program is called as people call it.
        let words = meant.iter().skip(1).map(|word| word.to_string_lossy());
        Some(words.fold("folio".to_owned(), |line, word| format!("{line} {word}")))
    });
    if let Some(meant) = meant {
        let tip = format!("to show '{word}', write '{meant}'");
        let _guessed = error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whether `word` looks like a handle: `p2`, `e42`.
fn is_handle(word: &str) -> bool {
    let mut chars = word.chars();
    let begins = chars.next().is_some_and(|first| "eprt".contains(first));
    begins && !chars.as_str().is_empty() && chars.all(|digit| digit.is_ascii_digit())
}

/// Whether `word` is an option of a command below `command` that takes a value.
fn takes_value(command: &clap::Command, word: &str) -> bool {
    let is_named = |argument: &clap::Arg| {
        argument
            .get_long()
            .is_some_and(|long| word.strip_prefix("--") == Some(long))
    };
    let expects_value = |argument: &clap::Arg| argument.get_action().takes_values();
    command
        .get_arguments()
        .any(|argument| is_named(argument) && expects_value(argument))
        || command.get_subcommands().any(|below| takes_value(below, word))
}

/// Whether a call that cannot be parsed is one of `folio hook`: its mistakes must not block anybody either.
fn asks_for_a_hook() -> bool {
    let matches = command_line().ignore_errors(true).try_get_matches();
    match matches.ok().as_ref().and_then(clap::ArgMatches::subcommand_name) {
        Some(command) => command == "hook",
        None => is_hook_behind_flags(std::env::args_os().skip(1)),
    }
}

/// Whether the first of `arguments` that is neither a flag nor possibly the value of one is `hook`: what follows an
/// unknown flag cannot be parsed otherwise.
fn is_hook_behind_flags(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let mut follows_flag = false;
    for word in arguments {
        if word == "hook" {
            return true;
        }
        let is_flag = word.as_encoded_bytes().starts_with(b"-");
        if !is_flag && !follows_flag {
            return false;
        }
        follows_flag = is_flag;
    }
    false
}
