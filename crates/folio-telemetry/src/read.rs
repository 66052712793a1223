//! The one who reads a journal beside the driver of its run.

use std::collections::VecDeque;

use folio::runner::{Beside, Happened};
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::watch;

use crate::queue::{Kept, Queue};
use crate::spans::Spans;

/// Reads the journal of a run as far as it is driven here, and hands on the spans that end meanwhile. What ended before was told by who drove
/// it then, and what ends afterwards will be by who does.
pub(crate) async fn read(mut beside: Beside, queue: Queue, mut ending: watch::Receiver<bool>) {
    let mut made = Spans::of(beside.run());
    let mut is_last = false;
    loop {
        let is_given_up = beside.is_given_up();
        let mut ended = VecDeque::new();
        match beside.read(|happened| take(&mut made, &happened, &mut ended)).await {
            Ok(true) if is_given_up => return hand_over(beside, made, ended, &queue).await,
            Ok(true) => {
                while !ended.is_empty() {
                    let room = tokio::select! {
                        biased;
                        room = queue.room() => room,
                        () = beside.given_up() => return hand_over(beside, made, ended, &queue).await,
                    };
                    if let Some(span) = ended.pop_front() {
                        queue.put(span, room);
                    }
                }
            }
            Ok(false) if is_given_up || is_last => return,
            Ok(false) => {
                tokio::select! {
                    () = beside.more() => {}
                    // Once more, for what has come since.
                    () = told_to_end(&mut ending) => is_last = true,
                }
            }
            // A journal that cannot be read is told of by who drives the run.
            Err(_) => return,
        }
    }
}

fn take(made: &mut Spans, happened: &Happened<'_>, ended: &mut VecDeque<SpanData>) {
    let spans = made.take(happened.run, happened.at, happened.event, happened.model);
    if happened.is_of_this_drive {
        ended.extend(spans);
    }
}

/// Reads the rest of a run that nobody drives here any more, and lets go of it: only its spans wait.
async fn hand_over(mut beside: Beside, mut made: Spans, mut ended: VecDeque<SpanData>, queue: &Queue) {
    let mut kept = Kept::default();
    loop {
        ended.drain(..).for_each(|span| queue.keep(span, &mut kept));
        if !matches!(
            beside.read(|happened| take(&mut made, &happened, &mut ended)).await,
            Ok(true)
        ) {
            break;
        }
    }
    drop((beside, made));
    queue.put_kept(kept).await;
}

/// Returns when it is to end, or whoever could say so is gone.
async fn told_to_end(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await.is_ok();
}
