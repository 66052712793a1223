//! Commands that are offered as a next step repeat the options by which this one found its store, its space and its
//! thread: copied as they are, they act on the same memory.

use std::borrow::Cow;

/// What begins a command of Folio in a text.
const COMMAND: &str = "`folio ";
/// Commands that act on one thread.
const OF_A_THREAD: [&str; 8] = [
    "goals", "book", "turn", "context", "history", "offload", "tokens", "hook",
];
/// Commands that use no store, or that are named in a text without being offered.
const WITHOUT_STORE: [&str; 6] = ["plan schema", "plan example", "trust", "completions", "help", "serve"];

/// The options that another command has to repeat.
#[derive(Debug, Clone, Default)]
pub(crate) struct Again {
    /// For every command; empty, or beginning with a space.
    options: String,
    /// For commands that act on one thread, likewise.
    thread: String,
}

impl Again {
    /// The `options` that name the store and the space, and the `thread` if it was named.
    pub(crate) fn new(options: &str, thread: Option<String>) -> Self {
        Self {
            options: options.to_owned(),
            thread: thread.map_or_else(String::new, |thread| format!(" --thread {thread}")),
        }
    }

    /// The options that every command has to repeat; empty, or beginning with a space.
    pub(crate) fn options(&self) -> &str {
        &self.options
    }

    /// `text` in which every command between backticks has the options, unless it has them already.
    pub(crate) fn add_to<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.contains(COMMAND) || (self.options.is_empty() && self.thread.is_empty()) {
            return text.into();
        }
        let mut parts = text.split(COMMAND);
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            shown.push_str(COMMAND);
            let Some((command, rest)) = part.split_once('`') else {
                shown.push_str(part);
                continue;
            };
            shown.push_str(command);
            for options in self.missing_in(command) {
                shown.push_str(options);
            }
            shown.push('`');
            shown.push_str(rest);
        }
        shown.into()
    }

    fn missing_in(&self, command: &str) -> Vec<&str> {
        let begins = |name: &&str| command == *name || command.starts_with(&format!("{name} "));
        if command.starts_with(['-', 'C']) || WITHOUT_STORE.iter().any(begins) {
            return Vec::new();
        }
        let mut wanted = vec![self.options.as_str()];
        if OF_A_THREAD.iter().any(begins) {
            wanted.push(&self.thread);
        }
        wanted.retain(|options| !options.is_empty() && !command.contains(options));
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_commands_repeat_what_names_their_memory_once() {
        let again = Again::new(" --store sqlite:./f.db --space s", Some("t".to_owned()));
        let both = " --store sqlite:./f.db --space s";
        for (text, expected) in [
            ("`folio runs` lists them", format!("`folio runs{both}` lists them")),
            (
                "add one with `folio goals add`",
                format!("add one with `folio goals add{both} --thread t`"),
            ),
            (
                "`folio show r1 --store sqlite:./f.db --space s` or `folio runs`",
                format!("`folio show r1{both}` or `folio runs{both}`"),
            ),
            (
                "`folio --help`, `folio COMMAND --help`",
                "`folio --help`, `folio COMMAND --help`".to_owned(),
            ),
            (
                "`folio plan schema` prints it",
                "`folio plan schema` prints it".to_owned(),
            ),
            (
                "look, then run `folio trust`",
                "look, then run `folio trust`".to_owned(),
            ),
            ("nothing of `cargo run`", "nothing of `cargo run`".to_owned()),
            ("open `folio runs", "open `folio runs".to_owned()),
        ] {
            assert_eq!(again.add_to(text), expected);
        }
        assert_eq!(Again::default().add_to("`folio runs`"), "`folio runs`");
    }
}
