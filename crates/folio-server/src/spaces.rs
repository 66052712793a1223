//! The spaces that a server serves: the one that it was started for, and each space for which a caller has shown a
//! token.
//!
//! Each has its own runner, which is created at the first request and kept until the server ends: two runners of one
//! space would refuse each other their runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use folio::SpaceName;
use folio::runner::Runner;
use folio::store::StoreError;
use parking_lot::Mutex;

use crate::http::problem::Problem;

/// The most spaces that one server serves: each costs memory and regular looks at its runs.
const MAX_SPACES: usize = 1_000;

/// The served spaces, with their runners. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Spaces {
    first: Runner,
    others: Arc<Mutex<BTreeMap<SpaceName, Runner>>>,
}

impl Spaces {
    /// Serves the space of `first`, and no other yet.
    pub(crate) fn of(first: Runner) -> Self {
        Self {
            first,
            others: Arc::default(),
        }
    }

    /// Returns the runner of the space that the server was started for.
    pub(crate) fn first(&self) -> &Runner {
        &self.first
    }

    /// Whether `space` is the one that the server was started for.
    pub(crate) fn is_first(&self, space: &SpaceName) -> bool {
        space == self.first.workspace().space()
    }

    /// Whether no other space than the first is open.
    pub(crate) fn is_only_one(&self) -> bool {
        self.others.lock().is_empty()
    }

    /// Returns the runner of `space`, to which the caller has access.
    ///
    /// # Errors
    ///
    /// A 503 if the server serves as many spaces as it can.
    pub(crate) fn runner_in(&self, space: &SpaceName) -> Result<Runner, Problem> {
        self.opened(space).ok_or_else(|| {
            let detail = format!("this server serves {MAX_SPACES} spaces already, the most that one server can");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "spaces_busy", detail)
                .hint("start another server for this space, with `folio --space NAME serve`")
        })
    }

    fn opened(&self, space: &SpaceName) -> Option<Runner> {
        if self.is_first(space) {
            return Some(self.first.clone());
        }
        let mut others = self.others.lock();
        if let Some(runner) = others.get(space) {
            return Some(runner.clone());
        }
        // The first space is not in the map.
        if others.len() + 1 >= MAX_SPACES {
            return None;
        }
        let runner = self.first.in_space(space.clone());
        others.insert(space.clone(), runner.clone());
        Some(runner)
    }

    /// Opens each space that has a valid token, as far as there is room, so that its unfinished runs are resumed before
    /// the first request.
    ///
    /// # Errors
    ///
    /// Any error of the store while it reads the tokens.
    pub async fn open_those_with_tokens(&self) -> Result<(), StoreError> {
        let workspace = self.first.workspace();
        let tokens = workspace.store().tokens().await?;
        let now = workspace.clock().now();
        for kept in tokens.iter().filter(|kept| kept.is_valid(now)) {
            // A space without room is refused when it is requested.
            let _full = self.opened(&kept.space);
        }
        Ok(())
    }

    /// Returns the runners of all spaces that are open now; that of the first space comes first.
    #[must_use]
    pub fn runners(&self) -> Vec<Runner> {
        let others = self.others.lock();
        std::iter::once(&self.first).chain(others.values()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use folio::Folio;
    use folio::runner::RunnerOptions;
    use folio::tools::Registry;

    use super::*;

    impl Spaces {
        /// The space `main` of an empty store, whose runs have no tools.
        pub(crate) async fn for_tests() -> Self {
            let folio = Folio::open("memory:").await.unwrap();
            let workspace = folio.workspace(SpaceName::main());
            Self::of(Runner::new(workspace, Registry::empty(), RunnerOptions::default()))
        }
    }

    #[tokio::test]
    async fn each_space_has_one_runner_up_to_a_maximum() {
        let spaces = Spaces::for_tests().await;
        let named = |n: usize| SpaceName::parse(&format!("s{n}")).unwrap();
        for n in 1..MAX_SPACES {
            let runner = spaces.runner_in(&named(n)).unwrap();
            assert_eq!(runner.workspace().space(), &named(n));
        }
        let full = spaces.runner_in(&named(MAX_SPACES)).unwrap_err();
        assert_eq!((full.status(), full.code()), (503, "spaces_busy"));
        assert!(spaces.runner_in(&named(1)).is_ok() && spaces.runner_in(&SpaceName::main()).is_ok());
        assert_eq!(spaces.runners().len(), MAX_SPACES);
        assert_eq!(spaces.runners()[0].workspace().space(), &SpaceName::main());
    }
}
