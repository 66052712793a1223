//! The page to which a browser returns after a login elsewhere: served once, and only on this machine.

use std::future::IntoFuture as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// How long the browser may take to receive the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The path to which the browser returns.
const PATH: &str = "/callback";

/// The page, with its port already open.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    address: SocketAddr,
}

impl Callback {
    /// Opens `port` of 127.0.0.1; 0 means any free port.
    ///
    /// # Errors
    ///
    /// The error of the system, for example if another program uses the port.
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns its address, such as `http://127.0.0.1:5000/callback`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits until the browser returns from the login at `login_url`, and then closes the port. Returns the address
    /// with which the browser returned, or `None` if it did not return within `time`. Requests of other logins, or of
    /// whoever else finds the port, are ignored: they do not have the `state` of `login_url`.
    pub async fn wait_for_redirect(self, login_url: &str, time: Duration) -> Option<String> {
        let (came, mut receiver) = mpsc::channel(1);
        let query = login_url.split_once('?').map_or("", |(_, query)| query);
        let sender = Redirects {
            came,
            state: field_of(query, "state"),
        };
        let (shutdown_sender, shutdown) = oneshot::channel::<()>();
        let routes = Router::new().fallback(handle_redirect).with_state(sender);
        let server = axum::serve(self.listener, routes).with_graceful_shutdown(async move { drop(shutdown.await) });
        let mut server = tokio::spawn(server.into_future());
        let received = tokio::time::timeout(time, receiver.recv()).await;
        drop(shutdown_sender);
        // The browser still has to get the answer.
        if tokio::time::timeout(ANSWER_TIMEOUT, &mut server).await.is_err() {
            server.abort();
        }
        let uri: Uri = received.ok().flatten()?;
        Some(format!("http://{}{uri}", self.address))
    }
}

/// Where the returning browser is awaited.
#[derive(Debug, Clone)]
struct Redirects {
    came: mpsc::Sender<Uri>,
    /// The `state` of the login, if it has one.
    state: Option<String>,
}

/// Returns the decoded value of the field `name` of a query.
fn field_of(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    let value = value.replace('+', " ");
    Some(percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

async fn handle_redirect(State(redirects): State<Redirects>, uri: Uri) -> (StatusCode, &'static str) {
    let query = uri.query().unwrap_or_default();
    let is_outcome = ["code", "error"].iter().any(|name| field_of(query, name).is_some());
    let is_of_login = redirects.state.is_none() || field_of(query, "state") == redirects.state;
    if uri.path() != PATH || !is_outcome || !is_of_login {
        return (StatusCode::NOT_FOUND, "There is nothing here.\n");
    }
    let _already_came = redirects.came.try_send(uri);
    (
        StatusCode::OK,
        "You can close this page. Folio continues where it was started.\n",
    )
}
