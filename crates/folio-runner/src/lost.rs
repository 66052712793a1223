//! What happens to calls that had begun when their driver died, if the effect of their tool is not to decide (E9.12).

use std::collections::BTreeMap;

use folio_engine::CallAction;
use folio_engine::plan::names_tool;
use serde::{Deserialize, Serialize};

/// What happens to a call that had begun when its driver died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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

/// The settings for lost calls, by the name of the tool or, as `SERVER.*`, of all tools of a family. Of several that
/// name a tool, the longest counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LostCalls(pub BTreeMap<String, LostCall>);

impl LostCalls {
    /// The setting for `call`, if it had begun before.
    pub(crate) fn of(&self, call: &CallAction) -> Option<LostCall> {
        if !call.again {
            return None;
        }
        self.for_tool(&call.tool)
    }

    fn for_tool(&self, tool: &str) -> Option<LostCall> {
        let named = self.0.iter().filter(|(name, _)| names_tool(name, tool));
        let (_, setting) = named.max_by_key(|(name, _)| (*name == tool, name.len()))?;
        Some(*setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_call_setting_of_a_family_names_the_tools_that_allowing_it_would() {
        let settings = [
            ("desk.*", LostCall::Rerun),
            ("desk.a.*", LostCall::Ask),
            ("desk.a.c", LostCall::Fail),
        ];
        let lost = LostCalls(settings.map(|(name, setting)| (name.to_owned(), setting)).into());
        for (tool, setting) in [
            ("desk.b", Some(LostCall::Rerun)),
            ("desk.b.c.d", Some(LostCall::Rerun)),
            ("desk.a.b", Some(LostCall::Ask)),
            ("desk.a.c", Some(LostCall::Fail)),
            ("desk", None),
            ("desks.b", None),
        ] {
            assert_eq!(lost.for_tool(tool), setting, "{tool}");
        }
    }
}
