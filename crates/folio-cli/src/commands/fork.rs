//! `folio fork`: does a part of a run again, as a new run.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use folio::Timestamp;
use folio::engine::event::NewLimits;
use folio::engine::run::{ForkAt, ForkError, LimitKind, LimitMet};
use folio::engine::{NodeId, Run};
use folio::memory::id::RunRef;
use folio::runner::{ForkOptions, RunnerError};

use super::budget::{Raised, raise_option};
use super::cancel::node_called;
use super::driving::{Driving, Minds, without_models_note};
use super::people::runner;
use super::{Absent, Context};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::report::printable;
use crate::report::run::RunLine;

/// `folio fork`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("moment").required(true).args(["at", "before_limit"]))]
pub(crate) struct Fork {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Node to do again: the path of its step names, such as survey/files, or its id; everything done before it is kept
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    at: Option<String>,
    /// Start from just before a limit stopped anything, with the limits given here: the first of those that they raise
    #[arg(long)]
    before_limit: bool,
    #[command(flatten)]
    raised: Raised,
    /// Use models that have no known price although the budget limits dollars; their cost is not counted
    #[arg(long)]
    allow_unpriced: bool,
    /// Leave the new run paused, so that you can change its plan or limits first; `folio continue` and `folio resume`
    /// carry on with it
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// The hint for a run in which no limit stopped anything.
const WITHOUT_LIMIT: &str = "name the node to do again: --at NODE; `folio show RUN --json` lists them";

/// Carries out `folio fork`.
pub(crate) async fn fork(context: &Context<'_>, fork: Fork) -> Result<Exit, Failure> {
    // What is wrong with the other arguments is told without models, which a mistake in the settings may withhold.
    let reader = runner(context).await?;
    let source = reader.row(fork.run).await?;
    let node = match &fork.at {
        Some(node) => Some(node_called(&reader, &source, node).await?),
        None => None,
    };
    let new_limits = if fork.raised.is_any() {
        let run = reader.load(source.id).await?;
        Some(LimitsOfFork::checked(fork.raised, &run, fork.before_limit)?)
    } else {
        None
    };
    let at = match node {
        Some(node) => ForkAt::Node(node),
        None => new_limits.as_ref().map_or(ForkAt::Limit, LimitsOfFork::moment),
    };
    let (models, unopened) = fork.minds.models_if_any(context)?;
    let with = (models, Absent::Empty);
    let runner = fork.minds.runner_with(context, &fork.driving, false, with).await?;
    let thread = context.settings.thread.clone();
    let options = ForkOptions {
        paused: fork.paused,
        allow_unpriced: fork.allow_unpriced,
    };
    let (now, actor) = (runner.workspace().now(), context.actor());
    let forked = match &new_limits {
        None => runner.fork(source.id, at, thread, actor, options).await,
        Some(new_limits) => {
            let limits = |run: &Run| new_limits.of_fork(run, now);
            runner
                .fork_with_limits(source.id, at, thread, actor, options, &limits)
                .await
        }
    };
    let (forked, unopened) = match (forked, unopened) {
        (Err(RunnerError::NeedsModel { .. }), Some(unopened)) => return Err(unopened),
        (Err(error @ RunnerError::Fork(ForkError::Unlimited)), _) => {
            return Err(Failure::from(error).hint_instead(WITHOUT_LIMIT));
        }
        (forked, unopened) => (forked?, unopened),
    };
    let (id, handle) = (forked.id, forked.handle);
    if let Some(files) = &forked.files {
        let folder = format!(
            "the folder of {handle} is not the same as that of {} was",
            source.handle
        );
        context.output.note(format_args!("{folder}: {}", printable(files)));
    }
    if let Some(new_limits) = new_limits {
        new_limits.note_unchanged(context, &*runner.load(id).await?);
    }
    let again = context.settings.repeated();
    if fork.paused {
        context.output.note(format_args!(
            "{handle} is paused; to carry on, use `folio continue {handle}{again}` and `folio resume {handle}{again}`"
        ));
        let (row, run) = runner.seen(id).await?;
        let line = RunLine::of(&row, run.summary(), runner.workspace().now());
        context
            .output
            .report(&line.forked_from(Some(source.handle.to_string())))?;
        return Ok(Exit::Done);
    }
    context.output.detail(format_args!("run: {handle} ({id})"));
    if let Some(unopened) = unopened {
        // What is checked by a judge is not done without one.
        if runner.load(id).await?.needs().asks_model() {
            return Err(unopened.hint(format!(
                "the new run is {handle}; resume it with `folio resume {handle}{again}` once there is a model"
            )));
        }
        context.output.note(without_models_note(&unopened));
    }
    let hint = || format!("the new run is {handle}; resume it with `folio resume {handle}{again} --model …`");
    follow::drive(context, &runner, id)
        .await
        .map_err(|failure| match failure.code() {
            "needs_model" => failure.hint(hint()),
            _ => failure,
        })
}

/// The limits that a fork gets.
struct LimitsOfFork {
    /// What is raised where a limit stopped something, with the path of the part that has it.
    in_the_way: Vec<(Raised, LimitMet, String)>,
    /// What is set for the run as a whole.
    of_run: Raised,
    /// Limits that stopped something and stay as they are, with the paths of their parts.
    unchanged: Vec<(LimitKind, String)>,
}

impl LimitsOfFork {
    /// Decides which limits of the forked run `source` each of `raised` is meant for: with `before_limit`, those that
    /// stopped something, and otherwise those of the run.
    ///
    /// # Errors
    ///
    /// `limit_unusable` for an increase of a limit that does not exist.
    fn checked(mut raised: Raised, source: &Run, before_limit: bool) -> Result<Self, Failure> {
        let mut in_the_way = Vec::new();
        let mut unchanged = Vec::new();
        if before_limit {
            for (limit, path) in limits_in_the_way(source) {
                let more = raised.only(limit.what);
                more.check_can_increase(source, limit.node)?;
                match more.is_any() {
                    true => in_the_way.push((more, limit, path)),
                    false => unchanged.push((limit.what, path)),
                }
            }
        }
        for (_, limit, _) in &in_the_way {
            raised.take(limit.what);
        }
        // What could not be raised there cannot be raised here.
        raised.check_can_increase(source, NodeId::root(source.id()))?;
        Ok(Self {
            in_the_way,
            of_run: raised,
            unchanged,
        })
    }

    /// The moment before the first of the raised limits stopped anything: what was done after the others is kept. If
    /// none of them did, before any limit did.
    fn moment(&self) -> ForkAt {
        let raised: Vec<LimitKind> = self.in_the_way.iter().map(|(_, limit, _)| limit.what).collect();
        match raised.is_empty() {
            true => ForkAt::Limit,
            false => ForkAt::LimitOf(raised),
        }
    }

    /// The limits of the fork `run`, which begins at `now`. A part of a plan that it does not have yet gets none.
    fn of_fork(&self, run: &Run, now: Timestamp) -> Vec<(Option<NodeId>, NewLimits)> {
        let root = NodeId::root(run.id());
        let in_the_way = self.in_the_way.iter().filter_map(|(more, _, path)| {
            let part = part_at(run, path)?;
            Some((Some(part).filter(|part| *part != root), more.limits(run, part, now)))
        });
        let of_run = self.of_run.is_any().then(|| (None, self.of_run.limits(run, root, now)));
        in_the_way.chain(of_run).collect()
    }

    /// Says which limits may stop the fork `run` like the run before it.
    fn note_unchanged(&self, context: &Context<'_>, run: &Run) {
        let missing = self
            .in_the_way
            .iter()
            .filter(|(_, _, path)| part_at(run, path).is_none());
        let missing = missing.map(|(_, limit, path)| (limit.what, path));
        for (kind, path) in self.unchanged.iter().map(|(kind, path)| (*kind, path)).chain(missing) {
            let whose = if path.is_empty() { "the run" } else { path };
            context.output.note(format_args!(
                "{} also stopped at a limit that is as it was: {}",
                printable(whose),
                raise_option(kind)
            ));
        }
    }
}

/// The node of `run` at `path`; the root for an empty one.
fn part_at(run: &Run, path: &str) -> Option<NodeId> {
    let mut parts = run.tree().into_iter();
    parts.find(|view| view.path == path).map(|view| view.id)
}

/// The limits that stopped something in `run`, each once, with the path of the part that has it; the path of the run is
/// empty.
fn limits_in_the_way(run: &Run) -> Vec<(LimitMet, String)> {
    let mut found: Vec<(LimitMet, String)> = Vec::new();
    for (_, limit) in run.limits_met() {
        if let Some(part) = run.node(limit.node)
            && found.iter().all(|(known, _)| *known != limit)
        {
            found.push((limit, part.path.to_owned()));
        }
    }
    found
}
