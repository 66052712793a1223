//! What a program printed, as failures quote it.

/// How many characters of its output, and of its standard error, a failure quotes from the end.
pub(super) const PRINTED_CHARS: usize = 1_500;

/// The note with the end of what it printed; empty if that is at most one line, which its message has already.
pub(super) fn printed_at_the_end(output: &[u8], errors: &[u8]) -> String {
    let (output, errors) = (String::from_utf8_lossy(output), String::from_utf8_lossy(errors));
    let (output, errors) = (output.trim(), errors.trim());
    if output.lines().chain(errors.lines()).nth(1).is_none() {
        return String::new();
    }
    let parts = [("it printed", output), ("on standard error", errors)];
    let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
    parts
        .map(|(where_to, text)| format!("\n{where_to}:\n{}", end_of(text, PRINTED_CHARS)))
        .collect()
}

/// The last `max` characters of `text`, marked as such if there are more.
pub(super) fn end_of(text: &str, max: usize) -> String {
    match text.char_indices().rev().nth(max - 1) {
        Some((start, _)) if start > 0 => format!("[…] {}", &text[start..]),
        _ => text.to_owned(),
    }
}

/// The last line of `text` that is not blank.
pub(super) fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}
