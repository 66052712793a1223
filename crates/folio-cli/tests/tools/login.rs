//! `folio tool login`, through the program: with a server that issues tokens, and a simulated browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use crate::support::Folio;
use folio_testkit::OAuthServer;
use serde_json::Value;

/// A house whose settings name the server `desk`, which requires a login, and the server that issues its tokens.
fn folio_with_login() -> (Folio, OAuthServer, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = OAuthServer::new(&base);
    let routes = server.routes(axum::Router::new());
    drop(runtime.spawn(async move { axum::serve(listener, routes).await }));
    let folio = Folio::new();
    folio.settings(format!("[mcp.desk]\nurl = \"{base}/mcp\"\noauth = {{}}\n"));
    (folio, server, runtime)
}

/// Requests `url` and returns the whole answer.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Where the token server redirects the browser that opens `address`.
fn redirect_of(address: &str) -> String {
    let answer = get(address);
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap().to_owned()
}

/// Begins to log in. `browser` gets the address to open, and its answer is pasted.
fn log_in(folio: &Folio, flags: &[&str], browser: impl Fn(&str) -> Option<String>) -> (i32, String) {
    let arguments = [&["tool", "login", "desk"], flags].concat();
    let mut child = folio
        .process(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut address = String::new();
    while !address.starts_with("http") {
        address.clear();
        assert_ne!(told.read_line(&mut address).unwrap(), 0);
    }
    let mut stdin = child.stdin.take().unwrap();
    if let Some(pasted) = browser(address.trim()) {
        writeln!(stdin, "{pasted}").unwrap();
    }
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = format!("{}{rest}", String::from_utf8(done.stdout).unwrap());
    (done.status.code().unwrap(), said)
}

#[test]
fn browser_redirect_completes_the_login() {
    let (folio, server, _runtime) = folio_with_login();
    let called = folio.call(&["tool", "list"]);
    assert!(called.stderr.contains("`folio tool login desk`"), "{called}");
    let done = log_in(&folio, &["--json"], |address| {
        let back = redirect_of(address);
        let elsewhere = back.split_once("/callback").unwrap().0;
        assert!(get(&format!("{elsewhere}/favicon.ico")).starts_with("HTTP/1.1 404"));
        // Whoever else finds the port does not end the login.
        for strange in ["code=x", "code=x&state=y", "error=access_denied", "error=x&state="] {
            let answer = get(&format!("{elsewhere}/callback?{strange}"));
            assert!(answer.starts_with("HTTP/1.1 404"), "{strange}: {answer}");
        }
        assert!(get(&back).contains("Folio continues"));
        None
    });
    assert_eq!(done.0, 0, "{done:?}");
    let said: Value = serde_json::from_str(&done.1).unwrap();
    assert_eq!(said, serde_json::json!({"server": "desk", "scopes": ["desk"]}));
    assert_eq!(server.asked("authorization_code"), 1);
    assert_eq!(folio.ok(&["tool", "logout", "desk"]), "logged out of desk\n");
    assert_eq!(folio.ok(&["tool", "logout", "desk"]), "was not logged in to desk\n");
}

#[test]
fn pasted_redirect_address_completes_the_login() {
    let (folio, _server, _runtime) = folio_with_login();
    let done = log_in(&folio, &["--paste"], |address| Some(redirect_of(address)));
    assert_eq!(done.0, 0, "{done:?}");
    assert!(done.1.contains("logged in to desk (desk)"), "{done:?}");
    let refused = log_in(&folio, &["--paste"], |_| Some("what?".to_owned()));
    assert_eq!(refused.0, 2, "{refused:?}");
    assert!(refused.1.contains("error["), "{refused:?}");
}

#[test]
fn denied_and_impossible_logins_are_reported() {
    let (folio, server, _runtime) = folio_with_login();
    server.deny();
    let done = log_in(&folio, &[], |address| {
        get(&redirect_of(address));
        None
    });
    assert!(done.0 == 5 && done.1.contains("access_denied (not today)"), "{done:?}");

    let unknown = folio.call(&["tool", "login", "desc"]);
    assert!(
        unknown.code == 3 && unknown.stderr.contains("they name desk"),
        "{unknown}"
    );
    folio.settings("[mcp.desk]\nurl = \"http://127.0.0.1:9/mcp\"\n");
    let without = folio.call(&["tool", "login", "desk"]);
    assert!(
        without.code == 5 && without.stderr.contains("`oauth = {}`"),
        "{without}"
    );
    folio.settings("[mcp.desk]\nurl = \"http://127.0.0.1:9/mcp\"\noauth = {}\n");
    let nobody = folio.call(&["tool", "login", "desk"]);
    assert!(
        nobody.code == 5 && nobody.stderr.contains("nothing listens at 127.0.0.1:9"),
        "{nobody}"
    );
}
