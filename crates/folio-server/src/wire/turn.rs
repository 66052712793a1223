//! Turns as programs read them.

use folio::Timestamp;
use folio::memory::goals::Proposal;
use folio::memory::patterns::Found;
use folio::memory::scratchbook::ScratchItem;
use folio::memory::turn::{Decision, Turn, Used};
use folio::memory::view::{Receipt, Rendered};
use folio::store::workspace::{Episode, GoalState, KeptReceipt};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::observation::Observation;

/// A turn.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TurnShape {
    /// For ever.
    pub turn_id: String,
    /// For people and models: `e42`, `p7`, `r3`, `t5`.
    pub handle: String,
    /// In which thread.
    pub thread: String,
    /// What came in.
    pub input: String,
    /// Whether nobody waits for it.
    pub background: bool,
    /// The run that it is the turn of.
    pub run_id: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// The commit that began it.
    pub started_seq: u64,
    /// The commit up to which it knows.
    pub as_of: u64,
    /// When it ended; null as long as it goes on.
    pub ended_at: Option<Timestamp>,
    /// Whether nothing was left to do; none as long as it goes on.
    pub complete: Option<bool>,
    /// How many entries it touched, once it has ended.
    pub touched: Option<u64>,
    /// The hash of its export, once it has ended.
    pub export: Option<String>,
    /// How soon it is to be handled.
    pub urgency: Option<String>,
    /// What the stages decided, and which entries they used.
    pub decisions: Vec<Decision>,
}

impl TurnShape {
    /// Its handle, after which a list goes on.
    #[must_use]
    pub fn name(&self) -> String {
        self.handle.clone()
    }

    /// `turn` as it stands.
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
    /// What has to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Observation>,
    /// The confirmation that the input answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Observation>,
    /// What is the agent's to act on, first things first.
    pub order: Vec<Used>,
    /// What of memory goes into the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextShape>,
    /// Whether an earlier call with the same key began it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// A turn that has just ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EndedShape {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnShape,
    /// What was archived.
    pub archived: Vec<Used>,
    /// Goals and pending actions, as far as they are.
    pub goals: Vec<GoalShape>,
    /// Observations that could be made goals.
    pub proposals: Vec<Proposal>,
    /// Patterns that were not known before.
    pub patterns: Vec<Found>,
    /// Whether an earlier call with the same key ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// A goal or a pending action.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GoalShape {
    /// The goal as an item.
    #[serde(flatten)]
    pub item: ScratchItem,
    /// What others call it.
    pub key: Option<Value>,
    /// How many of what is linked to it are open.
    pub open: u32,
    /// And how many are closed.
    pub closed: u32,
}

impl GoalShape {
    /// `state` as it is now.
    pub fn of(state: &GoalState) -> Self {
        let mut entry = state.entry.clone();
        // What is linked now says more than what was written at the last turn's end.
        entry.fields.progress = state.progress.progress.or(entry.fields.progress);
        Self {
            item: ScratchItem::of(&entry),
            key: folio::memory::goals::keys_of(&entry).into_iter().next(),
            open: state.progress.open,
            closed: state.progress.closed,
        }
    }
}

/// What of memory goes into a prompt.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextShape {
    /// What a model reads.
    pub context: String,
    /// What that costs.
    pub tokens: u32,
    /// The same by section: those that were asked for, in the order in which they stand there.
    pub sections: Vec<SectionShape>,
    /// What it holds, shortens and leaves out.
    pub receipt: Receipt,
}

/// A section of what goes into a prompt.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SectionShape {
    /// Which: `scratch_page`, `scratchbook`, `pages`, `episodic`, `semantic`.
    pub section: String,
    /// What it costs.
    pub tokens: u32,
    /// What a model reads of it; empty if it has nothing to show, or no room.
    pub text: String,
}

impl ContextShape {
    /// `assembled` with its sections one by one; the parts of a scratchbook are one.
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

/// An earlier turn.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EpisodeShape {
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnShape,
    /// What it touched, as it was then.
    pub entries: Vec<Observation>,
}

impl EpisodeShape {
    /// `episode` with what it touched as it was then.
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

/// A receipt with its place in time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReceiptShape {
    /// Of what: `view` or `context`.
    pub of: &'static str,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The last commit before it.
    pub as_of: u64,
    /// The thread of a view.
    pub thread: Option<String>,
    /// What was shown, shortened and left out.
    pub receipt: Receipt,
}

impl ReceiptShape {
    /// `kept` as programs read it.
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
