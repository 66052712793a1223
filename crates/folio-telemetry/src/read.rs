//! The reader of a journal, beside the driver of its run.

use std::collections::VecDeque;
use std::time::Duration;

use folio::memory::causes::with_causes;
use folio::runner::{DriveFollower, ObservedEvent, RunnerError};
use folio::store::ErrorKind;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::watch;

use crate::queue::{Kept, Queue};
use crate::spans::Spans;

/// How many times reading is retried while the store is unavailable, and the first and the longest pause; the pause
/// doubles each time.
const READ_RETRIES_MAX: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Reads the journal of a run as far as it is driven here, and passes on the spans that end meanwhile. Spans that ended
/// before were reported by whoever drove the run then, and later ones will be by whoever does.
pub(crate) async fn read(mut follower: DriveFollower, queue: Queue, mut ending: watch::Receiver<bool>) {
    let mut run_spans = Spans::of(follower.run());
    let mut is_last = false;
    loop {
        let is_given_up = follower.is_given_up();
        let mut ended = VecDeque::new();
        match read_available(&mut follower, &mut run_spans, &mut ended, &queue).await {
            Ok(true) if is_given_up => return hand_over(follower, run_spans, ended, &queue).await,
            Ok(true) => {
                while !ended.is_empty() {
                    let room = tokio::select! {
                        biased;
                        room = queue.reserve_room() => room,
                        () = follower.wait_until_given_up() => return hand_over(follower, run_spans, ended, &queue).await,
                    };
                    if let Some(span) = ended.pop_front() {
                        queue.put(span, room);
                    }
                }
            }
            Ok(false) if is_given_up || is_last => return,
            Ok(false) => {
                tokio::select! {
                    () = follower.wait_for_more() => {}
                    // Reads once more, for what has arrived since.
                    () = wait_for_ending(&mut ending) => is_last = true,
                }
            }
            Err(error) => return queue.count_unread_journal(&with_causes(&error)),
        }
    }
}

/// Reads what there is, adds the spans that end in it to `ended`, and returns whether there was anything. The driver
/// does not need to read what it wrote, so it does not notice that the store is unavailable.
async fn read_available(
    follower: &mut DriveFollower,
    run_spans: &mut Spans,
    ended: &mut VecDeque<SpanData>,
    queue: &Queue,
) -> Result<bool, RunnerError> {
    let (before, mut pause, mut tries) = (ended.len(), RETRY_PAUSE, 0);
    loop {
        let outcome = follower
            .read(|observed| collect_spans(run_spans, &observed, ended))
            .await;
        let is_away = outcome
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        if !is_away || tries == READ_RETRIES_MAX {
            queue.count_ended(ended.len() - before);
            if tries > 0 {
                queue.end_unread_journal();
            }
            return outcome;
        }
        if tries == 0 {
            queue.begin_unread_journal();
        }
        tries += 1;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_PAUSE_MAX);
    }
}

fn collect_spans(run_spans: &mut Spans, observed: &ObservedEvent<'_>, ended: &mut VecDeque<SpanData>) {
    let spans = run_spans.take(observed.run, observed.at, observed.event, observed.model);
    if observed.is_of_this_drive {
        ended.extend(spans);
    }
}

/// Reads the rest of a run that is no longer driven here, and lets go of the run: only its spans wait.
async fn hand_over(mut follower: DriveFollower, mut run_spans: Spans, mut ended: VecDeque<SpanData>, queue: &Queue) {
    let mut kept = Kept::default();
    loop {
        ended.drain(..).for_each(|span| queue.keep(span, &mut kept));
        match read_available(&mut follower, &mut run_spans, &mut ended, queue).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                queue.count_unread_journal(&with_causes(&error));
                break;
            }
        }
    }
    drop((follower, run_spans));
    queue.put_kept(kept).await;
}

/// Returns when the readers are to end, or whoever could say so is gone.
async fn wait_for_ending(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await.is_ok();
}
