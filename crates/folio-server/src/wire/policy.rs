//! The policy of a space.

use folio::SpaceName;
use folio::memory::SpacePolicy;
use folio::store::workspace::PolicyInForce;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The policy of a space.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PolicyShape {
    /// The space.
    pub space: String,
    /// The version of the policy; 0 if nobody has set one.
    pub version: u32,
    /// The commit that last changed it; 0 if none did.
    pub changed_seq: u64,
    /// The document: what differs from the built-in values.
    #[schemars(with = "Map<String, Value>")]
    pub policy: SpacePolicy,
    /// All values in force.
    #[schemars(with = "Map<String, Value>")]
    pub in_force: Value,
}

impl PolicyShape {
    /// Returns the policy of `space` in its wire form.
    #[must_use]
    pub fn of(space: &SpaceName, policy: &PolicyInForce) -> Self {
        Self {
            space: space.to_string(),
            version: policy.version(),
            changed_seq: policy.changed_seq().0,
            policy: policy.document().clone(),
            in_force: policy.document().whole(),
        }
    }
}
