//! Which turn somebody works in who names none (M7.11.1).

use std::time::Duration;

use super::Turn;
use crate::time::Timestamp;

/// How long after its begin a turn is joined. An older one was left open by a program that is gone.
pub const JOINED_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the turn among `turns`, those of a thread, that is joined by those who work in the thread and name no turn:
/// the only one that [can be](can_be_joined). `None` if there are several, because nothing says which of them is meant.
#[must_use]
pub fn joined_turn(turns: &[Turn], now: Timestamp) -> Option<&Turn> {
    let mut open = turns.iter().filter(|turn| can_be_joined(turn, now));
    let only = open.next()?;
    open.next().is_none().then_some(only)
}

/// Whether `turn` is open, was begun within [`JOINED_WITHIN`], and is neither of a run nor in the background: those who
/// work in such turns name them.
#[must_use]
pub fn can_be_joined(turn: &Turn, now: Timestamp) -> bool {
    let is_somebody_elses = turn.begun.run.is_some() || turn.begun.background;
    turn.ended.is_none() && !is_somebody_elses && now.since(turn.started_at) < JOINED_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, Seq, TurnHandle, TurnId};
    use crate::space::ThreadKey;
    use crate::turn::{NewTurn, TurnEnd};

    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn turn(number: u64, started_ms: i64) -> Turn {
        let new = NewTurn {
            id: TurnId::derived(&[&number.to_string()]),
            thread: ThreadKey::main(),
            input: String::new(),
            run: None,
            background: false,
            as_of: Seq(0),
            decisions: Vec::new(),
        };
        Turn::begun(new, TurnHandle(number), Seq(number), Timestamp::from_millis(started_ms))
    }

    fn joined(turns: &[Turn], now_ms: i64) -> Option<u64> {
        joined_turn(turns, Timestamp::from_millis(now_ms)).map(|turn| turn.handle.0)
    }

    #[test]
    fn the_only_open_turn_of_a_thread_is_joined_m7_11_1() {
        let mut ended = turn(1, 0);
        let end = TurnEnd {
            complete: true,
            decisions: Vec::new(),
            export: String::new(),
            touched: 0,
            as_of: Seq(1),
        };
        ended.end(end, Seq(2), Timestamp::from_millis(1));
        let mut of_run = turn(3, 0);
        of_run.begun.run = Some(RunId::derived(&["run"]));
        let mut background = turn(4, 0);
        background.begun.background = true;
        let others = [background, of_run, ended];
        assert_eq!(joined(&others, 1), None);
        let with_one: Vec<Turn> = [&[turn(5, 0)], &others[..]].concat();
        assert_eq!(joined(&with_one, 1), Some(5));
        assert_eq!(
            joined(&[turn(6, 0), turn(5, 0)], 1),
            None,
            "which one is meant is unknown"
        );
    }

    #[test]
    fn a_turn_left_open_for_a_day_is_not_joined_m7_11_1() {
        assert_eq!(joined(&[turn(1, 0)], DAY - 1), Some(1));
        assert_eq!(joined(&[turn(1, 0)], DAY), None);
        // It makes no other turn ambiguous either.
        assert_eq!(joined(&[turn(2, DAY), turn(1, 0)], DAY), Some(2));
    }
}
