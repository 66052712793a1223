//! Turns, goals and assembled contexts in their wire form.

use folio::Timestamp;
use folio::memory::goals::Proposal;
use folio::memory::patterns::FoundPattern;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::turn::{Decision, Turn, Used};
use folio::memory::view::{Receipt, Rendered};
use folio::store::workspace::{Ended, Episode, Episodes, GoalState, KeptReceipt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::List;
use super::observation::Observation;

/// A turn.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TurnShape {
    /// The turn's permanent id.
    pub turn_id: String,
    /// The turn's handle, such as `t5`.
    pub handle: String,
    /// The thread of the turn.
    pub thread: String,
    /// The input that the turn handles.
    pub input: String,
    /// Whether it runs in the background: nobody waits for it.
    pub background: bool,
    /// The id of the run whose turn this is.
    pub run_id: Option<String>,
    /// When the turn began.
    pub started_at: Timestamp,
    /// The commit that began it.
    pub started_seq: u64,
    /// The last commit that the turn takes into account.
    pub as_of: u64,
    /// When the turn ended; null while it is open.
    pub ended_at: Option<Timestamp>,
    /// Whether nothing was left to do; null while it is open.
    pub complete: Option<bool>,
    /// The number of entries that it touched; null while it is open.
    pub touched: Option<u64>,
    /// The hash of its export; null while it is open.
    pub export: Option<String>,
    /// The urgency that the router decided on.
    pub urgency: Option<String>,
    /// The decisions of the stages, with the entries that they used.
    pub decisions: Vec<Decision>,
}

impl TurnShape {
    /// Returns the turn's handle, which is the cursor for the next part of a list.
    #[must_use]
    pub fn name(&self) -> String {
        self.handle.clone()
    }

    /// Returns `turn` in its wire form.
    #[must_use]
    pub fn of(turn: &Turn) -> Self {
        let begun = &turn.begun;
        let end = turn.ended.as_ref();
        let router = turn.decision(folio::memory::turn::Stage::Router);
        Self {
            turn_id: begun.id.to_string(),
            handle: turn.handle.to_string(),
            thread: begun.thread.to_string(),
            input: begun.input.clone(),
            background: begun.background,
            run_id: begun.run.map(|run| run.to_string()),
            started_at: turn.started_at,
            started_seq: turn.started_seq.0,
            as_of: begun.as_of.0,
            ended_at: end.map(|end| end.at),
            complete: end.map(|end| end.end.complete),
            touched: end.map(|end| end.end.touched),
            export: end.map(|end| end.end.export.clone()),
            urgency: router.map(|decision| decision.verdict.clone()),
            decisions: turn.decisions().cloned().collect(),
        }
    }
}

/// A turn that has just begun.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BegunShape {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnShape,
    /// The question that has to be asked first, if the input is not clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Observation>,
    /// The pending confirmation that the input answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Observation>,
    /// The entries that the agent should act on, most important first.
    pub order: Vec<Used>,
    /// The assembled context for the prompt, if a budget was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextShape>,
    /// Whether an earlier call with the same key had begun it already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// A turn that has just ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EndedShape {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnShape,
    /// The entries that were archived.
    pub archived: Vec<Used>,
    /// Goals and pending actions with their progress.
    pub goals: Vec<GoalShape>,
    /// Observations that could become goals.
    pub proposals: Vec<Proposal>,
    /// Patterns that were found for the first time.
    pub patterns: Vec<FoundPattern>,
    /// Whether an earlier call with the same key had ended it already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

impl EndedShape {
    /// The shape of `ended`.
    #[must_use]
    pub fn of(ended: Ended) -> Self {
        Self {
            turn: TurnShape::of(&ended.turn),
            archived: ended.reflection.archive,
            goals: ended.goals.iter().map(GoalShape::of).collect(),
            proposals: ended.proposals,
            patterns: ended.patterns,
            replayed: ended.replayed,
        }
    }
}

/// A goal or a pending action.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GoalShape {
    /// The goal as an item.
    #[serde(flatten)]
    pub item: ScratchItem,
    /// The value by which the context of other entries refers to it: its own key, or its handle if it has none.
    pub key: Option<Value>,
    /// The number of linked entries that are open.
    pub open: u32,
    /// The number of linked entries that are closed.
    pub closed: u32,
}

impl GoalShape {
    /// Returns `state` in its wire form.
    pub fn of(state: &GoalState) -> Self {
        let mut entry = state.entry.clone();
        // The entries linked now give a newer progress than the one written at the end of the last turn.
        entry.fields.progress = state.progress.progress.or(entry.fields.progress);
        Self {
            item: ScratchItem::of(&entry),
            key: folio::memory::goals::reference_keys(&entry).into_iter().next(),
            open: state.progress.open,
            closed: state.progress.closed,
        }
    }
}

/// An assembled context: the part of memory that goes into a prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextShape {
    /// The text for the model.
    pub context: String,
    /// The number of tokens of the text.
    pub tokens: u32,
    /// The same text by section: the requested sections, in the order of the text.
    pub sections: Vec<SectionShape>,
    /// The receipt: what is shown whole, shortened and left out.
    pub receipt: Receipt,
}

/// A section of an assembled context.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SectionShape {
    /// The section's name: `scratch_page`, `scratchbook`, `pages`, `episodic` or `semantic`.
    pub section: String,
    /// The number of tokens of the section.
    pub tokens: u32,
    /// The section's text for the model; empty if there is nothing to show or no room.
    pub text: String,
}

impl ContextShape {
    /// Returns `assembled` with its sections; the parts of a scratchbook count as one section.
    #[must_use]
    pub fn of(assembled: Rendered) -> Self {
        let mut sections: Vec<SectionShape> = Vec::new();
        for (part, text) in assembled.sections() {
            let name = part.section.split('/').next().unwrap_or_default();
            if sections.last().is_none_or(|last| last.section != name) {
                sections.push(SectionShape {
                    section: name.to_owned(),
                    ..SectionShape::default()
                });
            }
            if let Some(section) = sections.last_mut() {
                section.tokens = section.tokens.saturating_add(part.tokens);
                section.text.push_str(text);
            }
        }
        let Rendered { text, receipt, .. } = assembled;
        Self {
            context: text,
            tokens: receipt.tokens,
            sections,
            receipt,
        }
    }
}

/// An earlier turn with the entries that it touched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EpisodeShape {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnShape,
    /// The entries that the turn touched, as they were then.
    pub entries: Vec<Observation>,
}

impl EpisodeShape {
    /// Returns `episode` in its wire form, with the entries that it touched as they were then.
    pub fn of(episode: &Episode, now: Timestamp) -> Self {
        Self {
            turn: TurnShape::of(&episode.turn),
            entries: episode
                .touched
                .iter()
                .map(|entry| Observation::of(entry, now))
                .collect(),
        }
    }
}

/// Earlier turns, newest first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EpisodesShape {
    /// The turns.
    #[serde(flatten)]
    pub list: List<EpisodeShape>,
    /// If only the newest turns were searched: those that began at this time or later. `until` this time searches older
    /// ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_from: Option<Timestamp>,
}

impl EpisodesShape {
    /// Returns the first `limit` of `episodes`, of which one more was asked for, as of the commit `as_of` and at `now`.
    #[must_use]
    pub fn of(episodes: &Episodes, limit: u32, as_of: u64, now: Timestamp) -> Self {
        let found = episodes.found.iter();
        let found = found.map(|episode| EpisodeShape::of(episode, now)).collect();
        let mut list = List::first(found, limit, as_of);
        list.at_least |= episodes.searched_from.is_some();
        Self {
            list,
            searched_from: episodes.searched_from,
        }
    }
}

/// A kept receipt, and when it was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReceiptShape {
    /// What it is the receipt of: `view` or `context`.
    pub of: &'static str,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The last commit before it.
    pub as_of: u64,
    /// The thread of the view; null for a context.
    pub thread: Option<String>,
    /// The receipt: what was shown whole, shortened and left out.
    pub receipt: Receipt,
}

impl ReceiptShape {
    /// Returns `kept` in its wire form.
    #[must_use]
    pub fn of(kept: KeptReceipt) -> Self {
        Self {
            of: kept.of,
            timestamp: kept.at,
            as_of: kept.as_of.0,
            thread: kept.thread,
            receipt: kept.receipt,
        }
    }
}
