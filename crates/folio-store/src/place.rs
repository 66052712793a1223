//! The keys of numbered rows, and the kinds of what is numbered.

const NUMBER_BITS: u32 = 40;
/// The highest number there can be.
pub(crate) const LAST_NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// The row id of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SpaceId(pub(crate) i64);

/// The key of a numbered row: the space in the upper bits, the number in the lower forty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(i64);

impl Place {
    /// The place of `number` in `space`. Numbers beyond forty bits, which are never assigned, share the last place.
    pub(crate) fn of(space: SpaceId, number: u64) -> Self {
        Self((space.0 << NUMBER_BITS) | to_column(number.min(LAST_NUMBER)))
    }

    /// The place before every row of `space`.
    pub(crate) fn start(space: SpaceId) -> Self {
        Self::of(space, 0)
    }

    /// The place behind every row of `space`.
    pub(crate) fn end(space: SpaceId) -> Self {
        Self::of(space, LAST_NUMBER)
    }

    /// The value for a column.
    pub(crate) fn raw(self) -> i64 {
        self.0
    }

    /// Reads the value of a column.
    pub(crate) fn from_raw(raw: i64) -> Self {
        Self(raw)
    }

    /// The number within the space.
    pub(crate) fn number(self) -> u64 {
        self.0.unsigned_abs() & LAST_NUMBER
    }

    /// The space.
    pub(crate) fn space(self) -> SpaceId {
        SpaceId(self.0 >> NUMBER_BITS)
    }
}

/// The kinds of things that the index of commits refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    Entry,
    Run,
}

impl Touched {
    /// The letter that names the kind in rows, and with which its handles begin.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Entry => "e",
            Self::Run => "r",
        }
    }
}

/// A count as a column stores it. Counts too large for a column do not occur.
pub(crate) fn to_column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Reads a count from a column; a negative one, which only damage can cause, reads as zero.
pub(crate) fn from_column(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_round_trips_its_space_and_number() {
        for (space, number) in [(0, 0), (1, 42), (8_388_607, LAST_NUMBER)] {
            let place = Place::of(SpaceId(space), number);
            assert_eq!((place.space(), place.number()), (SpaceId(space), number));
        }
    }

    #[test]
    fn place_of_an_oversized_number_stays_in_its_space() {
        assert_eq!(Place::of(SpaceId(1), u64::MAX).space(), SpaceId(1));
    }
}
