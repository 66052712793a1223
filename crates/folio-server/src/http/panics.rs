//! What panics while it answers a request is a failure of this one request, and whoever made it is told so.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use folio::tools::panics::catch_panic;

use super::problem::Problem;

/// Answers with the problem `internal` if the route panics. Without it, the connection would be closed without a word.
pub(crate) async fn answer_panics(request: Request, next: Next) -> Response {
    let answered = catch_panic(next.run(request)).await;
    answered.unwrap_or_else(|message| {
        let detail = format!("the answer could not be made: {message}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            .hint("this is a mistake in Folio; please report it with the request")
            .into_response()
    })
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use axum::{Router, middleware};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn route_that_panics_is_answered_with_a_problem() {
        let routes = Router::new()
            .route("/broken", get(|| async { panic!("nobody expected this") as &str }))
            .layer(middleware::from_fn(answer_panics));
        let request = Request::get("/broken").body(Body::empty()).unwrap();
        let routes = TowerToHyperService::new(routes.with_state(()));
        let response = routes.call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(
            problem["detail"].as_str().unwrap().contains("nobody expected this"),
            "{problem}"
        );
    }
}
