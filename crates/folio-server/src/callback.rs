//! The page to which a browser returns after a login elsewhere: served once, and only on this machine.

use std::future::IntoFuture as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
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

    /// Waits for the browser and then closes the port. Returns the address with which the browser returned, or `None`
    /// if it did not return within `time`.
    pub async fn wait_for_redirect(self, time: Duration) -> Option<String> {
        let (sender, mut receiver) = mpsc::channel(1);
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

async fn handle_redirect(State(sender): State<mpsc::Sender<Uri>>, uri: Uri) -> (StatusCode, &'static str) {
    let query = uri.query().unwrap_or_default();
    let has_field = |name: &str| query.split('&').any(|pair| pair.starts_with(name));
    if uri.path() != PATH || !(has_field("code=") || has_field("error=")) {
        return (StatusCode::NOT_FOUND, "There is nothing here.\n");
    }
    let _already_came = sender.try_send(uri);
    (
        StatusCode::OK,
        "You can close this page. Folio continues where it was started.\n",
    )
}
