//! What is given on the command line, in files and on standard input.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use folio::memory::readable::readable;
use folio::memory::transfer::without_mark;
use serde::de::DeserializeOwned;

use crate::error::{Failure, in_plain_words};

/// Bytes of a text that is read as a whole: what the body of a request over HTTP may have.
pub(crate) const MAX_INPUT_BYTES: u64 = 20 * 1024 * 1024;

/// What to do about a text that is read as a whole and is too large for it.
const TOO_LARGE: &str = "keep large content in files, and record where they are";

/// The text that was given, or standard input if it is `-`.
pub(crate) fn text_or_stdin(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let cannot = |error| Failure::cannot("read", "standard input", error);
    text_from(std::io::stdin().lock(), "standard input", cannot)
}

/// Opens a file that nobody at the terminal has named. What is no file is not opened: from a pipe that nobody writes to, nothing ever comes.
pub(crate) fn opened_if_file(path: &Path) -> std::io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    File::open(path)
}

/// The text of `file`, or standard input if it is `-`. `doing` says what for, if it cannot be had: `read`.
pub(crate) fn text_of(doing: &str, file: &Path) -> Result<String, Failure> {
    if file == Path::new("-") {
        return text_or_stdin("-".to_owned());
    }
    let unusable = |error| Failure::file(doing, file, &error);
    let opened = File::open(file).map_err(unusable)?;
    text_from(opened, &file.display().to_string(), unusable)
}

fn text_from(from: impl Read, name: &str, cannot: impl FnOnce(std::io::Error) -> Failure) -> Result<String, Failure> {
    text_within(MAX_INPUT_BYTES, from, name, cannot)?.ok_or_else(|| too_large(name))
}

/// The text that comes out of `from`, which is called `name`; none if it has more than `most` bytes.
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

/// That what is called `name` is too large to be read as a whole.
pub(super) fn too_large(name: &str) -> Failure {
    Failure::usage(
        "input_too_large",
        format!("{name} has more than {MAX_INPUT_BYTES} bytes"),
    )
    .hint(TOO_LARGE)
}

/// The JSON in `file`, which is to be `what`; standard input if it is `-`.
pub(crate) fn json_file<T: DeserializeOwned>(file: &Path, what: &str) -> Result<T, Failure> {
    let text = text_of("read", file)?;
    serde_json::from_slice(&readable(without_mark(&text).as_bytes())).map_err(|error| {
        let why = in_plain_words(&error, "an object");
        Failure::usage("input_not_json", format!("{} is not {what}: {why}", file.display()))
    })
}

/// A value as JSON if it reads as JSON, otherwise as text.
pub(crate) fn json_or_text(text: &str) -> serde_json::Value {
    serde_json::from_slice(&readable(text.as_bytes())).unwrap_or_else(|_| serde_json::Value::String(text.to_owned()))
}

/// That each of `names`, which `option` gives values, is given one: which of two is meant, nobody can tell.
pub(crate) fn once<'n>(option: &str, names: impl IntoIterator<Item = &'n str>) -> Result<(), Failure> {
    let mut given = HashSet::new();
    match names.into_iter().find(|name| !given.insert(*name)) {
        Some(twice) => Err(Failure::usage(
            "usage",
            format!("{option} gives {twice} more than one value"),
        )),
        None => Ok(()),
    }
}
