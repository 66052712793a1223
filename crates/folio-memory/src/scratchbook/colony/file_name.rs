//! File names for threads. The key of a thread is opaque, so its name must lead back to it, and no two keys may share a
//! name, even on a file system that ignores case or composes accents (M7.4.38).
//!
//! Lower-case letters, digits, `-`, `_` and inner dots stand for themselves; every other byte of the key is written as
//! `%` and two hexadecimal digits: `a/b` is `a%2Fb`. A name of more than 200 bytes is split into folders whose names
//! end with `%`.

use std::fmt::Write as _;

use crate::space::ThreadKey;

/// The longest key that has a file name, in bytes.
pub const MAX_THREAD_BYTES: usize = 1_000;

/// The longest part of a name, in bytes.
const PART_BYTES: usize = 200;

const SUFFIX: &str = ".json";

/// The file of `thread`, relative to the folder of scratchbooks, with `/` between its parts. `None` for an empty key or
/// one of more than [`MAX_THREAD_BYTES`].
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
            // Writing to a string cannot fail.
            let _written = write!(name, "%{byte:02X}");
            part += 3;
        }
    }
    name.push_str(SUFFIX);
    Some(name)
}

/// The same as one name without folders and extension, however long, for uses other than files.
#[must_use]
pub fn name_of(thread: &ThreadKey) -> Option<String> {
    let name = file_name(thread)?;
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    Some(stem.replace("%/", ""))
}

/// The thread whose file is called `name`; `None` if that is not the name of a scratchbook file. Characters that are
/// not percent-encoded stand for themselves, since other programs name their files differently.
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
