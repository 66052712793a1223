//! `folio serve` as a process, queried over plain HTTP and killed at the end of its test, however that ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Folio;

/// A server, and its address.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Served {
    /// Starts a server that listens on `listen`, with the store `f.db` of `folio`.
    pub(crate) fn new(folio: &Folio, listen: &str) -> Self {
        Self::of(folio.process(&["--store", "sqlite:f.db", "serve", "--listen", listen]))
    }

    /// Starts the server with `command`.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        let port = url
            .trim()
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        Self { child, port }
    }

    /// Opens a connection that has requested `path`.
    pub(crate) fn open(&self, path: &str, token: Option<&str>) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{token}\r\n").unwrap();
        stream
    }

    /// The status of the answer for `path`.
    pub(crate) fn status(&self, path: &str, token: Option<&str>) -> String {
        let mut answer = String::new();
        self.open(path, token).read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }

    /// The status and the code of the refusal for `path`.
    pub(crate) fn refusal(&self, path: &str, token: Option<&str>) -> (String, String) {
        let mut answer = String::new();
        self.open(path, token).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, problem["code"].as_str().unwrap().to_owned())
    }

    /// Posts `body` to `path`, and returns the whole answer with its head.
    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        self.post_as(path, None, body)
    }

    /// The same with a token.
    pub(crate) fn post_as(&self, path: &str, token: Option<&str>, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let bytes = body.len();
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n{token}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
