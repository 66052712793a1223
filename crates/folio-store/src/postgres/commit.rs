//! Applies commits: what they need is looked up together, each is decided in turn, and the results are written
//! together.

use std::collections::HashSet;

use folio_memory::{Seq, Timestamp};

use super::column;
use super::error::{Failure, damaged};
use super::lease::Owners;
use super::loaded::Loaded;
use super::rows::Rows;
use super::session::{Parameters, Session, Unwritten, Write, values};
use super::wake::CHANNEL;
use super::written::Written;
use super::{blob, entry, erase, journal, page, policy, replay, run, turn, unclaimed};
use crate::commit::Committed;
use crate::place::{SpaceId, to_column};
use crate::plan::{Ends, Erased, check_repeated, decide};
use crate::prepare::Prepared;
use crate::store::LogRow;

const ENDS: &str = "SELECT head, at, entries, pages, runs, turns FROM space_end WHERE space = $1";
/// Locks the space. Afterwards, locks are waited for no longer than $2 milliseconds after the transaction began. The time
/// of this statement was limited as a whole ([`Session::begin`]), and that of the next ones is not.
const ENDS_LOCKED: &str = "WITH locked AS MATERIALIZED
                               (SELECT head, at, entries, pages, runs, turns FROM space_end WHERE space = $1 FOR UPDATE)
                           SELECT head, at, entries, pages, runs, turns,
                               set_config('lock_timeout', greatest(2000, $2::bigint
                                   - (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000)::bigint)::text, true),
                               set_config('statement_timeout', current_setting('folio.statement_timeout'), true)
                           FROM locked";

/// The last numbers assigned in the space.
pub(super) async fn ends(session: &Session) -> Result<Ends, Failure> {
    read(session, ENDS, &[&session.space.0]).await
}

/// Locks the space against other writers until the transaction ends; returns the last numbers assigned.
pub(super) async fn lock(session: &Session) -> Result<Ends, Failure> {
    let values: Parameters<'_> = &[&session.space.0, &session.locks_until_millis()];
    let locked = read(session, ENDS_LOCKED, values).await;
    locked.map_err(|failure| failure.after_waiting_for_space(session.wait()))
}

async fn read(session: &Session, sql: &str, values: Parameters<'_>) -> Result<Ends, Failure> {
    let row = session.one(sql, values).await?;
    let row = row.ok_or_else(|| damaged("a space", "its last numbers are missing"))?;
    Ok(Ends {
        head: column::seq(&row, 0)?,
        at: column::instant(&row, 1)?,
        entries: column::count(&row, 2)?,
        pages: column::count(&row, 3)?,
        runs: column::count(&row, 4)?,
        turns: column::count(&row, 5)?,
    })
}

/// The statements that run before anything is decided. Prepared beforehand, so that nothing is sent ahead of the lock.
const LOOKED_UP: [&str; 8] = [
    ENDS_LOCKED,
    journal::WITH_KEYS,
    entry::BY_IDS,
    page::BY_IDS,
    run::BY_IDS,
    turn::BY_IDS,
    blob::WHICH_KEPT,
    policy::READ,
];

/// The outcome of each of several commits, and the last commit if any was written.
pub(super) type Applied = (Vec<Result<Committed, Failure>>, Option<Seq>);

/// The outcome of commits before it is written.
struct Planned {
    done: Vec<Result<Committed, Failure>>,
    /// If any of them is to be written: the statements, and the last commit.
    writes: Option<(Vec<Write>, Last)>,
    gone: Erased,
}

/// The last of several commits that is written.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Which of them it is.
    index: usize,
    seq: Seq,
    at: Timestamp,
}

/// Why commits were not made durable.
#[derive(Debug)]
pub(super) enum Unapplied {
    /// Nothing of them was written.
    Certainly(Failure),
    /// All of them were written, or none: the connection was lost before the server answered.
    Perhaps(Failure, InDoubt),
}

impl From<Failure> for Unapplied {
    fn from(failure: Failure) -> Self {
        Self::Certainly(failure)
    }
}

/// Commits whose transaction may have been made durable.
#[derive(Debug)]
pub(super) struct InDoubt {
    done: Vec<Result<Committed, Failure>>,
    last: Last,
}

impl InDoubt {
    /// The outcome, now that they are known to be written.
    pub(super) fn into_applied(self) -> Applied {
        (self.done, Some(self.last.seq))
    }
}

/// What became of commits that were in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are there.
    Written,
    /// They are not there, and will not be.
    NotWritten,
    /// Nobody can tell any more.
    Unknown,
}

/// What became of `commits`, which were in doubt. The space stays locked, so that the answer stays true.
pub(super) async fn fate(session: &Session, commits: &[Prepared], doubt: &InDoubt) -> Result<Fate, Failure> {
    let Last { index, seq, at } = doubt.last;
    fate_of_last(session, &commits[index], seq, at).await
}

/// The same, given the last of them, with its number and its time.
pub(super) async fn fate_of_last(
    session: &Session,
    commit: &Prepared,
    seq: Seq,
    at: Timestamp,
) -> Result<Fate, Failure> {
    // Their transaction has this lock as long as it is not decided.
    lock(session).await?;
    let sql = "SELECT at, key, actor, record FROM log WHERE space = $1 AND seq = $2";
    let Some(row) = session.one(sql, &[&session.space.0, &to_column(seq.0)]).await? else {
        return Ok(Fate::NotWritten);
    };
    // Their numbers may be those of others by now.
    let key: Option<&[u8]> = column::get(&row, 1)?;
    let (actor, record): (&str, &str) = (column::get(&row, 2)?, column::get(&row, 3)?);
    if column::instant(&row, 0)? != at || key != commit.key.as_deref().map(str::as_bytes) || actor != commit.actor_json
    {
        return Ok(Fate::NotWritten);
    }
    // Somebody may have erased something of it already; as a rule, nobody is that fast.
    Ok(if record == commit.record_json {
        Fate::Written
    } else {
        Fate::Unknown
    })
}

/// Writes `commits`, all of one space, except those that are refused or were written before.
pub(super) async fn apply(session: &Session, commits: &[Prepared], owners: &Owners) -> Result<Applied, Unapplied> {
    let Planned {
        done,
        writes,
        gone: erased,
    } = plan(session, commits, owners).await?;
    let Some((mut writes, last)) = writes else {
        return Ok((done, None));
    };
    writes.push(notify_of_commit(session.space, last.seq));
    let written = if erased.is_empty() {
        session.write_and_commit(&writes).await
    } else {
        session.write(&writes).await?;
        erase::remove_content(session, &erased).await?;
        session.write_and_commit(&[]).await
    };
    match written {
        Ok(()) => Ok((done, Some(last.seq))),
        Err(Unwritten::Certainly(failure)) => Err(Unapplied::Certainly(failure)),
        Err(Unwritten::Perhaps(failure)) => Err(Unapplied::Perhaps(failure, InDoubt { done, last })),
    }
}

/// Writes `part`, one of several commits that take effect only together, unless it was written before. Nobody else sees
/// it yet.
pub(super) async fn add(session: &Session, part: &Prepared, owners: &Owners) -> Result<Committed, Failure> {
    let Planned {
        mut done,
        writes,
        gone: erased,
    } = plan(session, std::slice::from_ref(part), owners).await?;
    let missing_answer = || Failure::Damaged("a commit without an answer".to_owned());
    let committed = done.pop().ok_or_else(missing_answer)??;
    if let Some((writes, _)) = writes {
        session.write(&writes).await?;
    }
    if !erased.is_empty() {
        erase::remove_content(session, &erased).await?;
    }
    Ok(committed)
}

/// Commits everything that was added, up to `head`.
pub(super) async fn end(session: &Session, head: Seq) -> Result<(), Unwritten> {
    session.write_and_commit(&[notify_of_commit(session.space, head)]).await
}

async fn plan(session: &Session, commits: &[Prepared], owners: &Owners) -> Result<Planned, Failure> {
    session.prepare(&LOOKED_UP).await?;
    let keys: Vec<_> = commits.iter().filter_map(|commit| commit.key.as_deref()).collect();
    // Pipelined, without waiting in between. The lock comes first, so that all look-ups happen under it.
    let locking = lock(session);
    let finding = journal::with_keys(session, &keys);
    let loading = Box::pin(Loaded::of(session, commits));
    let (ends, known, loaded) = futures_util::future::join3(locking, finding, loading).await;
    let (mut ends, known, mut loaded) = (ends?, known?, loaded?);
    loaded.load_concurrent_changes(session, commits).await?;
    loaded.load_order(session, commits).await?;
    loaded.load_turns_written(session, commits, ends.head).await?;
    loaded.written = Written::of(session, commits, owners).await?;
    let mut rows = Rows::new(session.space);
    let mut done = Vec::with_capacity(commits.len());
    let (mut erased, mut bodies, mut last) = (Erased::default(), Vec::new(), None);
    for (index, commit) in commits.iter().enumerate() {
        if let Some(row) = repeated(commit, &known) {
            done.push(match check_repeated(commit, row) {
                Ok(()) => replay::committed(session, row).await,
                Err(refused) => Err(Failure::Refused(refused)),
            });
            continue;
        }
        match decide(&mut loaded, session.space, ends, commit) {
            Ok(decided) => {
                ends = decided.ends;
                let (seq, at) = (decided.seq, decided.at);
                last = Some(Last { index, seq, at });
                erased.extend(&decided.gone);
                if unclaimed::is_concerned(commit) {
                    bodies.push((commit, decided.at));
                }
                rows.commit(commit, &decided);
                loaded.absorb(commit, &decided, &mut rows);
                done.push(Ok(decided.answer()));
            }
            // A refused commit has changed nothing, and does not keep the others from being written.
            Err(error) => done.push(Err(Failure::Refused(error))),
        }
    }
    let Some(last) = last else {
        let writes = None;
        return Ok(Planned {
            done,
            writes,
            gone: erased,
        });
    };
    rows.take(loaded).map_err(Failure::Refused)?;
    for (commit, at) in &bodies {
        unclaimed::keep(session, commit, *at).await?;
    }
    let writes = Some((rows.writes(&ends)?, last));
    Ok(Planned {
        done,
        writes,
        gone: erased,
    })
}

/// Notifies every process of commit `head` when the transaction commits.
fn notify_of_commit(space: SpaceId, head: Seq) -> Write {
    let payload = format!("{}:{head}", space.0);
    Write::new("SELECT pg_notify($1, $2)", values![CHANNEL, payload])
}

fn repeated<'r>(commit: &Prepared, known: &'r [LogRow]) -> Option<&'r LogRow> {
    let key = commit.key.as_ref()?;
    known.iter().find(|row| row.idempotency_key.as_ref() == Some(key))
}

/// Records `ends` as the last numbers assigned.
pub(super) fn update_space_end(space: SpaceId, ends: &Ends) -> Write {
    let sql =
        "UPDATE space_end SET head = $2, at = $3, entries = $4, pages = $5, runs = $6, turns = $7 WHERE space = $1";
    Write::new(
        sql,
        values![
            space.0,
            to_column(ends.head.0),
            ends.at.as_nanos(),
            to_column(ends.entries),
            to_column(ends.pages),
            to_column(ends.runs),
            to_column(ends.turns)
        ],
    )
}

/// Each of `all` once, in order.
pub(super) fn each_once<T: std::hash::Hash + Eq + Copy>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}
