//! `folio run`: submits a plan and drives it to its end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use folio::engine::plan::Plan;
use folio::engine::run::{Judging, PlanGate, PlanMode};
use folio::model::{CassetteError, UnusedCues};
use folio::runner::{
    NewRun, PathProblem, Runner, RunnerError, RunnerModels, RunnerOptions, needs_model, resolve_path_inputs,
};
use folio::store::WorkspaceError;
use folio::tools::{HostList, HostRule, Registry, ShellPolicy};
use serde_json::Value;

use super::budget::FirstLimits;
use super::recorder::Recorder;
use super::{Absent, Context, check_given_once, plan};
use crate::arguments::pair;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::leftovers::{Leftovers, WaitingRuns, are_of_another_user};
use crate::models;
use crate::settings::quoted;
use crate::who::Who;

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

/// Who does what tools cannot: models and people.
#[derive(Debug, Clone, Args)]
pub(crate) struct Minds {
    /// Model that plans goals and does the tasks that name no tool: anthropic:NAME, openai:NAME, openai-responses:NAME,
    /// gemini:NAME, ollama:NAME, openai+http://HOST/v1:NAME, agent:NAME, scripted:FILE [default: FOLIO_MODEL, or the
    /// models in the settings]
    #[arg(long)]
    model: Option<String>,
    /// Ask nobody; questions take their default answers [default: when there is no terminal]
    #[arg(long)]
    non_interactive: bool,
    /// Let questions wait for an answer from elsewhere (`folio questions`), although there is no terminal
    #[arg(long, conflicts_with = "non_interactive")]
    attended: bool,
}

/// The same for a process that serves others, or works for them: there somebody may always answer.
#[derive(Debug, Clone, Args)]
pub(crate) struct MindsOfMany {
    /// Model that plans goals and does the tasks that name no tool: anthropic:NAME, openai:NAME, openai-responses:NAME,
    /// gemini:NAME, ollama:NAME, openai+http://HOST/v1:NAME, agent:NAME, scripted:FILE [default: FOLIO_MODEL, or the
    /// models in the settings]
    #[arg(long)]
    model: Option<String>,
    /// Ask nobody; questions take their default answers [default: questions wait until somebody answers]
    #[arg(long)]
    non_interactive: bool,
    /// What holds anyway
    #[arg(long, hide = true, conflicts_with = "non_interactive")]
    attended: bool,
}

impl From<MindsOfMany> for Minds {
    fn from(minds: MindsOfMany) -> Self {
        Self {
            model: minds.model,
            non_interactive: minds.non_interactive,
            attended: true,
        }
    }
}

impl Minds {
    /// A runner with these models and people, on the space that the settings name.
    ///
    /// `is_attended`: whether somebody may answer although there is no terminal, over HTTP for example.
    ///
    /// # Errors
    ///
    /// Among others, if `--non-interactive` is given for runs that others drive: their driver decides that.
    pub(crate) async fn runner(
        &self,
        context: &Context<'_>,
        driving: &Driving,
        is_attended: bool,
        absent: Absent,
    ) -> Result<Runner, Failure> {
        let models = models::open(self.model.as_deref(), &context.settings)?;
        self.runner_with(context, driving, is_attended, (models, absent)).await
    }

    /// Like [`Self::runner`], with these models.
    pub(super) async fn runner_with(
        &self,
        context: &Context<'_>,
        driving: &Driving,
        is_attended: bool,
        (models, absent): (Option<RunnerModels>, Absent),
    ) -> Result<Runner, Failure> {
        if self.non_interactive && driving.is_elsewhere() {
            let message = "the workers that drive these runs decide whether somebody answers";
            return Err(Failure::usage("usage", message)
                .hint("use `folio worker --non-interactive` for all runs, or `folio run --non-interactive` for the run that it starts"));
        }
        let registry = context.registry().await?;
        let options = driving.options(context, models, self.has_person(is_attended))?;
        Ok(Runner::new(context.workspace_or(absent).await?, registry, options))
    }

    /// The models of this call; or none, and why, if those of the settings cannot be opened: not every run needs one.
    pub(super) fn models_if_any(
        &self,
        context: &Context<'_>,
    ) -> Result<(Option<RunnerModels>, Option<Failure>), Failure> {
        match models::open(self.model.as_deref(), &context.settings) {
            Ok(models) => Ok((models, None)),
            Err(failure) if self.model.is_some() => Err(failure),
            Err(failure) => Ok((None, Some(failure))),
        }
    }

    /// The model that a flag names for every role.
    #[cfg(feature = "restate")]
    pub(crate) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether somebody is there to answer; `is_attended` as in [`Minds::runner`].
    pub(crate) fn has_person(&self, is_attended: bool) -> bool {
        !self.non_interactive && (self.attended || is_attended || std::io::stdin().is_terminal())
    }
}

/// How runs are driven.
#[derive(Debug, Clone, Args)]
pub(crate) struct Driving {
    /// Maximum number of tasks at the same time [default: as the plan says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Option<u32>,
    /// What drives runs: `process` for this process, or `restate=URL` for workers behind the Restate ingress at this
    /// URL
    #[arg(long = "runner", value_name = "WHO", default_value = "process")]
    who: Who,
}

impl Driving {
    /// Who drives the runs.
    #[cfg(feature = "restate")]
    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    /// Whether workers elsewhere drive the runs.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.who != Who::Process
    }

    /// The options for driving runs on the space that the settings name.
    pub(crate) fn options(
        &self,
        context: &Context<'_>,
        models: Option<RunnerModels>,
        has_person: bool,
    ) -> Result<RunnerOptions, Failure> {
        Ok(RunnerOptions {
            concurrency: self.concurrency,
            environment: context.settings.tool_environment.clone(),
            hosts: context.settings.hosts.clone(),
            run_folders: context.settings.run_folders.clone(),
            models,
            model_calls: context.settings.models.at_a_time,
            lost_calls: context.settings.lost_calls.clone(),
            has_person,
            observer: context.observer(),
            dispatch: self.who.dispatch()?,
            outputs_at_hand: None,
        })
    }

    /// A runner on the space that the settings name, with these tools.
    pub(crate) async fn runner_with(
        &self,
        context: &Context<'_>,
        registry: Registry,
        models: Option<RunnerModels>,
        has_person: bool,
    ) -> Result<Runner, Failure> {
        let options = self.options(context, models, has_person)?;
        Ok(Runner::new(context.workspace().await?, registry, options))
    }
}

/// Carries out `folio run`.
pub(crate) async fn run(context: &Context<'_>, run: Run) -> Result<Exit, Failure> {
    let (name, mut plan) = match (&run.plan, &run.goal) {
        (Some(file), _) => {
            let (name, plan) = plan::read(context, file).await?;
            let title = title_of(file).filter(|_| run.goal.is_none());
            (name, with_default_title(plan, title))
        }
        (None, Some(goal)) if !goal.trim().is_empty() => ("the goal".to_owned(), Plan::of_goal(goal)),
        (None, _) => {
            let nothing = Failure::usage("nothing_to_run", "there is neither a plan nor a goal");
            return Err(nothing.hint(WITHOUT_MODEL));
        }
    };
    let has_person = run.minds.has_person(false);
    if run.plan_gate != PlanGate::Never && !has_person {
        let nobody = "plans need a person's approval, and nobody is there to approve them";
        return Err(Failure::usage("nobody_to_approve", nobody).hint(
            "pass --attended if somebody approves elsewhere with `folio approve`, or --plan-gate never to need no approval",
        ));
    }
    let current = &context.settings.current;
    check_given_once("--input", run.inputs.iter().map(|(name, _)| name.as_str()))?;
    let inputs = inputs_of(&plan, run.inputs, current)?;
    let is_needed = || run.record.is_some() || needs_model(&plan);
    let (models, is_without) = match run.minds.models_if_any(context)? {
        (None, Some(unopened)) if is_needed() => return Err(unopened),
        (models, unopened) => {
            let without = unopened.iter().map(without_models_note);
            without.for_each(|message| context.output.note(message));
            (models, unopened.is_some())
        }
    };
    if run.plan.is_none() && models.is_none() && !run.driving.is_elsewhere() {
        return Err(without_model(run.goal.as_deref(), current));
    }
    if run.record.is_some() && run.driving.is_elsewhere() {
        let elsewhere = "--record records the models of this process, and with --runner other processes ask theirs";
        return Err(Failure::usage("usage", elsewhere).hint("leave out --record or --runner"));
    }
    let (models, recorder) = match run.record {
        Some(file) => Recorder::begin(current.join(file), run.force, models, has_person)
            .map(|(models, recorder)| (Some(models), Some(recorder)))?,
        None => (models, None),
    };
    // What other processes ask their models is not known here.
    let local_models = models.clone().filter(|_| !run.driving.is_elsewhere());
    let registry = context.registry().await?;
    if !run.driving.is_elsewhere() {
        check_allowed(&registry, &run.allow_tools)?;
    }
    let runner = run.driving.runner_with(context, registry, models, has_person).await?;
    plan.set_limits(&run.limits.at(runner.workspace().now()), runner.workspace().now())
        .map_err(|error| Failure::from(RunnerError::from(error)))?;
    let goal = run.goal;
    let shell = if run.allow_shell {
        ShellPolicy::AllowAll
    } else {
        ShellPolicy::default()
    };
    let new = NewRun {
        plan,
        goal,
        inputs,
        folder: Some(current.clone()),
        shell,
        hosts: HostList::new(run.allow_hosts),
        allow_tools: run.allow_tools,
        plan_mode: run.planning.into(),
        judging: run.judging.into(),
        plan_gate: run.plan_gate,
        allow_unpriced: run.allow_unpriced,
        // Here it applies as long as this process drives the run; others have to be told.
        is_unattended: run.minds.non_interactive && run.driving.is_elsewhere(),
        thread: context.settings.thread.clone(),
        actor: context.actor(),
    };
    // Replies to other runs do not belong on this run's cassette.
    // Nor is it known whether other runs can do without the models that could not be opened.
    let is_elsewhere = run.driving.is_elsewhere();
    let leaves = run.no_resume || recorder.is_some() || is_without || is_elsewhere;
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
    if let Some(recorder) = recorder {
        recorder.end(runner.workspace()).await?;
    }
    let again = context.settings.repeated();
    let exit = result.map_err(|failure| match failure.exit() {
        // Workers go on with it; whoever resumed it here would take it from them.
        Exit::Unavailable if is_elsewhere => failure.hint(format!("follow it with `folio watch {handle}{again}`")),
        Exit::Unavailable if context.settings.is_persistent() && !failure.is_of_output() => {
            failure.hint(format!("resume it with `folio resume {handle}{again}`"))
        }
        _ => failure,
    })?;
    if exit != Exit::Cancelled {
        leftovers.finish(&runner, context.output).await?;
    }
    let left = local_models.map(|models| models.left_over()).unwrap_or_default();
    match exit {
        // A script states what will be asked: an unused cue is as wrong as an unexpected request.
        Exit::Done if !left.is_empty() => Err(script_left(&UnusedCues(left))),
        _ => Ok(exit),
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

/// The failure for a run that went well but left cues of its script unused.
fn script_left(left: &UnusedCues) -> Failure {
    let message = format!(
        "the run went well, but left cues of its script unused: {}",
        left.listed()
    );
    Failure::new(Exit::RunNotOk, "script_left", message)
        .hint("remove these cues, or set `\"times\": \"always\"` on those that may go unused")
}

/// The failure for a cassette that cannot be read or written.
pub(super) fn cassette_failure(error: &CassetteError) -> Failure {
    let exit = if error.is_missing() {
        Exit::NotFound
    } else {
        Exit::Usage
    };
    Failure::new(exit, "cassette_unusable", error.to_string())
}

/// A note that a run continues without the models of the settings, since it needs none.
pub(super) fn without_models_note(unopened: &Failure) -> String {
    format!(
        "going on without a model, which this run does not need: {}",
        unopened.message()
    )
}

/// A hint for users without a model.
const WITHOUT_MODEL: &str = "without a model: folio plan example | folio run --plan - --input repo=.";

/// Checks that each tool that may be called without approval exists.
pub(super) fn check_allowed(registry: &Registry, allowed: &[String]) -> Result<(), Failure> {
    folio::runner::check_allowed(registry, allowed).map_err(|error| {
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
