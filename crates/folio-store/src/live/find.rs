//! Queries to the index.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use folio_memory::{EntryKind, EntryQuery, Order, Status};
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

    fn matching(&self, index_query: &IndexQuery<'_>) -> RoaringBitmap {
        let query = index_query.query;
        let none = RoaringBitmap::new();
        let mut all: Vec<&RoaringBitmap> = Vec::new();
        let mut unions: Vec<RoaringBitmap> = Vec::new();
        let page = index_query.page.map(|page| page.to_string());
        all.extend(page.map(|page| self.set(Family::Page, &page).unwrap_or(&none)));
        for term in query
            .tags
            .iter()
            .map(folio_memory::Tag::as_str)
            .chain(index_query.context.iter().map(String::as_str))
        {
            all.push(self.set_of(term).unwrap_or(&none));
        }
        let families = [
            (
                Family::Kind,
                query
                    .kinds
                    .iter()
                    .map(|kind: &EntryKind| kind.as_str())
                    .collect::<Vec<_>>(),
            ),
            (Family::Type, query.types.iter().map(String::as_str).collect()),
            (
                Family::Status,
                query.status.iter().map(|status: &Status| status.as_str()).collect(),
            ),
            (
                Family::Owner,
                query.owner.iter().map(folio_memory::Owner::as_str).collect(),
            ),
        ];
        for (family, names) in &families {
            match names[..] {
                [] => {}
                [name] => all.push(self.set(*family, name).unwrap_or(&none)),
                _ => unions.push(names.iter().filter_map(|name| self.set(*family, name)).union()),
            }
        }
        let pinned = self.set(Family::Pinned, "").unwrap_or(&none);
        if query.pinned == Some(true) {
            all.push(pinned);
        }
        if !query.tags_any.is_empty() {
            unions.push(
                query
                    .tags_any
                    .iter()
                    .filter_map(|tag| self.set_of(tag.as_str()))
                    .union(),
            );
        }
        all.extend(&unions);
        all.push(self.live());
        // A set of all entries restricts nothing.
        let slots = self.slots();
        all.retain(|set| set.len() < slots);
        all.sort_by_key(|set| set.len());
        let mut found = match all[..] {
            [] => self.live().clone(),
            [only] => only.clone(),
            // The smallest first: the intersection never grows, so most of the work is done on small sets.
            [smallest, next, ref others @ ..] => {
                let mut found = smallest & next;
                others.iter().for_each(|set| found &= *set);
                found
            }
        };
        if query.pinned == Some(false) {
            found -= pinned;
        }
        for tag in &query.tags_none {
            if let Some(set) = self.set_of(tag.as_str()) {
                found -= set;
            }
        }
        if let Some(last) = index_query.last {
            found.remove_range(self.first_beyond(last)..);
        }
        if let Some((since, changed)) = &index_query.since {
            let mut kept: RoaringBitmap = changed.iter().filter_map(|number| self.bit_of(*number)).collect();
            kept &= &found;
            found.remove_range(..self.first_beyond(*since));
            found |= kept;
        }
        for number in &index_query.without {
            if let Some(bit) = self.bit_of(*number) {
                found.remove(bit);
            }
        }
        if let Some(least) = query.min_confidence {
            found = found.iter().filter(|slot| self.confidence(*slot) >= least).collect();
        }
        found
    }

    fn by_priority(&self, index_query: &IndexQuery<'_>, slots: &RoaringBitmap) -> Vec<u64> {
        let ranks = &index_query.query.ranks;
        let mut by_rank: std::collections::BTreeMap<u32, RoaringBitmap> = std::collections::BTreeMap::new();
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
