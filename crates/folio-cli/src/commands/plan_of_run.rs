//! `folio plan show` and `folio plan edit`: the plan of a run that is being carried out.

use std::fmt::{self, Write as _};
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use folio::engine::event::PlanDifference;
use folio::engine::plan::{to_markdown, to_yaml_steps};
use folio::engine::run::{Judging, ShownPlan};
use folio::engine::{NodeId, NodeKind, NodeState, Run};
use folio::memory::excerpt::one_line;
use folio::memory::id::RunRef;
use folio::runner::{Folded, Runner, RunnerError};
use folio::store::RunRow;
use folio_server::wire::StepState;
use serde::Serialize;
use serde_json::{Value, json};

use super::Context;
use super::cancel::node_of;
use super::people::{hint_if_not_driven, runner, runner_with};
use super::plan::{mistakes_of, text_in};
use crate::arguments::run_ref;
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// The default editor for plans.
const EDITOR: &str = "vi";

/// `folio plan show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Node whose plan to use: the path of its step names, such as survey/files, or its id
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    /// Print YAML that `folio plan edit` accepts; with --json, the plan is JSON all the same
    #[arg(long, conflicts_with = "markdown")]
    yaml: bool,
    /// Print markdown that `folio plan edit` accepts
    #[arg(long)]
    markdown: bool,
}

/// `folio plan edit`.
#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// Run: r3 or run_…
    #[arg(value_parser = run_ref)]
    run: RunRef,
    /// Node whose plan to use: the path of its step names, such as survey/files, or its id
    #[arg(long, value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    /// New plan in YAML, JSON or markdown; - reads it from standard input [default: open the plan in the editor that
    /// VISUAL or EDITOR names]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Change it only if the plan still has this version [default: the version in the file, else 1]
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
}

/// The plan of a run, or of a part of it.
#[derive(Debug, Serialize)]
struct PlanShape {
    run: String,
    run_id: String,
    node_id: String,
    path: String,
    plan_version: u32,
    /// Whether it can still be edited.
    editable: bool,
    steps: Value,
    /// The states of its steps, including those in groups.
    states: Vec<StepState>,
    /// A note that no judge verifies the criteria with `check: judge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_judged: Option<&'static str>,
    #[serde(skip)]
    markdown: String,
}

impl Report for PlanShape {
    fn text(&self, out: &mut String, _: Style) -> fmt::Result {
        out.push_str(&self.markdown);
        Ok(())
    }

    fn is_source(&self) -> bool {
        true
    }
}

/// What became of an edit.
#[derive(Debug, Serialize)]
struct Edited {
    run: String,
    run_id: String,
    plan_version: u32,
    #[serde(flatten)]
    difference: PlanDifference,
}

impl Report for Edited {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let run = style.strong(&self.run);
        if self.difference.is_empty() {
            return writeln!(out, "{run} plan {}: unchanged", self.plan_version);
        }
        writeln!(out, "{run} plan {}: {}", self.plan_version, self.difference.in_words())
    }
}

/// A run, and the part of it whose plan is meant.
struct Place {
    row: RunRow,
    run: Folded,
    node: NodeId,
    plan: ShownPlan,
}

impl Place {
    async fn of(runner: &Runner, run: RunRef, node: Option<&str>) -> Result<Self, Failure> {
        let row = runner.row(run).await?;
        let run = runner.load(row.id).await?;
        let node = match node {
            Some(name) => node_of(&run, &row, name)?,
            None => NodeId::root(row.id),
        };
        let plan = run.shown_plan(node).ok_or_else(|| {
            Failure::new(Exit::NotFound, "no_plan", Self::without_plan(&run, node)).hint(format!(
                "`folio show {} --json` lists its nodes and their states",
                row.handle
            ))
        })?;
        Ok(Self { row, run, node, plan })
    }

    /// Why the plan of `node` cannot be shown: there is none yet, or there will never be one.
    fn without_plan(run: &Run, node: NodeId) -> String {
        let Some(view) = run.node(node) else {
            return "the run has no plan yet".to_owned();
        };
        let name = if view.path.is_empty() { "the run" } else { view.path };
        match view.kind {
            NodeKind::Call | NodeKind::Action => format!("{name} is a call of a tool, which has no plan"),
            NodeKind::RollUp => format!("{name} combines results, and has no plan"),
            NodeKind::Parallel | NodeKind::Sequence | NodeKind::ForEach => {
                format!("{name} is a group of steps, which stand in the plan around it")
            }
            NodeKind::Model if view.state == NodeState::Terminal => {
                format!("{name} was done without a plan")
            }
            NodeKind::Model | NodeKind::Plan => format!("{name} has no plan yet"),
        }
    }

    fn path(&self) -> &str {
        self.run.node(self.node).map_or("", |view| view.path)
    }

    /// The line that records which plan, and which version of it, a text was made from.
    fn origin(&self, command: &str) -> String {
        let node = match self.path() {
            "" => String::new(),
            path => format!(" --node {path}"),
        };
        format!(
            "folio plan {command} {}{node}, version {}",
            self.row.handle, self.plan.version
        )
    }

    fn markdown(&self) -> String {
        let title = match self.path() {
            "" => self.row.title.clone(),
            _ => self.run.title(self.node),
        };
        let title = one_line(&title);
        let not_judged = self.unjudged_note().map(|note| format!("<!-- {note} -->\n\n"));
        format!(
            "# {title}\n\n<!-- {} -->\n\n{}{}",
            self.origin("edit")
                .replace("--", "- -")
                .replacen("- -node", "--node", 1),
            not_judged.unwrap_or_default(),
            to_markdown(&self.plan.steps)
        )
    }

    fn yaml(&self) -> String {
        let not_judged = self.unjudged_note().map(|note| format!("# {note}\n"));
        format!(
            "# {}\n{}{}",
            self.origin("edit"),
            not_judged.unwrap_or_default(),
            to_yaml_steps(&self.plan.steps)
        )
    }

    /// The note for a plan whose criteria look as if a judge verified them although none does.
    fn unjudged_note(&self) -> Option<&'static str> {
        let is_written = to_yaml_steps(&self.plan.steps).contains("check: judge");
        let is_judged = !self.run.is_plan_of_model(self.node) || self.run.variable()["judging"] == json!(Judging::All);
        (is_written && !is_judged)
            .then_some("A model made this plan: each step reports on its own criteria, and no judge verifies them.")
    }

    fn is_editable(&self) -> bool {
        let view = self.run.node(self.node);
        view.is_some_and(|view| view.state.has_steps_to_come() || view.state == NodeState::Created)
    }

    fn shape(&self) -> PlanShape {
        let steps: Vec<Value> = self.plan.steps.iter().map(|shown| json!(shown.step)).collect();
        PlanShape {
            run: self.row.handle.to_string(),
            run_id: self.row.id.to_string(),
            node_id: self.node.to_string(),
            path: self.path().to_owned(),
            plan_version: self.plan.version,
            editable: self.is_editable(),
            steps: steps.into(),
            states: StepState::all_of(&self.plan.steps),
            not_judged: self.unjudged_note(),
            markdown: self.markdown(),
        }
    }
}

/// Carries out `folio plan show`.
pub(crate) async fn show(context: &Context<'_>, show: Show) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let place = Place::of(&runner, show.run, show.node.as_deref()).await?;
    if show.yaml && !context.output.is_json() {
        context.output.text(&place.yaml())?;
    } else {
        context.output.report(&place.shape())?;
    }
    Ok(Exit::Done)
}

/// Carries out `folio plan edit`.
pub(crate) async fn edit(context: &Context<'_>, edit: Edit) -> Result<Exit, Failure> {
    let runner = runner(context).await?;
    let place = Place::of(&runner, edit.run, edit.node.as_deref()).await?;
    let (name, text) = match &edit.file {
        Some(file) => text_in(file)?,
        None => ("the plan".to_owned(), edit_in_editor(context, &place.markdown())?),
    };
    let runner = runner_with(context, context.registry_for(&text).await?).await?;
    let result = runner
        .edit_plan(place.row.id, Some(place.node), &text, edit.if_version, &context.actor())
        .await;
    let (plan_version, difference) = result.map_err(|error| match error {
        RunnerError::Edit(folio::engine::run::EditError::Mistakes(errors)) => {
            let failure = mistakes_of(&[(name, errors)]);
            if edit.file.is_none() {
                save_typed_text(failure, &text)
            } else {
                failure
            }
        }
        error if edit.file.is_none() => save_typed_text(error.into(), &text),
        error => error.into(),
    })?;
    context.output.report(&Edited {
        run: place.row.handle.to_string(),
        run_id: place.row.id.to_string(),
        plan_version,
        difference,
    })?;
    hint_if_not_driven(context, &runner, &place.row).await?;
    Ok(Exit::Done)
}

/// Lets a person edit `text` in an editor, and returns the result.
fn edit_in_editor(context: &Context<'_>, text: &str) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() && context.settings.editor.is_none() {
        let nobody = Failure::usage(
            "no_editor",
            "there is no terminal to edit the plan in, and no file was given",
        );
        return Err(nobody.hint(
            "edit the output of `folio plan show RUN --markdown` and pass it with --file FILE; - reads standard input",
        ));
    }
    let cannot = |error| Failure::cannot("write", "the plan to a file for the editor", error);
    let mut file = tempfile::Builder::new()
        .prefix("folio-plan-")
        .suffix(".md")
        .tempfile()
        .map_err(cannot)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(cannot)?;
    let editor = context.settings.editor.as_deref().unwrap_or(EDITOR);
    // VISUAL may contain arguments: `code --wait`.
    let exit_status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "folio"])
        .arg(file.path())
        .status()
        .map_err(|error| Failure::cannot("start", editor, error))?;
    if !exit_status.success() {
        return Err(Failure::usage(
            "no_editor",
            format!("the editor {editor} ended with {exit_status}; nothing was changed"),
        ));
    }
    std::fs::read_to_string(file.path()).map_err(|error| Failure::file("read", file.path(), &error))
}

/// Keeps what somebody typed in a file, so that a mistake in it does not lose it.
fn save_typed_text(failure: Failure, text: &str) -> Failure {
    let kept = tempfile::Builder::new().prefix("folio-plan-").suffix(".md").tempfile();
    let kept = kept.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.keep().map_err(|error| error.error)
    });
    match kept {
        Ok((_, path)) => failure.hint(format!(
            "your text is in {}; correct it and pass it with --file",
            path.display()
        )),
        Err(_) => failure,
    }
}
