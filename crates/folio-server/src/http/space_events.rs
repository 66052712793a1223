//! The live stream of a space: one message for each commit, with the commit's number as its id.
//!
//! There are two more messages: `gap` says that the last id is not a commit of this space, or not any more, and that the
//! stream continues with the next commit; its id is the current last commit. `problem`, without an id, says why the
//! stream breaks off.

use std::collections::VecDeque;

use axum::response::sse::{Event as Message, KeepAlive, Sse};
use folio::Workspace;
use folio::memory::Seq;
use folio::store::workspace::{LogFollower, LogNews};
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use tokio::sync::watch;

use super::access::Permit;
use super::problem::Problem;
use super::sse::KEEP_ALIVE;
use crate::server::wait_until_stopping;
use crate::wire::commit::CommitShape;
use crate::wire::event::GapShape;

/// The data of a message of a stream of a space.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum SpaceMessage {
    Commit(CommitShape),
    Gap(GapShape),
    Problem(Problem),
}

/// The number of commits that are read at once.
const CHUNK: u32 = 200;

/// Streams the commits after `after`, or after `head` if it is not given, until the server stops.
pub(crate) fn stream(
    workspace: Workspace,
    permit: Permit,
    after: Option<u64>,
    head: Seq,
    stopping: watch::Receiver<bool>,
) -> Sse<impl Stream<Item = Result<Message, axum::Error>>> {
    let unknown = after.filter(|after| *after > head.0);
    let follow = Follow {
        log: workspace.follow(Seq(after.unwrap_or(head.0).min(head.0))),
        permit,
        stopping,
        gap: unknown.map(|unknown| gap_of(format!("the space has no commit {unknown}"), head)),
        pending: VecDeque::new(),
        is_over: false,
    };
    let messages = unfold(follow, |mut follow| async {
        follow.next().await.map(|message| (message, follow))
    });
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follow {
    log: LogFollower,
    permit: Permit,
    stopping: watch::Receiver<bool>,
    /// What the client is told next about commits that do not exist.
    gap: Option<GapShape>,
    /// Commits in their wire form that wait here for the client to read them; no others are kept in memory.
    pending: VecDeque<CommitShape>,
    is_over: bool,
}

impl Follow {
    /// Returns the next message; `None` after the last.
    async fn next(&mut self) -> Option<Result<Message, axum::Error>> {
        loop {
            if let Some(gap) = self.gap.take() {
                // With the current position as its id, so a client that reconnects continues there and not at a commit
                // that does not exist.
                let id = gap.head.unwrap_or_default().to_string();
                return Some(Message::default().id(id).event("gap").json_data(gap));
            }
            if let Some(commit) = self.pending.pop_front() {
                let message = Message::default().id(commit.seq.to_string()).event("commit");
                return Some(message.json_data(commit));
            }
            if self.is_over {
                return None;
            }
            let stopping = self.stopping.clone();
            let result = tokio::select! {
                result = self.read() => result,
                () = wait_until_stopping(stopping) => return None,
            };
            if let Err(problem) = result {
                self.is_over = true;
                return Some(Message::default().event("problem").json_data(problem));
            }
        }
    }

    /// Waits for the next commits and reads them.
    async fn read(&mut self) -> Result<(), Problem> {
        let seen = self.log.seen();
        let news = self.log.next(CHUNK).await?;
        // Checked only now, because commits made after the token was revoked may be among them.
        self.permit.check_still_valid().await?;
        match news {
            LogNews::Commits(rows) => self.pending.extend(rows.iter().map(CommitShape::of)),
            LogNews::Lost { head } => {
                self.gap = Some(gap_of(format!("commit {seen} was lost, in a failover perhaps"), head));
            }
        }
        Ok(())
    }
}

/// A gap for this `reason`, after which the stream continues behind `head`.
fn gap_of(reason: String, head: Seq) -> GapShape {
    GapShape {
        reason: format!("{reason}; the stream continues with the next commit"),
        head: Some(head.0),
    }
}
