//! Takes secrets out of values before anything is decided on them, for callers that keep state beside the log.

use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_engine::Event;
use folio_memory::Timestamp;
use folio_memory::keeping::Redaction;
use serde_json::Value;

use super::{Workspace, WorkspaceError, redact};

/// How long reads go by the policy that this process knows: another process may have set one.
const POLICY_IS_FRESH: Duration = Duration::from_secs(1);

impl Workspace {
    /// What the space's policy now takes out of texts that are stored.
    pub(crate) async fn redaction(&self) -> Result<Redaction, WorkspaceError> {
        Ok(self.policy().await?.redaction)
    }

    /// The same for what was just read, by a policy that was read at most [`POLICY_IS_FRESH`] ago: asking for it with
    /// every read would cost each of them a question more.
    pub(crate) async fn redaction_of_reads(&self) -> Result<Redaction, WorkspaceError> {
        let read_at = Timestamp::from_nanos(self.inner.policy_read_at.load(Ordering::Acquire));
        let now = self.inner.clock.now();
        // Somebody may have set the clock back.
        let is_fresh = read_at <= now && now.since(read_at) < POLICY_IS_FRESH;
        match self.known_redaction().filter(|_| is_fresh) {
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

    /// The same while the store cannot be read: if it is not known, everything that any space might not want stored.
    pub(super) fn redaction_in_trouble(&self) -> Redaction {
        self.known_redaction().unwrap_or(Redaction::Pii)
    }

    /// Replaces the secrets in an event, as writing it would. The event itself shows in their places what was replaced.
    /// Bodies that it refers to by hash are not examined.
    ///
    /// A runner does this before it folds the event into its state, so that later steps read what the journal says.
    pub fn clean_event(&self, event: &mut Event) {
        redact::clean_event(event, self.known_redaction().unwrap_or_default());
    }

    /// Replaces the secrets in a value that is shown and was not stored in this form, as writing it would.
    pub fn clean_value(&self, value: &mut Value) {
        redact::Cleaner::new(self.known_redaction().unwrap_or_default()).value(value, "value");
    }

    /// Returns a body without its secrets, as writing it would leave it; `None` if it has none. A runner does this
    /// before it names the body, so that the body is kept under the name that the runner knows.
    #[must_use]
    pub fn clean_body(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        redact::Cleaner::new(self.known_redaction().unwrap_or_default()).bytes(bytes, "body")
    }
}
