//! Takes secrets out before anything is decided on a value, for those who keep state beside the log.

use folio_engine::Event;
use folio_memory::Warning;

use super::{Workspace, redact};

impl Workspace {
    /// Replaces the secrets in an event, as writing it would, and says what it replaced. Bodies that
    /// the event refers to by hash are not looked at.
    ///
    /// A runner does this before it folds the event in, so that what later steps read is what the journal says.
    pub fn clean_event(&self, event: &mut Event) -> Vec<Warning> {
        redact::clean_event(event)
    }
}
