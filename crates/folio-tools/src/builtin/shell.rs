//! `shell`: runs a command.

use std::ffi::OsString;
use std::sync::LazyLock;

use async_trait::async_trait;
use folio_memory::excerpt::cut;
use folio_process::{Ended, Finished, Limits, Program};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::{check, parse, parse_timeout};
use crate::capture::{Captured, HeadAndTail};
use crate::context::{SHELL_TIMEOUT, SHELL_TIMEOUT_MAX, ShellPolicy, ToolContext};
use crate::process::run;
use crate::response::{FailureKind, ToolError, ToolResponse, Truncated};
use crate::tool::{ArgKind, CallArgs, Effect, Mistake, Tool, ToolRequest, ToolSpec};

/// How many characters of an output's last line an error message repeats.
const LAST_LINE_CHARS: usize = 200;

/// Runs a command, if the run allows it.
#[derive(Debug)]
pub(super) struct Shell {
    spec: ToolSpec,
}

impl Default for Shell {
    fn default() -> Self {
        Self {
            spec: ToolSpec::new(
                "shell",
                Effect::Opaque,
                "Runs a command without input, in a granted folder.",
            )
            .returns(
                "Returns `exit_code`, `signal`, `stdout`, `stderr`, `stdout_bytes`, `stderr_bytes` and `timed_out`; of a \
                 long output the beginning and the end. Another exit code than 0 is a failure that keeps these outputs.",
            )
            .gives(&[
                ("stdout", "string"),
                ("stderr", "string"),
                ("stdout_bytes", "integer"),
                ("stderr_bytes", "integer"),
                ("timed_out", "boolean"),
            ])
            .optional(
                "argv",
                ArgKind::Words,
                "The program and its arguments.",
            )
            .optional("command", ArgKind::Text, "A line for sh.")
            .one_of(&["argv", "command"])
            .optional(
                "cwd",
                ArgKind::Text,
                "Default: the granted folder.",
            )
            .optional("env", ArgKind::Object, "More variables.")
            .optional(
                "timeout_s",
                ArgKind::Number,
                "Default: 600, at most 7200.",
            )
            .optional(
                "alone",
                ArgKind::Flag,
                "`false`: other calls may write in the folder meanwhile.",
            )
            .needs_approval(),
        }
    }
}

/// The specification by which the arguments of calls that may need approval are read.
static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| Shell::default().spec);

#[derive(Deserialize)]
struct Args {
    argv: Option<Vec<String>>,
    command: Option<String>,
    cwd: Option<String>,
    env: Option<Map<String, Value>>,
    timeout_s: Option<f64>,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn enforces_approval(&self) -> bool {
        true
    }

    fn mistakes(&self, args: CallArgs<'_>) -> Vec<Mistake> {
        let mut found = Vec::new();
        if args
            .literal("argv")
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            found.push(Mistake::of(
                "argv",
                "`argv` is empty: it is the program and its arguments",
            ));
        }
        if args.text("command").is_some_and(|command| command.trim().is_empty()) {
            found.push(Mistake::of("command", "`command` is empty"));
        }
        let seconds = args.literal("timeout_s").and_then(|seconds| match seconds {
            Value::String(text) => text.trim().parse().ok(),
            other => other.as_f64(),
        });
        if let Some(seconds) = seconds
            && let Err(error) = parse_timeout("shell", Some(seconds), SHELL_TIMEOUT, SHELL_TIMEOUT_MAX)
        {
            found.push(Mistake::of("timeout_s", error.message));
        }
        found
    }

    fn resources(&self, args: &Value, context: &ToolContext) -> Vec<String> {
        let may_be_beside = match args.get("alone") {
            Some(Value::String(text)) => text.trim().eq_ignore_ascii_case("false"),
            Some(alone) => *alone == Value::Bool(false),
            None => false,
        };
        if may_be_beside {
            return Vec::new();
        }
        let folder = args.get("cwd").and_then(Value::as_str);
        context.program_folder_path(folder).into_iter().collect()
    }

    async fn call(&self, request: &ToolRequest, context: &ToolContext) -> ToolResponse {
        match shell(request, context).await {
            Ok(response) => response,
            Err(error) => ToolResponse::failed(request, error),
        }
    }
}

async fn shell(request: &ToolRequest, context: &ToolContext) -> Result<ToolResponse, ToolError> {
    let args: Args = parse(request)?;
    let argv = match (&args.argv, &args.command) {
        (Some(argv), None) if !argv.is_empty() => argv.clone(),
        (None, Some(command)) if !command.trim().is_empty() => {
            vec!["sh".to_owned(), "-c".to_owned(), command.clone()]
        }
        _ => {
            return Err(ToolError::invalid(
                "shell: give `argv` or `command`, and it must not be empty",
            ));
        }
    };
    let command_text = args.command.clone().unwrap_or_else(|| argv.join(" "));
    allowed(&context.shell, &argv, args.env.is_some(), &command_text)?;
    let mut environment: Vec<(OsString, OsString)> = context
        .environment
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    for (name, value) in args.env.iter().flatten() {
        environment.push((name.into(), variable(name, value)?.into()));
    }
    let program = Program {
        name: argv[0].clone(),
        args: argv[1..].iter().map(Into::into).collect(),
        folder: context.folder_of_programs(args.cwd.as_deref())?,
        environment,
    };
    let limits = Limits {
        time: parse_timeout(
            "shell",
            args.timeout_s,
            context.limits.shell_timeout,
            context.limits.shell_timeout_max,
        )?,
        grace: context.limits.kill_grace,
    };
    let kept_max = context.limits.process_output_bytes;
    let mut stdout = HeadAndTail::new(kept_max);
    let mut stderr = HeadAndTail::new(kept_max);
    let finished = run(&program, limits, &context.cancel, &mut stdout, &mut stderr).await?;
    let brief = cut(&command_text, 80);
    Ok(response(request, &brief, &finished, stdout.finish(), stderr.finish()))
}

impl ShellPolicy {
    /// Whether a program with these arguments is started without approval.
    #[must_use]
    pub fn allows_command(&self, argv: &[String]) -> bool {
        allowed(self, argv, false, "").is_ok()
    }

    /// Whether a call of `shell` with these arguments is run without approval.
    #[must_use]
    pub fn allows(&self, args: &Value) -> bool {
        // Converted the way a call is: a number may stand for a text.
        let read = match check(&SPEC, args) {
            Ok(converted) => serde_json::from_value::<Args>(converted.unwrap_or_else(|| args.clone())).ok(),
            Err(_) => None,
        };
        let Some(args) = read else {
            // A call that cannot be read is not run, either.
            return true;
        };
        let argv = match (args.argv, args.command) {
            (Some(argv), None) => argv,
            (None, Some(command)) => vec!["sh".to_owned(), "-c".to_owned(), command],
            _ => return true,
        };
        allowed(self, &argv, args.env.is_some(), "").is_ok()
    }
}

fn allowed(
    policy: &ShellPolicy,
    argv: &[String],
    changes_environment: bool,
    command_text: &str,
) -> Result<(), ToolError> {
    let denied = |reason: &str| {
        let brief = cut(command_text, 80);
        ToolError::new(
            FailureKind::Denied,
            "shell_not_allowed",
            format!("shell: `{brief}` was not run: {reason}"),
        )
    };
    match policy {
        ShellPolicy::AllowAll => Ok(()),
        ShellPolicy::AskDenied => {
            Err(denied("this run allows no commands").hint("start the run with --allow-shell to allow commands"))
        }
        ShellPolicy::AllowList(allowed) => {
            if !allowed.iter().any(|words| begins_with(argv, words)) {
                return Err(denied("it is not among the commands that this run allows")
                    .hint(format!(
                        "allowed commands: {}; --allow-shell allows any",
                        allowed
                            .iter()
                            .map(|words| words.join(" "))
                            .collect::<Vec<_>>()
                            .join(", ")
                    ))
                    .hint("give `argv` instead of `command`, so that it can be compared word for word"));
            }
            // A variable such as LD_PRELOAD or PATH turns the allowed program into any other.
            if changes_environment {
                return Err(denied("`env` cannot be given when only listed commands are allowed"));
            }
            Ok(())
        }
    }
}

fn begins_with(argv: &[String], words: &[String]) -> bool {
    !words.is_empty()
        && words.len() <= argv.len()
        && words.iter().zip(argv).all(|(word, arg)| word == "*" || word == arg)
}

fn variable(name: &str, value: &Value) -> Result<String, ToolError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ToolError::invalid(format!(
            "shell: `{name}` cannot be the name of an environment variable"
        )));
    }
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(ToolError::invalid(format!(
            "shell: the environment variable `{name}` must be a string"
        ))),
    }
}

fn response(
    request: &ToolRequest,
    command: &str,
    finished: &Finished,
    stdout: Captured,
    stderr: Captured,
) -> ToolResponse {
    let kept_bytes = stdout.kept_bytes + stderr.kept_bytes;
    let total_bytes = stdout.total_bytes + stderr.total_bytes;
    let truncated = (kept_bytes < total_bytes).then_some(Truncated {
        kept_bytes,
        total_bytes,
    });
    let last_line = last_line(&stderr.text).or_else(|| last_line(&stdout.text));
    let outputs = json!({
        "exit_code": finished.exit_code(),
        "signal": finished.signal(),
        "stdout": stdout.text,
        "stderr": stderr.text,
        "stdout_bytes": stdout.total_bytes,
        "stderr_bytes": stderr.total_bytes,
        "timed_out": finished.ended == Ended::TimedOut,
    });
    let failure = match (finished.ended, finished.exit_code(), finished.signal()) {
        (Ended::TimedOut, ..) => Some(
            ToolError::new(
                FailureKind::TimedOut,
                "timed_out",
                format!("`{command}` took too long and was ended"),
            )
            .hint("give a larger `timeout_s`"),
        ),
        (Ended::Cancelled, ..) => Some(ToolError::cancelled()),
        (_, Some(0), _) => None,
        (_, Some(code), _) => Some(ToolError::new(
            FailureKind::Failed,
            "exit_code",
            format!("`{command}` ended with exit code {code}"),
        )),
        (_, None, signal) => Some(ToolError::new(
            FailureKind::Failed,
            "signal",
            format!("`{command}` was ended by signal {}", signal.unwrap_or_default()),
        )),
    };
    let response = match failure {
        None => {
            let notes = format!("`{command}`: exit code 0, {total_bytes} bytes");
            ToolResponse::ok(request, outputs, notes)
        }
        Some(error) => {
            let error = match last_line {
                Some(line) => error.hint(format!("its last line: {line}")),
                None => error,
            };
            ToolResponse::failed_with(request, error, outputs)
        }
    };
    ToolResponse { truncated, ..response }
}

fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(cut(line.trim(), LAST_LINE_CHARS))
}
