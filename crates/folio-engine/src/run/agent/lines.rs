//! Texts that are cut, and texts as lines.

pub(super) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        text.to_owned()
    } else {
        text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
    }
}

pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    // No text has more characters than bytes.
    if line.len() > max && line.chars().count() > max {
        line = line.chars().take(max.saturating_sub(1)).chain(['…']).collect();
    }
    line
}

pub(super) fn line_of(text: &mut String, line: &str) {
    text.push_str("- ");
    text.push_str(line);
    text.push('\n');
}
