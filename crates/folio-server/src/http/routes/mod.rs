//! The paths, one file a group.

mod health;
mod observations;
mod pages;
mod part;
mod people;
pub(super) mod runs;
mod steer;
mod threads;

use axum::Router;

use super::app::App;

/// Every path but those of the page for people.
pub(super) fn all() -> Router<App> {
    let space = runs::routes()
        .merge(people::routes())
        .merge(steer::routes())
        .merge(pages::routes())
        .merge(observations::routes())
        .merge(threads::routes());
    health::routes().nest("/v1/spaces/{space}", space)
}
