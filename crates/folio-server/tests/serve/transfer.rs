//! Export, import and forgetting over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use folio::ObservationInput;
use folio_server::{ServeOptions, TransferLimits};
use serde_json::{Value, json};
use tokio::runtime;

use crate::client::{Idler, get, post, send};
use crate::house::{House, assert_problem, person};

#[tokio::test]
async fn space_exported_as_json_lines_can_be_imported() {
    let (house, other) = (House::new().await, House::new().await);
    for n in 0..300 {
        let body = json!({"content": format!("{n} {}", "long ".repeat(200))});
        house.post_and_expect("/observations", 201, body).await;
    }
    let lines = house.get("/export").await;
    assert_eq!(
        (lines.status, lines.header("content-type")),
        (200, "application/x-ndjson")
    );
    assert!(
        lines.body.len() > 300_000
            && lines
                .body
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    let import = |query: &'static str| {
        let path = format!("/v1/spaces/main/import{query}");
        let body = &lines.body;
        async move { post(other.address, &path, "application/x-ndjson", body).await }
    };
    let dry = import("?dry_run=true").await.json();
    assert_eq!((&dry["dry_run"], &dry["entries"]), (&json!(true), &json!(300)));
    assert_eq!(other.get_json("/observations").await["total"], 0, "it was a dry run");
    assert_eq!(import("").await.json()["entries"], 300);
    let again = import("").await.json();
    // The entries, and their page.
    assert_eq!(
        (&again["entries"], &again["present"]),
        (&json!(0), &json!(301)),
        "{again}"
    );
    let contents = async |house: &House| {
        let list = house.get_json("/observations?limit=1000&order=oldest").await;
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(contents(&other).await, contents(&house).await);
    // An option that has no meaning for the format would be ignored, and its caller would take the import for another.
    for query in ["?thread=t", "?from=colony&merge=true", "?from=colony&distrust=true"] {
        assert_problem(&import(query).await, 400, "query_invalid");
    }
    let path = "/v1/spaces/main/import";
    assert_problem(
        &post(house.address, path, "application/x-ndjson", "{}").await,
        422,
        "transfer_malformed",
    );
    assert_problem(&post(house.address, path, "image/png", "x").await, 415, "body_not_json");
}

#[tokio::test]
async fn forgotten_entry_leaves_no_residue() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "The code word is heliotrope"}))
        .await;
    house
        .post_and_expect("/observations", 201, json!({"content": "stays"}))
        .await;
    let dry = house
        .post_and_expect("/forget", 200, json!({"text": "heliotrope", "dry_run": true}))
        .await;
    assert_eq!(
        (&dry["forgotten"][0]["handle"], dry.get("residue")),
        (&json!("e1"), None)
    );
    let done = house
        .post_and_expect("/forget", 200, json!({"entries": ["e1"], "reason": "asked to"}))
        .await;
    assert_eq!(
        (&done["dry_run"], &done["residue"]["found"]),
        (&json!(false), &json!([]))
    );
    for path in ["/observations?status=active,archived", "/export", "/trace?limit=1000"] {
        let told = house.get(path).await;
        assert_eq!(told.status, 200, "{told:?}");
        assert!(
            !told.body.contains("heliotrope") && told.body.contains("stays"),
            "{told:?}"
        );
    }
    for (body, code) in [
        (json!({}), "filter_invalid"),
        (json!({"kind": ["none"]}), "body_invalid"),
        (json!({"entries": ["x"]}), "body_invalid"),
    ] {
        assert_problem(&house.ask("POST", "/forget", &[], Some(body)).await, 422, code);
    }
}

#[tokio::test]
async fn forgotten_run_answers_410_and_stays_in_the_list_m7_6_50() {
    let house = House::new().await;
    let step = json!({"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": "heliotrope is in bloom"}}});
    let plan = json!({"title": "Water the heliotrope", "steps": [step]});
    let begun = house.post_and_expect("/runs", 201, json!({ "plan": plan })).await;
    assert_eq!(begun["handle"], "r1");
    let ended = async || house.get("/runs/r1").await.json()["status"] == "ok";
    while !ended().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let dry = house
        .post_and_expect("/forget", 200, json!({"runs": "r1", "dry_run": true}))
        .await;
    assert_eq!((&dry["runs"], &dry["forgotten"]), (&json!(["r1"]), &json!([])));
    let text = house.post_and_expect("/forget", 200, json!({"text": "in bloom"})).await;
    assert_eq!((&text["runs_saying"], text.get("runs")), (&json!(["r1"]), None));
    let mixed = json!({"runs": ["r1"], "text": "in bloom"});
    assert_problem(
        &house.ask("POST", "/forget", &[], Some(mixed)).await,
        422,
        "filter_invalid",
    );
    let done = house
        .post_and_expect("/forget", 200, json!({"runs": ["r1"], "reason": "asked to"}))
        .await;
    assert_eq!((&done["runs"], &done["residue"]["found"]), (&json!(["r1"]), &json!([])));
    for path in ["/runs/r1", "/runs/r1/tree", "/runs/r1/plan", "/runs/r1/events"] {
        assert_problem(&house.get(path).await, 410, "run_forgotten");
    }
    let list = house.get("/runs?status=forgotten").await.json();
    let run = &list["items"][0];
    assert_eq!(
        (&run["title"], &run["forgotten"]["reason"]),
        (&json!(""), &json!("asked to"))
    );
    for path in ["/runs", "/export", "/trace?limit=1000", "/pages"] {
        let told = house.get(path).await;
        assert!(told.status == 200 && !told.body.contains("heliotrope"), "{told:?}");
    }
}

#[tokio::test]
async fn forget_filter_accepts_one_value_or_a_list_m7_2_12() {
    let house = House::new().await;
    let said = json!({"content": "x", "tags": ["wine"], "type": "reminder", "owner": "user"});
    house.post_and_expect("/observations", 201, said).await;
    house
        .post_and_expect("/observations", 201, json!({"content": "stays"}))
        .await;
    for (name, one) in [
        ("entries", "e1"),
        ("type", "reminder"),
        ("tags", "wine"),
        ("owner", "user"),
    ] {
        for value in [json!(one), json!([one])] {
            let dry = house
                .post_and_expect("/forget", 200, json!({name: value, "dry_run": true}))
                .await;
            let found = dry["forgotten"].as_array().unwrap();
            assert_eq!((found.len(), &found[0]["handle"]), (1, &json!("e1")), "{name} {value}");
        }
    }
    let both = json!({"kind": "observation", "dry_run": true});
    let dry = house.post_and_expect("/forget", 200, both).await;
    assert_eq!(dry["forgotten"].as_array().unwrap().len(), 2);
    for nothing in [json!({}), json!({"entries": [], "tags": [], "dry_run": true})] {
        let refused = house.ask("POST", "/forget", &[], Some(nothing)).await;
        assert_problem(&refused, 422, "filter_invalid");
        assert!(refused.body.contains("name what to forget"), "{refused:?}");
    }
    for wrong in [json!(1), json!([1]), json!({"a": "b"})] {
        let refused = house.ask("POST", "/forget", &[], Some(json!({"tags": wrong}))).await;
        assert_problem(&refused, 422, "body_invalid");
        assert!(refused.body.contains("a text or a list of texts"), "{refused:?}");
    }
}

const EXPORT: &str = "/v1/spaces/main/export";
const IMPORT: &str = "/v1/spaces/main/import";
const LINES: &str = "application/x-ndjson";

/// A house with more content than fits into the buffers of a connection whose reader reads nothing.
async fn with_much(transfers: impl FnOnce(&mut TransferLimits)) -> House {
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    transfers(&mut options.transfers);
    let house = House::serving(House::runner().await, None, options).await;
    for n in 0..160 {
        let input = json!({"content": format!("{n} {}", "long ".repeat(12_000))});
        let input = ObservationInput::from_json(&input).unwrap();
        let added = house.workspace().add_observation(&person(), input, None).await;
        drop(added.unwrap());
    }
    house
}

#[tokio::test]
async fn stalled_import_is_refused() {
    let mut options = ServeOptions::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.transfers.standstill = Duration::from_millis(20);
    options.transfers.wait = Duration::ZERO;
    let house = House::serving(House::runner().await, None, options).await;
    let head = [
        &format!("POST {IMPORT} HTTP/1.1"),
        "Host: localhost",
        "Connection: close",
        &format!("Content-Type: {LINES}"),
        "Content-Length: 1000000",
    ];
    // More often than there are places: each is free again.
    for _ in 0..6 {
        assert_problem(&send(house.address, &head, "{}").await, 400, "body_invalid");
    }
    assert_eq!(get(house.address, EXPORT).await.status, 200);
}

#[test]
fn idle_export_readers_block_only_further_transfers() {
    // With fewer threads for what blocks than there are readers.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build();
    runtime.unwrap().block_on(async {
        let house = with_much(|transfers| transfers.wait = Duration::ZERO).await;
        let mut idlers = Vec::new();
        for _ in 0..4 {
            let idler = Idler::open(house.address, EXPORT).await;
            assert_eq!(idler.status, 200);
            idlers.push(idler);
        }
        assert_problem(&get(house.address, EXPORT).await, 429, "transfers_busy");
        let import = post(house.address, IMPORT, LINES, "{}").await;
        assert_problem(&import, 429, "transfers_busy");
        assert_eq!(import.header("retry-after"), "1");
        // What it brings is not waited for.
        let head = [
            &format!("POST {IMPORT} HTTP/1.1"),
            "Host: localhost",
            "Connection: close",
            &format!("Content-Type: {LINES}"),
            "Content-Length: 1000000",
        ];
        assert_problem(&send(house.address, &head, "{}").await, 429, "transfers_busy");
        assert_eq!(get(house.address, "/readyz").await.status, 200);
        assert_eq!(house.get_json("/observations").await["total"], 160);
        drop(idlers);
        // Their places are free as soon as it is seen that they are gone.
        let whole = loop {
            let export = get(house.address, EXPORT).await;
            if export.status == 200 {
                break export.body;
            }
            assert_problem(&export, 429, "transfers_busy");
        };
        assert!(whole.trim_end().lines().last().unwrap().contains("\"record\":\"end\""));
        assert_problem(
            &post(house.address, IMPORT, LINES, "{}").await,
            422,
            "transfer_malformed",
        );
    });
}

#[tokio::test]
async fn unread_export_is_aborted_and_frees_its_slot() {
    let limits = |transfers: &mut TransferLimits| {
        transfers.most = 1;
        transfers.standstill = Duration::from_millis(20);
    };
    let house = with_much(limits).await;
    let idler = Idler::open(house.address, EXPORT).await;
    // It waits until the other one has been broken off.
    assert_eq!(Idler::open(house.address, EXPORT).await.status, 200);
    let text = idler.rest().await;
    // Neither what says that a space is whole, nor the last chunk of a body.
    assert!(text.len() > 64 * 1024 && !text.contains("\"record\":\"end\"") && !text.ends_with("0\r\n\r\n"));
}
