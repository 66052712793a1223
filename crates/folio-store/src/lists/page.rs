//! One page of a list: the answer with its cursor, and which entries may belong to it.

use folio_memory::{Entry, EntryQuery, ListAnswer, Order, SpaceName};

use crate::cursor::list::{After, ListCursor};
use crate::cursor::{Snapshot, binding};
use crate::error::StoreError;

/// How many entries are read for a page: one more than it has, to see whether there are more.
pub(crate) fn entries_to_read(query: &EntryQuery) -> usize {
    page_size(query).saturating_add(1)
}

fn page_size(query: &EntryQuery) -> usize {
    usize::try_from(query.limit()).unwrap_or(usize::MAX)
}

/// The answer to `query` as of `snapshot`, of `total` matches in all. `items` are the next ones in order, up to
/// [`entries_to_read`].
///
/// # Errors
///
/// `Invalid` if the query cannot be expressed in JSON.
pub(crate) fn page_of(
    name: &SpaceName,
    query: &EntryQuery,
    snapshot: Snapshot,
    (mut items, total): (Vec<Entry>, u64),
) -> Result<ListAnswer<Entry>, StoreError> {
    let size = page_size(query);
    let has_more = items.len() > size;
    items.truncate(size);
    let next = match items.last().filter(|_| has_more) {
        Some(last) => {
            let after = After::of(query, last);
            let cursor = ListCursor { snapshot, total, after };
            Some(cursor.to_text(&binding(name, query)?))
        }
        None => None,
    };
    Ok(ListAnswer {
        returned: items.len(),
        items,
        total,
        next,
        at_least: query.uncounted,
        ..ListAnswer::empty(snapshot.as_of)
    })
}

/// Which of the entries that changed since the first page have to be rebuilt for a page.
///
/// All of them, as long as the total number of matches is unknown. After that, a list by age needs only the entries
/// between the previous page and the last entry of this one. In a list by rank or by last change, these are known only
/// once the entry is rebuilt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RebuildScope {
    order: Order,
    /// The number after which the page begins, if only the entries of the page are wanted.
    after: Option<u64>,
    limit: usize,
}

/// How many numbers are looked at for each entry of a page, to find the page right behind the previous one.
const NUMBERS_PER_ENTRY: u64 = 4;
/// The minimum of such numbers.
const MIN_NUMBERS: u64 = 64;

/// The numbers right behind the previous page of a list by age. Most later pages lie within them, so finding such a
/// page costs the same however long the list is, and whatever it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextNumbers {
    /// The lowest and the highest of them. If the first is higher, there are none.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether no entry lies behind them.
    is_rest: bool,
}

impl NextNumbers {
    /// The numbers for up to `limit` entries after `after`, in a space whose last entry has the number `last`. `None`
    /// if the order is not by age, or for a first page.
    pub(crate) fn of(query: &EntryQuery, after: Option<After>, limit: usize, last: u64) -> Option<Self> {
        let after = after?.number;
        let count = NUMBERS_PER_ENTRY.saturating_mul(limit as u64).max(MIN_NUMBERS);
        match query.order {
            Order::Oldest => {
                let to = after.saturating_add(count).min(last);
                let from = after.saturating_add(1);
                Some(Self {
                    from,
                    to,
                    is_rest: to == last,
                })
            }
            Order::Relevance | Order::Newest => {
                let to = after.min(last.saturating_add(1)).saturating_sub(1);
                let from = to.saturating_sub(count - 1).max(1);
                Some(Self {
                    from,
                    to,
                    is_rest: from == 1,
                })
            }
            Order::Priority | Order::LastChanged => None,
        }
    }

    /// Whether `found` entries among these numbers are the whole page, of up to `limit` entries.
    pub(crate) fn have_page(&self, found: usize, limit: usize) -> bool {
        self.is_rest || found >= limit
    }
}

/// How many entries are rebuilt at a time.
const REBUILD_BATCH: usize = 1_000;
/// The minimum for one page: the entries may all be of one commit, which the next batch reads again.
const MIN_REBUILD_BATCH: usize = 200;

impl RebuildScope {
    /// The part for the page with the first `limit` entries after `after`, of `total` matches.
    pub(crate) fn of(query: &EntryQuery, after: Option<After>, total: Option<u64>, limit: usize) -> Self {
        let by_age = !matches!(query.order, Order::Priority | Order::LastChanged);
        let after = after.filter(|_| by_age && total.is_some());
        Self {
            order: query.order,
            after: after.map(|after| after.number),
            limit,
        }
    }

    /// The part of `changed`, which is sorted by number, that may belong to the page.
    pub(crate) fn of_changed<'c, T>(&self, changed: &'c [T], number: impl Fn(&T) -> u64) -> &'c [T] {
        match (self.after, self.order) {
            (None, _) => changed,
            (Some(after), Order::Oldest) => &changed[changed.partition_point(|one| number(one) <= after)..],
            (Some(after), _) => &changed[..changed.partition_point(|one| number(one) < after)],
        }
    }

    /// The same in chunks, in the order of the list.
    pub(crate) fn chunks<'c, T>(&self, changed: &'c [T]) -> Box<dyn Iterator<Item = &'c [T]> + Send + 'c>
    where
        T: Sync,
    {
        let size = self.after.map_or(REBUILD_BATCH, |_| self.limit.max(MIN_REBUILD_BATCH));
        match self.order {
            Order::Oldest => Box::new(changed.chunks(size)),
            _ => Box::new(changed.rchunks(size)),
        }
    }

    /// Whether the page, which has `items` so far, is full before any entry of `chunk` comes.
    pub(crate) fn ends_before<T>(&self, chunk: &[T], items: &[Entry], number: impl Fn(&T) -> u64) -> bool {
        let last = items
            .last()
            .filter(|_| self.after.is_some() && items.len() >= self.limit);
        last.is_some_and(|last| match self.order {
            Order::Oldest => chunk.first().is_some_and(|first| number(first) > last.handle.0),
            _ => chunk.last().is_some_and(|first| number(first) < last.handle.0),
        })
    }
}
