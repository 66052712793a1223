//! The routes, one file per group.

mod claims;
mod compare;
mod events;
mod exchange;
mod health;
mod life;
mod limits;
mod long_texts;
mod memory;
mod observations;
mod pages;
mod part;
mod people;
mod policy;
pub(super) mod runs;
mod spaces;
mod start;
mod steer;
mod threads;
mod transfer;
mod turn_export;
mod turns;

use aide::axum::ApiRouter;
use axum::extract::DefaultBodyLimit;
use axum::{Extension, middleware};

use super::app::App;
use super::content_hash;
use super::input::BodyLimit;

/// The body limit, in bytes, of operations that take long texts: results, conversations and exports.
const LARGE_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Returns all routes except those of the web page for people.
pub(super) fn all() -> ApiRouter<App> {
    // Applied inside the body limits of each group, because it reads bodies.
    let hash_layer = middleware::from_fn(content_hash::record_content_hash);
    let large_routes = exchange::routes()
        .merge(long_texts::routes())
        .merge(transfer::routes())
        .layer(hash_layer.clone())
        .layer(Extension(BodyLimit(LARGE_BODY_BYTES)))
        .layer(DefaultBodyLimit::max(LARGE_BODY_BYTES));
    let space = runs::routes()
        .merge(compare::routes())
        .merge(people::routes())
        .merge(steer::routes())
        .merge(limits::routes())
        .merge(pages::routes())
        .merge(observations::routes())
        .merge(life::routes())
        .merge(threads::routes())
        .merge(claims::routes())
        .merge(turns::routes())
        .merge(memory::routes())
        .merge(policy::routes())
        .merge(events::routes())
        .layer(hash_layer)
        .merge(large_routes);
    health::routes()
        .merge(spaces::routes())
        .nest("/v1/spaces/{space}", space)
}
