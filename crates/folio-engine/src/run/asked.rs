//! What somebody answers, or says yes or no to: where it was asked, and what exactly (E9.14).

use std::fmt;
use std::str::FromStr;

use folio_memory::canonical::hex;
use sha2::{Digest, Sha256};

use super::approval::Waiting;
use crate::event::Question;
use crate::node::NodeId;

/// What is meant by an answer, a yes or a no: what a node asks, or exactly one of the things that it may ask one after the other.
///
/// A node that had its answer may ask something else a moment later. Whoever says what he was shown answers nothing but that.
/// In words: `NODE`, or `NODE.MARK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Who asks.
    pub node: NodeId,
    /// Names what is asked, as [`Waiting::mark`] and [`Question::mark`] do. Without it, whatever is asked there now.
    pub mark: Option<String>,
}

impl Asked {
    /// Whether what has this mark is meant.
    #[must_use]
    pub fn means(&self, mark: &str) -> bool {
        self.mark.as_deref().is_none_or(|meant| meant == mark)
    }
}

impl From<NodeId> for Asked {
    fn from(node: NodeId) -> Self {
        Self { node, mark: None }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.node)?;
        match &self.mark {
            Some(mark) => write!(f, ".{mark}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Asked {
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

impl Waiting<'_> {
    /// Names what waits: of a call its hash, of a plan its version, of a command of a criterion what [`Question::mark`] says. Another one at the same node has another mark, and so has a
    /// call that is to be made once more.
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
    /// Names the question: the same as long as it is the same one, twelve hexadecimal digits.
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
    fn what_is_asked_has_a_mark_of_its_own() {
        let first = approval_of("shell", &json!({"argv": ["true"]}));
        let other = approval_of("shell", &json!({"argv": ["false"]}));
        let again = Approval {
            again: true,
            ..first.clone()
        };
        let marks = [
            Waiting::Call(&first).mark(),
            Waiting::Call(&other).mark(),
            Waiting::Call(&again).mark(),
            Waiting::Plan(1).mark(),
            Waiting::Plan(2).mark(),
        ];
        let unlike: std::collections::BTreeSet<_> = marks.iter().collect();
        assert_eq!(unlike.len(), marks.len(), "{marks:?}");
    }

    #[test]
    fn what_is_meant_is_written_as_it_is_read() {
        let node = NodeId::root(RunId::derived(&["a run"]));
        for asked in [
            Asked::from(node),
            Asked {
                node,
                mark: Some("v2".to_owned()),
            },
        ] {
            assert_eq!(asked.to_string().parse(), Ok(asked.clone()));
        }
        assert!(Asked::from(node).means("v2"));
        assert!("no node.v2".parse::<Asked>().is_err());
    }
}
