//! What every handler works on.

use folio::Actor;
use folio::runner::Runner;
use tokio::sync::watch;

use super::problem::Problem;

/// The runner of the space that is served. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    pub(crate) runner: Runner,
    /// Whoever asks without saying who.
    pub(crate) local: Actor,
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
