//! Lists of entries: which entries match, how many there are, and where the next page begins.
//!
//! A list reads one state of memory: that of the commit for which it is asked, or that of its first page. What has
//! changed since is looked up in the log; everything else is found in its current form, by the index in memory or by
//! SQL.

use std::sync::Arc;

use folio_memory::terms::{MORE, context_term};
use folio_memory::{Entry, EntryQuery, ListAnswer, Seq, SpaceName, Timestamp};

use super::error::Failure;
use super::filter::{self, Filter, When};
use super::living::{self, Seen};
use super::session::Session;
use super::{Inner, commit, entry, journal, page};
use crate::cursor::Snapshot;
use crate::cursor::list::{After, ListCursor};
use crate::lists::page::{NextNumbers, RebuildScope, entries_to_read, page_of};
use crate::live::{IndexQuery, is_for_live_entries};
use crate::plan::Ends;

/// The entries that match `query`, which has no text, as they are at `now`.
pub(super) async fn entries(
    inner: &Arc<Inner>,
    session: Option<&Session>,
    name: &SpaceName,
    query: &EntryQuery,
    now: Timestamp,
) -> Result<ListAnswer<Entry>, Failure> {
    let cursor = ListCursor::of(name, query)?;
    let ends = match session {
        Some(session) => Some(commit::ends(session).await?),
        None => None,
    };
    let head = ends.as_ref().map_or(Seq(0), |ends| ends.head);
    let mut snapshot = Snapshot::shown(cursor.map(|cursor| cursor.snapshot), query, head, now);
    let Some((session, ends)) = session.zip(ends) else {
        return Ok(ListAnswer::empty(snapshot.as_of));
    };
    if snapshot.is_requested_past(query, head) {
        snapshot.at = journal::expiry_time_at(session, snapshot.as_of, snapshot.at).await?;
    }
    let search = Search {
        inner,
        session,
        name,
        ends,
        query,
        now: snapshot.at,
        as_of: snapshot.as_of,
        after: cursor.map(|cursor| cursor.after),
        total: cursor.map(|cursor| cursor.total),
        limit: entries_to_read(query),
    };
    Ok(page_of(name, query, snapshot, search.run().await?)?)
}

/// A query that is being answered within one transaction.
struct Search<'q> {
    inner: &'q Arc<Inner>,
    session: &'q Session,
    name: &'q SpaceName,
    /// The last numbers of the space, as the transaction sees it.
    ends: Ends,
    query: &'q EntryQuery,
    now: Timestamp,
    as_of: Seq,
    after: Option<After>,
    /// The total number of matches, if the first page counted them.
    total: Option<u64>,
    /// One more than wanted, to see whether there are more.
    limit: usize,
}

impl Search<'_> {
    /// The first entries in order, and how many there are in all.
    async fn run(&self) -> Result<(Vec<Entry>, u64), Failure> {
        let page = match self.query.page {
            Some(page) => match page::number_of(self.session, page).await? {
                Some(page) => Some(page),
                // There is no such page.
                None => return Ok((Vec::new(), 0)),
            },
            None => None,
        };
        let in_memory = match self.as_of == self.ends.head {
            true => self.in_memory(page, &[]).await?,
            false => None,
        };
        if let Some((items, counted)) = in_memory {
            return Ok((items, self.total.unwrap_or(counted)));
        }
        if let Some(total) = self.total
            && let Some(items) = self.nearby(page).await?
        {
            return Ok((items, total));
        }
        let mut changed = if self.as_of < self.ends.head {
            entry::changed_after(self.session, self.as_of).await?
        } else {
            Vec::new()
        };
        changed.sort_unstable();
        let changed = self.part().of_changed(&changed, |number| *number);
        let in_memory = match self.as_of < self.ends.head {
            true => self.in_memory(page, changed).await?,
            false => None,
        };
        let (mut items, counted) = match in_memory {
            Some(found) => found,
            None => self.as_they_are(page, changed).await?,
        };
        let before = self.add_past(&mut items, changed).await?;
        Ok((items, self.total.unwrap_or(counted + before)))
    }

    /// The page, if it lies right behind the previous one.
    async fn nearby(&self, page: Option<u64>) -> Result<Option<Vec<Entry>>, Failure> {
        let Some(numbers) = NextNumbers::of(self.query, self.after, self.limit, self.ends.entries) else {
            return Ok(None);
        };
        let range = (numbers.from, numbers.to);
        let changed = match self.as_of < self.ends.head {
            true => entry::changed_between(self.session, range, self.as_of).await?,
            false => Vec::new(),
        };
        let when = When {
            as_of: self.as_of,
            now: self.now,
            changed: &changed,
        };
        let mut items = filter::nearby(self.session, (self.query, page), range, &when, self.limit).await?;
        self.add_past(&mut items, &changed).await?;
        Ok(numbers.have_page(items.len(), self.limit).then_some(items))
    }

    /// Adds to `items` those that were on the page as they were, of the `changed` ones, which are sorted. Returns how
    /// many of those that were looked at match the query.
    async fn add_past(&self, items: &mut Vec<Entry>, changed: &[u64]) -> Result<u64, Failure> {
        let (part, mut before) = (self.part(), 0);
        for chunk in part.chunks(changed) {
            if part.ends_before(chunk, items, |number| *number) {
                break;
            }
            let earlier_entries = self.matching_past_entries(chunk).await?;
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
    async fn in_memory(&self, page: Option<u64>, changed: &[u64]) -> Result<Option<(Vec<Entry>, u64)>, Failure> {
        let (session, query) = (self.session, self.query);
        if !is_for_live_entries(query) {
            return Ok(None);
        }
        let terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let Some(context) = terms.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let seen = Seen {
            session,
            name: self.name,
            ends: &self.ends,
            now: self.now,
        };
        if !living::catch_up_to(self.inner, seen).await? {
            return Ok(None);
        }
        let last = if self.as_of < self.ends.head {
            Some(entry::last_at(session, self.as_of, self.ends.entries).await?)
        } else {
            None
        };
        let since = match query.since {
            Some(since) => Some((
                entry::last_at(session, since, self.ends.entries).await?,
                entry::changed_after(session, since).await?,
            )),
            None => None,
        };
        let index_query = IndexQuery {
            query,
            page,
            context,
            last,
            since,
            without: changed.to_vec(),
            after: self.after.map(|after| (after.rank, after.sureness, after.number)),
            limit: self.limit,
        };
        let Some(found) = living::find(&self.inner.living, seen, &index_query) else {
            return Ok(None);
        };
        let mut items = entry::by_numbers(session, &found.numbers).await?;
        items.sort_by(|a, b| query.compare(a, b));
        Ok(Some((items, found.total)))
    }

    async fn as_they_are(&self, page: Option<u64>, changed: &[u64]) -> Result<(Vec<Entry>, u64), Failure> {
        let (session, query) = (self.session, self.query);
        let mut terms = query.context.iter().map(|(path, value)| context_term(path, value));
        let has_words = terms.all(|term| term.is_some());
        let all_have_words = has_words && (query.context.is_empty() || !entry::is_any_found_by(session, MORE).await?);
        let when = When {
            as_of: self.as_of,
            now: self.now,
            changed,
        };
        let filter = Filter::of(session, query, page, when, all_have_words).await?;
        if all_have_words {
            let first = filter.first(session, self.after, self.limit);
            if let Some(total) = self.total {
                return Ok((first.await?, total));
            }
            if query.uncounted {
                let first = first.await?;
                let read = first.len() as u64;
                return Ok((first, read));
            }
            let (first, count) = futures_util::future::join(first, filter.count(session)).await;
            return Ok((first?, count?));
        }
        let matches = |entry: &Entry| query.matches(entry, self.now);
        filter
            .scan(session, self.limit, matches, |entry| self.comes_after(entry))
            .await
    }

    /// The entries with `numbers` as they were, if they match the query.
    async fn matching_past_entries(&self, numbers: &[u64]) -> Result<Vec<Entry>, Failure> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let found = entry::by_numbers(self.session, numbers).await?;
        let mut before = journal::as_of(self.session, &found, self.as_of).await?;
        before.retain(|before| self.query.matches(before, self.now));
        Ok(before)
    }

    fn comes_after(&self, entry: &Entry) -> bool {
        self.after.is_none_or(|after| after.is_before(self.query, entry))
    }
}
