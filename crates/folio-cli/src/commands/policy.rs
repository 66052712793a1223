//! `folio policy`: the rules of a space beyond the built-in ones.

use std::fmt::{self, Display, Write as _};

use clap::{Args, Subcommand};
use folio::Workspace;
use folio::memory::SpacePolicy;
use folio::memory::policy::PolicyValue;
use folio::memory::wrong_field::in_plain_words;
use folio::store::workspace::PolicyInForce;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Context, check_given_once, json_or_text, text_of};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};

/// How often a change of single keys is retried when somebody else changes the policy meanwhile.
const ATTEMPTS: u32 = 8;

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
    space: String,
    version: u32,
    changed_seq: u64,
    /// The values that were set.
    policy: SpacePolicy,
    /// All values in force.
    in_force: Value,
    /// Whether people see only what was set, not everything in force.
    #[serde(skip)]
    is_document: bool,
}

impl Report for Shown {
    /// The document, in the format of a file for `set`; or each value in force, in the form that `set` accepts.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        if !self.is_document {
            return self
                .policy
                .in_force()
                .iter()
                .try_for_each(|one| write_value(one, out, style));
        }
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&self.policy).map_err(|_| fmt::Error)?
        )
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
                change(context, &workspace, reason, &keys, |document| {
                    pairs
                        .iter()
                        .try_for_each(|(key, value)| put(document, key, json_or_text(value)))
                })
                .await?
            }
            None if assignments.len() == 1 => {
                let text = text_of("read the policy in", assignments[0].as_ref())?;
                let document = serde_json::from_str(&text).map_err(|error| invalid_policy(&error))?;
                set(context, &workspace, document, None, reason).await?
            }
            None => {
                return Err(Failure::usage(
                    "usage",
                    "a policy is set from one file, or from keys and values",
                ));
            }
        },
        Policy::Unset(Unset { keys, reason }) => {
            keys.iter().try_for_each(|key| check_known_key(key))?;
            change(context, &workspace, reason, &[], |document| {
                keys.iter().try_for_each(|key| remove(document, key))
            })
            .await?
        }
    };
    if is_only_document && context.output.is_json() {
        context.output.document(now.document())?;
        return Ok(Exit::Done);
    }
    context.output.report(&Shown {
        space: workspace.space().to_string(),
        version: now.version(),
        changed_seq: now.changed_seq().0,
        policy: now.document().clone(),
        in_force: now.document().whole(),
        is_document,
    })?;
    Ok(Exit::Done)
}

type InForce = std::sync::Arc<PolicyInForce>;

/// Sets the document that `edit` makes of the present one by putting values at `keys`; retries if somebody else was
/// quicker.
async fn change(
    context: &Context<'_>,
    workspace: &Workspace,
    reason: Option<String>,
    keys: &[&str],
    edit: impl Fn(&mut Map<String, Value>) -> Result<(), Failure>,
) -> Result<InForce, Failure> {
    let mut attempt = 1;
    loop {
        let now = workspace.policy().await?;
        let mut document = match serde_json::to_value(now.document()) {
            Ok(Value::Object(document)) => document,
            _ => Map::new(),
        };
        edit(&mut document)?;
        let document = read(&document).map_err(|error| match find_invalid_key(&document, keys) {
            Some(key) => invalid_policy(&format!("{key}: {error}")),
            None => invalid_policy(&error),
        })?;
        match set(context, workspace, document, Some(now.version()), reason.clone()).await {
            Err(failure) if failure.code() == "stale_policy" && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

async fn set(
    context: &Context<'_>,
    workspace: &Workspace,
    document: SpacePolicy,
    expected_version: Option<u32>,
    reason: Option<String>,
) -> Result<InForce, Failure> {
    let (now, warnings) = workspace
        .set_policy(&context.actor(), document, expected_version, reason)
        .await?;
    context.output.warnings(&warnings);
    Ok(now)
}

/// The arguments as keys and values; `None` if they name a file.
fn keys_and_values(assignments: &[String]) -> Option<Vec<(&str, &str)>> {
    let pair = |text: &'_ String| -> Option<(usize, usize)> {
        let at = text.find('=')?;
        let is_key = at > 0
            && text[..at]
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_.-:".contains(&byte));
        is_key.then_some((at, at + 1))
    };
    assignments
        .iter()
        .map(|text| pair(text).map(|(end, start)| (&text[..end], &text[start..])))
        .collect()
}

/// Puts `value` at a dotted path.
fn put(document: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), Failure> {
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut target = document;
    for part in parts {
        let inner = target.entry(part).or_insert_with(|| Value::Object(Map::new()));
        target = inner.as_object_mut().ok_or_else(|| no_keys_inside(part, key))?;
    }
    target.insert(last.to_owned(), value);
    Ok(())
}

/// Removes what is at a dotted path, and what is empty without it: an empty type or manifest would be one that is set.
fn remove(document: &mut Map<String, Value>, key: &str) -> Result<(), Failure> {
    fn remove_in(inside: &mut Map<String, Value>, path: &str, key: &str) -> Result<bool, Failure> {
        let Some((part, rest)) = path.split_once('.') else {
            return Ok(inside.remove(path).is_some());
        };
        let Some(value) = inside.get_mut(part) else {
            return Ok(false);
        };
        let inner = value.as_object_mut().ok_or_else(|| no_keys_inside(part, key))?;
        let is_removed = remove_in(inner, rest, key)?;
        if is_removed && inner.is_empty() {
            inside.remove(part);
        }
        Ok(is_removed)
    }
    remove_in(document, key, key).map(drop)
}

fn no_keys_inside(part: &str, key: &str) -> Failure {
    Failure::usage("policy_invalid", format!("{part} of {key} has no keys of its own"))
}

/// Refuses a key that no policy has: otherwise removing it would look like a success.
fn check_known_key(key: &str) -> Result<(), Failure> {
    let mut probe = Map::new();
    put(&mut probe, key, Value::Null)?;
    let unknown = ["unknown field", "unknown variant", "invalid type: map"];
    match read(&probe) {
        Err(error) if unknown.iter().any(|start| error.to_string().starts_with(start)) => {
            Err(invalid_policy(&format!("{key}: {error}")))
        }
        _ => Ok(()),
    }
}

fn read(document: &Map<String, Value>) -> serde_json::Result<SpacePolicy> {
    serde_json::from_value(Value::Object(document.clone()))
}

/// The one of `keys` without which `document` would be valid.
fn find_invalid_key<'k>(document: &Map<String, Value>, keys: &[&'k str]) -> Option<&'k str> {
    let is_to_blame = |key: &&str| {
        let mut without = document.clone();
        remove(&mut without, key).is_ok() && read(&without).is_ok()
    };
    keys.iter().copied().find(is_to_blame)
}

fn invalid_policy(error: &dyn Display) -> Failure {
    let problem = in_plain_words(error, "an object");
    Failure::usage("policy_invalid", format!("the policy cannot be read: {problem}"))
        .hint("`folio policy show --document` prints a valid one")
}
