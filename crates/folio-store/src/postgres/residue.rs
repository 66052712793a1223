//! Checks whether texts that should be gone are gone from the rows of a space.
//!
//! Rows are searched in their unpacked form. The files of the server are out of reach: erased content remains in them
//! until the server reuses its space, and in its write-ahead log and backups for as long as those are kept.

use tokio_postgres::Row;

use super::column::{count, get};
use super::error::Failure;
use super::journal::RECORD_BYTES;
use super::lookup::last_of_part;
use super::session::Session;
use crate::body::unpack;
use crate::place::to_column;
use crate::store::CHANGES_BYTES;
use crate::text_search::{SearchTexts, report_place, searchable_texts};
use crate::upkeep::Residue;

/// How many rows are read at a time.
const AT_A_TIME: i64 = 500;

/// A table that is read in the order of a number: the name of its rows, the column of the number, and the columns with
/// texts: one before them that may be packed, and one behind them that may hold any bytes. And roughly how many bytes
/// these have.
struct Numbered {
    name: &'static str,
    table: &'static str,
    number: &'static str,
    bytes: &'static str,
    sql: &'static str,
}

const NUMBERED: [Numbered; 6] = [
    Numbered {
        name: "e",
        table: "entry",
        number: "number",
        bytes: "octet_length(fields)::bigint + 6 * coalesce(octet_length(packed), 0)",
        sql: "SELECT number, packed, concat_ws(E'\\n', fields, type, owner) FROM entry",
    },
    Numbered {
        name: "commit ",
        table: "log",
        number: "seq",
        bytes: RECORD_BYTES,
        sql: "SELECT seq, packed, concat_ws(E'\\n', record, actor), key FROM log",
    },
    Numbered {
        name: "p",
        table: "page",
        number: "number",
        bytes: "octet_length(fields)::bigint",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', fields, thread) FROM page",
    },
    Numbered {
        name: "r",
        table: "run",
        number: "number",
        bytes: "octet_length(title)::bigint",
        sql: "SELECT number, NULL::bytea, title FROM run",
    },
    Numbered {
        name: "turn t",
        table: "turn",
        number: "number",
        bytes: "octet_length(begun)::bigint + coalesce(octet_length(ended), 0)",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', begun, ended, thread) FROM turn",
    },
    Numbered {
        name: "note ",
        table: "trace",
        number: "number",
        bytes: "octet_length(note)::bigint",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', note, component) FROM trace",
    },
];

/// Searches for `texts` in the rows of the space.
pub(super) async fn search(session: &Session, texts: &[String]) -> Result<Residue, Failure> {
    let texts = SearchTexts::of(searchable_texts(texts));
    let mut residue = Residue::default();
    let bytes = i64::try_from(CHANGES_BYTES).unwrap_or(i64::MAX);
    for table in &NUMBERED {
        let number = table.number;
        let part = last_of_part(table.table, number, table.bytes);
        let sql = format!(
            "{} WHERE space = $1 AND {number} > $2 AND {number} <= ({part}) ORDER BY {number}",
            table.sql
        );
        let mut last = 0;
        loop {
            let rows = session
                .query(&sql, &[&session.space.0, &to_column(last), &AT_A_TIME, &bytes])
                .await?;
            let Some(end) = rows.last() else { break };
            last = count(end, 0)?;
            for row in &rows {
                if row_contains(row, &texts)? {
                    report_place(&mut residue, format!("{}{}", table.name, count(row, 0)?));
                }
            }
        }
    }
    let whole = [
        (
            "the words that entries are found by",
            "SELECT term FROM entry_term WHERE space = $1",
        ),
        ("the policy", "SELECT policy FROM policy WHERE space = $1"),
    ];
    for (name, sql) in whole {
        for row in session.query(sql, &[&session.space.0]).await? {
            if texts.are_in(get::<&str>(&row, 0)?.as_bytes()) {
                report_place(&mut residue, name.to_owned());
            }
        }
    }
    bodies(session, &texts, &mut residue).await?;
    residue
        .searched
        .push("every row of the space in the database".to_owned());
    Ok(residue)
}

async fn bodies(session: &Session, texts: &SearchTexts<'_>, residue: &mut Residue) -> Result<(), Failure> {
    let sql = "SELECT hash, size, encoding, bytes FROM blob WHERE space = $1 AND hash > $2 ORDER BY hash LIMIT 1";
    let mut last = Vec::new();
    while let Some(row) = session.one(sql, &[&session.space.0, &last]).await? {
        last = get(&row, 0)?;
        // A body that cannot be unpacked is not searched; the doctor reports it.
        let bytes = unpack(&last, count(&row, 1)?, get(&row, 2)?, get(&row, 3)?).unwrap_or_default();
        if texts.are_in(&bytes) {
            report_place(residue, "a body".to_owned());
        }
    }
    Ok(())
}

fn row_contains(row: &Row, texts: &SearchTexts<'_>) -> Result<bool, Failure> {
    let plain: &str = get(row, 2)?;
    let packed = get::<Option<&[u8]>>(row, 1)?.map(crate::packed::unpack);
    let packed = packed.and_then(Result::ok).unwrap_or_default();
    // A key is stored as bytes as it was given, because the server's texts cannot hold every key.
    let bytes: Option<&[u8]> = if row.len() > 3 { get(row, 3)? } else { None };
    Ok(texts.are_in(plain.as_bytes()) || texts.are_in(packed.as_bytes()) || bytes.is_some_and(|key| texts.are_in(key)))
}
