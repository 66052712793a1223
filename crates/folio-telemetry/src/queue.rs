//! The queue of spans that wait to be sent, and counts of what became of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

/// The most spans in the queue.
pub(crate) const QUEUE: usize = 1_024;
/// The most spans besides these, of runs that are no longer driven here, that wait for room. While a run is driven, its
/// spans are in its journal, and its reader goes on when there is room. Runs that are no longer driven have no such
/// limit to their number.
const RELEASED_SPANS_MAX: usize = 16_384;

/// Counts of what became of the spans, shared by all who handle them.
#[derive(Debug)]
pub(crate) struct Counts {
    made: AtomicU64,
    sent: AtomicU64,
    lost: AtomicU64,
    /// Why spans were lost, the last time that some were.
    reason: Mutex<Option<String>>,
    /// Why spans were lost the first time, for those who wait for it.
    first: watch::Sender<Option<String>>,
    /// Whether the collector has accepted nothing for so long that nobody waits for it.
    is_away: AtomicBool,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            made: AtomicU64::default(),
            sent: AtomicU64::default(),
            lost: AtomicU64::default(),
            reason: Mutex::default(),
            first: watch::Sender::new(None),
            is_away: AtomicBool::default(),
        }
    }
}

impl Counts {
    /// Returns the number of spans that are not known to be accepted, or that are lost.
    pub(crate) fn not_sent(&self) -> u64 {
        let created = self.made.load(Ordering::Relaxed);
        created.saturating_sub(self.sent()).max(self.lost())
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns why spans were lost, the last time that some were.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }

    /// Waits until spans are lost for the first time, and returns why.
    pub(crate) async fn first_loss(&self) -> Option<String> {
        let mut first = self.first.subscribe();
        first.wait_for(Option::is_some).await.ok()?.clone()
    }

    pub(crate) fn count_sent(&self, spans: u64) {
        self.sent.fetch_add(spans, Ordering::Relaxed);
    }

    /// Counts `spans` as lost, because of `reason`.
    pub(crate) fn count_lost(&self, spans: u64, reason: &str) {
        self.lost.fetch_add(spans, Ordering::Relaxed);
        *self.reason.lock() = Some(reason.to_owned());
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// Records that the collector accepts nothing, or accepts spans again.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }
}

/// The end of the queue into which readers put spans. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    spans: mpsc::Sender<SpanData>,
    /// The number of spans of runs that are no longer driven here, which wait for room.
    released_spans: Arc<AtomicUsize>,
    counts: Arc<Counts>,
}

impl Queue {
    /// Creates a queue and the end from which the sender takes.
    pub(crate) fn new(counts: Arc<Counts>) -> (Self, mpsc::Receiver<SpanData>) {
        let (spans, queue) = mpsc::channel(QUEUE);
        let left = Arc::default();
        (
            Self {
                spans,
                released_spans: left,
                counts,
            },
            queue,
        )
    }

    /// Waits for room as long as the collector accepts spans; otherwise returns `None` at once if there is no room.
    /// Cancel safe.
    pub(crate) async fn reserve_room(&self) -> Option<mpsc::Permit<'_, SpanData>> {
        if self.counts.is_away() {
            self.spans.try_reserve().ok()
        } else {
            self.spans.reserve().await.ok()
        }
    }

    /// Puts `span` into the reserved `room`, or counts it as lost if there is none.
    pub(crate) fn put(&self, span: SpanData, room: Option<mpsc::Permit<'_, SpanData>>) {
        match room {
            Some(room) => room.send(span),
            None => self.report_full_queue(),
        }
    }

    /// Counts `spans` that have ended, whatever becomes of them.
    pub(crate) fn count_ended(&self, spans: usize) {
        self.counts.made.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Counts a journal that cannot be read now as one span, until it [is read](Self::end_unread_journal): if the
    /// program ends before that, it has lost at least one.
    pub(crate) fn begin_unread_journal(&self) {
        self.count_ended(1);
    }

    /// Ends the counting of [`Self::begin_unread_journal`].
    pub(crate) fn end_unread_journal(&self) {
        self.counts.made.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a journal could not be read. Nobody knows how many spans were lost with it, but at least one, that
    /// of the run.
    pub(crate) fn count_unread_journal(&self, why: &str) {
        self.count_ended(1);
        self.counts
            .count_lost(1, &format!("the journal of a run could not be read: {why}"));
    }

    /// Keeps `span`, of a run that is no longer driven here, until there is room.
    pub(crate) fn keep(&self, span: SpanData, kept: &mut Kept) {
        if self.released_spans.fetch_add(1, Ordering::Relaxed) < RELEASED_SPANS_MAX {
            kept.spans.push(span);
        } else {
            self.released_spans.fetch_sub(1, Ordering::Relaxed);
            self.report_full_queue();
        }
    }

    /// Puts the kept spans into the queue as there is room.
    pub(crate) async fn put_kept(&self, kept: Kept) {
        for span in kept.spans {
            self.put(span, self.reserve_room().await);
            self.released_spans.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn report_full_queue(&self) {
        let reason = self.counts.reason();
        let reason = reason.unwrap_or_else(|| "it accepts them more slowly than they come".to_owned());
        self.counts.count_lost(1, &reason);
    }
}

/// Spans that are kept until there is room.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    spans: Vec<SpanData>,
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::{Duration, SystemTime};

    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    use super::*;

    fn span() -> SpanData {
        SpanData {
            span_context: SpanContext::NONE,
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Borrowed(""),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    async fn waits(queue: &Queue) -> bool {
        let room = tokio::time::timeout(Duration::from_millis(1), queue.reserve_room());
        room.await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn full_queue_drops_spans_only_while_the_collector_is_away() {
        let counts = Arc::<Counts>::default();
        let (queue, mut sent) = Queue::new(Arc::clone(&counts));
        for _ in 0..QUEUE {
            queue.put(span(), queue.reserve_room().await);
        }
        assert!(waits(&queue).await);
        counts.set_away(true);
        queue.put(span(), queue.reserve_room().await);
        assert_eq!(counts.lost(), 1);
        counts.set_away(false);
        assert!(waits(&queue).await);
        assert!(sent.recv().await.is_some());
        assert!(!waits(&queue).await);
    }

    #[test]
    fn spans_beyond_the_limit_for_released_runs_are_lost() {
        let counts = Arc::<Counts>::default();
        let (queue, _sent) = Queue::new(Arc::clone(&counts));
        let (mut one, mut other) = (Kept::default(), Kept::default());
        for _ in 0..RELEASED_SPANS_MAX {
            queue.keep(span(), &mut one);
        }
        queue.keep(span(), &mut other);
        assert_eq!(
            (one.spans.len(), other.spans.len(), counts.lost()),
            (RELEASED_SPANS_MAX, 0, 1)
        );
    }
}
