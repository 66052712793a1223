//! Rows of the log, and what is read from them: changes, revisions of an entry, the journal of a run.

use std::collections::{BTreeSet, HashMap, HashSet};

use folio_memory::{Entry, EntryId, RunId, Seq, Timestamp, TurnId};
use tokio_postgres::Row;

use super::column::{get, instant, seq};
use super::error::{Failure, damaged, not_found};
use super::lookup::{last_of_part, looked_up};
use super::session::Session;
use super::{entry, rewrite, run};
use crate::error::StoreError;
use crate::fold::{self, Revisions, States};
use crate::place::to_column;
use crate::store::{CHANGES_BYTES, Journal, LogRow, Revision, RunCommits};

/// The columns that [`from_row`] reads.
const COLUMNS: &str = "log.seq, at, key, actor, record, packed";

/// Commits by their idempotency keys.
pub(super) const WITH_KEYS: &str = looked_up!("log.seq, at, log.key, actor, record, packed", "log", "key", "bytea");

/// The commits with one of `keys`.
pub(super) async fn with_keys(session: &Session, keys: &[&str]) -> Result<Vec<LogRow>, Failure> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let rows = session.query(WITH_KEYS, &[&session.space.0, &keys]).await?;
    from_rows(session, &rows).await
}

/// Up to `limit` commits after `since`, as far as there is room for them, because an answer is held in memory as a
/// whole.
pub(super) async fn changes(session: &Session, since: Seq, limit: u32) -> Result<Vec<LogRow>, Failure> {
    let bytes = i64::try_from(CHANGES_BYTES).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT {COLUMNS} FROM log WHERE space = $1 AND seq > $2 AND seq <= ({}) ORDER BY seq",
        last_of_part("log", "seq", RECORD_BYTES)
    );
    let rows = session
        .query(
            &sql,
            &[&session.space.0, &to_column(since.0), &i64::from(limit), &bytes],
        )
        .await?;
    from_rows(session, &rows).await
}

/// The unpacked records of the next commits after `since`, as far as there is room for them, with the last of those
/// commits.
pub(super) async fn texts_after(session: &Session, since: Seq) -> Result<Option<(Seq, Vec<String>)>, Failure> {
    let bytes = i64::try_from(CHANGES_BYTES).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT seq, record, packed FROM log WHERE space = $1 AND seq > $2 AND seq <= ({}) ORDER BY seq",
        last_of_part("log", "seq", RECORD_BYTES)
    );
    let rows = session
        .query(&sql, &[&session.space.0, &to_column(since.0), &TEXTS_AT_ONCE, &bytes])
        .await?;
    let Some(last) = rows.last().map(|row| seq(row, 0)).transpose()? else {
        return Ok(None);
    };
    let text = |row: &Row| {
        let text = rewrite::text_of(get(row, 1)?, get(row, 2)?).map_err(|error| damaged("a commit", error))?;
        Ok::<_, Failure>(text.into_owned())
    };
    Ok(Some((last, rows.iter().map(text).collect::<Result<_, _>>()?)))
}

/// Roughly how long a record is.
pub(super) const RECORD_BYTES: &str = "octet_length(record)::bigint + 6 * coalesce(octet_length(packed), 0)";

/// How many commits are searched for texts at a time.
const TEXTS_AT_ONCE: i64 = 4_096;

/// The last commits after `since` that changed memory in `turns`, as far as there are any.
pub(super) async fn last_in_turns(
    session: &Session,
    turns: &[TurnId],
    since: Seq,
) -> Result<HashMap<TurnId, Seq>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS} FROM log WHERE space = $1 AND seq > $2
             AND substring(actor from '\"turn\":\"(turn_[^\"]+)\"') = ANY($3) ORDER BY seq"
    );
    let names: Vec<String> = turns.iter().map(TurnId::to_string).collect();
    let rows = session
        .query(&sql, &[&session.space.0, &to_column(since.0), &names])
        .await?;
    let mut last = HashMap::new();
    for commit in from_rows(session, &rows).await? {
        if let Some(turn) = commit.actor.turn.filter(|_| commit.record.may_change_memory()) {
            last.insert(turn, commit.seq);
        }
    }
    Ok(last)
}

/// Passes the commits `seqs`, in order, to `each`.
pub(super) async fn read(session: &Session, seqs: &[i64], mut each: impl FnMut(LogRow)) -> Result<(), Failure> {
    let sql = format!("SELECT {COLUMNS} FROM log WHERE space = $1 AND seq = ANY($2) ORDER BY seq");
    for seqs in seqs.chunks(COMMITS_FOLDED) {
        let rows = session.query(&sql, &[&session.space.0, &seqs]).await?;
        from_rows(session, &rows).await?.into_iter().for_each(&mut each);
    }
    Ok(())
}

/// The fields of `entry` that were changed since its version `base`, each with the version that last changed it.
pub(super) async fn changed_since(
    session: &Session,
    entry: &Entry,
    base: u32,
) -> Result<HashMap<&'static str, u32>, Failure> {
    // The usual case: the entry was changed once in between.
    if entry.version.saturating_sub(base) == 1 {
        let mut changed = None;
        let last = [to_column(entry.updated_seq.0)];
        read(session, &last, |commit| changed = fold::changed_last(entry, &commit)).await?;
        if let Some(changed) = changed {
            return Ok(changed);
        }
    }
    Ok(revisions(session, entry).await?.changed_since(base))
}

/// The time at which expiry is judged for memory as of commit `last`, when asked at `now`: what was live then and has
/// expired since belongs to memory as it was. Dropped commits leave their numbers, but not their times.
pub(super) async fn expiry_time_at(session: &Session, last: Seq, now: Timestamp) -> Result<Timestamp, Failure> {
    let sql = "SELECT at FROM log WHERE space = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1";
    let row = session.one(sql, &[&session.space.0, &to_column(last.0)]).await?;
    let came_to = row.map(|row| instant(&row, 0)).transpose()?;
    Ok(came_to.unwrap_or(now).min(now))
}

/// The revisions of one entry, oldest first.
pub(super) async fn history(session: Option<&Session>, id: EntryId) -> Result<Vec<Revision>, Failure> {
    let missing = || not_found("entry", id);
    let session = session.ok_or_else(missing)?;
    let found = entry::by_id(session, id).await?.ok_or_else(missing)?;
    Ok(revisions(session, &found).await?.made)
}

async fn revisions(session: &Session, found: &Entry) -> Result<Revisions, Failure> {
    let sql = "SELECT seq FROM touch WHERE space = $1 AND what = 'e' AND number = $2 AND seq > $3 ORDER BY seq";
    let (number, created) = (to_column(found.handle.0), to_column(found.created_seq.0));
    let mut seqs = vec![created];
    for row in session.query(sql, &[&session.space.0, &number, &created]).await? {
        seqs.push(get(&row, 0)?);
    }
    let mut revisions = Revisions::of(found);
    read(session, &seqs, |commit| revisions.take_in(&commit)).await?;
    Ok(revisions)
}

/// `entries` as they were at commit `last`, for readers, in their order, without those that did not exist.
pub(super) async fn as_of(session: &Session, entries: &[Entry], last: Seq) -> Result<Vec<Entry>, Failure> {
    Ok(states_at(session, entries, last).await?.into_readable())
}

/// The states of `entries` at commit `last`.
pub(super) async fn states_at(session: &Session, entries: &[Entry], last: Seq) -> Result<States, Failure> {
    let numbers: Vec<i64> = entries.iter().map(|entry| to_column(entry.handle.0)).collect();
    // A commit that touched many of them is read once.
    let mut touched_seqs: BTreeSet<i64> = entries.iter().map(|entry| to_column(entry.created_seq.0)).collect();
    let rows = session
        .query(TOUCHED, &[&session.space.0, &numbers, &to_column(last.0)])
        .await?;
    for row in &rows {
        touched_seqs.insert(get(row, 0)?);
    }
    let mut states = States::of(entries);
    let seqs: Vec<i64> = touched_seqs.into_iter().collect();
    read(session, &seqs, |commit| states.take_in(&commit)).await?;
    Ok(states)
}

/// Those of `entries`, in their states at commit `last`, that were changed since, in their present states according to
/// the commits that are recorded as touching them.
pub(super) async fn states_since(
    session: &Session,
    entries: &[Entry],
    last: Seq,
) -> Result<HashMap<EntryId, Entry>, Failure> {
    let numbers: Vec<i64> = entries.iter().map(|entry| to_column(entry.handle.0)).collect();
    let sql = "SELECT number, seq FROM touch WHERE space = $1 AND what = 'e' AND number = ANY($2) AND seq > $3";
    let rows = session
        .query(sql, &[&session.space.0, &numbers, &to_column(last.0)])
        .await?;
    let (mut changed, mut seqs) = (HashSet::<i64>::new(), BTreeSet::<i64>::new());
    for row in &rows {
        changed.insert(get(row, 0)?);
        seqs.insert(get(row, 1)?);
    }
    let changed = entries
        .iter()
        .filter(|entry| changed.contains(&to_column(entry.handle.0)));
    let mut states = States::from(changed.cloned().collect());
    let seqs: Vec<i64> = seqs.into_iter().collect();
    read(session, &seqs, |commit| states.take_in(&commit)).await?;
    Ok(states
        .into_entries()
        .into_iter()
        .map(|entry| (entry.id, entry))
        .collect())
}

/// Those of the entries `ids` that existed at commit `last`, as they were then.
pub(super) async fn entries_as_of(session: &Session, ids: &[EntryId], last: Seq) -> Result<Vec<Entry>, Failure> {
    let found = entry::by_ids(session, ids).await?.into_iter().map(|(entry, _)| entry);
    let (mut found, changed): (Vec<_>, Vec<_>) = found.partition(|entry| entry.updated_seq <= last);
    let changed: Vec<_> = changed.into_iter().filter(|entry| entry.created_seq <= last).collect();
    if !changed.is_empty() {
        found.extend(as_of(session, &changed, last).await?);
    }
    Ok(found)
}

/// Which commits, up to one, changed some entries.
const TOUCHED: &str = "SELECT DISTINCT found.seq FROM unnest($2::bigint[]) AS wanted (number) CROSS JOIN LATERAL
    (SELECT seq FROM touch WHERE space = $1 AND what = 'e' AND touch.number = wanted.number AND seq <= $3 OFFSET 0) AS found";

/// How many commits that changed entries are in memory at a time.
const COMMITS_FOLDED: usize = 64;

/// How many commits of a run are read at a time, because the answer is held in memory as a whole.
const COMMITS_AT_ONCE: i64 = 256;

/// The events of `id` after `since`, up to the commit that brings them to `bytes`.
pub(super) async fn of_run(session: Option<&Session>, id: RunId, since: Seq, bytes: usize) -> Result<Journal, Failure> {
    let missing = || not_found("run", id);
    let session = session.ok_or_else(missing)?;
    let run = run::by_ids(session, &[id]).await?.remove(&id).ok_or_else(missing)?;
    fold::refuse_forgotten(run.number, &run.before)?;
    let sql =
        "SELECT log.seq, log.at, log.record FROM touch JOIN log ON log.space = touch.space AND log.seq = touch.seq
               WHERE touch.space = $1 AND what = 'r' AND touch.number = $2 AND touch.seq > $3 ORDER BY touch.seq LIMIT $4";
    let mut part = fold::Part::after(since, bytes);
    loop {
        let rows = session
            .query(
                sql,
                &[
                    &session.space.0,
                    &to_column(run.number),
                    &to_column(part.journal.head.0),
                    &COMMITS_AT_ONCE,
                ],
            )
            .await?;
        let are_last = rows.len() < usize::try_from(COMMITS_AT_ONCE).unwrap_or(usize::MAX);
        for row in &rows {
            if part.is_full() {
                return Ok(part.journal);
            }
            let (seq, at) = (seq(row, 0)?, instant(row, 1)?);
            let has_room = part.take(seq, at, get(row, 2)?);
            if !has_room.map_err(|error| damaged(&format!("commit {seq}"), error))? {
                return Ok(part.journal);
            }
        }
        if are_last {
            return Ok(part.journal);
        }
    }
}

/// The commits with events of `id` after `since`, up to the one that brings their records to `bytes`.
pub(super) async fn commits_of_run(
    session: Option<&Session>,
    id: RunId,
    since: Seq,
    bytes: usize,
) -> Result<RunCommits, Failure> {
    let missing = || not_found("run", id);
    let session = session.ok_or_else(missing)?;
    let run = run::by_ids(session, &[id]).await?.remove(&id).ok_or_else(missing)?;
    fold::refuse_forgotten(run.number, &run.before)?;
    // Which commits there are is found with the sizes of their records, so that no more are read than there is room for.
    let sizes = format!(
        "SELECT log.seq, {RECORD_BYTES} FROM touch JOIN log ON log.space = touch.space AND log.seq = touch.seq
             WHERE touch.space = $1 AND what = 'r' AND touch.number = $2 AND touch.seq > $3 ORDER BY touch.seq LIMIT $4"
    );
    let (number, since) = (to_column(run.number), to_column(since.0));
    let rows = session
        .query(&sizes, &[&session.space.0, &number, &since, &COMMITS_AT_ONCE])
        .await?;
    let (mut seqs, mut left) = (Vec::new(), bytes);
    for row in &rows {
        if left == 0 {
            break;
        }
        seqs.push(get::<i64>(row, 0)?);
        left = left.saturating_sub(usize::try_from(get::<i64>(row, 1)?).unwrap_or(usize::MAX));
    }
    let are_last = rows.len() < usize::try_from(COMMITS_AT_ONCE).unwrap_or(usize::MAX);
    let mut commits = Vec::with_capacity(seqs.len());
    read(session, &seqs, |commit| commits.push(commit)).await?;
    Ok(RunCommits {
        is_whole: are_last && seqs.len() == rows.len(),
        commits,
    })
}

/// Reads [`COLUMNS`].
async fn from_rows(session: &Session, rows: &[Row]) -> Result<Vec<LogRow>, Failure> {
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        match from_row(row) {
            Ok(row) => read.push(row),
            Err(failure) => return Err(too_new(session, row).await.map_or(failure, Failure::Refused)),
        }
    }
    Ok(read)
}

/// The error that a newer version wrote the commit in `row`, if that is why it cannot be read.
async fn too_new(session: &Session, row: &Row) -> Option<StoreError> {
    let run = fold::run_of(&rewrite::text_of(get(row, 4).ok()?, get(row, 5).ok()?).ok()?)?;
    let journal = of_run(Some(session), run, Seq(0), usize::MAX).await.ok()?;
    fold::too_new(run, &journal, seq(row, 0).ok()?)
}

fn from_row(row: &Row) -> Result<LogRow, Failure> {
    let seq = seq(row, 0)?;
    let name = || format!("commit {seq}");
    let record = rewrite::text_of(get(row, 4)?, get(row, 5)?).map_err(|error| damaged(&name(), error))?;
    let key: Option<Vec<u8>> = get(row, 2)?;
    Ok(LogRow {
        seq,
        at: instant(row, 1)?,
        actor: serde_json::from_str(get(row, 3)?).map_err(|error| damaged(&name(), error))?,
        idempotency_key: key
            .map(String::from_utf8)
            .transpose()
            .map_err(|error| damaged(&name(), error))?,
        record: fold::record_of(&record).map_err(|error| damaged(&name(), error))?,
    })
}
