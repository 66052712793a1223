//! A server with more clients, or larger requests, than it can serve at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use folio_server::ServeOptions;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::client::{Events, get};
use crate::house::{House, assert_problem};

const EVENTS: &str = "/v1/spaces/main/events";

async fn house(change: impl FnOnce(&mut ServeOptions)) -> House {
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    change(&mut options);
    House::serving(House::runner().await, None, options).await
}

#[tokio::test]
async fn streams_of_one_client_leave_connections_for_others() {
    let house = house(|options| options.connections = 8).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(Events::open(house.address, EVENTS, Some("0")).await);
    }
    let refused = get(house.address, EVENTS).await;
    assert_problem(&refused, 429, "streams_busy");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(house.get("/observations").await.status, 200);
    streams.clear();
    // The server notices that a stream was closed when its client has gone.
    let reopened = async {
        while get_head(house.address).await != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reopened).await.unwrap();
}

/// The status of a stream, which is closed at once.
async fn get_head(at: SocketAddr) -> u16 {
    crate::client::Idler::open(at, EVENTS).await.status
}

#[tokio::test]
async fn health_is_answered_while_every_connection_is_busy() {
    let house = house(|options| options.connections = 1).await;
    let stream = Events::open(house.address, EVENTS, Some("0")).await;
    let waiting = house.get("/observations");
    let health = async {
        for _ in 0..3 {
            assert_eq!(get(house.address, "/healthz").await.status, 200);
        }
    };
    let (refused, ()) = tokio::join!(waiting, health);
    assert_problem(&refused, 503, "connections_busy");
    // A request that waits for a place gets it.
    let freed = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(stream);
    };
    let (answered, ()) = tokio::join!(house.get("/observations"), freed);
    assert_eq!(answered.status, 200, "{answered:?}");
}

#[tokio::test]
async fn health_is_answered_at_once_however_many_clients_wait() {
    let house = house(|options| options.connections = 1).await;
    let stream = Events::open(house.address, EVENTS, Some("0")).await;
    let mut waiting = Vec::new();
    for n in 0..80 {
        let mut client = TcpStream::connect(house.address).await.unwrap();
        // Some make a request, and some nothing at all.
        if n % 2 == 0 {
            let head = b"GET /v1/spaces HTTP/1.1\r\nHost: localhost\r\n\r\n";
            client.write_all(head).await.unwrap();
        }
        waiting.push(client);
    }
    let health = tokio::time::timeout(Duration::from_millis(1_500), get(house.address, "/healthz"));
    assert_eq!(health.await.expect("it comes at once").status, 200);
    drop(stream);
}

#[tokio::test]
async fn body_larger_than_the_room_for_bodies_is_refused_for_now() {
    let house = house(|options| options.body_bytes = 100_000).await;
    let observation = |bytes: usize| Some(json!({"content": "x", "context": {"a": "y".repeat(bytes)}}));
    let large = house.ask("POST", "/observations", &[], observation(200_000)).await;
    assert_problem(&large, 503, "bodies_busy");
    assert_eq!(large.header("retry-after"), "1");
    let small = house.ask("POST", "/observations", &[], observation(100)).await;
    assert_eq!(small.status, 201, "{small:?}");
}
