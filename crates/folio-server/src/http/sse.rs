//! The live stream of a run, as server-sent events.
//!
//! Every event of the run's journal is one message. Its id is its position in the journal, 1, 2, 3 …: a journal only
//! grows, so a client that sends the last id that it has seen gets exactly what follows. (The number of the commit
//! would not do: one commit may hold many events, and a connection may break between two of them.)
//!
//! There are three more messages, without an id: `gap` says that the last id is not an event of this journal and that
//! all events follow; `end` says that the run has ended and nothing follows; `problem` says why the stream breaks off.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use folio::memory::Seq;
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use tokio::sync::watch;

use super::access::Permit;
use super::feed::{Feed, FeedMessage};
use super::problem::Problem;
use crate::server::wait_until_stopping;
use crate::wire::event::{EndShape, EventShape, GapShape};

/// The data of a message of a stream of a run.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum RunMessage {
    Event(EventShape),
    End(EndShape),
    Gap(GapShape),
    Problem(Problem),
}

/// The interval at which a stream without news sends a sign of life.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the last event that the client has seen, from the header `Last-Event-ID`.
pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let detail = format!("the header Last-Event-ID is {id:?}, which is not the id of an event");
        Problem::invalid("last_event_id_invalid", detail).hint("ids of events are 1, 2, 3 …; 0 is before the first")
    })
}

/// Streams the events of `feed` after the event `after`, until the run has ended or the server stops. The journal
/// reaches at least to `head`; once it is read up to there, it is known whether `after` exists.
pub(crate) fn stream(
    feed: Arc<Feed>,
    permit: Permit,
    (after, head): (u64, Seq),
    stopping: watch::Receiver<bool>,
) -> Sse<impl Stream<Item = Result<Message, axum::Error>>> {
    let follow = Follow {
        news: feed.changes(),
        feed,
        permit,
        stopping,
        after,
        checked_event_count: 0,
        head,
        stage: Stage::Begins,
    };
    let messages = unfold(follow, |mut follow| async {
        follow.next().await.map(|message| (Ok(message), follow))
    });
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follow {
    feed: Arc<Feed>,
    permit: Permit,
    news: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    /// Events up to this one were sent or are not wanted.
    after: u64,
    /// The number of events when the token was last checked. Later events are sent only after another check, because
    /// the token may have been revoked before they happened.
    checked_event_count: u64,
    head: Seq,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// Nothing was sent yet.
    Begins,
    /// More events may follow.
    GoesOn,
    /// The last message was sent.
    Over,
}

impl Follow {
    /// Returns the next message; `None` after the last.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if self.stage == Stage::Over {
                return None;
            }
            // From here on, anything new signals again.
            self.news.borrow_and_update();
            let event_count = self.feed.state().events.len() as u64;
            if event_count > self.checked_event_count {
                if let Err(problem) = self.permit.check_still_valid().await {
                    self.stage = Stage::Over;
                    return Message::default().event("problem").json_data(problem).ok();
                }
                self.checked_event_count = event_count;
            }
            if let Some(message) = self.next_read_message() {
                return Some(message);
            }
            tokio::select! {
                // This cannot fail: the feed, which is held here, owns the sender.
                _rung = self.news.changed() => {}
                () = wait_until_stopping(self.stopping.clone()) => return None,
            }
        }
    }

    /// Returns the next message from what has been read, if there is one.
    fn next_read_message(&mut self) -> Option<Message> {
        let state = self.feed.state();
        if self.stage == Stage::Begins {
            if !state.has_read_to(self.head) {
                return None;
            }
            self.stage = Stage::GoesOn;
            if state.is_known_missing(self.after) {
                let reason = format!("the run has no event {}; all its events follow", self.after);
                self.after = 0;
                let gap = GapShape { reason, head: None };
                return Message::default().event("gap").json_data(gap).ok();
            }
        }
        let index = usize::try_from(self.after).unwrap_or(usize::MAX);
        if let Some(feed_message) = state.events.get(index) {
            if self.after >= self.checked_event_count {
                return None;
            }
            self.after += 1;
            return Some(message(feed_message).id(self.after.to_string()));
        }
        let last = state.last.as_ref()?;
        self.stage = Stage::Over;
        Some(message(last))
    }
}

fn message(feed_message: &FeedMessage) -> Message {
    Message::default().event(feed_message.name).data(&*feed_message.data)
}
