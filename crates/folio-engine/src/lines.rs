//! Lines of lists, texts of others among them, and long texts with their middle left out.

use folio_memory::excerpt::fits;

use crate::node::NodeId;

/// Whether `c` ends a line, for some reader at least.
pub(crate) fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `inside`, which node `node` is told as data, between tags that nothing in it can close, because their name is
/// derived from the content.
pub(crate) fn data_block(node: NodeId, inside: &str) -> String {
    let tag = format!("data-{}", node.child(0, "data", inside));
    format!("<{tag}>\n{inside}\n</{tag}>")
}

/// `text` with every line but the first one indented, so that none looks like a line that stands around it.
pub(crate) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        let is_half = c == '\r' && chars.peek() == Some(&'\n');
        if ends_line(c) && !is_half {
            out.push_str("  ");
        }
    }
    out
}

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
