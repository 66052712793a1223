//! Whether the server is at work on what it was asked.
//!
//! A query may rightly take minutes, so no time limit tells whether its connection hangs. The server can tell, over
//! another connection: it knows what each of its sessions does. A session that does nothing has either answered, and
//! the answer was lost, or never got the question.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, SimpleQueryMessage};

use super::error::Failure;

/// How long an answer that is a matter of a moment may take until its connection counts as dead. This leaves time for
/// another connection.
pub(super) const MOMENT: Duration = Duration::from_secs(5);
/// The same for an answer that may have to wait for locks of others, which the server limits by itself.
pub(super) const MOMENT_WITH_LOCKS: Duration = Duration::from_secs(15);

/// How long an answer may take until the server is asked whether it is at work on it.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// How long after the server said that it does nothing it is asked again: an answer may be on its way.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// In microseconds: a server that was started at another time may have given the number of a process to another one.
const STARTED: &str = "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

/// The session of the server at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backend {
    process: i32,
    /// When its server was started, in microseconds.
    started: i64,
}

impl Backend {
    /// The columns by which a session names itself.
    pub(super) fn columns() -> String {
        format!("pg_backend_pid(), {STARTED}")
    }

    /// Reads [`Backend::columns`], the first ones of the only row in the answer to a simple query.
    pub(super) fn of(answer: &[SimpleQueryMessage]) -> Option<Self> {
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })?;
        Some(Self {
            process: row.try_get(0).ok()??.parse().ok()?,
            started: row.try_get(1).ok()??.parse().ok()?,
        })
    }

    /// Asks the session at the other end of `client` for its name.
    pub(super) async fn behind(client: &Client) -> Result<Option<Self>, Failure> {
        let sql = format!("SELECT {}", Self::columns());
        let answer = in_a_moment(client.simple_query(&sql)).await?;
        Ok(Self::of(&answer))
    }

    /// Asks the server at the other end of `other` what this session does.
    pub(super) async fn activity(self, other: &Client) -> Activity {
        // Roles see what their own sessions do. What is not shown, because of another role or a setting of the server,
        // counts as work.
        let sql = format!(
            "SELECT {STARTED}, (SELECT coalesce(state NOT LIKE 'idle%', true) FROM pg_stat_activity WHERE pid = $1),
                    (SELECT (extract(epoch FROM state_change) * 1000000)::bigint FROM pg_stat_activity WHERE pid = $1)"
        );
        let values: [(&(dyn ToSql + Sync), Type); 1] = [(&self.process, Type::INT4)];
        let asked = in_a_moment(other.query_typed(&sql, &values));
        let Ok(rows) = asked.await else {
            return Activity::Unknown;
        };
        let Some(row) = rows.first() else {
            return Activity::Unknown;
        };
        self.activity_in(row).unwrap_or(Activity::Unknown)
    }

    /// The activity of this session in an answer; `None` if another server gave it, or it cannot be read.
    fn activity_in(self, row: &Row) -> Option<Activity> {
        let started: i64 = row.try_get(0).ok()?;
        let works: Option<bool> = row.try_get(1).ok()?;
        let since: Option<i64> = row.try_get(2).ok()?;
        let activity = match works {
            Some(true) => Activity::Works,
            Some(false) | None => Activity::Nothing { since },
        };
        (started == self.started).then_some(activity)
    }
}

/// What a session of the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// What it was asked.
    Works,
    /// It waits for a question, or has ended.
    Nothing {
        /// Since when, in microseconds; `None` if it has ended.
        since: Option<i64>,
    },
    /// Nobody could be asked.
    Unknown,
}

impl Activity {
    /// Whether this shows that the session did nothing since it did nothing `before`.
    fn confirms(self, before: Self) -> bool {
        match (before, self) {
            // The server ends a session that leaves a transaction alone for too long.
            (Self::Nothing { .. }, Self::Nothing { since: None }) => true,
            // Between two statements it does nothing, too, but not since the same moment.
            (Self::Nothing { since: Some(before) }, Self::Nothing { since: Some(since) }) => before == since,
            _ => false,
        }
    }
}

/// The result of `query`; fails once the server, which `ask` asks, has said twice that it does nothing for it.
pub(super) async fn unless_idle<T, E, A>(
    query: impl Future<Output = Result<T, E>>,
    ask: impl Fn() -> A,
) -> Result<T, Failure>
where
    Failure: From<E>,
    A: Future<Output = Activity>,
{
    let idle = async {
        let (mut before, mut pause) = (Activity::Unknown, ASK_AFTER);
        loop {
            tokio::time::sleep(pause).await;
            let activity = ask().await;
            if activity.confirms(before) {
                break;
            }
            pause = match activity {
                Activity::Works => ASK_AFTER,
                Activity::Nothing { .. } | Activity::Unknown => CONFIRM_AFTER,
            };
            before = activity;
        }
    };
    tokio::select! {
        biased;
        done = query => Ok(done?),
        () = idle => Err(Failure::Silent),
    }
}

/// The result of `query`, which is a matter of a moment.
pub(super) async fn in_a_moment<T, E>(query: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    within(MOMENT, query).await
}

/// The result of `query`, unless it takes longer than `limit`: then its connection counts as dead.
pub(super) async fn within<T, E>(limit: Duration, query: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    match tokio::time::timeout(limit, query).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Failure::Silent),
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const IDLE: Activity = Activity::Nothing { since: Some(7) };

    /// How a query without an answer ends, and after how long, if the server says `activities`, one after the other.
    async fn ended(activities: &[Activity]) -> (Result<(), Failure>, Duration) {
        let start = Instant::now();
        let left = Mutex::new(activities.iter().copied());
        let query = async {
            tokio::time::sleep(60 * SECOND).await;
            Ok::<_, Failure>(())
        };
        let ended = unless_idle(query, || async { left.lock().next().unwrap_or(Activity::Unknown) }).await;
        (ended, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn query_fails_once_the_server_twice_says_that_it_does_nothing_for_it() {
        let ended_session = Activity::Nothing { since: None };
        for activities in [&[IDLE, IDLE][..], &[ended_session; 2], &[IDLE, ended_session]] {
            let (ended, after) = ended(activities).await;
            assert!(matches!(ended, Err(Failure::Silent)), "{ended:?}");
            assert_eq!(after, 6 * SECOND);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn query_goes_on_while_the_server_works_or_nobody_knows() {
        let since = |at| Activity::Nothing { since: Some(at) };
        for activities in [
            &[Activity::Works; 20][..],
            &[],
            &[IDLE, Activity::Works, IDLE, Activity::Unknown],
            // Between one statement and the next.
            &[since(1), since(2), since(3), since(4)],
        ] {
            let (ended, after) = ended(activities).await;
            ended.unwrap();
            assert_eq!(after, 60 * SECOND, "{activities:?}");
        }
    }
}
