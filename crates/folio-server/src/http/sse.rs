//! A run as it happens, as server-sent events.
//!
//! Every event of the run's journal is one message. Its id is its place in the journal, 1, 2, 3 …: a journal only grows,
//! so whoever says the last id that it has seen gets exactly what follows. (The number of the commit would not do: one
//! commit may hold many events, and a connection may break between two of them.)
//!
//! Besides those there are three messages without an id: `gap` says that the last id is not one of this journal and
//! that everything follows; `end` says that the run has ended and that nothing follows; `problem` says why the stream
//! breaks off.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use folio::Timestamp;
use folio::engine::Event;
use folio::runner::Watch;
use futures_util::stream::{Stream, unfold};
use serde_json::json;
use tokio::sync::watch;

use super::metrics::Watcher;
use super::problem::Problem;
use crate::server::wait_until_stopping;
use crate::wire::event::EventShape;

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

/// Tells what `watch`, of which nothing was read yet, reads: everything after the event `after`, until the run has ended
/// or the server stops.
pub(crate) fn stream(
    watch: Watch,
    after: u64,
    stopping: watch::Receiver<bool>,
    watcher: Watcher,
) -> Sse<impl Stream<Item = Result<Message, axum::Error>>> {
    let follow = Follow {
        watch,
        stopping,
        _watcher: watcher,
        after,
        read: 0,
        pending: VecDeque::new(),
        stage: Stage::Begins,
    };
    let messages = unfold(follow, |mut follow| async {
        follow.next().await.map(|message| (message, follow))
    });
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

struct Follow {
    watch: Watch,
    stopping: watch::Receiver<bool>,
    _watcher: Watcher,
    /// Events up to this one are not told.
    after: u64,
    /// Events read so far.
    read: u64,
    /// Events that were read and not told, with their ids.
    pending: VecDeque<(u64, Timestamp, Event)>,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// Nothing was read yet.
    Begins,
    /// There may be news.
    GoesOn,
    /// The last message was told.
    Over,
}

impl Follow {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Option<Result<Message, axum::Error>> {
        loop {
            if let Some((id, at, event)) = self.pending.pop_front() {
                let shape = EventShape::of(self.watch.run(), at, &event);
                return Some(
                    Message::default()
                        .id(id.to_string())
                        .event(event.name())
                        .json_data(shape),
                );
            }
            if self.stage == Stage::Over {
                return None;
            }
            let news = tokio::select! {
                news = self.watch.next() => news,
                () = wait_until_stopping(self.stopping.clone()) => return None,
            };
            match news {
                Ok(Some(events)) => {
                    if let Some(gap) = self.take(events) {
                        return Some(gap);
                    }
                }
                Ok(None) => {
                    self.stage = Stage::Over;
                    let status = self.watch.run().result().map(|result| result.status.as_str());
                    return Some(Message::default().event("end").json_data(json!({ "status": status })));
                }
                Err(error) => {
                    self.stage = Stage::Over;
                    return Some(Message::default().event("problem").json_data(Problem::from(error)));
                }
            }
        }
    }

    /// Notes `events` as read; a `gap` if they are the whole journal and the asker knows of more.
    fn take(&mut self, events: Vec<(Timestamp, Event)>) -> Option<Result<Message, axum::Error>> {
        let ids = self.read + 1..;
        self.read += events.len() as u64;
        let is_gap = self.stage == Stage::Begins && self.after > self.read;
        self.stage = Stage::GoesOn;
        let unknown = self.after;
        if is_gap {
            self.after = 0;
        }
        let after = self.after;
        let numbered = ids.zip(events).map(|(id, (at, event))| (id, at, event));
        self.pending.extend(numbered.filter(|(id, ..)| *id > after));
        is_gap.then(|| {
            let reason = format!("the run has no event {unknown}; all its events follow");
            Message::default().event("gap").json_data(json!({ "reason": reason }))
        })
    }
}
