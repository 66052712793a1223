//! A server whose store is away.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use folio::{Folio, Role};
use folio_server::ServeOptions;
use folio_testkit::FaultyStore;
use serde_json::{Value, json};

use crate::client::{Events, get, send};
use crate::house::{House, assert_problem};

/// The name of a turn that nobody knows here.
const TURN: &str = "turn_01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn answer(content: &str) -> Option<Value> {
    Some(json!({"request_id": content, "status": "success", "observations": [{"content": content}]}))
}

#[tokio::test]
async fn answers_of_tools_with_a_token_are_kept_while_the_store_is_away_m7_3_26() {
    let folder = tempfile::tempdir().unwrap();
    let open = Folio::open("memory:").await.unwrap();
    let store = Arc::new(FaultyStore::new(Arc::clone(open.store())));
    let folio = Folio::on(store.clone()).with_outbox(folder.path().join("outbox.jsonl"));
    let runner = House::runner_on(&folio, false);
    let (token, _) = House::token(&runner, "main", Role::Client).await;
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.require_token = true;
    let house = House::serving(runner, None, options).await;
    let take_in = async |content: &str| {
        let path = format!("/tool-responses?tool=wine&turn={TURN}");
        let answer = house.ask_as(&token, "POST", &path, answer(content)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        (answer["stored"].as_array().unwrap().len(), answer["spooled"].clone())
    };
    assert_eq!(take_in("before").await.0, 1);
    store.take_away();
    for content in ["one", "two"] {
        assert_eq!(take_in(content).await, (0, json!(1)));
    }
    let other = house.ask_as(&token, "GET", "/observations", None).await;
    assert_problem(&other, 503, "store_unavailable");
    let stranger = house
        .ask("GET", "/observations", &["Authorization: Bearer folio_x"], None)
        .await;
    assert_problem(&stranger, 401, "token_invalid");
    let shown = format!("Authorization: Bearer {}", token.reveal());
    let head = ["GET /metrics HTTP/1.1", "Host: localhost", "Connection: close", &shown];
    let metrics = send(house.address, &head, "").await;
    assert_eq!(metrics.status, 200, "{metrics:?}");
    assert!(metrics.body.contains("folio_store_up 0"), "{metrics:?}");
    assert_eq!(get(house.address, "/healthz").await.status, 200);
    store.heal();
    assert_eq!(take_in("after").await.0, 1);
    let found = house.ask_as(&token, "GET", "/observations", None).await.json();
    assert_eq!(found["total"], 4, "{found}");
}

/// Another store takes the place of the first, and lacks its commits.
#[tokio::test]
async fn space_event_stream_tells_of_commits_that_a_failover_lost() {
    let (first, second) = (
        Folio::open("memory:").await.unwrap(),
        Folio::open("memory:").await.unwrap(),
    );
    let store = Arc::new(FaultyStore::new(Arc::clone(first.store())));
    let runner = House::runner_on(&Folio::on(store.clone()), false);
    let house = House::serving(
        runner,
        None,
        ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
    )
    .await;
    let add = async |content: &str| {
        house
            .post_and_expect("/observations", 201, json!({"content": content}))
            .await;
    };
    add("one").await;
    let mut live = Events::open(house.address, "/v1/spaces/main/events", None).await;
    add("two").await;
    assert_eq!(live.next().await.unwrap().id, "2");
    store.fail_over(Arc::clone(second.store()));
    let gap = live.next().await.unwrap();
    assert_eq!((gap.event.as_str(), gap.id.as_str()), ("gap", "0"));
    assert_eq!(gap.json()["head"], 0, "{gap:?}");
    add("other").await;
    let next = live.next().await.unwrap();
    assert_eq!((next.event.as_str(), next.id.as_str()), ("commit", "1"));
}
