//! Where outputs are kept: in the journal if they are small, beside it if they are not.

use std::sync::Arc;

use folio_engine::{Event, NodeResult, Output, Run};
use folio_memory::entry::MAX_INLINE_BYTES;
use folio_memory::json_fits;
use folio_store::Blob;
use serde_json::Value;

use crate::bodies::Bodies;
use crate::error::RunnerError;
use crate::runner::Runner;

impl Runner {
    /// The output of a result: of the run, as [`Runner::drive`] returns it, or of one of its nodes. A large output is
    /// read from beside the journal, where [`Output::value`] has none.
    ///
    /// # Errors
    ///
    /// `Store`; with kind `NotFound` if the output was erased.
    pub async fn output(&self, result: &NodeResult) -> Result<Arc<Value>, RunnerError> {
        match &result.output {
            Output::Inline(inline) => Ok(inline.value()),
            Output::Blob { hash, .. } => Ok(Arc::new(self.bodies().read(hash).await?)),
        }
    }
}

/// Moves an output of `event` out of it if its JSON text is too long for the journal: it goes into `blobs`, and `run`
/// gets its value, so that later steps need not read it back.
pub(crate) fn move_large_output(run: &mut Run, event: &mut Event, blobs: &mut Vec<Blob>, bodies: &mut Bodies) {
    let output = match event {
        Event::Finished { result, .. } => &mut result.output,
        Event::Proposed { proposal, .. } => &mut proposal.output,
        _ => return,
    };
    let Some(value) = output.value() else { return };
    if json_fits(&value, MAX_INLINE_BYTES as u64) {
        return;
    }
    let (blob, value) = bodies.body_of(value);
    run.supply(&blob.hash().0, value);
    bodies.mark_unwritten(&blob.hash().0);
    *output = Output::Blob {
        hash: blob.hash().0.clone(),
        bytes: blob.bytes().len() as u64,
    };
    blobs.push(blob);
}
