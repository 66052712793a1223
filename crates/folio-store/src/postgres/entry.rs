//! Rows of entries.

use folio_memory::id::EntryRef;
use folio_memory::{Entry, EntryFields, EntryHandle, EntryId, EntryKind, PageId, Seq};
use tokio_postgres::Row;

use super::column::{self, count, encode_text, get, id, instant, seq, version};
use super::error::{Failure, damaged, not_found};
use super::lookup::looked_up;
use super::session::Session;
use crate::packed;
use crate::place::to_column;

macro_rules! columns {
    () => {
        "number, id, page_id, kind, version, created_at, updated_at, created_seq, updated_seq, fields, packed"
    };
}

/// The columns that [`from_row`] reads.
pub(super) const COLUMNS: &str = columns!();

/// Restricts rows to memory, in the words of the partial indexes: otherwise PostgreSQL does not know that those have
/// every row.
pub(super) const IS_MEMORY_SQL: &str = "kind NOT IN ('log', 'step', 'summary')";

/// Entries by their ids.
pub(super) const BY_IDS: &str = looked_up!(concat!(columns!(), ", page"), "entry", "id", "bytea");
/// Entries by their numbers.
const BY_NUMBERS: &str = looked_up!(columns!(), "entry", "number", "bigint");

/// The entries with `ids`, each with the number of its page, in no order.
pub(super) async fn by_ids(session: &Session, ids: &[EntryId]) -> Result<Vec<(Entry, u64)>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Vec<u8>> = ids.iter().map(|id| id.to_bytes().to_vec()).collect();
    let rows = session.query(BY_IDS, &[&session.space.0, &ids]).await?;
    rows.iter().map(|row| Ok((from_row(row)?, count(row, 11)?))).collect()
}

/// The entry with the id `id`.
pub(super) async fn by_id(session: &Session, id: EntryId) -> Result<Option<Entry>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE space = $1 AND id = $2");
    let row = session
        .one(&sql, &[&session.space.0, &id.to_bytes().as_slice()])
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// The entry with the number `number`.
pub(super) async fn by_number(session: &Session, number: u64) -> Result<Option<Entry>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM entry WHERE space = $1 AND number = $2");
    let row = session.one(&sql, &[&session.space.0, &to_column(number)]).await?;
    row.as_ref().map(from_row).transpose()
}

/// The entries with `numbers`, in no order.
pub(super) async fn by_numbers(session: &Session, numbers: &[u64]) -> Result<Vec<Entry>, Failure> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = numbers.iter().map(|number| to_column(*number)).collect();
    let rows = session.query(BY_NUMBERS, &[&session.space.0, &numbers]).await?;
    rows.iter().map(from_row).collect()
}

/// The entry to which `entry` refers.
pub(super) async fn read(session: Option<&Session>, entry: EntryRef) -> Result<Entry, Failure> {
    let missing = || not_found("entry", entry);
    let session = session.ok_or_else(missing)?;
    let found = match entry {
        EntryRef::Id(id) => by_id(session, id).await?,
        EntryRef::Handle(handle) => by_number(session, handle.0).await?,
    };
    Ok(found.ok_or_else(missing)?)
}

/// Whether any entry can be found by `term`.
pub(super) async fn is_any_found_by(session: &Session, term: &str) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT 1 FROM entry_term WHERE space = $1 AND term = $2)";
    let row = session
        .one(sql, &[&session.space.0, &encode_text(term).as_ref()])
        .await?;
    row.map_or(Ok(false), |row| get(&row, 0))
}

/// The numbers of the entries that changed after commit `seq`, without those added since; only those that are memory in
/// their own right, not written by runs on their pages.
pub(super) async fn changed_after(session: &Session, seq: Seq) -> Result<Vec<u64>, Failure> {
    let sql = format!(
        "SELECT number FROM entry WHERE space = $1 AND updated_seq > $2 AND version > 1 AND {IS_MEMORY_SQL} AND created_seq <= $2"
    );
    let rows = session.query(&sql, &[&session.space.0, &to_column(seq.0)]).await?;
    rows.iter().map(|row| count(row, 0)).collect()
}

/// The same for the entries with numbers from the first to the second of `range`, in order.
pub(super) async fn changed_between(session: &Session, range: (u64, u64), seq: Seq) -> Result<Vec<u64>, Failure> {
    let sql = format!(
        "SELECT number FROM entry WHERE space = $1 AND number BETWEEN $2 AND $3 AND updated_seq > $4 AND version > 1
         AND {IS_MEMORY_SQL} AND created_seq <= $4 ORDER BY number"
    );
    let (from, to) = (to_column(range.0), to_column(range.1));
    let rows = session
        .query(&sql, &[&session.space.0, &from, &to, &to_column(seq.0)])
        .await?;
    rows.iter().map(|row| count(row, 0)).collect()
}

/// The number of the last entry that existed at commit `seq`, of those up to `last`; zero if there was none.
///
/// Numbers are assigned in the order of commits, so a binary search finds it.
pub(super) async fn last_at(session: &Session, seq: Seq, last: u64) -> Result<u64, Failure> {
    let sql = "SELECT number, created_seq FROM entry WHERE space = $1 AND number >= $2 AND number < $3 ORDER BY number LIMIT 1";
    let (mut lower, mut upper) = (0, last + 1);
    while lower + 1 < upper {
        let middle = lower + (upper - lower) / 2;
        let row = session
            .one(sql, &[&session.space.0, &to_column(middle), &to_column(upper)])
            .await?;
        match row {
            Some(row) if column::seq(&row, 1)? <= seq => lower = count(&row, 0)?,
            _ => upper = middle,
        }
    }
    Ok(lower)
}

/// Writes the fields of entry `number` without its body, which is `packed`.
pub(super) async fn pack(session: &Session, number: u64, fields_json: &str, packed: &[u8]) -> Result<(), Failure> {
    let sql = "UPDATE entry SET fields = $3, packed = $4 WHERE space = $1 AND number = $2";
    session
        .execute(sql, &[&session.space.0, &to_column(number), &fields_json, &packed])
        .await?;
    Ok(())
}

/// Removes the row of a tombstone, and the rows that refer to it.
pub(super) async fn remove(session: &Session, number: u64) -> Result<(), Failure> {
    for sql in [
        "DELETE FROM entry WHERE space = $1 AND number = $2",
        "DELETE FROM touch WHERE space = $1 AND what = 'e' AND number = $2",
    ] {
        session.execute(sql, &[&session.space.0, &to_column(number)]).await?;
    }
    super::text::remove(session, number).await
}

/// Reads [`COLUMNS`].
pub(super) fn from_row(row: &Row) -> Result<Entry, Failure> {
    let handle = EntryHandle(count(row, 0)?);
    let name = || format!("entry {handle}");
    let kind = EntryKind::parse(get(row, 3)?);
    let mut fields: EntryFields = serde_json::from_str(get(row, 9)?).map_err(|error| damaged(&name(), error))?;
    if let Some(body) = get::<Option<&[u8]>>(row, 10)? {
        fields.body = packed::unpack(body).map_err(|error| damaged(&name(), error))?;
    }
    Ok(Entry {
        id: EntryId::from_bytes(id(row, 1, "an entry")?),
        handle,
        page: PageId::from_bytes(id(row, 2, "an entry")?),
        kind: kind.ok_or_else(|| damaged(&name(), "its kind is unknown"))?,
        version: version(row, 4)?,
        created_at: instant(row, 5)?,
        updated_at: instant(row, 6)?,
        created_seq: seq(row, 7)?,
        updated_seq: seq(row, 8)?,
        fields,
    })
}
