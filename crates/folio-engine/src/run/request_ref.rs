//! What an answer, an approval or a rejection refers to: the node that asked, and exactly what it asked (E9.14).

use std::fmt;
use std::str::FromStr;

use folio_memory::canonical::hex;
use sha2::{Digest, Sha256};

use super::approval::PendingApproval;
use crate::event::Question;
use crate::node::NodeId;

/// What an answer, an approval or a rejection refers to: whatever a node asks, or exactly one of the things that it may
/// ask in turn.
///
/// A node that got its answer may ask something else a moment later; with a mark, an answer counts only for the
/// question that was shown. Written `NODE` or `NODE.MARK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRef {
    /// The node that asks.
    pub node: NodeId,
    /// Identifies the question, as [`PendingApproval::mark`] and [`Question::mark`] return it. Without it, whatever the
    /// node asks now.
    pub mark: Option<String>,
}

impl RequestRef {
    /// Whether this refers to the question with that mark.
    #[must_use]
    pub fn matches_mark(&self, mark: &str) -> bool {
        self.mark.as_deref().is_none_or(|meant| meant == mark)
    }
}

impl From<NodeId> for RequestRef {
    fn from(node: NodeId) -> Self {
        Self { node, mark: None }
    }
}

impl fmt::Display for RequestRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.node)?;
        match &self.mark {
            Some(mark) => write!(f, ".{mark}"),
            None => Ok(()),
        }
    }
}

impl FromStr for RequestRef {
    type Err = <NodeId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (node, mark) = match text.split_once('.') {
            Some((node, mark)) => (node, Some(mark.to_owned())),
            None => (text, None),
        };
        Ok(Self {
            node: node.parse()?,
            mark,
        })
    }
}

impl PendingApproval<'_> {
    /// Identifies what waits: a call by its hash, a plan by its version, the command of a criterion by
    /// [`Question::mark`]. A different thing at the same node has a different mark, and so has a call that may be made
    /// again.
    #[must_use]
    pub fn mark(&self) -> String {
        match self {
            Self::Call(approval) if approval.again => format!("{}-again", approval.hash),
            Self::Call(approval) => approval.hash.clone(),
            Self::Plan(version) => format!("v{version}"),
            Self::Check(question) => question.mark(),
        }
    }
}

impl Question {
    /// Identifies the question by twelve hexadecimal digits that stay the same as long as the question does.
    #[must_use]
    pub fn mark(&self) -> String {
        let hash = Sha256::digest(format!("{}\n{}", self.call, self.text));
        hex(&hash[..6])
    }
}

#[cfg(test)]
mod tests {
    use folio_memory::RunId;
    use serde_json::json;

    use super::*;
    use crate::event::Approval;
    use crate::run::approval::approval_of;

    #[test]
    fn every_waiting_question_has_a_distinct_mark() {
        let first = approval_of("shell", &json!({"argv": ["true"]}));
        let other = approval_of("shell", &json!({"argv": ["false"]}));
        let again = Approval {
            again: true,
            ..first.clone()
        };
        let marks = [
            PendingApproval::Call(&first).mark(),
            PendingApproval::Call(&other).mark(),
            PendingApproval::Call(&again).mark(),
            PendingApproval::Plan(1).mark(),
            PendingApproval::Plan(2).mark(),
        ];
        let unlike: std::collections::BTreeSet<_> = marks.iter().collect();
        assert_eq!(unlike.len(), marks.len(), "{marks:?}");
    }

    #[test]
    fn question_reference_parses_back_from_its_text() {
        let node = NodeId::root(RunId::derived(&["a run"]));
        for asked in [
            RequestRef::from(node),
            RequestRef {
                node,
                mark: Some("v2".to_owned()),
            },
        ] {
            assert_eq!(asked.to_string().parse(), Ok(asked.clone()));
        }
        assert!(RequestRef::from(node).matches_mark("v2"));
        assert!("no node.v2".parse::<RequestRef>().is_err());
    }
}
