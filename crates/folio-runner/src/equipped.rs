//! What the models of runs are offered, shared by all runs for which it is the same: tool definitions are large, and
//! there may be many runs at a time.

use std::sync::Arc;

use folio_engine::Run;
use folio_engine::run::{Equipment, Judging, PlanMode};
use folio_store::workspace::PolicyInForce;
use folio_tools::{Approval, Registry, ShellPolicy, ToolSpec};
use parking_lot::Mutex;

use crate::grants;
use crate::models::RunnerModels;

/// How many variants are kept.
const MAX_VARIANTS: usize = 16;

/// What the equipment depends on besides the models and tools of a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Granted {
    has_person: bool,
    may_ask_for_commands: bool,
    may_ask_hosts: bool,
    plan: PlanMode,
    judging: Judging,
    tools: Vec<String>,
    policy: u32,
}

/// The equipment of a runner's runs, the most recently used last.
#[derive(Debug, Default)]
pub(crate) struct EquipmentCache(Mutex<Vec<(Granted, Arc<Equipment>)>>);

impl EquipmentCache {
    /// The equipment of `models` for `run`.
    pub(crate) fn of(
        &self,
        models: &RunnerModels,
        registry: &Registry,
        has_person: bool,
        run: &Run,
        policy: &PolicyInForce,
    ) -> Arc<Equipment> {
        let granted = Granted {
            has_person,
            may_ask_for_commands: grants::shell_of(run) != ShellPolicy::AskDenied,
            may_ask_hosts: !grants::hosts_of(run).is_empty(),
            plan: grants::plan_mode_of(run),
            judging: grants::judging_of(run),
            tools: grants::allowed_tools_of(run),
            policy: policy.version(),
        };
        let mut kept = self.0.lock();
        if let Some((_, equipment)) = kept.iter().find(|(known, _)| *known == granted) {
            return Arc::clone(equipment);
        }
        let equipment = Arc::new(granted.equipment(models, registry, policy));
        if kept.len() >= MAX_VARIANTS {
            kept.remove(0);
        }
        kept.push((granted, Arc::clone(&equipment)));
        equipment
    }
}

impl Granted {
    fn equipment(&self, models: &RunnerModels, registry: &Registry, policy: &PolicyInForce) -> Equipment {
        // If a person is there to approve, models are offered tools that need approval.
        let may_call = |tool: &ToolSpec| match tool.name.as_str() {
            "shell" => self.has_person || self.may_ask_for_commands,
            name if name == grants::HTTP_GET && self.may_ask_hosts => true,
            name => self.has_person || tool.approval == Approval::Never || grants::allows_tool(&self.tools, name),
        };
        let modes = (self.plan, self.judging);
        models.equipment(registry, may_call, self.has_person, modes, &policy.scratchbook)
    }
}
