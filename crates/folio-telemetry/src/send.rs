//! The sender of spans.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Last, timeout_message};
use crate::queue::{Counts, QUEUE};

/// The most spans in one batch.
const BATCH: usize = 512;
/// How long to wait for more spans before a batch is sent.
const DELAY: Duration = Duration::from_millis(500);
/// A collector that takes this long to fail counts as away: nobody waits for it until it accepts spans again, since
/// spans of runs would fill the memory meanwhile.
const AWAY_AFTER: Duration = Duration::from_secs(1);

/// Sends spans, batch by batch.
pub(crate) struct Sender {
    pub(crate) exporter: SpanExporter,
    /// How long one batch may take.
    pub(crate) within: Duration,
    pub(crate) last: Last,
    pub(crate) counts: Arc<Counts>,
}

impl Sender {
    /// Sends spans until the queue is closed.
    pub(crate) async fn send(self, mut queue: mpsc::Receiver<SpanData>) {
        loop {
            let mut batch = Vec::new();
            if queue.recv_many(&mut batch, BATCH).await == 0 {
                return;
            }
            let until = Instant::now() + DELAY;
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                match tokio::time::timeout_at(until, queue.recv_many(&mut batch, room)).await {
                    Ok(received) if received > 0 => {}
                    _ => break,
                }
            }
            self.send_batch(batch, &mut queue).await;
        }
    }

    async fn send_batch(&self, batch: Vec<SpanData>, queue: &mut mpsc::Receiver<SpanData>) {
        let count = batch.len() as u64;
        let started = Instant::now();
        // The exporter retries for as long itself, but does not limit a request that is under way then.
        let why = match tokio::time::timeout(self.within, self.exporter.export(batch)).await {
            Ok(Ok(())) => {
                self.counts.set_away(false);
                let refused = self.last.take_refused();
                let lost = refused.as_ref().map_or(0, |refused| refused.spans.min(count));
                self.counts.count_sent(count - lost);
                if let Some(refused) = refused.filter(|_| lost > 0) {
                    self.counts.count_lost(lost, &refused.reason);
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => timeout_message(self.within),
        };
        let why = self.last.failure().unwrap_or(why);
        let mut lost = count;
        if started.elapsed() >= AWAY_AFTER.min(self.within) {
            self.counts.set_away(true);
            // Readers that wait for room get it as the queue empties, and do not wait again.
            let all = std::iter::from_fn(|| queue.try_recv().ok());
            lost += all.take(2 * QUEUE).count() as u64;
        }
        self.counts.count_lost(lost, &why);
    }
}
