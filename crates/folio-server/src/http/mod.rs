//! What is asked over HTTP, and how it is answered.
//!
//! - [`routes`]: one file a group of paths
//! - [`wire`]: the JSON that goes out
//! - [`problem`]: every answer that is no success
//! - [`sse`]: a run as it happens
//! - [`guard`]: who may ask at all, time limits, security headers
//! - [`query`], [`app`]: what handlers read from a request, and what they work on

mod app;
mod guard;
pub(crate) mod problem;
mod query;
mod routes;
mod sse;
pub(crate) mod wire;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use folio::runner::Runner;
use tokio::sync::watch;

pub(crate) use self::app::App;
pub(crate) use self::routes::runs::in_full as run_in_full;

/// Bytes that a request's body may have.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Everything that the server answers, for the space that `runner` works in, until `stopping` says so.
pub(crate) fn router(runner: Runner, stopping: watch::Receiver<bool>) -> Router {
    let routes = routes::all()
        .merge(crate::ui::routes())
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(App { runner, stopping });
    guarded(routes)
}

/// `routes` behind the guard.
pub(crate) fn guarded(routes: Router) -> Router {
    routes.layer(middleware::from_fn(guard::guard))
}
