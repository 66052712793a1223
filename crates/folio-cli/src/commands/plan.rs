//! `folio plan`: plan files, and the plans of runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use folio::engine::plan::{self, Known, PlanErrors};
use folio::memory::counted::counted;
use folio_server::wire::plan_mistake;
use serde::Serialize;

use super::plan_of_run::{self, Edit, Show};
use super::{Context, text_of};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::written::OneOrMore;

/// A plan that shows most features of plans, for users who have the program but not its sources.
const EXAMPLE: &str = include_str!("../../../../examples/repo-review.yaml");

/// `folio plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Print the JSON Schema of plan files, for an editor or a model
    Schema,
    /// Print an example plan that reviews a git repository
    ///
    /// Run it with `folio plan example | folio run --plan - --input repo=.`
    Example,
    /// Check plan files and print every mistake with its position
    Check(Check),
    /// Show the current plan of a run, or of a node of it
    Show(Show),
    /// Change the plan of a run, or of a node of it, while it runs
    Edit(Edit),
}

/// `folio plan check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Plans in YAML or JSON; - reads one from standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// A plan without mistakes.
#[derive(Debug, Serialize)]
struct Sound {
    file: String,
    valid: bool,
    title: String,
    steps: usize,
    inputs: Vec<String>,
    needs_model: bool,
}

impl Report for Sound {
    fn text(&self, out: &mut String, style: Style) -> std::fmt::Result {
        use std::fmt::Write as _;
        write!(out, "{} {}", style.good("ok"), self.file)?;
        if !self.title.is_empty() {
            write!(out, ": {}", self.title)?;
        }
        let model = if self.needs_model {
            ", some of them need a model"
        } else {
            ""
        };
        writeln!(out, " ({}{model})", counted(self.steps as u64, "step"))
    }
}

impl Plan {
    /// Whether the command only prints fixed text.
    pub(crate) fn only_prints(&self) -> bool {
        matches!(self, Self::Schema | Self::Example)
    }
}

/// Carries out `folio plan`.
pub(crate) async fn run(context: &Context<'_>, plan: Plan) -> Result<Exit, Failure> {
    match plan {
        Plan::Schema => context.output.text(&format!("{}\n", plan::schema().trim_end()))?,
        Plan::Example => context.output.text(EXAMPLE)?,
        Plan::Check(check) => return self::check(context, check).await,
        Plan::Show(show) => return plan_of_run::show(context, show).await,
        Plan::Edit(edit) => return plan_of_run::edit(context, edit).await,
    }
    Ok(Exit::Done)
}

/// Reports the plans without mistakes, then every mistake of the others.
async fn check(context: &Context<'_>, check: Check) -> Result<Exit, Failure> {
    let (mut sound, mut wrong) = (Vec::new(), Vec::new());
    for file in &check.files {
        let (file, plan) = match parsed(context, file).await? {
            (file, Ok(plan)) => (file, plan),
            (file, Err(errors)) => {
                wrong.push((file, errors));
                continue;
            }
        };
        let (steps, needs_model) = count(&plan.steps);
        sound.push(Sound {
            file,
            valid: true,
            title: plan.title,
            steps,
            inputs: plan.inputs.into_keys().collect(),
            needs_model,
        });
    }
    if !sound.is_empty() {
        context.output.report(&OneOrMore::of(sound))?;
    }
    match wrong.is_empty() {
        true => Ok(Exit::Done),
        false => Err(mistakes_of(&wrong)),
    }
}

/// Reads a plan file and checks it against the existing tools. Also returns the file's name for messages.
pub(crate) async fn read(context: &Context<'_>, path: &std::path::Path) -> Result<(String, plan::Plan), Failure> {
    match parsed(context, path).await? {
        (name, Ok(plan)) => Ok((name, plan)),
        (name, Err(errors)) => Err(mistakes_of(&[(name, errors)])),
    }
}

/// Like [`read`], but with the mistakes as a value.
async fn parsed(
    context: &Context<'_>,
    path: &std::path::Path,
) -> Result<(String, Result<plan::Plan, PlanErrors>), Failure> {
    let (name, text) = text_in(path)?;
    let known = Known {
        executors: Some(context.settings.models.executors.keys().cloned().collect()),
        ..folio::runner::known_tools(&context.registry_for(&text).await?)
    };
    Ok((name, plan::parse(&text, &known)))
}

/// The name of a file for messages, and its text; - is standard input.
pub(super) fn text_in(path: &std::path::Path) -> Result<(String, String), Failure> {
    Ok((path.display().to_string(), text_of("read", path)?))
}

/// A failure with every mistake in a line of its own, in the format of compilers, so that editors can jump there. Each
/// mistake names its file.
pub(super) fn mistakes_of(wrong: &[(String, PlanErrors)]) -> Failure {
    let count: usize = wrong.iter().map(|(_, PlanErrors(errors))| errors.len()).sum();
    let names: Vec<&str> = wrong.iter().map(|(file, _)| file.as_str()).collect();
    let message = format!("{} in {}", counted(count as u64, "mistake"), names.join(", "));
    let failure = Failure::usage("plan_invalid", message);
    let failure = failure.hint("`folio plan schema` prints the JSON Schema of plans");
    let all = wrong
        .iter()
        .flat_map(|(file, PlanErrors(errors))| errors.iter().map(move |error| (file, error)));
    all.fold(failure, |failure, (file, error)| {
        let mut line = format!("{file}:{}: {} {}", error.place, error.code, error.message);
        if !error.path.is_empty() {
            line.push_str(&format!(" [{}]", error.path));
        }
        if let Some(hint) = &error.hint {
            line.push_str(&format!("\n  hint: {hint}"));
        }
        let mut object = plan_mistake(error);
        object["file"] = file.as_str().into();
        failure.mistake(line, object)
    })
}

/// How many steps there are in all, and whether any of them needs a model.
fn count(steps: &[plan::Step]) -> (usize, bool) {
    steps.iter().fold((0, false), |(all, model), step| {
        let (inside, inside_model) = match step {
            plan::Step::Task(task) => match &task.work {
                plan::Work::Do(_) => (0, false),
                plan::Work::Plan(plan) => count(&plan.steps),
                plan::Work::Model => (0, task.needs_model()),
            },
            plan::Step::ForEach(for_each) => count(std::slice::from_ref(&for_each.body)),
            plan::Step::Parallel(_) | plan::Step::Sequence(_) => count(step.members()),
        };
        (all + 1 + inside, model || inside_model)
    })
}
