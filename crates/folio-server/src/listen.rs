//! The connections that a server accepts.

mod connection;
mod line;
mod places;
mod reserve;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::connection::Connection;
use self::places::Places;
use self::reserve::Reserve;

/// How long the head of a request may take to arrive, and how long an idle connection may stay open. The head
/// identifies the client: until it is there, anybody could hold as many connections as there may be.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a connection that could not be accepted. If the process has no file descriptors left, others have to
/// close theirs first.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Answers with `router` until `stop` is ready, and then until the requests that are being answered are done. At most
/// `max_connections` connections are open at once: one more takes the place of the connection that has been idle for
/// longest, which stays for a while if its client still reads. While all are busy, it is one of the [`reserve`].
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    max_connections: usize,
    stop: impl Future<Output = ()>,
) {
    // Without this, each connection would get its own copy of the table of routes.
    let router: Router = router.with_state(());
    let (ending, _) = watch::channel(());
    let (places, reserve) = (Places::of(max_connections), Reserve::new());
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            let connection = tokio::select! {
                biased;
                connection = Connection::at(&places) => Ok(connection),
                reserved = Connection::at(&reserve.places) => Err(reserved),
            };
            Ok::<_, std::io::Error>((stream, connection))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let (router, ends) = (router.clone(), ending.subscribe());
        match accepted {
            Ok((stream, Ok(connection))) => drop(tokio::spawn(serve_connection(stream, connection, router, ends))),
            Ok((stream, Err(reserved))) => {
                let serving = reserve
                    .clone()
                    .serve_one(stream, reserved, places.clone(), router, ends);
                drop(tokio::spawn(serving));
            }
            // The client connects again.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
    drop(listener);
    ending.send_replace(());
    ending.closed().await;
}

/// Answers the requests of one connection, one after the other, until it is closed, its place is needed, or `ends`
/// fires.
async fn serve_connection(stream: TcpStream, connection: Connection, router: Router, ends: watch::Receiver<()>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: axum::http::Request<Incoming>| {
        let working = connection.begin_request(request.headers());
        connection.answer(&router, request, working)
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(HEAD_TIMEOUT);
    connection.serve(stream, http, service, ends).await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::header;
    use axum::routing::get;
    use futures_util::StreamExt as _;
    use futures_util::stream::{pending, repeat_with};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;
    use tokio::sync::mpsc;

    use super::line::MAX_WRITE_STALL;
    use super::places::MAX_ENDING;
    use super::*;

    /// Returns what a client gets that sends `said` and nothing more, until the connection is closed.
    async fn response_to(said: &str) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let slow = get(|| async {
            tokio::time::sleep(HEAD_TIMEOUT * 3).await;
            "done"
        });
        let router = Router::new().route("/slow", slow);
        let serving = tokio::spawn(serve(listener, router, 9, std::future::pending()));
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut all = String::new();
        let read = tokio::time::timeout(HEAD_TIMEOUT * 9, stream.read_to_string(&mut all));
        read.await.expect("it is closed").unwrap();
        serving.abort();
        all
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_an_unfinished_request_head_is_closed() {
        for begun in ["", "GET /slow HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n"] {
            let said = response_to(begun).await;
            assert!(!said.contains("200 OK"), "{begun:?}: {said}");
        }
        // The answer may take longer, and the connection is there for another request for a while.
        let said = response_to("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("done"), "{said}");
    }

    /// A server of `/lines`, which has no end, and `/events`, of which nothing comes; and a receiver that is notified
    /// when one of them is dropped.
    async fn serve_endless() -> (std::net::SocketAddr, mpsc::Receiver<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (held, let_go) = mpsc::channel(1);
        let held_too = held.clone();
        let lines = get(move || async move {
            let line = move |text| {
                let _held = &held;
                Ok::<_, std::io::Error>(text)
            };
            Body::from_stream(repeat_with(|| "x".repeat(64 * 1024)).map(line))
        });
        let events = get(move || async move {
            let nothing = pending::<Result<String, std::io::Error>>().inspect(move |_| drop(held_too.clone()));
            (
                [(header::CONTENT_TYPE, "text/event-stream")],
                Body::from_stream(nothing),
            )
        });
        let router = Router::new().route("/lines", lines).route("/events", events);
        // When the connection is over, its answer is dropped, and with it the sender.
        drop(tokio::spawn(serve_once(listener, router)));
        (at, let_go)
    }

    /// Answers one connection.
    async fn serve_once(listener: TcpListener, router: Router) {
        let (stream, _) = listener.accept().await.unwrap();
        let (_ending, ends) = watch::channel(());
        let connection = Connection::at(&Places::of(1)).await;
        serve_connection(stream, connection, router.with_state(()), ends).await;
    }

    /// A client that has requested `path` and read the head of the answer.
    async fn open_stream(at: std::net::SocketAddr, path: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(at).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn unread_response_body_releases_its_connection() {
        let (at, mut let_go) = serve_endless().await;
        let reader = open_stream(at, "/lines").await;
        let given_up = tokio::time::timeout(MAX_WRITE_STALL * 3, let_go.recv()).await;
        assert_eq!(given_up, Ok(None));
        drop(reader);
    }

    #[tokio::test]
    async fn idle_event_stream_is_released_when_its_client_disconnects() {
        let (at, mut let_go) = serve_endless().await;
        drop(open_stream(at, "/events").await);
        let given_up = tokio::time::timeout(Duration::from_secs(10), let_go.recv()).await;
        assert_eq!(given_up, Ok(None));
    }

    #[tokio::test]
    async fn request_for_events_ends_when_its_client_disconnects_before_the_response() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (held, mut let_go) = mpsc::channel::<()>(1);
        let (asked, mut is_asked) = mpsc::channel(1);
        let waits = get(move || async move {
            let _held = held;
            asked.send(()).await.unwrap();
            std::future::pending::<()>().await;
        });
        drop(tokio::spawn(serve_once(listener, Router::new().route("/waits", waits))));
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = b"GET /waits HTTP/1.1\r\nHost: x\r\nAccept: application/json, text/event-stream\r\n\r\n";
        stream.write_all(head).await.unwrap();
        is_asked.recv().await.unwrap();
        drop(stream);
        let given_up = tokio::time::timeout(Duration::from_secs(10), let_go.recv()).await;
        assert_eq!(given_up, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_half_closes_after_its_request_gets_the_response() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let slow = get(|| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            "done"
        });
        let serving = tokio::spawn(serve_once(listener, Router::new().route("/slow", slow)));
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream
            .write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).await.unwrap();
        assert!(all.starts_with("HTTP/1.1 200 OK") && all.ends_with("done"), "{all}");
        serving.await.unwrap();
    }

    /// A client that has requested `path` and requests nothing more.
    async fn send_request(at: std::net::SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Returns what arrives on `stream` until it is closed.
    async fn read_to_close(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        // A client that was about to send something gets an error.
        let _closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all))
            .await
            .expect("it is closed");
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn idle_connections_make_room_and_active_responses_continue() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (asked, mut is_asked) = mpsc::channel(1);
        let go_on = Arc::new(tokio::sync::Notify::new());
        let until = Arc::clone(&go_on);
        let slow = get(move || async move {
            asked.send(()).await.unwrap();
            until.notified().await;
            "done"
        });
        let router = Router::new().route("/slow", slow).route("/quick", get(async || "here"));
        let serving = tokio::spawn(serve(listener, router, 3, std::future::pending()));
        let mut slow = send_request(at, "/slow").await;
        is_asked.recv().await.unwrap();
        let mut strangers = Vec::new();
        for _ in 0..9 {
            strangers.push(TcpStream::connect(at).await.unwrap());
            let mut quick = send_request(at, "/quick").await;
            assert!(read_to_close(&mut quick).await.ends_with("here"));
        }
        for stranger in &mut strangers[..8] {
            assert_eq!(read_to_close(stranger).await, "");
        }
        go_on.notify_one();
        assert!(read_to_close(&mut slow).await.ends_with("done"));
        serving.abort();
    }

    #[tokio::test]
    async fn slow_response_is_not_cut_off_for_a_new_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        // More than the system buffers for a client that reads nothing.
        let router = Router::new()
            .route("/large", get(async || vec![b'x'; 64 << 20]))
            .route("/quick", get(async || "here"));
        let serving = tokio::spawn(serve(listener, router, 1, std::future::pending()));
        let mut slow = send_request(at, "/large").await;
        let mut begun = [0; 12];
        slow.read_exact(&mut begun).await.unwrap();
        let mut quick = send_request(at, "/quick").await;
        assert!(
            read_to_close(&mut quick).await.ends_with("here"),
            "nobody waits for who is slow"
        );
        assert!(read_to_close(&mut slow).await.len() > 64 << 20);
        serving.abort();
    }

    #[tokio::test]
    async fn slow_readers_do_not_exceed_the_limit_of_connections() {
        const LARGE_BYTES: usize = 8 << 20;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let large = axum::body::Bytes::from(vec![b'x'; LARGE_BYTES]);
        let router = Router::new()
            .route("/large", get(async move || large.clone()))
            .route("/quick", get(async || "here"));
        let serving = tokio::spawn(serve(listener, router, 2, std::future::pending()));
        let mut slow = Vec::new();
        for _ in 0..50 {
            slow.push(open_stream(at, "/large").await);
        }
        assert!(
            read_to_close(&mut send_request(at, "/quick").await)
                .await
                .ends_with("here")
        );
        let read_all = slow.into_iter().map(|mut slow| async move {
            // The rest of an answer comes before its connection is closed for want of another request.
            let mut left = LARGE_BYTES;
            let mut part = vec![0; 64 * 1024];
            while left > 0
                && let Ok(read @ 1..) = slow.read(&mut part).await
            {
                left = left.saturating_sub(read);
            }
            left == 0
        });
        let are_complete = futures_util::future::join_all(read_all).await;
        let complete_count = are_complete.iter().filter(|is_complete| **is_complete).count();
        assert!((2..=2 + MAX_ENDING).contains(&complete_count), "{complete_count}");
        serving.abort();
    }

    #[tokio::test]
    async fn connection_waits_for_a_slot_while_all_are_answering() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (asked, mut is_asked) = mpsc::channel(1);
        let go_on = Arc::new(tokio::sync::Notify::new());
        let until = Arc::clone(&go_on);
        let slow = get(move || async move {
            asked.send(()).await.unwrap();
            until.notified().await;
            "done"
        });
        let router = Router::new().route("/slow", slow);
        let serving = tokio::spawn(serve(listener, router, 1, std::future::pending()));
        let head = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut first = TcpStream::connect(at).await.unwrap();
        first.write_all(head).await.unwrap();
        is_asked.recv().await.unwrap();
        let mut second = TcpStream::connect(at).await.unwrap();
        second.write_all(head).await.unwrap();
        go_on.notify_one();
        assert!(
            read_to_close(&mut first).await.ends_with("done"),
            "it goes when it is idle"
        );
        is_asked.recv().await.unwrap();
        go_on.notify_one();
        let mut begun = [0; 12];
        second.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        serving.abort();
    }
}
