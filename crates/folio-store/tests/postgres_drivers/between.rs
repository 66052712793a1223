//! What stands between a program and its server, and takes connections away from one of them or from both.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All goes through.
    Open,
    /// Nobody gets a new one.
    Shut,
    /// Nobody gets a new one, and the one that listens for commits is gone.
    ShutToListeners,
}

/// It lives as long as the test.
#[derive(Debug)]
pub(crate) struct Between {
    url: String,
    way: watch::Sender<Way>,
    /// How often the program's side of all connections was cut.
    cuts: watch::Sender<u32>,
    /// What the server still has of those that were cut.
    left: Arc<Mutex<Vec<(OwnedReadHalf, OwnedWriteHalf)>>>,
}

impl Between {
    /// One before the server that `url` leads to.
    pub(crate) async fn before(url: &str) -> Self {
        let (user, place) = url.split_once('@').unwrap();
        let (server, rest) = place.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let between = Self {
            url: format!("{user}@{}/{rest}", listener.local_addr().unwrap()),
            way: watch::Sender::new(Way::Open),
            cuts: watch::Sender::new(0),
            left: Arc::default(),
        };
        let (way, cuts, left) = (between.way.subscribe(), between.cuts.clone(), Arc::clone(&between.left));
        let server = server.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *way.borrow() != Way::Open {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&server).await {
                    tokio::spawn(pass(client, server, way.clone(), cuts.subscribe(), Arc::clone(&left)));
                }
            }
        });
        between
    }

    /// The server's URL, by this way.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn go(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Takes every connection from the program, and none from the server.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// How many connections the server has that the program has no more.
    pub(crate) fn left(&self) -> usize {
        self.left.lock().unwrap().len()
    }

    /// Takes them from the server, too.
    pub(crate) fn let_go(&self) {
        self.left.lock().unwrap().clear();
    }
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    mut way: watch::Receiver<Way>,
    mut cuts: watch::Receiver<u32>,
    left: Arc<Mutex<Vec<(OwnedReadHalf, OwnedWriteHalf)>>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut listens = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                listens |= asked[..read].windows(6).any(|word| word == b"LISTEN");
                if to_server.write_all(&asked[..read]).await.is_err() { return }
            }
            read = from_server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                if to_client.write_all(&answered[..read]).await.is_err() { return }
            }
            Ok(()) = cuts.changed() => {
                left.lock().unwrap().push((from_server, to_server));
                return;
            }
            () = async { drop(way.wait_for(|way| listens && *way == Way::ShutToListeners).await) } => return,
        }
    }
}
