//! The API description: it matches the one that is checked in, and every path in it exists.

use std::path::Path;

use folio_server::openapi;
use serde_json::Value;

use crate::client::{get, send};
use crate::house::House;

/// Paths below the space that others rely on, with their methods.
const PATHS: [(&str, &str); 57] = [
    ("/observations", "get post"),
    ("/observations/active", "get"),
    ("/observations/{observation}", "get patch"),
    ("/observations/{observation}/archive", "post"),
    ("/observations/{observation}/history", "get"),
    ("/tool-responses", "post"),
    ("/tool-requests/context", "post"),
    ("/threads/{thread}/scratchbook", "get"),
    ("/threads/{thread}/scratchbook/items", "get post"),
    ("/threads/{thread}/scratchbook/items/{item}", "get patch"),
    ("/threads/{thread}/scratchbook/items/{item}/complete", "post"),
    ("/threads/{thread}/scratchbook/items/{item}/pin", "post"),
    ("/threads/{thread}/scratchbook/items/{item}/unpin", "post"),
    ("/threads/{thread}/scratchbook/items/{item}/claim", "post"),
    ("/threads/{thread}/scratchbook/items/{item}/release", "post"),
    ("/threads/{thread}/scratchbook/claim", "post"),
    ("/threads/{thread}/history", "get post"),
    ("/threads/{thread}/evict", "post"),
    ("/blobs/{reference}", "get"),
    ("/pages", "get post"),
    ("/pages/{page}", "get"),
    ("/pages/{page}/entries", "get post"),
    ("/pages/{page}/children", "get"),
    ("/pages/{page}/rollup", "get"),
    ("/runs", "get post"),
    ("/runs/{run}", "get"),
    ("/runs/{run}/tree", "get"),
    ("/runs/{run}/events", "get"),
    ("/runs/{run}/plan", "get put"),
    ("/runs/{run}/limits", "get patch"),
    ("/runs/{run}/cancel", "post"),
    ("/runs/{run}/fork", "post"),
    ("/runs/{run}/pause", "post"),
    ("/runs/{run}/continue", "post"),
    ("/runs/{run}/questions", "get"),
    ("/runs/{run}/diff/{other}", "get"),
    ("/runs/{run}/replay", "get"),
    ("/questions/{question}/answer", "post"),
    ("/approvals/{approval}", "post"),
    ("/turns", "post"),
    ("/turns/{turn}/end", "post"),
    ("/turns/{turn}/trace", "get"),
    ("/turns/{turn}/export", "get"),
    ("/turns/{turn}/receipts", "get"),
    ("/context", "post"),
    ("/search", "get"),
    ("/goals", "get"),
    ("/patterns", "get"),
    ("/calibration", "get"),
    ("/why", "get"),
    ("/episodes", "get"),
    ("/trace", "get"),
    ("/events", "get"),
    ("/export", "get"),
    ("/import", "post"),
    ("/forget", "post"),
    ("/policy", "get put patch"),
];

#[test]
fn checked_in_openapi_document_matches_the_types() {
    let now = format!("{:#}\n", openapi());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    if kept != now {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
        std::fs::write(&new, &now).unwrap();
        panic!(
            "docs/openapi.json is not the description any more: cp {} docs/openapi.json",
            new.display()
        );
    }
}

#[test]
fn requests_that_ignore_keys_are_described_without_one() {
    let document = openapi();
    for (path, takes_key) in [
        ("/observations", true),
        ("/forget", true),
        ("/threads/{thread}/history", true),
        ("/threads/{thread}/evict", true),
        ("/import", false),
        ("/context", false),
        ("/threads/{thread}/scratchbook/items/{item}/claim", true),
        ("/threads/{thread}/scratchbook/claim", false),
    ] {
        let operation = &document["paths"][format!("/v1/spaces/{{space}}{path}")]["post"];
        let parameters = operation["parameters"].as_array().unwrap();
        let has = parameters.iter().any(|one| one["name"] == "Idempotency-Key");
        assert_eq!(has, takes_key, "{path}");
    }
}

#[tokio::test]
async fn described_routes_exist_and_required_routes_are_described() {
    let house = House::new().await;
    let answer = get(house.address, "/openapi.json").await;
    assert_eq!((answer.status, answer.json()), (200, openapi()));
    let document = openapi();
    assert!(
        document["openapi"].as_str().unwrap().starts_with("3.1"),
        "{}",
        document["openapi"]
    );
    let paths = document["paths"].as_object().unwrap();
    for (path, methods) in PATHS {
        let described = &paths[&format!("/v1/spaces/{{space}}{path}")];
        for method in methods.split(' ') {
            assert!(described[method].is_object(), "{method} {path} is not described");
        }
    }
    for (path, item) in paths {
        let at = path.replace("{space}", "main").replace(['{', '}'], "");
        for (method, operation) in item.as_object().unwrap() {
            assert!(
                operation["operationId"].is_string() && operation["summary"].is_string(),
                "{method} {path}"
            );
            if at.ends_with("/events") {
                continue;
            }
            let first = format!("{} {at} HTTP/1.1", method.to_uppercase());
            let answer = send(
                house.address,
                &[&first, "Host: localhost", "Connection: close", "Content-Length: 0"],
                "",
            )
            .await;
            // Whatever does not answer with JSON and has no code has not been found by its path, either.
            let code = serde_json::from_str::<Value>(&answer.body).unwrap_or_default()["code"].clone();
            assert!(
                code != "path_unknown" && code != "method_not_allowed" && (answer.status < 400 || code.is_string()),
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn api_docs_page_loads_nothing_from_other_hosts() {
    let house = House::new().await;
    for (path, kind) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/ui/docs.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = get(house.address, path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        assert!(
            !answer.body.contains("http://") && !answer.body.contains("https://"),
            "{path}"
        );
    }
}
