//! Lists of entries: a line for each in the text, and beside it each as programs get it, or, where that is too much for one answer, only
//! what a line does not say.

use folio::Timestamp;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::tokens::{Counter, Tokens};
use folio::memory::view::candidate;
use folio::memory::{Entry, EntryKind, ListAnswer, Seq};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::mcp::answer::Answer;
use crate::wire::observation::Observation;

/// Lines that one answer has at most, however short they are.
pub(super) const LINES: u32 = 100;
/// Tokens that the frame of an answer takes: how much there is, and where to go on, which stands in the text and in what is structured.
const FRAME: u32 = 240;

/// One text, or any of several (M7.2.12).
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
pub(super) enum Several {
    /// This one.
    One(String),
    /// These.
    Any(Vec<String>),
}

impl Default for Several {
    fn default() -> Self {
        Self::Any(Vec::new())
    }
}

impl Several {
    /// The texts.
    pub(super) fn texts(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Any(texts) => texts,
        }
    }
}

/// An entry in one line. That another took its place stands behind it: its status does not say so.
pub(super) fn line(entry: &Entry) -> String {
    let line = &candidate(entry).lengths[1];
    match entry.fields.superseded_by {
        None => line.clone(),
        Some(_) => format!("{line} (replaced)"),
    }
}

/// How many of `entries` an answer of `budget` tokens has room for; at least one.
pub(super) fn fitting(entries: &[Entry], budget: u32, tokens: &dyn Tokens) -> usize {
    let room = budget.saturating_sub(FRAME);
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

/// `list` as a tool answers it at `now`; `remark` stands before what is counted.
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
    let whole = list.items.iter().map(|entry| shape(entry, now)).collect();
    let brief = list.items.iter().map(brief).collect();
    answer.put_items(whole, brief, tokens);
    answer
}

/// What a list has around its items, beside `text`; nothing comes behind it.
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

/// `entry` as programs get it on every surface.
pub(super) fn shape(entry: &Entry, now: Timestamp) -> Value {
    match entry.kind {
        EntryKind::Observation => json!(Observation::of(entry, now)),
        _ => json!(ScratchItem::of(entry)),
    }
}

/// The list, as of commit `as_of`, of what nothing can match.
pub(super) fn nothing(as_of: Seq, now: Timestamp, tokens: &Counter) -> Answer {
    answer(&ListAnswer::nothing(as_of), "", now, tokens)
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
