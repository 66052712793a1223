//! A run as it happens, as server-sent events.
//!
//! Every event of the run's journal is one message. Its id is its place in the journal, 1, 2, 3 …: a journal only grows,
//! so whoever says the last id that it has seen gets exactly what follows. (The number of the commit would not do: one
//! commit may hold many events, and a connection may break between two of them.)
//!
//! Besides those there are three messages without an id: `gap` says that the last id is not one of this journal and
//! that everything follows; `end` says that the run has ended and that nothing follows; `problem` says why the stream
//! breaks off.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use folio::memory::Seq;
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use tokio::sync::watch;

use super::access::Permit;
use super::feed::{Feed, Words};
use super::metrics::Watcher;
use super::problem::Problem;
use crate::server::wait_until_stopping;
use crate::wire::event::{EndShape, EventShape, GapShape};

/// What the messages of a stream say.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) enum RunMessage {
    Event(EventShape),
    End(EndShape),
    Gap(GapShape),
    Problem(Problem),
}

/// How often a stream without news shows that it is alive.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The last event that whoever asks has seen, as the header `Last-Event-ID` says.
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

/// Tells what `feed` gives: everything after the event `after`, until the run has ended or the server stops. `head` is how far
/// its journal goes at least, by which it is known whether there is such an event.
pub(crate) fn stream(
    feed: Arc<Feed>,
    permit: Permit,
    (after, head): (u64, Seq),
    stopping: watch::Receiver<bool>,
    watcher: Watcher,
) -> Sse<impl Stream<Item = Result<Message, axum::Error>>> {
    let follow = Follow {
        news: feed.news(),
        feed,
        permit,
        stopping,
        _watcher: watcher,
        after,
        looked: 0,
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
    _watcher: Watcher,
    /// Events up to this one are not told, or were.
    after: u64,
    /// How many events there were when the token was last looked at. Those after it are not told before that is done again: they may be
    /// younger than the moment at which it was taken back.
    looked: u64,
    head: Seq,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// Nothing was told yet.
    Begins,
    /// There may be news.
    GoesOn,
    /// The last message was told.
    Over,
}

impl Follow {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if self.stage == Stage::Over {
                return None;
            }
            // What comes from here on rings again.
            self.news.borrow_and_update();
            let there = self.feed.told().events.len() as u64;
            if there > self.looked {
                if let Err(problem) = self.permit.still_holds().await {
                    self.stage = Stage::Over;
                    return Message::default().event("problem").json_data(problem).ok();
                }
                self.looked = there;
            }
            if let Some(message) = self.told() {
                return Some(message);
            }
            tokio::select! {
                // The feed is held, and with it the one who rings.
                _rung = self.news.changed() => {}
                () = wait_until_stopping(self.stopping.clone()) => return None,
            }
        }
    }

    /// The next message of what has been read, if there is one.
    fn told(&mut self) -> Option<Message> {
        let told = self.feed.told();
        if self.stage == Stage::Begins {
            if !told.reaches(self.head) {
                return None;
            }
            self.stage = Stage::GoesOn;
            if told.lacks(self.after) {
                let reason = format!("the run has no event {}; all its events follow", self.after);
                self.after = 0;
                let gap = GapShape { reason, head: None };
                return Message::default().event("gap").json_data(gap).ok();
            }
        }
        let index = usize::try_from(self.after).unwrap_or(usize::MAX);
        if let Some(words) = told.events.get(index) {
            if self.after >= self.looked {
                return None;
            }
            self.after += 1;
            return Some(message(words).id(self.after.to_string()));
        }
        let last = told.last.as_ref()?;
        self.stage = Stage::Over;
        Some(message(last))
    }
}

fn message(words: &Words) -> Message {
    Message::default().event(words.name).data(&*words.data)
}
