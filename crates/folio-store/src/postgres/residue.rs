//! Whether texts that should be gone are, in the rows of a space.
//!
//! Rows are looked at as they are read, unpacked. The files of the server are out of reach: what was there before lies in them
//! until the server gives its place to something else, and in its write-ahead log and copies for as long as those are kept.

use tokio_postgres::Row;

use super::column::{count, get};
use super::error::Failure;
use super::session::Session;
use crate::body::unpack;
use crate::place::to_column;
use crate::said::{Wanted, looked_for, tell};
use crate::upkeep::Residue;

/// Rows that are read at a time.
const AT_A_TIME: i64 = 500;

/// A table that is read from one number to the next: what its rows are called, which column counts them, and which texts they
/// have, one that may be packed before them, and behind them one that may hold any byte.
struct Numbered {
    name: &'static str,
    number: &'static str,
    sql: &'static str,
}

const NUMBERED: [Numbered; 6] = [
    Numbered {
        name: "e",
        number: "number",
        sql: "SELECT number, packed, concat_ws(E'\\n', fields, type, owner) FROM entry",
    },
    Numbered {
        name: "commit ",
        number: "seq",
        sql: "SELECT seq, packed, concat_ws(E'\\n', record, actor), key FROM log",
    },
    Numbered {
        name: "p",
        number: "number",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', fields, thread) FROM page",
    },
    Numbered {
        name: "r",
        number: "number",
        sql: "SELECT number, NULL::bytea, title FROM run",
    },
    Numbered {
        name: "turn t",
        number: "number",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', begun, ended, thread) FROM turn",
    },
    Numbered {
        name: "note ",
        number: "number",
        sql: "SELECT number, NULL::bytea, concat_ws(E'\\n', note, component) FROM trace",
    },
];

/// Looks for `texts` in what the space has.
pub(super) async fn search(session: &Session, texts: &[String]) -> Result<Residue, Failure> {
    let texts = Wanted::of(looked_for(texts));
    let mut residue = Residue::default();
    for table in &NUMBERED {
        let sql = format!(
            "{} WHERE space = $1 AND {1} > $2 ORDER BY {1} LIMIT $3",
            table.sql, table.number
        );
        let mut last = 0;
        loop {
            let rows = session
                .query(&sql, &[&session.space.0, &to_column(last), &AT_A_TIME])
                .await?;
            let Some(end) = rows.last() else { break };
            last = count(end, 0)?;
            for row in &rows {
                if says(row, &texts)? {
                    tell(&mut residue, format!("{}{}", table.name, count(row, 0)?));
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
                tell(&mut residue, name.to_owned());
            }
        }
    }
    bodies(session, &texts, &mut residue).await?;
    residue
        .searched
        .push("every row of the space in the database".to_owned());
    Ok(residue)
}

async fn bodies(session: &Session, texts: &Wanted<'_>, residue: &mut Residue) -> Result<(), Failure> {
    let sql = "SELECT hash, size, encoding, bytes FROM blob WHERE space = $1 AND hash > $2 ORDER BY hash LIMIT 1";
    let mut last = Vec::new();
    while let Some(row) = session.one(sql, &[&session.space.0, &last]).await? {
        last = get(&row, 0)?;
        // What cannot be unpacked says nothing; the doctor tells of it.
        let bytes = unpack(&last, count(&row, 1)?, get(&row, 2)?, get(&row, 3)?).unwrap_or_default();
        if texts.are_in(&bytes) {
            tell(residue, "a body".to_owned());
        }
    }
    Ok(())
}

fn says(row: &Row, texts: &Wanted<'_>) -> Result<bool, Failure> {
    let plain: &str = get(row, 2)?;
    let packed = get::<Option<&[u8]>>(row, 1)?.map(crate::packed::unpack);
    let packed = packed.and_then(Result::ok).unwrap_or_default();
    // Of a key it is kept what was given, which no text of the server may be.
    let bytes: Option<&[u8]> = if row.len() > 3 { get(row, 3)? } else { None };
    Ok(texts.are_in(plain.as_bytes()) || texts.are_in(packed.as_bytes()) || bytes.is_some_and(|key| texts.are_in(key)))
}
