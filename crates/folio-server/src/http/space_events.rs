//! Everything that is committed to a space, as it happens: one message for each commit, whose id is its number.
//!
//! Besides those there are two messages without an id: `gap` says that the last id is not one of this space, and that what
//! comes next is what happens from now on; `problem` says why the stream breaks off.

use std::collections::VecDeque;

use axum::response::sse::{Event as Message, KeepAlive, Sse};
use folio::Workspace;
use folio::memory::Seq;
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use tokio::sync::watch;

use super::access::Permit;
use super::metrics::Watcher;
use super::problem::Problem;
use super::sse::KEEP_ALIVE;
use crate::server::wait_until_stopping;
use crate::wire::commit::CommitShape;
use crate::wire::event::GapShape;

/// What the messages of a stream say.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum SpaceMessage {
    Commit(CommitShape),
    Gap(GapShape),
    Problem(Problem),
}

/// Commits that are read at once.
const CHUNK: u32 = 200;

/// Tells what is committed after `after`, or after `head` if nothing is said, until the server stops.
pub(crate) fn stream(
    workspace: Workspace,
    permit: Permit,
    after: Option<u64>,
    head: Seq,
    stopping: watch::Receiver<bool>,
    watcher: Watcher,
) -> Sse<impl Stream<Item = Result<Message, axum::Error>>> {
    let unknown = after.filter(|after| *after > head.0);
    let follow = Follow {
        workspace,
        permit,
        stopping,
        _watcher: watcher,
        seen: Seq(after.unwrap_or(head.0).min(head.0)),
        unknown,
        pending: VecDeque::new(),
        is_over: false,
    };
    let messages = unfold(follow, |mut follow| async {
        follow.next().await.map(|message| (message, follow))
    });
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follow {
    workspace: Workspace,
    permit: Permit,
    stopping: watch::Receiver<bool>,
    _watcher: Watcher,
    /// The last commit that was read.
    seen: Seq,
    /// A commit that whoever asks knows of and that is not there.
    unknown: Option<u64>,
    /// What they say in the stream, and no more of them: it waits here until whoever reads takes it.
    pending: VecDeque<CommitShape>,
    is_over: bool,
}

impl Follow {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Option<Result<Message, axum::Error>> {
        if let Some(unknown) = self.unknown.take() {
            let reason = format!("the space has no commit {unknown}; what is committed from now on follows");
            let data = GapShape {
                reason,
                head: Some(self.seen.0),
            };
            // With where it is now: whoever asks again goes on from there, and not from what never was.
            let gap = Message::default().id(self.seen.to_string()).event("gap");
            return Some(gap.json_data(data));
        }
        loop {
            if let Some(commit) = self.pending.pop_front() {
                let message = Message::default().id(commit.seq.to_string()).event("commit");
                return Some(message.json_data(commit));
            }
            if self.is_over {
                return None;
            }
            let stopping = self.stopping.clone();
            let news = tokio::select! {
                news = self.read() => news,
                () = wait_until_stopping(stopping) => return None,
            };
            if let Err(problem) = news {
                self.is_over = true;
                return Some(Message::default().event("problem").json_data(problem));
            }
        }
    }

    /// Reads what comes next, when it is there.
    async fn read(&mut self) -> Result<(), Problem> {
        self.workspace.wait(self.seen).await?;
        let rows = self.workspace.changes(self.seen, CHUNK).await?;
        // Only now: what was committed after the token was taken back may be among them.
        self.permit.still_holds().await?;
        self.seen = rows.last().map_or(self.seen, |row| row.seq);
        self.pending.extend(rows.iter().map(CommitShape::of));
        Ok(())
    }
}
