//! The time in which a run does nothing but wait for people, or in which no process drives it (E9.10, E9.14).
//!
//! The built-in time limit of a run is there to end work that does not come to its end by itself. While everything in
//! the run waits for a person, or is paused, or while nobody drives it, nothing works, so that time does not count
//! against it. A time limit that somebody set is a promise to them and holds as it is.
//!
//! Whether the run waits for people follows from its state. That nobody drove it only its next driver knows, which says
//! so in [`Event::Resumed`](crate::Event::Resumed).

use std::time::Duration;

use folio_memory::Timestamp;

use super::state::Run;

/// The time limit of a run, and since when it does not count.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunTime {
    /// When the run must have ended, without the time since `idle_since`.
    pub(super) deadline: Option<Timestamp>,
    /// Whether nobody set this limit.
    is_default: bool,
    /// Since when the run does nothing but wait for people.
    idle_since: Option<Timestamp>,
    /// How long it did nothing else before that, or nobody drove it.
    pub(super) idle: Duration,
    /// How much of that time nobody drove it, as its drivers said.
    left_out: Duration,
    /// When the last event was recorded.
    last_event_at: Option<Timestamp>,
    /// How long before that nobody may have driven the run: only people and other programs wrote to its journal.
    undriven: Duration,
}

impl RunTime {
    /// The limit of a run that begins; `is_default` if nobody set it.
    pub(super) fn of(deadline: Option<Timestamp>, is_default: bool) -> Self {
        Self {
            deadline,
            is_default,
            ..Self::default()
        }
    }

    /// Sets the limit, as somebody wants it.
    pub(super) fn set(&mut self, deadline: Timestamp) {
        self.deadline = Some(deadline);
        self.is_default = false;
    }

    /// When the run must have ended, as known at `now`.
    pub(super) fn deadline_at(&self, now: Timestamp) -> Option<Timestamp> {
        let uncounted = if self.is_default {
            self.idle_lately(now)
        } else {
            Duration::ZERO
        };
        Some(self.deadline?.plus(uncounted))
    }

    /// How long the run has done nothing but wait for people until `now`, whether or not that counts against its limit.
    pub(super) fn idle_until(&self, now: Timestamp) -> Duration {
        self.idle + self.idle_lately(now)
    }

    fn idle_lately(&self, now: Timestamp) -> Duration {
        self.idle_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// When its time is over if nothing happens before; `None` also if that is never, because it waits for people.
    pub(super) fn ends_by_itself(&self) -> Option<Timestamp> {
        let is_stopped =
            |deadline: &Timestamp| self.is_default && self.idle_since.is_some_and(|since| since < *deadline);
        self.deadline.filter(|deadline| !is_stopped(deadline))
    }

    /// Does not count `time`, in which nobody drove the run.
    pub(super) fn leave_out(&mut self, time: Duration) {
        if self.is_default {
            self.deadline = self.deadline.map(|deadline| deadline.plus(time));
        }
        self.idle += time;
        self.left_out += time;
    }

    /// Notes that an event was recorded at `at`, and how long before that nobody may have driven the run.
    pub(super) fn note_event(&mut self, at: Timestamp, undriven: Duration) {
        self.last_event_at = Some(at);
        self.undriven = undriven;
    }

    /// Adds the time in which the run was idle until `now`.
    fn count_idle_time(&mut self, now: Timestamp) {
        self.deadline = self.deadline_at(now);
        self.idle = self.idle_until(now);
        self.idle_since = self.idle_since.map(|_| now);
    }
}

impl Run {
    /// Adds the time in which the run only waited, before the event at `at` is folded in.
    pub(super) fn end_idle_time(&mut self, at: Timestamp) {
        self.time.count_idle_time(at);
    }

    /// Notes whether the run only waits from `at` on, after an event.
    pub(super) fn begin_idle_time(&mut self, at: Timestamp) {
        self.time.idle_since = self.is_idle().then_some(at);
    }

    /// How long nobody has driven the run at `now`, for a process that takes it over, as far as that time counts against
    /// a limit that nobody set: since the last event of a driver, or, if the run only waited for a time after it, since
    /// that time. The time in which the run waited for people is counted by itself.
    #[must_use]
    pub fn undriven_until(&self, now: Timestamp) -> Duration {
        if !self.time.is_default || self.result().is_some() {
            return Duration::ZERO;
        }
        self.time.undriven + self.silent_until(now)
    }

    /// How long something has been due at `now` since the last event.
    fn silent_until(&self, now: Timestamp) -> Duration {
        let Some(last) = self.time.last_event_at.filter(|_| self.time.idle_since.is_none()) else {
            return Duration::ZERO;
        };
        if !self.only_waits() {
            return now.since(last);
        }
        self.wakes_at()
            .map_or(Duration::ZERO, |due_at| now.since(due_at.max(last)))
    }

    /// Whether the time that passes now counts against a limit that nobody set.
    #[must_use]
    pub fn counts_time(&self) -> bool {
        self.time.is_default && self.time.idle_since.is_none() && self.result().is_none()
    }

    /// How long in all nobody drove the run, as its drivers said.
    #[must_use]
    pub fn left_out(&self) -> Duration {
        self.time.left_out
    }

    /// Whether everything in the run waits for people or is paused: nothing is under way, nothing may begin, and nothing
    /// is due by itself.
    fn is_idle(&self) -> bool {
        let is_paused = |(_, index): &(Timestamp, usize)| self.is_paused(*index);
        self.only_waits() && (self.nodes[0].paused || self.parked.iter().all(is_paused))
    }

    /// Whether everything in the run waits, for people or for a time, or is paused: nothing is under way, and nothing
    /// may begin.
    pub(super) fn only_waits(&self) -> bool {
        let is_busy = !self.executing.is_empty()
            || !self.stopping.is_empty()
            || !self.settled.is_empty()
            || !self.skipped.is_empty()
            || self.nodes.first().is_none_or(|root| root.cancel.is_some())
            || self.result().is_some();
        let is_held = || self.nodes[0].paused || self.ready.all().all(|index| self.is_paused(index));
        // What need not be done again is due, too, whatever is paused.
        !is_busy && is_held() && self.inheriting().next().is_none()
    }
}
