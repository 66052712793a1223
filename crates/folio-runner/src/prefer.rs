//! Which calls come first when more are due than may be under way: those needed by a confirmation that somebody waits
//! for (M7.11.2).

use std::sync::Arc;

use folio_engine::{Action, CallAction, Run};
use folio_memory::observation::{Class, TypeRegistry};
use folio_memory::turn::Orderer;
use folio_memory::{Entry, Timestamp};
use folio_store::Workspace;
use folio_store::workspace::{MAX_ACTIVE, WorkspaceError};

/// How many calls beyond the free places are considered: each has to be built for that.
const MAX_EXTRA_CANDIDATES: usize = 32;

/// The confirmations that were pending when the run was opened.
#[derive(Debug)]
pub(crate) struct Preferences {
    orderer: Arc<dyn Orderer>,
    waiting: Vec<Entry>,
    types: TypeRegistry,
}

impl Preferences {
    /// Reads the scratch page; `None` if no confirmation is pending.
    pub(crate) async fn of(workspace: &Workspace) -> Result<Option<Self>, WorkspaceError> {
        let moment = workspace.moment().await?;
        let mut waiting = workspace.active_observations_at(moment, MAX_ACTIVE).await?.items;
        if waiting.is_empty() {
            return Ok(None);
        }
        let types = workspace.policy().await?.types().clone();
        waiting.retain(|entry| types.class_of(entry.fields.type_name.as_deref()) == Class::PendingConfirmation);
        let orderer = Arc::clone(&workspace.stages().orderer);
        Ok((!waiting.is_empty()).then_some(Self {
            orderer,
            waiting,
            types,
        }))
    }

    /// What is due in `run`, for at most `slots` places, questions to models included. Of the next calls, those that a
    /// confirmation needs come first.
    pub(crate) fn due(&self, run: &Run, slots: usize, now: Timestamp) -> Vec<Action> {
        let actions = run.due(now, slots);
        // If there is a place for all of them, the order does not matter.
        if slots == 0 || actions.iter().filter(|action| action.uses_call_slot()).count() < slots {
            return actions;
        }
        self.order_calls(
            run,
            run.due(now, slots.saturating_add(MAX_EXTRA_CANDIDATES)),
            slots,
            now,
        )
    }

    fn order_calls(&self, run: &Run, actions: Vec<Action>, slots: usize, now: Timestamp) -> Vec<Action> {
        let mut calls: Vec<Option<Box<CallAction>>> = Vec::new();
        let mut ordered = Vec::with_capacity(actions.len());
        let mut free = slots;
        for action in actions {
            match action {
                Action::Call(call) => calls.push(Some(call)),
                other if other.uses_call_slot() && free == 0 => {}
                other => {
                    free -= usize::from(other.uses_call_slot());
                    ordered.push(other);
                }
            }
        }
        let describe = |call: &CallAction| {
            let path = run.node(call.node).map_or("", |node| node.path);
            format!("{path} {}", call.in_words())
        };
        let texts: Vec<String> = calls.iter().flatten().map(|call| describe(call)).collect();
        let order = self.orderer.prefer(&texts, &self.waiting, &self.types, now);
        let first = order.into_iter().take(free).filter_map(|index| calls[index].take());
        ordered.extend(first.map(Action::Call));
        ordered
    }
}
