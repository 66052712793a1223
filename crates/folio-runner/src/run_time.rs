//! The clock of a run.

use std::collections::HashMap;
use std::time::Duration;

use folio_memory::{RunId, Timestamp};
use folio_store::workspace::Workspace;
use parking_lot::Mutex;

/// By how much the clock has to move further than this machine was awake to count as sleep. Less is what clocks are
/// corrected by.
pub(crate) const SLEEP_MIN: Duration = Duration::from_secs(60);
/// By how much two clocks may seem to differ because they are not read at the same moment.
const TOLERANCE: Duration = Duration::from_secs(1);
/// Of how many runs a lag is remembered.
const KEPT_LAGS_MAX: usize = 10_000;

/// The time of a space (M7.1.9), which advances even while the system clock is behind it.
///
/// In that case the time of the space stands still until the clock has caught up; whatever waits for a point in time
/// would wait as long.
#[derive(Debug, Default)]
pub(crate) struct RunTime(Mutex<State>);

/// By how much the clock was behind for runs that were given up while they wait for a point in time. Without it, such a
/// run would begin to wait anew whenever it is driven again. Each run has its own: one that was just submitted goes
/// by the time of its space, which may have stood still for as long as others wait.
#[derive(Debug, Default)]
pub(crate) struct KeptLags(Mutex<HashMap<RunId, Duration>>);

impl KeptLags {
    /// Remembers how far behind the clock is for `run`.
    pub(crate) fn keep(&self, run: RunId, time: &RunTime) {
        let lag = time.0.lock().lag;
        if lag.is_zero() {
            return;
        }
        let mut kept = self.0.lock();
        // Others may drive these runs by now. Who forgets them makes them wait longer, and nothing else.
        if kept.len() >= KEPT_LAGS_MAX {
            kept.clear();
        }
        kept.insert(run, lag);
    }

    /// The time of `run`, which goes on where it was when the run was given up.
    pub(crate) fn time_of(&self, run: RunId) -> RunTime {
        let lag = self.0.lock().remove(&run).unwrap_or_default();
        RunTime(Mutex::new(State {
            lag,
            ..State::default()
        }))
    }
}

#[derive(Debug, Default)]
struct State {
    /// How much the clock is behind: the maximum seen since it last was not.
    lag: Duration,
    /// The instant of the last look, and for how long this machine had been awake then, if that is known.
    last: Option<(Timestamp, Option<Duration>)>,
    /// How long the machine has slept since somebody last asked for it.
    slept: Duration,
}

impl RunTime {
    /// The present instant in the space of `workspace`.
    pub(crate) fn now(&self, workspace: &Workspace) -> Timestamp {
        let mut state = self.0.lock();
        let last = state.last.map_or(Timestamp::MIN, |(last, _)| last);
        let space = workspace.now().max(last);
        // Read afterwards: time passes between the two, and must not look as if the clock were behind.
        let now = state.advance_to(space, workspace.clock().now());
        state.look(now, workspace.clock().awake())
    }

    /// How long this machine has slept, or by how much its clock was set forward, since the last call. Less than
    /// [`SLEEP_MIN`] at a time does not count.
    pub(crate) fn take_slept(&self, workspace: &Workspace) -> Duration {
        self.now(workspace);
        std::mem::take(&mut self.0.lock().slept)
    }
}

impl State {
    /// The present instant if the space says `space` and the clock `clock`.
    fn advance_to(&mut self, space: Timestamp, clock: Timestamp) -> Timestamp {
        let lag = space.since(clock);
        if lag.is_zero() {
            self.lag = Duration::ZERO;
            return space;
        }
        self.lag = self.lag.max(lag);
        space.max(clock.plus(self.lag))
    }

    /// The present instant if that seems to be `now` and the machine has been `awake` for so long: the machine's clock
    /// may have been set back since the last look.
    fn look(&mut self, now: Timestamp, awake: Option<Duration>) -> Timestamp {
        let mut least = now;
        if let (Some((last, Some(awake_then))), Some(awake)) = (self.last, awake) {
            least = last.plus(awake.saturating_sub(awake_then));
            let slept = now.since(least);
            if slept >= SLEEP_MIN {
                self.slept += slept;
            }
        }
        // The two are not read at the same moment.
        let now = if least.since(now) > TOLERANCE { least } else { now };
        self.last = Some((now, awake));
        now
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use folio_memory::{Clock, SpaceName};
    use folio_store::RandomIds;
    use folio_store::sqlite::{OpenOptions, SqliteStore};
    use folio_testkit::SimClock;

    use super::*;

    /// A clock on which a little time passes whenever somebody looks at it.
    #[derive(Debug, Clone, Default)]
    struct PassingClock(SimClock);

    impl Clock for PassingClock {
        fn now(&self) -> Timestamp {
            self.0.advance(Duration::from_nanos(50));
            self.0.now()
        }
    }

    #[test]
    fn clock_that_was_put_right_leaves_no_lead_m7_1_9() {
        let (clock, time) = (PassingClock::default(), RunTime::default());
        let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let ids = Arc::new(RandomIds::default());
        let workspace = Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main());
        let start = time.now(&workspace);
        let hour = Duration::from_secs(3_600);
        let stepped_back = Timestamp::from_nanos(start.as_nanos() - i64::try_from(hour.as_nanos()).unwrap());
        clock.0.set(stepped_back);
        assert!(time.now(&workspace) >= start);
        clock.0.set(start.plus(Duration::from_secs(10)));
        let lead = time.now(&workspace).since(start.plus(Duration::from_secs(10)));
        assert!(lead < Duration::from_secs(1), "{lead:?}");
    }

    #[test]
    fn run_time_advances_even_when_the_clock_lags_m7_1_9() {
        let (mut time, start) = (State::default(), Timestamp::from_nanos(1_000_000_000_000));
        let second = |n| start.plus(Duration::from_secs(n));
        // The space is an hour ahead, and nothing is written.
        assert_eq!(time.advance_to(second(3_600), second(0)), second(3_600));
        assert_eq!(time.advance_to(second(3_600), second(5)), second(3_605));
        // What is written then is written by that time.
        assert_eq!(time.advance_to(second(3_605), second(7)), second(3_607));
        // The clock is put right.
        assert_eq!(time.advance_to(second(3_700), second(3_700)), second(3_700));
        assert_eq!(time.advance_to(second(3_701), second(3_701)), second(3_701));
        assert_eq!(time.advance_to(second(3_702), second(3_700)), second(3_702));
        assert_eq!(time.advance_to(second(3_703), second(3_703)), second(3_703));
    }

    fn workspace_with(clock: &SimClock) -> Workspace {
        let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
        let ids = Arc::new(RandomIds::default());
        Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main())
    }

    #[test]
    fn clock_that_is_set_back_between_two_looks_costs_a_run_no_time_m7_1_9() {
        let (clock, time) = (SimClock::default(), RunTime::default());
        let workspace = workspace_with(&clock);
        let start = time.now(&workspace);
        clock.advance(Duration::from_secs(3));
        clock.set(start.minus(Duration::from_secs(3_600)));
        clock.advance(Duration::from_secs(9));
        assert_eq!(time.now(&workspace), start.plus(Duration::from_secs(12)));
        clock.advance(Duration::from_secs(5));
        assert_eq!(time.now(&workspace), start.plus(Duration::from_secs(17)));
        assert_eq!(time.take_slept(&workspace), Duration::ZERO);
    }

    #[test]
    fn sleep_is_what_the_clock_moved_further_than_the_machine_was_awake() {
        let (clock, time) = (SimClock::default(), RunTime::default());
        let workspace = workspace_with(&clock);
        let start = time.now(&workspace);
        clock.advance(Duration::from_secs(600));
        assert_eq!(time.take_slept(&workspace), Duration::ZERO);
        // A correction of the clock.
        clock.set(clock.now().plus(Duration::from_secs(2)));
        assert_eq!(time.take_slept(&workspace), Duration::ZERO);
        clock.set(clock.now().plus(Duration::from_secs(7_200)));
        clock.advance(Duration::from_secs(5));
        assert_eq!(
            time.now(&workspace),
            start.plus(Duration::from_secs(600 + 2 + 7_200 + 5))
        );
        assert_eq!(time.take_slept(&workspace), Duration::from_secs(7_200));
        assert_eq!(time.take_slept(&workspace), Duration::ZERO);
    }
}
