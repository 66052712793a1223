//! Input from the command line, files and standard input.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use folio::memory::readable::readable;
use folio::memory::transfer::without_mark;
use folio::memory::wrong_field::in_plain_words;
use serde::de::DeserializeOwned;

use crate::error::Failure;

/// The largest text that is read as a whole, in bytes: the limit for the body of an HTTP request.
pub(crate) const MAX_INPUT_BYTES: u64 = 20 * 1024 * 1024;

/// The hint for a text that is too large to be read as a whole.
const TOO_LARGE: &str = "keep large content in files, and record where they are";

/// The given text, or standard input if it is `-`.
pub(crate) fn text_or_stdin(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let cannot = |error| Failure::cannot("read", "standard input", error);
    text_from(std::io::stdin().lock(), "standard input", cannot)
}

/// Opens a file that the person at the terminal did not name. Only a regular file is opened: a pipe that nobody writes
/// to would block forever.
pub(crate) fn opened_if_file(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    File::open(path)
}

/// Reads `file`, or standard input if it is `-`. `verb` is the verb for the error message: `read`.
pub(crate) fn text_of(verb: &str, file: &Path) -> Result<String, Failure> {
    if file == Path::new("-") {
        return text_or_stdin("-".to_owned());
    }
    let unusable = |error| Failure::file(verb, file, &error);
    let reader = File::open(file).map_err(unusable)?;
    text_from(reader, &file.display().to_string(), unusable)
}

fn text_from(from: impl Read, name: &str, cannot: impl FnOnce(std::io::Error) -> Failure) -> Result<String, Failure> {
    text_within(MAX_INPUT_BYTES, from, name, cannot)?.ok_or_else(|| too_large(name))
}

/// Reads the text from `from`, which is called `name`; `None` if it has more than `most` bytes.
pub(super) fn text_within(
    most: u64,
    from: impl Read,
    name: &str,
    cannot: impl FnOnce(std::io::Error) -> Failure,
) -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage("input_not_text", format!("{name} is not valid UTF-8 (byte {at})"))
    });
    text.map(Some)
}

/// The failure for an input called `name` that is too large to be read as a whole.
pub(super) fn too_large(name: &str) -> Failure {
    Failure::usage(
        "input_too_large",
        format!("{name} has more than {MAX_INPUT_BYTES} bytes"),
    )
    .hint(TOO_LARGE)
}

/// Reads the JSON in `file`, which should be `expected`; standard input if it is `-`.
pub(crate) fn json_file<T: DeserializeOwned>(file: &Path, expected: &str) -> Result<T, Failure> {
    let text = text_of("read", file)?;
    serde_json::from_slice(&readable(without_mark(&text).as_bytes())).map_err(|error| {
        let problem = in_plain_words(&error, "an object");
        Failure::usage(
            "input_not_json",
            format!("{} is not {expected}: {problem}", file.display()),
        )
    })
}

/// Parses a value as JSON if possible, otherwise takes it as text.
pub(crate) fn json_or_text(text: &str) -> serde_json::Value {
    serde_json::from_slice(&readable(text.as_bytes())).unwrap_or_else(|_| serde_json::Value::String(text.to_owned()))
}

/// Checks that `option` gives each of `names` only one value: with two, it is unclear which is meant.
pub(crate) fn check_given_once<'n>(option: &str, names: impl IntoIterator<Item = &'n str>) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(repeated) => Err(Failure::usage(
            "usage",
            format!("{option} gives {repeated} more than one value"),
        )),
        None => Ok(()),
    }
}
