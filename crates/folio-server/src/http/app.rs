//! The state that all handlers share.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use folio::runner::Runner;
use tokio::sync::watch;

use super::access::Permit;
use super::feed::Feeds;
use super::metrics::Metrics;
use super::problem::Problem;
use super::transfers::Transfers;
use crate::driving::Driving;
use crate::spaces::Spaces;

/// The served spaces, with everything that handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) spaces: Spaces,
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
    /// Returns the runner of the space that `permit` opens.
    ///
    /// # Errors
    ///
    /// A 503 if the server serves as many spaces as it can.
    pub(crate) fn runner_for(&self, permit: &Permit) -> Result<Runner, Problem> {
        self.spaces.runner_in(&permit.space)
    }

    /// The same for a request whose path names `space`.
    ///
    /// # Errors
    ///
    /// Also a 403 if the token opens another space, and a 404 if the request has no token and `space` is another one.
    pub(crate) fn runner_of(&self, permit: &Permit, space: &str) -> Result<Runner, Problem> {
        let opened = &permit.space;
        if space == opened.as_str() {
            return self.runner_for(permit);
        }
        // The answer does not tell whether there is such a space.
        Err(if permit.has_token() {
            let detail = format!("the access token opens only the space {opened}");
            Problem::new(StatusCode::FORBIDDEN, "token_of_another_space", detail)
                .hint("`folio --space NAME token new` creates a token for another space")
        } else {
            let detail = format!("this server does not serve a space {space:?} without a token");
            Problem::not_found("space_not_served", detail).hint(format!(
                "without a token it serves /v1/spaces/{opened}; `folio --space NAME token new` creates a token for another space"
            ))
        })
    }
}
