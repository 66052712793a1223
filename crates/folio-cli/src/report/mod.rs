//! The formats of answers: lines for people, and JSON shapes for programs.

pub(crate) mod event;
pub(crate) mod found;
pub(crate) mod history;
pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod nodes;
pub(crate) mod observation;
pub(crate) mod page;
pub(crate) mod part;
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

/// `text` that a run wrote, printable, and naming the command of people where it names the tool by which models read
/// the rest of what was shortened. The command has the `options` that it has to repeat.
pub(crate) fn for_people(text: &str, options: &str) -> String {
    let text = printable(text);
    let text = with_commands(&text, "; use result_read node=", "", |name| {
        format!("; `folio blob {name}{options}` prints all")
    });
    with_commands(&text, "kept as blob:", "; read it with result_read", |hash| {
        format!("kept as blob:{hash}; read it with `folio blob {hash}{options}`")
    })
}

/// `text` with what `command` makes of the name in the place of each name between `before` and `after`.
fn with_commands(text: &str, before: &str, after: &str, command: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(before);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let (name, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
        match rest.strip_prefix(after).filter(|_| !name.is_empty()) {
            Some(rest) => shown.extend([&command(name), rest]),
            None => shown.extend([before, part]),
        }
    }
    shown
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
    use super::{first_line, for_people, printable};

    #[test]
    fn first_line_is_cut_between_characters_with_an_ellipsis() {
        assert_eq!(first_line("\n äöü \n", 10), "äöü");
        assert_eq!(first_line("äöü", 2), "ä…");
        assert_eq!(first_line("a\nb", 10), "a …");
    }

    #[test]
    fn command_of_people_takes_the_place_of_the_tool_of_models() {
        for (text, shown) in [
            (
                "It is.\n[9 of 99 characters left out; use result_read node=obs_1AB]",
                "It is.\n[9 of 99 characters left out; `folio blob obs_1AB` prints all]",
            ),
            (
                "9 bytes, kept as blob:a1; read it with result_read, and 8 bytes, kept as blob:b2; read it with result_read",
                "9 bytes, kept as blob:a1; read it with `folio blob a1`, and 8 bytes, kept as blob:b2; read it with `folio blob b2`",
            ),
            ("kept as blob:a1", "kept as blob:a1"),
            ("; use result_read node=…", "; use result_read node=…"),
            ("models use result_read", "models use result_read"),
        ] {
            assert_eq!(for_people(text, ""), shown);
        }
        let shown = for_people("[9 left out; use result_read node=e1]", " --space s");
        assert_eq!(shown, "[9 left out; `folio blob e1 --space s` prints all]");
    }

    #[test]
    fn printable_text_drops_terminal_controls() {
        assert_eq!(printable("a\u{1b}[31mb\u{7}\tc"), "a[31mb\tc");
    }
}
