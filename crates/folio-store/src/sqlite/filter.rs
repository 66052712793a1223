//! The filters of a query in SQL.

use folio_memory::terms::context_term;
use folio_memory::{Entry, EntryKind, EntryQuery, Order, Seq, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Rows, params_from_iter};

use super::entry::{self, COLUMNS, IS_MEMORY_SQL, OF_RUNS, from_row, memory_kinds};
use super::error::Failure;
use super::page::place_value;
use super::place::{Place, SpaceId, to_column};
use crate::cursor::list::After;

/// How many entries are held while the best of all are searched for.
const KEPT: usize = 4_096;

/// How many newer entries can be looked at in the time that it takes to find one in the index of memory.
const NEWER: u64 = 16;

/// How far the entries of a word are counted to see which word has fewer.
const MAX_COUNTED: u32 = 5_000;

/// Conditions in SQL, with their values.
pub(super) struct Filter {
    /// The table or index to search for rows.
    rows: Conditions,
    /// The same rows in several parts, in each of which an index has them in the order of their numbers. Empty if there
    /// are no such parts.
    lanes: Vec<Conditions>,
    /// The conditions that wanted rows meet.
    wanted: Conditions,
}

/// The state of memory that the query is about.
pub(super) struct When<'q> {
    pub(super) as_of: Seq,
    pub(super) now: Timestamp,
    /// The entries that have changed since.
    pub(super) changed: &'q [Place],
}

#[derive(Clone, Default)]
pub(super) struct Conditions {
    table: &'static str,
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

const BY_NUMBER: &str = "entry";
/// Searched in the order of numbers only.
const ONLY_BY_NUMBER: &str = "entry NOT INDEXED";
const BY_WORD: &str = "entry_term AS led CROSS JOIN entry ON entry.place = led.entry";
/// The index with all columns by which memory is filtered, sorted by kind and page.
const BY_KIND: &str = "entry INDEXED BY entry_list";

impl Filter {
    /// All conditions of `query`, except for entries that have changed since; those on its context only if
    /// `by_context`.
    pub(super) fn of(
        conn: &Connection,
        space: SpaceId,
        query: &EntryQuery,
        page: Option<Place>,
        when: &When<'_>,
        by_context: bool,
    ) -> Result<Self, Failure> {
        let mut terms = required(query, by_context);
        let led = rarest(conn, space, &terms)?;
        terms.retain(|term| led.as_ref() != Some(term));
        let only_memory = !query.kinds.is_empty() && query.kinds.iter().all(|kind| kind.is_memory());
        let newer = query.since.filter(|_| led.is_none() && only_memory);
        let newer = newer.map(|since| newer_than(conn, space, since)).transpose()?.flatten();
        let only_of_runs = !query.kinds.is_empty() && query.kinds.iter().all(|kind| !kind.is_memory());
        let lanes = match page {
            Some(page) if led.is_none() && newer.is_none() => lanes(query, page),
            _ => Vec::new(),
        };
        let rows = match (&led, page) {
            // The rarest word leads to the entries.
            (Some(term), page) => led_by(space, term, page),
            // There is seldom much that is newer than a commit.
            (None, page) if only_memory => match newer {
                Some(newer) => newer.on(page),
                None => listed(space, page),
            },
            (None, Some(page)) if only_of_runs => written_on(page),
            (None, Some(page)) => on(page),
            (None, None) => numbered(space),
        };
        let mut conditions = Self::wanted(query, when.as_of, when.now, &terms);
        conditions.without(when.changed);
        Ok(Self {
            rows,
            lanes,
            wanted: conditions,
        })
    }

    /// The same as conditions on a row, with the words in `terms`.
    pub(super) fn wanted(query: &EntryQuery, as_of: Seq, now: Timestamp, terms: &[String]) -> Conditions {
        let mut filter = Conditions::default();
        filter.and_any_of("kind", query.kinds.iter().map(|kind| kind.as_str()));
        filter.and_any_of("type", query.types.iter().map(String::as_str));
        if !query.types_none.is_empty() {
            let marks = placeholders(query.types_none.len());
            let names = query.types_none.iter().map(|name| name.clone().into());
            filter.and(&format!("(type IS NULL OR type NOT IN ({marks}))"), names);
        }
        filter.and_any_of("owner", query.owner.iter().map(folio_memory::Owner::as_str));
        if query.status.is_empty() {
            filter.and("status <> 'archived'", []);
        }
        filter.and_any_of("status", query.status.iter().map(|status| status.as_str()));
        for term in terms {
            filter.and_words("EXISTS", std::slice::from_ref(term));
        }
        let texts = |tags: &[folio_memory::Tag]| tags.iter().map(|tag| tag.as_str().to_owned()).collect::<Vec<_>>();
        if !query.tags_any.is_empty() {
            filter.and_words("EXISTS", &texts(&query.tags_any));
        }
        if !query.tags_none.is_empty() {
            filter.and_words("NOT EXISTS", &texts(&query.tags_none));
        }
        if let Some(least) = query.min_confidence {
            filter.and("confidence >= ?", [least.into()]);
        }
        if let Some(pinned) = query.pinned {
            filter.and(if pinned { "pinned" } else { "NOT pinned" }, []);
        }
        if let Some(since) = query.since {
            filter.and("updated_seq > ?", [to_column(since.0).into()]);
        }
        filter.and("created_seq <= ?", [to_column(as_of.0).into()]);
        if !query.include_expired {
            let alive = "(expires_at IS NULL OR expires_at > ? OR pinned OR status = 'archived')";
            filter.and(alive, [now.as_nanos().into()]);
        }
        if !query.include_superseded {
            filter.and("(NOT superseded OR status = 'archived')", []);
        }
        filter
    }

    /// The first `limit` entries after the position at which the list continues.
    pub(super) fn first(
        &self,
        conn: &Connection,
        query: &EntryQuery,
        after: Option<After>,
        space: SpaceId,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let order = Ordered::of(query);
        let rest = after.map(|after| order.beyond(after, space)).unwrap_or_default();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        // Where possible, the index alone tells which entries these are, and only they are read.
        let order_by = &order.sql;
        if order.is_by_number() && !self.lanes.is_empty() {
            return self.first_of_lanes(conn, &rest, order_by, limit);
        }
        let conditions = [&self.rows, &self.wanted, &rest];
        let inner = match self.rows.table {
            // The columns as the index of words names them.
            BY_WORD => order_by.replace("place", "led.entry"),
            _ => order_by.clone(),
        };
        let places_sql = select("place", &conditions, &format!("ORDER BY {inner} LIMIT {limit}"));
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE place IN ({places_sql}) ORDER BY {order_by}");
        let mut statement = conn.prepare_cached(&sql)?;
        let all = values(&conditions).chain(&order.values).chain(&order.values);
        let rows = statement.query(params_from_iter(all))?;
        read_up_to(rows, usize::MAX, |_| true)
    }

    /// The same by number: the first ones of each lane, and of these the first ones.
    fn first_of_lanes(
        &self,
        conn: &Connection,
        rest: &Conditions,
        order_by: &str,
        limit: i64,
    ) -> Result<Vec<Entry>, Failure> {
        let lanes = self.lanes.iter().map(|lane| [lane, &self.wanted, rest]);
        let tail = format!("ORDER BY {order_by} LIMIT {limit}");
        let places_sql: Vec<_> = lanes
            .clone()
            .map(|conditions| format!("SELECT place FROM ({})", select("place", &conditions, &tail)))
            .collect();
        let places_sql = places_sql.join(" UNION ALL ");
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE place IN ({places_sql}) {tail}");
        let mut statement = conn.prepare_cached(&sql)?;
        let all = lanes.flatten().flat_map(|conditions| &conditions.values);
        read_up_to(statement.query(params_from_iter(all))?, usize::MAX, |_| true)
    }

    /// The number of matching entries.
    pub(super) fn count(&self, conn: &Connection) -> Result<u64, Failure> {
        let parts = match self.lanes[..] {
            [] => std::slice::from_ref(&self.rows),
            _ => &self.lanes,
        };
        let mut count = 0;
        for part in parts {
            let conditions = [part, &self.wanted];
            let mut statement = conn.prepare_cached(&select("count(*)", &conditions, ""))?;
            let counted = statement.query_row(params_from_iter(values(&conditions)), |row| row.get(0))?;
            count += super::place::from_column(counted);
        }
        Ok(count)
    }

    /// The same two answers where only the whole entry tells whether it `matches`.
    pub(super) fn scan(
        &self,
        conn: &Connection,
        query: &EntryQuery,
        limit: usize,
        matches: impl Fn(&Entry) -> bool,
        comes_after: impl Fn(&Entry) -> bool,
    ) -> Result<(Vec<Entry>, u64), Failure> {
        let conditions = [&self.rows, &self.wanted];
        let mut statement = conn.prepare_cached(&select(COLUMNS, &conditions, ""))?;
        let mut rows = statement.query(params_from_iter(values(&conditions)))?;
        let (mut entries, mut total) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let entry = from_row(row)?;
            if !matches(&entry) {
                continue;
            }
            total += 1;
            if comes_after(&entry) {
                entries.push(entry);
            }
            if entries.len() >= limit.max(KEPT) * 2 {
                entries.sort_by(|a, b| query.compare(a, b));
                entries.truncate(limit);
            }
        }
        entries.sort_by(|a, b| query.compare(a, b));
        entries.truncate(limit);
        Ok((entries, total))
    }
}

/// The first `limit` entries between the two places of `range` that match `query`, which may ask for a page. They are
/// read one after the other, so only a few places should lie between.
pub(super) fn nearby(
    conn: &Connection,
    (query, page): (&EntryQuery, Option<Place>),
    range: (Place, Place),
    when: &When<'_>,
    limit: usize,
) -> Result<Vec<Entry>, Failure> {
    let mut rows = Conditions {
        table: ONLY_BY_NUMBER,
        ..Conditions::default()
    };
    rows.and("place BETWEEN ? AND ?", [range.0, range.1].map(place_value));
    let rows = rows.on(page);
    let mut wanted = Filter::wanted(query, when.as_of, when.now, &required(query, false));
    wanted.without(when.changed);
    let conditions = [&rows, &wanted];
    let order = Ordered::of(query);
    let mut statement = conn.prepare_cached(&select(COLUMNS, &conditions, &format!("ORDER BY {}", order.sql)))?;
    let rows = statement.query(params_from_iter(values(&conditions)))?;
    read_up_to(rows, limit, |entry| {
        query.context.is_empty() || query.matches(entry, when.now)
    })
}

/// The entries in `rows` that are `wanted`, up to `limit` of them.
fn read_up_to(mut rows: Rows<'_>, limit: usize, wanted: impl Fn(&Entry) -> bool) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    while entries.len() < limit
        && let Some(row) = rows.next()?
    {
        let entry = from_row(row)?;
        if wanted(&entry) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// An order in SQL.
struct Ordered<'q> {
    query: &'q EntryQuery,
    sql: String,
    /// The values for `sql`.
    values: Vec<Value>,
}

impl<'q> Ordered<'q> {
    fn of(query: &'q EntryQuery) -> Self {
        let (sql, values) = match query.order {
            Order::Relevance | Order::Newest => ("place DESC".to_owned(), Vec::new()),
            Order::Oldest => ("place".to_owned(), Vec::new()),
            Order::LastChanged => ("updated_at DESC, updated_seq DESC, place DESC".to_owned(), Vec::new()),
            Order::Priority => {
                let (rank, values) = Self::rank(query);
                (format!("{rank}, {SURENESS} DESC, place DESC"), values)
            }
        };
        Self { query, sql, values }
    }

    fn is_by_number(&self) -> bool {
        matches!(self.query.order, Order::Relevance | Order::Newest | Order::Oldest)
    }

    /// The rank of a row's type.
    fn rank(query: &EntryQuery) -> (String, Vec<Value>) {
        let other = query.ranks.other;
        if query.ranks.known.is_empty() {
            // A bare number would mean the number of a column.
            return (format!("0 + {other}"), Vec::new());
        }
        let cases: Vec<_> = query
            .ranks
            .known
            .values()
            .map(|rank| format!("WHEN ? THEN {rank}"))
            .collect();
        let values = query.ranks.known.keys().map(|name| name.clone().into()).collect();
        (format!("CASE type {} ELSE {other} END", cases.join(" ")), values)
    }

    /// The condition for rows behind `after`.
    fn beyond(&self, after: After, space: SpaceId) -> Conditions {
        let mut rest = Conditions::default();
        let place = place_value(Place::of(space, after.number));
        match self.query.order {
            Order::Relevance | Order::Newest => rest.and("place < ?", [place]),
            Order::Oldest => rest.and("place > ?", [place]),
            Order::LastChanged => {
                let (at, seq) = after.last_change.unwrap_or((Timestamp::MIN, Seq(0)));
                let change = [at.as_nanos().into(), to_column(seq.0).into()];
                rest.and(
                    "(updated_at, updated_seq, place) < (?, ?, ?)",
                    change.into_iter().chain([place]),
                );
            }
            Order::Priority => {
                let (rank, names) = Self::rank(self.query);
                let values = names.into_iter().chain([
                    i64::from(after.rank).into(),
                    (-after.sureness).into(),
                    Value::Integer(-Place::of(space, after.number).raw()),
                ]);
                rest.and(&format!("({rank}, -{SURENESS}, -place) > (?, ?, ?)"), values);
            }
        }
        rest
    }
}

const SURENESS: &str = "coalesce(confidence, 0.0)";

impl Conditions {
    pub(super) fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        if !self.sql.is_empty() {
            self.sql += " AND ";
        }
        self.sql += condition;
        self.values.extend(values);
    }

    /// Restricts the conditions to the page at `page`, if one is given.
    fn on(mut self, page: Option<Place>) -> Self {
        if let Some(page) = page {
            self.and("page = ?", [place_value(page)]);
        }
        self
    }

    /// Restricts the conditions to entries that are not among `places`.
    fn without(&mut self, places: &[Place]) {
        if !places.is_empty() {
            let places: Vec<String> = places.iter().map(|place| place.raw().to_string()).collect();
            let places = format!("[{}]", places.join(","));
            self.and("place NOT IN (SELECT value FROM json_each(?))", [places.into()]);
        }
    }

    fn and_any_of<'v>(&mut self, column: &str, values: impl ExactSizeIterator<Item = &'v str>) {
        if values.len() > 0 {
            let condition = format!("{column} IN ({})", placeholders(values.len()));
            self.and(&condition, values.map(|value| value.to_owned().into()));
        }
    }

    /// Restricts the conditions to entries that are, or are not, found by one of `terms`.
    fn and_words(&mut self, exists: &str, terms: &[String]) {
        let marks = placeholders(terms.len());
        let condition = format!("{exists} (SELECT 1 FROM entry_term WHERE term IN ({marks}) AND entry = place)");
        self.and(&condition, terms.iter().map(|term| term.clone().into()));
    }
}

/// The words that every matching entry must have.
pub(super) fn required(query: &EntryQuery, by_context: bool) -> Vec<String> {
    let tags = query.tags.iter().map(|tag| tag.as_str().to_owned());
    let context = query.context.iter().filter(|_| by_context);
    tags.chain(context.filter_map(|(path, value)| context_term(path, value)))
        .collect()
}

/// The one of `terms` that the fewest entries of `space` have, as far as counting is worth it.
fn rarest(conn: &Connection, space: SpaceId, terms: &[String]) -> Result<Option<String>, Failure> {
    if terms.len() < 2 {
        return Ok(terms.first().cloned());
    }
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM entry_term WHERE term = ?1 AND entry BETWEEN ?2 AND ?3 LIMIT {MAX_COUNTED})"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut best: Option<(i64, &String)> = None;
    for term in terms {
        let count = statement.query_row((term, Place::start(space), Place::end(space)), |row| row.get(0))?;
        if best.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
            best = Some((count, term));
        }
    }
    Ok(best.map(|(_, term)| term.clone()))
}

/// The entries of `space` that have the word `term`, on `page` if one is given.
fn led_by(space: SpaceId, term: &str, page: Option<Place>) -> Conditions {
    let mut conditions = Conditions {
        table: BY_WORD,
        ..Conditions::default()
    };
    let range = [Place::start(space), Place::end(space)].map(place_value);
    let term = Value::from(term.to_owned());
    conditions.and(
        "led.term = ? AND led.entry BETWEEN ? AND ?",
        std::iter::once(term).chain(range),
    );
    conditions.on(page)
}

/// The entries of `space`, by number.
fn numbered(space: SpaceId) -> Conditions {
    let mut conditions = Conditions {
        table: BY_NUMBER,
        ..Conditions::default()
    };
    let range = [Place::start(space), Place::end(space)].map(place_value);
    conditions.and("place BETWEEN ? AND ?", range);
    conditions
}

/// The entries of all kinds on the page at `page`.
fn on(page: Place) -> Conditions {
    let mut conditions = Conditions {
        table: BY_NUMBER,
        ..Conditions::default()
    };
    let sql = format!(
        "place IN (SELECT place FROM entry INDEXED BY entry_page WHERE page = ? AND {OF_RUNS}
         UNION ALL SELECT place FROM {BY_KIND} WHERE kind IN ({}) AND page = ? AND {IS_MEMORY_SQL})",
        memory_kinds()
    );
    conditions.and(&sql, [place_value(page), place_value(page)]);
    conditions
}

/// The memory of `space` that was added or changed after commit `since`, together with other rows added since then;
/// `None` if there is so little memory in the whole space, beside what was written since, that all of it is read
/// faster.
fn newer_than(conn: &Connection, space: SpaceId, since: Seq) -> Result<Option<Conditions>, Failure> {
    let last = entry::last_at(conn, space, since)?;
    let newer = entry::last_number(conn, space)?.saturating_sub(last);
    if newer > NEWER && entry::has_less_memory_than(conn, space, newer / NEWER)? {
        return Ok(None);
    }
    let changed = entry::changed_after(conn, space, since)?;
    let changed: Vec<_> = changed.iter().map(|place| place.raw().to_string()).collect();
    let mut conditions = Conditions {
        table: BY_NUMBER,
        ..Conditions::default()
    };
    let range = [Place::of(space, last), Place::end(space)].map(place_value);
    let changed = Value::from(format!("[{}]", changed.join(",")));
    conditions.and(
        "place IN (SELECT place FROM entry WHERE place > ? AND place <= ? UNION ALL SELECT value FROM json_each(?))",
        range.into_iter().chain([changed]),
    );
    Ok(Some(conditions))
}

/// What runs wrote on the page at `page`: blocks of a log, steps and summaries.
fn written_on(page: Place) -> Conditions {
    let mut conditions = Conditions {
        table: "entry INDEXED BY entry_page",
        ..Conditions::default()
    };
    conditions.and(&format!("page = ? AND {OF_RUNS}"), [place_value(page)]);
    conditions
}

/// The rows on `page` that `query` may ask for: what runs wrote, and each kind of memory, all in the order of their
/// numbers.
fn lanes(query: &EntryQuery, page: Place) -> Vec<Conditions> {
    let wanted = |kind: &EntryKind| query.kinds.is_empty() || query.kinds.contains(kind);
    let (memory, of_runs): (Vec<_>, Vec<_>) = EntryKind::ALL
        .into_iter()
        .filter(wanted)
        .partition(|kind| kind.is_memory());
    let of_runs = (!of_runs.is_empty()).then(|| written_on(page));
    let memory = memory.into_iter().map(|kind| {
        let mut lane = Conditions {
            table: BY_KIND,
            ..Conditions::default()
        };
        let sql = format!("kind = ? AND page = ? AND {IS_MEMORY_SQL}");
        lane.and(&sql, [kind.as_str().to_owned().into(), place_value(page)]);
        lane
    });
    of_runs.into_iter().chain(memory).collect()
}

/// The memory of `space`, on `page` if one is given, from the index that is sorted by kind and page.
fn listed(space: SpaceId, page: Option<Place>) -> Conditions {
    let mut conditions = Conditions {
        table: BY_KIND,
        ..Conditions::default()
    };
    let range = page
        .map_or([Place::start(space), Place::end(space)], |page| [page, page])
        .map(place_value);
    conditions.and(&format!("page BETWEEN ? AND ? AND {IS_MEMORY_SQL}"), range);
    conditions
}

fn select(columns: &str, conditions: &[&Conditions], tail: &str) -> String {
    let table = conditions.first().map_or(BY_NUMBER, |first| first.table);
    let all: Vec<_> = conditions
        .iter()
        .map(|condition| condition.sql.as_str())
        .filter(|sql| !sql.is_empty())
        .collect();
    format!("SELECT {columns} FROM {table} WHERE {} {tail}", all.join(" AND "))
}

fn values<'c>(conditions: &'c [&Conditions]) -> impl Iterator<Item = &'c Value> {
    conditions.iter().flat_map(|condition| &condition.values)
}

fn placeholders(count: usize) -> String {
    vec!["?"; count].join(", ")
}
