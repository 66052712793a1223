//! The results of a search.

use std::fmt::{self, Write as _};

use folio::memory::text::Snippet;
pub(crate) use folio_server::wire::Found;

use super::{printable, state_suffix};
use crate::output::{Report, Style};

impl Report for Found {
    /// One line: `e42 [note/active] title — … the text around the words … #tag`.
    fn text(&self, out: &mut String, style: Style) -> fmt::Result {
        let kind = self.type_name.as_deref().unwrap_or(self.kind);
        write!(out, "{} [{kind}/{}", style.strong(&self.handle), self.status)?;
        out.push_str(state_suffix(self.state, self.is_replaced));
        out.push(']');
        let parts = [marked(&self.marked_title, style), marked(&self.snippet, style)];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        write!(out, " {}", parts.join(" — "))?;
        for tag in &self.tags {
            write!(out, " {}", style.faint(format_args!("#{tag}")))?;
        }
        out.push('\n');
        Ok(())
    }
}

fn marked(snippet: &Snippet, style: Style) -> String {
    let part = |part: &folio::memory::text::SnippetPart| {
        let text = with_single_spaces(&printable(&part.text));
        if part.hit { style.good(text) } else { text }
    };
    snippet.parts.iter().map(part).collect()
}

/// `text` in which any white space, such as that between two paragraphs, is one space.
fn with_single_spaces(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if line.ends_with(' ') => {}
            true => line.push(' '),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_of_a_snippet_are_one_space_apart() {
        assert_eq!(
            with_single_spaces(" painted\n\n  with two\tcoats "),
            " painted with two coats "
        );
    }
}
