//! What becomes of calls that had begun when their driver died, where the class of their tool is not to decide (E9.12).

use std::collections::BTreeMap;

use folio_engine::CallAction;
use serde::{Deserialize, Serialize};

/// What becomes of a call that had begun when its driver died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostCall {
    /// It counts as done, and gives nothing.
    AssumeDone,
    /// It is made again, with the same key.
    Rerun,
    /// A person is asked whether it is made again; where nobody is there, its outcome is unknown, which is a hard failure.
    Ask,
    /// Its outcome is unknown, which is a hard failure; nobody is asked.
    Fail,
}

/// What is said of lost calls: by the name of their tool, or, as `SERVER.*`, of all tools of its family. A name goes before a family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LostCalls(pub BTreeMap<String, LostCall>);

impl LostCalls {
    /// What is said of `call`, if it had begun before.
    pub(crate) fn of(&self, call: &CallAction) -> Option<LostCall> {
        if !call.again {
            return None;
        }
        let family = || call.tool.rsplit_once('.').map(|(family, _)| format!("{family}.*"));
        let said = self.0.get(&call.tool).or_else(|| self.0.get(&family()?));
        said.copied()
    }
}
