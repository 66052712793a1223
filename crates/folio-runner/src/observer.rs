//! A run followed beside its driver, from the moment it is claimed to the moment it is given up, for observers that
//! report what this process does.
//!
//! The driver publishes how far it knows the journal. So an observer reads only when there is more, looks at no other
//! run, and stops when the driver does.

use std::fmt::Debug;

use folio_engine::{Event, Run};
use folio_memory::{RunId, Seq, Timestamp};
use tokio::sync::watch;

use crate::error::RunnerError;
use crate::models::RunnerModels;
use crate::watch::Watch;

/// Is told which runs this process drives, to follow them beside their drivers.
pub trait Observer: Debug + Send + Sync {
    /// This process drives a run from now on; `follower` says for how long. Must return at once. If it
    /// panics, the run goes on unobserved.
    fn drive_started(&self, follower: DriveFollower);

    /// How many things could not be reported; `None` if that is not known.
    fn unreported_count(&self) -> Option<u64> {
        None
    }
}

/// A run while this process drives it. Nothing of it has been read at first.
#[derive(Debug)]
pub struct DriveFollower {
    watch: Watch,
    /// Where the journal ended when the run was claimed.
    from: Seq,
    /// Where the journal ends, as far as the driver knows. Closed when the driver gives up the run.
    heads: watch::Receiver<Seq>,
    /// The models that the run may ask.
    models: Option<RunnerModels>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, Copy)]
pub struct ObservedEvent<'r> {
    /// The run, with this event applied and nothing after it.
    pub run: &'r Run,
    /// When it was recorded.
    pub at: Timestamp,
    /// The event.
    pub event: &'r Event,
    /// For a question to a model: the address of the model; `None` if that is not known.
    pub model: Option<&'r str>,
    /// Whether it happened in this drive. Earlier events come from other drivers or from an earlier drive.
    pub is_of_this_drive: bool,
}

impl DriveFollower {
    /// Creates it with nothing read of `watch`. It is driven from commit `from` on, as far as `heads` says.
    pub(crate) fn new(watch: Watch, from: Seq, heads: watch::Receiver<Seq>, models: Option<RunnerModels>) -> Self {
        Self {
            watch,
            from,
            heads,
            models,
        }
    }

    /// The id of the run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.watch.run().id()
    }

    /// Whether the driver has given up the run. What it recorded until then can still be read.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.heads.has_changed().is_err()
    }

    /// Waits until the driver has given up the run. Cancel safe.
    pub async fn wait_until_given_up(&mut self) {
        let _given_up = self.heads.wait_for(|_| false).await.is_err();
    }

    /// Waits until there is more to read, or the driver has given up the run. Cancel safe.
    pub async fn wait_for_more(&mut self) {
        let read = self.watch.head();
        // An error means that the driver has given up the run.
        let _given_up = self.heads.wait_for(|head| *head > read).await.is_err();
    }

    /// Reads what is there (of very much, the first part), passes it to `take` in order, and returns whether there was
    /// anything. Reads nothing that others wrote after the driver gave up the run.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn read(&mut self, mut take: impl FnMut(ObservedEvent<'_>)) -> Result<bool, RunnerError> {
        let is_of_this_drive = self.watch.head() >= self.from;
        let until = if is_of_this_drive {
            *self.heads.borrow()
        } else {
            self.from
        };
        if self.watch.head() >= until {
            return Ok(false);
        }
        let models = self.models.as_ref();
        let visit = |run: &Run, at: Timestamp, event: &Event| {
            let model = match event {
                Event::Asked { node, purpose, .. } => {
                    models.and_then(|models| models.model_name_for(run, *node, *purpose))
                }
                _ => None,
            };
            take(ObservedEvent {
                run,
                at,
                event,
                model,
                is_of_this_drive,
            });
        };
        // Whatever was there while the driver still had the run belongs to this drive, even if the driver does not know
        // it yet.
        let heads = &self.heads;
        let has_to_end = || !is_of_this_drive || heads.has_changed().is_err();
        self.watch.part_until(until, has_to_end, visit).await?;
        Ok(true)
    }
}
