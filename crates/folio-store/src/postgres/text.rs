//! The index of words: it lags behind the log, and catches up when somebody searches.
//!
//! Adding an entry writes nothing here. A search first catches up, in a series of short transactions, so it finds
//! everything that was committed before, by any process. If nothing can be written, it reads what is not indexed. The pure analyser decides what the words are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use folio_memory::text::{self, EntryTerms, INDEXED_BYTES};
use folio_memory::{Entry, EntryId, Seq, SpaceName};

use super::Inner;
use super::column::{count, get, seq};
use super::error::{Failure, damaged};
use super::patience::{Wait, patiently};
use super::session::{Purpose, Session};
use super::{blob, entry, rewrite};
use crate::fold;
use crate::place::to_column;

/// The most commits in one transaction.
const COMMITS_MAX: i64 = 256;
/// How many bytes of long texts one transaction indexes before it ends.
const LONG_BYTES_MAX: u64 = 2 * INDEXED_BYTES as u64;
/// The weights of a word in the title, in a tag and in the text.
const WEIGHTS: [f64; 3] = [4.0, 2.0, 1.0];

/// Some commits of a space after one of them.
const NEXT_COMMITS: &str = "SELECT seq, record, packed FROM log WHERE space = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// How far the index has come, and its totals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexed {
    pub(super) seq: Seq,
    /// Number of entries that have words.
    pub(super) entries: u64,
    /// Total number of words in them, with repetitions.
    pub(super) length: u64,
}

impl Indexed {
    /// No index.
    pub(super) const NOTHING: Self = Self {
        seq: Seq(0),
        entries: 0,
        length: 0,
    };
}

/// How far the index by the rules of this version has come. `None` if nobody has searched yet.
pub(super) async fn indexed(session: &Session) -> Result<Option<Indexed>, Failure> {
    let sql = "SELECT seq, entries, length FROM text_index WHERE space = $1 AND version = $2";
    let row = session.one(sql, &[&session.space.0, &i64::from(text::VERSION)]).await?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &tokio_postgres::Row) -> Result<Indexed, Failure> {
    Ok(Indexed {
        seq: seq(row, 0)?,
        entries: count(row, 1)?,
        length: count(row, 2)?,
    })
}

impl Inner {
    /// Indexes what has been committed to `space`, until the index has reached commit `head`, or the end of the log: the
    /// server may have changed to one that lacks the last commits.
    pub(super) async fn index(&self, space: &SpaceName, head: Seq) -> Result<(), Failure> {
        let mut until = Seq(0);
        while until < head {
            let wait = Wait::begin();
            let reached = patiently!(self, wait, {
                let Some(session) = self.begin_write(space, false, Purpose::WriteCarelessly, wait).await? else {
                    return Ok(head);
                };
                let until = catch_up(&session).await?;
                session.commit().await?;
                Ok(until)
            })?;
            if reached == until {
                break;
            }
            until = reached;
        }
        Ok(())
    }
}

/// Indexes some of what has been committed since; returns the commit that it has reached.
///
/// Starts over if there is no index, or one by other rules.
async fn catch_up(session: &Session) -> Result<Seq, Failure> {
    let space = session.space.0;
    let mut known = begin(session).await?;
    let rows = session
        .query(NEXT_COMMITS, &[&space, &to_column(known.seq.0), &COMMITS_MAX])
        .await?;
    let commits: Vec<(Seq, Vec<EntryId>)> = rows.iter().map(touched).collect::<Result<_, _>>()?;
    let all: BTreeSet<EntryId> = commits.iter().flat_map(|(_, ids)| ids).copied().collect();
    let all: Vec<_> = all.into_iter().collect();
    let mut left: HashMap<EntryId, Entry> = HashMap::new();
    for (entry, _) in entry::by_ids(session, &all).await? {
        left.insert(entry.id, entry);
    }
    let (mut entries, mut long_bytes) = (Vec::new(), 0);
    for (commit, ids) in commits {
        known.seq = commit;
        let touched = ids.iter().filter_map(|id| left.remove(id));
        for entry in touched {
            let text = entry.fields.body_ref.as_ref();
            long_bytes += text.map_or(0, |text| text.bytes.min(INDEXED_BYTES as u64));
            entries.push(entry);
        }
        if long_bytes >= LONG_BYTES_MAX {
            break;
        }
    }
    let numbers: Vec<i64> = entries.iter().map(|entry| to_column(entry.handle.0)).collect();
    known = take_out(session, known, &numbers).await?;
    entries.retain(|entry| text::is_searchable(entry.kind));
    let (long, short): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.fields.body_ref.is_some());
    known = put_in(session, known, &short).await?;
    for mut entry in long {
        fill_in_text(session, &mut entry).await?;
        known = put_in(session, known, &[entry]).await?;
    }
    note(session, known).await?;
    Ok(known.seq)
}

/// The numbers of the entries that the index does not have as they are: it has come up to commit `indexed`. All, if there
/// is no index.
pub(super) async fn unindexed(session: &Session, indexed: Option<Seq>) -> Result<Vec<u64>, Failure> {
    let space = session.space.0;
    let Some(mut indexed) = indexed else {
        let sql = "SELECT number FROM entry WHERE space = $1 ORDER BY number";
        let rows = session.query(sql, &[&space]).await?;
        return rows.iter().map(|row| count(row, 0)).collect();
    };
    let mut numbers = BTreeSet::new();
    loop {
        let rows = session
            .query(NEXT_COMMITS, &[&space, &to_column(indexed.0), &COMMITS_MAX])
            .await?;
        if rows.is_empty() {
            return Ok(numbers.into_iter().collect());
        }
        let mut ids = BTreeSet::new();
        for row in &rows {
            let (commit, touched) = touched(row)?;
            indexed = commit;
            ids.extend(touched);
        }
        let ids: Vec<_> = ids.into_iter().collect();
        let entries = entry::by_ids(session, &ids).await?;
        numbers.extend(entries.into_iter().map(|(entry, _)| entry.handle.0));
    }
}

/// The number of the commit in a `row` of the log, and the entries that it touches.
fn touched(row: &tokio_postgres::Row) -> Result<(Seq, Vec<EntryId>), Failure> {
    let commit = seq(row, 0)?;
    let name = || format!("commit {commit}");
    let record = rewrite::text_of(get(row, 1)?, get(row, 2)?).map_err(|error| damaged(&name(), error))?;
    let ids = fold::touched(&record).map_err(|error| damaged(&name(), error))?;
    Ok((commit, ids))
}

/// Replaces the beginning of a long text in `entry` by as much of the whole as is searched.
pub(super) async fn fill_in_text(session: &Session, entry: &mut Entry) -> Result<(), Failure> {
    if let Some(text) = &entry.fields.body_ref
        && let Some(text) = blob::beginning(session, text, INDEXED_BYTES).await?
    {
        entry.fields.body = text;
    }
    Ok(())
}

/// Locks the index of the space, and creates it if it does not exist.
async fn begin(session: &Session) -> Result<Indexed, Failure> {
    let (space, version) = (session.space.0, i64::from(text::VERSION));
    let sql =
        "INSERT INTO text_index (space, seq, version, entries, length) VALUES ($1, 0, $2, 0, 0) ON CONFLICT DO NOTHING";
    session.execute(sql, &[&space, &version]).await?;
    let sql = "SELECT seq, entries, length, version FROM text_index WHERE space = $1 FOR UPDATE";
    let row = session.one(sql, &[&space]).await?;
    let row = row.ok_or_else(|| damaged("the index of words", "it is not there"))?;
    if get::<i64>(&row, 3)? == version {
        return read(&row);
    }
    for sql in [
        "DELETE FROM word WHERE space = $1",
        "DELETE FROM entry_text WHERE space = $1",
    ] {
        session.execute(sql, &[&space]).await?;
    }
    Ok(Indexed {
        seq: Seq(0),
        entries: 0,
        length: 0,
    })
}

async fn note(session: &Session, known: Indexed) -> Result<(), Failure> {
    let sql = "UPDATE text_index SET seq = $2, version = $3, entries = $4, length = $5 WHERE space = $1";
    session
        .execute(
            sql,
            &[
                &session.space.0,
                &to_column(known.seq.0),
                &i64::from(text::VERSION),
                &to_column(known.entries),
                &to_column(known.length),
            ],
        )
        .await?;
    Ok(())
}

/// Removes the words of entry `number` from the index, so that it is not found any more.
pub(super) async fn remove(session: &Session, number: u64) -> Result<(), Failure> {
    let sql = "SELECT seq, entries, length, version FROM text_index WHERE space = $1 FOR UPDATE";
    let Some(row) = session.one(sql, &[&session.space.0]).await? else {
        return Ok(());
    };
    let known = read(&row)?;
    let left = take_out(session, known, &[to_column(number)]).await?;
    let sql = "UPDATE text_index SET entries = $2, length = $3 WHERE space = $1";
    session
        .execute(
            sql,
            &[&session.space.0, &to_column(left.entries), &to_column(left.length)],
        )
        .await?;
    Ok(())
}

/// Removes the entries with `numbers` from the index; returns the new totals.
async fn take_out(session: &Session, mut known: Indexed, numbers: &[i64]) -> Result<Indexed, Failure> {
    if numbers.is_empty() {
        return Ok(known);
    }
    let sql = "DELETE FROM entry_text WHERE space = $1 AND number = ANY($2) RETURNING number, length, words";
    let (mut words, mut word_numbers) = (Vec::new(), Vec::new());
    for row in session.query(sql, &[&session.space.0, &numbers]).await? {
        known.entries = known.entries.saturating_sub(1);
        known.length = known.length.saturating_sub(count(&row, 1)?);
        for word in get::<Vec<String>>(&row, 2)? {
            words.push(word);
            word_numbers.push(get::<i64>(&row, 0)?);
        }
    }
    let sql = "DELETE FROM word USING unnest($2::text[], $3::bigint[]) AS old (word, number)
               WHERE word.space = $1 AND word.word = old.word AND word.number = old.number";
    session.execute(sql, &[&session.space.0, &words, &word_numbers]).await?;
    Ok(known)
}

/// Adds `entries`, none of which is there, to the index; returns the new totals.
async fn put_in(session: &Session, mut known: Indexed, entries: &[Entry]) -> Result<Indexed, Failure> {
    let (mut numbers, mut lengths, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let (mut words, mut word_numbers, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let number = to_column(entry.handle.0);
        let (found, length) = weighted(&EntryTerms::of(&entry.fields));
        known.entries += 1;
        known.length += length;
        numbers.push(number);
        lengths.push(to_column(length));
        // Words consist of letters and digits, so a space can separate them.
        lists.push(found.keys().map(String::as_str).collect::<Vec<_>>().join(" "));
        for (word, weight) in found {
            words.push(word);
            word_numbers.push(number);
            weights.push(weight);
        }
    }
    let sql = "INSERT INTO entry_text (space, number, length, words)
               SELECT $1, number, length, string_to_array(words, ' ')
               FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS new (number, length, words)";
    session
        .execute(sql, &[&session.space.0, &numbers, &lengths, &lists])
        .await?;
    let sql = "INSERT INTO word (space, word, number, weight)
               SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::float8[])";
    session
        .execute(sql, &[&session.space.0, &words, &word_numbers, &weights])
        .await?;
    Ok(known)
}

/// The words of an entry, each with its weight, and how many there are with repetitions.
pub(super) fn weighted(terms: &EntryTerms) -> (BTreeMap<String, f64>, u64) {
    let mut words = BTreeMap::new();
    let mut length = 0;
    for (terms, weight) in [&terms.title, &terms.tags, &terms.body].into_iter().zip(WEIGHTS) {
        length += terms.len() as u64;
        for term in terms {
            *words.entry(term.clone()).or_insert(0.0) += weight;
        }
    }
    (words, length)
}
