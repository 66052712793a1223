//! Errors of a server or of its tools.

use folio_tools::{FailureKind, ToolError};

/// Why a server, or some of its tools, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The server cannot be reached, or does not answer as an MCP server does.
    #[error("the MCP server {server} cannot be used: {reason}")]
    Unavailable {
        /// The server's name in the settings.
        server: String,
        /// Why, in words.
        reason: String,
    },
    /// The server is there, but some of its tools cannot be offered.
    #[error("tools of the MCP server {server} are left out: {reason}")]
    LeftOut {
        /// The server's name in the settings.
        server: String,
        /// Which tools, and why, in words.
        reason: String,
    },
    /// A login to the server, or a logout, failed.
    #[error("there is no login to the MCP server {server}: {reason}")]
    Login {
        /// The server's name in the settings.
        server: String,
        /// Why, in words.
        reason: String,
    },
    /// The server's tools are not those that it had when they were read.
    #[error("the MCP server {server} has changed: {reason}")]
    Changed {
        /// The server's name in the settings.
        server: String,
        /// What has changed, in words.
        reason: String,
    },
}

impl McpError {
    /// Returns the stable error code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "mcp_server_unavailable",
            Self::LeftOut { .. } => "mcp_tools_left_out",
            Self::Login { .. } => "mcp_login_failed",
            Self::Changed { .. } => "mcp_tools_changed",
        }
    }

    /// Returns what to do about it, in words.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unavailable { server, .. } | Self::Login { server, .. } => {
                format!("look at [mcp.{server}] in the settings; `folio tool list` tries it")
            }
            Self::LeftOut { server, .. } => {
                format!(
                    "list the tools that you want in `tools` of [mcp.{server}]; the others must be corrected in the server"
                )
            }
            Self::Changed { .. } => "restart Folio to list its tools again".to_owned(),
        }
    }

    /// Returns the error as the failure of a call that was not made.
    #[must_use]
    pub fn of_call(&self) -> ToolError {
        let kind = match self {
            Self::Unavailable { .. } | Self::Login { .. } => FailureKind::Unavailable,
            Self::LeftOut { .. } | Self::Changed { .. } => FailureKind::NotFound,
        };
        ToolError::new(kind, self.code(), self.to_string()).hint(self.hint())
    }
}
