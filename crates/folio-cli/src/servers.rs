//! The MCP servers of the settings, and the tools that runs may call.

use folio::mcp::{Servers, ToStart};
use folio::tools::Registry;

use crate::error::Failure;
use crate::output::Output;
use crate::settings::{Settings, kept_out};

/// Bytes of a file that holds a token.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Connects to the servers that the settings name. One that is not there is told, and keeps nobody from using the others.
///
/// # Errors
///
/// `mcp_invalid` if the settings say of one what cannot be.
pub(crate) async fn open(settings: &Settings, output: &Output) -> Result<Servers, Failure> {
    let mut all = Vec::new();
    for server in &settings.mcp {
        checked(server)?;
        all.push(with_token(server.clone()));
    }
    let servers = Servers::open(all).await;
    for problem in servers.problems() {
        output.note(format_args!("{problem} ({}) [{}]", problem.hint(), problem.code()));
    }
    Ok(servers)
}

/// That the settings say of `server` only what can be.
///
/// # Errors
///
/// `mcp_invalid`.
pub(crate) fn checked(server: &ToStart) -> Result<(), Failure> {
    let Some(problem) = server.settings.problem(&server.name) else {
        return Ok(());
    };
    let message = format!("the MCP server {} cannot be used: {problem}", server.name);
    Err(Failure::usage("mcp_invalid", message).hint(format!(
        "put [mcp.{}] in the settings file right; docs/mcp-tools.md says how",
        server.name
    )))
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
    let read = std::fs::metadata(&file).and_then(|about| match about.len() {
        0..=TOKEN_BYTES_MAX => std::fs::read_to_string(&file),
        length => Err(std::io::Error::other(format!(
            "it has {length} bytes, which is no token"
        ))),
    });
    match read {
        Ok(token) => server.token = Some(kept_out(token)),
        Err(error) => server.unusable = Some(format!("its token in {} cannot be read: {error}", file.display())),
    }
    server
}
