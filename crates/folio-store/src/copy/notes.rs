//! Copies notes of the trace. They have no numbers that anybody else knows.

use std::collections::HashMap;

use folio_memory::{NoteQuery, NotesKept, SpaceName, Timestamp, TraceNote};

use crate::error::StoreError;
use crate::store::Store;

/// How many notes are written at a time.
const CHUNK: usize = 1_000;

/// Copies the notes of `space` that the copy does not have yet; returns how many.
///
/// Notes of the copy that the source has forgotten are deleted: whoever had words erased from the source had them
/// erased from its notes, too. Which those are is known only from when something was forgotten there last; notes that
/// the copy made itself after that stay.
pub(super) async fn copy(source: &dyn Store, target: &dyn Store, space: &SpaceName) -> Result<u64, StoreError> {
    let all = NoteQuery {
        limit: usize::MAX >> 1,
        ..NoteQuery::default()
    };
    let (source_notes, target_notes) = (source.notes(space, &all).await?, target.notes(space, &all).await?);
    let (mut counts, mut texts) = (HashMap::new(), Vec::with_capacity(source_notes.len()));
    for note in &source_notes {
        let text = text_of(note)?;
        *counts.entry(text.clone()).or_insert(0_u64) += 1;
        texts.push(text);
    }
    let of_forgetting = |note: &&TraceNote| note.filed_under() == Some(TraceNote::forget_notes_id());
    let forgotten = source_notes.iter().filter(of_forgetting).map(|note| note.at).max();
    let may_be_forgotten = |note: &TraceNote| forgotten.is_some_and(|last| !TraceNote::may_keep_words(note.at, last));
    let (mut kept, mut to_forget) = (HashMap::<String, u64>::new(), Vec::new());
    for note in &target_notes {
        let text = text_of(note)?;
        if counts.contains_key(&text) {
            *kept.entry(text).or_default() += 1;
        } else if may_be_forgotten(note) && source_notes.first().is_none_or(|first| note.at >= first.at) {
            // Older notes were deleted because of their age, and will be here, too.
            to_forget.push(text);
        }
    }
    if !to_forget.is_empty() {
        target.scrub(space, to_forget).await?;
    }
    let mut missing = Vec::new();
    for (note, text) in source_notes.into_iter().zip(texts) {
        match kept.get_mut(&text).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => missing.push(note),
        }
    }
    let copied = missing.len() as u64;
    // Notes that the source has deleted are not copied; all that it has kept are kept.
    let everything = NotesKept {
        from: Timestamp::MIN,
        notes_max: u64::MAX,
    };
    for chunk in missing.chunks(CHUNK) {
        target.append_trace(space, chunk, everything).await?;
    }
    Ok(copied)
}

fn text_of(note: &TraceNote) -> Result<String, StoreError> {
    serde_json::to_string(note)
        .map_err(|error| StoreError::Invalid(format!("a note cannot be written as JSON: {error}")))
}
