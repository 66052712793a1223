//! The key of a numbered row, and what is numbered.

const NUMBER_BITS: u32 = 40;
const LAST_NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// The row of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SpaceId(pub(crate) i64);

/// Where a numbered row stands: its space in the upper bits, its number in the lower forty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(i64);

impl Place {
    /// The place of `number` in `space`. Numbers beyond forty bits, which are never given, share the last place.
    pub(crate) fn of(space: SpaceId, number: u64) -> Self {
        Self((space.0 << NUMBER_BITS) | to_column(number.min(LAST_NUMBER)))
    }

    /// Before every row of `space`.
    pub(crate) fn start(space: SpaceId) -> Self {
        Self::of(space, 0)
    }

    /// Behind every row of `space`.
    pub(crate) fn end(space: SpaceId) -> Self {
        Self::of(space, LAST_NUMBER)
    }

    /// As a column keeps it.
    pub(crate) fn raw(self) -> i64 {
        self.0
    }

    /// What a column has.
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

/// What a commit is noted to have to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    Entry,
    Run,
}

impl Touched {
    /// As rows name it, and handles begin.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Entry => "e",
            Self::Run => "r",
        }
    }
}

/// A count as a column keeps it. Counts that would not fit are never reached.
pub(crate) fn to_column(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count as a column keeps it, read back; a negative one, which only damage can bring, reads as zero.
pub(crate) fn from_column(column: i64) -> u64 {
    u64::try_from(column).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gives_its_space_and_number_back() {
        for (space, number) in [(0, 0), (1, 42), (8_388_607, LAST_NUMBER)] {
            let place = Place::of(SpaceId(space), number);
            assert_eq!((place.space(), place.number()), (SpaceId(space), number));
        }
    }

    #[test]
    fn a_number_that_is_never_given_names_nothing_of_the_next_space() {
        assert_eq!(Place::of(SpaceId(1), u64::MAX).space(), SpaceId(1));
    }
}
