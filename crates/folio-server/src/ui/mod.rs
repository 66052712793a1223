//! The page for people: the list of runs, and one run as it happens. Embedded, without a build step.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::get;

use crate::http::App;

const INDEX: &str = include_str!("index.html");
const SCRIPT: &str = include_str!("app.js");
const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// The paths of the page. It shows the list at `/`, and one run at `/runs/RUN`.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(index))
        .route("/runs/{run}", get(index))
        .route(
            "/ui/app.js",
            get(async || asset("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route("/ui/style.css", get(async || asset("text/css; charset=utf-8", STYLE)))
        .route("/ui/icon.svg", get(async || asset("image/svg+xml", ICON)))
}

/// The same document for every address: the script looks at the address.
async fn index(State(app): State<App>) -> Html<String> {
    // The name of a space has no character that means anything in HTML.
    Html(INDEX.replace("{space}", app.runner.workspace().space().as_str()))
}

fn asset(kind: &'static str, body: &'static str) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")],
        body,
    )
}
