//! Queries to the index.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use folio_memory::{EntryQuery, Order, Owner, Status, Tag};
use roaring::{MultiOps, RoaringBitmap};

use super::index::{Family, LiveIndex};

/// A query: its filters, and what the store looked up for it.
#[derive(Debug)]
pub(crate) struct IndexQuery<'q> {
    pub(crate) query: &'q EntryQuery,
    /// The number of the page to which the query refers.
    pub(crate) page: Option<u64>,
    /// The terms of the values that the query requires in the context.
    pub(crate) context: Vec<String>,
    /// No entry beyond this number.
    pub(crate) last: Option<u64>,
    /// Only entries beyond this number, and these.
    pub(crate) since: Option<(u64, Vec<u64>)>,
    /// Without these entries.
    pub(crate) without: Vec<u64>,
    /// Only entries after the one with this rank, confidence and number.
    pub(crate) after: Option<(u32, f64, u64)>,
    /// The most entries to return.
    pub(crate) limit: usize,
}

/// Whether an index can answer `query`: it contains only live entries, and of those only what is memory in its own
/// right, and it does not know when they were changed.
pub(crate) fn is_for_live_entries(query: &EntryQuery) -> bool {
    !query.kinds.is_empty()
        && query.kinds.iter().all(|kind| kind.is_memory())
        && !query.status.contains(&Status::Archived)
        && !query.include_expired
        && !query.include_superseded
        && query.order != Order::LastChanged
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The numbers of the first entries, in order.
    pub(crate) numbers: Vec<u64>,
    /// How many entries match in total, including those before `after`.
    pub(crate) total: u64,
}

impl LiveIndex {
    /// The entries that match and are live at the index's own time.
    pub(crate) fn find(&self, index_query: &IndexQuery<'_>) -> Found {
        let slots = self.matching(index_query);
        let total = slots.len();
        let numbers = match index_query.query.order {
            Order::Oldest => {
                let from = index_query.after.map_or(0, |(.., number)| self.first_beyond(number));
                let slots = slots.range(from..).take(index_query.limit);
                slots.map(|slot| self.number(slot)).collect()
            }
            Order::Relevance | Order::Newest | Order::LastChanged => {
                let until = index_query
                    .after
                    .map_or(u32::MAX, |(.., number)| self.first_from(number));
                let slots = slots.range(..until).rev().take(index_query.limit);
                slots.map(|slot| self.number(slot)).collect()
            }
            Order::Priority => self.by_priority(index_query, &slots),
        };
        Found { numbers, total }
    }

    /// The slots of the entries that match.
    fn matching(&self, index_query: &IndexQuery<'_>) -> RoaringBitmap {
        let mut found = self.common_to(self.required(index_query));
        self.narrow_by_query(&mut found, index_query.query);
        self.narrow_by_number(&mut found, index_query);
        match index_query.query.min_confidence {
            Some(least) => found.iter().filter(|slot| self.confidence(*slot) >= least).collect(),
            None => found,
        }
    }

    /// The sets in all of which an entry has to be.
    fn required(&self, index_query: &IndexQuery<'_>) -> Vec<Cow<'_, RoaringBitmap>> {
        let query = index_query.query;
        let or_none = |set: Option<_>| set.map_or_else(Cow::default, Cow::Borrowed);
        let mut all = Vec::new();
        if let Some(page) = index_query.page {
            all.push(or_none(self.set(Family::Page, &page.to_string())));
        }
        let tags = query.tags.iter().map(Tag::as_str);
        let terms = tags.chain(index_query.context.iter().map(String::as_str));
        all.extend(terms.map(|term| or_none(self.set_of(term))));
        let families: [(Family, Vec<&str>); 4] = [
            (Family::Kind, query.kinds.iter().map(|kind| kind.as_str()).collect()),
            (Family::Type, query.types.iter().map(String::as_str).collect()),
            (
                Family::Status,
                query.status.iter().map(|status| status.as_str()).collect(),
            ),
            (Family::Owner, query.owner.iter().map(Owner::as_str).collect()),
        ];
        for (family, names) in families {
            match names[..] {
                [] => {}
                [name] => all.push(or_none(self.set(family, name))),
                _ => all.push(Cow::Owned(
                    names.iter().filter_map(|name| self.set(family, name)).union(),
                )),
            }
        }
        if query.pinned == Some(true) {
            all.push(or_none(self.set(Family::Pinned, "")));
        }
        if !query.tags_any.is_empty() {
            let tags = query.tags_any.iter().filter_map(|tag| self.set_of(tag.as_str()));
            all.push(Cow::Owned(tags.union()));
        }
        all.push(Cow::Borrowed(self.live()));
        all
    }

    /// The slots that are in each of `sets`.
    fn common_to(&self, mut sets: Vec<Cow<'_, RoaringBitmap>>) -> RoaringBitmap {
        // A set of all entries restricts nothing.
        let slots = self.slots();
        sets.retain(|set| set.len() < slots);
        sets.sort_by_key(|set| set.len());
        match &sets[..] {
            [] => self.live().clone(),
            [only] => RoaringBitmap::clone(only),
            // The smallest first: the intersection never grows, so most of the work is done on small sets.
            [smallest, next, others @ ..] => {
                let mut found = &**smallest & &**next;
                others.iter().for_each(|set| found &= &**set);
                found
            }
        }
    }

    /// Removes from `found` what `query` excludes.
    fn narrow_by_query(&self, found: &mut RoaringBitmap, query: &EntryQuery) {
        if query.pinned == Some(false)
            && let Some(pinned) = self.set(Family::Pinned, "")
        {
            *found -= pinned;
        }
        for name in &query.types_none {
            if let Some(set) = self.set(Family::Type, name) {
                *found -= set;
            }
        }
        for tag in &query.tags_none {
            if let Some(set) = self.set_of(tag.as_str()) {
                *found -= set;
            }
        }
    }

    /// Removes from `found` the entries whose numbers the store ruled out.
    fn narrow_by_number(&self, found: &mut RoaringBitmap, index_query: &IndexQuery<'_>) {
        if let Some(last) = index_query.last {
            found.remove_range(self.first_beyond(last)..);
        }
        if let Some((since, changed)) = &index_query.since {
            let mut kept: RoaringBitmap = changed.iter().filter_map(|number| self.bit_of(*number)).collect();
            kept &= &*found;
            found.remove_range(..self.first_beyond(*since));
            *found |= kept;
        }
        for number in &index_query.without {
            if let Some(bit) = self.bit_of(*number) {
                found.remove(bit);
            }
        }
    }

    fn by_priority(&self, index_query: &IndexQuery<'_>, slots: &RoaringBitmap) -> Vec<u64> {
        let ranks = &index_query.query.ranks;
        let mut by_rank: BTreeMap<u32, RoaringBitmap> = BTreeMap::new();
        let mut rest = slots.clone();
        for (type_name, rank) in &ranks.known {
            if let Some(set) = self.set(Family::Type, type_name) {
                *by_rank.entry(*rank).or_default() |= slots & set;
                rest -= set;
            }
        }
        *by_rank.entry(ranks.other).or_default() |= rest;
        let mut numbers = Vec::new();
        for (rank, slots) in by_rank {
            let missing = index_query.limit - numbers.len();
            if missing == 0 || index_query.after.is_some_and(|(after, ..)| rank < after) {
                continue;
            }
            let after = index_query
                .after
                .filter(|(after, ..)| rank == *after)
                .map(|(_, sureness, number)| Ranked { sureness, number });
            // The best so far, with the worst of them on top.
            let mut best: BinaryHeap<Ranked> = BinaryHeap::with_capacity(missing + 1);
            for slot in &slots {
                let confidence = self.confidence(slot);
                let ranked = Ranked {
                    sureness: if confidence.is_nan() { 0.0 } else { confidence },
                    number: self.number(slot),
                };
                if after.as_ref().is_some_and(|after| ranked <= *after) {
                    continue;
                }
                best.push(ranked);
                if best.len() > missing {
                    best.pop();
                }
            }
            numbers.extend(best.into_sorted_vec().into_iter().map(|ranked| ranked.number));
        }
        numbers
    }

    fn bit_of(&self, number: u64) -> Option<u32> {
        self.slot_of(number).ok().and_then(|slot| u32::try_from(slot).ok())
    }

    /// The first slot of an entry beyond `number`.
    fn first_beyond(&self, number: u64) -> u32 {
        let slot = self.slot_of(number).map_or_else(|slot| slot, |slot| slot + 1);
        u32::try_from(slot).unwrap_or(u32::MAX)
    }

    /// The slot of `number`, or the first one beyond it.
    fn first_from(&self, number: u64) -> u32 {
        let slot = self.slot_of(number).unwrap_or_else(|slot| slot);
        u32::try_from(slot).unwrap_or(u32::MAX)
    }
}

/// The order of entries with the same rank: more confident first, then newer.
#[derive(Debug)]
struct Ranked {
    sureness: f64,
    number: u64,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .sureness
            .total_cmp(&self.sureness)
            .then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}
