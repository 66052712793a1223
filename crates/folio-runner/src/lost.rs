//! What happens to calls that had begun when their driver died, if the effect of their tool is not to decide (E9.12).

use std::collections::BTreeMap;

use folio_engine::CallAction;
use serde::{Deserialize, Serialize};

/// What happens to a call that had begun when its driver died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LostCall {
    /// The call counts as done, without an output.
    AssumeDone,
    /// The call is repeated with the same key.
    Rerun,
    /// A person is asked whether to repeat it; if nobody is there, its outcome is unknown, which is a hard failure.
    Ask,
    /// Its outcome is unknown, which is a hard failure; nobody is asked.
    Fail,
}

/// The settings for lost calls, by the name of the tool or, as `SERVER.*`, of all tools of a family. A name takes
/// precedence over a family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LostCalls(pub BTreeMap<String, LostCall>);

impl LostCalls {
    /// The setting for `call`, if it had begun before.
    pub(crate) fn of(&self, call: &CallAction) -> Option<LostCall> {
        if !call.again {
            return None;
        }
        let family = || call.tool.rsplit_once('.').map(|(family, _)| format!("{family}.*"));
        let setting = self.0.get(&call.tool).or_else(|| self.0.get(&family()?));
        setting.copied()
    }
}
