//! Lists of what a few words find: which entries, how well they fit, and where to go on.

use std::collections::HashMap;

use folio_memory::{Entry, EntryQuery, ListAnswer, Order, Seq, SpaceName, TextMatch, TextQuery, Timestamp};
use rusqlite::{Connection, params_from_iter};

use super::cursor::binding;
use super::error::{Failure, damaged};
use super::filter::{Conditions, Filter};
use super::job::Job;
use super::place::{Place, SpaceId};
use super::text_cursor::{Cursor, Position};
use super::{SqliteStore, entry, journal, page, text};
use crate::error::StoreError;

/// How much a word in the title, in the text and in a tag says about an entry.
const WEIGHTS: &str = "4.0, 1.0, 2.0";

impl SqliteStore {
    /// The entries that a query with a text asks for, once the index has come to the last commit of this moment.
    pub(super) async fn search(
        &self,
        space: &SpaceName,
        query: &EntryQuery,
        now: Timestamp,
    ) -> Result<ListAnswer<Entry>, StoreError> {
        let mut known = None;
        loop {
            let (name, query) = (space.clone(), query.clone());
            let search = self
                .read(space, move |conn, space| {
                    entries(conn, &name, space, &query, now, known)
                })
                .await?;
            match search {
                Search::Found(answer) => return Ok(answer),
                Search::Behind(space, head) => {
                    while self.write(|answer| Job::Index(space, answer)).await? < head {}
                    known = Some(head);
                }
            }
        }
    }
}

/// What comes of a search.
#[derive(Debug)]
enum Search {
    /// What was found.
    Found(ListAnswer<Entry>),
    /// Nothing was looked for, because the index of the space has not come to this commit yet.
    Behind(SpaceId, Seq),
}

/// The entries that `query`, which has a text, asks for, as they are at `now`.
///
/// Looks only into an index that has come to the commit `known`, or to the last one if that is none.
fn entries(
    conn: &Connection,
    name: &SpaceName,
    space: Option<SpaceId>,
    query: &EntryQuery,
    now: Timestamp,
    known: Option<Seq>,
) -> Result<Search, Failure> {
    let binding = binding(name, query)?;
    let cursor = query.cursor.as_deref();
    let cursor = cursor.map(|text| Cursor::parse(text, &binding)).transpose()?;
    let words = query.text_query().filter(|words| !words.is_empty());
    let head = match space {
        Some(space) => journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head),
        None => Seq(0),
    };
    let (Some(space), Some(words)) = (space, words) else {
        return Ok(Search::Found(nothing(cursor.map_or(head, |cursor| cursor.as_of))));
    };
    let wanted = known.unwrap_or(head);
    let Some(indexed) = text::indexed(conn, space)?.filter(|indexed| *indexed >= wanted) else {
        return Ok(Search::Behind(space, wanted));
    };
    let as_of = cursor.as_ref().map_or(indexed, |cursor| cursor.as_of);
    let position = cursor.map(|cursor| cursor.position);
    let Some(filter) = filter(conn, space, query, as_of, now)? else {
        return Ok(Search::Found(nothing(as_of)));
    };
    let mut hits = hits(conn, space, &words, &filter)?;
    if !query.context.is_empty() {
        hits = only_those_in_context(conn, hits, query, now)?;
    }
    let total = hits.len() as u64;
    sort(conn, &mut hits, query)?;
    let (hits, position) = part(hits, position, query);
    let mut answer = nothing(as_of);
    for hit in &hits {
        answer.items.push(entry_at(conn, hit.place)?);
        answer.scores.push(hit.score);
    }
    (answer.returned, answer.total) = (hits.len(), total);
    answer.next = position.map(|position| Cursor { as_of, position }.to_text(&binding));
    Ok(Search::Found(answer))
}

fn nothing(as_of: Seq) -> ListAnswer<Entry> {
    ListAnswer {
        items: Vec::new(),
        returned: 0,
        total: 0,
        next: None,
        as_of,
        scores: Vec::new(),
    }
}

#[derive(Debug, Clone, Copy)]
struct Hit {
    place: Place,
    score: f64,
}

/// Everything that `query` asks for but its text and its context; `None` if nothing can match.
fn filter(
    conn: &Connection,
    space: SpaceId,
    query: &EntryQuery,
    as_of: Seq,
    now: Timestamp,
) -> Result<Option<Conditions>, Failure> {
    let mut filter = Filter::wanted(space, query, as_of, now, false);
    if let Some(page) = query.page {
        let Some(page) = page::place_of(conn, space, page)? else {
            return Ok(None);
        };
        filter.and("page = ?", [page::place_value(page)]);
    }
    Ok(Some(filter))
}

fn hits(conn: &Connection, space: SpaceId, words: &TextQuery, filter: &Conditions) -> Result<Vec<Hit>, Failure> {
    let table = text::table(space);
    let sql = format!(
        "SELECT entry.place, -bm25({table}, {WEIGHTS}) FROM {table} CROSS JOIN entry ON entry.place = {table}.rowid
         WHERE {table} MATCH ? AND {}",
        filter.sql
    );
    let values = std::iter::once(expression(words).into()).chain(filter.values.iter().cloned());
    let mut statement = conn.prepare_cached(&sql)?;
    let hits = statement.query_map(params_from_iter(values), |row| {
        Ok(Hit {
            place: row.get(0)?,
            score: row.get(1)?,
        })
    })?;
    Ok(hits.collect::<Result<_, _>>()?)
}

/// `words` as FTS5 reads them. Terms have no signs, so quotes keep every one of them from being a word of its language.
fn expression(words: &TextQuery) -> String {
    let word = |terms: &Vec<String>| {
        let terms: Vec<_> = terms.iter().map(|term| format!("\"{term}\"")).collect();
        format!("({})", terms.join(" AND "))
    };
    let between = match words.how() {
        TextMatch::All => " AND ",
        TextMatch::Any => " OR ",
    };
    words.words().iter().map(word).collect::<Vec<_>>().join(between)
}

fn only_those_in_context(
    conn: &Connection,
    hits: Vec<Hit>,
    query: &EntryQuery,
    now: Timestamp,
) -> Result<Vec<Hit>, Failure> {
    let rest = EntryQuery {
        text: None,
        ..query.clone()
    };
    let mut kept = Vec::new();
    for hit in hits {
        if rest.matches(&entry_at(conn, hit.place)?, now) {
            kept.push(hit);
        }
    }
    Ok(kept)
}

fn entry_at(conn: &Connection, place: Place) -> Result<Entry, Failure> {
    entry::at(conn, place)?.ok_or_else(|| damaged("an entry", "it was there a moment ago"))
}

fn sort(conn: &Connection, hits: &mut [Hit], query: &EntryQuery) -> Result<(), Failure> {
    match query.order {
        Order::Relevance => {
            hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.place.cmp(&a.place)));
        }
        Order::Newest => hits.sort_unstable_by_key(|hit| std::cmp::Reverse(hit.place)),
        Order::Oldest => hits.sort_unstable_by_key(|hit| hit.place),
        Order::Priority => {
            let entries: HashMap<Place, Entry> = hits
                .iter()
                .map(|hit| Ok((hit.place, entry_at(conn, hit.place)?)))
                .collect::<Result<_, Failure>>()?;
            hits.sort_unstable_by(|a, b| query.compare(&entries[&a.place], &entries[&b.place]));
        }
    }
    Ok(())
}

/// The hits that are given now, and where to go on if there are more.
fn part(hits: Vec<Hit>, from: Option<Position>, query: &EntryQuery) -> (Vec<Hit>, Option<Position>) {
    let limit = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let is_left = |hit: &Hit| match &from {
        None => true,
        Some(Position::After(number)) if query.order == Order::Oldest => hit.place.number() > *number,
        Some(Position::After(number)) => hit.place.number() < *number,
        Some(Position::Given(given)) => !given.contains(&hit.place.number()),
    };
    let mut part: Vec<_> = hits.into_iter().filter(is_left).take(limit + 1).collect();
    let goes_on = part.len() > limit;
    part.truncate(limit);
    let mut numbers = part.iter().map(|hit| hit.place.number());
    let next = match (query.order, from) {
        (Order::Newest | Order::Oldest, _) => numbers.next_back().map(Position::After),
        (_, Some(Position::Given(mut given))) => {
            given.extend(numbers);
            Some(Position::Given(given))
        }
        _ => Some(Position::Given(numbers.collect())),
    };
    let next = next.filter(|next| goes_on && next.can_be_written());
    (part, next)
}
