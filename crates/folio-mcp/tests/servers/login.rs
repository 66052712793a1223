//! Servers that require a login, with a server that issues tokens.

use std::path::Path;

use crate::support::{add, adder};
use folio_mcp::login::log_out;
use folio_mcp::{Login, LoginAt, LoginSettings, McpSettings, Servers, ToStart};
use folio_testkit::OAuthServer;
use folio_tools::Registry;
use serde_json::json;

const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// The adding server, for logged-in clients; the server that issues tokens, and the settings for both.
async fn start_servers(folder: &Path) -> (OAuthServer, ToStart) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = OAuthServer::new(&base);
    let routes = server.routes(adder(false));
    drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
    let settings = McpSettings {
        allow: vec!["*".to_owned()],
        start_s: Some(5),
        oauth: Some(LoginSettings::default()),
        ..McpSettings::of_url(format!("{base}/mcp"))
    };
    let start = ToStart {
        name: "adder".to_owned(),
        settings,
        environment: Vec::new(),
        folder: "/".into(),
        headers: Vec::new(),
        token: None,
        login: Some(LoginAt {
            tokens: folder.join("logins/adder.json"),
            client_secret: None,
        }),
        unusable: None,
    };
    (server, start)
}

async fn open_server(start: &ToStart) -> (Servers, Registry) {
    let servers = Servers::open(vec![start.clone()]).await;
    let mut registry = Registry::empty();
    servers.register_in(&mut registry);
    (servers, registry)
}

/// Acts as a browser that opens `address`; returns where it is redirected.
async fn browse_to_redirect(address: &str) -> String {
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = builder.tls_certs_only(std::iter::empty()).build().unwrap();
    let answer = client.get(address).send().await.unwrap();
    answer.headers()["location"].to_str().unwrap().to_owned()
}

async fn log_in(start: &ToStart) {
    let login = Login::begin(start, REDIRECT).await.unwrap();
    let came_back = browse_to_redirect(login.address()).await;
    assert_eq!(login.end(&came_back).await.unwrap(), ["desk"]);
}

#[tokio::test]
async fn login_authorises_calls_until_logout() {
    let folder = tempfile::tempdir().unwrap();
    let (server, start) = start_servers(folder.path()).await;
    let (servers, _) = open_server(&start).await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(problem.contains("`folio tool login adder`"), "{problem}");

    log_in(&start).await;
    let (servers, registry) = open_server(&start).await;
    assert_eq!(servers.problems().next(), None);
    let answer = add(&registry, json!({"a": 2, "b": 40})).await;
    assert_eq!(answer.outputs, json!({"text": "42"}), "{answer:?}");
    assert_eq!(
        (server.asked("authorization_code"), server.asked("refresh_token")),
        (1, 0)
    );
    servers.close().await;

    assert!(log_out(&start).await.unwrap());
    assert!(!log_out(&start).await.unwrap());
    let (servers, _) = open_server(&start).await;
    let after = servers.problems().next().unwrap().to_string();
    assert_eq!(after, problem, "as before the login");
}

#[cfg(unix)]
#[tokio::test]
async fn tokens_are_stored_owner_only_and_never_revealed() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (_server, start) = start_servers(folder.path()).await;
    log_in(&start).await;
    let file = &start.login.as_ref().unwrap().tokens;
    assert!(std::fs::read_to_string(file).unwrap().contains("token-"));
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let (servers, registry) = open_server(&start).await;
    let answer = add(&registry, json!({"a": 1, "b": 1})).await;
    assert_eq!(answer.outputs, json!({"text": "2"}), "{answer:?}");
    let told = format!("{servers:?} {registry:?} {answer:?}");
    assert!(!told.contains("token-") && !told.contains("renewing-"), "{told}");

    // Those of one server are never sent to another.
    let (_other, mut elsewhere) = start_servers(folder.path()).await;
    elsewhere.login.clone_from(&start.login);
    let (servers, _) = open_server(&elsewhere).await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(problem.contains("nobody is logged in"), "{problem}");

    std::fs::write(file, "{\"url\": \"token-9\"").unwrap();
    let (servers, _) = open_server(&start).await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(
        problem.contains("holds no tokens") && !problem.contains("token-9"),
        "{problem}"
    );
}

#[tokio::test]
async fn concurrent_calls_renew_their_shared_tokens_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (server, start) = start_servers(folder.path()).await;
    // Shorter than the time that a token must be good for to be used: each use renews it, and what was used for that
    // is void.
    server.expire_in(5);
    log_in(&start).await;
    let (one, another) = (open_server(&start).await, open_server(&start).await);
    let calls = (0..8).map(|n| {
        let registry = if n % 2 == 0 { &one.1 } else { &another.1 };
        add(registry, json!({"a": n, "b": 1}))
    });
    for (n, answer) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(answer.outputs, json!({"text": (n + 1).to_string()}), "{answer:?}");
    }
    assert!(server.asked("refresh_token") >= 8);
    assert_eq!(server.asked("authorization_code"), 1);
}

#[tokio::test]
async fn revoked_login_is_reported_until_a_new_login_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let (server, start) = start_servers(folder.path()).await;
    log_in(&start).await;
    let (_servers, registry) = open_server(&start).await;
    server.revoke();
    let error = add(&registry, json!({"a": 1, "b": 1})).await.error.unwrap();
    assert_eq!(error.code, "mcp_server_unavailable");
    assert!(error.message.contains("`folio tool login adder`"), "{error:?}");
    // Whoever logs in again need not start anything anew.
    log_in(&start).await;
    let answer = add(&registry, json!({"a": 1, "b": 1})).await;
    assert_eq!(answer.outputs, json!({"text": "2"}), "{answer:?}");
}

#[tokio::test]
async fn failed_token_renewal_is_temporary_and_asks_for_no_login() {
    let folder = tempfile::tempdir().unwrap();
    let (server, start) = start_servers(folder.path()).await;
    // Each use renews it.
    server.expire_in(5);
    log_in(&start).await;
    let (_servers, registry) = open_server(&start).await;
    server.set_away(true);
    let error = add(&registry, json!({"a": 1, "b": 1})).await.error.unwrap();
    assert_eq!(error.code, "mcp_server_unavailable", "{error:?}");
    assert!(error.message.contains("could not be renewed now"), "{error:?}");
    assert!(!error.message.contains("folio tool login"), "{error:?}");
    server.set_away(false);
    let answer = add(&registry, json!({"a": 1, "b": 1})).await;
    assert_eq!(answer.outputs, json!({"text": "2"}), "{answer:?}");
}

#[tokio::test]
async fn denied_or_mismatched_redirect_does_not_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let (server, start) = start_servers(folder.path()).await;
    let (one, another) = (
        Login::begin(&start, REDIRECT).await.unwrap(),
        Login::begin(&start, REDIRECT).await.unwrap(),
    );
    let came_back = browse_to_redirect(one.address()).await;
    let error = another.end(&came_back).await.unwrap_err();
    assert_eq!(error.code(), "mcp_login_failed");
    server.deny();
    let came_back = browse_to_redirect(one.address()).await;
    let error = one.end(&came_back).await.unwrap_err().to_string();
    assert!(error.contains("access_denied (not today)"), "{error}");
    assert!(!log_out(&start).await.unwrap());
}

#[tokio::test]
async fn login_without_oauth_settings_fails_and_names_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, mut start) = start_servers(folder.path()).await;
    start.login = None;
    start.settings.oauth = None;
    let (servers, _) = open_server(&start).await;
    let problem = servers.problems().next().unwrap().to_string();
    assert!(problem.contains("401") && problem.contains("`oauth = {}`"), "{problem}");
    let error = Login::begin(&start, REDIRECT).await.err().unwrap().to_string();
    assert!(error.contains("put `oauth = {}` in [mcp.adder]"), "{error}");
}
