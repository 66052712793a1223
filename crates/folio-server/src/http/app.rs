//! The state that all handlers share.

use std::path::PathBuf;
use std::sync::Arc;

use folio::runner::Runner;
use tokio::sync::watch;

use super::feed::Feeds;
use super::metrics::Metrics;
use super::problem::Problem;
use super::transfers::Transfers;
use crate::driving::Driving;

/// The runner of the served space, with everything that handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) runner: Runner,
    /// The runs that this server drives.
    pub(crate) driving: Arc<Driving>,
    /// The folder that runs may read: relative paths start there, and no path may lead out of it.
    pub(crate) folder: Option<PathBuf>,
    /// The feeds of the runs that clients watch.
    pub(crate) feeds: Arc<Feeds>,
    /// The places for exports and imports.
    pub(crate) transfers: Transfers,
    /// The metrics.
    pub(crate) metrics: Metrics,
    /// Becomes true when the server stops; streams end then.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl App {
    /// Returns the runner of `space`.
    ///
    /// # Errors
    ///
    /// A 404 if the server serves another space.
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
