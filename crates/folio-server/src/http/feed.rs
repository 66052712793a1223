//! The events of a run, read and put into words once for all who watch it.
//!
//! Whoever watches a run holds its feed; one task reads the journal for all of them, and ends when nobody is left. So a
//! thousand who watch one run cost a thousand connections, and not a thousand readings of its journal.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use folio::memory::{RunId, Seq};
use folio::runner::Watch;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::problem::Problem;
use crate::wire::event::{EndShape, EventShape};

/// The feeds that somebody holds.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    feeds: Mutex<HashMap<RunId, Weak<Feed>>>,
}

/// What happened in one run so far.
#[derive(Debug)]
pub(crate) struct Feed {
    told: RwLock<Told>,
    /// Rings when there is more.
    news: watch::Sender<()>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

/// What has been read.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The events from the first one on; the number of each is its place, from 1.
    pub(crate) events: Vec<Words>,
    /// What the stream ends with, if nothing follows.
    pub(crate) last: Option<Words>,
    /// The commit up to which it was read.
    head: Seq,
}

/// A message, without its number.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) name: &'static str,
    pub(crate) data: Box<str>,
}

impl Words {
    fn of(name: &'static str, data: &impl serde::Serialize) -> Self {
        // Nothing of what is told can fail to be JSON.
        let data = serde_json::to_string(data).unwrap_or_default().into();
        Self { name, data }
    }
}

impl Told {
    /// Whether all of it is here that was committed up to `head`.
    pub(crate) fn reaches(&self, head: Seq) -> bool {
        self.head >= head || self.last.is_some()
    }

    /// Whether there is no event `after`. Where reading broke off, nobody knows.
    pub(crate) fn lacks(&self, after: u64) -> bool {
        after > self.events.len() as u64 && !self.broke_off()
    }

    /// Whether it ends with what went wrong, and not with the run.
    fn broke_off(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.name != "end")
    }
}

impl Feeds {
    /// The feed of the run that `watch` is of, of which nothing was read yet.
    pub(crate) fn of(&self, watch: Watch) -> Arc<Feed> {
        let mut feeds = self.feeds.lock();
        let run = watch.run().id();
        let held = feeds.get(&run).and_then(Weak::upgrade);
        // One that broke off is of no use to whoever tries again.
        if let Some(feed) = held.filter(|feed| !feed.told().broke_off()) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed {
            told: RwLock::default(),
            news: watch::Sender::new(()),
            reading: Mutex::default(),
        });
        let reading = tokio::spawn(read(watch, Arc::downgrade(&feed)));
        *feed.reading.lock() = Some(reading);
        feeds.insert(run, Arc::downgrade(&feed));
        feed
    }
}

impl Feed {
    /// What has been read so far.
    pub(crate) fn told(&self) -> RwLockReadGuard<'_, Told> {
        self.told.read()
    }

    /// Changes whenever there is more.
    pub(crate) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.write());
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

/// Reads the journal to its end, or until nobody holds the feed.
async fn read(mut watch: Watch, feed: Weak<Feed>) {
    loop {
        let news = watch.next().await;
        let Some(feed) = feed.upgrade() else {
            return;
        };
        match news {
            Ok(Some(events)) => {
                let run = watch.run();
                let words: Vec<_> = events
                    .iter()
                    .map(|(at, event)| Words::of(event.name(), &EventShape::of(run, *at, event)))
                    .collect();
                feed.tell(|told| {
                    told.events.extend(words);
                    told.head = watch.head();
                });
            }
            Ok(None) => {
                let status = watch.run().result().map(|result| result.status.as_str());
                return feed.tell(|told| told.last = Some(Words::of("end", &EndShape { status })));
            }
            Err(error) => {
                return feed.tell(|told| told.last = Some(Words::of("problem", &Problem::from(error))));
            }
        }
    }
}
