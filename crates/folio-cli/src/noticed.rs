//! What was noticed on the way, written before the program ends.

use std::cell::Cell;
use std::time::Duration;

use folio::Workspace;

use crate::error::{Exit, Failure};
use crate::output::Output;

/// How long that may take: the answer was given by then, and whoever waits for the end of the program waits for nothing else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The same of a hook, for whose end an agent program waits.
pub(crate) const PATIENCE_OF_HOOKS: Duration = Duration::from_secs(1);

/// Writes what nobody has written yet: what the trace does not have, and that the time of entries is past (M7.1.8). That the first cannot be
/// written is said, and changes nothing else; nor is it said where `done` tells already that the store cannot be written to. Whether it was
/// written, or refused, within `patience`.
pub(crate) async fn write(
    opened: Vec<Workspace>,
    output: &Output,
    patience: Duration,
    done: &Result<Exit, Failure>,
) -> bool {
    let is_noted = Cell::new(false);
    let written = async {
        for workspace in &opened {
            if let Err(error) = workspace.flush_trace().await {
                let detail = format_args!("this read is missing from the trace: {error}");
                output.detail(detail);
            }
        }
        is_noted.set(true);
        // Of much that has ended the rest is left to the next who looks.
        for workspace in &opened {
            if let Err(error) = workspace.note_ended().await {
                let detail = format_args!("what has ended is not noted: {error}");
                output.detail(detail);
            }
        }
    };
    let is_in_time = tokio::time::timeout(patience, written).await.is_ok();
    if !is_in_time && is_noted.get() {
        std::mem::forget(opened);
    } else if !is_in_time {
        if let Some(words) = held_up(patience, done) {
            output.note(words);
        }
        // Whoever lets go of a store last waits for what it is about to write. The program ends without that.
        std::mem::forget(opened);
    }
    is_in_time
}

/// What is said where the store could not be written to within `patience`, behind what came of the command itself.
fn held_up(patience: Duration, done: &Result<Exit, Failure>) -> Option<String> {
    let is_told = done.as_ref().is_err_and(|failure| failure.exit() == Exit::Unavailable);
    let seconds = patience.as_secs();
    (!is_told).then(|| {
        format!(
            "this read is missing from the trace: the store could not be written within {seconds} s because another process has it locked"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser as _;
    use folio::memory::{EntryQuery, SpaceName};
    use folio::{Folio, Workspace};
    use folio_testkit::FaultyStore;

    use super::*;
    use crate::arguments::Arguments;

    #[tokio::test]
    async fn who_waits_for_the_end_does_not_wait_for_somebody_who_has_the_store_locked() {
        let inner = Folio::open("memory:").await.unwrap();
        let store = Arc::new(FaultyStore::new(inner.store().clone()));
        let workspace: Workspace = Folio::on(store.clone()).workspace(SpaceName::main());
        let output = Output::new(&Arguments::parse_from(["folio", "--quiet", "runs"]).global);
        let look = || workspace.observations(EntryQuery::default());
        look().await.unwrap();
        assert!(write(vec![workspace.clone()], &output, PATIENCE, &Ok(Exit::Done)).await);
        store.stall_notes();
        look().await.unwrap();
        assert!(!write(vec![workspace.clone()], &output, Duration::ZERO, &Ok(Exit::Done)).await);
    }

    #[test]
    fn nothing_is_said_of_reading_where_a_write_has_failed() {
        let told = |done| held_up(PATIENCE, &done).is_some();
        assert!(told(Ok(Exit::Done)));
        assert!(told(Err(Failure::usage("usage", "x"))));
        assert!(!told(Err(Failure::new(
            Exit::Unavailable,
            "store_unavailable",
            "locked"
        ))));
    }
}
