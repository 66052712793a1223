//! Which decisions rest on an entry, and whether a model was shown it.

use folio::Timestamp;
use folio::memory::turn::{Decision, Turn};
use folio::store::workspace::KeptReceipt;
use schemars::JsonSchema;
use serde::Serialize;

use super::List;

/// The decisions that rest on an entry, and what models were shown of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WhyShape {
    /// The decisions, newest turn first.
    #[serde(flatten)]
    pub decisions: List<DecisionInTurn>,
    /// What happened to the entry in each view and context of the turn; only if one turn was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ShownShape>")]
    pub shown: Option<Vec<ShownShape>>,
}

/// A decision, and the turn that it was made in.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DecisionInTurn {
    /// The turn's permanent id.
    pub turn_id: String,
    /// The turn's handle, such as `t5`.
    pub turn: String,
    /// The input that the turn handles.
    pub input: String,
    /// What was decided, and the entries that it used.
    #[serde(flatten)]
    pub decision: Decision,
}

/// What happened to an entry in a view or a context.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ShownShape {
    /// `view` or `context`.
    pub of: &'static str,
    /// When it was made.
    pub at: Timestamp,
    /// The last commit that it takes into account.
    pub as_of: u64,
    /// The thread that it is of.
    pub thread: Option<String>,
    /// The hash of its text.
    pub hash: String,
    /// Its budget in tokens.
    pub budget: u32,
    /// The number of its tokens.
    pub tokens: u32,
    /// What happened to the entry in it, in words: that it was shown, or why not.
    pub fate: String,
}

impl WhyShape {
    /// Returns the decisions `found` as of the commit `as_of`, and what was `shown` in the turn that was asked about.
    #[must_use]
    pub fn of(found: Vec<(Turn, Decision)>, shown: Option<Vec<(KeptReceipt, String)>>, as_of: u64) -> Self {
        let decisions = found.into_iter().map(DecisionInTurn::of).collect();
        Self {
            decisions: List::whole(decisions, as_of),
            shown: shown.map(|shown| shown.into_iter().map(ShownShape::of).collect()),
        }
    }
}

impl DecisionInTurn {
    fn of((turn, decision): (Turn, Decision)) -> Self {
        Self {
            turn_id: turn.begun.id.to_string(),
            turn: turn.handle.to_string(),
            input: turn.begun.input,
            decision,
        }
    }
}

impl ShownShape {
    fn of((kept, fate): (KeptReceipt, String)) -> Self {
        Self {
            of: kept.of,
            at: kept.at,
            as_of: kept.as_of.0,
            thread: kept.thread,
            hash: kept.receipt.hash,
            budget: kept.receipt.budget,
            tokens: kept.receipt.tokens,
            fate,
        }
    }
}
