//! The rows of texts that are stored compressed.

use rusqlite::{Connection, params};

use super::error::{Failure, damaged};
use super::place::Place;
pub(super) use crate::packed::{pack, unpack};

/// The table of a packed text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packed {
    /// The body of an entry.
    Body,
    /// The record of a commit.
    Record,
}

impl Packed {
    fn table(self) -> &'static str {
        match self {
            Self::Body => "packed_entry",
            Self::Record => "packed_log",
        }
    }
}

/// Stores `packed` for the row at `place`.
pub(super) fn insert(conn: &Connection, kind: Packed, place: Place, packed: &[u8]) -> Result<(), Failure> {
    let sql = format!("INSERT OR REPLACE INTO {} (place, bytes) VALUES (?1, ?2)", kind.table());
    conn.prepare_cached(&sql)?.execute(params![place, packed])?;
    Ok(())
}

/// Deletes the packed text of the row at `place`.
pub(super) fn remove(conn: &Connection, kind: Packed, place: Place) -> Result<(), Failure> {
    let sql = format!("DELETE FROM {} WHERE place = ?1", kind.table());
    conn.prepare_cached(&sql)?.execute([place])?;
    Ok(())
}

/// Passes every packed text to `look`, with the row to which it belongs.
pub(super) fn each(
    conn: &Connection,
    kind: Packed,
    mut look: impl FnMut(Place, Result<String, String>),
) -> Result<(), Failure> {
    let mut statement = conn.prepare(&format!("SELECT place, bytes FROM {} ORDER BY place", kind.table()))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let bytes = row
            .get_ref(1)?
            .as_blob()
            .map_err(|error| damaged("a packed text", error))?;
        look(row.get(0)?, unpack(bytes));
    }
    Ok(())
}
