//! The live events of a run.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use folio::Folio;
use folio_server::ServeOptions;
use folio_testkit::FaultyStore;
use serde_json::{Value, json};

use crate::client::{Events, Message};
use crate::house::{ECHO, House, assert_problem};

async fn listen(house: &House, last: Option<&str>) -> Events {
    Events::open(house.address, "/v1/spaces/main/runs/r1/events", last).await
}

/// Applies the events of a stream to a tree, as a reader would: id → state.
fn outcomes(messages: &[Message]) -> Vec<(String, Value)> {
    let mut nodes: Vec<(String, Value)> = Vec::new();
    for message in messages {
        let data = message.json();
        for node in data["nodes"].as_array().into_iter().flatten() {
            nodes.push((node["node_id"].as_str().unwrap().to_owned(), Value::Null));
        }
        if message.event == "finished" {
            nodes.iter_mut().find(|(id, _)| data["node_id"] == **id).unwrap().1 = data["status"].clone();
        }
    }
    nodes.sort_by(|a, b| a.0.cmp(&b.0));
    nodes
}

#[tokio::test]
async fn run_events_stream_live_until_the_run_ends_e9_18() {
    let house = House::new().await;
    house.submit(ECHO).await;
    let mut events = listen(&house, None).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.id.as_str(), first.event.as_str()), ("1", "run_started"));
    for (act, paused) in [("pause", true), ("continue", false)] {
        assert_eq!(house.post(&format!("/runs/r1/{act}"), "").await.status, 202);
        assert_eq!(house.get("/runs/r1").await.json()["paused"], paused, "{act}");
    }
    // A person had it go on, so it is driven there.
    let mut messages = vec![first];
    messages.extend(events.rest().await);
    let end = messages.pop().unwrap();
    assert_eq!(
        (end.event.as_str(), end.id.as_str(), end.json()),
        ("end", "", json!({"status": "ok"}))
    );
    let ids: Vec<usize> = messages.iter().map(|message| message.id.parse().unwrap()).collect();
    assert_eq!(ids, (1..=messages.len()).collect::<Vec<_>>());
    // A message is called after its event; what people do has one shape, which says what it was.
    for message in &messages {
        let data = message.json();
        let name = if data["event"] == "told" {
            &data["what"]
        } else {
            &data["event"]
        };
        assert_eq!(name, &message.event, "{data}");
    }
    assert!(messages.iter().any(|message| message.event == "paused"));
    // What the stream told is what the tree says.
    let tree = house.get("/runs/r1/tree").await.json();
    let mut expected: Vec<(String, Value)> = tree["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["node_id"].as_str().unwrap().to_owned(), node["status"].clone()))
        .collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(outcomes(&messages), expected);
    assert_eq!(tree["last_event_id"], messages.len());
}

#[tokio::test]
async fn tree_of_a_run_is_read_part_by_part() {
    let house = House::new().await;
    house.run(ECHO).await;
    listen(&house, None).await.rest().await;
    let whole = house.get_json("/runs/r1/tree").await;
    let all = whole["nodes"].as_array().unwrap();
    assert_eq!((&whole["total"], &whole["next"]), (&json!(all.len()), &json!(null)));
    assert!(all.len() > 1, "{whole}");
    let (mut path, mut nodes) = ("/runs/r1/tree?limit=1".to_owned(), Vec::new());
    loop {
        let part = house.get_json(&path).await;
        assert_eq!(
            (part["nodes"].as_array().unwrap().len(), &part["total"]),
            (1, &whole["total"])
        );
        nodes.push(part["nodes"][0].clone());
        let Some(next) = part["next"].as_str() else { break };
        path = format!("/runs/r1/tree?limit=1&cursor={next}");
    }
    assert_eq!(&nodes, all);
    house
        .assert_refused("/runs/r1/tree?cursor=nothing", 400, "query_invalid")
        .await;
}

#[tokio::test]
async fn stream_resumed_after_any_event_gets_exactly_the_rest_e9_18() {
    let house = House::new().await;
    house.run(ECHO).await;
    let all = listen(&house, None).await.rest().await;
    assert!(all.len() > 10, "{all:?}");
    for seen in 0..all.len() {
        let rest = listen(&house, Some(&seen.to_string())).await.rest().await;
        assert_eq!(rest, all[seen..], "after {seen}");
    }
}

#[tokio::test]
async fn reconnecting_during_a_run_neither_loses_nor_repeats_events_e9_18() {
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let runner = house.runner.clone();
    let driven = tokio::spawn(async move { runner.drive(run).await.unwrap() });
    let mut messages: Vec<Message> = Vec::new();
    // Every connection takes three messages and is dropped.
    'all: loop {
        let last = messages.last().map_or("0".to_owned(), |message| message.id.clone());
        let mut events = listen(&house, Some(&last)).await;
        for _ in 0..3 {
            let message = events.next().await.unwrap();
            if message.event == "end" {
                break 'all;
            }
            messages.push(message);
        }
    }
    driven.await.unwrap();
    let mut whole = listen(&house, None).await.rest().await;
    whole.pop();
    let numbered = |messages: &[Message]| {
        messages
            .iter()
            .map(|m| (m.id.clone(), m.event.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbered(&messages), numbered(&whole));
}

#[tokio::test]
async fn last_event_id_header_overrides_the_after_parameter() {
    let house = House::new().await;
    house.run(ECHO).await;
    let all = listen(&house, None).await.rest().await;
    let path = "/v1/spaces/main/runs/r1/events?after=4";
    assert_eq!(Events::open(house.address, path, None).await.rest().await, all[4..]);
    // A browser that connects again sets the header; it knows more than the address.
    assert_eq!(
        Events::open(house.address, path, Some("7")).await.rest().await,
        all[7..]
    );
}

#[tokio::test]
async fn unknown_last_event_id_yields_a_gap_and_all_events_e9_18() {
    let house = House::new().await;
    house.run(ECHO).await;
    let all = listen(&house, None).await.rest().await;
    let mut told = listen(&house, Some("9999")).await.rest().await;
    let gap = told.remove(0);
    assert_eq!((gap.event.as_str(), gap.id.as_str()), ("gap", ""));
    assert_eq!(told, all);
}

#[tokio::test]
async fn unreadable_journal_yields_a_problem_instead_of_a_gap_e9_18() {
    let open = Folio::open("memory:").await.unwrap();
    let store = Arc::new(FaultyStore::new(Arc::clone(open.store())));
    let runner = House::runner_on(&Folio::on(store.clone()), false);
    let options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let house = House::serving(runner, None, options).await;
    house.run(ECHO).await;
    let all = listen(&house, None).await.rest().await;
    store.fail_journals(u32::MAX);
    let told = listen(&house, Some("5")).await.rest().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].event, "problem");
    assert_eq!(
        (&told[0].json()["status"], &told[0].json()["code"]),
        (&json!(503), &json!("store_unavailable"))
    );
    store.heal();
    assert_eq!(listen(&house, Some("5")).await.rest().await, all[5..]);
}

#[tokio::test]
async fn non_numeric_last_event_id_is_refused() {
    let house = House::new().await;
    house.submit(ECHO).await;
    let lines = [
        "GET /v1/spaces/main/runs/r1/events HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Last-Event-ID: x",
    ];
    assert_problem(
        &crate::client::send(house.address, &lines, "").await,
        400,
        "last_event_id_invalid",
    );
    house
        .assert_refused("/runs/r1/events?after=x", 400, "query_invalid")
        .await;
    house.assert_refused("/runs/r2/events", 404, "not_found").await;
}

#[tokio::test]
async fn every_watcher_gets_each_run_event_exactly_once_e9_18() {
    const WATCHERS: usize = 200;
    let house = House::new().await;
    let run = house.submit(ECHO).await;
    let (at, path) = (house.address, "/v1/spaces/main/runs/r1/events");
    let watch = || async move { Events::open(at, path, None).await.rest().await };
    // Half of them are there before anything happens, the others come while it does.
    let mut early = Vec::new();
    for _ in 0..WATCHERS / 2 {
        let mut events = Events::open(at, path, None).await;
        assert_eq!(events.next().await.unwrap().id, "1");
        early.push(tokio::spawn(events.rest()));
    }
    let runner = house.runner.clone();
    let driven = tokio::spawn(async move { runner.drive(run).await.unwrap() });
    let late: Vec<_> = (0..WATCHERS / 2).map(|_| tokio::spawn(watch())).collect();
    driven.await.unwrap();
    let whole = watch().await;
    assert_eq!(whole.last().unwrap().event, "end");
    let ids: Vec<_> = whole
        .iter()
        .filter_map(|message| message.id.parse::<usize>().ok())
        .collect();
    assert_eq!(ids, (1..whole.len()).collect::<Vec<_>>());
    let names = |messages: &[Message]| {
        messages
            .iter()
            .map(|m| (m.id.clone(), m.event.clone()))
            .collect::<Vec<_>>()
    };
    for told in early {
        assert_eq!(names(&told.await.unwrap()), names(&whole[1..]));
    }
    for told in late {
        assert_eq!(names(&told.await.unwrap()), names(&whole));
    }
}
