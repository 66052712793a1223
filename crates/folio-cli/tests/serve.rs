//! `folio serve` and `folio token` as programs: who is let in, and how it stops.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use support::Folio;

/// A server, and where it is.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn new(folio: &Folio, listen: &str) -> Self {
        let mut command = folio.process(&["--store", "sqlite:f.db", "serve", "--listen", listen]);
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

    fn open(&self, path: &str, token: Option<&str>) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{token}\r\n").unwrap();
        stream
    }

    fn status(&self, path: &str, token: Option<&str>) -> String {
        let mut answer = String::new();
        self.open(path, token).read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const LIST: &str = "/v1/spaces/main/observations";

#[test]
fn an_address_that_others_reach_is_taken_when_there_is_a_token_and_answers_who_shows_it() {
    let folio = Folio::new();
    let refused = folio.call(&["--store", "sqlite:f.db", "serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.stderr.contains("no access token for the space main"),
        "{refused}"
    );
    let made = folio.call(&[
        "--store",
        "sqlite:f.db",
        "--json",
        "token",
        "new",
        "--role",
        "client",
        "--name",
        "ci",
        "--expires",
        "1d",
    ]);
    let made: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let listed = folio.call(&["--store", "sqlite:f.db", "--json", "token", "list"]);
    assert!(listed.stdout.contains(id) && !listed.stdout.contains(token), "{listed}");
    let served = Served::new(&folio, "0.0.0.0:0");
    assert_eq!(served.status(LIST, None), "401");
    assert_eq!(served.status(LIST, Some(token)), "200");
    assert_eq!(served.status("/v1/spaces/other/observations", Some(token)), "403");
    assert_eq!(served.status("/healthz", None), "200");
    let revoked = folio.call(&["--store", "sqlite:f.db", "token", "revoke", id]);
    assert_eq!(revoked.code, 0, "{revoked}");
    assert_eq!(served.status(LIST, Some(token)), "401", "taken back by another process");
    let unknown = folio.call(&["--store", "sqlite:f.db", "token", "revoke", "nothing"]);
    assert_eq!(unknown.code, 3, "{unknown}");
}

#[test]
fn a_server_that_is_told_to_stop_ends_its_streams_and_goes() {
    let folio = Folio::new();
    let mut served = Served::new(&folio, "127.0.0.1:0");
    let mut stream = BufReader::new(served.open("/v1/spaces/main/events", None));
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
}
