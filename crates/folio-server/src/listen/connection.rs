//! One connection, until it is closed or its place is needed.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use super::line::{ClientStream, LineState};
use super::places::{Place, Places, Working};
use crate::held_body::HeldBody;
use crate::http::{ends_with_connection, is_event_stream};

/// An answer, which keeps its connection busy until the last part of it was handed on.
pub(super) type Answer = Response<HeldBody<Working>>;

/// A connection, as the code that answers on it knows it.
#[derive(Debug)]
pub(super) struct Connection {
    place: Mutex<Place>,
    /// Notified when another connection needs the place.
    needed: Arc<Notify>,
    state: LineState,
}

impl Connection {
    /// Creates a connection with one of `places`, when there is one.
    pub(super) async fn at(places: &Places) -> Self {
        let needed = Arc::default();
        let place = Mutex::new(places.take(&needed).await);
        Self {
            place,
            needed,
            state: LineState::default(),
        }
    }

    /// Begins to answer a request with `headers`: marks the connection as busy until the result is dropped.
    pub(super) fn begin_request(&self, headers: &HeaderMap) -> Working {
        self.state.expects_events.set(ends_with_connection(headers));
        self.place.lock().mark_working()
    }

    /// Exchanges its place for one of `places` if there is one, and is busy there until the result is dropped.
    pub(super) fn try_move_to(&self, places: &Places) -> Option<Working> {
        places.try_take(&self.needed).map(|place| self.move_to_place(place))
    }

    /// The same, when there is one.
    pub(super) async fn move_to(&self, places: &Places) -> Working {
        let place = places.take(&self.needed).await;
        self.move_to_place(place)
    }

    fn move_to_place(&self, place: Place) -> Working {
        let working = place.mark_working();
        *self.place.lock() = place;
        working
    }

    /// Answers `request` with `router`.
    pub(super) async fn answer(
        &self,
        router: &TowerToHyperService<Router>,
        request: Request<Incoming>,
        working: Working,
    ) -> Result<Answer, Infallible> {
        let answer = router.call(request).await?;
        self.state.expects_events.set(is_event_stream(answer.headers()));
        Ok(answer.map(|body| HeldBody::new(body, working)))
    }

    /// Answers the requests on `stream` with `service`, one after the other, until it is closed, its place is needed,
    /// or `ends` fires.
    pub(super) async fn serve<S>(
        &self,
        stream: TcpStream,
        mut http: http1::Builder,
        service: S,
        mut ends: watch::Receiver<()>,
    ) where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible>,
    {
        // Live updates are small and must not wait for one another. If the option cannot be set, they are merely late.
        let _later = stream.set_nodelay(true);
        let line = ClientStream::new(stream, self.state.clone());
        let connection = http
            .timer(TokioTimer::new())
            // A client that closes its side after the request still waits for the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(line), service);
        let mut connection = pin!(connection);
        let mut accepts_more = true;
        loop {
            tokio::select! {
                // The client that broke it off knows.
                _broken = connection.as_mut() => return,
                _ended = ends.changed(), if accepts_more => {}
                () = self.needed.notified() => if self.must_close() { return },
            }
            // The answer in progress is completed, and no further request is accepted here.
            accepts_more = false;
            connection.as_mut().graceful_shutdown();
        }
    }

    fn must_close(&self) -> bool {
        let has_unread_output = self.state.has_unread_output.is_set();
        self.place.lock().must_close(has_unread_output)
    }
}
