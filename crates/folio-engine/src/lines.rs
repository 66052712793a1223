//! Lines of lists, and long texts with their middle left out.

use folio_memory::excerpt::fits;

/// Adds `line` to `text` as an item of a list.
pub(crate) fn push_list_item(text: &mut String, line: &str) {
    text.push_str("- ");
    text.push_str(line);
    text.push('\n');
}

/// A `text` longer than `max` characters as its beginning and end, and between them how much is left out and how to get
/// it (`gives`; empty if there is no way).
pub(crate) fn without_middle(text: String, max: usize, gives: &str) -> String {
    if fits(&text, max) {
        return text;
    }
    let all = text.chars().count();
    let (head, tail) = (max * 2 / 3, max / 3);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(all - tail).collect();
    let left_out = all - head - tail;
    let semicolon = if gives.is_empty() { "" } else { "; " };
    format!("{begin}\n[{left_out} of {all} characters left out{semicolon}{gives}]\n{end}")
}
