//! The filters of a query in SQL.

use folio_memory::terms::context_term;
use folio_memory::{Entry, EntryQuery, Order, Seq, Timestamp};

use super::column::{Statement, Value, count, encode_text};
use super::entry::from_row;
use super::error::Failure;
use super::session::Session;
use crate::cursor::list::After;
use crate::place::to_column;

/// How far the entries of a word are counted to see which word has fewer.
const MAX_COUNTED: i64 = 5_000;
/// How many entries are read at a time while the best of all are searched for.
const AT_A_TIME: i64 = 4_096;

/// The columns that [`from_row`] reads.
const COLUMNS: &str = "entry.number, entry.id, entry.page_id, entry.kind, entry.version, entry.created_at, entry.updated_at, \
                       entry.created_seq, entry.updated_seq, entry.fields, entry.packed";

/// The state of memory that the query is about.
#[derive(Debug)]
pub(super) struct When<'w> {
    pub(super) as_of: Seq,
    pub(super) now: Timestamp,
    /// The numbers of the entries that have changed since.
    pub(super) changed: &'w [u64],
}

/// The conditions of a query, except for entries that have changed since.
#[derive(Debug)]
pub(super) struct Filter<'q> {
    query: &'q EntryQuery,
    when: When<'q>,
    page: Option<u64>,
    /// The rarest word, which leads to the entries.
    led: Option<String>,
    terms: Vec<String>,
}

impl<'q> Filter<'q> {
    /// All conditions of `query`; those on its context only if `by_context`.
    pub(super) async fn of(
        session: &Session,
        query: &'q EntryQuery,
        page: Option<u64>,
        when: When<'q>,
        by_context: bool,
    ) -> Result<Self, Failure> {
        let mut terms = required(query, by_context);
        let led = rarest(session, &terms).await?;
        terms.retain(|term| led.as_ref() != Some(term));
        Ok(Self {
            query,
            when,
            page,
            led,
            terms,
        })
    }

    /// The first `limit` entries after the position at which the list continues.
    pub(super) async fn first(
        &self,
        session: &Session,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        // Which entries these are is found first; only they are read completely.
        let mut inner = Statement::default();
        inner.push(
            &format!("SELECT {COLUMNS} FROM (SELECT {} AS found FROM ", self.number()),
            [],
        );
        self.push_conditions(&mut inner, session);
        if let Some(after) = after {
            self.push_beyond(&mut inner, after);
        }
        inner.push(" ORDER BY ", []);
        self.push_order(&mut inner);
        inner.push(" LIMIT ?", [Value::count(limit as u64)]);
        inner.push(
            ") AS those JOIN entry ON entry.space = ? AND entry.number = those.found",
            [Value::Int(session.space.0)],
        );
        let mut entries = Vec::new();
        for row in session.ask(&inner).await? {
            entries.push(from_row(&row)?);
        }
        entries.sort_by(|a, b| self.query.compare(a, b));
        Ok(entries)
    }

    /// The number of matching entries.
    pub(super) async fn count(&self, session: &Session) -> Result<u64, Failure> {
        let mut statement = Statement::default();
        statement.push("SELECT count(*) FROM ", []);
        self.push_conditions(&mut statement, session);
        let rows = session.ask(&statement).await?;
        rows.first().map_or(Ok(0), |row| count(row, 0))
    }

    /// The same two answers where only the whole entry tells whether it `matches`.
    pub(super) async fn scan(
        &self,
        session: &Session,
        limit: usize,
        matches: impl Fn(&Entry) -> bool,
        comes_after: impl Fn(&Entry) -> bool,
    ) -> Result<(Vec<Entry>, u64), Failure> {
        let (mut entries, mut total, mut last) = (Vec::new(), 0, 0);
        loop {
            let mut statement = Statement::default();
            statement.push(&format!("SELECT {COLUMNS} FROM "), []);
            self.push_conditions(&mut statement, session);
            statement.push(
                &format!(" AND {0} > ? ORDER BY {0} LIMIT ?", self.number()),
                [Value::count(last), Value::Int(AT_A_TIME)],
            );
            let rows = session.ask(&statement).await?;
            for row in &rows {
                let entry = from_row(row)?;
                last = entry.handle.0;
                if matches(&entry) {
                    total += 1;
                    if comes_after(&entry) {
                        entries.push(entry);
                    }
                }
            }
            entries.sort_by(|a, b| self.query.compare(a, b));
            entries.truncate(limit);
            if i64::try_from(rows.len()).unwrap_or(i64::MAX) < AT_A_TIME {
                return Ok((entries, total));
            }
        }
    }

    /// The column that gives the order of rows.
    fn number(&self) -> &'static str {
        if self.led.is_some() {
            "led.number"
        } else {
            "entry.number"
        }
    }

    fn push_conditions(&self, statement: &mut Statement, session: &Session) {
        let space = Value::Int(session.space.0);
        match &self.led {
            Some(term) => statement.push(
                "entry_term AS led JOIN entry ON entry.space = led.space AND entry.number = led.number
                 WHERE led.space = ? AND led.term = ?",
                [space, Value::Text(encode_text(term).into_owned())],
            ),
            None => statement.push("entry WHERE entry.space = ?", [space]),
        }
        if let Some(page) = self.page {
            statement.push(" AND entry.page = ?", [Value::count(page)]);
        }
        let has = if self.led.is_some() { Has::LookedUp } else { Has::Joined };
        push_wanted(statement, self.query, self.when.as_of, self.when.now, &self.terms, has);
        push_without(statement, self.when.changed);
    }

    fn push_order(&self, statement: &mut Statement) {
        let number = self.number();
        match self.query.order {
            Order::Relevance | Order::Newest => statement.push(&format!("{number} DESC"), []),
            Order::Oldest => statement.push(number, []),
            Order::LastChanged => {
                let change = "entry.updated_at DESC, entry.updated_seq DESC";
                statement.push(&format!("{change}, {number} DESC"), []);
            }
            Order::Priority => {
                self.push_rank(statement);
                statement.push(&format!(", {SURENESS} DESC, {number} DESC"), []);
            }
        }
    }

    /// The rank of a row's type.
    fn push_rank(&self, statement: &mut Statement) {
        let ranks = &self.query.ranks;
        statement.push("CASE entry.type", []);
        for (name, rank) in &ranks.known {
            statement.push(
                &format!(" WHEN ? THEN {rank}"),
                [Value::Text(encode_text(name).into_owned())],
            );
        }
        if ranks.known.is_empty() {
            // A CASE needs at least one WHEN.
            statement.push(&format!(" WHEN NULL THEN {}", ranks.other), []);
        }
        statement.push(&format!(" ELSE {} END", ranks.other), []);
    }

    /// The condition for rows behind `after`.
    fn push_beyond(&self, statement: &mut Statement, after: After) {
        let (number, place) = (self.number(), Value::count(after.number));
        match self.query.order {
            Order::Relevance | Order::Newest => statement.push(&format!(" AND {number} < ?"), [place]),
            Order::Oldest => statement.push(&format!(" AND {number} > ?"), [place]),
            Order::LastChanged => {
                let (at, seq) = after.last_change.unwrap_or((Timestamp::MIN, Seq(0)));
                statement.push(
                    &format!(" AND (entry.updated_at, entry.updated_seq, {number}) < (?, ?, ?)"),
                    [Value::Int(at.as_nanos()), Value::count(seq.0), place],
                );
            }
            Order::Priority => {
                statement.push(" AND (", []);
                self.push_rank(statement);
                statement.push(
                    &format!(", -{SURENESS}, -{number}) > (?, ?, ?)"),
                    [
                        Value::Int(i64::from(after.rank)),
                        Value::Real(-after.sureness),
                        Value::Int(-to_column(after.number)),
                    ],
                );
            }
        }
    }
}

/// The first `limit` entries with numbers from the first to the second of `range` that match `query`, which may ask for
/// a page. They are read one after the other, so only a few numbers should lie between.
pub(super) async fn nearby(
    session: &Session,
    (query, page): (&EntryQuery, Option<u64>),
    range: (u64, u64),
    when: &When<'_>,
    limit: usize,
) -> Result<Vec<Entry>, Failure> {
    let mut statement = Statement::default();
    statement.push(
        &format!("SELECT {COLUMNS} FROM entry WHERE entry.space = ? AND entry.number BETWEEN ? AND ?"),
        [
            Value::Int(session.space.0),
            Value::count(range.0),
            Value::count(range.1),
        ],
    );
    if let Some(page) = page {
        statement.push(" AND entry.page = ?", [Value::count(page)]);
    }
    push_wanted(
        &mut statement,
        query,
        when.as_of,
        when.now,
        &required(query, false),
        Has::LookedUp,
    );
    push_without(&mut statement, when.changed);
    let direction = match query.order {
        Order::Oldest => "",
        _ => " DESC",
    };
    statement.push(&format!(" ORDER BY entry.number{direction}"), []);
    if query.context.is_empty() {
        statement.push(" LIMIT ?", [Value::count(limit as u64)]);
    }
    let mut entries = Vec::new();
    for row in session.ask(&statement).await? {
        let entry = from_row(&row)?;
        // Not every value in a context has a term.
        if query.context.is_empty() || query.matches(&entry, when.now) {
            entries.push(entry);
        }
    }
    entries.truncate(limit);
    Ok(entries)
}

const SURENESS: &str = "coalesce(entry.confidence, 0.0::float8)";

/// How the terms of an entry are looked up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Has {
    /// For each entry that another condition leads to. Joined with all that have the term, a list would cost the
    /// product of both as long as PostgreSQL does not know how many there are.
    LookedUp,
    /// As PostgreSQL decides: the term may lead to the entries.
    Joined,
}

/// The conditions on a wanted row, with the words in `terms`.
pub(super) fn push_wanted(
    statement: &mut Statement,
    query: &EntryQuery,
    as_of: Seq,
    now: Timestamp,
    terms: &[String],
    has: Has,
) {
    let mut any_of = |column: &str, values: Vec<String>| {
        if !values.is_empty() {
            statement.push(&format!(" AND entry.{column} = ANY(?)"), [Value::Texts(values)]);
        }
    };
    any_of(
        "kind",
        query.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
    );
    any_of(
        "type",
        query.types.iter().map(|name| encode_text(name).into_owned()).collect(),
    );
    any_of(
        "owner",
        query
            .owner
            .iter()
            .map(|owner| encode_text(owner.as_str()).into_owned())
            .collect(),
    );
    any_of(
        "status",
        query.status.iter().map(|status| status.as_str().to_owned()).collect(),
    );
    if !query.types_none.is_empty() {
        let names = query.types_none.iter().map(|name| encode_text(name).into_owned());
        statement.push(
            " AND (entry.type IS NULL OR entry.type <> ALL(?))",
            [Value::Texts(names.collect())],
        );
    }
    if !query.kinds.is_empty() && query.kinds.iter().all(|kind| kind.is_memory()) {
        // In the words of the partial index.
        statement.push(" AND entry.kind NOT IN ('log', 'step', 'summary')", []);
    }
    if query.status.is_empty() {
        statement.push(" AND entry.status <> 'archived'", []);
    }
    for term in terms {
        push_words(statement, "EXISTS", has, vec![encode_text(term).into_owned()]);
    }
    let texts = |tags: &[folio_memory::Tag]| {
        tags.iter()
            .map(|tag| encode_text(tag.as_str()).into_owned())
            .collect::<Vec<_>>()
    };
    if !query.tags_any.is_empty() {
        push_words(statement, "EXISTS", has, texts(&query.tags_any));
    }
    if !query.tags_none.is_empty() {
        push_words(statement, "NOT EXISTS", has, texts(&query.tags_none));
    }
    if let Some(least) = query.min_confidence {
        statement.push(" AND entry.confidence >= ?", [Value::Real(least)]);
    }
    if let Some(pinned) = query.pinned {
        statement.push(
            if pinned {
                " AND entry.pinned"
            } else {
                " AND NOT entry.pinned"
            },
            [],
        );
    }
    if let Some(since) = query.since {
        statement.push(" AND entry.updated_seq > ?", [Value::count(since.0)]);
    }
    statement.push(" AND entry.created_seq <= ?", [Value::count(as_of.0)]);
    if !query.include_expired {
        let alive =
            " AND (entry.expires_at IS NULL OR entry.expires_at > ? OR entry.pinned OR entry.status = 'archived')";
        statement.push(alive, [Value::Int(now.as_nanos())]);
    }
    if !query.include_superseded {
        statement.push(" AND (NOT entry.superseded OR entry.status = 'archived')", []);
    }
}

/// Excludes the rows with `numbers`.
pub(super) fn push_without(statement: &mut Statement, numbers: &[u64]) {
    if !numbers.is_empty() {
        let numbers = numbers.iter().map(|number| to_column(*number)).collect();
        statement.push(" AND entry.number <> ALL(?)", [Value::Ints(numbers)]);
    }
}

/// Restricts the rows to entries that are, or are not, found by one of `terms`.
fn push_words(statement: &mut Statement, exists: &str, has: Has, terms: Vec<String>) {
    // A subquery with an offset is not joined.
    let offset = match has {
        Has::LookedUp => " OFFSET 0",
        Has::Joined => "",
    };
    let condition = format!(
        " AND {exists} (SELECT 1 FROM entry_term AS has WHERE has.space = entry.space AND has.number = entry.number
          AND has.term = ANY(?){offset})"
    );
    statement.push(&condition, [Value::Texts(terms)]);
}

/// The words that every matching entry must have.
pub(super) fn required(query: &EntryQuery, by_context: bool) -> Vec<String> {
    let tags = query.tags.iter().map(|tag| tag.as_str().to_owned());
    let context = query.context.iter().filter(|_| by_context);
    tags.chain(context.filter_map(|(path, value)| context_term(path, value)))
        .collect()
}

/// The one of `terms` that the fewest entries have, as far as counting is worth it.
async fn rarest(session: &Session, terms: &[String]) -> Result<Option<String>, Failure> {
    if terms.len() < 2 {
        return Ok(terms.first().cloned());
    }
    let sql = "SELECT count(*) FROM (SELECT 1 FROM entry_term WHERE space = $1 AND term = $2 LIMIT $3) AS found";
    let mut best: Option<(u64, &String)> = None;
    for term in terms {
        let row = session
            .one(sql, &[&session.space.0, &encode_text(term).as_ref(), &MAX_COUNTED])
            .await?;
        let found = row.map_or(Ok(0), |row| count(&row, 0))?;
        if best.as_ref().is_none_or(|(fewest, _)| found < *fewest) {
            best = Some((found, term));
        }
    }
    Ok(best.map(|(_, term)| term.clone()))
}
