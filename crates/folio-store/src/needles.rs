//! Searching one text for very many others at once.

use std::collections::BTreeSet;

/// How many bytes of its beginning decide whether a needle is looked up at a position.
const BEGINNING_BYTES: usize = 8;
/// How many bits of the filter there are for each needle: about one position in so many is looked up in vain.
const BITS_PER_NEEDLE: usize = 16;

/// Texts that are searched for together. Searching costs about the same however many there are: at each position of
/// the searched text, a filter tells whether any needle may begin there, and then a binary search tells which ones do.
///
/// An automaton for all of them would need many times the memory of the texts, which may be those of a whole space.
#[derive(Debug)]
pub(crate) struct Needles<T> {
    /// The needles that are not empty, sorted, each with its labels.
    sorted: Vec<(Box<[u8]>, Vec<T>)>,
    /// For each needle, the longest other one that it begins with.
    shorter: Vec<Option<usize>>,
    filter: Filter,
}

impl<T> Needles<T> {
    /// The needles in `texts`, each with what a search reports when it occurs.
    pub(crate) fn of<B: AsRef<[u8]>>(texts: impl IntoIterator<Item = (B, T)>) -> Self {
        let mut texts: Vec<_> = texts.into_iter().collect();
        texts.retain(|(text, _)| !text.as_ref().is_empty());
        texts.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        let mut sorted: Vec<(Box<[u8]>, Vec<T>)> = Vec::with_capacity(texts.len());
        for (text, label) in texts {
            match sorted.last_mut() {
                Some((last, labels)) if **last == *text.as_ref() => labels.push(label),
                _ => sorted.push((text.as_ref().into(), vec![label])),
            }
        }
        let mut shorter: Vec<Option<usize>> = Vec::with_capacity(sorted.len());
        for (number, (text, _)) in sorted.iter().enumerate() {
            // Whatever the needle begins with, the one before it begins with as well, or is.
            let mut before = number.checked_sub(1);
            while let Some(other) = before.filter(|other| !text.starts_with(&sorted[*other].0)) {
                before = shorter[other];
            }
            shorter.push(before);
        }
        let filter = Filter::of(sorted.iter().map(|(text, _)| &**text));
        Self {
            sorted,
            shorter,
            filter,
        }
    }

    /// The labels of the needles that occur in `text`, those of each needle as often as it occurs.
    pub(crate) fn in_text<'s>(&'s self, text: &'s [u8]) -> impl Iterator<Item = &'s T> {
        self.filter
            .possible_starts(text)
            .flat_map(|start| self.at_start_of(&text[start..]))
    }

    /// Whether any of the needles occurs in `text`.
    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        self.in_text(text).next().is_some()
    }

    /// Whether `text` ends with the first `least` bytes of any of the needles, or with more of its beginning. `least`
    /// must not be 0.
    pub(crate) fn begin_at_end_of(&self, text: &[u8], least: usize) -> bool {
        let starts = 0..(text.len() + 1).saturating_sub(least);
        // No needle begins further away from the end than the longest one is long.
        starts.rev().take(self.filter.longest).any(|start| {
            let end = &text[start..];
            self.filter.may_begin(end) && {
                let first = self.sorted.partition_point(|(needle, _)| **needle < *end);
                self.sorted
                    .get(first)
                    .is_some_and(|(needle, _)| needle.starts_with(end))
            }
        })
    }

    /// The labels of the needles with which `text` begins.
    fn at_start_of<'s>(&'s self, text: &'s [u8]) -> impl Iterator<Item = &'s T> {
        // All of them are the last needle that does not sort behind the text, or that one begins with them.
        let behind = self.sorted.partition_point(|(needle, _)| **needle <= *text);
        let chain = std::iter::successors(behind.checked_sub(1), |number| self.shorter[*number]);
        chain
            .map(|number| &self.sorted[number])
            .filter(|(needle, _)| text.starts_with(needle))
            .flat_map(|(_, labels)| labels)
    }
}

/// Tells at which positions of a text a needle may begin.
#[derive(Debug)]
struct Filter {
    bits: Vec<u64>,
    /// How many bits of a hash make a position in `bits`.
    shift: u32,
    /// How many bytes are hashed: no needle is shorter.
    bytes: usize,
    longest: usize,
}

impl Filter {
    fn of<'n>(needles: impl Iterator<Item = &'n [u8]> + Clone) -> Self {
        let shortest = needles.clone().map(<[u8]>::len).min().unwrap_or(BEGINNING_BYTES);
        let bytes = shortest.min(BEGINNING_BYTES);
        let beginnings: BTreeSet<&[u8]> = needles.clone().map(|needle| &needle[..bytes]).collect();
        let size = (beginnings.len() * BITS_PER_NEEDLE).next_power_of_two().max(64);
        let mut filter = Self {
            bits: vec![0; size / 64],
            shift: 64 - size.trailing_zeros(),
            bytes,
            longest: needles.map(<[u8]>::len).max().unwrap_or(0),
        };
        for beginning in beginnings {
            let (word, bit) = filter.place_of(number_of(beginning));
            filter.bits[word] |= bit;
        }
        filter
    }

    fn place_of(&self, beginning: u64) -> (usize, u64) {
        // Fibonacci hashing: the highest bits depend on all of the number.
        let hash = beginning.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift;
        let word = usize::try_from(hash / 64).unwrap_or(usize::MAX);
        (word, 1 << (hash % 64))
    }

    fn has(&self, beginning: u64) -> bool {
        let (word, bit) = self.place_of(beginning);
        self.bits[word] & bit != 0
    }

    /// Whether a needle may begin like `text`, which may be shorter than that.
    fn may_begin(&self, text: &[u8]) -> bool {
        text.get(..self.bytes)
            .is_none_or(|beginning| self.has(number_of(beginning)))
    }

    fn possible_starts<'s>(&'s self, text: &'s [u8]) -> impl Iterator<Item = usize> + 's {
        let mask = u64::MAX >> (64 - 8 * self.bytes);
        let mut last = 0_u64;
        let ends = text.iter().enumerate().filter_map(move |(end, byte)| {
            last = (last << 8 | u64::from(*byte)) & mask;
            let start = (end + 1).checked_sub(self.bytes)?;
            self.has(last).then_some(start)
        });
        ends.filter(|_| self.longest > 0)
    }
}

/// Up to eight bytes as a number.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn needle_is_found_at_both_ends_and_inside_others() {
        let needles = Needles::of([("abcdefghij", 1), ("cde", 2), ("abc", 3), ("abc", 4), ("", 5)]);
        let found = |text: &str| needles.in_text(text.as_bytes()).copied().collect::<Vec<_>>();
        assert_eq!(found("abcdefghij"), [1, 3, 4, 2]);
        assert_eq!(found("xxabc"), [3, 4]);
        assert_eq!(found("ab"), [0; 0]);
        assert_eq!(found(""), [0; 0]);
        assert!(!Needles::of([("", 1)]).are_in(b"anything"));
    }

    proptest! {
        #[test]
        fn many_needles_are_found_like_each_of_them_alone(
            texts in prop::collection::vec("[ab]{0,12}", 0..40),
            text in "[abc]{0,60}",
            least in 1_usize..8,
        ) {
            let needles = Needles::of(texts.iter().map(|text| (text, text.as_str())));
            let found: BTreeSet<&str> = needles.in_text(text.as_bytes()).copied().collect();
            let expected: BTreeSet<&str> =
                texts.iter().map(String::as_str).filter(|one| !one.is_empty() && text.contains(one)).collect();
            prop_assert_eq!(found, expected);
            let ends = texts.iter().any(|one| (least..=one.len()).any(|length| text.ends_with(&one[..length])));
            prop_assert_eq!(needles.begin_at_end_of(text.as_bytes(), least), ends);
        }
    }
}
