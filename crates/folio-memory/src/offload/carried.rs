//! What a summary takes over: from the one before it what a compactor wrote, and from the rules what the user said.

use super::extract::{SAID_MARK, USER_SAID_HEAD, is_said_head};
use super::stand_in::is_summary_title;
use super::{Message, stands_in_for};
use crate::view::HEADING;

/// The line before what is taken over in a summary made without a model.
pub(super) const CARRIED_HEAD: &str = "Summarized before:";
/// How much of an earlier summary is taken over, in bytes.
const CARRIED_BYTES: usize = 8 * 1024;

/// What the next summary takes over of `text`, which a compactor wrote: its beginning, if it is long.
#[must_use]
pub fn carried(text: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    // By these lines the parts of a summary are told apart.
    let lines = lines.filter(|line| !line.is_empty() && !is_said_head(line) && *line != CARRIED_HEAD);
    let text = lines.collect::<Vec<_>>().join("\n");
    beginning(&text, CARRIED_BYTES).trim_end().to_owned()
}

/// What `summary`, made without a model, has taken over; empty if nothing.
#[must_use]
pub fn carried_in(summary: &str) -> String {
    let lines: Vec<&str> = summary.lines().collect();
    let Some(at) = lines.iter().position(|line| *line == CARRIED_HEAD) else {
        return String::new();
    };
    let lines = &lines[at + 1..];
    carried(&lines[..said_at(lines).unwrap_or(lines.len())].join("\n"))
}

/// `summary`, made without a model, without what it has taken over.
#[must_use]
pub fn without_carried(summary: &str) -> String {
    let lines: Vec<&str> = summary.lines().collect();
    let Some(at) = lines.iter().position(|line| *line == CARRIED_HEAD) else {
        return summary.to_owned();
    };
    let said = said_at(&lines[at..]).map_or(lines.len(), |said| at + said);
    [&lines[..at], &lines[said..]].concat().join("\n")
}

/// What the summary says in the message that stands in for messages of another history: neither the lines that name it
/// and them, nor the view of that scratchbook. `None` for a message that somebody said.
#[must_use]
pub fn carried_of(stand_in: &Message) -> Option<String> {
    stands_in_for(stand_in)?;
    let told = stand_in.content.lines().skip_while(|line| !is_summary_title(line));
    let told = told.skip(1).take_while(|line| *line != HEADING);
    Some(carried(&told.collect::<Vec<_>>().join("\n")))
}

/// `text`, written by a compactor, followed by `rules`, the sentences that the user said: no compactor drops them. At
/// most `bytes` long, unless the sentences are longer.
#[must_use]
pub fn with_rules(text: &str, rules: &[String], bytes: usize) -> String {
    let text = text.trim_end();
    if rules.is_empty() {
        return text.to_owned();
    }
    let rules: String = rules.iter().map(|rule| format!("\n{SAID_MARK}{rule}")).collect();
    let left = bytes.saturating_sub(rules.len() + USER_SAID_HEAD.len() + 1);
    format!("{}\n{USER_SAID_HEAD}{rules}", beginning(text, left).trim_end())
}

/// What the compactor wrote of a summary made by [`with_rules`].
#[must_use]
pub fn without_rules(summary: &str) -> String {
    let lines: Vec<&str> = summary.trim_end().lines().collect();
    let at = lines.iter().rposition(|line| *line == USER_SAID_HEAD);
    let is_list = |at: &usize| lines[at + 1..].iter().all(|line| line.starts_with(SAID_MARK));
    lines[..at.filter(is_list).unwrap_or(lines.len())].join("\n")
}

/// The first of `lines` from which on they are sentences that were said, below the lines that say by whom.
pub(super) fn said_at(lines: &[&str]) -> Option<usize> {
    let others = |line: &&str| !is_said_head(line) && !line.starts_with(SAID_MARK);
    let from = lines.iter().rposition(others).map_or(0, |at| at + 1);
    let at = lines[from..].iter().position(|line| is_said_head(line))?;
    Some(from + at)
}

fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
