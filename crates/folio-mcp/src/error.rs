//! Why a server, or one of its tools, is not there.

use folio_tools::{FailureKind, ToolError};

/// Why a server, or one of its tools, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// It cannot be reached, or does not answer as a server does.
    #[error("the MCP server {server} cannot be used: {reason}")]
    Unavailable {
        /// Its name in the settings.
        server: String,
        /// Why, in words.
        reason: String,
    },
    /// It is there, and some of its tools cannot be offered.
    #[error("tools of the MCP server {server} are left out: {reason}")]
    LeftOut {
        /// Its name in the settings.
        server: String,
        /// Which and why, in words.
        reason: String,
    },
    /// Nobody was logged in to it.
    #[error("there is no login to the MCP server {server}: {reason}")]
    Login {
        /// Its name in the settings.
        server: String,
        /// Why, in words.
        reason: String,
    },
    /// Its tools are others than when the run was begun.
    #[error("the MCP server {server} has changed: {reason}")]
    Changed {
        /// Its name in the settings.
        server: String,
        /// How, in words.
        reason: String,
    },
}

impl McpError {
    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "mcp_server_unavailable",
            Self::LeftOut { .. } => "mcp_tools_left_out",
            Self::Login { .. } => "mcp_login_failed",
            Self::Changed { .. } => "mcp_tools_changed",
        }
    }

    /// What helps, in words.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unavailable { server, .. } | Self::Login { server, .. } => {
                format!("look at [mcp.{server}] in the settings; `folio tool list` tries it")
            }
            Self::LeftOut { server, .. } => {
                format!("`tools` in [mcp.{server}] names those that you want; the rest is the server's to mend")
            }
            Self::Changed { .. } => "start Folio anew to read its tools again".to_owned(),
        }
    }

    /// The same as the failure of a call that was not made.
    #[must_use]
    pub fn of_call(&self) -> ToolError {
        let kind = match self {
            Self::Unavailable { .. } | Self::Login { .. } => FailureKind::Unavailable,
            Self::LeftOut { .. } | Self::Changed { .. } => FailureKind::NotFound,
        };
        ToolError::new(kind, self.code(), self.to_string()).hint(self.hint())
    }
}
