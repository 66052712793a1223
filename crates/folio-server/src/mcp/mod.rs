//! Folio as a server of the Model Context Protocol: a model's working memory, over whatever carries the messages.
//!
//! - `tools`: what a model can call, one file a set
//! - `handler`: from a message of the protocol to one of these, and back; `malformed`: requests with params that are none
//! - `answer`: what a call comes to, within its limit of tokens
//! - `resources`, `follow`: what can be read under an address, and who is told when it changes
//! - `asking`: what runs ask a person, as forms that the client shows
//! - `tasks`: runs as tasks of the protocol
//! - `turn`: how many requests are worked on at the same time
//! - `prompts`: what a person picks; `complete`: what they may go on typing with
//! - `lines`: messages as lines of input and output; `input`, `id_search`: what such a line says, or which request it fails
//! - `http`: the same over HTTP; `conversations`: whose those are that have a session there
//!
//! Both generations of the protocol are spoken, the one with sessions and the one without; which one, the client says.

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
mod options;
mod prompts;
mod resources;
mod run_text;
mod tasks;
mod tools;
mod turn;
mod under_way;

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

use self::asking::OpenForms;
use self::follow::Followed;
use self::lines::Lines;
pub use self::options::{McpOptions, ToolSet};
use self::turn::Turns;

/// Bytes of one message, at most. What is longer is refused.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a client's name that are kept.
const MAX_NAME_BYTES: usize = 64;

/// Why a conversation ended that should have gone on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The client did not begin as the protocol has it.
    #[error("the client did not begin as the Model Context Protocol has it")]
    Begin(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It broke off.
    #[error("the conversation broke off")]
    Broken(#[source] tokio::task::JoinError),
}

/// A server of the protocol for one space. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp {
    shared: Arc<Shared>,
    /// What this conversation follows.
    followed: Arc<Followed>,
    /// What is asked of the person in it.
    open_forms: OpenForms,
    /// Cancelled when its client is gone.
    is_over: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    runner: Runner,
    options: McpOptions,
    turns: Turns,
    driving: Arc<Driving>,
}

/// Who asks for something, and where.
#[derive(Debug, Clone)]
struct Caller {
    actor: Actor,
    thread: ThreadKey,
    tokens: Counter,
    /// The space as the caller sees it.
    workspace: Workspace,
}

impl Mcp {
    /// Serves the space that `runner` works in.
    #[must_use]
    pub fn new(runner: Runner, options: McpOptions) -> Self {
        let driving = Driving::of(&runner);
        Self::sharing(runner, options, driving)
    }

    /// The same where others drive runs, too: together no more than a server drives.
    pub(crate) fn sharing(runner: Runner, options: McpOptions, driving: Arc<Driving>) -> Self {
        Self {
            shared: Arc::new(Shared {
                runner,
                options,
                turns: Turns::default(),
                driving,
            }),
            followed: Arc::default(),
            open_forms: OpenForms::default(),
            is_over: CancellationToken::new(),
        }
    }

    /// The same server for another conversation.
    fn another(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            followed: Arc::default(),
            open_forms: OpenForms::default(),
            is_over: CancellationToken::new(),
        }
    }

    /// Has one conversation: reads messages from `read`, a line each, and writes nothing but messages to `write`, until the
    /// client is gone or `stop` is ready. What was being answered when the client went is answered or dropped; a run whose
    /// request was not answered yet is stopped; in any other nothing more begins ([`Runner::leave`]), what is under way has five seconds to end,
    /// and it is left to whoever takes it up.
    ///
    /// # Errors
    ///
    /// `Begin` if the first message is none that the protocol begins with; `Broken` if this side failed.
    pub async fn converse<R, W, F>(self, read: R, write: W, stop: F) -> Result<(), McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
        F: Future<Output = ()> + Send,
    {
        let token = CancellationToken::new();
        let shared = Arc::clone(&self.shared);
        let transport = Lines::new(read, write, self.is_over.clone());
        let conversation = async {
            let running = match self.serve_with_ct(transport, token.clone()).await {
                Ok(running) => running,
                // Whoever asks for nothing and leaves has made no mistake.
                Err(error) if has_left(&error) => return Ok(()),
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

    /// Who asks, by the name that the client gives itself, in `thread` or where the server stands. Who has shown a token is who
    /// that says.
    fn caller(
        &self,
        client: Option<&str>,
        thread: Option<&str>,
        permit: Option<&Permit>,
    ) -> Result<Caller, folio::memory::Invalid> {
        let options = &self.shared.options;
        let actor = match permit.filter(|permit| permit.has_token()) {
            Some(permit) => permit.actor.clone(),
            None => options.actor(client.unwrap_or_default()),
        };
        let thread = options.thread_of(thread)?;
        let workspace = self.shared.runner.workspace().asked_by(&actor).in_thread(&thread);
        Ok(Caller {
            actor,
            thread,
            tokens: options.tokens,
            workspace,
        })
    }
}

fn has_left(error: &rmcp::service::ServerInitializeError) -> bool {
    matches!(
        error,
        rmcp::service::ServerInitializeError::ConnectionClosed(_) | rmcp::service::ServerInitializeError::Cancelled
    )
}
