//! A write that is too large for memory: it is handed over in parts, each of them a commit, and all or none are
//! written.

use folio_memory::{Seq, Timestamp};
use tokio::sync::mpsc;

use crate::commit::{Commit, Committed};
use crate::error::StoreError;

/// How many parts may wait for the writer.
const WAITING_MAX: usize = 2;

/// The receiving end for the parts of a write.
#[derive(Debug)]
pub struct Parts(mpsc::Receiver<Part>);

/// The sending end for the parts of a write. Nothing is written unless [`end`](Self::end) is called after the last
/// part.
#[derive(Debug)]
pub struct Giving(mpsc::Sender<Part>);

#[derive(Debug)]
enum Part {
    Commit(Box<Commit>),
    End,
}

/// The outcome of a write in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedParts {
    /// The outcome of the first part. If it had been written before under the same key, none of the other parts was
    /// written now.
    pub first: Committed,
    /// The number of the last commit.
    pub head: Seq,
    /// The time of the last commit, as the log has it.
    pub at: Timestamp,
}

/// The two ends of a write in parts.
#[must_use]
pub fn in_parts() -> (Giving, Parts) {
    let (sender, parts) = mpsc::channel(WAITING_MAX);
    (Giving(sender), Parts(parts))
}

impl Giving {
    /// Sends the next part once there is room for it; returns whether it is still wanted. If not, the writer reports
    /// why.
    pub async fn give(&self, commit: Commit) -> bool {
        self.0.send(Part::Commit(Box::new(commit))).await.is_ok()
    }

    /// Says that all parts were sent.
    pub async fn end(self) {
        // A receiver that is gone has reported why.
        drop(self.0.send(Part::End).await);
    }
}

impl Parts {
    /// Returns the next part; `None` after the last one.
    ///
    /// # Errors
    ///
    /// `Invalid` if the sender went away before the last part: then nothing may be written.
    pub async fn next(&mut self) -> Result<Option<Commit>, StoreError> {
        match self.0.recv().await {
            Some(Part::Commit(commit)) => Ok(Some(*commit)),
            Some(Part::End) => Ok(None),
            None => Err(abandoned_error()),
        }
    }
}

impl CommittedParts {
    /// The outcome after the first part.
    pub(crate) fn begin(first: Committed) -> Self {
        let (head, at) = (first.seq, first.at);
        Self { first, head, at }
    }

    /// Adds the outcome of another part.
    pub(crate) fn add(&mut self, committed: &Committed) {
        (self.head, self.at) = (committed.seq, committed.at);
    }
}

/// The error for a write whose last part never came.
pub(crate) fn abandoned_error() -> StoreError {
    StoreError::Invalid("a write in parts ended before its last part: nothing was written".to_owned())
}

/// The error for a write without any part.
pub(crate) fn no_parts_error() -> StoreError {
    StoreError::Invalid("a write in parts has no parts".to_owned())
}

/// Refuses a part that is of another space than the first one.
pub(crate) fn of_one_space(first: &folio_memory::SpaceName, next: &folio_memory::SpaceName) -> Result<(), StoreError> {
    if first == next {
        return Ok(());
    }
    let message = format!("a write in parts is for space {first}, but one part is for {next}");
    Err(StoreError::Invalid(message))
}
