//! The connections on which Restate calls.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use restate_sdk::endpoint::Endpoint;
use restate_sdk::hyper::HyperEndpoint;
use tokio::net::{TcpListener, TcpSocket};

/// Calls on one connection. Restate opens another one when all are taken, which whoever stands before the workers gives to any
/// of them: one call on each connection is spread call by call, many on one are not.
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
    let graceful = GracefulShutdown::new();
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
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(CALLS_PER_CONNECTION)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .serve_connection(TokioIo::new(stream), endpoint.clone());
        let serving = graceful.watch(serving);
        tokio::spawn(async move {
            // A call whose connection broke is made again.
            let _broken = serving.await;
        });
    }
    drop(listener);
    let _in_time = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}
