//! The connections on which a server is asked.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long the head of a request may take to arrive, and how long a connection may stay open on which nobody asks anything. A head says
/// who asks: until it is there, anybody could hold as many connections as there may be.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long after a connection that could not be taken the next one is. Where no more files can be open, that takes others to close some.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Answers with `router` until `stop`, and then until what was being answered is.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    // As it is, each connection would get a table of all routes of its own.
    let router: Router = router.with_state(());
    let (ending, _) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(answer(stream, router.clone(), ending.subscribe()))),
            // Whoever was about to connect connects again.
            Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
        }
    }
    drop(listener);
    ending.send_replace(());
    ending.closed().await;
}

/// Answers what is asked on one connection, one after the other, until it is closed, or `ends` rings.
async fn answer(stream: TcpStream, router: Router, mut ends: watch::Receiver<()>) {
    // Live updates are small and must not wait for one another. Without the option they are merely later.
    let _later = stream.set_nodelay(true);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = pin!(serving);
    tokio::select! {
        _broken = serving.as_mut() => return,
        _ended = ends.changed() => {}
    }
    // What is being answered goes on, and nothing more comes on this one.
    serving.as_mut().graceful_shutdown();
    let _broken = serving.await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is answered to whoever sends `said` and nothing more, until the connection is closed.
    async fn answered(said: &str) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let slow = get(|| async {
            tokio::time::sleep(HEAD_MAX * 3).await;
            "done"
        });
        let router = Router::new().route("/slow", slow);
        let serving = tokio::spawn(serve(listener, router, std::future::pending()));
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut all = String::new();
        let read = tokio::time::timeout(HEAD_MAX * 9, stream.read_to_string(&mut all));
        read.await.expect("it is closed").unwrap();
        serving.abort();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_end_the_head_of_a_request_holds_no_connection() {
        for begun in ["", "GET /slow HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n"] {
            let said = answered(begun).await;
            assert!(!said.contains("200 OK"), "{begun:?}: {said}");
        }
        // The answer may take longer, and the connection is there for another request for a while.
        let said = answered("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("done"), "{said}");
    }
}
