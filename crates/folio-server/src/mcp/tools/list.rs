//! Lists of entries: the text has one line for each, and the structured part has each as programs get it or, if that is
//! too long for one answer, only what the line does not say.

use folio::Timestamp;
use folio::memory::tokens::{Counter, Tokens};
use folio::memory::view::candidate;
use folio::memory::{Entry, ListAnswer, Seq};
use serde::Serialize;
use serde_json::{Value, json};

use crate::mcp::answer::Answer;
use crate::wire::AnyEntry;

/// The most lines of one answer, however short they are.
pub(super) const MAX_LINES: u32 = 100;
/// Tokens set aside for the frame of an answer: how many there are and how to continue, in the text and in the
/// structured part.
const FRAME_TOKENS: u32 = 240;

/// Returns an entry in one line. It ends with `(replaced)` if another entry has superseded it, which the status does
/// not show.
pub(super) fn line(entry: &Entry) -> String {
    let line = &candidate(entry).lengths[1];
    match entry.fields.superseded_by {
        None => line.clone(),
        Some(_) => format!("{line} (replaced)"),
    }
}

/// Returns how many of `entries` fit into an answer of `budget` tokens; at least one.
pub(super) fn count_fitting(entries: &[Entry], budget: u32, tokens: &dyn Tokens) -> usize {
    let room = budget.saturating_sub(FRAME_TOKENS);
    let mut used = 0_u32;
    let fits = |entry: &&Entry| {
        let cost = tokens
            .count(&format!("{}\n", line(entry)))
            .saturating_add(tokens.count(&format!("{},", brief(entry))));
        used = used.saturating_add(cost);
        used <= room
    };
    entries.iter().take_while(fits).count().max(1)
}

/// Returns the answer that shows `list` at `now`; `remark` stands before the count.
pub(super) fn answer(list: &ListAnswer<Entry>, remark: &str, now: Timestamp, tokens: &Counter) -> Answer {
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
    let mut structured = frame(&list.returned, &list.total, list.as_of, &text, tokens);
    structured["next"] = json!(list.next);
    if list.at_least {
        structured["at_least"] = true.into();
    }
    let mut answer = Answer::new(text, structured);
    let full = list.items.iter().map(|entry| shape(entry, now)).collect();
    let brief = list.items.iter().map(brief).collect();
    answer.put_items(full, brief, tokens);
    answer
}

/// Returns the frame of a list: the fields around its items, for an answer with this `text`, which must be complete.
pub(super) fn frame(
    returned: &impl Serialize,
    total: &impl Serialize,
    as_of: Seq,
    text: &str,
    tokens: &dyn Tokens,
) -> Value {
    json!({
        "items": [],
        "returned": returned,
        "total": total,
        "next": null,
        "as_of": as_of,
        "tokens": tokens.count(text),
    })
}

/// Returns `entry` in the shape that programs get on every surface.
pub(super) fn shape(entry: &Entry, now: Timestamp) -> Value {
    json!(AnyEntry::of(entry, now))
}

/// Returns the empty list as of commit `as_of`, for filters that nothing can match.
pub(super) fn empty_list_answer(as_of: Seq, now: Timestamp, tokens: &Counter) -> Answer {
    answer(&ListAnswer::empty(as_of), "", now, tokens)
}

/// Returns the brief item of `entry` for programs: what its line does not say.
pub(super) fn brief(entry: &Entry) -> Value {
    json!({
        "handle": entry.handle,
        "kind": entry.kind,
        "status": entry.fields.status,
        "version": entry.version,
    })
}
