//! Notes of the trace, about what is not in the log: gathered in memory and written in the background, so that nobody
//! waits for them (M7.10).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use folio_memory::keeping::Redaction;
use folio_memory::trace::WARNING;
use folio_memory::{Actor, Clock, NotesKept, Role, Seq, SpaceName, Timestamp, TraceNote};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{Workspace, redact};
use crate::error::StoreError;
use crate::store::Store;
use crate::text_search::NOTE_TEXT_BYTES;

/// How long a reader waits for notes that are not written yet.
const READERS_PATIENCE: Duration = Duration::from_secs(1);
/// How many notes may wait; beyond that the oldest are dropped.
const WAITING_MAX: usize = 8_192;
/// Notes are written at once as soon as this many wait.
const FLUSH_AT: usize = 512;
/// How long the first note waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// The mark at the end of a text that was cut begins like this, and is shorter than `CUT_BYTES`.
const CUT: &str = "… (";
const CUT_BYTES: usize = 64;
/// Bytes kept in memory of a text beyond those that are written: a secret across the cut is recognised by what follows.
const SECRET_BYTES: usize = 4 * 1024;

/// The state of a workspace's notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NotesState {
    /// How many notes are not written yet.
    pub waiting: usize,
    /// How many notes were dropped because they could not be written.
    pub dropped: u64,
    /// How often writing failed.
    pub failures: u64,
}

/// The notes of one space that this process has not written yet.
#[derive(Debug)]
pub(super) struct Notebook {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    space: SpaceName,
    /// The seq of the last commit that this process knows of.
    seen: AtomicU64,
    state: Mutex<State>,
    /// Held while notes are written, so that they keep their order.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<TraceNote>,
    dropped: u64,
    /// How many of the dropped notes no note has reported yet.
    untold: u64,
    failures: u64,
    /// Whether the present failure was reported.
    is_reported: bool,
    /// Whether a task to write them is scheduled.
    is_scheduled: bool,
    /// Whether a task writes at once, or tried to and failed: then there is no hurry.
    is_hurried: bool,
}

impl Notebook {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, space: SpaceName) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            space,
            seen: AtomicU64::new(0),
            state: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        })
    }

    /// Remembers that commit `seq` exists.
    pub(super) fn saw(&self, seq: Seq) {
        self.seen.fetch_max(seq.0, Ordering::Relaxed);
    }

    /// Queues `note`. Writes nothing itself.
    pub(super) fn take(self: &Arc<Self>, mut note: TraceNote) {
        note.as_of = note.as_of.max(Seq(self.seen.load(Ordering::Relaxed)));
        shorten(&mut note, NOTE_TEXT_BYTES + SECRET_BYTES);
        let mut state = self.state();
        if state.waiting.len() >= WAITING_MAX {
            state.waiting.pop_front();
            state.dropped += 1;
            state.untold += 1;
        }
        state.waiting.push_back(note);
        let is_much = state.waiting.len() >= FLUSH_AT && !state.is_hurried;
        if is_much || !state.is_scheduled {
            // Outside a runtime no task can be scheduled; then the next read or flush writes the notes.
            let Ok(runtime) = Handle::try_current() else { return };
            state.is_scheduled = true;
            state.is_hurried |= is_much;
            drop(state);
            let wait = if is_much { Duration::ZERO } else { LINGER };
            let scheduled = Scheduled(Arc::downgrade(self));
            drop(runtime.spawn(scheduled.write_later(wait)));
        }
    }

    /// Writes the waiting notes, to the end even if the caller stops waiting: notes taken from the queue would be lost
    /// otherwise. Returns the error of the first failure; later ones are only counted.
    pub(super) async fn flush(self: &Arc<Self>) -> Result<(), StoreError> {
        let notebook = Arc::clone(self);
        let written = tokio::spawn(async move { notebook.write_waiting().await }).await;
        let Err(error) = written.unwrap_or_else(|broken| match broken.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the caller with it. What waits is written on another one.
            Err(_) => {
                let mut state = self.state();
                (state.is_scheduled, state.is_hurried) = (false, false);
                Ok(())
            }
        }) else {
            return Ok(());
        };
        if std::mem::replace(&mut self.state().is_reported, true) {
            Ok(())
        } else {
            Err(error)
        }
    }

    async fn write_waiting(&self) -> Result<(), StoreError> {
        let _turn = self.writing.lock().await;
        let (mut notes, untold) = {
            let mut state = self.state();
            state.is_scheduled = false;
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.untold))
        };
        if notes.is_empty() && untold == 0 {
            return Ok(());
        }
        let now = self.clock.now();
        if untold > 0 {
            notes.push_front(dropped_notes_note(now, untold));
        }
        let written = write(&*self.store, &self.space, now, &mut notes).await;
        let mut state = self.state();
        let Err(error) = written else {
            state.is_reported = false;
            state.is_hurried = false;
            return Ok(());
        };
        state.is_hurried = true;
        if untold > 0 {
            notes.pop_front();
        }
        state.untold += untold;
        state.failures += 1;
        for note in notes.into_iter().rev() {
            if state.waiting.len() >= WAITING_MAX {
                state.dropped += 1;
                state.untold += 1;
            } else {
                state.waiting.push_front(note);
            }
        }
        Err(error)
    }

    pub(super) fn health(&self) -> NotesState {
        let state = self.state();
        NotesState {
            waiting: state.waiting.len(),
            dropped: state.dropped,
            failures: state.failures,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The task that writes the waiting notes. If its runtime ends before, the next note schedules another one.
#[derive(Debug)]
struct Scheduled(Weak<Notebook>);

impl Scheduled {
    /// Writes the waiting notes after `wait`, unless the workspace is gone: then dropping it has written them.
    async fn write_later(self, wait: Duration) {
        tokio::time::sleep(wait).await;
        // From here on the state is that of the flush.
        let waiting = std::mem::take(&mut { self }.0);
        if let Some(notebook) = waiting.upgrade() {
            // There is nobody to tell here; the next flush may report the failure.
            let failed = notebook.flush().await.is_err();
            notebook.state().is_reported &= !failed;
        }
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        if let Some(notebook) = self.0.upgrade() {
            let mut state = notebook.state();
            (state.is_scheduled, state.is_hurried) = (false, false);
        }
    }
}

impl Drop for Notebook {
    fn drop(&mut self) {
        let notes = std::mem::take(&mut self.state().waiting);
        let Ok(runtime) = Handle::try_current() else { return };
        if notes.is_empty() {
            return;
        }
        let (store, space, now) = (Arc::clone(&self.store), self.space.clone(), self.clock.now());
        drop(runtime.spawn(async move {
            let mut notes = notes;
            // If this fails, there is nobody left to tell.
            write(&*store, &space, now, &mut notes).await.unwrap_or_default();
        }));
    }
}

/// Hands `notes` to the store, redacted by the policy of the space.
async fn write(
    store: &dyn Store,
    space: &SpaceName,
    now: Timestamp,
    notes: &mut VecDeque<TraceNote>,
) -> Result<(), StoreError> {
    let (mode, kept) = match store.policy(space).await {
        Ok(known) => (known.policy.redaction, known.policy.trace.kept(now)),
        // The policy is unknown, so everything that it might forbid is redacted, and what it might keep is kept.
        Err(_) => (Redaction::Pii, NotesKept::ALL),
    };
    for note in notes.iter_mut() {
        redact::clean_note(note, mode);
        shorten(note, NOTE_TEXT_BYTES);
    }
    store.append_trace(space, notes.make_contiguous(), kept).await
}

/// Cuts each text of `note` to `bytes` and appends its full length, since limits count notes, not bytes. A question or
/// a refusal may quote something long that was put in the wrong place.
fn shorten(note: &mut TraceNote, bytes: usize) {
    if let Some(detail) = &mut note.detail {
        shorten_value(detail, bytes);
    }
}

fn shorten_value(value: &mut Value, bytes: usize) {
    match value {
        Value::String(text) => shorten_text(text, bytes),
        Value::Array(items) => items.iter_mut().for_each(|item| shorten_value(item, bytes)),
        Value::Object(map) => {
            if map.keys().any(|key| key.len() > bytes) {
                let short = |(mut key, value)| {
                    shorten_text(&mut key, bytes);
                    (key, value)
                };
                *map = std::mem::take(map).into_iter().map(short).collect();
            }
            map.values_mut().for_each(|value| shorten_value(value, bytes));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn shorten_text(text: &mut String, bytes: usize) {
    if text.len() <= bytes + CUT_BYTES {
        return;
    }
    // A text that was cut before already says how long it was.
    let cut = text
        .rfind(CUT)
        .filter(|at| text.len() - at < CUT_BYTES && text.ends_with(" bytes)"));
    let end = cut.map_or_else(|| format!("{CUT}{} bytes)", text.len()), |at| text[at..].to_owned());
    text.truncate(text.floor_char_boundary(bytes));
    text.push_str(&end);
}

/// The note that reports how many notes were dropped.
fn dropped_notes_note(now: Timestamp, count: u64) -> TraceNote {
    TraceNote::new(now, &Actor::new(Role::Human, "folio"), "trace", "drop_notes")
        .with_status(WARNING)
        .with_detail(json!({"count": count}))
}

/// Measures durations by a monotonic clock.
#[derive(Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl Workspace {
    /// Notes something that happened and that the log does not hold. Never fails, and never makes the caller wait:
    /// notes are gathered, and written after a second, when there are many, and by [`Workspace::flush_trace`]. If they
    /// cannot be written, the oldest are dropped in the end, and a note says how many.
    pub fn note(&self, note: TraceNote) {
        self.inner.notebook.take(note);
    }

    /// A note of something that the asker just did successfully.
    #[must_use]
    pub fn noted(&self, component: &str, operation: &str) -> TraceNote {
        TraceNote::new(self.now(), &self.asker, component, operation)
    }

    /// Writes the waiting notes. A program calls this before it exits: dropping the workspace writes them only within a
    /// runtime that goes on, so what waits when the runtime ends is lost.
    ///
    /// # Errors
    ///
    /// Why they cannot be written, once: the error is not repeated until writing has worked in between. The notes stay
    /// in the queue and are tried again.
    pub async fn flush_trace(&self) -> Result<(), StoreError> {
        self.inner.notebook.flush().await
    }

    /// Writes the waiting notes, so that a reader finds them, but does not wait long for a store that cannot write now:
    /// what is there can be read. Another flush reports the failure.
    pub(super) async fn flush_trace_to_read(&self) {
        let _unwritten = tokio::time::timeout(READERS_PATIENCE, self.flush_trace()).await;
    }

    /// The state of this workspace's notes.
    #[must_use]
    pub fn notes_state(&self) -> NotesState {
        self.inner.notebook.health()
    }

    /// Returns the same space for reads by `actor`, which are noted with its name, turn and run.
    #[must_use]
    pub fn asked_by(&self, actor: &Actor) -> Self {
        Self {
            asker: Arc::new(actor.clone()),
            ..self.clone()
        }
    }

    /// Returns the same space for whoever only looks whether something has changed: the trace does not note what it
    /// lists and renders, because nobody reads that.
    #[must_use]
    pub fn watching(&self) -> Self {
        Self {
            is_watching: true,
            ..self.clone()
        }
    }
}
