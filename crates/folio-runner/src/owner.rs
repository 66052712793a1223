//! As whom a runner claims runs.

use std::sync::Arc;

use folio_store::{OwnerId, Store};

/// A name under which a store keeps what is claimed. When it is dropped with the last runner that claims under it, the
/// store frees what it keeps for it, and others may claim what was never given up.
#[derive(Debug)]
pub(crate) struct Owner {
    id: OwnerId,
    store: Arc<dyn Store>,
}

impl Owner {
    /// A new one in `store`.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            id: OwnerId::random(),
            store,
        }
    }

    /// Its name.
    pub(crate) fn id(&self) -> &OwnerId {
        &self.id
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.store.release_owner(&self.id);
    }
}
