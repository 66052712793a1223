//! The configured MCP servers, and the tools that runs may call.

use std::fmt::{self, Write as _};

use folio::mcp::{McpError, Reached, Servers, ToStart};
use folio::memory::counted::counted;
use folio::store::without_own_secrets;
use folio::tools::Registry;
use serde::Serialize;

use crate::error::Failure;
use crate::output::{Output, Report, Style};
use crate::settings::{Settings, redacted_secret};

/// The largest file that holds a token, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Connects to the servers that the settings name. A server that cannot be reached is reported, and the others can
/// still be used.
///
/// # Errors
///
/// `mcp_invalid` if the settings of a server are invalid.
pub(crate) async fn open(settings: &Settings, output: &Output) -> Result<Servers, Failure> {
    let mut all = Vec::new();
    for server in &settings.mcp {
        check_settings(server)?;
        all.push(with_token(server.clone()));
    }
    let servers = Servers::open_hiding(all, without_own_secrets).await;
    for problem in servers.problems() {
        output.note(format_args!("{problem} ({}) [{}]", problem.hint(), problem.code()));
    }
    Ok(servers)
}

/// The outcome of checking a server.
#[derive(Debug, Serialize)]
pub(crate) struct LookedAt {
    server: String,
    /// Whether it could be started or reached, and listed its tools.
    reached: bool,
    /// How many tools it has.
    tools: usize,
    /// What cannot be used, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    code: &'static str,
    detail: String,
    hint: String,
}

impl LookedAt {
    /// Whether it could be started or reached.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached
    }
}

impl Report for LookedAt {
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        if self.reached {
            let tools = counted(self.tools as u64, "tool");
            writeln!(
                out,
                "  {} the MCP server {}: {tools}",
                style.good("looked at"),
                self.server
            )?;
        }
        let Some(Problem { code, detail, hint }) = &self.problem else {
            return Ok(());
        };
        let called = if self.reached {
            style.warning("warning")
        } else {
            style.bad("problem")
        };
        writeln!(out, "  {called} {detail} ({hint}) [{code}]")
    }
}

/// Starts or contacts each server that the settings name, within its configured time, and disconnects again. A failure
/// of one server does not affect the others.
pub(crate) async fn look_at(settings: &Settings) -> Vec<LookedAt> {
    let (wrong, usable): (Vec<_>, Vec<_>) = settings.mcp.iter().partition(|server| check_settings(server).is_err());
    let usable = usable.into_iter().map(|server| with_token(server.clone())).collect();
    let servers = Servers::open_hiding(usable, without_own_secrets).await;
    let of_reached = |found: Reached<'_>| LookedAt {
        server: found.server.to_owned(),
        reached: !matches!(found.problem, Some(problem) if !matches!(problem, McpError::LeftOut { .. })),
        tools: found.tools,
        problem: found.problem.map(|problem| Problem {
            code: problem.code(),
            detail: problem.to_string(),
            hint: problem.hint(),
        }),
    };
    let mut all: Vec<_> = servers.reached().map(of_reached).collect();
    servers.close().await;
    all.extend(wrong.into_iter().map(|server| LookedAt {
        server: server.name.clone(),
        reached: false,
        tools: 0,
        problem: server.settings.problem(&server.name).map(|problem| Problem {
            code: "mcp_invalid",
            detail: problem_text(server, problem),
            hint: problem_hint(server),
        }),
    }));
    all.sort_by(|one, other| one.server.cmp(&other.server));
    all
}

fn problem_text(server: &ToStart, problem: &str) -> String {
    format!("the MCP server {} cannot be used: {problem}", server.name)
}

fn problem_hint(server: &ToStart) -> String {
    format!(
        "correct [mcp.{}] in the settings file; docs/mcp-tools.md explains how",
        server.name
    )
}

/// Checks that the settings of `server` are valid.
///
/// # Errors
///
/// `mcp_invalid`.
pub(crate) fn check_settings(server: &ToStart) -> Result<(), Failure> {
    let Some(problem) = server.settings.problem(&server.name) else {
        return Ok(());
    };
    Err(Failure::usage("mcp_invalid", problem_text(server, problem)).hint(problem_hint(server)))
}

/// The tools that come with Folio, and those of `servers`.
pub(crate) fn registry(servers: &Servers) -> Registry {
    let mut registry = Registry::with_builtins();
    servers.register_in(&mut registry);
    registry
}

fn with_token(mut server: ToStart) -> ToStart {
    let Some(file) = server.settings.token_file.clone() else {
        return server;
    };
    let read_result = std::fs::metadata(&file).and_then(|about| match about.len() {
        0..=TOKEN_BYTES_MAX => std::fs::read_to_string(&file),
        length => Err(std::io::Error::other(format!(
            "it has {length} bytes, too many for a token"
        ))),
    });
    match read_result {
        Ok(token) => server.token = Some(redacted_secret(token)),
        Err(error) => server.unusable = Some(format!("its token in {} cannot be read: {error}", file.display())),
    }
    server
}
