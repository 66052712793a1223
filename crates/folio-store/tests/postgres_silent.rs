//! A server that keeps its connections and stops answering on one of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use folio_store::ErrorKind;
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// No test takes this long.
const FAR_AWAY: Duration = Duration::from_secs(60);

/// A proxy between the program and the server: the first listener gets nothing any more. Reports each listener.
async fn between(database: &Database) -> (String, mpsc::UnboundedReceiver<u32>) {
    let url = database.url();
    let (user, place) = url.split_once('@').unwrap();
    let (server, rest) = place.split_once('/').unwrap();
    let (server, user, rest) = (server.to_owned(), user.to_owned(), rest.to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{user}@{}/{rest}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    let count = Arc::new(AtomicU32::new(0));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass(client, server, Arc::clone(&count), tell.clone()));
        }
    });
    (url, told)
}

async fn pass(client: TcpStream, server: TcpStream, count: Arc<AtomicU32>, tell: mpsc::UnboundedSender<u32>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
        if bytes[..read].windows(6).any(|word| word == b"LISTEN") {
            let number = count.fetch_add(1, Ordering::AcqRel) + 1;
            tell.send(number).unwrap_or_default();
            if number == 1 {
                // It is not passed on, and the connection stays.
                std::future::pending::<()>().await;
            }
        }
        if to_server.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
    answers.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn listener_reconnects_when_its_connection_falls_silent() {
    let database = Database::fresh();
    let (url, mut told) = between(&database).await;
    let options = OpenOptions {
        lease: Duration::from_secs(1),
        ..OpenOptions::at(url)
    };
    let store = tokio::task::spawn_blocking(move || PostgresStore::open(&options));
    let store = store.await.unwrap().unwrap();
    for number in 1..=2 {
        let listens = tokio::time::timeout(FAR_AWAY, told.recv()).await;
        assert_eq!(listens.unwrap(), Some(number));
    }
    tokio::task::spawn_blocking(|| drop(store)).await.unwrap();
}

/// A proxy that passes nothing on while it is stuck, in either direction, and keeps all connections.
async fn stuck(database: &Database) -> (String, watch::Sender<bool>) {
    let url = database.url();
    let (user, place) = url.split_once('@').unwrap();
    let (server, rest) = place.split_once('/').unwrap();
    let (server, user, rest) = (server.to_owned(), user.to_owned(), rest.to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{user}@{}/{rest}", listener.local_addr().unwrap());
    let is_stuck = watch::Sender::new(false);
    let told = is_stuck.subscribe();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            tokio::spawn(pass_unless_stuck(from_client, to_server, told.clone()));
            tokio::spawn(pass_unless_stuck(from_server, to_client, told.clone()));
        }
    });
    (url, is_stuck)
}

async fn pass_unless_stuck(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_stuck: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if is_stuck.wait_for(|is_stuck| !is_stuck).await.is_err() || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_end_when_the_server_stops_answering() {
    let database = Database::fresh();
    let (url, is_stuck) = stuck(&database).await;
    let options = OpenOptions {
        lease: Duration::from_secs(1),
        ..OpenOptions::at(format!("{url}&connect_timeout=1"))
    };
    let store = tokio::task::spawn_blocking(move || PostgresStore::open(&options));
    let scene = Scene::on(store.await.unwrap().unwrap());
    scene.commit(Vec::new()).await;
    is_stuck.send_replace(true);
    let both = async { tokio::join!(scene.store.head(&scene.space), scene.try_commit(Vec::new())) };
    let (read, written) = tokio::time::timeout(FAR_AWAY, both).await.expect("an end");
    for error in [read.expect_err("no answer"), written.expect_err("no answer")] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    is_stuck.send_replace(false);
    let back = async {
        while scene.store.head(&scene.space).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(FAR_AWAY, back).await.expect("it answers again");
    scene.commit(Vec::new()).await;
    tokio::task::spawn_blocking(|| drop(scene)).await.unwrap();
}
