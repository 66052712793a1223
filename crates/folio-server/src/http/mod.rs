//! What is asked over HTTP, and how it is answered.
//!
//! - [`routes`]: one file a group of paths
//! - [`problem`]: every answer that is no success
//! - [`sse`], [`space_events`]: a run, and a space, as they happen; [`feed`]: a run, read once for all who watch it
//! - [`guard`], [`access`]: who may ask at all, time limits, security headers; who asks
//! - [`caller`], [`query`], [`input`]: what handlers read from a request; [`keyed`]: what one with a key asks for
//! - [`answer`], [`describe`]: what they give, and how all of it is described
//! - [`openapi`]: the description of the interface
//! - [`metrics`]: what is counted
//! - [`transfers`]: whole spaces on their way out and in
//! - [`unread`]: what could not be read, in the trace
//! - [`app`]: what they work on

mod access;
mod answer;
mod app;
mod caller;
mod describe;
mod feed;
mod guard;
mod input;
mod keyed;
mod metrics;
mod openapi;
pub(crate) mod problem;
mod query;
mod routes;
mod space_events;
mod sse;
mod transfers;
mod unread;

use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router, middleware};

pub(crate) use self::access::{Access, Permit};
pub(crate) use self::app::App;
pub(crate) use self::input::{BodyLimit, encoded, refused};
pub(crate) use self::metrics::Metrics;
pub(crate) use self::openapi::described;
pub(crate) use self::routes::runs::in_full as run_in_full;
pub(crate) use self::transfers::Transfers;

/// Bytes that a request's body may have: the longest text that an entry has, as JSON.
const MAX_BODY_BYTES: usize = 20 * 1024 * 1024;

/// What is answered to those who may ask, for the space that `app` works in; and what to everybody: the pages for people, which
/// are the same for all and say nothing of what is kept.
pub(crate) fn routers(app: App) -> (Router, Router) {
    let (routes, document) = described();
    let routes = routes
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), unread::noted))
        .layer(Extension(BodyLimit(MAX_BODY_BYTES)))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app);
    let pages = crate::ui::routes(&document).method_not_allowed_fallback(problem::method_not_allowed);
    (routes, pages)
}

/// `routes` for those who may ask, and `pages` for everybody, behind the guard.
pub(crate) fn guarded(routes: Router, pages: Router, access: Access, metrics: Metrics) -> Router {
    let any_host = access.local.is_none();
    let counted = middleware::from_fn_with_state(metrics, metrics::counted);
    routes
        .layer(counted.clone())
        .layer(middleware::from_fn_with_state(access, access::permitted))
        .merge(pages.layer(counted))
        .layer(middleware::from_fn_with_state(any_host, guard::guard))
}
