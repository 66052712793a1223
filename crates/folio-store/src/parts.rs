//! A write that is too large to be in memory at once: it is handed over in parts, each a commit, and all of them are there, or none.

use folio_memory::{Seq, Timestamp};
use tokio::sync::mpsc;

use crate::commit::{Commit, Committed};
use crate::error::StoreError;

/// Parts that may wait for whoever writes them.
const WAITING_MAX: usize = 2;

/// The parts of a write, as they come.
#[derive(Debug)]
pub struct Parts(mpsc::Receiver<Part>);

/// Where the parts of a write are given. Nothing is written unless it is told in the end that those were all.
#[derive(Debug)]
pub struct Giving(mpsc::Sender<Part>);

#[derive(Debug)]
enum Part {
    Commit(Box<Commit>),
    End,
}

/// What a write in parts came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedParts {
    /// What the first part came to. If that was done before under the same key, none of the others was written now.
    pub first: Committed,
    /// The number of the last one.
    pub head: Seq,
    /// When the last one was made, as it stands in the log.
    pub at: Timestamp,
}

/// Where parts are given, and where they come out.
#[must_use]
pub fn in_parts() -> (Giving, Parts) {
    let (giving, parts) = mpsc::channel(WAITING_MAX);
    (Giving(giving), Parts(parts))
}

impl Giving {
    /// Gives the next part, when there is room for it; whether it is wanted. If it is not, whoever writes says why.
    pub async fn give(&self, commit: Commit) -> bool {
        self.0.send(Part::Commit(Box::new(commit))).await.is_ok()
    }

    /// Says that those were all.
    pub async fn end(self) {
        // Whoever does not listen any more has said why.
        drop(self.0.send(Part::End).await);
    }
}

impl Parts {
    /// The next part; nothing behind the last one.
    ///
    /// # Errors
    ///
    /// `Invalid` if whoever gives them went away before the last one: then nothing may be written.
    pub async fn next(&mut self) -> Result<Option<Commit>, StoreError> {
        match self.0.recv().await {
            Some(Part::Commit(commit)) => Ok(Some(*commit)),
            Some(Part::End) => Ok(None),
            None => Err(given_up()),
        }
    }
}

impl CommittedParts {
    /// What the first part came to, before there are others.
    pub(crate) fn begin(first: Committed) -> Self {
        let (head, at) = (first.seq, first.at);
        Self { first, head, at }
    }

    /// Takes in what another part came to.
    pub(crate) fn add(&mut self, committed: &Committed) {
        (self.head, self.at) = (committed.seq, committed.at);
    }
}

/// That there is no last part.
pub(crate) fn given_up() -> StoreError {
    StoreError::Invalid("a write in parts was given up before its last one: nothing of it was written".to_owned())
}

/// That there is no first part.
pub(crate) fn nothing_given() -> StoreError {
    StoreError::Invalid("a write in parts has none".to_owned())
}

/// Refuses a part that is not of the space of the first one.
pub(crate) fn of_one_space(first: &folio_memory::SpaceName, next: &folio_memory::SpaceName) -> Result<(), StoreError> {
    if first == next {
        return Ok(());
    }
    let message = format!("a write in parts is for space {first}, and one of them for {next}");
    Err(StoreError::Invalid(message))
}
