//! The lines of a program's output, before the library of the protocol reads them.

use std::borrow::Cow;

use agent_client_protocol::v1::schema::PermissionOption;
use folio_memory::readable::readable;
use serde::Deserialize as _;
use serde_json::Value;

/// The method by which it asks for permission.
const PERMISSION_METHOD: &str = "session/request_permission";

/// A line of the program's output.
pub(super) struct OutputLine {
    /// Its text; U+FFFD stands for what is not UTF-8.
    pub(super) text: String,
    /// Its length, with its end.
    pub(super) bytes: usize,
}

impl OutputLine {
    pub(super) fn of(line: &[u8]) -> Self {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        Self {
            text: String::from_utf8_lossy(text).into_owned(),
            bytes: line.len() + 1,
        }
    }
}

/// Whether a line is a message, as far as that can be seen without parsing it.
pub(super) fn is_message(line: &str) -> bool {
    let markers = [r#""method""#, r#""result""#, r#""error""#];
    line.trim_start().starts_with('{')
        && line.contains(r#""jsonrpc""#)
        && markers.into_iter().any(|marker| line.contains(marker))
}

/// Changes the line so that the library can read it: it silently drops what it cannot.
pub(super) fn repaired_line(line: String) -> String {
    let line = match readable(line.as_bytes()) {
        Cow::Borrowed(_) => line,
        // The replacement of half a surrogate pair is valid text as well.
        Cow::Owned(mended) => String::from_utf8(mended).unwrap_or(line),
    };
    if line.contains(PERMISSION_METHOD) {
        with_known_options(&line).unwrap_or(line)
    } else {
        line
    }
}

/// A permission request without its unknown options, if it has some: the library rejects the whole request otherwise.
fn with_known_options(line: &str) -> Option<String> {
    let mut message: Value = serde_json::from_str(line).ok()?;
    let options = message.pointer_mut("/params/options")?.as_array_mut()?;
    let all = options.len();
    options.retain(|option| PermissionOption::deserialize(option).is_ok());
    (options.len() < all).then(|| message.to_string())
}
