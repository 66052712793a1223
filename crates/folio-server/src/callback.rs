//! The page that a browser comes back to when somebody has logged in elsewhere: it is there once, on this machine only.

use std::future::IntoFuture as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// What the browser has to take the answer.
const GOODBYE: Duration = Duration::from_secs(1);
/// Where the browser comes back to.
const PATH: &str = "/callback";

/// The page, from when its port is open.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    address: SocketAddr,
}

impl Callback {
    /// Opens `port` of 127.0.0.1; 0 stands for any that is free.
    ///
    /// # Errors
    ///
    /// What the system says, as that another program has the port.
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Its address, as `http://127.0.0.1:5000/callback`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the browser, and closes the port; the address that it came back with, `None` if it did not within `time`.
    pub async fn came_back(self, time: Duration) -> Option<String> {
        let (sender, mut receiver) = mpsc::channel(1);
        let (is_over, over) = oneshot::channel::<()>();
        let routes = Router::new().fallback(came).with_state(sender);
        let serving = axum::serve(self.listener, routes).with_graceful_shutdown(async move { drop(over.await) });
        let mut serving = tokio::spawn(serving.into_future());
        let came = tokio::time::timeout(time, receiver.recv()).await;
        drop(is_over);
        // The browser is still to be told that this is all.
        if tokio::time::timeout(GOODBYE, &mut serving).await.is_err() {
            serving.abort();
        }
        let uri: Uri = came.ok().flatten()?;
        Some(format!("http://{}{uri}", self.address))
    }
}

async fn came(State(sender): State<mpsc::Sender<Uri>>, uri: Uri) -> (StatusCode, &'static str) {
    let query = uri.query().unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.starts_with(name));
    if uri.path() != PATH || !(has("code=") || has("error=")) {
        return (StatusCode::NOT_FOUND, "There is nothing here.\n");
    }
    let _already_came = sender.try_send(uri);
    (
        StatusCode::OK,
        "That is all here. Folio goes on where it was started.\n",
    )
}
