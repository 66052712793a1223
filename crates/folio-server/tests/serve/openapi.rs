//! The description of the interface: it is what is checked in, and every path that it has is there.

use std::path::Path;

use folio_server::openapi;
use serde_json::Value;

use crate::client::{get, send};
use crate::house::House;

/// Paths that others rely on, below the space.
const PATHS: [&str; 43] = [
    "/observations",
    "/observations/active",
    "/observations/{observation}",
    "/observations/{observation}/archive",
    "/observations/{observation}/history",
    "/tool-responses",
    "/tool-requests/context",
    "/threads/{thread}/scratchbook",
    "/threads/{thread}/scratchbook/items",
    "/threads/{thread}/scratchbook/items/{item}",
    "/threads/{thread}/scratchbook/items/{item}/complete",
    "/threads/{thread}/scratchbook/items/{item}/pin",
    "/threads/{thread}/scratchbook/items/{item}/unpin",
    "/threads/{thread}/history",
    "/threads/{thread}/evict",
    "/blobs/{reference}",
    "/pages",
    "/pages/{page}",
    "/pages/{page}/entries",
    "/pages/{page}/children",
    "/pages/{page}/rollup",
    "/runs",
    "/runs/{run}",
    "/runs/{run}/tree",
    "/runs/{run}/events",
    "/runs/{run}/plan",
    "/runs/{run}/cancel",
    "/runs/{run}/fork",
    "/runs/{run}/pause",
    "/runs/{run}/continue",
    "/runs/{run}/questions",
    "/questions/{question}/answer",
    "/approvals/{approval}",
    "/turns",
    "/turns/{turn}/end",
    "/turns/{turn}/trace",
    "/turns/{turn}/export",
    "/turns/{turn}/receipts",
    "/context",
    "/search",
    "/goals",
    "/trace",
    "/events",
];

#[test]
fn the_description_that_is_checked_in_is_the_one_that_follows_from_the_types() {
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

#[tokio::test]
async fn what_is_described_is_there_and_what_others_rely_on_is_described() {
    let house = House::new().await;
    let answer = get(house.at, "/openapi.json").await;
    assert_eq!((answer.status, answer.json()), (200, openapi()));
    let document = openapi();
    assert!(
        document["openapi"].as_str().unwrap().starts_with("3.1"),
        "{}",
        document["openapi"]
    );
    let paths = document["paths"].as_object().unwrap();
    for path in PATHS {
        assert!(
            paths.contains_key(&format!("/v1/spaces/{{space}}{path}")),
            "{path} is not described"
        );
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
                house.at,
                &[&first, "Host: localhost", "Connection: close", "Content-Length: 0"],
                "",
            )
            .await;
            let code = serde_json::from_str::<Value>(&answer.body).unwrap_or_default()["code"].clone();
            assert!(
                code != "path_unknown" && code != "method_not_allowed",
                "{method} {path}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_page_about_it_asks_for_nothing_from_elsewhere() {
    let house = House::new().await;
    for (path, kind) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/ui/docs.js", "text/javascript; charset=utf-8"),
    ] {
        let answer = get(house.at, path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        assert!(
            !answer.body.contains("http://") && !answer.body.contains("https://"),
            "{path}"
        );
    }
}
