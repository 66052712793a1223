//! The server: binds its address, serves, and shuts down in order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio::runner::Runner;
use folio::store::StoreError;
use folio::{Actor, Role};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::driving::Driving;
use crate::http::{self, Access, App, Bodies, Limits, Metrics, Streams, Transfers};
use crate::listen;
use crate::mcp::{self, Mcp, McpOptions};
use crate::spaces::Spaces;

/// How long open requests may take to finish after the server was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How a server listens, whom it admits, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address: a loopback address, or any other if there is an access token. Port 0 means any free port.
    pub listen: SocketAddr,
    /// The actor of requests without a token at a loopback address. Whoever can reach the address acts as this actor,
    /// unless a token is required.
    pub local: Actor,
    /// Whether a token is required at a loopback address, too.
    pub require_token: bool,
    /// The folder that runs may read: relative paths start there, and no path may lead out of it.
    pub folder: Option<PathBuf>,
    /// The maximum number of open connections. One more takes the place of the connection on which nothing has been
    /// answered for longest. A few more are open while clients still read what was answered on those, and while all are
    /// busy, for requests of `/healthz` and to refuse others.
    pub connections: usize,
    /// The most bytes of request bodies that are in memory at once, beyond the first 64 KiB of each.
    pub body_bytes: usize,
    /// The number of requests per second that one token may make, averaged over two seconds.
    pub per_second: u32,
    /// The limits of exports and imports.
    pub transfers: TransferLimits,
}

/// The limits of exports and imports of whole spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferLimits {
    /// The maximum number of exports and imports at the same time.
    pub most: usize,
    /// How long a request waits for a free place.
    pub wait: Duration,
    /// How long an export waits for a client that reads nothing, and an import for a client that sends nothing.
    pub standstill: Duration,
}

impl Default for TransferLimits {
    fn default() -> Self {
        Self {
            most: 4,
            wait: Duration::from_secs(5),
            standstill: Duration::from_secs(30),
        }
    }
}

impl ServeOptions {
    /// The default port.
    pub const DEFAULT_PORT: u16 = 7717;

    /// The default number of requests per second and token.
    pub const DEFAULT_PER_SECOND: u32 = 100;

    /// The default number of open connections.
    pub const DEFAULT_CONNECTIONS: usize = 512;

    /// The default number of bytes of bodies: four of the largest.
    pub const DEFAULT_BODY_BYTES: usize = 256 * 1024 * 1024;

    /// Returns the default options for the address `listen`.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            local: Actor::new(Role::Human, ""),
            require_token: false,
            folder: None,
            connections: Self::DEFAULT_CONNECTIONS,
            body_bytes: Self::DEFAULT_BODY_BYTES,
            per_second: Self::DEFAULT_PER_SECOND,
            transfers: TransferLimits::default(),
        }
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, Self::DEFAULT_PORT)))
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A token is required, but the store has no valid token for any space.
    #[error(
        "cannot listen at {address}: requests there need a token, and the store has no valid access token for any space"
    )]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
    /// The access tokens cannot be read.
    #[error("cannot read the access tokens")]
    Store(#[source] StoreError),
    /// The address cannot be bound.
    #[error("cannot listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// A server that has bound its address and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServeOptions,
    needs_token: bool,
    driving: Arc<Driving>,
    spaces: Spaces,
    mcp: Option<Mcp>,
}

impl Server {
    /// Binds the address. Clients that connect from now on are answered as soon as [`Server::run`] is called.
    ///
    /// The server serves the space that `runner` works in, and, to callers with a token, the space of the token.
    ///
    /// # Errors
    ///
    /// `NoToken` if a token is required, by the options or because the address is not a loopback address, and the
    /// store has no valid token for any space; `Store` if the tokens cannot be read; `Bind` if the address is in use or
    /// does not belong to this machine.
    pub async fn bind(options: &ServeOptions, runner: Runner) -> Result<Self, ServeError> {
        let address = options.listen;
        let needs_token = options.require_token || !address.ip().is_loopback();
        let workspace = runner.workspace();
        if needs_token {
            let tokens = workspace.store().tokens().await.map_err(ServeError::Store)?;
            let now = workspace.clock().now();
            if !tokens.iter().any(|kept| kept.is_valid(now)) {
                return Err(ServeError::NoToken { address });
            }
        }
        let failed = |source| ServeError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let spaces = Spaces::of(runner);
        Ok(Self {
            listener,
            address,
            options: options.clone(),
            needs_token,
            driving: Driving::of(spaces.clone()),
            spaces,
            mcp: None,
        })
    }

    /// Serves the Model Context Protocol as well, at `/mcp`.
    #[must_use]
    pub fn with_mcp(mut self, options: McpOptions) -> Self {
        self.mcp = Some(Mcp::with_driving(
            self.spaces.first().clone(),
            options,
            Arc::clone(&self.driving),
        ));
        self
    }

    /// Returns the spaces that it serves.
    #[must_use]
    pub fn spaces(&self) -> Spaces {
        self.spaces.clone()
    }

    /// Returns the bound address, with the actual port if port 0 was requested.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for a browser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Serves until `shutdown` is ready. Then it ends the live streams, gives open requests five seconds, and returns
    /// when no run that was started here is driven any more: runs whose request was not answered are cancelled; in the
    /// others nothing more begins ([`Runner::leave`]), and calls under way have five seconds to end. Another process
    /// can resume them.
    ///
    /// # Errors
    ///
    /// None at present: an error on a connection affects only that connection.
    pub async fn run<F>(self, shutdown: F) -> Result<(), ServeError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopping) = watch::channel(false);
        let local = (!self.needs_token).then_some(self.options.local);
        let runner = self.spaces.first();
        let access = Access::new(runner.clone(), local, self.options.per_second);
        // If the size cannot be read now, the metric is registered all the same and set once it can be.
        let bytes = runner.workspace().store().bytes().await;
        let metrics = Metrics::new(!matches!(bytes, Ok(None)), runner.untold().is_some());
        let app = App {
            spaces: self.spaces.clone(),
            driving: Arc::clone(&self.driving),
            folder: self.options.folder,
            feeds: Arc::default(),
            transfers: Transfers::with_limits(self.options.transfers),
            metrics: metrics.clone(),
            stopping: stopping.clone(),
        };
        let (mut router, pages) = http::routers(app);
        let conversations = CancellationToken::new();
        if let Some(mcp) = &self.mcp {
            let mcp = mcp::http::routes(
                mcp.clone(),
                self.spaces.clone(),
                self.needs_token,
                conversations.clone(),
            );
            router = router.merge(mcp);
        }
        let limits = Limits {
            streams: Streams::for_connections(self.options.connections, metrics.clone()),
            bodies: Bodies::with_room_for(self.options.body_bytes),
        };
        let router = http::guarded(router, pages, access, limits, metrics);
        let shutdown_signal = async move {
            shutdown.await;
            stop.send_replace(true);
            conversations.cancel();
        };
        let server = listen::serve(self.listener, router, self.options.connections, shutdown_signal);
        let grace_is_over = async move {
            wait_until_stopping(stopping).await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = server => {}
            () = grace_is_over => {}
        }
        self.driving.wind_down(runner).await;
        Ok(())
    }
}

/// Returns when the server was told to stop or no longer exists.
pub(crate) async fn wait_until_stopping(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the server.
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await.is_ok();
}
