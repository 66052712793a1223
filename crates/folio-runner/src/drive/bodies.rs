//! Outputs that are kept beside the journal.

use std::sync::Arc;

use folio_store::{BlobHash, StoreError};
use serde_json::Value;

use super::Drive;
use crate::error::RunnerError;

impl Drive {
    /// Reads an output that is kept beside the journal, for the run.
    pub(super) async fn load(&mut self, hash: &str) -> Result<(), RunnerError> {
        let value = self.body(hash).await?;
        self.run.supply(hash, Arc::new(value));
        Ok(())
    }

    /// An output that is kept beside the journal.
    pub(super) async fn body(&mut self, hash: &str) -> Result<Value, RunnerError> {
        let workspace = &self.shared.workspace;
        let body = BlobHash(hash.to_owned());
        let bytes = workspace.store().blob(workspace.space(), &body).await?;
        self.value_of(hash, &bytes)
    }

    pub(super) fn value_of(&self, hash: &str, bytes: &[u8]) -> Result<Value, RunnerError> {
        let damaged = |error| StoreError::Corrupt {
            location: self.shared.workspace.store().location(),
            reason: format!("the body {hash} is not JSON"),
            source: Some(Box::new(error)),
        };
        Ok(serde_json::from_slice(bytes).map_err(damaged)?)
    }
}
