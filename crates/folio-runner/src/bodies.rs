//! Outputs that are kept beside the journal: loaded when the run that somebody looks at lacks them, and dropped again
//! (decision 0087).

use std::collections::HashSet;
use std::sync::Arc;

use folio_engine::Run;
use folio_store::{Blob, BlobHash, StoreError, Workspace};
use serde_json::Value;

use crate::error::RunnerError;
use crate::outage::Patience;

/// Bytes of memory for large outputs and what was made of them, in addition to what a run needs at the moment; anything
/// beyond is dropped.
const DEFAULT_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// The large outputs of one run.
#[derive(Debug)]
pub(crate) struct Bodies {
    workspace: Workspace,
    max_bytes: usize,
    /// Outputs that cannot be read yet because they are still being written.
    unwritten: HashSet<String>,
    /// How a driver waits out an outage of the store.
    patience: Option<Patience>,
}

impl Bodies {
    /// The outputs of a run in `workspace`, of which not much more than `max_bytes` bytes are kept in memory.
    pub(crate) fn of(workspace: &Workspace, max_bytes: Option<usize>) -> Self {
        Self {
            workspace: workspace.clone(),
            max_bytes: max_bytes.unwrap_or(DEFAULT_CACHE_BYTES),
            unwritten: HashSet::new(),
            patience: None,
        }
    }

    /// The same for the driver that waits for its store with `patience`.
    pub(crate) fn with_patience(self, patience: Patience) -> Self {
        Self {
            patience: Some(patience),
            ..self
        }
    }

    /// The bytes that are kept under `hash`.
    async fn bytes_of(&self, hash: &str) -> Result<Vec<u8>, RunnerError> {
        let hash = BlobHash(hash.to_owned());
        let (store, space) = (self.workspace.store(), self.workspace.space());
        match &self.patience {
            Some(patience) => patience.outlast(|| store.blob(space, &hash)).await,
            None => Ok(store.blob(space, &hash).await?),
        }
    }

    /// Returns what `read` sees in `run` once all outputs that it reads are loaded. It does without outputs that no
    /// longer exist.
    pub(crate) async fn with_outputs_loaded<T>(&self, run: &Run, read: impl Fn(&Run) -> T) -> Result<T, RunnerError> {
        let mut missing = HashSet::new();
        // Requests that were made before have nobody waiting for them.
        drop(run.lacking());
        loop {
            let result = read(run);
            let mut hashes = run.lacking();
            hashes.retain(|hash| !missing.contains(hash));
            if hashes.is_empty() {
                return Ok(result);
            }
            drop(result);
            for hash in hashes {
                match self.find_output(&hash).await? {
                    Some(value) => run.supply(&hash, Arc::new(value)),
                    None => drop(missing.insert(hash)),
                }
            }
        }
    }

    /// The output that is kept under `hash`; `None` if it no longer exists or is not JSON.
    async fn find_output(&self, hash: &str) -> Result<Option<Value>, RunnerError> {
        match self.bytes_of(hash).await {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            // It was erased.
            Err(RunnerError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The output that is kept under `hash`.
    ///
    /// # Errors
    ///
    /// If it does not exist or is not JSON.
    pub(crate) async fn read(&self, hash: &str) -> Result<Value, RunnerError> {
        let bytes = self.bytes_of(hash).await?;
        let damaged = |error| StoreError::Corrupt {
            location: self.workspace.store().location(),
            reason: format!("the body {hash} is not JSON"),
            source: Some(Box::new(error)),
        };
        Ok(serde_json::from_slice(&bytes).map_err(damaged)?)
    }

    /// The body that stores `value`, and the value as it is then stored: without what the space does not want stored,
    /// so that it is found under the hash that the run knows.
    pub(crate) fn body_of(&self, value: Arc<Value>) -> (Blob, Arc<Value>) {
        let text = value.to_string();
        if let Some(clean) = self.workspace.clean_body(text.as_bytes())
            && let Ok(value) = serde_json::from_slice(&clean)
        {
            return (Blob::new(clean), Arc::new(value));
        }
        (Blob::new(text.into_bytes()), value)
    }

    /// Notes that the output under `hash` cannot be read yet.
    pub(crate) fn mark_unwritten(&mut self, hash: &str) {
        self.unwritten.insert(hash.to_owned());
    }

    /// Notes that these outputs can be read now.
    pub(crate) fn mark_written(&mut self, hashes: &[BlobHash]) {
        for BlobHash(hash) in hashes {
            self.unwritten.remove(hash);
        }
    }

    /// Notes that outputs that were being written never were.
    pub(crate) fn clear_unwritten(&mut self) {
        self.unwritten.clear();
    }

    /// Makes `run` drop the outputs beyond the limit that can be read again.
    pub(crate) fn evict_excess(&self, run: &Run) {
        run.evict_outputs(self.max_bytes, |hash| self.unwritten.contains(hash));
    }
}
