//! A server that keeps its connections and stops answering on one of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_memory::Seq;
use folio_store::ErrorKind;
use folio_store::postgres::{OpenOptions, PostgresStore};
use folio_testkit::contract::scene::Scene;
use folio_testkit::postgres::Database;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

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

/// What gets lost on a connection that hangs.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// What the program says.
    Question,
    /// What the program says after that.
    NextQuestion,
    /// What the server answers.
    Answer,
}

/// Words at which the next connection over which they go hangs for ever.
type Trap = Arc<Mutex<Option<(&'static str, Loss)>>>;

/// A proxy with a trap. It keeps the connection that hangs, on both sides.
async fn with_trap(database: &Database) -> (String, Trap) {
    let url = database.url();
    let (user, place) = url.split_once('@').unwrap();
    let (server, rest) = place.split_once('/').unwrap();
    let (server, user, rest) = (server.to_owned(), user.to_owned(), rest.to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{user}@{}/{rest}", listener.local_addr().unwrap());
    let trap = Trap::default();
    let set = Arc::clone(&trap);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(pass_until_trapped(client, server, Arc::clone(&set)));
        }
    });
    (url, trap)
}

async fn pass_until_trapped(client: TcpStream, server: TcpStream, trap: Trap) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut hangs_next = false;
    let says = |bytes: &[u8]| {
        let mut trap = trap.lock().unwrap();
        let (word, loss) = (*trap)?;
        bytes
            .windows(word.len())
            .any(|part| part == word.as_bytes())
            .then(|| *trap = None)?;
        Some(loss)
    };
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                let loss = if hangs_next { Some(Loss::Question) } else { says(&asked[..read]) };
                match loss {
                    Some(Loss::Question) => break,
                    Some(Loss::Answer) => {
                        to_server.write_all(&asked[..read]).await.unwrap();
                        break;
                    }
                    Some(Loss::NextQuestion) => hangs_next = true,
                    None => {}
                }
                if to_server.write_all(&asked[..read]).await.is_err() { return }
            }
            read = from_server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                if to_client.write_all(&answered[..read]).await.is_err() { return }
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn opened(url: String) -> Scene {
    let opened = tokio::task::spawn_blocking(move || PostgresStore::open(&OpenOptions::at(url)));
    Scene::on(opened.await.unwrap().unwrap())
}

async fn closed(scene: Scene) {
    tokio::task::spawn_blocking(|| drop(scene)).await.unwrap();
}

/// A single connection hangs, at each stage of a call in turn; all others answer.
#[tokio::test(flavor = "multi_thread")]
async fn call_whose_connection_hangs_goes_on_over_another_one() {
    let database = Database::fresh();
    let before = opened(database.url()).await;
    let stages = [
        ("space_called", Loss::Question),
        ("space_called", Loss::NextQuestion),
        ("space_called", Loss::Answer),
        ("REPEATABLE READ", Loss::Question),
        ("REPEATABLE READ", Loss::NextQuestion),
        ("REPEATABLE READ", Loss::Answer),
        ("READ COMMITTED", Loss::Question),
        ("READ COMMITTED", Loss::NextQuestion),
        ("READ COMMITTED", Loss::Answer),
        ("INSERT INTO log", Loss::Question),
        ("INSERT INTO log", Loss::NextQuestion),
        ("INSERT INTO log", Loss::Answer),
    ];
    let mut calls = JoinSet::new();
    for (number, (word, loss)) in stages.into_iter().enumerate() {
        let name = format!("s{number}");
        let elsewhere = before.other_space(&name);
        elsewhere.commit(Vec::new()).await;
        let (url, trap) = with_trap(&database).await;
        calls.spawn(async move {
            let store = opened(url).await;
            let scene = store.other_space(&name);
            *trap.lock().unwrap() = Some((word, loss));
            let doing = format!("{word} {loss:?}");
            let call = async {
                assert_eq!(scene.head().await, Seq(1), "{doing}");
                scene.try_commit(Vec::new()).await.expect(&doing);
                assert_eq!(scene.head().await, Seq(2), "{doing}");
                let new = scene.other_space(&format!("new{number}"));
                new.try_commit(Vec::new()).await.expect(&doing);
                assert!(scene.store.tokens().await.expect(&doing).is_empty());
                let spaces = scene.store.spaces().await.expect(&doing);
                assert!(spaces.contains(&new.space), "{doing}");
            };
            tokio::time::timeout(FAR_AWAY, call).await.expect(&doing);
            assert!(trap.lock().unwrap().is_none(), "{doing}: nothing hangs");
            assert_eq!(elsewhere.head().await, Seq(2), "{doing}");
            drop(elsewhere);
            closed(scene).await;
            closed(store).await;
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    closed(before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn store_is_opened_although_the_first_connection_hangs() {
    let stages = [
        ("server_encoding", Loss::Question),
        ("to_regclass", Loss::Answer),
        ("CREATE SCHEMA", Loss::Question),
        ("CREATE SCHEMA", Loss::NextQuestion),
        ("clock_timestamp()) * 1000000", Loss::Answer),
    ];
    // They are dropped by this thread, once nobody has connections to them any more.
    let databases = stages.map(|_| Database::fresh());
    let mut calls = JoinSet::new();
    for (database, (word, loss)) in databases.iter().zip(stages) {
        let (url, trap) = with_trap(database).await;
        calls.spawn(async move {
            *trap.lock().unwrap() = Some((word, loss));
            let doing = format!("{word} {loss:?}");
            let opening = tokio::time::timeout(FAR_AWAY, opened(url));
            let scene = opening.await.expect(&doing);
            assert!(trap.lock().unwrap().is_none(), "{doing}: nothing hangs");
            scene.commit(Vec::new()).await;
            closed(scene).await;
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
}

/// The server is at work on it all the time.
#[tokio::test(flavor = "multi_thread")]
async fn long_statement_is_not_taken_for_one_that_hangs() {
    let database = Database::fresh();
    let scene = opened(database.url()).await;
    scene.commit(Vec::new()).await;
    let slow = "CREATE FUNCTION folio.slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(14); RETURN NEW; END';
                CREATE TRIGGER slow BEFORE INSERT ON folio.log FOR EACH ROW EXECUTE FUNCTION folio.slowly()";
    database.ask(slow).unwrap();
    let written = tokio::time::timeout(FAR_AWAY, scene.try_commit(Vec::new()));
    assert_eq!(written.await.unwrap().unwrap().seq, Seq(2));
    closed(scene).await;
}
