//! How many entries are linked to a goal or a pending action: counted from the index of words and the columns of their
//! rows, so that none of them is read.

use folio_memory::goals::{GoalNames, Linked, LinkedCounts};
use folio_memory::terms::MORE;
use folio_memory::{Relation, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::entry::{self, COLUMNS, from_row};
use super::error::{Failure, damaged, json_or_damaged};
use super::link;
use super::place::{Place, SpaceId};
use crate::linked::{Counted, Rest};

const LABEL: &str = "an entry that is linked to a goal";

/// What counts of an entry: its columns, and the part of its fields that is a [`Rest`].
const WHAT_COUNTS: &str = "kind, type, status, (expires_at IS NOT NULL AND expires_at <= ? AND NOT pinned), superseded, \
                           json_extract(fields, '$.archived_for', '$.outcome', '$.erased', '$.source.channel')";

/// How many entries are linked to `goal` at `now`. `terms` are those of its names.
pub(super) fn counts(
    conn: &Connection,
    space: SpaceId,
    (goal, terms): (&GoalNames, &[String]),
    now: Timestamp,
) -> Result<LinkedCounts, Failure> {
    let evidence = evidence_for(conn, space, goal)?;
    let mut counts = LinkedCounts::default();
    if evidence != "[]" {
        let sql = format!(
            "SELECT {WHAT_COUNTS}, count(*) FROM entry WHERE place IN (SELECT value FROM json_each(?)) GROUP BY 1, 2, 3, 4, 5, 6"
        );
        let values = [Value::from(now.as_nanos()), evidence.clone().into()];
        add_rows(conn, &sql, values.into_iter(), &mut counts)?;
    }
    let marks = vec!["?"; terms.len()].join(", ");
    let names = || terms.iter().map(|term| Value::from(term.clone()));
    let range = || [Place::start(space), Place::end(space)].map(|place| Value::Integer(place.raw()));
    // An entry has one value at the path, and so at most one of the terms. An expired one and, unless it is archived, a
    // superseded one is found in no list.
    let sql = format!(
        "SELECT {WHAT_COUNTS}, count(*) FROM entry_term AS led CROSS JOIN entry ON entry.place = led.entry
         WHERE led.term IN ({marks}) AND led.entry BETWEEN ? AND ? AND kind <> ?
         AND (expires_at IS NULL OR expires_at > ? OR pinned OR status = 'archived')
         AND (NOT superseded OR status = 'archived')
         AND led.entry NOT IN (SELECT value FROM json_each(?)) GROUP BY 1, 2, 3, 4, 5, 6"
    );
    let values = std::iter::once(now.as_nanos().into())
        .chain(names())
        .chain(range())
        .chain([
            goal.kind.as_str().to_owned().into(),
            now.as_nanos().into(),
            evidence.clone().into(),
        ]);
    add_rows(conn, &sql, values, &mut counts)?;
    if entry::is_any_found_by(conn, space, MORE)? {
        let sql = format!(
            "SELECT {COLUMNS} FROM entry WHERE place IN (SELECT entry FROM entry_term WHERE term = ? AND entry BETWEEN ? AND ?)
             AND NOT EXISTS (SELECT 1 FROM entry_term WHERE term IN ({marks}) AND entry = place)
             AND place NOT IN (SELECT value FROM json_each(?))"
        );
        let values = std::iter::once(MORE.to_owned().into())
            .chain(range())
            .chain(names())
            .chain([evidence.into()]);
        add_matching(conn, (&sql, values), goal, now, &mut counts)?;
    }
    Ok(counts)
}

/// The places of the entries that are evidence for `goal`, as a list in JSON.
fn evidence_for(conn: &Connection, space: SpaceId, goal: &GoalNames) -> Result<String, Failure> {
    let mut places = Vec::new();
    for id in link::leading_to(conn, space, Relation::EvidenceFor, goal.id)? {
        let place = entry::place_of(conn, space, id)?;
        places.extend(place.map(|place| place.raw().to_string()));
    }
    Ok(format!("[{}]", places.join(",")))
}

/// Adds the rows of a count.
fn add_rows(
    conn: &Connection,
    sql: &str,
    values: impl Iterator<Item = Value>,
    counts: &mut LinkedCounts,
) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next().map_err(|error| json_or_damaged(LABEL, error))? {
        let (linked, count) = counted(row)?;
        counts.add(linked, super::place::from_column(count));
    }
    Ok(())
}

fn counted(row: &Row<'_>) -> Result<(Linked, i64), Failure> {
    let wrong = |error: &dyn std::fmt::Display| damaged(LABEL, error);
    let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let (archived_for, outcome, erased, channel): Rest =
        serde_json::from_str(text(5)?).map_err(|error| wrong(&error))?;
    let counted = Counted {
        kind: text(0)?,
        type_name: row.get(1)?,
        status: text(2)?,
        is_over: row.get(3)?,
        is_superseded: row.get(4)?,
        archived_for,
        outcome,
        is_erased: erased.is_some(),
        channel: channel.as_deref(),
    };
    let linked = counted
        .linked()
        .ok_or_else(|| wrong(&"its kind or its status is unknown"))?;
    Ok((linked, row.get(6)?))
}

/// Adds the entries of a statement that have a name of `goal` where no term tells.
fn add_matching(
    conn: &Connection,
    (sql, values): (&str, impl Iterator<Item = Value>),
    goal: &GoalNames,
    now: Timestamp,
    counts: &mut LinkedCounts,
) -> Result<(), Failure> {
    let queries: Vec<_> = goal.queries().collect();
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let entry = from_row(row)?;
        if entry.kind != goal.kind && queries.iter().any(|query| query.matches(&entry, now)) {
            counts.add(Linked::of(&entry, now), 1);
        }
    }
    Ok(())
}
