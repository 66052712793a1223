//! Agent programs that can continue a session. The session is recorded before they are told anything, and they wait for
//! that (E9.17).

use std::fmt;
use std::pin::Pin;

use folio_engine::NodeId;
use folio_model::NewSession;
use tokio::sync::mpsc;

use crate::models::AskEnded;

/// The whole call of an agent program.
type Asking = Pin<Box<dyn Future<Output = AskEnded> + Send>>;

/// An agent program that has a session and waits until that is recorded.
pub(crate) struct SessionBegun {
    /// The node, and the number of the call in it.
    pub(crate) ask: (NodeId, u32),
    pub(crate) new: NewSession,
    asking: Asking,
}

/// The first thing that happens in a call.
#[derive(Debug)]
pub(crate) enum First {
    Ended(Box<AskEnded>),
    Session(Box<SessionBegun>),
}

/// The end of `ask_future`, or the session that is reported to `sessions` before that.
pub(crate) async fn next_session_or_end(
    ask: (NodeId, u32),
    mut ask_future: Asking,
    mut sessions: mpsc::Receiver<NewSession>,
) -> First {
    tokio::select! {
        biased;
        ended = &mut ask_future => First::Ended(Box::new(ended)),
        Some(new) = sessions.recv() => First::Session(Box::new(SessionBegun { ask, new, asking: ask_future })),
    }
}

impl SessionBegun {
    /// The session is recorded: lets the program begin, and returns the rest of the call.
    pub(crate) fn confirm_recorded(self) -> Asking {
        // If the program has ended meanwhile, the call itself says so.
        let _gone = self.new.kept.send(());
        self.asking
    }
}

impl fmt::Debug for SessionBegun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBegun")
            .field("ask", &self.ask)
            .field("new", &self.new)
            .finish_non_exhaustive()
    }
}
