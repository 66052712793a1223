//! Tells the time of the space with each answer. All that an answer says of times is by that clock: not by that of this
//! machine, if machines share a database, nor by the `Date` of the answer, which stands still for as long as the clock
//! was set back.

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use super::access::Permit;
use super::app::App;

/// The header with the time of the space, in RFC 3339.
const TIME_HEADER: HeaderName = HeaderName::from_static("folio-time");

/// Adds the header to the answer.
pub(crate) async fn tell_time(State(app): State<App>, request: Request, next: Next) -> Response {
    let permit = request.extensions().get::<Permit>().cloned();
    let mut response = next.run(request).await;
    let runner = permit.and_then(|permit| app.runner_for(&permit).ok());
    let time = runner.map(|runner| runner.workspace().now().to_string());
    if let Some(time) = time.and_then(|time| HeaderValue::from_str(&time).ok()) {
        response.headers_mut().insert(TIME_HEADER, time);
    }
    response
}
