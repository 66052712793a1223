//! The life of observations: `folio observe confirm|resolve|reopen|restore|supersede|replace|clear-resolved|history`.

use clap::{Args, Subcommand};
use folio::Workspace;
use folio::memory::entry::Outcome;
use folio::memory::id::EntryRef;
use folio::store::workspace::{Guard, Successor};

use super::observe::check_names_observation;
use super::several::Several;
use super::{Context, text_or_stdin};
use crate::arguments::{entry_at, entry_ref};
use crate::error::{Exit, Failure};
use crate::report::history::{Cleared, VersionShape};
use crate::report::list::List;
use crate::report::observation::Superseded;

/// What becomes of observations.
#[derive(Debug, Subcommand)]
pub(crate) enum Life {
    /// Confirm that observations still hold, which restarts their lifetime
    #[command(visible_alias = "touch")]
    Confirm(Named),
    /// Mark observations as resolved
    #[command(visible_alias = "complete")]
    Resolve(Resolve),
    /// Make resolved observations active again
    Reopen(Named),
    /// Restore archived observations to the state they had before
    Restore(Named),
    /// Replace one or more observations with another one
    ///
    /// Observations that somebody else changed in the meantime stay as they are.
    Supersede(Supersede),
    /// Replace a passage that occurs exactly once in an observation's text
    Replace(Replace),
    /// Archive all resolved observations at once
    ClearResolved(ClearResolved),
    /// Show every version of an observation and what each one changed
    History(One),
}

/// Observations, and the reason for the change.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Observations: e42 or obs_…
    #[arg(required = true, value_name = "OBSERVATION", value_parser = entry_ref)]
    entries: Vec<EntryRef>,
    /// Do it only if the observation still has this version; for one observation
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u32>,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

/// `folio observe resolve`.
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    came_true: CameTrue,
}

/// Whether what was observed came true.
#[derive(Debug, Args)]
pub(crate) struct CameTrue {
    /// Record that what they said came true; `folio calibration` counts it
    #[arg(long, conflicts_with = "refuted")]
    confirmed: bool,
    /// Record that what they said did not come true
    #[arg(long)]
    refuted: bool,
}

impl CameTrue {
    fn outcome(&self) -> Option<Outcome> {
        match (self.confirmed, self.refuted) {
            (true, _) => Some(Outcome::Confirmed),
            (_, true) => Some(Outcome::Refuted),
            _ => None,
        }
    }
}

/// `folio observe supersede`.
#[derive(Debug, Args)]
pub(crate) struct Supersede {
    /// Observations to replace: e42 or obs_…; e42@3 only if it still has version 3
    #[arg(required = true, value_name = "OBSERVATION", value_parser = entry_at)]
    old: Vec<(EntryRef, Option<u32>)>,
    /// Observation that takes their place
    #[arg(long, value_name = "OBSERVATION", value_parser = entry_ref)]
    by: EntryRef,
    /// Do it only if the observation still has this version; for one observation
    #[arg(long, value_name = "VERSION")]
    expected_version: Option<u32>,
    #[command(flatten)]
    came_true: CameTrue,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

/// `folio observe replace`.
#[derive(Debug, Args)]
pub(crate) struct Replace {
    /// Observation: e42 or obs_…
    #[arg(value_name = "OBSERVATION", value_parser = entry_ref)]
    entry: EntryRef,
    /// Passage to replace; - reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    old: String,
    /// Text to put in its place
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    new: String,
}

/// `folio observe clear-resolved`.
#[derive(Debug, Args)]
pub(crate) struct ClearResolved {
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

/// One observation.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// Observation: e42 or obs_…
    #[arg(value_name = "OBSERVATION", value_parser = entry_ref)]
    entry: EntryRef,
}

/// What a command came to.
pub(crate) enum Answer {
    /// These observations were written, and are to be reported.
    Written(Several),
    /// Everything has been reported; the program exits like this.
    Reported(Exit),
}

/// Carries out the command.
pub(crate) async fn run(context: &Context<'_>, workspace: &Workspace, life: Life) -> Result<Answer, Failure> {
    let actor = context.actor();
    let written = match life {
        Life::Confirm(targets) => {
            let (entries, guard) = targets.entries_and_guard()?;
            let confirm = async |entry| workspace.confirm(&actor, entry, guard.clone()).await;
            Several::each(workspace, entries, confirm).await?
        }
        Life::Resolve(Resolve {
            named: targets,
            came_true,
        }) => {
            let (entries, guard) = targets.entries_and_guard()?;
            let resolve = async |entry| match came_true.outcome() {
                Some(outcome) => workspace.resolve_as(&actor, entry, outcome, guard.clone()).await,
                None => workspace.complete(&actor, entry, guard.clone()).await,
            };
            Several::each(workspace, entries, resolve).await?
        }
        Life::Reopen(targets) => {
            let (entries, guard) = targets.entries_and_guard()?;
            let reopen = async |entry| workspace.reopen(&actor, entry, guard.clone()).await;
            Several::each(workspace, entries, reopen).await?
        }
        Life::Restore(targets) => {
            let (entries, guard) = targets.entries_and_guard()?;
            let restore = async |entry| workspace.restore(&actor, entry, guard.clone()).await;
            Several::each(workspace, entries, restore).await?
        }
        Life::Supersede(supersede) => return self::supersede(context, workspace, supersede).await,
        Life::Replace(Replace { entry, old, new }) => {
            let old = text_or_stdin(old)?;
            let replaced = workspace.str_replace(&actor, entry, &old, &new, Guard::default());
            Several::from(vec![replaced.await?])
        }
        Life::ClearResolved(ClearResolved { reason }) => {
            let cleared = workspace.clear_resolved(&actor, reason).await?;
            context.output.report(&Cleared { cleared })?;
            return Ok(Answer::Reported(Exit::Done));
        }
        Life::History(One { entry }) => {
            let versions = workspace.versions(entry).await?;
            let as_of = workspace.head().await?.0;
            let list = List::whole(versions.iter().map(VersionShape::of).collect(), as_of);
            context.output.report(&list)?;
            return Ok(Answer::Reported(Exit::Done));
        }
    };
    Ok(Answer::Written(written))
}

async fn supersede(context: &Context<'_>, workspace: &Workspace, supersede: Supersede) -> Result<Answer, Failure> {
    let Supersede {
        old,
        by,
        expected_version,
        came_true,
        reason,
    } = supersede;
    let actor = context.actor();
    let outcome = came_true.outcome();
    for reference in old.iter().map(|(old, _)| *old).chain([by]) {
        check_names_observation(workspace, reference).await?;
    }
    if let [(old, version)] = old[..] {
        let guard = Guard {
            expected_version: expected_version.or(version),
            reason,
            ..Guard::default()
        };
        let superseded = workspace.supersede_as(&actor, old, by, outcome, guard).await?;
        return Ok(Answer::Written(Several::from(vec![superseded])));
    }
    if expected_version.is_some() {
        return Err(version_for_many().hint("for several, write e42@3 for each"));
    }
    let by = Successor::There(by);
    let consolidated = workspace.consolidate_as(&actor, &old, by, outcome, reason).await?;
    for left in &consolidated.left {
        context.output.note(format_args!(
            "{} was changed or archived in the meantime; it stays as it is, at version {}",
            left.handle, left.version
        ));
    }
    let nothing = consolidated.superseded.is_empty();
    let exit = if nothing { Exit::Refused } else { Exit::Done };
    let report = Superseded::of(&consolidated, workspace.now());
    Ok(Answer::Reported(context.output.report_ending(&report, exit)?))
}

/// The failure for a version that is expected of several observations.
pub(super) fn version_for_many() -> Failure {
    Failure::usage("usage", "--expected-version is for one observation")
}

impl Named {
    /// The observations, and the condition under which each is changed.
    fn entries_and_guard(self) -> Result<(Vec<EntryRef>, Guard), Failure> {
        if self.expected_version.is_some() && self.entries.len() > 1 {
            return Err(version_for_many().hint("name the observations one by one"));
        }
        let guard = Guard {
            expected_version: self.expected_version,
            reason: self.reason,
            ..Guard::default()
        };
        Ok((self.entries, guard))
    }
}
