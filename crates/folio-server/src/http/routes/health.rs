//! Whether the server is there, and whether it can work.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::http::app::App;
use crate::http::problem::Problem;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

/// The process answers.
async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The store answers, too.
async fn ready(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let workspace = app.runner.workspace();
    let head = workspace.head().await?;
    Ok(Json(
        json!({ "status": "ok", "space": workspace.space().as_str(), "head": head.0 }),
    ))
}
