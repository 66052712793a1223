//! What a collector receives besides spans, and what is printed of addresses with a password.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::{Called, Folio};

const PLAN: &str = "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}]";

/// A collector that accepts every request and passes on its head in lower case.
fn collector() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (heads, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut piece) {
                request.extend_from_slice(&piece[..read]);
            }
            let text = String::from_utf8_lossy(&request).to_lowercase();
            let head = text.split("\r\n\r\n").next().unwrap_or_default();
            heads.send(head.to_owned()).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, told)
}

fn run_with(folio: &Folio, environment: &[(&str, &str)]) -> Called {
    folio.file("plan.yaml", PLAN);
    let mut command = folio.command(&["run", "--plan", "plan.yaml"]);
    Called::of(command.envs(environment.iter().copied()).output().unwrap())
}

#[test]
fn environment_headers_go_only_to_the_environment_endpoint() {
    let folio = Folio::new();
    let (address, told) = collector();
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2");
    let endpoint = format!("http://{address}");
    let environment = [headers, ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    assert_eq!(run_with(&folio, &environment).code, 0);
    let head = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(
        head.starts_with("post /v1/traces ") && head.contains("x-key: hunter2"),
        "{head}"
    );
    folio.settings(format!("[telemetry]\nendpoint = \"{endpoint}\"\n"));
    assert_eq!(run_with(&folio, &[headers]).code, 0);
    let head = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(
        head.starts_with("post /v1/traces ") && !head.contains("hunter2"),
        "{head}"
    );
    let whole = format!("{endpoint}/all/of/it");
    let environment = [headers, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", whole.as_str())];
    assert_eq!(run_with(&folio, &environment).code, 0);
    let head = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(
        head.starts_with("post /all/of/it ") && head.contains("x-key: hunter2"),
        "{head}"
    );
}

#[test]
fn unreachable_collector_is_reported_without_its_password() {
    let folio = Folio::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://me:hunter2@{nobody}");
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
    ];
    let called = run_with(&folio, &environment);
    assert_eq!(called.code, 0, "{called}");
    assert!(called.stderr.contains("; spans lost: 2"), "{called}");
    let told = format!("telemetry is incomplete: http://{nobody}: ");
    assert!(
        called.stderr.contains(&told) && called.stderr.to_lowercase().contains("refused"),
        "{called}"
    );
    let called = run_with(&folio, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "me:hunter2@h")]);
    assert_eq!(called.code, 0, "{called}");
    assert!(called.stderr.contains("spans cannot be sent to h: "), "{called}");
    assert!(!format!("{called}").contains("hunter2"), "{called}");
}

#[test]
fn span_loss_is_reported_at_its_start_and_end() {
    let folio = Folio::new();
    folio.file(
        "slow.yaml",
        "steps: [{id: a, do: {tool: text, args: {op: echo, value: 1}}}, {id: b, do: {tool: shell, args: {command: sleep 3}}}]",
    );
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = folio.command(&["run", "--plan", "slow.yaml", "--allow-shell"]);
    command.envs([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{nobody}").as_str()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "abc"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "200"),
    ]);
    let called = Called::of(command.output().unwrap());
    assert_eq!(called.code, 0, "{called}");
    let at = |text: &str| {
        called
            .stderr
            .find(text)
            .unwrap_or_else(|| panic!("{text} is not in {called}"))
    };
    assert!(at("OTEL_EXPORTER_OTLP_TIMEOUT is ignored") < at("telemetry will be incomplete: "));
    assert!(at("telemetry will be incomplete: ") < at("telemetry is incomplete: "));
}

#[test]
fn unusable_address_is_reported_without_its_password() {
    let folio = Folio::new();
    folio.file("plan.yaml", PLAN);
    folio.file("bad.toml", "telemetry = \"http://me:hunter2@h\"\n");
    let restate = "restate=http://me:hunter2@h:8080";
    for arguments in [
        vec!["run", "--plan", "plan.yaml", "--runner", restate],
        vec!["run", "--plan", "plan.yaml", "--runner", restate, "--json"],
        vec!["worker", "--restate-admin", "http://me:hunter2@h:9070"],
        vec!["worker", "--advertise", "http://me:hunter2@h:9080"],
        vec!["--config", "bad.toml", "observe", "list"],
        vec!["--config", "bad.toml", "observe", "list", "--json"],
    ] {
        let called = folio.call(&arguments);
        assert_eq!(called.code, 2, "{arguments:?}: {called}");
        assert!(
            called.stderr.contains("http://…@h") && !called.stderr.contains("hunter2"),
            "{arguments:?}: {called}"
        );
    }
}
