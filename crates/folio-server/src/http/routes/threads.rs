//! Threads: the view of a scratchbook as a model reads it.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use folio::memory::ThreadKey;
use folio::memory::tokens::for_model;
use folio::store::workspace::ViewRequest;

use crate::http::app::App;
use crate::http::problem::Problem;
use crate::http::query::{Asked, Named};
use crate::http::wire::view::ViewShape;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/threads/{thread}/scratchbook", get(scratchbook))
}

/// `?view_token_limit=&max_rendered_items=&model=`: what is not said is as the policy of the space says.
async fn scratchbook(
    State(app): State<App>,
    Named((space, thread)): Named<(String, String)>,
    asked: Asked,
) -> Result<Json<ViewShape>, Problem> {
    let workspace = app.workspace_of(&space)?;
    let asked = asked.check(&["view_token_limit", "max_rendered_items", "model"])?;
    let request = ViewRequest {
        view_token_limit: asked.parsed("view_token_limit", "a number of tokens")?,
        max_rendered_items: asked.parsed("max_rendered_items", "a number of lines")?,
        ..ViewRequest::of(ThreadKey(thread))
    };
    let tokens = for_model(asked.one("model")?.unwrap_or_default());
    let view = workspace.view(request, &tokens).await?;
    Ok(Json(ViewShape::of(&view)))
}
