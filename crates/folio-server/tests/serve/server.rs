//! Start and stop of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use folio::memory::Clock as _;
use folio::runner::{Runner, RunnerOptions};
use folio::store::sqlite::{OpenOptions, SqliteStore};
use folio::tools::Registry;
use folio::{Role, SpaceName, Workspace};
use folio_server::{ServeError, ServeOptions, Server};
use folio_testkit::{SeededIds, SimClock};

use crate::client::{Events, get, send};
use crate::house::{ECHO, House, SLOW};

#[tokio::test]
async fn binding_a_public_address_needs_an_access_token() {
    let house = House::new().await;
    for address in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0"] {
        let options = ServeOptions::at(address.parse().unwrap());
        let error = Server::bind(&options, house.runner.clone()).await.unwrap_err();
        assert!(matches!(error, ServeError::NoToken { .. }), "{error}");
        assert!(
            error.to_string().contains("no valid access token for any space"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn bind_error_names_the_occupied_address() {
    let house = House::new().await;
    let error = Server::bind(&ServeOptions::at(house.address), house.runner.clone())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen at {}", house.address));
}

#[tokio::test]
async fn server_url_has_the_bound_port() {
    let house = House::new().await;
    let options = ServeOptions::at(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::bind(&options, house.runner.clone()).await.unwrap();
    assert_eq!(
        server.url(),
        format!("http://127.0.0.1:{}/", server.local_addr().port())
    );
}

#[tokio::test]
async fn server_stop_ends_live_streams_promptly() {
    let house = House::new().await;
    let run = house.submit(SLOW).await;
    let mut events = Events::open(house.address, &format!("/v1/spaces/main/runs/{run}/events"), None).await;
    assert_eq!(events.next().await.unwrap().event, "run_started");
    let at = house.address;
    tokio::time::timeout(Duration::from_secs(3), house.stop())
        .await
        .expect("nothing holds it")
        .unwrap();
    assert_eq!(events.rest().await, []);
    let gone = tokio::net::TcpStream::connect(at).await.unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn health_and_readiness_probes_succeed() {
    let house = House::new().await;
    assert_eq!(get(house.address, "/healthz").await.json()["status"], "ok");
    let ready = get(house.address, "/readyz").await;
    assert_eq!((ready.status, &ready.json()["space"]), (200, &"main".into()));
}

#[tokio::test]
async fn ui_is_embedded_and_loads_nothing_from_other_hosts() {
    let house = House::new().await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/runs/r1", "text/html; charset=utf-8"),
        ("/observations/e1", "text/html; charset=utf-8"),
        ("/threads/any", "text/html; charset=utf-8"),
        ("/turns/t1", "text/html; charset=utf-8"),
        ("/ui/app.js", "text/javascript; charset=utf-8"),
        ("/ui/ask.js", "text/javascript; charset=utf-8"),
        ("/ui/style.css", "text/css; charset=utf-8"),
        ("/ui/icon.svg", "image/svg+xml"),
    ] {
        let answer = get(house.address, path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, kind), "{path}");
        let outside = answer.body.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !outside.contains("http://") && !outside.contains("https://"),
            "{path} names another place"
        );
        assert!(!answer.header("etag").is_empty(), "{path}");
    }
}

#[tokio::test]
async fn refused_requests_are_counted() {
    let runner = House::runner().await;
    let (token, _) = House::token(&runner, "main", Role::Human).await;
    let mut options = ServeOptions::at("127.0.0.1:0".parse().unwrap());
    options.require_token = true;
    let house = House::serving(runner, None, options).await;
    house.get("/observations").await;
    let page = [
        "POST /v1/spaces/main/turns HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Origin: http://evil.example",
        "Content-Length: 0",
    ];
    send(house.address, &page, "").await;
    let shown = format!("Authorization: Bearer {}", token.reveal());
    let head = ["GET /metrics HTTP/1.1", "Host: localhost", "Connection: close", &shown];
    let counted = send(house.address, &head, "").await;
    for line in [
        "folio_http_requests_total{method=\"GET\",route=\"/v1/spaces/{space}/observations\",status=\"401\"} 1",
        "folio_http_requests_total{method=\"POST\",route=\"/v1/spaces/{space}/turns\",status=\"403\"} 1",
    ] {
        assert!(
            counted.body.lines().any(|found| found == line),
            "{line} is not in\n{counted:?}"
        );
    }
    house.stop().await.unwrap();
}

#[tokio::test]
async fn metrics_are_typed_and_have_no_client_supplied_labels() {
    let house = House::attended().await;
    house
        .post_and_expect("/observations", 201, serde_json::json!({"content": "x"}))
        .await;
    house.get("/observations/e1").await;
    get(house.address, "/made/up").await;
    for method in ["BREW", "POUR"] {
        let head = [
            &format!("{method} /made/up HTTP/1.1"),
            "Host: localhost",
            "Connection: close",
        ];
        send(house.address, &head, "").await;
    }
    let asks = house.submit("[{id: visit, executor: human, title: Go down}]").await;
    let driving = house.runner.drive_while_due(asks, Duration::from_millis(50));
    driving.await.unwrap();
    let run = house.submit(SLOW).await;
    let path = format!("/v1/spaces/main/runs/{run}/events");
    let events = Events::open(house.address, &path, None).await;
    let counted = get(house.address, "/metrics").await;
    assert!(
        counted
            .header("content-type")
            .starts_with("application/openmetrics-text"),
        "{counted:?}"
    );
    for line in [
        "# TYPE folio_http_requests counter",
        "folio_http_requests_total{method=\"POST\",route=\"/v1/spaces/{space}/observations\",status=\"201\"} 1",
        "folio_http_requests_total{method=\"GET\",route=\"/v1/spaces/{space}/observations/{observation}\",status=\"200\"} 1",
        "folio_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1",
        "folio_http_requests_total{method=\"other\",route=\"none\",status=\"404\"} 2",
        "folio_runs{status=\"waiting\"} 1",
        "folio_runs{status=\"idle\"} 1",
        "folio_runs{status=\"running\"} 0",
        "folio_event_streams 1",
        "folio_commits 4",
        "# TYPE folio_trace_notes_waiting gauge",
        "folio_trace_notes_dropped_total 0",
        "# EOF",
    ] {
        assert!(
            counted.body.lines().any(|found| found == line),
            "{line} is not in\n{}",
            counted.body
        );
    }
    assert!(
        !counted.body.contains("folio_store_bytes"),
        "what is in memory has no files"
    );
    let older = send(
        house.address,
        &[
            "GET /metrics HTTP/1.1",
            "Host: localhost",
            "Accept: text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "Connection: close",
        ],
        "",
    )
    .await;
    assert!(
        older.header("content-type").starts_with("text/plain; version=0.0.4"),
        "{older:?}"
    );
    assert!(
        older.body.contains("# TYPE folio_http_requests_total counter\n"),
        "{older:?}"
    );
    assert!(!older.body.contains("# EOF"));
    assert!(!counted.body.contains("BREW") && !counted.body.contains("POUR"));
    assert!(!counted.body.contains("made/up") && counted.body.contains("folio_http_request_duration_seconds_bucket"));
    drop(events);
}

#[tokio::test]
async fn answers_tell_the_time_of_their_space() {
    let clock = SimClock::default();
    let store = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let workspace = Workspace::new(
        store,
        Arc::new(clock.clone()),
        Arc::new(SeededIds::new(1)),
        SpaceName::main(),
    );
    let runner = Runner::new(workspace, Registry::with_builtins(), RunnerOptions::default());
    let options = ServeOptions::at(SocketAddr::from(([127, 0, 0, 1], 0)));
    let house = House::serving(runner, None, options).await;
    let told = async || {
        let answer = get(house.address, "/v1/spaces/main/runs").await;
        answer.header("folio-time").to_owned()
    };
    assert_eq!(told().await, "2026-01-01T00:00:00Z");
    // The time of the space is that of its newest commit while the clock is behind it.
    clock.advance(Duration::from_secs(3_600));
    house.submit(ECHO).await;
    clock.set(clock.now().minus(Duration::from_secs(3_000)));
    assert_eq!(told().await, "2026-01-01T01:00:00Z");
    // A refusal tells it, too, and the pages for everybody do not.
    let refused = get(house.address, "/v1/spaces/main/runs/r99").await;
    assert_eq!(
        (refused.status, refused.header("folio-time")),
        (404, "2026-01-01T01:00:00Z")
    );
    assert_eq!(get(house.address, "/").await.header("folio-time"), "");
}
