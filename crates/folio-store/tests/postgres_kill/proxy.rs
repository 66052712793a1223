//! A proxy before the server that cuts connections around `COMMIT`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// One of this many commits is cut off before it arrives, and one before its answer does.
const CUT_INTERVAL: usize = 12;

/// It lives as long as the test.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    commits: AtomicUsize,
    before: AtomicUsize,
    behind: AtomicUsize,
}

/// How many connections were cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Before `COMMIT` arrived.
    pub(crate) before: usize,
    /// After it, before its answer arrived.
    pub(crate) behind: usize,
}

impl Proxy {
    /// Starts a proxy before `server`.
    pub(crate) async fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let counts = Arc::<Counts>::default();
        let (server, counted) = (server.to_owned(), Arc::clone(&counts));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, counts) = (server.clone(), Arc::clone(&counted));
                // Both ways end together: what is cut is cut for both.
                tokio::spawn(async move {
                    let server = TcpStream::connect(server).await.expect("the server");
                    // Each message goes by itself: an answer comes in as many parts as it has.
                    for stream in [&client, &server] {
                        stream.set_nodelay(true).expect("an option that every system has");
                    }
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let is_to_be_cut = AtomicBool::new(false);
                    tokio::select! {
                        () = ask(from_client, to_server, &counts, &is_to_be_cut) => {}
                        () = answer(from_server, to_client, &counts, &is_to_be_cut) => {}
                    }
                });
            }
        });
        Self { port, counts }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) -> Cut {
        Cut {
            before: self.counts.before.load(Ordering::SeqCst),
            behind: self.counts.behind.load(Ordering::SeqCst),
        }
    }
}

/// Forwards the client's messages until the connection is to be cut before a commit, or has ended.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counts: &Counts, is_to_be_cut: &AtomicBool) {
    // The first message has no letter.
    let mut has_letter = false;
    let mut writes = false;
    while let Some(message) = message(&mut from, has_letter).await {
        has_letter = true;
        let says = |words: &[u8]| message[0] == b'Q' && message.windows(words.len()).any(|part| part == words);
        if says(b"BEGIN") {
            writes = says(b"READ COMMITTED");
        }
        if writes && says(b"COMMIT\0") {
            match counts.commits.fetch_add(1, Ordering::SeqCst) % (2 * CUT_INTERVAL) {
                0 => {
                    counts.before.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                CUT_INTERVAL => is_to_be_cut.store(true, Ordering::SeqCst),
                _ => {}
            }
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Forwards the server's messages until the connection is to be cut before the answer to a commit, or has ended.
async fn answer(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counts: &Counts, is_to_be_cut: &AtomicBool) {
    while let Some(message) = message(&mut from, true).await {
        if is_to_be_cut.load(Ordering::SeqCst) && message[0] == b'C' && message.ends_with(b"COMMIT\0") {
            counts.behind.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// The next message, whole.
async fn message(from: &mut OwnedReadHalf, has_letter: bool) -> Option<Vec<u8>> {
    let before = if has_letter { 1 } else { 0 };
    let mut message = vec![0; before + 4];
    from.read_exact(&mut message).await.ok()?;
    let length = u32::from_be_bytes(message[before..].try_into().expect("four bytes"));
    let head = message.len();
    message.resize(before + usize::try_from(length).expect("a length"), 0);
    from.read_exact(&mut message[head..]).await.ok()?;
    Some(message)
}
