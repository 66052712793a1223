//! Takes secrets out before anything is decided on a value, for those who keep state beside the log.

use std::sync::atomic::Ordering;

use folio_engine::Event;
use folio_memory::keeping::Redaction;

use super::{Workspace, WorkspaceError, redact};

impl Workspace {
    /// What the space wants taken out of texts that are stored now.
    pub(crate) async fn redaction(&self) -> Result<Redaction, WorkspaceError> {
        Ok(self.policy().await?.redaction)
    }

    /// The same as it was when somebody last looked, for what is read.
    pub(crate) async fn redaction_of_reads(&self) -> Result<Redaction, WorkspaceError> {
        match self.known_redaction() {
            Some(known) => Ok(known),
            None => self.redaction().await,
        }
    }

    fn known_redaction(&self) -> Option<Redaction> {
        let is_known = self.inner.policy_was_read.load(Ordering::Acquire);
        is_known.then(|| {
            let known = self.inner.policy.lock();
            known.redaction
        })
    }

    /// The same when the store cannot be asked: if nobody knows, all that some space might not want stored.
    pub(super) fn redaction_in_trouble(&self) -> Redaction {
        self.known_redaction().unwrap_or(Redaction::Pii)
    }

    /// Replaces the secrets in an event, as writing it would. What it replaced, the event says in their places. Bodies that the event refers to
    /// by hash are not looked at.
    ///
    /// A runner does this before it folds the event in, so that what later steps read is what the journal says.
    pub fn clean_event(&self, event: &mut Event) {
        redact::clean_event(event, self.known_redaction().unwrap_or_default());
    }

    /// A body without the secrets in it, as writing it would leave it; `None` if there are none. A runner does this before it names the body, so that
    /// it is kept under the name that the runner knows.
    #[must_use]
    pub fn clean_body(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        redact::Cleaner::new(self.known_redaction().unwrap_or_default()).bytes(bytes, "body")
    }
}
