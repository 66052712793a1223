//! Folio as a server of the Model Context Protocol (MCP): a model's working memory, over any transport.
//!
//! - `tools`: the tools that a model can call, one file per tool set
//! - `handler`: translates messages of the protocol into calls of these modules, and back; `malformed`: requests with
//!   unusable params
//! - `answer`: what a call answers, within its limit of tokens
//! - `notices`: what runs wrote for their own models, in words for clients
//! - `resources`, `follow`: what can be read under an address, and who is notified when it changes
//! - `asking`: the questions of runs to people, as forms that the client shows
//! - `tasks`: runs as tasks of the protocol
//! - `request_slots`: limits how many requests are processed at the same time
//! - `prompts`: the prompts that a person can pick; `complete`: completes their arguments while the person types
//! - `lines`: messages as lines of input and output; `input`, `id_search`: parse such a line, or find out which request
//!   it fails
//! - `http`: the same over HTTP; `conversations`: who owns the sessions there
//!
//! Both generations of the protocol are supported, the one with sessions and the one without; the client chooses.

mod answer;
mod asking;
mod complete;
mod conversations;
mod follow;
mod handler;
pub(crate) mod http;
mod id_search;
mod input;
mod lines;
mod malformed;
mod notices;
mod options;
mod parts;
mod pending_requests;
mod prompts;
mod request_slots;
mod resources;
mod run_text;
mod tasks;
mod tools;

use std::sync::Arc;

use folio::memory::tokens::Counter;
use folio::runner::Runner;
use folio::{Actor, ThreadKey, Workspace};
use rmcp::ServiceExt as _;
use rmcp::service::QuitReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::driving::Driving;
use crate::http::Permit;
use crate::spaces::Spaces;

use self::asking::OpenForms;
use self::follow::Followed;
use self::lines::Lines;
pub use self::options::{McpOptions, ToolSet};
use self::request_slots::RequestSlots;

/// The most bytes of one message. Longer ones are refused.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// The most bytes of a client's name that are kept.
const MAX_NAME_BYTES: usize = 64;

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The first message was not one that the protocol begins with.
    #[error("the client did not begin as the Model Context Protocol requires")]
    Begin(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This side of the conversation failed.
    #[error("the conversation broke off")]
    Broken(#[source] tokio::task::JoinError),
}

/// An MCP server for one space. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp {
    shared: Arc<Shared>,
    /// The resources that this conversation follows.
    followed: Arc<Followed>,
    /// The forms that are open before the person in it.
    open_forms: OpenForms,
    /// Cancelled when its client is gone.
    disconnected: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    runner: Runner,
    options: McpOptions,
    request_slots: RequestSlots,
    driving: Arc<Driving>,
}

/// Who makes a request, and in which thread and space.
#[derive(Debug, Clone)]
struct Caller {
    actor: Actor,
    thread: ThreadKey,
    tokens: Counter,
    /// The space as the caller sees it.
    workspace: Workspace,
}

impl Caller {
    /// The same caller for looking only whether something has changed.
    fn watching(mut self) -> Self {
        self.workspace = self.workspace.watching();
        self
    }
}

impl Mcp {
    /// Creates a server for the space that `runner` works in.
    #[must_use]
    pub fn new(runner: Runner, options: McpOptions) -> Self {
        let driving = Driving::of(Spaces::of(runner.clone()));
        Self::with_driving(runner, options, driving)
    }

    /// Creates a server that shares `driving`, and so the limit on runs, with others that drive runs.
    pub(crate) fn with_driving(runner: Runner, options: McpOptions, driving: Arc<Driving>) -> Self {
        Self {
            shared: Arc::new(Shared {
                runner,
                options,
                request_slots: RequestSlots::of(driving.spaces().clone()),
                driving,
            }),
            followed: Arc::default(),
            open_forms: OpenForms::default(),
            disconnected: CancellationToken::new(),
        }
    }

    /// Returns a server for the space of `runner`, with the same offer and the same shared limits.
    ///
    /// Its runs call no tool without approval: whoever allowed that (E9.14) did so for the space that the server was
    /// started for, and not for the holders of every token.
    fn for_space(&self, runner: Runner) -> Self {
        let shared = &self.shared;
        let mut options = shared.options.clone();
        options.allow_tools = Vec::new();
        Self {
            shared: Arc::new(Shared {
                runner,
                options,
                request_slots: shared.request_slots.clone(),
                driving: Arc::clone(&shared.driving),
            }),
            followed: Arc::default(),
            open_forms: OpenForms::default(),
            disconnected: CancellationToken::new(),
        }
    }

    /// Returns the same server for another conversation.
    fn for_new_conversation(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            followed: Arc::default(),
            open_forms: OpenForms::default(),
            disconnected: CancellationToken::new(),
        }
    }

    /// Serves one conversation: reads messages from `read`, one per line, and writes nothing but messages to `write`,
    /// until the client is gone or `stop` is ready. Requests that were being answered when the client went are answered
    /// or dropped. A run whose request was not answered yet is cancelled. Other runs begin nothing more
    /// ([`Runner::leave`]); what is under way in them has five seconds to end, and they are left to whoever resumes
    /// them.
    ///
    /// # Errors
    ///
    /// `Begin` if the first message is not one that the protocol begins with; `Broken` if this side failed.
    pub async fn converse<R, W, F>(self, read: R, write: W, stop: F) -> Result<(), McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = ()> + Send,
    {
        let token = CancellationToken::new();
        let shared = Arc::clone(&self.shared);
        let transport = Lines::new(read, write, self.disconnected.clone());
        let conversation = async {
            let running = match self.serve_with_ct(transport, token.clone()).await {
                Ok(running) => running,
                // A client that leaves without asking for anything has made no mistake.
                Err(error) if is_disconnect(&error) => return Ok(()),
                Err(error) => return Err(McpError::Begin(Box::new(error))),
            };
            match running.waiting().await {
                Ok(QuitReason::JoinError(error)) | Err(error) => Err(McpError::Broken(error)),
                Ok(_) => Ok(()),
            }
        };
        tokio::pin!(conversation);
        let ended = tokio::select! {
            ended = &mut conversation => ended,
            () = stop => {
                token.cancel();
                conversation.await
            }
        };
        shared.driving.wind_down(&shared.runner).await;
        ended
    }

    /// Returns the caller, by the name that the client gives itself, in `thread` or in the server's own thread. A
    /// caller with a token has the actor of that token.
    fn caller(
        &self,
        client: Option<&str>,
        thread: Option<&str>,
        permit: Option<&Permit>,
    ) -> Result<Caller, folio::memory::Invalid> {
        let options = &self.shared.options;
        let here = self.shared.runner.workspace();
        // A conversation is kept to its token, and so to one space. Should it ever not be, nothing is read or written.
        if let Some(permit) = permit
            && permit.space != *here.space()
        {
            let message = format!("this conversation is in another space than {}", permit.space);
            return Err(folio::memory::Invalid::new("token_of_another_space", "space", message));
        }
        let actor = match permit.filter(|permit| permit.has_token()) {
            Some(permit) => permit.actor.clone(),
            None => options.actor(client.unwrap_or_default()),
        };
        let thread = options.thread_of(thread)?;
        let workspace = here.asked_by(&actor).in_thread(&thread);
        Ok(Caller {
            actor,
            thread,
            tokens: options.tokens,
            workspace,
        })
    }
}

fn is_disconnect(error: &rmcp::service::ServerInitializeError) -> bool {
    matches!(
        error,
        rmcp::service::ServerInitializeError::ConnectionClosed(_) | rmcp::service::ServerInitializeError::Cancelled
    )
}
