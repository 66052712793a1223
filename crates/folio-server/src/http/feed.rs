//! The events of a run, read and serialized once for all clients that watch it.
//!
//! Every watcher of a run holds its feed; one task reads the journal for all of them and ends when the last one leaves.
//! So a thousand watchers of a run cost a thousand connections, but only one reading of its journal.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use folio::memory::{RunId, Seq, SpaceName};
use folio::runner::Watch;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::problem::Problem;
use crate::wire::event::{EndShape, EventShape};

/// The feeds that are in use.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: Mutex<HashMap<(SpaceName, RunId), Weak<Feed>>>,
}

/// The feed of one run.
#[derive(Debug)]
pub(crate) struct Feed {
    state: RwLock<FeedState>,
    /// Signals that there is more.
    news: watch::Sender<()>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

/// The part of the feed that has been read.
#[derive(Debug, Default)]
pub(crate) struct FeedState {
    /// The events from the first one on; an event's number is its position, counted from 1.
    pub(crate) events: Vec<FeedMessage>,
    /// The last message of the stream, once nothing more follows.
    pub(crate) last: Option<FeedMessage>,
    /// The last commit that was read.
    head: Seq,
}

/// A message without its number.
#[derive(Debug)]
pub(crate) struct FeedMessage {
    pub(crate) name: &'static str,
    pub(crate) data: Box<str>,
}

impl FeedMessage {
    fn of(name: &'static str, data: &impl serde::Serialize) -> Self {
        // None of the messages can fail to serialize.
        let data = serde_json::to_string(data).unwrap_or_default().into();
        Self { name, data }
    }
}

impl FeedState {
    /// Returns whether everything committed up to `head` has been read.
    pub(crate) fn has_read_to(&self, head: Seq) -> bool {
        self.head >= head || self.last.is_some()
    }

    /// Returns whether the event `after` is known not to exist. If reading broke off, this is unknown.
    pub(crate) fn is_known_missing(&self, after: u64) -> bool {
        after > self.events.len() as u64 && !self.has_failed()
    }

    /// Returns whether the feed ended with an error, not with the end of the run.
    fn has_failed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.name != "end")
    }
}

impl Feeds {
    /// Returns the feed of the run of `watch`, which is in `space` and must not have been read from yet.
    pub(crate) fn of(&self, space: &SpaceName, watch: Watch) -> Arc<Feed> {
        let mut feeds = self.feeds.lock();
        // The space is part of the key, so that nobody is told what happens in another one, even if ids were equal.
        let run = (space.clone(), watch.run().id());
        let existing = feeds.get(&run).and_then(Weak::upgrade);
        // A feed that broke off would not help a client that tries again.
        if let Some(feed) = existing.filter(|feed| !feed.state().has_failed()) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed {
            state: RwLock::default(),
            news: watch::Sender::new(()),
            reading: Mutex::default(),
        });
        let reading = tokio::spawn(read_journal(watch, Arc::downgrade(&feed)));
        *feed.reading.lock() = Some(reading);
        feeds.insert(run, Arc::downgrade(&feed));
        feed
    }
}

impl Feed {
    /// Returns what has been read so far.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, FeedState> {
        self.state.read()
    }

    /// Returns a receiver that changes whenever there is more.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn update_state(&self, change: impl FnOnce(&mut FeedState)) {
        change(&mut self.state.write());
        self.news.send_replace(());
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(reading) = self.reading.lock().take() {
            reading.abort();
        }
    }
}

/// Reads the journal to its end, or until the feed is no longer held.
async fn read_journal(mut watch: Watch, feed: Weak<Feed>) {
    loop {
        let next_part = watch.next().await;
        let Some(feed) = feed.upgrade() else {
            return;
        };
        match next_part {
            Ok(Some(events)) => {
                let run = watch.run();
                let messages: Vec<_> = events
                    .iter()
                    .map(|(at, event)| FeedMessage::of(event.name(), &EventShape::of(run, *at, event)))
                    .collect();
                feed.update_state(|state| {
                    state.events.extend(messages);
                    state.head = watch.head();
                });
            }
            Ok(None) => {
                let status = watch.run().result().map(|result| result.status.as_str());
                return feed.update_state(|state| state.last = Some(FeedMessage::of("end", &EndShape { status })));
            }
            Err(error) => {
                return feed.update_state(|state| state.last = Some(FeedMessage::of("problem", &Problem::from(error))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use folio::Folio;

    use super::*;

    #[tokio::test]
    async fn watchers_of_a_run_share_one_feed_within_a_space() {
        let folio = Folio::open("memory:").await.unwrap();
        let (feeds, run) = (Feeds::default(), RunId::derived(&["r"]));
        let of = |space: &str| {
            let space = SpaceName::parse(space).unwrap();
            feeds.of(&space, Watch::new(Arc::clone(folio.store()), space.clone(), run))
        };
        let held = of("main");
        assert!(Arc::ptr_eq(&held, &of("main")));
        assert!(!Arc::ptr_eq(&held, &of("other")));
    }
}
