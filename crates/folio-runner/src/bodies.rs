//! Outputs that are kept beside the journal: read when the run that somebody looks at lacks them, and let go of again (decision 0087).

use std::collections::HashSet;
use std::sync::Arc;

use folio_engine::Run;
use folio_store::{Blob, BlobHash, StoreError, Workspace};
use serde_json::Value;

use crate::error::RunnerError;

/// Bytes that what was read or made of large outputs takes in memory, besides what a run needs at the moment: more is let go of.
pub(crate) const AT_HAND_BYTES: usize = 32 * 1024 * 1024;

/// The large outputs of one run.
#[derive(Debug)]
pub(crate) struct Bodies {
    workspace: Workspace,
    most: usize,
    /// Those that cannot be read yet, because they are still on their way to the disk.
    unwritten: HashSet<String>,
}

impl Bodies {
    /// Those of a run in `workspace`, of which not much more than `most` bytes are in memory.
    pub(crate) fn of(workspace: &Workspace, most: Option<usize>) -> Self {
        Self {
            workspace: workspace.clone(),
            most: most.unwrap_or(AT_HAND_BYTES),
            unwritten: HashSet::new(),
        }
    }

    /// What `look` sees in `run`, once nothing that it reads is lacking. What is not there any more it does without.
    pub(crate) async fn at_hand<T>(&self, run: &Run, look: impl Fn(&Run) -> T) -> Result<T, RunnerError> {
        let mut gone = HashSet::new();
        // Of what was asked before, nobody waits for an answer.
        drop(run.lacking());
        loop {
            let seen = look(run);
            let mut lacking = run.lacking();
            lacking.retain(|hash| !gone.contains(hash));
            if lacking.is_empty() {
                return Ok(seen);
            }
            drop(seen);
            for hash in lacking {
                match self.found(&hash).await? {
                    Some(value) => run.supply(&hash, Arc::new(value)),
                    None => drop(gone.insert(hash)),
                }
            }
        }
    }

    /// The output that is kept under `hash`; `None` if it is not there any more, or is none.
    async fn found(&self, hash: &str) -> Result<Option<Value>, RunnerError> {
        let hash = BlobHash(hash.to_owned());
        match self.workspace.store().blob(self.workspace.space(), &hash).await {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            // What was forgotten is not there any more.
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The output that is kept under `hash`.
    ///
    /// # Errors
    ///
    /// If it is not there, or is none.
    pub(crate) async fn read(&self, hash: &str) -> Result<Value, RunnerError> {
        let body = BlobHash(hash.to_owned());
        let bytes = self.workspace.store().blob(self.workspace.space(), &body).await?;
        let damaged = |error| StoreError::Corrupt {
            location: self.workspace.store().location(),
            reason: format!("the body {hash} is not JSON"),
            source: Some(Box::new(error)),
        };
        Ok(serde_json::from_slice(&bytes).map_err(damaged)?)
    }

    /// The body that `value` is kept as, and the value as it is then: without what the space does not want stored, so that it is found under
    /// the hash that the run knows.
    pub(crate) fn body_of(&self, value: Arc<Value>) -> (Blob, Arc<Value>) {
        let text = value.to_string();
        if let Some(clean) = self.workspace.clean_body(text.as_bytes())
            && let Ok(value) = serde_json::from_slice(&clean)
        {
            return (Blob::new(clean), Arc::new(value));
        }
        (Blob::new(text.into_bytes()), value)
    }

    /// Notes that the output that is kept under `hash` cannot be read yet.
    pub(crate) fn is_on_its_way(&mut self, hash: &str) {
        self.unwritten.insert(hash.to_owned());
    }

    /// Notes that these can be read now.
    pub(crate) fn are_written(&mut self, hashes: &[BlobHash]) {
        for BlobHash(hash) in hashes {
            self.unwritten.remove(hash);
        }
    }

    /// Notes that what was on its way never was.
    pub(crate) fn start_anew(&mut self) {
        self.unwritten.clear();
    }

    /// Has `run` let go of what is too much and can be read again.
    pub(crate) fn let_go(&self, run: &Run) {
        run.let_go_of_outputs(self.most, |hash| self.unwritten.contains(hash));
    }
}
