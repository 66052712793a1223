//! Threads as names of files. A key of a thread is opaque, so its name has to lead back to it, and no two keys may have the
//! same, also where a file system does not tell `A` from `a` or composes accents (M7.4.38).
//!
//! Lower-case letters, digits, `-`, `_` and dots inside stand as they are; every other byte of the key is `%` and two digits:
//! `a/b` is `a%2Fb`. A name of more than 200 bytes is cut into folders whose names end with `%`.

use std::fmt::Write as _;

use crate::space::ThreadKey;

/// Bytes of the longest key that has a name.
pub const MAX_THREAD_BYTES: usize = 1_000;

/// Bytes of one part of a name.
const PART_BYTES: usize = 200;

const SUFFIX: &str = ".json";

/// The file of `thread`, below the folder of scratchbooks, with `/` between its parts; none for a key of more than
/// [`MAX_THREAD_BYTES`], or an empty one.
#[must_use]
pub fn file_name(thread: &ThreadKey) -> Option<String> {
    let key = thread.0.as_bytes();
    if key.is_empty() || key.len() > MAX_THREAD_BYTES {
        return None;
    }
    let mut name = String::new();
    let mut part = 0;
    for byte in key {
        if part + 3 > PART_BYTES {
            name.push_str("%/");
            part = 0;
        }
        let is_plain = byte.is_ascii_lowercase()
            || byte.is_ascii_digit()
            || matches!(byte, b'-' | b'_')
            || *byte == b'.' && part > 0;
        if is_plain {
            name.push(char::from(*byte));
            part += 1;
        } else {
            // Writing to a string does not fail.
            let _written = write!(name, "%{byte:02X}");
            part += 3;
        }
    }
    name.push_str(SUFFIX);
    Some(name)
}

/// The same without folders and ending, for whoever does not keep files: one name, however long.
#[must_use]
pub fn name_of(thread: &ThreadKey) -> Option<String> {
    let name = file_name(thread)?;
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    Some(stem.replace("%/", ""))
}

/// The thread whose file is called `name`; none if that is not the name of a file of a scratchbook. What is no code of a byte is
/// taken as it stands: others name their files otherwise.
#[must_use]
pub fn thread_of(name: &str) -> Option<ThreadKey> {
    let mut joined = String::new();
    let mut parts = name.split('/').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_some() {
            joined.push_str(part.strip_suffix('%')?);
        } else {
            joined.push_str(part.strip_suffix(SUFFIX)?);
        }
    }
    let mut key = Vec::with_capacity(joined.len());
    let mut rest = joined.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let is_code = code.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' && is_code => {
                key.push(byte);
                rest = &tail[2..];
            }
            _ => {
                key.push(*first);
                rest = tail;
            }
        }
    }
    let key = String::from_utf8(key).unwrap_or(joined);
    (!key.is_empty()).then_some(ThreadKey(key))
}
