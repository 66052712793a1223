//! The connections on which Restate calls.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use restate_sdk::endpoint::Endpoint;
use restate_sdk::hyper::HyperEndpoint;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, watch};

/// How many calls share a connection. With one, Restate opens a connection for each call, and a load balancer can give
/// it to any worker. So calls are spread one by one, repeated ones as well, and a worker has as many connections as it
/// drives runs.
const CALLS_PER_CONNECTION: u32 = 1;
/// How often a connection is pinged, and how long the answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long after a connection that could not be accepted the next one is.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How long open connections may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Binds `address`. Several workers of one machine may share it; the system gives each connection to one of them.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `end`.
pub(crate) async fn serve(listener: TcpListener, endpoint: Endpoint, end: impl Future<Output = ()>) {
    let endpoint = HyperEndpoint::new(endpoint);
    let (ending, _) = watch::channel(());
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, _)) = accepted else {
            // The client connects again. If no more files can be opened, others must be closed first.
            tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            continue;
        };
        let _slower = stream.set_nodelay(true);
        let (endpoint, called, mut ends) = (endpoint.clone(), Arc::new(Notify::new()), ending.subscribe());
        let is_called = Arc::clone(&called);
        let service = service_fn(move |request| {
            is_called.notify_one();
            endpoint.call(request)
        });
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(CALLS_PER_CONNECTION)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let mut serving = pin!(serving);
            tokio::select! {
                _broken = serving.as_mut() => return,
                () = called.notified() => {}
                _ended = ends.changed() => {}
            }
            // Nothing new is accepted on this connection; what is under way goes on.
            serving.as_mut().graceful_shutdown();
            // A call whose connection broke is repeated.
            let _broken = serving.await;
            drop(ends);
        });
    }
    drop(listener);
    ending.send_replace(());
    let _in_time = tokio::time::timeout(GRACE, ending.closed()).await;
}
