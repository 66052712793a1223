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

/// Calls on one connection at one time. There is none after the first: for each call Restate opens another connection, which
/// whoever stands before the workers gives to any of them. So calls are spread one by one, those that are made again, too, and
/// as many connections are open to a worker as runs go on there.
const CALLS_PER_CONNECTION: u32 = 1;
/// How often a connection is asked whether anybody is there, and how long it may take to say so.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Connections that wait to be taken.
const BACKLOG: u32 = 1024;
/// How long after a connection that could not be taken the next one is.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// How long open connections may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Takes `address`. Several workers of one machine may have it; the system gives each connection to one of them.
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
            // Whoever was about to connect connects again. Where no more files can be open, that takes others to close some.
            tokio::time::sleep(ACCEPT_AGAIN).await;
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
            // Nothing more comes on this one; what is under way goes on.
            serving.as_mut().graceful_shutdown();
            // A call whose connection broke is made again.
            let _broken = serving.await;
            drop(ends);
        });
    }
    drop(listener);
    ending.send_replace(());
    let _in_time = tokio::time::timeout(GRACE, ending.closed()).await;
}
