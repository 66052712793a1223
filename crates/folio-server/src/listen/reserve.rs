//! Connections beyond the limit, while all others are busy: whoever asks for the health of the server is answered at
//! once. Some of the others wait for a place, but not for ever, and the rest are refused at once, so that there is always
//! a connection for the next client.
//!
//! Each answers one request. Otherwise they would be further connections, and sooner or later all of them busy.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use super::connection::Connection;
use super::places::{Places, Working};
use crate::held_body::HeldBody;
use crate::http::HEALTH_PATH;
use crate::http::problem::Problem;

/// How many of these connections there are.
const RESERVE: usize = 32;
/// How many of them may wait for a place.
const MAX_WAITING: usize = RESERVE / 2;
/// How long the head of a request may take to arrive: others wait for the connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request waits for a place.
const PLACE_WITHIN: Duration = Duration::from_secs(3);

/// The connections beyond the limit. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Reserve {
    /// The places of these connections. One that has not sent a request yet gives its place to the next client.
    pub(super) places: Places,
    waiting: Arc<Semaphore>,
}

impl Reserve {
    pub(super) fn new() -> Self {
        Self {
            places: Places::of(RESERVE),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    /// Moves `connection` to one of `places`; `None` if there is none in time, or too many wait for one already.
    async fn move_to(&self, connection: &Connection, places: &Places) -> Option<Working> {
        if let Some(working) = connection.try_move_to(places) {
            return Some(working);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        tokio::time::timeout(PLACE_WITHIN, connection.move_to(places))
            .await
            .ok()
    }

    /// Answers one request on `stream`, which is a `connection` of the reserve until the request has one of `places`.
    pub(super) async fn serve_one(
        self,
        stream: TcpStream,
        connection: Connection,
        places: Places,
        router: Router,
        ends: watch::Receiver<()>,
    ) {
        let router = TowerToHyperService::new(router);
        let service = service_fn(|request: Request<Incoming>| {
            let (reserve, router, connection, places) = (&self, &router, &connection, &places);
            async move {
                let reserved = connection.begin_request(request.headers());
                if request.uri().path() == HEALTH_PATH {
                    return connection.answer(router, request, reserved).await;
                }
                match reserve.move_to(connection, places).await {
                    Some(working) => connection.answer(router, request, working).await,
                    None => Ok(connections_busy().map(|body| HeldBody::new(body, reserved))),
                }
            }
        });
        let mut http = http1::Builder::new();
        http.header_read_timeout(HEAD_TIMEOUT).keep_alive(false);
        connection.serve(stream, http, service, ends).await;
    }
}

fn connections_busy() -> Response<Body> {
    let detail = "every connection that the server may have is busy";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "connections_busy", detail)
        .hint("try again in a moment, and close streams that nobody reads")
        .into_response()
}
