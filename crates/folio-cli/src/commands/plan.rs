//! `folio plan`: plan files, and the plans of runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use folio::engine::plan::{self, Known, PlanError, PlanErrors};
use folio::memory::counted::counted;
use folio_server::wire::plan_mistake;
use serde::Serialize;
use serde_json::{Value, json};

use super::plan_of_run::{self, Edit, Show};
use super::{Context, text_of};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::report::written::OneOrMore;

/// A plan that shows most features of plans, for users who have the program but not its sources.
const EXAMPLE: &str = include_str!("../../../../examples/repo-review.yaml");

/// The code of the failure for plans with mistakes.
const INVALID: &str = "plan_invalid";

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
    /// Plans in YAML, JSON or markdown; - reads one from standard input
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

impl Sound {
    fn of(file: String, plan: plan::Plan) -> Self {
        let (steps, needs_model) = count(&plan.steps);
        Self {
            file,
            valid: true,
            title: plan.title,
            steps,
            inputs: plan.inputs.into_keys().collect(),
            needs_model,
        }
    }
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

/// A plan with mistakes, or a file that cannot be read.
#[derive(Debug, Serialize)]
struct Wrong {
    file: String,
    valid: bool,
    errors: Vec<Value>,
}

impl Wrong {
    fn of(file: &str, errors: Vec<Value>) -> Self {
        Self {
            file: file.to_owned(),
            valid: false,
            errors,
        }
    }
}

/// A file that was checked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Checked {
    Sound(Sound),
    Wrong(Wrong),
}

impl Report for Checked {
    fn text(&self, out: &mut String, style: Style) -> std::fmt::Result {
        match self {
            Self::Sound(sound) => sound.text(out, style),
            // People read the mistakes in the failure.
            Self::Wrong(_) => Ok(()),
        }
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

/// Reports the plans without mistakes, then every mistake of the others and the files that cannot be read.
async fn check(context: &Context<'_>, check: Check) -> Result<Exit, Failure> {
    let (mut checked, mut wrong, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for path in &check.files {
        let file = path.display().to_string();
        let text = match text_of("read", path) {
            Ok(text) => text,
            Err(failure) => {
                checked.push(Checked::Wrong(Wrong::of(&file, vec![unread_mistake(&file, &failure)])));
                unread.push((file, failure));
                continue;
            }
        };
        match parsed(context, &text).await? {
            Ok(plan) => checked.push(Checked::Sound(Sound::of(file, plan))),
            Err(errors) => {
                let mistakes = errors.listed.iter().map(|error| mistake_in(&file, error)).collect();
                checked.push(Checked::Wrong(Wrong::of(&file, mistakes)));
                wrong.push((file, errors));
            }
        }
    }
    // The form depends on the call, so that a program knows it beforehand.
    if check.files.len() > 1 {
        context.output.report(&OneOrMore::More(checked))?;
    } else if let Some(only) = checked.pop() {
        context.output.report(&only)?;
    }
    match (wrong.is_empty(), unread.is_empty()) {
        (true, true) => Ok(Exit::Done),
        (false, true) => Err(mistakes_of(&wrong)),
        (_, false) => Err(not_all_checked(&wrong, unread)),
    }
}

/// The failure for plans with mistakes, if any, and at least one file that cannot be read.
fn not_all_checked(wrong: &[(String, PlanErrors)], mut unread: Vec<(String, Failure)>) -> Failure {
    if wrong.is_empty()
        && unread.len() == 1
        && let Some((_, failure)) = unread.pop()
    {
        return failure;
    }
    let names: Vec<&str> = unread.iter().map(|(file, _)| file.as_str()).collect();
    let mut message = format!("not checked: {}", names.join(", "));
    if !wrong.is_empty() {
        message.insert_str(0, &format!("{}; ", count_in_words(wrong)));
    }
    // The code is one that belongs to the exit code.
    let failures = unread.iter().map(|(_, failure)| failure);
    let worst = failures.max_by_key(|failure| failure.exit());
    let worst = worst.filter(|failure| wrong.is_empty() || failure.exit() > Exit::Usage);
    let failure = worst.map_or_else(
        || Failure::usage(INVALID, &*message),
        |worst| Failure::new(worst.exit(), worst.code(), &*message),
    );
    unread
        .iter()
        .fold(with_mistakes(failure, wrong), |failure, (file, unread)| {
            let hints = unread.hints().iter().map(|hint| format!("\n  hint: {hint}"));
            let line = format!("{}{}", unread.message(), hints.collect::<String>());
            failure.mistake(line, unread_mistake(file, unread))
        })
}

/// A file that cannot be read, in the shape of a mistake in a plan.
fn unread_mistake(file: &str, failure: &Failure) -> Value {
    json!({
        "line": null,
        "column": null,
        "path": "",
        "code": failure.code(),
        "message": failure.message(),
        "hint": failure.hints().first(),
        "file": file,
    })
}

/// A mistake in the plan `file`.
fn mistake_in(file: &str, error: &PlanError) -> Value {
    let mut object = plan_mistake(error);
    object["file"] = file.into();
    object
}

/// Reads a plan file and checks it against the existing tools. Also returns the file's name for messages.
pub(crate) async fn read(context: &Context<'_>, path: &std::path::Path) -> Result<(String, plan::Plan), Failure> {
    let (name, text) = text_in(path)?;
    match parsed(context, &text).await? {
        Ok(plan) => Ok((name, plan)),
        Err(errors) => Err(mistakes_of(&[(name, errors)])),
    }
}

/// The plan in `text`, checked against the existing tools.
async fn parsed(context: &Context<'_>, text: &str) -> Result<Result<plan::Plan, PlanErrors>, Failure> {
    let known = Known {
        executors: Some(context.settings.models.executors.keys().cloned().collect()),
        ..folio::runner::known_tools(&context.registry_for(text).await?)
    };
    Ok(plan::parse(text, &known))
}

/// The name of a file for messages, and its text; - is standard input.
pub(super) fn text_in(path: &std::path::Path) -> Result<(String, String), Failure> {
    Ok((path.display().to_string(), text_of("read", path)?))
}

/// A failure with every mistake in a line of its own, in the format of compilers, so that editors can jump there. Each
/// mistake names its file.
pub(super) fn mistakes_of(wrong: &[(String, PlanErrors)]) -> Failure {
    with_mistakes(Failure::usage(INVALID, count_in_words(wrong)), wrong)
}

/// How many mistakes there are, and in which files.
fn count_in_words(wrong: &[(String, PlanErrors)]) -> String {
    let count: usize = wrong.iter().map(|(_, errors)| errors.count()).sum();
    let names: Vec<&str> = wrong.iter().map(|(file, _)| file.as_str()).collect();
    format!("{} in {}", counted(count as u64, "mistake"), names.join(", "))
}

/// `failure` with the mistakes in `wrong`.
fn with_mistakes(mut failure: Failure, wrong: &[(String, PlanErrors)]) -> Failure {
    if !wrong.is_empty() {
        failure = failure.hint("`folio plan schema` prints the JSON Schema of plans");
    }
    for (file, errors) in wrong.iter().filter(|(_, errors)| errors.unlisted > 0) {
        let listed = errors.listed.len();
        failure = failure.hint(format!(
            "the first {listed} mistakes of {file} are listed; check it again once they are mended"
        ));
    }
    let all = wrong
        .iter()
        .flat_map(|(file, errors)| errors.listed.iter().map(move |error| (file, error)));
    all.fold(failure, |failure, (file, error)| {
        let mut line = format!("{file}:{}: {} {}", error.place, error.code, error.message);
        if !error.path.is_empty() {
            line.push_str(&format!(" [{}]", error.path));
        }
        if let Some(hint) = &error.hint {
            line.push_str(&format!("\n  hint: {hint}"));
        }
        failure.mistake(line, mistake_in(file, error))
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
