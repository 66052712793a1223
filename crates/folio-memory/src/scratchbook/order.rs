//! The order of the items of a scratchbook (seed 003, A1).

use std::cmp::Ordering;

use crate::entry::{Entry, EntryKind, State, Status};
use crate::id::{EntryHandle, Seq};
use crate::query::{EntryQuery, Order};
use crate::time::Timestamp;

/// Orders items by what a reader needs first: pinned items by rank; then tasks and todos, in progress before open
/// before blocked; then notes, newest first; then settled items, last touched first. A total order.
#[must_use]
pub fn by_urgency(now: Timestamp, a: &Entry, b: &Entry) -> Ordering {
    BookPlace::of(now, a).cmp(&BookPlace::of(now, b))
}

/// The position of an item in its book's order, as a cursor from which a list continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BookPlace {
    urgency: Urgency,
    /// What decides between items of equal urgency.
    tie_breakers: [u64; 3],
}

impl BookPlace {
    /// The position of `item` at `now`.
    #[must_use]
    pub fn of(now: Timestamp, item: &Entry) -> Self {
        let urgency = urgency(now, item);
        let then = match urgency {
            // Work is done in the order in which it was added.
            Urgency::Pinned(_) | Urgency::Task(_) | Urgency::Todo(_) => [item.handle.0, 0, 0],
            Urgency::Note => [!item.handle.0, 0, 0],
            // By the instant first, which an item keeps when it moves to another store, and not by the number of the
            // commit.
            Urgency::Settled => [
                !(item.updated_at.as_nanos().cast_unsigned() ^ (1 << 63)),
                !item.updated_seq.0,
                !item.handle.0,
            ],
        };
        Self {
            urgency,
            tie_breakers: then,
        }
    }

    /// The class to which the item belongs.
    #[must_use]
    pub fn class(&self) -> BookClass {
        match self.urgency {
            Urgency::Pinned(_) => BookClass::Pinned,
            Urgency::Task(stage) => BookClass::Task(stage),
            Urgency::Todo(stage) => BookClass::Todo(stage),
            Urgency::Note => BookClass::Note,
            Urgency::Settled => BookClass::Settled,
        }
    }

    /// The handle of the item.
    #[must_use]
    pub fn handle(&self) -> EntryHandle {
        let [first, _, third] = self.tie_breakers;
        EntryHandle(match self.urgency {
            Urgency::Pinned(_) | Urgency::Task(_) | Urgency::Todo(_) => first,
            Urgency::Note => !first,
            Urgency::Settled => !third,
        })
    }

    /// When a settled item was last changed; `None` for any other one.
    #[must_use]
    pub fn last_change(&self) -> Option<(Timestamp, Seq)> {
        let [at, seq, _] = self.tie_breakers;
        let at = Timestamp::from_nanos((!at ^ (1 << 63)).cast_signed());
        (self.urgency == Urgency::Settled).then_some((at, Seq(!seq)))
    }

    /// The position as text that [`BookPlace::parse`] reads.
    #[must_use]
    pub fn to_text(self) -> String {
        let (class, stage) = match self.urgency {
            Urgency::Pinned(rank) => ('p', rank),
            Urgency::Task(stage) => ('t', u32::from(stage)),
            Urgency::Todo(stage) => ('d', u32::from(stage)),
            Urgency::Note => ('n', 0),
            Urgency::Settled => ('s', 0),
        };
        let [first, second, third] = self.tie_breakers;
        format!("{class}{stage:x}.{first:x}.{second:x}.{third:x}")
    }

    /// Parses a position.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let head = parts.next()?;
        let mut letters = head.chars();
        let class = letters.next()?;
        let stage = u32::from_str_radix(letters.as_str(), 16).ok()?;
        let urgency = match class {
            'p' => Urgency::Pinned(stage),
            't' => Urgency::Task(u8::try_from(stage).ok()?),
            'd' => Urgency::Todo(u8::try_from(stage).ok()?),
            'n' => Urgency::Note,
            's' => Urgency::Settled,
            _ => return None,
        };
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let then = [number()?, number()?, number()?];
        parts.next().is_none().then_some(Self {
            urgency,
            tie_breakers: then,
        })
    }
}

/// The classes of items, in the order of a book. Within a class, an index tells the order, so a list needs to read no
/// more items than it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BookClass {
    /// Pinned items, by rank. Only the items themselves tell their ranks.
    Pinned,
    /// Tasks, steps and goals that are live: in progress (0), waiting (1), blocked (2).
    Task(u8),
    /// Todos and pending actions that are live, in the same stages.
    Todo(u8),
    /// Everything else that is live.
    Note,
    /// What is settled, or archived if that is asked for.
    Settled,
}

/// How many stages work has.
const STAGES: u8 = 3;
const TASKS: [EntryKind; 3] = [EntryKind::Task, EntryKind::Step, EntryKind::Goal];
const TODOS: [EntryKind; 2] = [EntryKind::Todo, EntryKind::PendingAction];

impl BookClass {
    /// Every class, in order.
    pub fn in_order() -> impl Iterator<Item = Self> {
        let stages = |class: fn(u8) -> Self| (0..STAGES).map(class);
        std::iter::once(Self::Pinned)
            .chain(stages(Self::Task))
            .chain(stages(Self::Todo))
            .chain([Self::Note, Self::Settled])
    }

    /// The class of an item of this kind and status that has not expired.
    fn of(kind: EntryKind, status: Status, is_pinned: bool) -> Self {
        match status.state() {
            State::Archived | State::Expired => Self::Settled,
            _ if is_pinned => Self::Pinned,
            State::Settled => Self::Settled,
            State::Live if TASKS.contains(&kind) => Self::Task(stage(status)),
            State::Live if TODOS.contains(&kind) => Self::Todo(stage(status)),
            State::Live => Self::Note,
        }
    }

    /// The queries that together find those matches of `query` that are of this class. Each finds them in the order of
    /// the class, except for pinned ones. `query` leaves out what has expired, and superseded items that are not
    /// archived.
    #[must_use]
    pub fn queries(self, query: &EntryQuery) -> Vec<EntryQuery> {
        // What runs wrote is found in another way than memory, which an index answers.
        let by_source = [true, false].map(|is_memory| {
            let kinds = EntryKind::ALL
                .into_iter()
                .filter(move |kind| kind.is_memory() == is_memory);
            kinds.filter(|kind| query.kinds.is_empty() || query.kinds.contains(kind))
        });
        let statuses = Status::ALL.into_iter().filter(|status| match query.status[..] {
            [] => *status != Status::Archived,
            _ => query.status.contains(status),
        });
        let statuses: Vec<_> = statuses.collect();
        let mut queries = Vec::new();
        for kinds in by_source {
            let kinds: Vec<_> = kinds.collect();
            for is_pinned in [true, false]
                .into_iter()
                .filter(|is| query.pinned.is_none_or(|wanted| wanted == *is))
            {
                // All kinds of a class have the same statuses in it.
                let is_ours = |kind: EntryKind, status: Status| Self::of(kind, status, is_pinned) == self;
                let has = |kind: &EntryKind| statuses.iter().any(|status| is_ours(*kind, *status));
                let kinds: Vec<_> = kinds.iter().copied().filter(has).collect();
                let Some(first) = kinds.first() else { continue };
                let status = statuses
                    .iter()
                    .copied()
                    .filter(|status| is_ours(*first, *status))
                    .collect();
                queries.push(EntryQuery {
                    kinds,
                    status,
                    pinned: Some(is_pinned),
                    order: self.order(),
                    ..query.clone()
                });
            }
        }
        queries
    }

    fn order(self) -> Order {
        match self {
            Self::Pinned | Self::Task(_) | Self::Todo(_) => Order::Oldest,
            Self::Note => Order::Newest,
            Self::Settled => Order::LastChanged,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Pinned(u32),
    Task(u8),
    Todo(u8),
    Note,
    Settled,
}

/// The stage of live work.
fn stage(status: Status) -> u8 {
    match status {
        Status::InProgress => 0,
        Status::Blocked => 2,
        _ => 1,
    }
}

fn urgency(now: Timestamp, item: &Entry) -> Urgency {
    let stage = stage(item.fields.status);
    match (item.fields.pin_rank, item.state(now), item.kind) {
        (Some(rank), State::Live | State::Settled, _) => Urgency::Pinned(rank),
        (_, State::Live, kind) if TASKS.contains(&kind) => Urgency::Task(stage),
        (_, State::Live, kind) if TODOS.contains(&kind) => Urgency::Todo(stage),
        (_, State::Live, _) => Urgency::Note,
        _ => Urgency::Settled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Trust;
    use crate::change::NewEntry;
    use crate::entry::{EntryFields, Owner};
    use crate::id::{EntryHandle, EntryId, PageId, Seq};

    fn item(handle: u64, kind: EntryKind, status: Status, pin_rank: Option<u32>) -> Entry {
        let mut fields = EntryFields::new(kind, Owner::agent(), Trust::User);
        (fields.status, fields.pin_rank) = (status, pin_rank);
        let new = NewEntry {
            id: EntryId::derived(&["e"]),
            page: PageId::derived(&["p"]),
            kind,
            fields,
        };
        Entry::added(new, EntryHandle(handle), Seq(handle), Timestamp::default())
    }

    #[test]
    fn each_item_is_found_by_the_queries_of_its_own_class_only() {
        let now = Timestamp::default();
        let mut items = Vec::new();
        for kind in EntryKind::ALL {
            for status in Status::ALL {
                items.extend([None, Some(3)].map(|pin_rank| item(9, kind, status, pin_rank)));
            }
        }
        let filters = [
            EntryQuery::default(),
            EntryQuery {
                status: Status::ALL.to_vec(),
                ..EntryQuery::default()
            },
            EntryQuery {
                kinds: vec![EntryKind::Note, EntryKind::Goal],
                status: vec![Status::Done, Status::Open, Status::Active],
                ..EntryQuery::default()
            },
        ];
        for (filter, item) in filters
            .iter()
            .flat_map(|filter| items.iter().map(move |item| (filter, item)))
        {
            let place = BookPlace::of(now, item);
            for class in BookClass::in_order() {
                let found = class.queries(filter);
                let found = found.iter().filter(|query| query.matches(item, now)).count();
                let expected = usize::from(filter.matches(item, now) && place.class() == class);
                assert_eq!(found, expected, "{class:?} {item:?}");
            }
            assert_eq!(place.handle(), item.handle);
            let last_change = (item.updated_at, item.updated_seq);
            let is_settled = place.class() == BookClass::Settled;
            assert_eq!(place.last_change(), is_settled.then_some(last_change));
        }
    }

    #[test]
    fn items_are_ordered_by_pin_then_work_status_then_notes() {
        let mut items = [
            item(1, EntryKind::Note, Status::Active, None),
            item(2, EntryKind::Todo, Status::Done, None),
            item(3, EntryKind::Todo, Status::Open, None),
            item(4, EntryKind::Task, Status::Blocked, None),
            item(5, EntryKind::Task, Status::Open, None),
            item(6, EntryKind::Task, Status::InProgress, None),
            item(7, EntryKind::Note, Status::Active, None),
            item(8, EntryKind::Note, Status::Active, Some(2)),
            item(9, EntryKind::Todo, Status::Open, Some(1)),
            item(10, EntryKind::Todo, Status::Open, None),
        ];
        items.sort_by(|a, b| by_urgency(Timestamp::default(), a, b));
        let order: Vec<u64> = items.iter().map(|item| item.handle.0).collect();
        assert_eq!(order, [9, 8, 6, 5, 4, 3, 10, 7, 1, 2]);
        let places = items.iter().map(|item| BookPlace::of(Timestamp::default(), item));
        for place in places {
            assert_eq!(BookPlace::parse(&place.to_text()), Some(place));
        }
        for wrong in ["", "x0.1.0.0", "p.1.0.0", "t1.1.0", "n0.1.0.0.0", "tfff.1.0.0"] {
            assert_eq!(BookPlace::parse(wrong), None, "{wrong}");
        }
    }
}
