//! Lists of entries: a line for each in the text, and beside it only what a line does not say.

use folio::memory::tokens::Tokens;
use folio::memory::view::candidate;
use folio::memory::{Entry, ListAnswer};
use serde_json::{Value, json};

use crate::mcp::answer::Answer;

/// Lines that one answer has at most, however short they are.
pub(super) const LINES: u32 = 100;
/// Tokens that the frame of an answer takes: how much there is, and where to go on.
const FRAME: u32 = 120;

/// An entry in one line.
pub(super) fn line(entry: &Entry) -> String {
    candidate(entry).lengths[1].clone()
}

/// How many of `entries` an answer of `budget` tokens has room for; at least one.
pub(super) fn fitting(entries: &[Entry], budget: u32, tokens: &dyn Tokens) -> usize {
    let room = budget.saturating_sub(FRAME);
    let mut used = 0_u32;
    let fits = |entry: &&Entry| {
        let cost = tokens
            .count(&line(entry))
            .saturating_add(tokens.count(&brief(entry).to_string()));
        used = used.saturating_add(cost);
        used <= room
    };
    entries.iter().take_while(fits).count().max(1)
}

/// `list` as a tool answers it; `remark` stands before what is counted.
pub(super) fn answer(list: &ListAnswer<Entry>, remark: &str, tokens: &dyn Tokens) -> Answer {
    let lines = list.items.iter().map(|entry| format!("{}\n", line(entry)));
    let mut text: String = lines.collect();
    match &list.next {
        _ if list.items.is_empty() => text.push_str("nothing matches"),
        None => text.push_str(&format!("{remark}{} in all", list.count())),
        Some(next) => text.push_str(&format!(
            "{remark}{} of {}; go on with cursor {next:?}",
            list.returned,
            list.count()
        )),
    }
    let items: Vec<Value> = list.items.iter().map(brief).collect();
    let mut structured = json!({
        "items": items,
        "returned": list.returned,
        "total": list.total,
        "next": list.next,
        "as_of": list.as_of,
        "tokens": tokens.count(&text),
    });
    if list.at_least {
        structured["at_least"] = true.into();
    }
    Answer::new(text, structured)
}

/// What a line does not say, for programs.
pub(super) fn brief(entry: &Entry) -> Value {
    json!({
        "handle": entry.handle,
        "kind": entry.kind,
        "status": entry.fields.status,
        "version": entry.version,
    })
}
