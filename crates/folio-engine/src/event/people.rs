//! What people are asked, and what they change.

use std::time::Duration;

use folio_memory::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words;
use crate::spend::{Allowance, Dimension, in_dollars};

/// A call that waits for a person's approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The tool that is to be called.
    pub tool: String,
    /// The arguments of the call, in canonical form.
    pub args: Value,
    /// The hash of the tool and its arguments: the same call has the same hash.
    pub hash: String,
    /// Whether the call had begun before and nobody knows whether it took effect: the question is then whether to make
    /// it again (E9.12).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl Approval {
    /// The question in words: the tool, its arguments, and whether the call would be made again. Characters that could
    /// disguise the arguments, because they are invisible or change the direction of the text, are written as their
    /// code point.
    #[must_use]
    pub fn in_words(&self) -> String {
        let again = if self.again {
            "retry? It had started, and its driver stopped before it recorded how it ended, so it is unknown whether it \
             took effect: "
        } else {
            ""
        };
        format!(
            "{again}{} {}",
            self.tool,
            words::escape_invisible(&self.args.to_string())
        )
    }
}

/// Which calls of a run need no further approval after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Always {
    /// Every call of the tool.
    Tool,
    /// Every call of the tool with the same arguments.
    Arguments,
}

/// Limits that hold from now on. A limit that is absent does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NewLimits {
    /// How much may be used.
    #[serde(flatten)]
    pub allowance: Allowance,
    /// The most nodes of the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// When the run must be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The most nodes below a part of the run that has such a limit. Not [`Self::nodes`], which earlier versions take
    /// for that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_nodes: Option<u32>,
    /// The milliseconds that such a part may take, from when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_ms: Option<u64>,
}

impl From<Allowance> for NewLimits {
    fn from(allowance: Allowance) -> Self {
        Self {
            allowance,
            ..Self::default()
        }
    }
}

impl NewLimits {
    /// The same limits for a part of the run that began at `started_at`.
    pub(crate) fn of_part(mut self, started_at: Timestamp) -> Self {
        self.part_nodes = self.nodes.take().or(self.part_nodes);
        let time = self.deadline.take().map(|deadline| deadline.since(started_at));
        self.part_ms = time
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            .or(self.part_ms);
        self
    }

    /// The limits in words: `micro_usd 2500000, nodes 300`. Pages have them in these words, and a replay compares them.
    #[must_use]
    pub fn in_words(&self) -> String {
        self.phrases(|dimension, limit| format!("{} {limit}", dimension.as_str()))
    }

    /// The limits in the words of plans and options: `usd 2.5, nodes 300`.
    #[must_use]
    pub fn in_plan_words(&self) -> String {
        self.phrases(|dimension, limit| match dimension {
            Dimension::MicroUsd => {
                let dollars = in_dollars(limit);
                format!("usd {}", dollars.trim_end_matches('0').trim_end_matches('.'))
            }
            other => format!("{} {limit}", other.as_str()),
        })
    }

    /// The limits in words, those of what is used as `phrase` says them.
    fn phrases(&self, phrase: impl Fn(Dimension, u64) -> String) -> String {
        let used_up = Dimension::ALL
            .into_iter()
            .filter_map(|dimension| Some(phrase(dimension, self.allowance.of(dimension)?)));
        let nodes = self.nodes.or(self.part_nodes).map(|nodes| format!("nodes {nodes}"));
        let mut phrases: Vec<String> = used_up.chain(nodes).collect();
        phrases.extend(self.deadline.map(|deadline| format!("deadline {deadline}")));
        phrases.extend(
            self.part_ms
                .map(|ms| format!("deadline {:?} after it begins", Duration::from_millis(ms))),
        );
        phrases.join(", ")
    }
}

/// How two versions of a plan differ, by the names of steps, each in the order of its plan.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlanDifference {
    /// Steps that are the same in both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Steps that only the new version has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Steps that both have, but that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Steps that only the old version had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Whether the remaining steps are in another order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
}

impl PlanDifference {
    /// Whether the versions are the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.dropped.is_empty() && !self.reordered
    }

    /// The difference in words: `added c; kept a, b`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let parts = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("dropped", &self.dropped),
            ("kept", &self.kept),
        ];
        let mut phrases: Vec<String> = parts
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(label, names)| format!("{label} {}", names.join(", ")))
            .collect();
        if self.reordered {
            phrases.push("in another order".to_owned());
        }
        phrases.join("; ")
    }
}

/// Something that a task asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The id of the call by which the model asked.
    pub call: String,
    /// The question, in words.
    pub text: String,
    /// Answers to choose from; if empty, any answer is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The answer that holds if nobody answers in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// When the time to answer ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_said_in_dollars_to_people_and_in_millionths_in_pages() {
        let limits = NewLimits {
            allowance: Allowance {
                tokens: Some(4_000),
                micro_usd: Some(6_000_000),
                ..Allowance::default()
            },
            nodes: Some(300),
            ..NewLimits::default()
        };
        assert_eq!(limits.in_plan_words(), "tokens 4000, usd 6, nodes 300");
        assert_eq!(limits.in_words(), "tokens 4000, micro_usd 6000000, nodes 300");
        let cents = NewLimits::from(Allowance {
            micro_usd: Some(250_000),
            ..Allowance::default()
        });
        assert_eq!(cents.in_plan_words(), "usd 0.25");
    }
}
