//! Refused requests, and how they are reported.

use serde_json::json;

use crate::client::{get, post, send};
use crate::house::{House, SLOW, assert_problem};

#[tokio::test]
async fn missing_resource_or_unknown_path_is_a_404_problem() {
    let house = House::new().await;
    for path in [
        "/runs/r9",
        "/runs/r9/tree",
        "/pages/p9",
        "/pages/p9.md",
        "/pages/p9/entries",
        "/pages/p9/children",
        "/observations/e9",
        "/pages?run=r9",
    ] {
        house.assert_refused(path, 404, "not_found").await;
    }
    assert_problem(
        &get(house.address, "/v1/spaces/other/runs").await,
        404,
        "space_not_served",
    );
    let nothing = get(house.address, "/v1/nothing").await;
    assert_problem(&nothing, 404, "path_unknown");
    assert!(
        nothing.json()["hints"][0].as_str().unwrap().contains("/v1/spaces/"),
        "{nothing:?}"
    );
    assert_problem(&house.get("/nothing").await, 404, "path_unknown");
    assert_problem(&house.post("/runs/r9/cancel", "").await, 404, "not_found");
}

#[tokio::test]
async fn browser_gets_an_html_404_page_on_an_unknown_path() {
    let house = House::new().await;
    let accepts = |kinds: &str| format!("Accept: {kinds}");
    let browser = accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    let at = async |path: &str, accepts: &str| {
        let first = format!("GET {path} HTTP/1.1");
        send(
            house.address,
            &[&first, "Host: localhost", "Connection: close", accepts],
            "",
        )
        .await
    };
    for path in ["/nothing", "/runs/r1/more", "/v1/nothing", "/ui/none.js"] {
        let page = at(path, &browser).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (404, "text/html; charset=utf-8")
        );
        assert!(page.body.contains(r#"<a href="/">all runs</a>"#), "{page:?}");
        assert!(
            page.header("content-security-policy").contains("default-src 'none'"),
            "{page:?}"
        );
        for program in ["*/*", "application/json", "application/json, text/html"] {
            assert_problem(&at(path, &accepts(program)).await, 404, "path_unknown");
        }
    }
    // What is for programs stays so, whoever asks.
    assert_problem(&at("/v1/spaces/main/runs/r9", &browser).await, 404, "not_found");
}

#[tokio::test]
async fn connection_carries_another_request_after_one_that_was_refused_early() {
    let house = House::new().await;
    let body = json!({"content": "x".repeat(500_000)}).to_string();
    let length = format!("Content-Length: {}", body.len());
    let next = "GET /v1/spaces/main/turns HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (path, header) in [
        ("/observations", "Folio-Turn: xx"),
        ("/observations?foo=1", "Content-Type: application/json"),
        ("/nothing", "Content-Type: application/json"),
        ("/search", "Content-Type: application/json"),
        ("/observations", "Content-Type: text/plain"),
    ] {
        let first = format!("POST /v1/spaces/main{path} HTTP/1.1");
        let both = send(
            house.address,
            &[&first, "Host: localhost", header, &length],
            &format!("{body}{next}"),
        )
        .await;
        assert!((400..500).contains(&both.status), "{path}: {both:?}");
        assert_eq!(both.header("connection"), "", "{path}");
        // What follows the first answer is the second one.
        assert!(both.body.contains("HTTP/1.1 200 OK\r\n"), "{path}: {both:?}");
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn malformed_id_is_distinguished_from_a_missing_resource() {
    let house = House::new().await;
    for path in [
        "/runs/x",
        "/runs/x/events",
        "/pages/e1",
        "/pages/x.md",
        "/observations/r1",
    ] {
        house.assert_refused(path, 404, "id_invalid").await;
    }
    house.assert_refused("/pages?run=p1", 400, "id_invalid").await;
    house.assert_refused("/runs/%ff", 400, "path_invalid").await;
}

#[tokio::test]
async fn unknown_query_parameter_is_refused() {
    let house = House::new().await;
    house.submit(SLOW).await;
    for path in [
        "/runs?state=ok",
        "/runs/r1?x=1",
        "/runs/r1/tree?x=1",
        "/runs/r1/events?since=1",
        "/pages?parent=p1",
        "/pages/p1?x",
        "/pages/p1/entries?last=1",
        "/pages/p1/children?x=1",
        "/observations?typ=x",
        "/observations/e1?x=1",
    ] {
        house.assert_refused(path, 400, "query_unknown").await;
    }
    let answer = house.get("/observations?typ=x").await.json();
    let hint = answer["hints"][0].as_str().unwrap();
    assert!(
        hint.starts_with("this path takes type, status, tags, ") && hint.contains("context.<path>"),
        "{hint}"
    );
}

#[tokio::test]
async fn invalid_query_parameter_value_is_refused() {
    let house = House::new().await;
    house.submit(SLOW).await;
    for path in [
        "/runs?limit=0",
        "/runs?limit=1001",
        "/runs?limit=-1",
        "/runs?limit=x",
        "/runs?limit=1&limit=2",
        "/runs?cursor=x",
        "/pages?cursor=e1",
        "/pages/p1/entries?tail=0",
        "/pages/p1/entries?tail=1&limit=2",
        "/observations?order=up",
        "/observations?min_confidence=2",
        "/observations?tags=%FF",
        "/observations?tags=%zz",
        "/search?text=100%",
    ] {
        house.assert_refused(path, 400, "query_invalid").await;
    }
    house.assert_refused("/observations?cursor=x", 400, "invalid").await;
}

#[tokio::test]
async fn unsupported_method_is_refused_with_an_allow_header() {
    let house = House::new().await;
    let answer = house.post("/goals", "").await;
    assert_problem(&answer, 405, "method_not_allowed");
    assert_eq!(answer.header("allow"), "GET,HEAD");
    assert_problem(&house.get("/runs/r1/cancel").await, 405, "method_not_allowed");
}

#[tokio::test]
async fn unreadable_body_is_refused_without_a_commit() {
    let house = House::new().await;
    house.submit(SLOW).await;
    let before = house.workspace().head().await.unwrap();
    let path = "/v1/spaces/main/runs/r1/cancel";
    assert_problem(
        &post(house.address, path, "text/plain", "{}").await,
        415,
        "body_not_json",
    );
    for body in ["{", "[1]", r#"{"nod": 1}"#, r#"{"node": 7}"#] {
        assert_problem(&house.post("/runs/r1/cancel", body).await, 422, "body_invalid");
    }
    assert_problem(
        &house.post("/runs/r1/cancel", r#"{"node": "x"}"#).await,
        404,
        "not_found",
    );
    let large = " ".repeat(20 * 1024 * 1024 + 1);
    let refused = house.post("/runs/r1/cancel", &large).await;
    assert_problem(&refused, 413, "body_too_large");
    assert!(refused.body.contains("20971520 bytes"), "{refused:?}");
    // Elsewhere more is taken, whether the request has a key or not.
    assert_problem(&house.post("/threads/a/evict", &large).await, 422, "body_invalid");
    let keyed = async |path: &str| {
        let first = format!("POST /v1/spaces/main{path} HTTP/1.1");
        let length = format!("Content-Length: {}", large.len());
        let head = ["Host: localhost", "Connection: close", "Content-Type: application/json"];
        let said = [&[first.as_str(), length.as_str(), "Idempotency-Key: k"], &head[..]].concat();
        send(house.address, &said, &large).await
    };
    assert_problem(&keyed("/threads/a/evict").await, 422, "body_invalid");
    assert_problem(&keyed("/runs/r1/cancel").await, 413, "body_too_large");
    for (path, body) in [
        ("/observations", r#"{"content": "a", "content": "b"}"#),
        ("/runs/r1/cancel", r#"{"node": "a", "node": "b"}"#),
    ] {
        let refused = house.post(path, body).await;
        assert_problem(&refused, 422, "body_invalid");
        assert!(refused.body.contains("duplicate field"), "{refused:?}");
    }
    let packed = ["Content-Encoding: gzip"];
    for body in [None, Some(json!({}))] {
        let refused = house.ask("POST", "/runs/r1/cancel", &packed, body).await;
        assert_problem(&refused, 415, "body_encoded");
    }
    assert_problem(&house.post("/runs/r1/cancel?node=x", "").await, 400, "query_unknown");
    assert_eq!(house.workspace().head().await.unwrap(), before);
}

#[tokio::test]
async fn foreign_host_header_is_refused() {
    let house = House::new().await;
    for host in ["Host: evil.example", "Host: localhost.evil.example:80", "X-Host: none"] {
        for path in ["/", "/healthz", "/v1/spaces/main/runs"] {
            let answer = send(
                house.address,
                &[&format!("GET {path} HTTP/1.1"), host, "Connection: close"],
                "",
            )
            .await;
            assert_problem(&answer, 421, "host_refused");
        }
    }
    let named_twice = [
        "GET http://evil.example/healthz HTTP/1.1",
        "Host: localhost",
        "Connection: close",
    ];
    assert_problem(&send(house.address, &named_twice, "").await, 421, "host_refused");
    let host = format!("Host: {}", house.address);
    assert_eq!(
        send(
            house.address,
            &["GET /healthz HTTP/1.1", &host, "Connection: close"],
            ""
        )
        .await
        .status,
        200
    );
}

#[tokio::test]
async fn cross_site_request_cannot_cancel_a_run() {
    let house = House::new().await;
    house.submit(SLOW).await;
    let before = house.workspace().head().await.unwrap();
    let head = [
        "POST /v1/spaces/main/runs/r1/cancel HTTP/1.1",
        "Host: localhost:7717",
        "Connection: close",
        "Content-Length: 0",
    ];
    for strange in [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://localhost:1",
        "Sec-Fetch-Site: cross-site",
    ] {
        let lines = [&head[..], &[strange]].concat();
        assert_problem(&send(house.address, &lines, "").await, 403, "origin_refused");
    }
    assert_eq!(house.workspace().head().await.unwrap(), before);
    let own = [
        &head[..],
        &["Origin: http://localhost:7717", "Sec-Fetch-Site: same-origin"],
    ]
    .concat();
    assert_eq!(send(house.address, &own, "").await.status, 202);
}

#[tokio::test]
async fn every_response_has_browser_security_headers() {
    let house = House::new().await;
    for path in ["/", "/ui/app.js", "/healthz", "/v1/spaces/main/runs", "/nothing"] {
        let answer = get(house.address, path).await;
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
        // A file may be kept if it is asked about each time; an answer may not.
        let is_file = path == "/" || path == "/ui/app.js";
        let kept = if is_file { "no-cache" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), kept, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
    }
}

#[tokio::test]
async fn query_with_too_many_tags_or_filters_is_refused() {
    let house = House::new().await;
    let named = |field: &str, count: usize| {
        let values = (0..count).map(|n| format!("{}={n}", field.replace('N', &n.to_string())));
        values.collect::<Vec<_>>().join("&")
    };
    for path in ["/observations", "/threads/a/scratchbook/items", "/search"] {
        let text = if path == "/search" { "text=x&" } else { "" };
        assert_eq!(
            house.get_json(&format!("{path}?{text}{}", named("tags", 32))).await["total"],
            0
        );
        let refused = house.get(&format!("{path}?{text}{}", named("tags", 33))).await;
        assert_problem(&refused, 422, "tags_too_many");
        assert!(refused.body.contains("more than 32"), "{refused:?}");
    }
    assert_eq!(
        house
            .get_json(&format!("/observations?{}", named("context.kN", 64)))
            .await["total"],
        0
    );
    let filters: serde_json::Map<_, _> = (0..65).map(|n| (format!("context.k{n}"), json!(n))).collect();
    let context: serde_json::Map<_, _> = (0..65).map(|n| (format!("k{n}"), json!(n))).collect();
    let asked = json!({"tool_id": "wine", "scratch_page_query": {"filters": filters}});
    for refused in [
        house.get(&format!("/observations?{}", named("context.kN", 65))).await,
        house.ask("POST", "/tool-requests/context", &[], Some(asked)).await,
        house
            .ask(
                "POST",
                "/forget",
                &[],
                Some(json!({"context": context, "dry_run": true})),
            )
            .await,
    ] {
        assert_problem(&refused, 422, "filter_too_large");
        assert!(refused.body.contains("more than the 64"), "{refused:?}");
    }
    let refused = house.get(&format!("/observations?{}", named("tags_any", 1_001))).await;
    assert_problem(&refused, 422, "filter_too_large");
}

#[tokio::test]
async fn invalid_turn_header_if_match_or_thread_key_is_refused() {
    let house = House::new().await;
    house.submit(SLOW).await;
    let refused = house
        .ask("GET", "/observations", &["Folio-Turn: yesterday"], None)
        .await;
    assert_problem(&refused, 400, "id_invalid");
    assert!(
        refused.body.contains("Folio-Turn") && refused.body.contains("yesterday") && refused.body.contains("t1"),
        "{refused:?}"
    );
    let limits = json!({"tokens": 5_000});
    let refused = house
        .ask("PATCH", "/runs/r1/limits", &["If-Match: \"1\""], Some(limits))
        .await;
    assert_problem(&refused, 400, "if_match_invalid");
    for path in ["/turns?thread=", "/goals?thread=", "/search?text=x&thread="] {
        house.assert_refused(path, 422, "thread_invalid").await;
    }
    let said = json!({"request_id": "q", "tool_id": "wine", "status": "ok"});
    let taken = house.ask("POST", "/tool-responses?thread=", &[], Some(said)).await;
    assert_problem(&taken, 422, "thread_invalid");
    // No browser can ask for such a thread: it takes the name for a step in the path.
    for name in [".", ".."] {
        let item = json!({"kind": "note", "title": "x"});
        let path = format!("/threads/{}/scratchbook/items", name.replace('.', "%2E"));
        let refused = house.ask("POST", &path, &[], Some(item)).await;
        assert_problem(&refused, 422, "thread_invalid");
        assert_eq!(house.get_json(&path).await["total"], 0, "whatever there was is read");
        for (path, body) in [
            ("/turns", json!({"thread": name, "input": "x"})),
            (
                "/runs",
                json!({"thread": name, "plan": {"steps": [{"id": "a", "do": {"tool": "text", "args": {"op": "echo", "value": 1}}}]}}),
            ),
        ] {
            assert_problem(&house.ask("POST", path, &[], Some(body)).await, 422, "thread_invalid");
        }
    }
    let secret = "/threads/sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4/scratchbook/items";
    let item = json!({"kind": "note", "title": "x"});
    let kept = house.ask("POST", secret, &[], Some(item)).await;
    assert_problem(&kept, 422, "thread_is_secret");
    assert!(!kept.body.contains("Zm9v"), "{kept:?}");
}

#[tokio::test]
async fn version_of_what_has_none_is_refused() {
    let house = House::new().await;
    let item = json!({"kind": "note", "title": "x"});
    for (path, body) in [
        ("/observations", json!({"content": "x"})),
        ("/threads/a/scratchbook/items", item.clone()),
        ("/pages", json!({"title": "x"})),
        ("/turns", json!({"input": "x"})),
        ("/context", json!({})),
        ("/forget", json!({"text": "x"})),
    ] {
        let refused = house.ask("POST", path, &["If-Match: \"1\""], Some(body)).await;
        assert_problem(&refused, 400, "if_match_invalid");
    }
    assert_eq!(house.workspace().head().await.unwrap().0, 0);
    // Any version is no version.
    let added = house
        .ask("POST", "/threads/a/scratchbook/items", &["If-Match: *"], Some(item))
        .await;
    assert_eq!(added.status, 201, "{added:?}");
    let pinned = house
        .ask("POST", "/threads/a/scratchbook/e1/pin", &["If-Match: \"1\""], None)
        .await;
    assert_eq!(pinned.status, 200, "{pinned:?}");
    house.stop().await.unwrap();
}

#[tokio::test]
async fn change_under_a_condition_that_is_not_checked_is_refused() {
    let house = House::new().await;
    house
        .post_and_expect("/observations", 201, json!({"content": "x"}))
        .await;
    for condition in ["If-None-Match: *", "If-Unmodified-Since: Tue, 01 Dec 2026 00:00:00 GMT"] {
        let body = Some(json!({"title": "t"}));
        let refused = house.ask("PATCH", "/observations/e1", &[condition], body).await;
        assert_problem(&refused, 400, "header_invalid");
        assert!(refused.body.contains("use If-Match"), "{refused:?}");
        let read = house.ask("GET", "/observations/e1", &[condition], None).await;
        assert_eq!(read.json()["version"], 1, "{read:?}");
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn wrong_number_inside_a_body_is_named_with_its_path_and_range() {
    let house = House::new().await;
    for (path, body, told) in [
        ("/runs", r#"{"goal": "g", "limits": {"tokens": -5}}"#, "limits.tokens: "),
        (
            "/runs",
            r#"{"goal": "g", "limits": {"nodes": 99999999999}}"#,
            "a whole number from 0 to 4294967295",
        ),
        ("/context", r#"{"budget": -1}"#, "budget: "),
        ("/observations", "", "the body is empty"),
    ] {
        let refused = house.post(path, body).await;
        assert_problem(&refused, 422, "body_invalid");
        assert!(refused.body.contains(told), "{refused:?}");
    }
    house.stop().await.unwrap();
}
