//! The formats of answers: lines for people, and JSON shapes for programs.

pub(crate) mod event;
pub(crate) mod found;
pub(crate) mod history;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod nodes;
pub(crate) mod observation;
pub(crate) mod page;
pub(crate) mod run;
pub(crate) mod run_in_full;
pub(crate) mod timeline;
pub(crate) mod tool;
pub(crate) mod trace;
pub(crate) mod tree;
pub(crate) mod turn;
pub(crate) mod view;
pub(crate) mod written;

use folio::Timestamp;
use folio::memory::State;
use folio::memory::entry::BodyRef;
use folio::memory::excerpt::{cut, fits};
use folio_server::wire::observation::state_name;

/// A time for people, to the millisecond.
pub(crate) fn instant(at: Timestamp) -> String {
    Timestamp::from_millis(at.as_millis()).to_string()
}

/// The first non-empty line of `text`, cut after `max` characters.
pub(crate) fn first_line(text: &str, max: usize) -> String {
    let text = printable(text.trim());
    let line = text.lines().next().unwrap_or_default();
    match fits(line, max) && line.len() < text.len() {
        true => format!("{line} …"),
        false => cut(line, max),
    }
}

/// `text` without terminal control characters: memory may hold what strangers wrote.
pub(crate) fn printable(text: &str) -> String {
    folio::memory::view::strip_unsafe_chars(text).into_owned()
}

/// The suffix saying that an entry no longer matters, where its status does not say so.
pub(crate) fn state_suffix(state: &str, is_replaced: bool) -> &'static str {
    match (state == state_name(State::Expired), is_replaced) {
        (true, _) => ", expired",
        (false, true) => ", replaced",
        (false, false) => "",
    }
}

/// The text in place of erased content.
pub(crate) fn erased_text(reason: &str) -> String {
    format!("(its content is gone: {reason})")
}

/// A note that `shown` is only the beginning of the long text `body`, if it is.
pub(crate) fn shortened_note(body: Option<&BodyRef>, shown: &str) -> Option<String> {
    let bytes = body?.bytes;
    ((shown.len() as u64) < bytes).then(|| format!("… the first {} of {bytes} bytes", shown.len()))
}

#[cfg(test)]
mod tests {
    use super::{first_line, printable};

    #[test]
    fn first_line_is_cut_between_characters_with_an_ellipsis() {
        assert_eq!(first_line("\n äöü \n", 10), "äöü");
        assert_eq!(first_line("äöü", 2), "ä…");
        assert_eq!(first_line("a\nb", 10), "a …");
    }

    #[test]
    fn printable_text_drops_terminal_controls() {
        assert_eq!(printable("a\u{1b}[31mb\u{7}\tc"), "a[31mb\tc");
    }
}
