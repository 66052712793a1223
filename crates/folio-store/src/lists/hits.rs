//! What a search for a text found: its order, and one page of it.

use std::cmp::Reverse;

use folio_memory::{Entry, EntryQuery, FOUND_MAX, Order};

use crate::cursor::search::Position;
use crate::place::Place;

/// The entries that were found.
#[derive(Debug)]
pub(crate) struct Hits {
    pub(crate) hits: Vec<Hit>,
    /// How many entries match, counted up to [`FOUND_MAX`].
    pub(crate) total: u64,
    /// Whether there are more than were counted.
    pub(crate) at_least: bool,
}

/// An entry that was found.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) place: Place,
    pub(crate) score: f64,
    /// The entry as it was, if it has changed since the state of memory that is asked for; or as it is, if the order
    /// needs it.
    pub(crate) before: Option<Box<Entry>>,
}

impl Hits {
    /// What a search found: the entries of the index, with how many of them were counted and whether no more match,
    /// and those that have `changed` since the state of memory that is asked for.
    ///
    /// Unless the list is by age, only the newest [`FOUND_MAX`] of all of them are kept: the same ones on each page,
    /// however many have changed since the first one.
    pub(crate) fn of(order: Order, (mut hits, counted, is_whole): (Vec<Hit>, u64, bool), changed: Vec<Hit>) -> Self {
        let counted = counted + changed.len() as u64;
        hits.extend(changed);
        if !is_by_age(order) && hits.len() > FOUND_MAX as usize {
            hits.sort_unstable_by_key(|hit| Reverse(hit.place));
            hits.truncate(FOUND_MAX as usize);
        }
        Self {
            hits,
            total: counted.min(FOUND_MAX.into()),
            at_least: !is_whole || counted > FOUND_MAX.into(),
        }
    }
}

/// Whether a list in this order is by age. Such a list has no end, so it is not cut off where counting ends.
pub(crate) fn is_by_age(order: Order) -> bool {
    matches!(order, Order::Newest | Order::Oldest)
}

/// Whether hits can be put into this order only with their entries in [`Hit::before`].
pub(crate) fn needs_entries(order: Order) -> bool {
    matches!(order, Order::Priority | Order::LastChanged)
}

/// Sorts `hits` as `query` wants them: by relevance, the best match first.
pub(crate) fn sort(query: &EntryQuery, hits: &mut [Hit]) {
    match query.order {
        Order::Relevance => {
            hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.place.cmp(&a.place)));
        }
        Order::Newest => hits.sort_unstable_by_key(|hit| Reverse(hit.place)),
        Order::Oldest => hits.sort_unstable_by_key(|hit| hit.place),
        Order::Priority | Order::LastChanged => hits.sort_by(|a, b| match (&a.before, &b.before) {
            (Some(a), Some(b)) => query.compare(a, b),
            _ => std::cmp::Ordering::Equal,
        }),
    }
}

/// The hits of this page, and where to continue if there are more.
pub(crate) fn part(hits: Vec<Hit>, from: Option<Position>, query: &EntryQuery) -> (Vec<Hit>, Option<Position>) {
    let limit = usize::try_from(query.limit()).unwrap_or(usize::MAX);
    let is_left = |hit: &Hit| match &from {
        None => true,
        Some(Position::After(number)) if query.order == Order::Oldest => hit.place.number() > *number,
        Some(Position::After(number)) => hit.place.number() < *number,
        Some(Position::Given(given_numbers)) => !given_numbers.contains(&hit.place.number()),
    };
    let mut part: Vec<_> = hits.into_iter().filter(is_left).take(limit + 1).collect();
    let has_more = part.len() > limit;
    part.truncate(limit);
    let mut numbers = part.iter().map(|hit| hit.place.number());
    let next = match (query.order, from) {
        (Order::Newest | Order::Oldest, _) => numbers.next_back().map(Position::After),
        (_, Some(Position::Given(mut given_numbers))) => {
            given_numbers.extend(numbers);
            Some(Position::Given(given_numbers))
        }
        _ => Some(Position::Given(numbers.collect())),
    };
    let next = next.filter(|next| has_more && next.can_be_written());
    (part, next)
}
