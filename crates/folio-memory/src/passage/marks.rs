//! Where lines and characters of a text begin and end.

/// The number of line breaks in `bytes`.
#[must_use]
pub fn newlines(bytes: &[u8]) -> u64 {
    // Sums of up to 255 bytes fit into a `u8`, so that many can be added in parallel.
    let in_chunk = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes
        .chunks(usize::from(u8::MAX))
        .map(|chunk| u64::from(in_chunk(chunk)))
        .sum()
}

/// The offset at which the given line begins, counted from 1; the end if there is no such line.
#[must_use]
pub fn line_start(bytes: &[u8], line: u64) -> usize {
    let Some(before) = line.checked_sub(2) else { return 0 };
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut ends = ends.map(|(at, _)| at + 1);
    usize::try_from(before)
        .ok()
        .and_then(|before| ends.nth(before))
        .unwrap_or(bytes.len())
}

pub(super) fn is_continuation_byte(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The given offset, or that of the next character if it is inside of one.
pub(super) fn character_start(bytes: &[u8], from: usize) -> usize {
    (from..from + 4)
        .find(|at| !bytes.get(*at).is_some_and(|byte| is_continuation_byte(*byte)))
        .unwrap_or(from)
        .min(bytes.len())
}

/// The length of `bytes` without an incomplete character at the end.
#[must_use]
pub fn whole_characters(bytes: &[u8]) -> usize {
    // A character has at most four bytes, so an incomplete one has at most three.
    for from_end in 1..=bytes.len().min(3) {
        let at = bytes.len() - from_end;
        let char_len = match bytes[at] {
            byte if is_continuation_byte(byte) => continue,
            0xf0..=0xf7 => 4,
            0xe0..=0xef => 3,
            0xc0..=0xdf => 2,
            _ => 1,
        };
        return if char_len > from_end { at } else { bytes.len() };
    }
    bytes.len()
}
