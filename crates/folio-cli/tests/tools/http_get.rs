//! The tool `http_get` in runs, through the program: `folio serve` is the web server that it requests (surfaces.md,
//! section 6).

use crate::support::Folio;
use crate::support::served::Served;
use insta::assert_snapshot;
use serde_json::{Value, json};

/// A house with a server, and a plan that requests its health.
fn folio_with_server() -> (Folio, Served, String) {
    let folio = Folio::new();
    let served = Served::new(&folio, "127.0.0.1:0");
    let host = format!("127.0.0.1:{}", served.port);
    folio.file("plan.yaml", plan(&host));
    (folio, served, host)
}

fn plan(host: &str) -> String {
    format!(
        "title: Ask\noutput: '{{{{ results.ask.output.json.status }}}}'\nsteps:\n  - {{id: ask, do: {{tool: http_get, args: {{url: 'http://{host}/healthz'}}}}}}\n"
    )
}

fn first_step(folio: &Folio, run: &str) -> Value {
    let run = folio.json(&["show", run]);
    run["nodes"].as_array().unwrap()[1].clone()
}

#[test]
fn http_get_requests_only_hosts_that_the_run_allows() {
    let (folio, _served, host) = folio_with_server();
    let refused = folio.call(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!(refused.code, 1, "{refused}");
    let ask = first_step(&folio, "r1");
    assert_eq!(ask["result"]["stop_reason"], "policy_denied", "{ask}");
    assert!(
        ask["result"]["notes"].as_str().unwrap().contains("was not requested"),
        "{ask}"
    );

    folio.ok(&["run", "--plan", "plan.yaml", "--quiet", "--allow-host", &host]);
    let run = folio.json(&["show", "r2"]);
    assert_eq!(
        (&run["status"], &run["result"]["output"]),
        (&json!("ok"), &json!("ok")),
        "{run}"
    );

    // What the settings allow holds for each run that is submitted with them, and is recorded with it.
    folio.settings(format!("[http]\nallow = [\"{host}\"]\n"));
    folio.ok(&["run", "--plan", "plan.yaml", "--quiet"]);
    assert_eq!(folio.json(&["show", "r3"])["status"], "ok");
}

#[test]
fn invalid_allowed_host_is_refused_with_a_reason() {
    let folio = Folio::new();
    folio.file("plan.yaml", plan("example.org"));
    assert_snapshot!(folio.seen(&["run", "--plan", "plan.yaml", "--allow-host", "https://example.org/"]), @r#"
    ! error: invalid value 'https://example.org/' for '--allow-host <HOST>': "https://example.org/" is the address of a page: write only its host, such as `example.org`
    ! 
    ! For more information, try '--help'.
    = 2
    "#);
    folio.settings("[http]\nallow = [\"example.org:http\"]\n");
    assert_snapshot!(folio.seen(&["run", "--plan", "plan.yaml"]), @r#"
    ! error[settings_invalid]: FOLDER/folio.toml:2:9: "example.org:http" is not a host: write `example.org`, `example.org:8080`, `*.example.org`, an address, or a network such as `10.0.0.0/8`
    = 2
    "#);
}

#[test]
fn http_get_to_an_unlisted_host_waits_for_approval_e9_14() {
    let (folio, _served, host) = folio_with_server();
    let running = folio.spawn(&[
        "run",
        "--plan",
        "plan.yaml",
        "--attended",
        "--quiet",
        "--allow-host",
        "example.org",
    ]);
    let asked = folio.until(&["questions"], |asked| asked["items"][0]["kind"] == "call");
    assert_eq!(
        asked["items"][0]["call"]["args"],
        json!({"url": format!("http://{host}/healthz")})
    );
    folio.ok(&["approve", asked["items"][0]["id"].as_str().unwrap()]);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(folio.json(&["show", "r1"])["result"]["output"], "ok");
}
