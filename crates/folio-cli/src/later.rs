//! Commands whose arguments are described only when the command is used.
//!
//! A program that is started for one command does not need the descriptions of all others: building them takes time at
//! each start, and the code for it stays in memory as long as the program runs.

use clap::builder::{Resettable, StyledStr};
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id, Subcommand};

/// The arguments of a command, or its subcommands.
#[derive(Debug)]
pub(crate) struct Later<T>(pub(crate) Box<T>);

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self::of)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self::of)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

impl<T: Args> Args for Later<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        command.defer(|command| complete_command(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| complete_command(command, T::augment_args_for_update))
    }
}

impl<T: Subcommand> Subcommand for Later<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| complete_command(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| complete_command(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

impl<T> Later<T> {
    fn of(arguments: T) -> Self {
        Self(Box::new(arguments))
    }
}

/// `command` as `describe` completes it, except for its own description, which it already has.
fn complete_command(command: Command, describe: fn(Command) -> Command) -> Command {
    let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
    let resettable = |text: Option<StyledStr>| text.map_or(Resettable::Reset, Resettable::Value);
    with_negative_numbers(describe(command).about(resettable(about)).long_about(resettable(long)))
}

/// Makes a negative number a value, which its option then refuses by name, instead of an unknown option.
fn with_negative_numbers(command: Command) -> Command {
    let command = command.mut_args(|argument| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    });
    command.mut_subcommands(with_negative_numbers)
}
