//! Lists of entries: which entries match, how many there are, and where the next page begins.
//!
//! A list reads one state of memory: that of the commit for which it is asked, or that of its first page. What has
//! changed since is looked up in the log; everything else is found in its current form, by the index in memory or by
//! SQL.

use folio_memory::terms::{MORE, context_term};
use folio_memory::{Entry, EntryQuery, ListAnswer, Seq, SpaceName, Timestamp};
use rusqlite::Connection;

use super::error::Failure;
use super::filter::{self, Filter, When};
use super::living::Living;
use super::place::{Place, SpaceId};
use super::{entry, journal, page};
use crate::cursor::Snapshot;
use crate::cursor::list::{After, ListCursor};
use crate::lists::page::{NextNumbers, RebuildScope, entries_to_read, page_of};
use crate::live::{IndexQuery, is_for_live_entries};

/// The entries that match `query`, which has no text, as they are at `now`.
pub(super) fn entries(
    conn: &Connection,
    living: &Living,
    name: &SpaceName,
    space: Option<SpaceId>,
    query: &EntryQuery,
    now: Timestamp,
) -> Result<ListAnswer<Entry>, Failure> {
    let cursor = ListCursor::of(name, query)?;
    let head = match space {
        Some(space) => journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head),
        None => Seq(0),
    };
    let mut snapshot = Snapshot::shown(cursor.map(|cursor| cursor.snapshot), query, head, now);
    let Some(space) = space else {
        return Ok(ListAnswer::empty(snapshot.as_of));
    };
    if snapshot.is_requested_past(query, head) {
        snapshot.at = journal::expiry_time_at(conn, space, snapshot.as_of, snapshot.at)?;
    }
    let search = Search {
        conn,
        name,
        space,
        query,
        now: snapshot.at,
        head,
        as_of: snapshot.as_of,
        after: cursor.map(|cursor| cursor.after),
        total: cursor.map(|cursor| cursor.total),
        limit: entries_to_read(query),
    };
    Ok(page_of(name, query, snapshot, search.run(living)?)?)
}

/// A query that is being answered within one transaction.
struct Search<'q> {
    conn: &'q Connection,
    name: &'q SpaceName,
    space: SpaceId,
    query: &'q EntryQuery,
    now: Timestamp,
    head: Seq,
    as_of: Seq,
    after: Option<After>,
    /// The total number of matches, if the first page counted them.
    total: Option<u64>,
    /// One more than wanted, to see whether there are more.
    limit: usize,
}

impl Search<'_> {
    /// The first entries in order, and how many there are in all.
    fn run(&self, living: &Living) -> Result<(Vec<Entry>, u64), Failure> {
        let page = self
            .query
            .page
            .map(|page| page::place_of(self.conn, self.space, page))
            .transpose()?;
        let Some(page) = page.map_or(Some(None), |page| page.map(Some)) else {
            // There is no such page.
            return Ok((Vec::new(), 0));
        };
        let in_memory = match self.as_of == self.head {
            true => self.in_memory(living, page, &[])?,
            false => None,
        };
        if let Some((items, counted)) = in_memory {
            return Ok((items, self.total.unwrap_or(counted)));
        }
        if let Some(total) = self.total
            && let Some(items) = self.nearby(page)?
        {
            return Ok((items, total));
        }
        let mut changed = if self.as_of < self.head {
            entry::changed_after(self.conn, self.space, self.as_of)?
        } else {
            Vec::new()
        };
        changed.sort_unstable();
        let changed = self.part().of_changed(&changed, |place| place.number());
        let in_memory = match self.as_of < self.head {
            true => self.in_memory(living, page, changed)?,
            false => None,
        };
        let (mut items, counted) = match in_memory {
            Some(found) => found,
            None => self.by_sql(page, changed)?,
        };
        let before = self.add_past(&mut items, changed)?;
        Ok((items, self.total.unwrap_or(counted + before)))
    }

    /// The page, if it lies right behind the previous one.
    fn nearby(&self, page: Option<Place>) -> Result<Option<Vec<Entry>>, Failure> {
        let last = entry::last_number(self.conn, self.space)?;
        let Some(numbers) = NextNumbers::of(self.query, self.after, self.limit, last) else {
            return Ok(None);
        };
        let range = (Place::of(self.space, numbers.from), Place::of(self.space, numbers.to));
        let changed = match self.as_of < self.head {
            true => entry::changed_between(self.conn, range, self.as_of)?,
            false => Vec::new(),
        };
        let when = When {
            as_of: self.as_of,
            now: self.now,
            changed: &changed,
        };
        let mut items = filter::nearby(self.conn, (self.query, page), range, &when, self.limit)?;
        self.add_past(&mut items, &changed)?;
        Ok(numbers.have_page(items.len(), self.limit).then_some(items))
    }

    /// Adds to `items` those that were on the page as they were, of the `changed` ones, which are sorted. Returns how
    /// many of those that were looked at match the query.
    fn add_past(&self, items: &mut Vec<Entry>, changed: &[Place]) -> Result<u64, Failure> {
        let (part, mut before) = (self.part(), 0);
        for chunk in part.chunks(changed) {
            if part.ends_before(chunk, items, |place| place.number()) {
                break;
            }
            let earlier_entries = self.matching_past_entries(chunk)?;
            before += earlier_entries.len() as u64;
            items.extend(earlier_entries.into_iter().filter(|entry| self.comes_after(entry)));
            items.sort_by(|a, b| self.query.compare(a, b));
            items.truncate(self.limit);
        }
        Ok(before)
    }

    fn part(&self) -> RebuildScope {
        RebuildScope::of(self.query, self.after, self.total, self.limit)
    }

    /// The answer of the index in memory, if it can answer the query.
    fn in_memory(
        &self,
        living: &Living,
        page: Option<Place>,
        changed: &[Place],
    ) -> Result<Option<(Vec<Entry>, u64)>, Failure> {
        let query = self.query;
        let terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let Some(context) = terms.collect::<Option<Vec<_>>>().filter(|_| is_for_live_entries(query)) else {
            return Ok(None);
        };
        let (conn, space) = (self.conn, self.space);
        let found = living.ask(conn, (self.name, space), self.head, self.now, |index| {
            if !context.is_empty() && index.knows(MORE) {
                return Ok(None);
            }
            let last = (self.as_of < self.head)
                .then(|| entry::last_at(conn, space, self.as_of))
                .transpose()?;
            let since = match query.since {
                Some(since) => {
                    let changed = entry::changed_after(conn, space, since)?;
                    Some((entry::last_at(conn, space, since)?, numbers(&changed)))
                }
                None => None,
            };
            Ok(Some(index.find(&IndexQuery {
                query,
                page: page.map(Place::number),
                context,
                last,
                since,
                without: numbers(changed),
                after: self.after.map(|after| (after.rank, after.sureness, after.number)),
                limit: self.limit,
            })))
        })?;
        let Some(found) = found.flatten() else { return Ok(None) };
        let mut items = Vec::with_capacity(found.numbers.len());
        for number in found.numbers {
            items.extend(entry::by_place(conn, Place::of(space, number))?);
        }
        Ok(Some((items, found.total)))
    }

    fn by_sql(&self, page: Option<Place>, changed: &[Place]) -> Result<(Vec<Entry>, u64), Failure> {
        let (conn, query) = (self.conn, self.query);
        let has_words = query
            .context
            .iter()
            .all(|(path, value)| context_term(path, value).is_some());
        let all_have_words =
            has_words && (query.context.is_empty() || !entry::is_any_found_by(conn, self.space, MORE)?);
        let when = When {
            as_of: self.as_of,
            now: self.now,
            changed,
        };
        let filter = Filter::of(conn, self.space, query, page, &when, all_have_words)?;
        if all_have_words {
            let first = filter.first(conn, query, self.after, self.space, self.limit)?;
            // If the limit was not reached, these are all.
            let is_all = self.after.is_none() && first.len() < self.limit;
            let total = match self.total {
                Some(total) => total,
                None if is_all || query.uncounted => first.len() as u64,
                None => filter.count(conn)?,
            };
            Ok((first, total))
        } else {
            filter.scan(
                conn,
                query,
                self.limit,
                |entry| query.matches(entry, self.now),
                |entry| self.comes_after(entry),
            )
        }
    }

    /// The entries at `places` as they were, if they match the query.
    fn matching_past_entries(&self, places: &[Place]) -> Result<Vec<Entry>, Failure> {
        let mut before = journal::as_of(self.conn, places, self.as_of)?;
        before.retain(|before| self.query.matches(before, self.now));
        Ok(before)
    }

    fn comes_after(&self, entry: &Entry) -> bool {
        self.after.is_none_or(|after| after.is_before(self.query, entry))
    }
}

fn numbers(places: &[Place]) -> Vec<u64> {
    places.iter().map(|place| place.number()).collect()
}
