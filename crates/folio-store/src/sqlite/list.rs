//! Lists of entries: the filter as SQL, the exact total, and the cursor.

use folio_memory::{Entry, EntryKind, EntryQuery, ListAnswer, Order, Seq, SpaceName, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use sha2::{Digest, Sha256};

use super::entry::{COLUMNS, from_row};
use super::error::Failure;
use super::journal;
use super::page::{self, place_value};
use super::place::{Place, SpaceId, to_column};
use crate::error::StoreError;

/// The entries that `query` asks for, as they are at `now`.
pub(super) fn entries(
    conn: &Connection,
    name: &SpaceName,
    space: Option<SpaceId>,
    query: &EntryQuery,
    now: Timestamp,
) -> Result<ListAnswer<Entry>, Failure> {
    let binding = binding(name, query)?;
    let cursor = query
        .cursor
        .as_deref()
        .map(|text| Cursor::parse(text, &binding))
        .transpose()?;
    let head = match space {
        Some(space) => journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head),
        None => Seq(0),
    };
    // Whoever goes on reading sees the list that he began, whatever was added since.
    let as_of = cursor.as_ref().map_or(head, |cursor| cursor.as_of);
    let filter = space
        .map(|space| Filter::of(conn, space, query, as_of, now))
        .transpose()?
        .flatten();
    let Some((space, filter)) = space.zip(filter) else {
        return Ok(ListAnswer {
            items: Vec::new(),
            returned: 0,
            total: 0,
            next: None,
            as_of,
            scores: Vec::new(),
        });
    };
    let limit = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let after = cursor.as_ref().map(|cursor| Place::of(space, cursor.after));
    let (mut items, total) = if query.context.is_empty() {
        (filter.first(conn, query.order, after, limit + 1)?, filter.count(conn)?)
    } else {
        filter.scan(conn, query, now, after, limit + 1)?
    };
    let goes_on = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| goes_on).map(|entry| entry.handle.0);
    let next = last.map(|after| Cursor { after, as_of }.to_text(&binding));
    Ok(ListAnswer {
        returned: items.len(),
        items,
        total,
        next,
        as_of,
        scores: Vec::new(),
    })
}

/// Conditions in SQL, with their values.
pub(super) struct Filter {
    /// Where rows are looked for when they are wanted in order.
    ordered: Conditions,
    /// Where rows are looked for when they are counted.
    counted: Conditions,
    /// What holds for the rows that are wanted.
    wanted: Conditions,
}

#[derive(Default)]
pub(super) struct Conditions {
    table: &'static str,
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

const BY_NUMBER: &str = "entry";
/// The index that knows everything that is filtered by, sorted by kind, then by page.
const BY_KIND_AND_PAGE: &str = "entry INDEXED BY entry_list";

impl Filter {
    /// Everything that `query` asks for but its context; `None` if nothing can match.
    fn of(
        conn: &Connection,
        space: SpaceId,
        query: &EntryQuery,
        as_of: Seq,
        now: Timestamp,
    ) -> Result<Option<Self>, Failure> {
        let page = match query.page.map(|page| page::place_of(conn, space, page)).transpose()? {
            Some(None) => return Ok(None),
            page => page.flatten(),
        };
        let is_tagged = !query.tags.is_empty() || !query.tags_any.is_empty();
        let (ordered, counted) = if page.is_some() || !query.kinds.is_empty() {
            (listed(space, query, page), listed(space, query, page))
        } else if is_tagged {
            // The tags lead to the numbers of the entries.
            (numbered(space), numbered(space))
        } else {
            (numbered(space), listed(space, query, page))
        };
        Ok(Some(Self {
            ordered,
            counted,
            wanted: Self::wanted(query, as_of, now),
        }))
    }

    pub(super) fn wanted(query: &EntryQuery, as_of: Seq, now: Timestamp) -> Conditions {
        let mut filter = Conditions::default();
        filter.and_any_of("type", query.types.iter().map(String::as_str));
        filter.and_any_of("owner", query.owner.iter().map(folio_memory::Owner::as_str));
        if query.status.is_empty() {
            filter.and("status <> 'archived'", []);
        }
        filter.and_any_of("status", query.status.iter().map(|status| status.as_str()));
        for tag in &query.tags {
            filter.and(&format!("place IN ({TAGGED} = ?)"), [tag.as_str().to_owned().into()]);
        }
        let texts = |tags: &[folio_memory::Tag]| {
            tags.iter()
                .map(|tag| tag.as_str().to_owned().into())
                .collect::<Vec<_>>()
        };
        if !query.tags_any.is_empty() {
            filter.and(
                &format!("place IN ({TAGGED} IN ({}))", marks(query.tags_any.len())),
                texts(&query.tags_any),
            );
        }
        if !query.tags_none.is_empty() {
            filter.and(
                &format!("place NOT IN ({TAGGED} IN ({}))", marks(query.tags_none.len())),
                texts(&query.tags_none),
            );
        }
        if let Some(least) = query.min_confidence {
            filter.and("confidence >= ?", [least.into()]);
        }
        if let Some(since) = query.since {
            filter.and("created_seq > ?", [to_column(since.0).into()]);
        }
        filter.and("created_seq <= ?", [to_column(as_of.0).into()]);
        if !query.include_expired {
            let alive = "(expires_at IS NULL OR expires_at > ? OR pinned OR status = 'archived')";
            filter.and(alive, [now.as_nanos().into()]);
        }
        if !query.include_superseded {
            filter.and("NOT superseded", []);
        }
        filter
    }

    /// The first `limit` entries after the one at `after`.
    fn first(
        &self,
        conn: &Connection,
        order: Order,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Entry>, Failure> {
        let (beyond, direction) = direction(order);
        let mut rest = Conditions::default();
        if let Some(after) = after {
            rest.and(&format!("place {beyond} ?"), [place_value(after)]);
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let conditions = [&self.ordered, &self.wanted, &rest];
        // Which ones these are is found in the index alone; only they are read.
        let which = select(
            "place",
            &conditions,
            &format!("ORDER BY place {direction} LIMIT {limit}"),
        );
        let sql = format!("SELECT {COLUMNS} FROM entry WHERE place IN ({which}) ORDER BY place {direction}");
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values(&conditions)))?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            entries.push(from_row(row)?);
        }
        Ok(entries)
    }

    /// How many entries there are.
    fn count(&self, conn: &Connection) -> Result<u64, Failure> {
        let conditions = [&self.counted, &self.wanted];
        let mut statement = conn.prepare_cached(&select("count(*)", &conditions, ""))?;
        Ok(super::place::from_column(
            statement.query_row(params_from_iter(values(&conditions)), |row| row.get(0))?,
        ))
    }

    /// The same two answers where only the whole entry tells whether it matches.
    fn scan(
        &self,
        conn: &Connection,
        query: &EntryQuery,
        now: Timestamp,
        after: Option<Place>,
        limit: usize,
    ) -> Result<(Vec<Entry>, u64), Failure> {
        let (_, direction) = direction(query.order);
        let conditions = [&self.ordered, &self.wanted];
        let sql = select(COLUMNS, &conditions, &format!("ORDER BY place {direction}"));
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values(&conditions)))?;
        let (mut entries, mut total) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let place: Place = row.get(0)?;
            let entry = from_row(row)?;
            if !query.matches(&entry, now) {
                continue;
            }
            total += 1;
            let comes_after = after.is_none_or(|after| match query.order {
                Order::Relevance | Order::Newest => place < after,
                Order::Oldest => place > after,
            });
            if comes_after && entries.len() < limit {
                entries.push(entry);
            }
        }
        Ok((entries, total))
    }
}

impl Conditions {
    pub(super) fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        if !self.sql.is_empty() {
            self.sql += " AND ";
        }
        self.sql += condition;
        self.values.extend(values);
    }

    pub(super) fn and_any_of<'v>(&mut self, column: &str, values: impl ExactSizeIterator<Item = &'v str>) {
        if values.len() > 0 {
            let condition = format!("{column} IN ({})", marks(values.len()));
            self.and(&condition, values.map(|value| value.to_owned().into()));
        }
    }
}

/// The entries of `space`, found by their numbers.
fn numbered(space: SpaceId) -> Conditions {
    let mut conditions = Conditions {
        table: BY_NUMBER,
        ..Conditions::default()
    };
    conditions.and(
        "place BETWEEN ? AND ?",
        [Place::start(space), Place::end(space)].map(place_value),
    );
    conditions
}

/// The entries of `space` of the kinds and on the page that `query` names, found in the index.
fn listed(space: SpaceId, query: &EntryQuery, page: Option<Place>) -> Conditions {
    let mut conditions = Conditions {
        table: BY_KIND_AND_PAGE,
        ..Conditions::default()
    };
    let kinds = if query.kinds.is_empty() {
        &EntryKind::ALL[..]
    } else {
        &query.kinds
    };
    conditions.and_any_of("kind", kinds.iter().map(|kind| kind.as_str()));
    match page {
        Some(page) => conditions.and("page = ?", [place_value(page)]),
        None => conditions.and(
            "page BETWEEN ? AND ?",
            [Place::start(space), Place::end(space)].map(place_value),
        ),
    }
    conditions
}

fn select(what: &str, conditions: &[&Conditions], tail: &str) -> String {
    let table = conditions.first().map_or(BY_NUMBER, |first| first.table);
    let all: Vec<_> = conditions
        .iter()
        .map(|some| some.sql.as_str())
        .filter(|sql| !sql.is_empty())
        .collect();
    format!("SELECT {what} FROM {table} WHERE {} {tail}", all.join(" AND "))
}

fn values<'c>(conditions: &'c [&Conditions]) -> impl Iterator<Item = &'c Value> {
    conditions.iter().flat_map(|some| &some.values)
}

const TAGGED: &str = "SELECT entry FROM entry_tag WHERE tag";

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn direction(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Relevance | Order::Newest => ("<", "DESC"),
        Order::Oldest => (">", "ASC"),
    }
}

/// Where an answer ended.
struct Cursor {
    after: u64,
    as_of: Seq,
}

impl Cursor {
    fn to_text(&self, binding: &str) -> String {
        format!("{binding}.{}.{}", self.after, self.as_of)
    }

    fn parse(text: &str, binding: &str) -> Result<Self, StoreError> {
        let mut parts = text.split('.');
        let number = |part: Option<&str>| part.and_then(|part| part.parse().ok());
        let (bound, after, as_of) = (parts.next(), number(parts.next()), number(parts.next()));
        match (bound, after, as_of, parts.next()) {
            (Some(bound), Some(after), Some(as_of), None) if bound == binding => Ok(Self {
                after,
                as_of: Seq(as_of),
            }),
            (Some(_), Some(_), Some(_), None) => Err(StoreError::Invalid(format!(
                "the cursor {text:?} belongs to another query"
            ))),
            _ => Err(StoreError::Invalid(format!("{text:?} is not a cursor"))),
        }
    }
}

/// What a cursor is bound to: the space and everything of the query but where to go on and how far.
pub(super) fn binding(name: &SpaceName, query: &EntryQuery) -> Result<String, StoreError> {
    let query = EntryQuery {
        cursor: None,
        limit: 0,
        ..query.clone()
    };
    let text = serde_json::to_string(&(name, query)).map_err(|error| StoreError::Invalid(error.to_string()))?;
    let digest = Sha256::digest(text.as_bytes());
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
