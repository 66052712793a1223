//! How many entries are linked to a goal or a pending action: counted from the index of words and the columns of their
//! rows, so that none of them is read.

use std::collections::HashMap;

use folio_memory::goals::{GoalNames, Linked, LinkedCounts};
use folio_memory::terms::MORE;
use folio_memory::{EntryId, Relation, Timestamp};
use tokio_postgres::Row;

use super::column::{Statement, Value, count, decode_text, encode_text, get};
use super::entry::{self, COLUMNS, from_row};
use super::error::{Failure, damaged};
use super::link;
use super::session::Session;
use crate::linked::{Counted, Rest};

/// How many entries are read at a time whose words do not tell everything.
const AT_A_TIME: usize = 1_000;

/// What counts of an entry: its columns, and a part of its fields as a [`Rest`]. JSON may hold a character that no text of
/// PostgreSQL can, so that is replaced by another.
const WHAT_COUNTS: &str = "entry.kind, entry.type, entry.status, \
    (entry.expires_at IS NOT NULL AND entry.expires_at <= ? AND NOT entry.pinned), entry.superseded, \
    CASE WHEN strpos(entry.fields, '\"archived_for\":') + strpos(entry.fields, '\"outcome\":') \
        + strpos(entry.fields, '\"erased\":') + strpos(entry.fields, '\"channel\":') > 0 \
    THEN (SELECT json_build_array(fields -> 'archived_for', fields -> 'outcome', fields -> 'erased', \
            fields -> 'source' -> 'channel')::text \
        FROM (SELECT replace(entry.fields, '\\u0000', '\\u0001')::json AS fields OFFSET 0) AS read) \
    END";

/// How many entries are linked to each of `goals` at `now`; each goal comes with the terms of its names.
pub(super) async fn counts(
    session: &Session,
    goals: &[(GoalNames, Vec<String>)],
    now: Timestamp,
) -> Result<Vec<LinkedCounts>, Failure> {
    let ids: Vec<EntryId> = goals.iter().map(|(goal, _)| goal.id).collect();
    let mut evidence = match ids[..] {
        [] => HashMap::new(),
        _ => link::leading_to(session, Relation::EvidenceFor, &ids).await?,
    };
    let is_told = !entry::is_any_found_by(session, MORE).await?;
    let mut all = Vec::with_capacity(goals.len());
    for (goal, terms) in goals {
        let sources = evidence.remove(&goal.id).unwrap_or_default();
        let asked = Asked {
            session,
            goal,
            terms: terms.iter().map(|term| encode_text(term).into_owned()).collect(),
            evidence: sources.iter().map(|id| id.to_bytes().to_vec()).collect(),
            now,
        };
        let mut counts = LinkedCounts::default();
        asked.add_evidence(&mut counts).await?;
        asked.add_named(&mut counts).await?;
        if !is_told {
            asked.add_untold(&mut counts).await?;
        }
        all.push(counts);
    }
    Ok(all)
}

/// One goal whose linked entries are counted.
struct Asked<'a> {
    session: &'a Session,
    goal: &'a GoalNames,
    /// The terms of its names, as columns have them.
    terms: Vec<String>,
    /// The ids of the entries that are evidence for it.
    evidence: Vec<Vec<u8>>,
    now: Timestamp,
}

impl Asked<'_> {
    fn now(&self) -> Value {
        Value::Int(self.now.as_nanos())
    }

    async fn add_evidence(&self, counts: &mut LinkedCounts) -> Result<(), Failure> {
        if self.evidence.is_empty() {
            return Ok(());
        }
        let mut statement = Statement::default();
        statement.push(&format!("SELECT {WHAT_COUNTS}, count(*) FROM entry"), [self.now()]);
        statement.push(
            " WHERE entry.space = ? AND entry.id = ANY(?) GROUP BY 1, 2, 3, 4, 5, 6",
            [
                Value::Int(self.session.space.0),
                Value::ByteStrings(self.evidence.clone()),
            ],
        );
        self.add_rows(&statement, counts).await
    }

    /// Those that have a name of it in their context. An entry has one value at the path, and so at most one of the
    /// terms. An expired one and, unless it is archived, a superseded one is found in no list.
    async fn add_named(&self, counts: &mut LinkedCounts) -> Result<(), Failure> {
        let mut statement = Statement::default();
        statement.push(
            &format!("SELECT {WHAT_COUNTS}, count(*) FROM entry_term AS led"),
            [self.now()],
        );
        statement.push(
            " JOIN entry ON entry.space = led.space AND entry.number = led.number
             WHERE led.space = ? AND led.term = ANY(?) AND entry.kind <> ?
             AND (entry.expires_at IS NULL OR entry.expires_at > ? OR entry.pinned OR entry.status = 'archived')
             AND (NOT entry.superseded OR entry.status = 'archived')",
            [
                Value::Int(self.session.space.0),
                Value::Texts(self.terms.clone()),
                Value::Text(self.goal.kind.as_str().to_owned()),
                self.now(),
            ],
        );
        self.push_without_evidence(&mut statement);
        statement.push(" GROUP BY 1, 2, 3, 4, 5, 6", []);
        self.add_rows(&statement, counts).await
    }

    /// Those of which no term tells whether they have a name of it.
    async fn add_untold(&self, counts: &mut LinkedCounts) -> Result<(), Failure> {
        let queries: Vec<_> = self.goal.queries().collect();
        let columns: Vec<_> = COLUMNS.split(", ").map(|column| format!("entry.{column}")).collect();
        let mut last = 0;
        loop {
            let mut statement = Statement::default();
            statement.push(&format!("SELECT {} FROM entry_term AS more", columns.join(", ")), []);
            statement.push(
                " JOIN entry ON entry.space = more.space AND entry.number = more.number
                 WHERE more.space = ? AND more.term = ? AND more.number > ? AND NOT EXISTS (SELECT 1 FROM entry_term AS led
                     WHERE led.space = more.space AND led.number = more.number AND led.term = ANY(?))",
                [
                    Value::Int(self.session.space.0),
                    Value::Text(MORE.to_owned()),
                    Value::count(last),
                    Value::Texts(self.terms.clone()),
                ],
            );
            self.push_without_evidence(&mut statement);
            statement.push(" ORDER BY more.number LIMIT ?", [Value::count(AT_A_TIME as u64)]);
            let rows = self.session.ask(&statement).await?;
            for row in &rows {
                let entry = from_row(row)?;
                last = entry.handle.0;
                let is_named = queries.iter().any(|query| query.matches(&entry, self.now));
                if is_named && entry.kind != self.goal.kind {
                    counts.add(Linked::of(&entry, self.now), 1);
                }
            }
            if rows.len() < AT_A_TIME {
                return Ok(());
            }
        }
    }

    fn push_without_evidence(&self, statement: &mut Statement) {
        if !self.evidence.is_empty() {
            statement.push(
                " AND NOT entry.id = ANY(?)",
                [Value::ByteStrings(self.evidence.clone())],
            );
        }
    }

    async fn add_rows(&self, statement: &Statement, counts: &mut LinkedCounts) -> Result<(), Failure> {
        for row in self.session.ask(statement).await? {
            counts.add(counted(&row)?, count(&row, 6)?);
        }
        Ok(())
    }
}

fn counted(row: &Row) -> Result<Linked, Failure> {
    let wrong = |error: &dyn std::fmt::Display| damaged("an entry that is linked to a goal", error);
    let rest: Option<&str> = get(row, 5)?;
    let rest = rest.map(serde_json::from_str::<Rest>).transpose();
    let (archived_for, outcome, erased, channel) = rest.map_err(|error| wrong(&error))?.unwrap_or_default();
    let counted = Counted {
        kind: get(row, 0)?,
        type_name: get::<Option<String>>(row, 1)?.map(decode_text),
        status: get(row, 2)?,
        is_over: get(row, 3)?,
        is_superseded: get(row, 4)?,
        archived_for,
        outcome,
        is_erased: erased.is_some(),
        channel: channel.as_deref(),
    };
    counted
        .linked()
        .ok_or_else(|| wrong(&"its kind or its status is unknown"))
}
