//! `http_get`, with servers that really listen.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::World;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use folio_tools::{FailureKind, HostList, ToolResponse};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server on a port of its own, for as long as the test runs.
async fn serve(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address.to_string()
}

/// A server that answers every connection with these bytes, and keeps it open if `stays`.
async fn serve_bytes(bytes: impl Into<Vec<u8>>, stays: bool) -> String {
    let bytes = bytes.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut asked = [0; 4_096];
                let _size = connection.read(&mut asked).await;
                let _told = connection.write_all(&bytes).await;
                if stays {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    address.to_string()
}

/// A world that allows these hosts.
fn world_allowing_hosts(hosts: &[&str]) -> World {
    let mut world = World::new();
    let rules = hosts.iter().map(|host| host.parse().unwrap()).collect();
    world.context.hosts = Arc::new(HostList::new(rules));
    world
}

async fn ask(world: &World, url: impl Into<String>) -> ToolResponse {
    let url: String = url.into();
    world.call("http_get", json!({"url": url})).await
}

#[track_caller]
fn refused(response: &ToolResponse) -> (&str, FailureKind) {
    let error = response.error.as_ref().unwrap_or_else(|| panic!("{response:#?}"));
    (&error.code, error.kind)
}

#[tokio::test]
async fn http_get_returns_text_as_body_and_json_as_value() {
    let routes = Router::new()
        .route(
            "/page",
            get(|| async { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<p>Grüß Gott</p>") }),
        )
        .route(
            "/data",
            get(|| async { ([(header::CONTENT_TYPE, "application/problem+json")], r#"{"n": [1, 2]}"#) }),
        )
        .route(
            "/wrong",
            get(|| async { ([(header::CONTENT_TYPE, "application/json")], "{") }),
        )
        .route(
            "/picture",
            get(|| async { ([(header::CONTENT_TYPE, "image/png")], vec![137_u8, 80, 0, 1]) }),
        )
        .route("/nothing", get(|| async { StatusCode::NO_CONTENT }));
    let host = serve(routes).await;
    let world = world_allowing_hosts(&[&host]);

    let page = ask(&world, format!("http://{host}/page#part")).await;
    assert_eq!(
        page.outputs,
        json!({"status": 200, "url": format!("http://{host}/page"), "content_type": "text/html; charset=utf-8",
               "bytes": 18, "truncated": false, "body": "<p>Grüß Gott</p>", "encoding_lossy": false})
    );
    assert_eq!(page.notes, format!("http://{host}/page: 200 OK, 18 bytes"));
    assert_eq!(page.evidence[0].kind, "url");
    assert_eq!(page.evidence[0].id, format!("http://{host}/page"));
    assert!(page.evidence[0].hash.as_deref().unwrap().starts_with("sha256:"));
    assert_eq!(page.truncated, None);

    let data = ask(&world, format!("http://{host}/data")).await.outputs;
    assert_eq!(data["json"], json!({"n": [1, 2]}));
    assert_eq!(data.get("body"), None);
    let wrong = ask(&world, format!("http://{host}/wrong")).await.outputs;
    assert_eq!((&wrong["body"], wrong.get("json")), (&json!("{"), None));
    let picture = ask(&world, format!("http://{host}/picture")).await.outputs;
    assert_eq!((&picture["bytes"], picture.get("body")), (&json!(4), None));
    let nothing = ask(&world, format!("http://{host}/nothing")).await.outputs;
    assert_eq!((&nothing["status"], &nothing["bytes"]), (&json!(204), &json!(0)));
}

#[tokio::test]
async fn http_get_denies_hosts_that_are_not_allowed() {
    let host = serve(Router::new().route("/", get(|| async { "here" }))).await;
    for (hosts, url) in [
        (vec![], format!("http://{host}/")),
        (vec!["example.org"], format!("http://{host}/")),
        (vec!["*:*"], format!("http://{host}/")),
        (vec!["127.0.0.1"], format!("http://{host}/")),
        (vec!["127.0.0.1:*"], format!("http://localhost:{}/", port(&host))),
        (vec!["*:*"], format!("http://localhost:{}/", port(&host))),
    ] {
        let response = ask(&world_allowing_hosts(&hosts), &url).await;
        assert_eq!(
            refused(&response),
            ("http_not_allowed", FailureKind::Denied),
            "{hosts:?} {url}"
        );
    }
    let response = ask(
        &world_allowing_hosts(&["example.org", "10.0.0.0/8"]),
        format!("http://{host}/"),
    )
    .await;
    let error = response.error.unwrap();
    assert_eq!(
        error.hints,
        [
            "allowed hosts: example.org, 10.0.0.0/8".to_owned(),
            format!("start the run with --allow-host {host} to allow it"),
        ]
    );
    for rule in [host.clone(), "127.0.0.0/8".to_owned(), "127.0.0.1:*".to_owned()] {
        assert!(
            ask(&world_allowing_hosts(&[&rule]), format!("http://{host}/"))
                .await
                .is_ok(),
            "{rule}"
        );
    }
    let by_name = world_allowing_hosts(&[&format!("localhost:{}", port(&host))]);
    assert_eq!(
        ask(&by_name, format!("http://localhost:{}/", port(&host)))
            .await
            .outputs["body"],
        "here"
    );
}

fn port(host: &str) -> &str {
    host.rsplit_once(':').unwrap().1
}

#[tokio::test]
async fn http_get_denies_names_that_resolve_to_private_addresses() {
    // What systems take for a name of this machine, and no list does.
    let host = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let url = format!("http://inside.localhost:{}/", port(&host));
    let response = ask(&world_allowing_hosts(&["inside.localhost:*"]), &url).await;
    let (code, kind) = refused(&response);
    if code == "http_failed" {
        // Here nobody knows the name.
        return;
    }
    assert_eq!((code, kind), ("http_not_allowed", FailureKind::Denied));
    assert!(response.notes.contains("which is not public"), "{}", response.notes);
    let within = world_allowing_hosts(&["inside.localhost:*", "127.0.0.0/8", "::1/128"]);
    assert!(ask(&within, &url).await.is_ok());
}

#[tokio::test]
async fn http_get_approval_covers_the_shown_url_but_not_redirects() {
    let host = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let url = format!("http://{host}/");
    // Whoever allows the tool by its name means what is public.
    let mut world = world_allowing_hosts(&[]);
    world.context.allowed = true;
    assert_eq!(refused(&ask(&world, &url).await).0, "http_not_allowed");
    world.context.allow();
    assert!(ask(&world, &url).await.is_ok());
    // And what is sent on to was not shown.
    let sends_on = get(move || std::future::ready(redirect(&url)));
    let other = serve(Router::new().route("/", sends_on)).await;
    let response = ask(&world, format!("http://{other}/")).await;
    assert_eq!(refused(&response).0, "http_not_allowed");
}

fn redirect(to: &str) -> impl IntoResponse + use<> {
    (StatusCode::FOUND, [(header::LOCATION, to.to_owned())])
}

#[tokio::test]
async fn http_get_checks_every_redirect_target_against_allowed_hosts() {
    let there = serve(Router::new().route(
        "/",
        get(|headers: HeaderMap| async move { format!("{:?}", headers.get("accept-language")) }),
    ))
    .await;
    let to = format!("http://{there}/");
    let here = serve(
        Router::new()
            .route("/away", get(move || async move { redirect(&to) }))
            .route("/on", get(|| async { redirect("last?q=1") }))
            .route(
                "/last",
                get(
                    |uri: Uri, headers: HeaderMap| async move { format!("{uri} {:?}", headers.get("accept-language")) },
                ),
            )
            .route("/round", get(|| async { redirect("/round") }))
            .route("/strange", get(|| async { redirect("ftp://example.org/") }))
            .route("/nowhere", get(|| async { StatusCode::FOUND })),
    )
    .await;
    let one = world_allowing_hosts(&[&here]);
    let both = world_allowing_hosts(&[&here, &there]);
    let args = |path: &str| json!({"url": format!("http://{here}/{path}"), "headers": {"Accept-Language": "de"}});

    let response = one.call("http_get", args("away")).await;
    assert_eq!(refused(&response).0, "http_not_allowed");
    let outputs = both.outputs("http_get", args("away")).await;
    // What the call said was for who it named.
    assert_eq!(
        (&outputs["url"], &outputs["body"]),
        (&json!(format!("http://{there}/")), &json!("None"))
    );
    let outputs = one.outputs("http_get", args("on")).await;
    assert_eq!(outputs["url"], format!("http://{here}/last?q=1"));
    assert_eq!(outputs["body"], "/last?q=1 Some(\"de\")");
    for path in ["round", "strange"] {
        let response = one.call("http_get", args(path)).await;
        assert_eq!(refused(&response), ("http_redirects", FailureKind::Failed), "{path}");
    }
    let response = one.call("http_get", args("nowhere")).await;
    assert_eq!(
        (refused(&response).0, &response.outputs["status"]),
        ("http_status", &json!(302))
    );
}

#[tokio::test]
async fn http_error_status_maps_to_failure_kind_and_retry_hint() {
    let host = serve(
        Router::new()
            .route("/gone", get(|| async { (StatusCode::GONE, "\n  it was moved\n") }))
            .route(
                "/busy",
                get(|| async { (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "7")]) }),
            )
            .route("/broken", get(|| async { StatusCode::BAD_GATEWAY }))
            .route("/no", get(|| async { StatusCode::FORBIDDEN }))
            .route("/same", get(|| async { StatusCode::NOT_MODIFIED })),
    )
    .await;
    let world = world_allowing_hosts(&[&host]);
    for (path, kind, hints) in [
        ("gone", FailureKind::NotFound, vec!["the server says: it was moved"]),
        (
            "busy",
            FailureKind::Unavailable,
            vec!["the server asks to be tried again in 7 s"],
        ),
        ("broken", FailureKind::Unavailable, vec![]),
        ("no", FailureKind::Failed, vec![]),
    ] {
        let response = ask(&world, format!("http://{host}/{path}")).await;
        assert_eq!(refused(&response), ("http_status", kind), "{path}");
        assert_eq!(response.error.as_ref().unwrap().hints, hints, "{path}");
        assert!(response.outputs["status"].as_u64().unwrap() >= 400);
    }
    let same = ask(&world, format!("http://{host}/same")).await;
    assert_eq!(same.outputs["status"], 304);
}

#[tokio::test]
async fn http_get_truncates_long_bodies_and_reports_the_sizes() {
    let host = serve(Router::new().route("/", get(|| async { "ä".repeat(1_000) }))).await;
    let world = world_allowing_hosts(&[&host]);
    let response = world
        .call("http_get", json!({"url": format!("http://{host}/"), "max_bytes": 7}))
        .await;
    assert_eq!(response.outputs["body"], "äää");
    assert_eq!(response.outputs["truncated"], true);
    assert_eq!(response.outputs["bytes"], 2_000);
    let truncated = response.truncated.unwrap();
    assert_eq!((truncated.kept_bytes, truncated.total_bytes), (6, 2_000));
    // Of a part nobody knows the hash of the whole.
    assert_eq!(response.evidence[0].hash, None);
    let world = world.with_limits(|limits| limits.http_bytes = 3);
    let url = format!("http://{host}/");
    assert_eq!(ask(&world, &url).await.outputs["body"], "ä");
    let whole = world.outputs("http_get", json!({"url": url, "max_bytes": 2_000})).await;
    assert_eq!(whole["truncated"], false);
}

#[tokio::test]
async fn http_get_stops_decompressing_a_gzip_bomb() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        packed.write_all(&vec![b'a'; 1024 * 1024]).unwrap();
    }
    let packed = packed.finish().unwrap();
    let host = serve(Router::new().route(
        "/",
        get(move || async move { ([(header::CONTENT_ENCODING, "gzip")], packed) }),
    ))
    .await;
    let response = ask(&world_allowing_hosts(&[&host]), format!("http://{host}/")).await;
    let truncated = response.truncated.unwrap();
    assert_eq!(truncated.kept_bytes, 256 * 1024);
    assert!(truncated.total_bytes < 2 * 1024 * 1024, "{truncated:?}");
}

#[tokio::test]
async fn http_get_fails_on_silent_broken_and_unreachable_servers() {
    let silent = serve_bytes("", true).await;
    let slow = serve_bytes("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", true).await;
    let broken = serve_bytes("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", false).await;
    let strange = serve_bytes("hello\r\n\r\n", false).await;
    for host in [&silent, &slow] {
        let args = json!({"url": format!("http://{host}/"), "timeout_s": 0.05});
        let response = world_allowing_hosts(&[host]).call("http_get", args).await;
        assert_eq!(refused(&response), ("timed_out", FailureKind::TimedOut));
    }
    for (host, words) in [(&broken, "broke off"), (&strange, "did not follow the protocol")] {
        let response = ask(&world_allowing_hosts(&[host]), format!("http://{host}/")).await;
        assert_eq!(refused(&response), ("http_failed", FailureKind::Unavailable));
        assert!(response.notes.contains(words), "{}", response.notes);
    }
    // What was to speak TLS speaks plainly.
    let response = ask(&world_allowing_hosts(&[&strange]), format!("https://{strange}/")).await;
    assert_eq!(refused(&response), ("http_failed", FailureKind::Unavailable));
    assert!(response.notes.contains("does not speak TLS"), "{}", response.notes);
    // A port at which nobody listens any more.
    let host = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let response = ask(&world_allowing_hosts(&[&host]), format!("http://{host}/")).await;
    assert_eq!(refused(&response), ("http_failed", FailureKind::Unavailable));
    assert!(response.notes.contains("cannot be reached"), "{}", response.notes);
}

#[tokio::test]
async fn http_get_ends_when_cancelled() {
    let silent = serve_bytes("", true).await;
    let world = world_allowing_hosts(&[&silent]);
    let cancel = world.context.cancel.clone();
    let url = format!("http://{silent}/");
    let (response, ()) = tokio::join!(ask(&world, url), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        cancel.cancel();
    });
    assert_eq!(refused(&response), ("cancelled", FailureKind::Cancelled));
}

#[tokio::test]
async fn http_get_refuses_invalid_arguments_before_connecting() {
    let world = world_allowing_hosts(&["*"]);
    for (args, words) in [
        (json!({"url": "example.org"}), "relative URL"),
        (json!({"url": "ftp://example.org/"}), "only http and https"),
        (json!({"url": "file:///etc/passwd"}), "only http and https"),
        (json!({"url": "http://"}), "empty host"),
        (
            json!({"url": "https://ada:secret@example.org/"}),
            "a user or a password",
        ),
        (
            json!({"url": format!("https://example.org/{}", "a".repeat(9_000))}),
            "longer than 8,192",
        ),
        (
            json!({"url": "https://example.org", "headers": {"Authorization": "Bearer x"}}),
            "cannot be set",
        ),
        (
            json!({"url": "https://example.org", "headers": {"host": "x"}}),
            "cannot be set",
        ),
        (
            json!({"url": "https://example.org", "headers": {"accept": "a\nb"}}),
            "not a line of text",
        ),
        (json!({"url": "https://example.org", "timeout_s": 0}), "at most 300"),
        (json!({"url": "https://example.org", "timeout_s": 301}), "at most 300"),
        (json!({}), "url"),
    ] {
        let response = world.call("http_get", args).await;
        assert_eq!(refused(&response), ("invalid_args", FailureKind::InvalidArgs));
        assert!(response.notes.contains(words), "{}: {words}", response.notes);
        assert!(!response.notes.contains("secret"), "{}", response.notes);
    }
}

#[test]
fn http_get_needs_approval_only_for_unlisted_hosts() {
    let hosts = HostList::new(vec!["example.org".parse().unwrap()]);
    for (args, asks) in [
        (json!({"url": "https://example.org/a"}), false),
        (json!({"url": "https://example.net/a"}), true),
        // What cannot be asked for is refused by the tool, whatever anybody says.
        (json!({"url": "example.net"}), false),
        (json!({}), false),
    ] {
        assert_eq!(!hosts.allows_call(&args), asks, "{args}");
    }
    assert_eq!(serde_json::to_value(&hosts).unwrap(), Value::from(vec!["example.org"]));
}

#[tokio::test]
async fn http_get_decodes_bodies_by_the_declared_charset() {
    let of =
        |kind: &'static str, body: &'static [u8]| get(move || async move { ([(header::CONTENT_TYPE, kind)], body) });
    let routes = Router::new()
        .route("/latin", of("text/plain; charset=iso-8859-1", b"caf\xe9 ol\xe9"))
        .route("/wide", of("text/plain; Charset=\"UTF-16LE\"", b"c\0a\0f\0\xe9\0"))
        .route("/odd", of("text/plain; charset=klingon", b"caf\xe9"))
        .route("/none", of("text/plain", b"caf\xe9"))
        .route("/long", of("application/json", b"{\"id\": 12345678901234567890123}"));
    let host = serve(routes).await;
    let world = world_allowing_hosts(&[&host]);
    for (path, body, is_lossy) in [
        ("latin", "café olé", false),
        ("wide", "café", false),
        ("odd", "caf\u{fffd}", true),
        ("none", "caf\u{fffd}", true),
    ] {
        let outputs = ask(&world, format!("http://{host}/{path}")).await.outputs;
        assert_eq!(
            (&outputs["body"], &outputs["encoding_lossy"]),
            (&json!(body), &json!(is_lossy)),
            "{path}"
        );
    }
    let long = ask(&world, format!("http://{host}/long")).await.outputs;
    assert_eq!(long["json"]["id"], "12345678901234567890123");
}
