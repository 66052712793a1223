//! Writes what was noticed during the command before the program ends.

use std::cell::Cell;
use std::time::Duration;

use folio::Workspace;

use crate::error::{Exit, Failure};
use crate::output::Output;
use crate::report::tree::seconds;

/// How long that may take: the answer has been given by then, so this is all that the caller still waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// The same for a hook, whose end an agent program waits for.
pub(crate) const PATIENCE_OF_HOOKS: Duration = Duration::from_secs(1);

/// Writes what is still to be written: notes of the trace, and the expiry of entries (M7.1.8). That the notes cannot
/// be written is reported, and changes nothing else; it is not reported if `result` already says that the store cannot
/// be written to. Returns whether this was done, or refused, within `patience`.
pub(crate) async fn write(
    opened: Vec<Workspace>,
    output: &Output,
    patience: Duration,
    result: &Result<Exit, Failure>,
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
        // If many entries have expired, the rest is left to the next reader.
        for workspace in &opened {
            if let Err(error) = workspace.note_ended().await {
                let detail = format_args!("the expiry of entries is not recorded: {error}");
                output.detail(detail);
            }
        }
    };
    let is_in_time = tokio::time::timeout(patience, written).await.is_ok();
    if !is_in_time && is_noted.get() {
        std::mem::forget(opened);
    } else if !is_in_time {
        if let Some(message) = held_up(patience, result) {
            output.note(message);
        }
        // Dropping the last handle of a store waits for its pending writes. The program ends without that.
        std::mem::forget(opened);
    }
    is_in_time
}

/// By how much the newest commit of a space may be ahead of the clock without a word: less is what clocks differ by.
const LEAD_MIN: Duration = Duration::from_secs(60);

/// Says which of the spaces are ahead of the clock, because it was ahead when somebody wrote there: nothing ends there
/// until it has caught up.
pub(crate) async fn note_clocks_behind(workspaces: &[Workspace], output: &Output) {
    for workspace in workspaces {
        // Whoever cannot read the space hears of that elsewhere.
        if let Ok(lead) = workspace.lead().await
            && let Some(note) = clock_behind(workspace.space().as_str(), lead)
        {
            output.note(note);
        }
    }
}

fn clock_behind(space: &str, lead: Duration) -> Option<String> {
    if lead < LEAD_MIN {
        return None;
    }
    let lead = match lead.as_secs() / (24 * 60 * 60) {
        0 | 1 => seconds(lead),
        days => format!("{days} days"),
    };
    Some(format!(
        "the newest commit of the space {space} is {lead} ahead of this clock. Until the clock has caught up, nothing \
         expires there and no claim lapses. If the clock is right now, `folio export` and an import into a new space \
         begin again with the right time"
    ))
}

/// The note that follows the command's own outcome if the store could not be written to within `patience`.
fn held_up(patience: Duration, result: &Result<Exit, Failure>) -> Option<String> {
    let is_reported = result
        .as_ref()
        .is_err_and(|failure| failure.exit() == Exit::Unavailable);
    let seconds = patience.as_secs();
    (!is_reported).then(|| {
        format!(
            "this read is missing from the trace: the store could not be written within {seconds} s, because another process has it locked or it cannot be reached"
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
    async fn writing_pending_notes_gives_up_on_a_locked_store() {
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
    fn missing_trace_note_is_not_reported_after_a_store_failure() {
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
