//! Runners for several spaces in one process.

use std::sync::Arc;

use folio_memory::SpaceName;

use super::{Runner, Shared};

impl Runner {
    /// Returns a runner for another space of the same store.
    ///
    /// The two share tools, models, options, templates, the places for model calls and steps, the cache of runs that
    /// were read, and their end: [`Runner::leave`] on either stops both. Everything about runs and memory belongs to
    /// one of them: its workspace, the runs that it drives and has submitted, what these wait for, and what the policy
    /// of the space offers to models.
    ///
    /// Create one for each space and keep it: two runners of one space refuse each other the runs that they drive.
    #[must_use]
    pub fn in_space(&self, space: SpaceName) -> Self {
        let shared = &self.shared;
        Self {
            shared: Arc::new(Shared {
                workspace: shared.workspace.beside(space),
                registry: shared.registry.clone(),
                options: shared.options.clone(),
                templates: Arc::clone(&shared.templates),
                owner: Arc::clone(&shared.owner),
                held: Arc::default(),
                others: Arc::default(),
                stepping: Arc::clone(&shared.stepping),
                // Cached by the version of the policy, which is counted within its space.
                equipped: Default::default(),
                // A lock names the run that holds it, which another space must not learn.
                locks: Arc::default(),
                waiting: Default::default(),
                outages: Arc::clone(&shared.outages),
                unrecorded: Default::default(),
                model_places: shared.model_places.clone(),
                submitted: Default::default(),
                folds: Arc::clone(&shared.folds),
                seen: Default::default(),
                kept_lags: Default::default(),
                leaving: shared.leaving.clone(),
            }),
            request_key: None,
        }
    }
}
