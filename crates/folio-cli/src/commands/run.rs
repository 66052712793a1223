//! `folio run`: submits a plan and drives it to its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use folio::engine::plan::{InputKind, Plan};
use folio::runner::{NewRun, Runner, RunnerOptions};
use folio::tools::{Registry, ShellPolicy};
use serde_json::Value;

use super::{Context, plan};
use crate::arguments::pair;
use crate::error::{Exit, Failure};
use crate::follow;
use crate::leftovers::Leftovers;

/// `folio run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What is wanted, in words; without a plan, a model makes one
    goal: Option<String>,
    /// Run this plan, YAML or JSON; - reads it from standard input
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// An input of the plan; may be given several times
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = pair)]
    inputs: Vec<(String, String)>,
    /// The model for tasks that do not say how they are done: anthropic:NAME, openai:NAME, ollama:NAME,
    /// openai+http://HOST/v1:NAME
    #[arg(long)]
    model: Option<String>,
    /// Let the tool `shell` run any command; without it, it runs none
    #[arg(long)]
    allow_shell: bool,
    /// Do not go on with runs whose process is gone
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    driving: Driving,
}

/// How runs are driven.
#[derive(Debug, Clone, Args)]
pub(crate) struct Driving {
    /// How many tasks are under way at one moment [default: as the plan says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: Option<u32>,
}

impl Driving {
    /// A runner on the space that the settings name.
    pub(crate) async fn runner(&self, context: &Context<'_>) -> Result<Runner, Failure> {
        let options = RunnerOptions {
            concurrency: self.concurrency,
            environment: context.settings.tool_environment.clone(),
            run_folders: context.settings.run_folders.clone(),
        };
        Ok(Runner::new(
            context.workspace().await?,
            Registry::with_builtins(),
            options,
        ))
    }
}

/// Carries out `folio run`.
pub(crate) async fn run(context: &Context<'_>, run: Run) -> Result<Exit, Failure> {
    let Some(file) = &run.plan else {
        return Err(without_plan(
            run.goal.as_deref(),
            run.model.or_else(|| context.settings.model.clone()),
        ));
    };
    let (name, plan) = plan::read(file)?;
    let current = &context.settings.current;
    let inputs = inputs_of(&plan, run.inputs, current)?;
    let runner = run.driving.runner(context).await?;
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
        thread: context.settings.thread.clone(),
        actor: context.actor(),
    };
    let leftovers = if run.no_resume {
        Leftovers::default()
    } else {
        Leftovers::take_up(&runner, context.output).await?
    };
    let (id, handle) = runner
        .submit(new)
        .await
        .map_err(|error| Failure::from(error).about_file(&name))?;
    context.output.detail(format_args!("run: {handle} ({id})"));
    let ended = follow::drive(context, &runner, id).await?;
    if ended != Exit::Cancelled {
        leftovers.finish(context.output).await;
    }
    Ok(ended)
}

/// Why a goal alone is not enough, and what is.
fn without_plan(goal: Option<&str>, model: Option<String>) -> Failure {
    let example = "without a model: folio run --plan examples/repo-review.yaml --input repo=.";
    match (goal, model) {
        (None, _) => Failure::usage("nothing_to_run", "there is neither a plan nor a goal").hint(example),
        (Some(_), None) => Failure::usage(
            "no_model",
            "only a model can make a plan for a goal, and none is configured",
        )
        .hint("name one with --model anthropic:NAME, openai:NAME, ollama:NAME or openai+http://HOST/v1:NAME")
        .hint("or put it into FOLIO_MODEL, or into folio.toml as model = \"…\"")
        .hint(example),
        (Some(_), Some(model)) => Failure::usage(
            "model_not_built",
            format!("this build of folio cannot ask a model yet, {model} included"),
        )
        .hint(example),
    }
}

/// What is given to the plan. Paths become absolute here, where it is known what they are relative to.
fn inputs_of(plan: &Plan, given: Vec<(String, String)>, current: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let mut inputs: BTreeMap<_, _> = given
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)))
        .collect();
    for (name, spec) in plan.inputs.iter().filter(|(_, spec)| spec.kind == InputKind::Path) {
        let Some(Value::String(path)) = inputs.get(name).or(spec.default.as_ref()) else {
            continue;
        };
        let path =
            std::path::absolute(current.join(path)).map_err(|error| Failure::file("find", Path::new(path), &error))?;
        std::fs::metadata(&path).map_err(|error| Failure::file(&format!("use the input {name},"), &path, &error))?;
        let text = path.into_os_string().into_string().map_err(|path| {
            Failure::usage(
                "input_not_text",
                format!("the path {} is not valid UTF-8", path.display()),
            )
        })?;
        inputs.insert(name.clone(), Value::String(text));
    }
    Ok(inputs)
}
