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

/// What is told of what a server lists and is not offered.
const REASONS_MAX: usize = 8;

/// A server with all that it needs to be started. Nothing here reads the environment: whoever does passes it in.
#[derive(Debug, Clone)]
pub struct ToStart {
    /// Its name: what the names of its tools begin with.
    pub name: String,
    /// What the settings say of it. Without a problem ([`McpSettings::problem`]).
    pub settings: McpSettings,
    /// The whole environment of its program.
    pub environment: Vec<(String, String)>,
    /// The folder that its program begins in.
    pub folder: PathBuf,
    /// The headers of requests to it.
    pub headers: Vec<(String, Secret)>,
    /// The token of requests to it.
    pub token: Option<Secret>,
    /// Where people are logged in to it, if they have to be ([`McpSettings::oauth`]).
    pub login: Option<LoginAt>,
    /// Why it cannot be started at all, in words, as far as whoever put this together knows.
    pub unusable: Option<String>,
}

/// What a login to a server needs, besides its settings.
#[derive(Debug, Clone)]
pub struct LoginAt {
    /// The file that its tokens are kept in.
    pub tokens: PathBuf,
    /// The secret of the name that Folio has there, if it has one.
    pub client_secret: Option<Secret>,
}

/// The servers that were named. Cheap to clone; what is there is ended when the last clone and the last tool are gone.
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

/// What came of the first connection to a server.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Reached<'s> {
    /// Its name in the settings.
    pub server: &'s str,
    /// How many tools it offers.
    pub tools: usize,
    /// What of it cannot be used, and why.
    pub problem: Option<&'s McpError>,
}

impl Servers {
    /// Makes the first connection to each, all at once. One that is not there keeps nobody from using the others.
    pub async fn open(servers: Vec<ToStart>) -> Self {
        let each = servers.into_iter().map(|start| async move {
            let name = start.name.clone();
            let server = Arc::new(Server::new(start));
            let (offered, problem) = match server.begin().await {
                Ok((offered, left_out)) if left_out.is_empty() => (offered, None),
                Ok((offered, left_out)) => {
                    let reason = few_of(&left_out);
                    (offered, Some(McpError::LeftOut { server: name, reason }))
                }
                Err(error) => (Vec::new(), Some(error)),
            };
            let tool = |offered| Arc::new(McpTool::new(Arc::clone(&server), offered));
            Opened {
                tools: offered.into_iter().map(tool).collect(),
                server,
                problem,
            }
        });
        Self {
            servers: Arc::new(join_all(each).await),
        }
    }

    /// What came of each, in the order in which they were named.
    pub fn reached(&self) -> impl Iterator<Item = Reached<'_>> {
        self.servers.iter().map(|opened| Reached {
            server: &opened.server.start.name,
            tools: opened.tools.len(),
            problem: opened.problem.as_ref(),
        })
    }

    /// What of them cannot be used, and why.
    pub fn problems(&self) -> impl Iterator<Item = &McpError> {
        self.servers.iter().filter_map(|opened| opened.problem.as_ref())
    }

    /// Adds their tools. A call of a tool of one that is not there says so.
    pub fn register_in(&self, registry: &mut Registry) {
        for opened in &*self.servers {
            for tool in &opened.tools {
                let _had_none_of_that_name = registry.register(Arc::clone(tool) as _);
            }
            if let Some(error @ McpError::Unavailable { .. }) = &opened.problem {
                registry.miss(&opened.server.start.name, error.of_call());
            }
        }
    }

    /// Ends them: each has a few seconds to do so by itself.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(|opened| opened.server.close())).await;
    }
}

/// As many of them as are read at once, and how many more there are.
fn few_of(reasons: &[String]) -> String {
    let (shown, rest) = reasons.split_at(reasons.len().min(REASONS_MAX));
    match rest.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}
