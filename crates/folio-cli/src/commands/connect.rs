//! `folio connect`: adds Folio to the configuration of another program.

mod insert;

use std::fmt::{self, Write as _};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use self::insert::insert;
use super::{Context, MAX_INPUT_BYTES, opened_if_file};
use crate::error::{Exit, Failure};
use crate::output::{Report, Style};
use crate::settings::{quoted, repeated};

/// The moments at which Claude Code calls hooks, and the hook of Folio for each.
const HOOKS: [(&str, &str); 4] = [
    ("SessionStart", "session-start"),
    ("UserPromptSubmit", "user-prompt"),
    ("PreCompact", "pre-compact"),
    ("Stop", "stop"),
];

/// `folio connect`.
#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Program to connect: claude-code, codex, cursor, gemini-cli, opencode or vscode
    #[arg(value_enum, hide_possible_values = true)]
    program: Program,
    /// Add the hooks by which the program uses memory by itself, instead of the MCP server (claude-code only)
    #[arg(long)]
    hooks: bool,
    /// Write it into the file of this folder, beside which the file as it was is kept; without this, only show it
    #[arg(long)]
    write: bool,
}

/// A program that can be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    ClaudeCode,
    Codex,
    Cursor,
    GeminiCli,
    Opencode,
    Vscode,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::GeminiCli => "gemini-cli",
            Self::Opencode => "opencode",
            Self::Vscode => "vscode",
        }
    }

    /// The file of this folder that names its MCP servers, and what belongs into it for a server that is called with
    /// these `arguments`; `None` if it has no such file.
    fn server(self, arguments: &[String]) -> Option<(&'static str, Value)> {
        let stdio = json!({"command": "folio", "args": arguments});
        Some(match self {
            Self::Codex => return None,
            Self::ClaudeCode => (".mcp.json", json!({"mcpServers": {"folio": stdio}})),
            Self::Cursor => (".cursor/mcp.json", json!({"mcpServers": {"folio": stdio}})),
            Self::GeminiCli => (".gemini/settings.json", json!({"mcpServers": {"folio": stdio}})),
            Self::Opencode => {
                let command: Vec<&str> = std::iter::once("folio")
                    .chain(arguments.iter().map(String::as_str))
                    .collect();
                let server = json!({"type": "local", "command": command, "enabled": true});
                ("opencode.json", json!({"mcp": {"folio": server}}))
            }
            Self::Vscode => {
                let server = json!({"type": "stdio", "command": "folio", "args": arguments});
                (".vscode/mcp.json", json!({"servers": {"folio": server}}))
            }
        })
    }

    /// What stands for the path of the folder in its configuration, which others may share.
    fn folder_variable(self) -> Option<&'static str> {
        matches!(self, Self::Vscode).then_some("${workspaceFolder}")
    }

    /// Whether it need not start a server in the folder of the project, so that the thread has to be named.
    fn starts_anywhere(self) -> bool {
        matches!(self, Self::Cursor | Self::Vscode)
    }
}

/// What was added, or would be.
#[derive(Debug, Serialize)]
struct Connected {
    program: &'static str,
    file: String,
    /// What the file lacked.
    adds: Value,
    /// The servers or hooks of Folio that it has with other options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    /// Whether it lacked something.
    changes: bool,
    written: bool,
    /// Where the file as it was is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
}

impl Report for Connected {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let file = style.strong(&self.file);
        if self.changes {
            let verb = if self.written { "has now" } else { "would get" };
            let adds = serde_json::to_string_pretty(&self.adds).unwrap_or_default();
            writeln!(out, "{file} {verb}\n{adds}")?;
        } else if self.left.is_empty() {
            writeln!(out, "{file} has it already")?;
        }
        if !self.left.is_empty() {
            let left = self.left.join(", ");
            writeln!(out, "{file} has with other options, left as they are: {left}")?;
        }
        match &self.backup {
            Some(backup) => writeln!(out, "{}", style.faint(format_args!("as it was: {backup}"))),
            None => Ok(()),
        }
    }
}

/// Carries out `folio connect`.
pub(crate) fn run(context: &Context<'_>, connect: &Connect) -> Result<Exit, Failure> {
    let (file, adds) = match connect.hooks {
        true => hooks_of(context, connect.program)?,
        false => server_of(context, connect.program)?,
    };
    let file = Path::new(file);
    let before = read(file)?;
    let text = before.as_deref().unwrap_or_default();
    let (adds, left) = compare(&serde_json::from_str(text).unwrap_or_default(), &adds);
    let after = insert(text, &adds, &calls_same_hook).map_err(|reason| {
        let message = format!("cannot change {}: {reason}", file.display());
        let by_hand = serde_json::to_string(&adds).unwrap_or_default();
        Failure::new(Exit::Refused, "file_unusable", message).hint(format!("add this by hand: {by_hand}"))
    })?;
    let changes = after != text;
    let mut backup = None;
    if connect.write && changes {
        context.only_people("change the configuration of other programs")?;
        if before.is_some() {
            backup = Some(back_up(file)?);
        }
        write_whole(file, &after).map_err(|error| Failure::file("write", file, &error))?;
    }
    context.output.report(&Connected {
        program: connect.program.name(),
        file: file.display().to_string(),
        adds,
        left,
        changes,
        written: connect.write && changes,
        backup: backup.map(|path| path.display().to_string()),
    })?;
    if changes && !connect.write {
        context.output.note("nothing was written; --write does it");
    }
    Ok(Exit::Done)
}

/// The file for the MCP server of `program`, and what belongs into it.
fn server_of(context: &Context<'_>, program: Program) -> Result<(&'static str, Value), Failure> {
    let mut arguments = vec!["mcp".to_owned()];
    let given = context.settings.given_anywhere()?;
    arguments.extend(given.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
    let own_thread = context.settings.thread.0.as_str();
    let thread = match program.folder_variable() {
        Some(folder) if !context.settings.names_thread && !is_another_folder(own_thread) => Some(folder),
        Some(_) => Some(own_thread),
        _ => (context.settings.names_thread || program.starts_anywhere()).then_some(own_thread),
    };
    arguments.extend(
        thread
            .into_iter()
            .flat_map(|thread| ["--thread".to_owned(), thread.to_owned()]),
    );
    program.server(&arguments).ok_or_else(|| {
        let words: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
        let message = "codex keeps its MCP servers in your home folder and adds them itself";
        Failure::usage("usage", message).hint(format!("run: codex mcp add folio -- folio {}", words.join(" ")))
    })
}

/// Whether `thread` is that of a folder other than the current one: below the top of a worktree, that of the worktree.
fn is_another_folder(thread: &str) -> bool {
    let thread = Path::new(thread);
    thread.is_absolute() && std::env::current_dir().is_ok_and(|folder| folder != thread)
}

/// The file for the hooks of `program`, and what belongs into it.
fn hooks_of(context: &Context<'_>, program: Program) -> Result<(&'static str, Value), Failure> {
    if program != Program::ClaudeCode {
        let message = format!("the hooks of {} are not known", program.name());
        return Err(
            Failure::usage("usage", message).hint("docs/connect/hooks.md says what hooks have to call, and when")
        );
    }
    let mut options = repeated(&context.settings.given_anywhere()?);
    if context.settings.names_thread {
        options.push_str(&format!(" --thread {}", quoted(&context.settings.thread.0)));
    }
    let hooks = HOOKS.into_iter().map(|(moment, hook)| {
        let command = format!("folio{options} hook {hook}");
        (
            moment.to_owned(),
            json!([{"hooks": [{"type": "command", "command": command}]}]),
        )
    });
    Ok((
        ".claude/settings.json",
        json!({"hooks": Value::Object(hooks.collect())}),
    ))
}

/// What `there` lacks of `adds`, and the names of what it has with other options.
fn compare(there: &Value, adds: &Value) -> (Value, Vec<String>) {
    let (mut lacks, mut others) = (json!({}), Vec::new());
    for (section, parts) in adds.as_object().into_iter().flatten() {
        for (name, wanted) in parts.as_object().into_iter().flatten() {
            let has = there.get(section).and_then(|parts| parts.get(name));
            // A server of that name is Folio, and a hook of Folio is that hook, however they are started.
            let (has, wanted_one) = match wanted.get(0) {
                None => (has, wanted),
                Some(hook) => {
                    let mut hooks = has.and_then(Value::as_array).into_iter().flatten();
                    (hooks.find(|one| calls_same_hook(one, hook)), hook)
                }
            };
            match has {
                None => lacks[section][name] = wanted.clone(),
                Some(has) if has != wanted_one => others.push(name.clone()),
                Some(_) => {}
            }
        }
    }
    (lacks, others)
}

/// Whether both call the same hook of Folio.
fn calls_same_hook(one: &Value, other: &Value) -> bool {
    let hook_of = |value: &Value| -> Option<String> {
        let hooks = value.get("hooks")?.as_array()?;
        let mut commands = hooks.iter().filter_map(|hook| hook.get("command")?.as_str());
        commands.find_map(|command| {
            let (program, hook) = command.rsplit_once(" hook ")?;
            program
                .contains("folio")
                .then(|| hook.split_whitespace().next().unwrap_or_default().to_owned())
        })
    };
    let hook = hook_of(one);
    one == other || hook.is_some() && hook == hook_of(other)
}

/// The text of `file`; `None` if it does not exist.
fn read(file: &Path) -> Result<Option<String>, Failure> {
    let unreadable = |error: std::io::Error| Failure::file("read", file, &error);
    let opened = match opened_if_file(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unreadable(error)),
        // Whoever made the link wants the file somewhere else, maybe on a disk that is not there.
        Err(_) if file.symlink_metadata().is_ok() => {
            return Err(unreadable(std::io::Error::other(
                "it is a link to a file that is not there",
            )));
        }
        Err(_) => return Ok(None),
    };
    let mut text = String::new();
    opened
        .take(MAX_INPUT_BYTES)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(Some(text))
}

/// Copies `file` to a name beside it that is free.
fn back_up(file: &Path) -> Result<PathBuf, Failure> {
    let mut number = 1_u32;
    loop {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".before-folio-{number}"));
        let copy = PathBuf::from(name);
        if copy.symlink_metadata().is_err() {
            let copied = std::fs::copy(file, &copy);
            return copied
                .map(|_| copy.clone())
                .map_err(|error| Failure::file("write", &copy, &error));
        }
        number += 1;
    }
}

/// Writes `text` to `file`, which is replaced whole or not at all. A file that is there keeps its permissions, and a link
/// to it stays one.
fn write_whole(file: &Path, text: &str) -> std::io::Result<()> {
    let (file, permissions) = match file.canonicalize() {
        Ok(file) => {
            // A file that must not be written is not to be replaced either.
            let writable = std::fs::File::options().write(true).open(&file)?;
            (file, Some(writable.metadata()?.permissions()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (file.to_owned(), None),
        Err(error) => return Err(error),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder)?;
    let mut beside = tempfile::Builder::new()
        // What is left of them once the mask of the process is applied.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    beside.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        beside.as_file().set_permissions(permissions)?;
    }
    beside.as_file().sync_all()?;
    beside.persist(&file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_with_other_options_is_the_same_hook() {
        let hook = |command: &str| json!({"hooks": [{"type": "command", "command": command}]});
        let wanted = hook("folio hook stop");
        for (command, expected) in [
            ("/usr/bin/folio --thread t hook stop", true),
            ("folio hook stop --json", true),
            ("folio hook session-start", false),
            ("other hook stop", false),
            ("say stop", false),
        ] {
            assert_eq!(calls_same_hook(&hook(command), &wanted), expected, "{command}");
        }
    }
}
