//! A run beside its driver, for whoever tells others what is done here: from where it was taken up to where it is given up.
//!
//! The driver says how far it knows the journal. So whoever reads beside it reads when there is more, looks at no other run, and
//! stops when the driver does.

use std::fmt::Debug;

use folio_engine::{Event, Run};
use folio_memory::{RunId, Seq, Timestamp};
use tokio::sync::watch;

use crate::error::RunnerError;
use crate::models::RunnerModels;
use crate::watch::Watch;

/// Is told which runs are driven in this process, to follow them beside their drivers.
pub trait Observer: Debug + Send + Sync {
    /// A run is driven from now on, as long as `beside` says. Must return at once.
    fn drives(&self, beside: Beside);

    /// How many things nobody could be told, for whoever counts them; `None` if that is not known.
    fn untold(&self) -> Option<u64> {
        None
    }
}

/// A run while this process drives it. Has read nothing at first.
#[derive(Debug)]
pub struct Beside {
    watch: Watch,
    /// Where the journal ended when it was taken up.
    from: Seq,
    /// Where it ends, as far as its driver knows it, until that has let go of the run.
    heads: watch::Receiver<Seq>,
    /// Who may be asked.
    models: Option<RunnerModels>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'r> {
    /// The run, in which it is applied, and nothing that came after it.
    pub run: &'r Run,
    /// When it was recorded.
    pub at: Timestamp,
    /// What.
    pub event: &'r Event,
    /// Of a question to a model, who is asked, as people write it; `None` if that is not known.
    pub model: Option<&'r str>,
    /// Whether it is part of this drive: what happened before was done by others, or by an earlier one.
    pub is_of_this_drive: bool,
}

impl Beside {
    /// `watch`, of which nothing has been read, while it is driven from commit `from` on and as far as `heads` says.
    pub(crate) fn new(watch: Watch, from: Seq, heads: watch::Receiver<Seq>, models: Option<RunnerModels>) -> Self {
        Self {
            watch,
            from,
            heads,
            models,
        }
    }

    /// Which run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.watch.run().id()
    }

    /// Whether its driver has let go of it. What it recorded until then can still be read.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.heads.has_changed().is_err()
    }

    /// Waits until its driver has let go of it. May be dropped while it waits.
    pub async fn given_up(&mut self) {
        let _given_up = self.heads.wait_for(|_| false).await.is_err();
    }

    /// Waits until there is more than was read. Not any more once its driver has let go of it. May be dropped while it waits.
    pub async fn more(&mut self) {
        let read = self.watch.head();
        // An error says that the driver has let go of it.
        let _given_up = self.heads.wait_for(|head| *head > read).await.is_err();
    }

    /// Reads what there is by now, of very much the first, and gives it to `take`, in order. Whether there was anything. Reads nothing
    /// that others wrote after its driver let go of it.
    ///
    /// # Errors
    ///
    /// `Store` or `Journal`.
    pub async fn read(&mut self, mut take: impl FnMut(Happened<'_>)) -> Result<bool, RunnerError> {
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
        let each = |run: &Run, at: Timestamp, event: &Event| {
            let model = match event {
                Event::Asked { node, purpose, .. } => models.and_then(|models| models.asked_for(run, *node, *purpose)),
                _ => None,
            };
            take(Happened {
                run,
                at,
                event,
                model,
                is_of_this_drive,
            });
        };
        // Whatever was there while the driver still had it is of this drive, though the driver may not know it yet.
        let heads = &self.heads;
        let has_to_end = || !is_of_this_drive || heads.has_changed().is_err();
        self.watch.part_until(until, has_to_end, each).await?;
        Ok(true)
    }
}
