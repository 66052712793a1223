//! Groups the commands by purpose for the program's help.

use std::fmt::Write as _;

/// The groups, and their commands in the order in which a newcomer meets them.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Runs",
        &[
            "run",
            "runs",
            "show",
            "watch",
            "resume",
            "pause",
            "continue",
            "cancel",
            "questions",
            "answer",
            "approve",
            "reject",
            "budget",
            "plan",
            "fork",
            "diff",
            "replay",
        ],
    ),
    (
        "Memory",
        &[
            "observe",
            "book",
            "tree",
            "page",
            "search",
            "context",
            "why",
            "goals",
            "turn",
            "trace",
            "tokens",
            "episodes",
            "patterns",
            "calibration",
            "tool",
            "files",
            "offload",
            "history",
            "evict",
            "blob",
        ],
    ),
    (
        "Store and space",
        &[
            "spaces", "export", "import", "backup", "restore", "migrate", "archive", "tidy", "forget", "policy",
            "trust", "doctor",
        ],
    ),
    (
        "Servers and integrations",
        &["serve", "worker", "mcp", "connect", "hook", "token"],
    ),
    ("Other", &["bench", "completions"]),
];

/// The width of a line of help, in columns.
const WIDTH: usize = 100;

/// Makes the help of `command` list its commands by purpose.
pub(crate) fn by_purpose(command: clap::Command) -> clap::Command {
    let styles = command.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let about_of = |name: &str| {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        about.map(ToString::to_string).unwrap_or_default()
    };
    let width = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .map(|name| name.len())
        .max()
        .unwrap_or_default();
    let mut lists = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(lists, "{header}{title}:{header:#}");
        for name in names {
            let about = wrapped(&about_of(name), WIDTH - width - 4, width + 4);
            let _ = writeln!(lists, "  {literal}{name:width$}{literal:#}  {about}");
        }
        lists.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{lists}{header}Global options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// Wraps `text` at `columns`, indenting all lines but the first by `indent` spaces.
fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut lines = String::new();
    let mut left = columns;
    for word in text.split_whitespace() {
        let long = word.chars().count();
        if left < columns && long + 1 > left {
            let _ = write!(lines, "\n{:indent$}", "");
            left = columns;
        } else if left < columns {
            lines.push(' ');
            left -= 1;
        }
        lines.push_str(word);
        left = left.saturating_sub(long);
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_command_is_listed_in_exactly_one_help_group() {
        let command = Arguments::command();
        let mut there: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        there.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, there);
    }

    #[test]
    fn long_help_text_wraps_onto_an_indented_line() {
        assert_eq!(wrapped("one two three", 8, 2), "one two\n  three");
        assert_eq!(wrapped("unbreakable", 4, 2), "unbreakable");
        assert_eq!(wrapped("", 4, 2), "");
    }
}
