//! `folio tool login`: logs in to an MCP server in a browser, which is redirected back to here.

use std::io::BufRead as _;
use std::time::Duration;

use clap::Args;
use folio::mcp::login::log_out as forget;
use folio::mcp::{LoginSettings, McpError, ToStart};
use folio_server::Callback;

use super::Context;
use crate::error::{Exit, Failure};
use crate::report::tool::{LoggedIn, LoggedOut};
use crate::servers::check_settings;

/// How long to wait for the browser.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The longest address that the browser may be redirected to, in bytes.
const ADDRESS_BYTES_MAX: usize = 64 * 1024;

/// `folio tool login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Name of the server in the settings
    #[arg(value_name = "SERVER")]
    server: String,
    /// Read the address that the browser is redirected to from standard input, for a browser on another machine
    #[arg(long)]
    paste: bool,
}

/// `folio tool logout`.
#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// Name of the server in the settings
    #[arg(value_name = "SERVER")]
    server: String,
}

/// Logs in, and stores the tokens received.
pub(super) async fn log_in(context: &Context<'_>, options: Login) -> Result<Exit, Failure> {
    let server = server_of(context, &options.server)?;
    let port = server
        .settings
        .oauth
        .as_ref()
        .and_then(|oauth: &LoginSettings| oauth.port);
    let callback = Callback::open(port.unwrap_or(0)).await.map_err(|error| {
        let target = format!(
            "port {} of 127.0.0.1, to which the browser is redirected",
            port.unwrap_or(0)
        );
        Failure::cannot("listen on", &target, error)
    })?;
    let redirect = callback.url();
    let login = folio::mcp::Login::begin(server, &redirect)
        .await
        .map_err(|error| failed(&error))?;
    context
        .output
        .ask(format_args!("Open this address in a browser and log in:"));
    context.output.ask(format_args!("{}", login.address()));
    let redirect_url = if options.paste {
        drop(callback);
        context.output.ask(format_args!(
            "The browser ends at a page that does not load; paste its address here ({redirect}?code=…):"
        ));
        read_pasted_address().await?
    } else {
        wait_for_browser(callback, login.address()).await?
    };
    let scopes = login.end(&redirect_url).await.map_err(|error| failed(&error))?;
    context.output.report(&LoggedIn {
        server: options.server,
        scopes,
    })?;
    Ok(Exit::Done)
}

/// Deletes the stored tokens.
pub(super) async fn log_out(context: &Context<'_>, options: Logout) -> Result<Exit, Failure> {
    let server = server_of(context, &options.server)?;
    let was_logged_in = forget(server).await.map_err(|error| failed(&error))?;
    context.output.report(&LoggedOut {
        server: options.server,
        was_logged_in,
    })?;
    Ok(Exit::Done)
}

fn server_of<'c>(context: &'c Context<'_>, name: &str) -> Result<&'c ToStart, Failure> {
    let servers = &context.settings.mcp;
    let found = servers.iter().find(|server| server.name == name);
    let Some(server) = found else {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let known_servers = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(Failure::new(
            Exit::NotFound,
            "mcp_unknown",
            format!("the settings name no MCP server {name:?}"),
        )
        .hint(format!(
            "they name {known_servers}; docs/mcp-tools.md explains how to add one"
        )));
    };
    check_settings(server)?;
    Ok(server)
}

/// Waits for the browser to return from `login_url`, and returns the address that it was redirected to.
async fn wait_for_browser(callback: Callback, login_url: &str) -> Result<String, Failure> {
    let returned = callback.wait_for_redirect(login_url, BROWSER_TIMEOUT).await;
    returned.ok_or_else(|| {
        let message = format!(
            "the login was not completed in the browser within {} minutes",
            BROWSER_TIMEOUT.as_secs() / 60
        );
        Failure::new(Exit::Unavailable, "mcp_login_failed", message).hint("try to log in again")
    })
}

async fn read_pasted_address() -> Result<String, Failure> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let limit = ADDRESS_BYTES_MAX as u64;
        std::io::Read::take(std::io::stdin().lock(), limit).read_line(&mut line)?;
        Ok::<_, std::io::Error>(line.trim().to_owned())
    });
    let line = reading.await.map_err(std::io::Error::other).and_then(|result| result);
    let line = line.map_err(|error| Failure::cannot("read", "standard input", error))?;
    if line.starts_with("http://") {
        Ok(line)
    } else {
        Err(Failure::usage(
            "mcp_login_failed",
            "this is not an address that the browser is redirected to",
        )
        .hint("log in again and copy the whole address, which begins with http://127.0.0.1"))
    }
}

fn failed(error: &McpError) -> Failure {
    let failure = Failure::new(Exit::Unavailable, error.code(), error.to_string());
    failure.hint("docs/mcp-tools.md explains how to log in")
}
