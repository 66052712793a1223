//! Decides which indexes to drop so that those of all spaces fit in memory.

/// An index in memory.
#[derive(Debug)]
pub(crate) struct Held<S> {
    /// When it was last queried, counted in queries.
    pub(crate) asked_at: u64,
    /// Roughly how many bytes it takes.
    pub(crate) bytes: usize,
    /// The space to which it belongs.
    pub(crate) space: S,
}

/// Those of `indexes` to drop so that the others take no more than `bytes_max` together: the ones that were not queried
/// for the longest time.
pub(crate) fn indexes_to_drop<S>(mut indexes: Vec<Held<S>>, bytes_max: usize) -> Vec<S> {
    indexes.sort_by_key(|index| std::cmp::Reverse(index.asked_at));
    let mut left = bytes_max;
    let mut to_drop = Vec::new();
    for index in indexes {
        match left.checked_sub(index.bytes) {
            Some(rest) if to_drop.is_empty() => left = rest,
            _ => to_drop.push(index.space),
        }
    }
    to_drop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_queried_indexes_are_dropped_first() {
        let held = |bytes: [usize; 4]| {
            let names = ["a", "b", "c", "d"].into_iter().zip([7, 2, 9, 4]);
            let held = names
                .zip(bytes)
                .map(|((space, asked_at), bytes)| Held { asked_at, bytes, space });
            held.collect::<Vec<_>>()
        };
        assert_eq!(indexes_to_drop(held([10, 10, 10, 10]), 40), [""; 0]);
        assert_eq!(indexes_to_drop(held([10, 10, 10, 10]), 39), ["b"]);
        assert_eq!(indexes_to_drop(held([10, 10, 10, 10]), 20), ["d", "b"]);
        assert_eq!(
            indexes_to_drop(held([30, 1, 10, 1]), 20),
            ["a", "d", "b"],
            "what is left is the newest"
        );
        assert_eq!(indexes_to_drop(held([1, 1, 50, 1]), 20), ["c", "a", "d", "b"]);
    }
}
