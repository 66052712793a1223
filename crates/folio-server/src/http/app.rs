//! What every handler works on.

use std::path::PathBuf;
use std::sync::Arc;

use folio::runner::Runner;
use tokio::sync::watch;

use super::feed::Feeds;
use super::metrics::Metrics;
use super::problem::Problem;
use super::transfers::Transfers;
use crate::driving::Driving;

/// The runner of the space that is served. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) runner: Runner,
    /// The runs that are driven here.
    pub(crate) driving: Arc<Driving>,
    /// The folder that runs may read: what a relative path means, and what no path leads out of.
    pub(crate) folder: Option<PathBuf>,
    /// What those who watch runs are told.
    pub(crate) feeds: Arc<Feeds>,
    /// Places for whole spaces on their way out and in.
    pub(crate) transfers: Transfers,
    /// What is counted.
    pub(crate) metrics: Metrics,
    /// Turns true when the server stops; streams end then.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl App {
    /// The runner of `space`.
    ///
    /// # Errors
    ///
    /// A 404 if another space is served.
    pub(crate) fn runner_of(&self, space: &str) -> Result<&Runner, Problem> {
        let served = self.runner.workspace().space();
        if space == served.as_str() {
            Ok(&self.runner)
        } else {
            Err(Problem::not_found(
                "space_not_served",
                format!("this server does not serve a space {space:?}"),
            )
            .hint(format!("it serves /v1/spaces/{served}")))
        }
    }
}
