//! The pages for people: the list of runs, one run as it happens, and what can be asked for. Embedded, without a build step.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use serde_json::Value;

use crate::http::App;

const INDEX: &str = include_str!("index.html");
const SCRIPT: &str = include_str!("app.js");
const STYLE: &str = include_str!("style.css");
const DOCS: &str = include_str!("docs.html");
const DOCS_SCRIPT: &str = include_str!("docs.js");
const ICON: &str = include_str!("icon.svg");

/// The paths of the pages. They show the list at `/`, one run at `/runs/RUN`, and what `document` describes at `/docs`.
pub(crate) fn routes(document: &Value) -> Router<App> {
    let document = format!("{document:#}\n");
    Router::new()
        .route(
            "/openapi.json",
            get(async move || ([(header::CONTENT_TYPE, "application/json")], document)),
        )
        .route("/docs", get(async || Html(DOCS)))
        .route(
            "/ui/docs.js",
            get(async || asset("text/javascript; charset=utf-8", DOCS_SCRIPT)),
        )
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
