//! Programs that can go on with a session: it is recorded before they are told anything, and they wait for that (E9.17).

use std::fmt;
use std::pin::Pin;

use folio_engine::NodeId;
use folio_model::NewSession;
use tokio::sync::mpsc;

use crate::models::AskEnded;

/// A program that is asked, to its end.
type Asking = Pin<Box<dyn Future<Output = AskEnded> + Send>>;

/// A program that has a session, and waits until that is recorded.
pub(crate) struct SessionBegun {
    /// For which node, and which of its calls.
    pub(crate) ask: (NodeId, u32),
    pub(crate) new: NewSession,
    asking: Asking,
}

/// What comes first of a call.
#[derive(Debug)]
pub(crate) enum First {
    Ended(Box<AskEnded>),
    Session(Box<SessionBegun>),
}

/// The end of `asking`, or the session that whoever is asked tells `sessions` before.
pub(crate) async fn first(ask: (NodeId, u32), mut asking: Asking, mut sessions: mpsc::Receiver<NewSession>) -> First {
    tokio::select! {
        biased;
        ended = &mut asking => First::Ended(Box::new(ended)),
        Some(new) = sessions.recv() => First::Session(Box::new(SessionBegun { ask, new, asking })),
    }
}

impl SessionBegun {
    /// It is recorded: the program is told what to do, and asked to its end.
    pub(crate) fn go_on(self) -> Asking {
        // One that has ended meanwhile waits for nothing, and says so itself.
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
