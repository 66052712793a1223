//! A minimal HTTP client.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends `lines` as the head of a request, then `body`; nothing is added to the head.
pub(crate) async fn send(to: SocketAddr, lines: &[&str], body: &str) -> Answer {
    let mut reader = open(to, lines, body).await;
    let (status, headers) = read_head(&mut reader).await;
    let mut body = Vec::new();
    reader.read_to_end(&mut body).await.unwrap();
    let mut answer = Answer {
        status,
        headers,
        body: String::from_utf8(body).unwrap(),
    };
    if answer.header("transfer-encoding") == "chunked" {
        answer.body = put_together(&answer.body);
    }
    answer
}

/// The chunks of a body without their lengths.
fn put_together(mut chunks: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(length, 16).unwrap());
        whole.push_str(chunk);
        chunks = rest.trim_start_matches("\r\n");
    }
    whole
}

pub(crate) async fn get(to: SocketAddr, path: &str) -> Answer {
    send(
        to,
        &[&format!("GET {path} HTTP/1.1"), "Host: localhost", "Connection: close"],
        "",
    )
    .await
}

pub(crate) async fn post(to: SocketAddr, path: &str, kind: &str, body: &str) -> Answer {
    let (first, length) = (
        format!("POST {path} HTTP/1.1"),
        format!("Content-Length: {}", body.len()),
    );
    let kind = format!("Content-Type: {kind}");
    send(
        to,
        &[&first, "Host: localhost", "Connection: close", &kind, &length],
        body,
    )
    .await
}

async fn open(to: SocketAddr, lines: &[&str], body: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // The server may answer, and close, before it has read everything.
    drop(
        stream
            .write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes())
            .await,
    );
    BufReader::new(stream)
}

async fn read_head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let first = read_line(reader).await.expect("there is an answer");
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers = Vec::new();
    while let Some(line) = read_line(reader).await.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    (status, headers)
}

async fn read_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A client that sends a request, reads the beginning of the answer, and then reads nothing more.
pub(crate) struct Idler {
    pub(crate) status: u16,
    reader: BufReader<TcpStream>,
}

impl Idler {
    /// Requests `path`.
    pub(crate) async fn open(to: SocketAddr, path: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // What the system takes in for a reader is as good as read.
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader).await;
        Self { status, reader }
    }

    /// The rest of the answer.
    pub(crate) async fn rest(mut self) -> String {
        let mut rest = Vec::new();
        // However it ends.
        drop(self.reader.read_to_end(&mut rest).await);
        String::from_utf8(rest).unwrap()
    }
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: String,
}

impl Message {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A stream of server-sent events.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
}

impl Events {
    /// Listens at `path` after the event `last`.
    pub(crate) async fn open(to: SocketAddr, path: &str, last: Option<&str>) -> Self {
        let first = format!("GET {path} HTTP/1.1");
        let last = last.map(|id| format!("Last-Event-ID: {id}"));
        // Without chunks, so that lines of the body are lines of the connection.
        let first = first.replace("HTTP/1.1", "HTTP/1.0");
        let mut lines = vec![first.as_str(), "Host: localhost"];
        lines.extend(last.as_deref());
        Self::request(to, &lines, "").await
    }

    /// Listens to the answer to a request with `lines` as its head, then `body`.
    pub(crate) async fn request(to: SocketAddr, lines: &[&str], body: &str) -> Self {
        let mut reader = open(to, lines, body).await;
        let (status, headers) = read_head(&mut reader).await;
        assert_eq!(status, 200);
        assert!(
            headers
                .iter()
                .any(|(name, value)| name == "content-type" && value == "text/event-stream"),
            "{headers:?}"
        );
        Self { reader }
    }

    /// The next message; `None` when the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        let mut message = Message::default();
        loop {
            let line = read_line(&mut self.reader).await?;
            match line.split_once(": ") {
                Some(("id", value)) => value.clone_into(&mut message.id),
                Some(("event", value)) => value.clone_into(&mut message.event),
                Some(("data", value)) => message.data.push_str(value),
                _ if line.is_empty() && message != Message::default() => return Some(message),
                _ => {}
            }
        }
    }

    /// Everything until the server ends the stream.
    pub(crate) async fn rest(mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }
}
