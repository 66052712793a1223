//! Arguments of all commands that drive runs: who does what tools cannot, and who drives.

use std::io::IsTerminal as _;

use clap::Args;
use folio::runner::{Runner, RunnerModels, RunnerOptions};
use folio::tools::Registry;

use super::{Absent, Context};
use crate::error::Failure;
use crate::models;
use crate::who::Who;

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

    /// Whether `--non-interactive` is given.
    pub(super) fn is_non_interactive(&self) -> bool {
        self.non_interactive
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
            outage_patience: None,
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

/// A note that a run continues without the models of the settings, since it needs none.
pub(super) fn without_models_note(unopened: &Failure) -> String {
    format!(
        "going on without a model, which this run does not need: {}",
        unopened.message()
    )
}
