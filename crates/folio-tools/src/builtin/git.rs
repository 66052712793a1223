//! `git`: looks at a repository.

mod allowed;
mod history;
mod hot_files;
mod repository;
mod summary;

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use self::repository::Repository;
use super::Texts;
use crate::arguments::parse;
use crate::context::ToolContext;
use crate::response::{ToolError, ToolResponse, Truncated};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Need, Tool, ToolRequest, ToolSpec};

/// The largest number of files or commits in one answer.
const ROWS_MAX: u64 = 10_000;

/// Commands that Folio adds to those of git.
const FOLIO_COMMANDS: [&str; 3] = ["hot_files", "summary", "file_history"];

/// Arguments that only the commands in [`FOLIO_COMMANDS`] take.
const FOLIO_COMMAND_ARGS: [&str; 4] = ["path", "max", "since", "deleted"];

/// Looks at a repository. Nothing in it is changed, no program that it names is run, and nothing is fetched.
#[derive(Debug)]
pub(super) struct Git {
    spec: ToolSpec,
}

impl Default for Git {
    fn default() -> Self {
        let mut commands = FOLIO_COMMANDS.to_vec();
        commands.extend(allowed::commands());
        Self {
            spec: ToolSpec::new(
                "git",
                Effect::Read,
                "Looks at a git repository: `summary`, `hot_files` (those that changed most often), `file_history` \
                 (the commits of a file), and git's own commands with flags that only look.",
            )
            .returns(
                "`summary` returns {branch, head, commits, first_date, last_date, authors, is_shallow}. `hot_files` \
                 returns `files` [{path, commits, added, deleted, authors, last_commit, last_date}] and \
                 `commits_total`. `file_history` returns `commits` [{commit, date, author, subject, added, deleted}]. \
                 The other commands return `text`.",
            )
            .needed(Need::Seldom)
            .gives(&[("files", "array"), ("commits_total", "integer"), ("text", "string")])
            .required("command", ArgKind::one_of(&commands), "What to look at.")
            .optional("args", ArgKind::Texts, "For git's own commands.")
            .optional("repo", ArgKind::Text, "Default: the granted folder.")
            .optional("path", ArgKind::Text, "file_history: the file. hot_files: a folder.")
            .optional("max", ArgKind::UpTo(ROWS_MAX), "Default: 20 files, 50 commits.")
            .optional(
                "since",
                ArgKind::Text,
                "hot_files, summary: `2026-01-31` or `6 months`.",
            )
            .optional("deleted", ArgKind::Flag, "hot_files: also files that are gone."),
        }
    }
}

#[derive(Deserialize)]
struct Args {
    command: String,
    args: Option<Texts>,
    repo: Option<String>,
    path: Option<String>,
    max: Option<usize>,
    since: Option<String>,
    deleted: Option<bool>,
}

impl Args {
    /// The first given argument that only `hot_files`, `summary` and `file_history` take.
    fn first_folio_arg(&self) -> Option<&'static str> {
        let given_flags = [
            self.path.is_some(),
            self.max.is_some(),
            self.since.is_some(),
            self.deleted.is_some(),
        ];
        FOLIO_COMMAND_ARGS
            .into_iter()
            .zip(given_flags)
            .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

#[async_trait]
impl Tool for Git {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        let Some(command) = args.text("command") else {
            return Vec::new();
        };
        let to_mistake = |name: &str, error: ToolError| Mistake::of(name, error.message);
        let mut found = Vec::new();
        if !FOLIO_COMMANDS.contains(&command) {
            if let Some(name) = FOLIO_COMMAND_ARGS.into_iter().find(|name| args.literal(name).is_some()) {
                found.push(to_mistake(name, arg_not_allowed(command, name)));
            }
            let git_args = args.literal("args").map(|_| args.texts("args"));
            if git_args.is_some() || !args.has("args") {
                let git_args: Vec<String> = git_args.into_iter().flatten().map(str::to_owned).collect();
                found.extend(
                    allowed::checked(command, &git_args)
                        .err()
                        .map(|error| to_mistake("args", error)),
                );
            }
            return found;
        }
        if args.literal("args").is_some() {
            found.push(to_mistake("args", args_not_allowed(command)));
        }
        if command == "file_history" && !args.has("path") {
            found.push(to_mistake("", without_path()));
        }
        let since = args.text("since").and_then(|since| checked_since(since).err());
        found.extend(since.map(|error| to_mistake("since", error)));
        let path = args.text("path").and_then(|path| checked_path(path).err());
        found.extend(path.map(|error| to_mistake("path", error)));
        found
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match git(request, context).await {
            Ok(answer) => ToolResponse {
                truncated: answer.truncated,
                ..ToolResponse::ok(request, answer.outputs, answer.notes)
            },
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

struct Answer {
    outputs: Value,
    notes: String,
    truncated: Option<Truncated>,
}

impl Answer {
    fn new(outputs: Value, notes: String) -> Self {
        Self {
            outputs,
            notes,
            truncated: None,
        }
    }
}

async fn git(request: &ToolRequest, context: &ToolContext) -> Result<Answer, ToolError> {
    let args: Args = parse(request)?;
    // A command that is not allowed is refused before anything runs.
    let checked = match args.command.as_str() {
        command if FOLIO_COMMANDS.contains(&command) => None,
        command => {
            let git_args = args.args.as_ref().map_or(&[][..], |args| &args.0);
            Some(allowed::checked(command, git_args)?)
        }
    };
    if checked.is_none() && args.args.is_some() {
        return Err(args_not_allowed(&args.command));
    }
    if let (Some(_), Some(name)) = (&checked, args.first_folio_arg()) {
        return Err(arg_not_allowed(&args.command, name));
    }
    let since = args.since.as_deref().map(checked_since).transpose()?;
    let repo = args.repo.as_deref().unwrap_or_default();
    let located = context.roots.find(repo, &context.run_folder)?;
    let repository = Repository::open(&located, context).await?;
    let max = |default: usize| args.max.unwrap_or(default);
    match args.command.as_str() {
        "hot_files" => {
            let query = hot_files::Wanted {
                max: max(20),
                since,
                path: args.path.as_deref().map(checked_path).transpose()?,
                deleted: args.deleted.unwrap_or(false),
            };
            hot_files::hot_files(&repository, &query).await
        }
        "summary" => summary::summary(&repository, since.as_deref()).await,
        "file_history" => {
            let Some(path) = args.path.as_deref() else {
                return Err(without_path());
            };
            history::file_history(&repository, checked_path(path)?, max(50)).await
        }
        command => {
            let checked = checked.expect("git's own commands were checked above");
            repository.check_paths_inside_root(&checked.named).await?;
            let mut input = None;
            match command {
                "blame" => input = repository.blamed_text(&checked.named).await?,
                "diff" => repository.refuse_blob_and_file(&checked).await?,
                _ => {}
            }
            let mut git_args = checked.args;
            if input.is_some() {
                git_args.insert(0, "--contents=-".to_owned());
            }
            run_git_command(&repository, command, git_args, input).await
        }
    }
}

fn args_not_allowed(command: &str) -> ToolError {
    ToolError::invalid(format!("git {command}: `args` is for git's own commands"))
}

fn arg_not_allowed(command: &str, name: &str) -> ToolError {
    let message = format!("git {command}: `{name}` is not for git's own commands");
    ToolError::invalid(message).hint("put it into `args` as git writes it; a path after \"--\"")
}

fn without_path() -> ToolError {
    ToolError::invalid("git file_history: `path` is missing")
}

async fn run_git_command(
    repository: &Repository<'_>,
    command: &str,
    args: Vec<String>,
    input: Option<Vec<u8>>,
) -> Result<Answer, ToolError> {
    let Some(captured) = repository.text(command, args, input).await? else {
        return Ok(Answer::new(json!({"text": ""}), "there are no commits yet".to_owned()));
    };
    let truncated = (captured.kept_bytes < captured.total_bytes).then_some(Truncated {
        kept_bytes: captured.kept_bytes,
        total_bytes: captured.total_bytes,
    });
    let notes = format!("git {command}: {} bytes", captured.total_bytes);
    Ok(Answer {
        outputs: json!({"text": captured.text, "truncated": truncated.is_some()}),
        notes,
        truncated,
    })
}

/// Accepts only what git certainly reads as a date; git takes any other word for the present time.
fn checked_since(since: &str) -> Result<String, ToolError> {
    let since = since.trim();
    let is_date = since.len() >= 10
        && since.bytes().zip(b"dddd-dd-dd").all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            _ => byte == b'-',
        })
        && since
            .bytes()
            .skip(10)
            .all(|byte| byte.is_ascii_alphanumeric() || b" :+-.".contains(&byte));
    let words: Vec<&str> = since.split([' ', '.']).filter(|word| !word.is_empty()).collect();
    let is_age = match words.as_slice() {
        [count, unit] | [count, unit, "ago"] => {
            count.parse::<u32>().is_ok()
                && ["hour", "day", "week", "month", "year"].contains(&unit.trim_end_matches('s'))
        }
        _ => false,
    };
    if is_date {
        Ok(since.to_owned())
    } else if is_age {
        Ok(format!("{} {} ago", words[0], words[1]))
    } else {
        Err(ToolError::invalid(format!(
            "git: `since` must be a date such as `2026-01-31` or an age such as `6 months`, not `{since}`"
        )))
    }
}

/// Checks a path inside the repository, which git gets as bytes.
fn checked_path(path: &str) -> Result<&str, ToolError> {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path.is_empty() || allowed::escapes_folder(Path::new(path)) || path.contains('\0') {
        return Err(ToolError::invalid(format!(
            "git: `path` must name something inside the repository, not `{path}`"
        )));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_since_accepts_dates_and_ages_only() {
        for (given, taken) in [
            ("2026-01-31", "2026-01-31"),
            ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00Z"),
            ("6 months", "6 months ago"),
            ("1.year.ago", "1 year ago"),
        ] {
            assert_eq!(checked_since(given).unwrap(), taken);
        }
        for wrong in ["yesterday-ish", "", "--all", "2026-01-31\n--exec=x", "6 parsecs"] {
            assert!(checked_since(wrong).is_err(), "{wrong}");
        }
    }
}
