//! What a run was to write to memory and did not, for the end of what `folio run` prints.

use folio::Workspace;
use folio::memory::trace::REJECTED;
use folio::memory::{NoteQuery, RunId};

use crate::error::Failure;

/// How many of a run's latest notes are looked at: as many as `folio trace` shows at most.
const NOTES: usize = 100_000;

/// Why the first item that `run` was to write to memory was left out, in the words of the trace; `None` if none was, as
/// far as the trace still knows.
///
/// # Errors
///
/// As for reading the trace.
pub(crate) async fn first_reason(workspace: &Workspace, run: RunId) -> Result<Option<String>, Failure> {
    let query = NoteQuery {
        run: Some(run),
        component: Some("scratch_page".to_owned()),
        limit: NOTES,
        ..NoteQuery::default()
    };
    let notes = workspace.store().notes(workspace.space(), &query).await?;
    let rejected = notes.iter().find(|note| note.status == REJECTED);
    let message = rejected.and_then(|note| note.detail.as_ref()?.get("message")?.as_str());
    Ok(message.map(str::to_owned))
}
