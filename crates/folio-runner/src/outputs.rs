//! Where outputs are kept: in the journal if they are small, beside it if they are not.

use folio_engine::{Event, Output, Run};
use folio_memory::entry::MAX_INLINE_BYTES;
use folio_memory::json_fits;
use folio_store::Blob;

use crate::bodies::Bodies;

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
