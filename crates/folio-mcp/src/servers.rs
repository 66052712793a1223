//! All the servers of the settings.

use std::path::PathBuf;
use std::sync::Arc;

use folio_model::Secret;
use folio_tools::Registry;
use futures_util::future::join_all;

use crate::error::McpError;
use crate::server::Server;
use crate::settings::McpSettings;
use crate::tool::McpTool;

/// The most reasons that are reported for tools that are left out.
const REASONS_MAX: usize = 8;

/// A server with all that is needed to start it. Nothing here reads the environment; the caller does and passes it in.
#[derive(Debug, Clone)]
pub struct ToStart {
    /// The server's name, with which the names of its tools begin.
    pub name: String,
    /// The server's settings. They must have no problem ([`McpSettings::problem`]).
    pub settings: McpSettings,
    /// The complete environment of its program.
    pub environment: Vec<(String, String)>,
    /// The working directory of its program.
    pub folder: PathBuf,
    /// The additional headers of requests to it.
    pub headers: Vec<(String, Secret)>,
    /// The token of requests to it.
    pub token: Option<Secret>,
    /// The login to it, if people have to log in ([`McpSettings::oauth`]).
    pub login: Option<LoginAt>,
    /// Why it cannot be started at all, in words, as far as the caller knows.
    pub unusable: Option<String>,
}

/// What a login to a server needs besides its settings.
#[derive(Debug, Clone)]
pub struct LoginAt {
    /// The file that stores its tokens.
    pub tokens: PathBuf,
    /// The secret of the client id that Folio has there, if it has one.
    pub client_secret: Option<Secret>,
}

/// The configured servers. Cheap to clone. They are ended when the last clone and the last of their tools are gone.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    servers: Arc<Vec<Opened>>,
}

#[derive(Debug)]
struct Opened {
    server: Arc<Server>,
    tools: Vec<Arc<McpTool>>,
    problem: Option<McpError>,
}

/// The outcome of the first connection to a server.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Reached<'s> {
    /// The server's name in the settings.
    pub server: &'s str,
    /// The number of tools that it offers.
    pub tools: usize,
    /// What about it cannot be used, and why.
    pub problem: Option<&'s McpError>,
}

impl Servers {
    /// Makes the first connection to each server, all at once. An unavailable server does not affect the others.
    pub async fn open(servers: Vec<ToStart>) -> Self {
        Self::open_hiding(servers, str::to_owned).await
    }

    /// Does the same. `hide` takes out of a text what nobody may read: a server may repeat its own key in the
    /// description of a tool, which people and models read.
    pub async fn open_hiding(servers: Vec<ToStart>, hide: fn(&str) -> String) -> Self {
        let each = servers.into_iter().map(|start| async move {
            let name = start.name.clone();
            let server = Arc::new(Server::new(start));
            let (offered, problem) = match server.begin().await {
                Ok((offered, left_out)) if left_out.is_empty() => (offered, None),
                Ok((offered, left_out)) => {
                    let reason = hide(&join_few(&left_out));
                    (offered, Some(McpError::LeftOut { server: name, reason }))
                }
                Err(error) => (Vec::new(), Some(error)),
            };
            let offered = offered.into_iter().map(|tool| tool.hiding(hide));
            let tool = |offered| Arc::new(McpTool::new(Arc::clone(&server), offered));
            Opened {
                tools: offered.map(tool).collect(),
                server,
                problem,
            }
        });
        Self {
            servers: Arc::new(join_all(each).await),
        }
    }

    /// Returns the outcome for each server, in the order in which they were given.
    pub fn reached(&self) -> impl Iterator<Item = Reached<'_>> {
        self.servers.iter().map(|opened| Reached {
            server: &opened.server.start.name,
            tools: opened.tools.len(),
            problem: opened.problem.as_ref(),
        })
    }

    /// Returns what cannot be used, and why.
    pub fn problems(&self) -> impl Iterator<Item = &McpError> {
        self.servers.iter().filter_map(|opened| opened.problem.as_ref())
    }

    /// Adds their tools to `registry`. A call of a tool of an unavailable server fails with the reason.
    pub fn register_in(&self, registry: &mut Registry) {
        for opened in &*self.servers {
            for tool in &opened.tools {
                let _had_none_of_that_name = registry.register(Arc::clone(tool) as _);
            }
            if let Some(error @ McpError::Unavailable { .. }) = &opened.problem {
                registry.set_missing_family(&opened.server.start.name, error.of_call());
            }
        }
    }

    /// Closes all of them: each has a few seconds to end by itself.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|opened| opened.server.close())).await;
    }
}

/// Joins as many reasons as a reader takes in, and says how many more there are.
fn join_few(reasons: &[String]) -> String {
    let (shown, rest) = reasons.split_at(reasons.len().min(REASONS_MAX));
    match rest.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
