//! `folio run`: submits a plan and drives it to its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use folio::engine::plan::Plan;
use folio::engine::run::{Judging, PlanGate, PlanMode};
use folio::memory::id::RunHandle;
use folio::model::ScriptMismatch;
use folio::runner::{NewRun, PathProblem, RunnerError, RunnerModels, needs_model, resolve_path_inputs};
use folio::store::WorkspaceError;
use folio::tools::tool::AGENT_PREFIX;
use folio::tools::{HostList, HostRule, Registry, ShellPolicy};
use serde_json::Value;

use super::budget::FirstLimits;
use super::driving::{Driving, Minds, without_models_note};
use super::recorder::Recorder;
use super::{Context, check_given_once, plan};
use crate::arguments::pair;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::leftovers::{Leftovers, WaitingRuns, are_of_another_user};
use crate::settings::quoted;

/// `folio run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Goal in words; without --plan, a model makes the plan
    goal: Option<String>,
    /// Plan to run, in YAML, JSON or markdown; - reads it from standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Input of the plan; repeatable
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = pair)]
    inputs: Vec<(String, String)>,
    /// Whether models break the goal and tasks into smaller steps
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    planning: Planning,
    /// Which criteria a judge model verifies
    #[arg(long, value_name = "WHOSE", default_value = "wanted")]
    judging: Judged,
    /// Which plans of models need a person's approval: never, root, depth<=N, always, if_cost>USD
    #[arg(long, value_name = "WHICH", default_value = "never")]
    plan_gate: PlanGate,
    /// Let the tool `shell` run any command; otherwise each command waits for approval, and is refused if nobody is
    /// there to approve
    #[arg(long)]
    allow_shell: bool,
    /// Let the tool `http_get` reach this host: example.org, example.org:8080, *.example.org, an IP address, or a
    /// network such as 10.0.0.0/8; other calls wait for approval, and are refused if nobody is there to approve;
    /// repeatable
    #[arg(long = "allow-host", value_name = "HOST")]
    allow_hosts: Vec<HostRule>,
    /// Let runs call this tool without approval: NAME.TOOL, or NAME.* for every tool of an MCP server; agent:NAME for an
    /// agent program or an agent elsewhere; `shell` means --allow-shell; repeatable
    #[arg(long = "allow-tool", value_name = "TOOL")]
    allow_tools: Vec<String>,
    /// Use models that have no known price although the budget limits dollars; their cost is not counted
    #[arg(long)]
    allow_unpriced: bool,
    /// Do not resume runs whose process is gone
    #[arg(long)]
    no_resume: bool,
    /// Record every model request and reply in this file, a cassette for `folio replay --cassette`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let --record write over a cassette that has replies
    #[arg(long, requires = "record")]
    force: bool,
    #[command(flatten)]
    limits: FirstLimits,
    #[command(flatten)]
    minds: Minds,
    #[command(flatten)]
    driving: Driving,
}

/// Whether models break the goal and tasks into smaller steps
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Planning {
    /// Always break up the goal; for tasks below it, the model decides
    Always,
    /// The model decides
    Auto,
    /// Never; the model does the work itself
    Never,
}

impl From<Planning> for PlanMode {
    fn from(planning: Planning) -> Self {
        match planning {
            Planning::Always => Self::Always,
            Planning::Auto => Self::Auto,
            Planning::Never => Self::Never,
        }
    }
}

/// Which criteria a judge model verifies
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Judged {
    /// Those of the goal and of a plan that you wrote; steps that a model planned report on their own criteria
    Wanted,
    /// All criteria; costs one more model call for each step that a model planned
    All,
}

impl From<Judged> for Judging {
    fn from(judged: Judged) -> Self {
        match judged {
            Judged::Wanted => Self::Wanted,
            Judged::All => Self::All,
        }
    }
}

/// Carries out `folio run`.
pub(crate) async fn run(context: &Context<'_>, mut run: Run) -> Result<Exit, Failure> {
    let (name, mut plan) = plan_to_run(context, &run).await?;
    let has_person = run.minds.has_person(false);
    check_somebody_approves(run.plan_gate, has_person)?;
    let current = &context.settings.current;
    check_given_once("--input", run.inputs.iter().map(|(name, _)| name.as_str()))?;
    let inputs = inputs_of(&plan, std::mem::take(&mut run.inputs), current)?;
    let Models { models, is_without } = models_to_ask(context, &run, &plan)?;
    let (models, recorder) = match &run.record {
        Some(file) => Recorder::begin(current.join(file), run.force, models, has_person)
            .map(|(models, recorder)| (Some(models), Some(recorder)))?,
        None => (models, None),
    };
    let is_elsewhere = run.driving.is_elsewhere();
    // What other processes ask their models is not known here.
    let local_models = models.clone().filter(|_| !is_elsewhere);
    let registry = context.registry().await?;
    if !is_elsewhere {
        check_allowed(context, &registry, &run.allow_tools)?;
    }
    let runner = run.driving.runner_with(context, registry, models, has_person).await?;
    let now = runner.workspace().now();
    plan.set_limits(&run.limits.at(now), now)
        .map_err(|error| Failure::from(RunnerError::from(error)))?;
    // Replies to other runs do not belong on this run's cassette.
    // Nor is it known whether other runs can do without the models that could not be opened.
    let leaves = run.no_resume || recorder.is_some() || is_without || is_elsewhere;
    let new = new_run(context, run, plan, inputs);
    let leftovers = if leaves || are_of_another_user(&runner, context.output, WaitingRuns::GivenUp).await? {
        Leftovers::default()
    } else {
        Leftovers::resume_unfinished(&runner, context.output, WaitingRuns::GivenUp).await?
    };
    let recorder = recorder.map(|recorder| recorder.keep_written(runner.workspace()));
    let (id, handle) = runner.submit(new).await.map_err(|error| not_submitted(error, &name))?;
    context.output.detail(format_args!("run: {handle} ({id})"));
    let result = follow::drive(context, &runner, id).await;
    // However the run ended, its replies were paid for.
    let recorded = match recorder {
        Some(recorder) => recorder.end(runner.workspace()).await,
        None => Ok(()),
    };
    let exit = result.map_err(|failure| {
        let failure = with_way_on(context, failure, handle, is_elsewhere);
        match &recorded {
            Ok(()) => failure,
            Err(unrecorded) => failure.hint(format!("nor was it recorded: {}", unrecorded.message())),
        }
    })?;
    recorded?;
    if exit != Exit::Cancelled {
        leftovers.finish(&runner, context.output).await?;
    }
    let left = local_models.map(|models| models.left_over()).unwrap_or_default();
    match exit {
        // A script states what will be asked: an unused cue is as wrong as an unexpected request, and that as wrong as
        // ever if the run made do without an answer.
        Exit::Done if !left.is_empty() => Err(script_left(&ScriptMismatch(left))),
        _ => Ok(exit),
    }
}

/// The plan of the file, or of the goal, with what failures call it.
async fn plan_to_run(context: &Context<'_>, run: &Run) -> Result<(String, Plan), Failure> {
    match (&run.plan, &run.goal) {
        (Some(file), goal) => {
            let (name, plan) = plan::read(context, file).await?;
            let title = title_of(file).filter(|_| goal.is_none());
            Ok((name, with_default_title(plan, title)))
        }
        (None, Some(goal)) if !goal.trim().is_empty() => Ok(("the goal".to_owned(), Plan::of_goal(goal))),
        (None, _) => {
            let nothing = Failure::usage("nothing_to_run", "there is neither a plan nor a goal");
            Err(nothing.hint(WITHOUT_MODEL))
        }
    }
}

/// Refuses a run whose plans would wait for an approval that nobody can give.
fn check_somebody_approves(gate: PlanGate, has_person: bool) -> Result<(), Failure> {
    if gate == PlanGate::Never || has_person {
        return Ok(());
    }
    let nobody = "plans need a person's approval, and nobody is there to approve them";
    Err(Failure::usage("nobody_to_approve", nobody).hint(
        "pass --attended if somebody approves elsewhere with `folio approve`, or --plan-gate never to need no approval",
    ))
}

/// The models that a run asks.
struct Models {
    models: Option<RunnerModels>,
    /// Whether the settings name models that could not be opened, and the run does without.
    is_without: bool,
}

/// Opens the models for `run` of `plan`; refuses one that needs models that are not there.
fn models_to_ask(context: &Context<'_>, run: &Run, plan: &Plan) -> Result<Models, Failure> {
    let (models, unopened) = run.minds.models_if_any(context)?;
    let is_without = unopened.is_some();
    if let Some(unopened) = unopened {
        if models.is_none() && (run.record.is_some() || needs_model(plan)) {
            return Err(unopened);
        }
        context.output.note(without_models_note(&unopened));
    }
    let is_elsewhere = run.driving.is_elsewhere();
    if run.plan.is_none() && models.is_none() && !is_elsewhere {
        return Err(without_model(run.goal.as_deref(), &context.settings.current));
    }
    if run.record.is_some() && is_elsewhere {
        let elsewhere = "--record records the models of this process, and with --runner other processes ask theirs";
        return Err(Failure::usage("usage", elsewhere).hint("leave out --record or --runner"));
    }
    Ok(Models { models, is_without })
}

/// What is submitted.
fn new_run(context: &Context<'_>, run: Run, plan: Plan, inputs: BTreeMap<String, Value>) -> NewRun {
    NewRun {
        plan,
        inputs,
        folder: Some(context.settings.current.clone()),
        shell: if run.allow_shell {
            ShellPolicy::AllowAll
        } else {
            ShellPolicy::default()
        },
        hosts: HostList::new(run.allow_hosts),
        allow_tools: run.allow_tools,
        plan_mode: run.planning.into(),
        judging: run.judging.into(),
        plan_gate: run.plan_gate,
        allow_unpriced: run.allow_unpriced,
        // Here it applies as long as this process drives the run; others have to be told.
        is_unattended: run.minds.is_non_interactive() && run.driving.is_elsewhere(),
        goal: run.goal,
        thread: context.settings.thread.clone(),
        actor: context.actor(),
    }
}

/// `failure` of driving the run `handle`, with how to go on with it if that is possible.
fn with_way_on(context: &Context<'_>, failure: Failure, handle: RunHandle, is_elsewhere: bool) -> Failure {
    let again = context.settings.repeated();
    match failure.exit() {
        // Workers go on with it; whoever resumed it here would take it from them.
        Exit::Unavailable if is_elsewhere => failure.hint(format!("follow it with `folio watch {handle}{again}`")),
        Exit::Unavailable if context.settings.is_persistent() && !failure.is_of_output() => {
            failure.hint(format!("resume it with `folio resume {handle}{again}`"))
        }
        _ => failure,
    }
}

/// The name of a plan file without its extension: lists of runs show it for plans without a title.
fn title_of(file: &Path) -> Option<String> {
    let stem = file.file_stem()?.to_str()?;
    // A title is a template, and `-` is standard input.
    (stem != "-" && !stem.contains(['{', '}'])).then(|| stem.to_owned())
}

/// `plan` with `title`, unless it has a title or a goal of its own.
fn with_default_title(mut plan: Plan, title: Option<String>) -> Plan {
    if plan.title.trim().is_empty() && plan.goal.trim().is_empty() {
        plan.title = title.unwrap_or_default();
    }
    plan
}

/// Why nothing was started. The failure names the plan `name` only if the plan or its inputs are wrong.
fn not_submitted(error: RunnerError, name: &str) -> Failure {
    let is_of_plan = match &error {
        RunnerError::NeedsModel { .. } | RunnerError::Inputs { .. } | RunnerError::Edit(_) => true,
        RunnerError::Memory(error) => matches!(**error, WorkspaceError::Invalid(_)),
        _ => false,
    };
    let failure = Failure::from(error);
    if is_of_plan { failure.about(name) } else { failure }
}

/// The failure for a run that went well but asked something else than its script says.
fn script_left(left: &ScriptMismatch) -> Failure {
    let message = format!(
        "the run went well, but its script does not fit what was asked: {}",
        left.listed()
    );
    Failure::new(Exit::RunNotOk, "script_left", message)
        .hint("remove unused cues, or set `\"times\": \"always\"` on those that may go unused; add cues for the other requests")
}

/// A hint for users without a model.
const WITHOUT_MODEL: &str = "without a model: folio plan example | folio run --plan - --input repo=.";

/// Checks that each tool or agent that may be called without approval exists.
pub(super) fn check_allowed(context: &Context<'_>, registry: &Registry, allowed: &[String]) -> Result<(), Failure> {
    let agents = context.settings.agents.keys();
    let agents: Vec<String> = agents.map(|name| format!("{AGENT_PREFIX}{name}")).collect();
    folio::runner::check_allowed(registry, &agents, allowed).map_err(|error| {
        let failure = Failure::usage("usage", format!("--allow-tool: {}", error.message));
        error.hints.into_iter().fold(failure, Failure::hint)
    })
}

/// The failure for a goal without a model, with hints.
fn without_model(goal: Option<&str>, current: &Path) -> Failure {
    let message = "only a model can make a plan for a goal, and none is configured";
    let failure = Failure::usage("no_model", message);
    if let Some(file) = goal.filter(|goal| current.join(goal).is_file()) {
        return failure.hint(format!(
            "{file} is a file; if it is a plan, use: folio run --plan {}",
            quoted(file)
        ));
    }
    failure
        .hint("name one with --model anthropic:NAME, openai:NAME, ollama:NAME or openai+http://HOST/v1:NAME")
        .hint("or put it into FOLIO_MODEL, or into folio.toml as model = \"…\"")
        .hint(WITHOUT_MODEL)
}

/// The inputs of the plan. Paths become absolute here, where it is known what they are relative to.
fn inputs_of(plan: &Plan, values: Vec<(String, String)>, current: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let inputs = values
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    resolve_path_inputs(plan, inputs, current).map_err(|error| match error.problem {
        PathProblem::Unusable(path, cause) => Failure::file(&format!("use the input {},", error.input), &path, &cause),
        PathProblem::NotText(path) => Failure::usage(
            "input_not_text",
            format!("the path {} is not valid UTF-8", path.display()),
        ),
    })
}
