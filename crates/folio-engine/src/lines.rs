//! Texts that are cut, and texts as lines.

/// The first `max` characters of `text`; of a longer one the last of them is `…`.
pub(crate) fn cut(text: &str, max: usize) -> String {
    let mut chars = text.chars();
    let mut kept: String = chars.by_ref().take(max).collect();
    if chars.next().is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Whether `text` has no more than `max` characters.
pub(crate) fn fits(text: &str, max: usize) -> bool {
    // No text has more characters than bytes.
    text.len() <= max || text.chars().count() <= max
}

/// The words of `text` with one space between them, cut to `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if fits(&line, max) { line } else { cut(&line, max) }
}

/// Adds `line` to `text` as an item of a list.
pub(crate) fn line_of(text: &mut String, line: &str) {
    text.push_str("- ");
    text.push_str(line);
    text.push('\n');
}

/// The beginning and the end of a `text` that is longer than `max` characters, and between them how much is left out and what gives it.
pub(crate) fn without_middle(text: String, max: usize, gives: impl std::fmt::Display) -> String {
    if fits(&text, max) {
        return text;
    }
    let all = text.chars().count();
    let (head, tail) = (max * 2 / 3, max / 3);
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(all - tail).collect();
    let left_out = all - head - tail;
    format!("{begin}\n[{left_out} of {all} characters left out; {gives}]\n{end}")
}
