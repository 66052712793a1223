//! A proxy between a program and its server that takes connections away from one of them or from both.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Everything passes.
    Open,
    /// New connections are refused.
    Shut,
    /// New connections are refused, and the one that listens for commits is cut.
    ShutToListeners,
    /// Everything passes until a commit: the server commits, and its answer is lost. The program gets the message of a
    /// pooler that has lost its server. Then the way is open again.
    LosesServer,
}

/// The message of PgBouncer, in answer to the first open query: a fatal error of class 08.
const SERVER_LOST: &[u8] = b"E\x00\x00\x00\x2fSFATAL\x00VFATAL\x00C08P01\x00Mserver conn crashed\x00\x00";

/// The proxy lives as long as the test.
#[derive(Debug)]
pub(crate) struct Between {
    url: String,
    way: watch::Sender<Way>,
    /// How many connections the program requested.
    wanted: Arc<AtomicU32>,
    /// How often the program's side of all connections was cut.
    cuts: watch::Sender<u32>,
    /// How often the server has lost what was prepared on all connections.
    losses: watch::Sender<u32>,
    /// The server's side of connections that were cut.
    left: Arc<Mutex<Vec<(OwnedReadHalf, OwnedWriteHalf)>>>,
}

impl Between {
    /// Starts a proxy before the server at `url`.
    pub(crate) async fn before(url: &str) -> Self {
        let (user, place) = url.split_once('@').unwrap();
        let (server, rest) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = Self {
            url: format!("{user}@{}/{rest}", listener.local_addr().unwrap()),
            way: watch::Sender::new(Way::Open),
            wanted: Arc::default(),
            cuts: watch::Sender::new(0),
            losses: watch::Sender::new(0),
            left: Arc::default(),
        };
        let (way, cuts, left) = (between.way.clone(), between.cuts.clone(), Arc::clone(&between.left));
        let losses = between.losses.clone();
        let (server, wanted) = (server.to_owned(), Arc::clone(&between.wanted));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                wanted.fetch_add(1, Ordering::AcqRel);
                if matches!(*way.borrow(), Way::Shut | Way::ShutToListeners) {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&server).await {
                    let ends = (cuts.subscribe(), losses.subscribe());
                    tokio::spawn(pass(client, server, way.clone(), ends, Arc::clone(&left)));
                }
            }
        });
        between
    }

    /// The URL of the server through this proxy.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn set_way(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// How many connections the program has requested so far.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted.load(Ordering::Acquire)
    }

    /// Cuts every connection on the program's side, but not on the server's.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Makes the server forget what was prepared on the connections that are there, as a pooler does that puts another
    /// one in their place: each with its next transaction.
    pub(crate) fn forget_prepared(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// How many connections the server still has that the program has lost.
    pub(crate) fn left(&self) -> usize {
        self.left.lock().unwrap().len()
    }

    /// Cuts them on the server's side, too.
    pub(crate) fn let_go(&self) {
        self.left.lock().unwrap().clear();
    }
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    way: watch::Sender<Way>,
    (mut cuts, mut losses): (watch::Receiver<u32>, watch::Receiver<u32>),
    left: Arc<Mutex<Vec<(OwnedReadHalf, OwnedWriteHalf)>>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let (mut listens, mut writes) = (false, false);
    let mut shut = way.subscribe();
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                listens |= holds(&asked[..read], b"LISTEN");
                writes |= holds(&asked[..read], b"READ COMMITTED");
                if holds(&asked[..read], b"BEGIN ISOLATION") && losses.has_changed().unwrap_or(false) {
                    losses.mark_unchanged();
                    if to_server.write_all(FORGET).await.is_err() { return }
                }
                if to_server.write_all(&asked[..read]).await.is_err() { return }
                if writes && holds(&asked[..read], COMMIT) && loses_server(&way) {
                    let mut said = Vec::new();
                    while !holds(&said, COMMIT) {
                        let Ok(read @ 1..) = from_server.read(&mut answered).await else { return };
                        said.extend_from_slice(&answered[..read]);
                    }
                    drop(to_client.write_all(SERVER_LOST).await);
                    return;
                }
            }
            read = from_server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                let bytes = without(&answered[..read], FORGOTTEN);
                if to_client.write_all(&bytes).await.is_err() { return }
            }
            Ok(()) = cuts.changed() => {
                left.lock().unwrap().push((from_server, to_server));
                return;
            }
            () = async { drop(shut.wait_for(|way| listens && *way == Way::ShutToListeners).await) } => return,
        }
    }
}

/// A query that drops everything that was prepared, and the answer to it, after which one more byte says whether a
/// transaction is under way.
const FORGET: &[u8] = b"Q\x00\x00\x00\x13DEALLOCATE ALL\x00";
const FORGOTTEN: &[u8] = b"C\x00\x00\x00\x13DEALLOCATE ALL\x00Z\x00\x00\x00\x05";

/// `bytes` without `part` and the byte behind it.
fn without(bytes: &[u8], part: &[u8]) -> Vec<u8> {
    match bytes.windows(part.len()).position(|found| found == part) {
        Some(at) => [&bytes[..at], &bytes[at + part.len() + 1..]].concat(),
        None => bytes.to_vec(),
    }
}

/// The end of a transaction, and of the server's answer to it.
const COMMIT: &[u8] = b"COMMIT\0";

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|found| found == word)
}

/// Whether the server is to be lost now.
fn loses_server(way: &watch::Sender<Way>) -> bool {
    way.send_if_modified(|way| {
        let loses = *way == Way::LosesServer;
        if loses {
            *way = Way::Open;
        }
        loses
    })
}
