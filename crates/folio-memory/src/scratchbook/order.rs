//! The order of the items of a scratchbook (seed 003, A1).

use std::cmp::Ordering;

use crate::entry::{Entry, EntryKind, State, Status};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Pinned(u32),
    Task(u8),
    Todo(u8),
    Note,
    Settled,
}

fn urgency(now: Timestamp, item: &Entry) -> Urgency {
    let stage = match item.fields.status {
        Status::InProgress => 0,
        Status::Blocked => 2,
        _ => 1,
    };
    match (item.fields.pin_rank, item.state(now), item.kind) {
        (Some(rank), State::Live | State::Settled, _) => Urgency::Pinned(rank),
        (_, State::Live, EntryKind::Task | EntryKind::Step | EntryKind::Goal) => Urgency::Task(stage),
        (_, State::Live, EntryKind::Todo | EntryKind::PendingAction) => Urgency::Todo(stage),
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
