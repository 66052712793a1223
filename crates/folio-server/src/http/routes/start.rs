//! Starting a run, which is then driven in this process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::extract::State;
use axum::http::StatusCode;
use folio::Role;
use folio::engine::run::{Judging, PlanGate, PlanMode};
use folio::memory::RunId;
use folio::memory::id::Ref;
use folio::runner::{NewRun, RunnerError};
use folio::tools::{HostList, HostRule, ShellPolicy};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::limits::LimitsInput;
use super::runs::load_run_in_full;
use crate::driving::RunSlot;
use crate::http::answer::Made;
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::input::{Body, body_invalid};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, QueryParams};
use crate::submit::{self, ALLOWED_MAX, Asked};
use crate::wire::Written;
use crate::wire::run::RunInFull;

/// A new run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRunBody {
    /// The plan: the document as JSON, or as a text in YAML or JSON. Without it, a model plans for the goal.
    #[serde(default)]
    plan: Option<Value>,
    /// The goal, in words.
    #[serde(default)]
    goal: Option<String>,
    /// The inputs of the plan. Paths must be below the folder in which the server was started.
    #[serde(default)]
    inputs: BTreeMap<String, Value>,
    /// The thread that the run belongs to; the main thread if not given.
    #[serde(default)]
    thread: Option<String>,
    /// When models split tasks into steps.
    #[serde(default)]
    planning: Planning,
    /// Which criteria a judge decides.
    #[serde(default)]
    judging: Judged,
    /// The plans of models that wait for a person's approval: `never` (the default), `root`, `depth<=N`, `always` or
    /// `if_cost>USD`.
    #[serde(default)]
    plan_gate: Option<String>,
    /// Whether the tool `shell` may run any command. Only people may set this.
    #[serde(default)]
    allow_shell: bool,
    /// Hosts that the tool `http_get` may access: `example.org`, `example.org:8080`, `*.example.org`, an address, or a
    /// network such as `10.0.0.0/8`. Only people may set this.
    #[serde(default)]
    #[schemars(length(max = 64))]
    allow_hosts: Vec<String>,
    /// Tools that may be called without a person's approval: `NAME`, or `SERVER.*` for all tools of an MCP server;
    /// `shell` has the effect of `allow_shell`. Only people may set this.
    #[serde(default)]
    #[schemars(length(max = 64))]
    allow_tools: Vec<String>,
    /// The limits of the run, in place of those in the plan. Without a deadline it has to end after 30 minutes, without
    /// the time in which it only waits for people.
    #[serde(default)]
    limits: Option<LimitsInput>,
}

/// When models split tasks into steps.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Planning {
    /// The goal is always split; for other tasks the model decides.
    Always,
    /// The model decides.
    #[default]
    Auto,
    /// Tasks are never split; the model works on each task directly.
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

/// Which criteria a judge decides.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Judged {
    /// The criteria of whoever wants the goal, or wrote the plan. For criteria that a model wrote for steps of its own
    /// plan, the step's own claim counts.
    #[default]
    Wanted,
    /// All criteria: one more call for each step of a model's plan that has criteria.
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

/// Records the run and drives it. The run is durable when this returns, and continues whether or not a client watches
/// it. If this process ends first, the next process that drives runs resumes it.
pub(super) async fn start(
    caller: Caller,
    State(app): State<App>,
    _: QueryParams<Nothing>,
    Body(mut input): Body<NewRunBody>,
) -> Result<Made<Written<RunInFull>>, Problem> {
    caller.may_steer()?;
    let is_person = caller.actor.role == Role::Human;
    if !is_person && (input.allow_shell || !input.allow_hosts.is_empty() || !input.allow_tools.is_empty()) {
        let detail = "only people may allow shell commands, web hosts, and tools that need a person's approval";
        return Err(Problem::role_denied(detail));
    }
    let caller = caller.in_thread(input.thread.take())?;
    let new = new_run(&caller, app.folder.clone(), input).await;
    let asked = Asked::of(new, caller.recorded_run()).await?;
    let place = caller.take_run_slot(&app.driving).await?;
    let recording = asked.record(caller.keyed_runner());
    Box::pin(begin(&caller, &app, place, recording)).await
}

/// Records a run with `recording`, drives it, and returns it.
pub(super) async fn begin(
    caller: &Caller,
    app: &App,
    place: Option<RunSlot>,
    recording: impl Future<Output = Result<(RunId, bool), RunnerError>> + Send + 'static,
) -> Result<Made<Written<RunInFull>>, Problem> {
    let (runner, by) = (caller.runner.clone(), caller.actor.clone());
    let (id, replayed) = app.driving.begin(runner, by, place, recording).await?;
    let row = caller.workspace.run(Ref::Id(id)).await?;
    let at = format!("/v1/spaces/{}/runs/{id}", caller.workspace.space());
    let run = load_run_in_full(caller, &row).await?;
    Ok(Made::of(Written::of(run, &[], replayed)).with_location(at))
}

/// Returns the run that `input` describes, which reads `folder`.
async fn new_run(caller: &Caller, folder: Option<PathBuf>, input: NewRunBody) -> Result<NewRun, Problem> {
    submit::check_allowed(&caller.runner, &input.allow_tools).map_err(|(reason, hints)| {
        let problem = body_invalid(format!("allow_tools: {reason}"));
        hints.into_iter().fold(problem, Problem::hint)
    })?;
    let hosts = hosts_of(&input.allow_hosts)?;
    let gate = input.plan_gate.as_deref().map(str::parse).transpose();
    let plan_gate: PlanGate = gate
        .map_err(|reason: String| body_invalid(format!("plan_gate: {reason}")))?
        .unwrap_or_default();
    let plan = submit::plan_of(&caller.runner, input.plan, input.goal.as_deref()).await?;
    let mut plan = plan.ok_or_else(|| body_invalid("the body has neither a plan nor a goal"))?;
    if let Some(limits) = input.limits {
        plan.set_limits(&limits.into(), caller.workspace.now())
            .map_err(RunnerError::from)?;
    }
    let inputs = submit::inputs_of(&plan, input.inputs, folder.as_deref()).map_err(|(name, message)| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "inputs_invalid",
            format!("{name}: {message}"),
        )
        .hint("start the server in another folder")
    })?;
    Ok(NewRun {
        plan,
        goal: input.goal,
        inputs,
        folder,
        shell: if input.allow_shell {
            ShellPolicy::AllowAll
        } else {
            ShellPolicy::default()
        },
        hosts,
        allow_tools: input.allow_tools,
        plan_mode: input.planning.into(),
        judging: input.judging.into(),
        plan_gate,
        allow_unpriced: false,
        is_unattended: false,
        thread: caller.thread(),
        actor: caller.actor.clone(),
    })
}

/// Parses the hosts to allow.
fn hosts_of(written: &[String]) -> Result<HostList, Problem> {
    if written.len() > ALLOWED_MAX {
        return Err(body_invalid(format!("allow_hosts names more than {ALLOWED_MAX} hosts")));
    }
    let rules: Result<Vec<HostRule>, String> = written.iter().map(|host| host.parse()).collect();
    rules
        .map(HostList::new)
        .map_err(|reason| body_invalid(format!("allow_hosts: {reason}")))
}
