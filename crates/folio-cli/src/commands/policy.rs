//! `folio policy`: the rules of a space beyond the built-in ones.

use std::fmt::{self, Write as _};

use clap::{Args, Subcommand};
use folio::memory::SpacePolicy;
use folio::memory::policy::{PolicyEdit, PolicyValue};
use folio::memory::wrong_field::in_plain_words;
use folio::store::workspace::{Guard, PolicyInForce};
use folio::{Workspace, WorkspaceError};
use folio_server::wire::PolicyShape;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Context, check_given_once, json_or_text, text_of};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// `folio policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Show the value of every key and which of them were set
    Show(Show),
    /// Set keys, or the whole policy from a file
    Set(Set),
    /// Reset keys to their built-in values
    Unset(Unset),
}

/// `folio policy show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print only what was set, as JSON that `folio policy set` accepts
    #[arg(long)]
    document: bool,
}

/// `folio policy set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// JSON file with the whole policy (- reads standard input), or keys such as strict_types=nobody
    /// types.weather.class=alert
    #[arg(required = true, value_name = "FILE|KEY=VALUE")]
    what: Vec<String>,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

/// `folio policy unset`.
#[derive(Debug, Args)]
pub(crate) struct Unset {
    /// Keys, such as types.weather
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
}

/// A policy for display.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    policy: PolicyShape,
    /// Whether people see only what was set, not everything in force.
    #[serde(skip)]
    is_document: bool,
}

impl Report for Shown {
    /// The document, in the format of a file for `set`; or each value in force, in the form that `set` accepts.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        if !self.is_document {
            let values = self.policy.policy.in_force();
            return values.iter().try_for_each(|one| write_value(one, out, style));
        }
        let document = serde_json::to_string_pretty(&self.policy.policy).map_err(|_| fmt::Error)?;
        writeln!(out, "{document}")
    }
}

/// Writes a line with a value in force.
fn write_value(one: &PolicyValue, out: &mut String, style: Style) -> fmt::Result {
    let json = one.value.to_string();
    let plain = one.value.as_str().filter(|text| json_or_text(text) == one.value);
    let line = format!("{}={}", one.key, plain.unwrap_or(&json));
    match one.note {
        _ if one.is_set => writeln!(out, "{}  {}", style.strong(line), style.good("# set")),
        Some(note) => writeln!(out, "{line}  {}", style.faint(format_args!("# {note}"))),
        None => writeln!(out, "{line}"),
    }
}

/// Carries out `folio policy`.
pub(crate) async fn run(context: &Context<'_>, policy: Policy) -> Result<Exit, Failure> {
    let workspace = match policy {
        Policy::Set(_) | Policy::Unset(_) => context.workspace().await?,
        Policy::Show(_) => context.workspace_if_any().await?,
    };
    let is_document = !matches!(policy, Policy::Show(Show { document: false }));
    let is_only_document = matches!(policy, Policy::Show(Show { document: true }));
    let now = match policy {
        Policy::Show(_) => workspace.policy().await?,
        Policy::Set(Set {
            what: assignments,
            reason,
        }) => match keys_and_values(&assignments) {
            Some(pairs) => {
                let keys: Vec<&str> = pairs.iter().map(|(key, _)| *key).collect();
                check_given_once("`folio policy set`", keys.iter().copied())?;
                let pairs = pairs.into_iter();
                let edit = PolicyEdit {
                    set: pairs
                        .map(|(key, value)| (key.to_owned(), json_or_text(value)))
                        .collect(),
                    ..PolicyEdit::default()
                };
                change(context, &workspace, edit, reason).await?
            }
            None if assignments.len() == 1 => {
                let text = text_of("read the policy in", assignments[0].as_ref())?;
                set(context, &workspace, read_document(&text)?, reason).await?
            }
            None => {
                return Err(Failure::usage(
                    "usage",
                    "a policy is set from one file, or from keys and values",
                ));
            }
        },
        Policy::Unset(Unset { keys, reason }) => {
            let edit = PolicyEdit {
                unset: keys,
                ..PolicyEdit::default()
            };
            change(context, &workspace, edit, reason).await?
        }
    };
    if is_only_document && context.output.is_json() {
        context.output.document(now.document())?;
        return Ok(Exit::Done);
    }
    context.output.report(&Shown {
        policy: PolicyShape::of(workspace.space(), &now),
        is_document,
    })?;
    Ok(Exit::Done)
}

type InForce = std::sync::Arc<PolicyInForce>;

async fn change(
    context: &Context<'_>,
    workspace: &Workspace,
    edit: PolicyEdit,
    reason: Option<String>,
) -> Result<InForce, Failure> {
    let guard = because_of(reason);
    let changed = workspace.change_policy(&context.actor(), &edit, guard).await;
    let set = changed.map_err(|error| advised(error.into()))?;
    context.output.warnings(&set.warnings);
    Ok(set.in_force)
}

async fn set(
    context: &Context<'_>,
    workspace: &Workspace,
    policy: SpacePolicy,
    reason: Option<String>,
) -> Result<InForce, Failure> {
    let guard = because_of(reason);
    let set = workspace.set_policy_under(&context.actor(), policy, guard).await;
    let set = set.map_err(|error| advised(error.into()))?;
    context.output.warnings(&set.warnings);
    Ok(set.in_force)
}

fn because_of(reason: Option<String>) -> Guard {
    Guard {
        reason,
        ..Guard::default()
    }
}

/// The arguments as keys and values; `None` if they name a file.
fn keys_and_values(assignments: &[String]) -> Option<Vec<(&str, &str)>> {
    let pair = |text: &'_ String| -> Option<(usize, usize)> {
        let at = text.find('=')?;
        let is_key = at > 0
            && text[..at]
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-:\\".contains(&byte));
        is_key.then_some((at, at + 1))
    };
    assignments
        .iter()
        .map(|text| pair(text).map(|(end, start)| (&text[..end], &text[start..])))
        .collect()
}

/// Reads a policy from the text of a file.
fn read_document(text: &str) -> Result<SpacePolicy, Failure> {
    let unreadable = |error: &serde_json::Error| {
        let problem = in_plain_words(error, "an object");
        advised(Failure::usage(
            "policy_invalid",
            format!("the policy cannot be read: {problem}"),
        ))
    };
    let document: Map<String, Value> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    let policy =
        SpacePolicy::from_document(&document).map_err(|mistakes| advised(WorkspaceError::from(mistakes).into()))?;
    // Only the text tells that a key occurs twice.
    serde_json::from_str::<SpacePolicy>(text).map_err(|error| unreadable(&error))?;
    Ok(policy)
}

/// Adds to a failure how to see a policy that can be read.
fn advised(failure: Failure) -> Failure {
    match failure.code() {
        "policy_invalid" => failure.hint("`folio policy show --document` prints a valid one"),
        _ => failure,
    }
}
