//! The HTTP interface.
//!
//! - [`routes`]: the operations, one file per group
//! - [`problem`]: error responses
//! - [`sse`], [`space_events`]: live streams of a run and of a space; [`feed`]: a run, read once for all who watch it
//! - [`guard`]: refusal of strangers, time limits, security headers; [`access`]: authentication
//! - [`caller`], [`query`], [`input`]: what handlers read from a request; [`content_hash`]: fingerprints of requests
//!   with a key
//! - [`answer`], [`describe`]: successful responses, and the descriptions of operations
//! - [`openapi`]: the OpenAPI document
//! - [`space_time`]: tells the time of the space with each answer
//! - [`metrics`]: metrics of the server
//! - [`streams`], [`bodies`]: how many live streams a client may have, and how much memory bodies may take together
//! - [`leftover`]: what an answer has left unread of the body of its request
//! - [`transfers`]: exports and imports of whole spaces
//! - [`unread`]: notes in the trace of requests that could not be read
//! - [`app`]: the state that handlers share

mod access;
mod answer;
mod app;
mod bodies;
mod caller;
mod content_hash;
mod describe;
mod feed;
mod guard;
mod input;
mod leftover;
mod metrics;
mod openapi;
mod panics;
pub(crate) mod problem;
mod query;
mod routes;
mod space_events;
mod space_time;
mod sse;
mod streams;
mod transfers;
mod unread;

use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router, middleware};

pub(crate) use self::access::{Access, HEALTH_PATH, Permit};
pub(crate) use self::app::App;
pub(crate) use self::bodies::Bodies;
pub(crate) use self::caller::turn_in;
pub(crate) use self::guard::{RESPONSE_TIMEOUT, declare_response_time};
pub(crate) use self::input::{BodyLimit, refuse_compressed, unreadable_body};
pub(crate) use self::metrics::Metrics;
pub(crate) use self::openapi::document;
pub(crate) use self::routes::runs::render_run_in_full as run_in_full;
pub(crate) use self::streams::{LiveStream, MCP_SESSION, Streams, ends_with_connection, is_event_stream};
pub(crate) use self::transfers::Transfers;

/// The body limit in bytes: enough for the longest text of an entry, as JSON.
const MAX_BODY_BYTES: usize = 20 * 1024 * 1024;

/// Returns the routes that need a permit, for the space of `app`, and the public routes: the web pages for people,
/// which are the same for everybody and show no stored data.
pub(crate) fn routers(app: App) -> (Router, Router) {
    let routes = Router::from(routes::all())
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(middleware::from_fn_with_state(
            app.clone(),
            unread::record_unreadable_change,
        ))
        .layer(Extension(BodyLimit(MAX_BODY_BYTES)))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(app.clone(), space_time::tell_time))
        .with_state(app);
    let pages = crate::ui::routes().method_not_allowed_fallback(problem::method_not_allowed);
    (routes, pages)
}

/// What all requests share, so that no client takes it from the others.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) streams: Streams,
    pub(crate) bodies: Bodies,
}

#[cfg(test)]
impl Limits {
    /// Limits that no test reaches.
    pub(crate) fn for_tests() -> Self {
        Self {
            streams: Streams::for_connections(usize::from(u16::MAX), Metrics::new(false, false)),
            bodies: Bodies::with_room_for(usize::MAX),
        }
    }
}

/// Puts `routes` behind authentication and the `limits`, and these and the public `pages` behind the guard. All requests
/// are counted in `metrics`, also those that are refused here.
pub(crate) fn guarded(routes: Router, pages: Router, access: Access, limits: Limits, metrics: Metrics) -> Router {
    let any_host = access.local.is_none();
    routes
        .layer(middleware::from_fn(panics::answer_panics))
        .layer(middleware::from_fn_with_state(limits.streams, streams::limit_streams))
        .layer(middleware::from_fn_with_state(limits.bodies, bodies::limit_bodies))
        .layer(middleware::from_fn_with_state(access, access::authorize))
        .merge(pages)
        .layer(middleware::from_fn_with_state(any_host, guard::guard))
        .layer(middleware::from_fn_with_state(metrics, metrics::count_request))
        .layer(middleware::from_fn(leftover::read_leftover))
}
