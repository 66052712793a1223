//! Binds, serves, and stops in order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use folio::runner::Runner;
use folio::store::StoreError;
use folio::{Actor, Role, SpaceName};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::driving::Driving;
use crate::http::{self, Access, App, Metrics, Transfers};
use crate::listen;
use crate::mcp::{self, Mcp, McpOptions};

/// How long open requests may take to finish once the server was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeOptions {
    /// A loopback address, or any other if there is an access token for the space. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// Who asks at a loopback address without a token: whoever can reach it, unless one is required.
    pub local: Actor,
    /// Whether a token is demanded at a loopback address, too.
    pub require_token: bool,
    /// The folder that runs may read: what a relative path means, and what no path leads out of.
    pub folder: Option<PathBuf>,
    /// Connections that are open at once. One more takes the place of the one on which nothing has been answered for longest.
    pub connections: usize,
    /// Requests that one token may make in a second, over two seconds.
    pub per_second: u32,
    /// How whole spaces are brought out and in.
    pub transfers: TransferLimits,
}

/// How many whole spaces are brought out and in at the same time, and for how long somebody is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferLimits {
    /// Exports and imports at the same time.
    pub most: usize,
    /// How long a request waits for its place among them.
    pub wait: Duration,
    /// How long an export waits for a reader that takes nothing, and an import for one who sends nothing.
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
    /// The port that is taken when none is named.
    pub const DEFAULT_PORT: u16 = 7717;

    /// The requests that a token may make in a second when nothing is said.
    pub const DEFAULT_PER_SECOND: u32 = 100;

    /// The connections that are open at once when nothing is said.
    pub const DEFAULT_CONNECTIONS: usize = 512;

    /// Listens at `listen`.
    #[must_use]
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            local: Actor::new(Role::Human, ""),
            require_token: false,
            folder: None,
            connections: Self::DEFAULT_CONNECTIONS,
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

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A token is demanded, and nobody could show one.
    #[error(
        "cannot listen at {address}: who asks there has to show a token, and there is no access token for the space {space}"
    )]
    NoToken {
        /// The address.
        address: SocketAddr,
        /// The space that was to be served.
        space: SpaceName,
    },
    /// Whether there are tokens cannot be read.
    #[error("cannot read which access tokens there are")]
    Store(#[source] StoreError),
    /// The system does not give the address.
    #[error("cannot listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A server that has its address and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServeOptions,
    needs_token: bool,
    driving: Arc<Driving>,
    runner: Runner,
    mcp: Option<Mcp>,
}

impl Server {
    /// Takes the address. Whoever connects from now on is answered as soon as [`Server::run`] is called.
    ///
    /// Serves the one space that `runner` works in.
    ///
    /// # Errors
    ///
    /// `NoToken` if it is no loopback address, or a token is required, and nobody could show one; `Store` if that cannot be read; `Bind` if the
    /// address is taken or not of this machine.
    pub async fn bind(options: &ServeOptions, runner: Runner) -> Result<Self, ServeError> {
        let address = options.listen;
        let needs_token = options.require_token || !address.ip().is_loopback();
        let workspace = runner.workspace();
        if needs_token {
            let tokens = workspace.store().tokens().await.map_err(ServeError::Store)?;
            let now = workspace.clock().now();
            if !tokens
                .iter()
                .any(|kept| kept.space == *workspace.space() && kept.is_valid(now))
            {
                let space = workspace.space().clone();
                return Err(ServeError::NoToken { address, space });
            }
        }
        let failed = |source| ServeError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            options: options.clone(),
            needs_token,
            driving: Driving::of(&runner),
            runner,
            mcp: None,
        })
    }

    /// Is a server of the Model Context Protocol as well, at `/mcp`.
    #[must_use]
    pub fn with_mcp(mut self, options: McpOptions) -> Self {
        self.mcp = Some(Mcp::sharing(self.runner.clone(), options, Arc::clone(&self.driving)));
        self
    }

    /// The address that it has; the port that was found if 0 was asked for.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where a browser finds it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Answers until `shutdown` is ready; then ends the live streams, gives open requests five seconds, and returns when no run is driven any more
    /// that was started here: those whose request was not answered are stopped, in the others nothing more begins ([`Runner::leave`]), and
    /// what is under way has five seconds to end. Whoever takes them up goes on with them.
    ///
    /// # Errors
    ///
    /// None as it is: what goes wrong on a connection is that one's.
    pub async fn run<F>(self, shutdown: F) -> Result<(), ServeError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopping) = watch::channel(false);
        let local = (!self.needs_token).then_some(self.options.local);
        let access = Access::new(self.runner.clone(), local, self.options.per_second);
        // If it cannot be asked now, it is told when it can.
        let bytes = self.runner.workspace().store().bytes().await;
        let metrics = Metrics::new(!matches!(bytes, Ok(None)), self.runner.untold().is_some());
        let app = App {
            runner: self.runner.clone(),
            driving: Arc::clone(&self.driving),
            folder: self.options.folder,
            feeds: Arc::default(),
            transfers: Transfers::within(self.options.transfers),
            metrics: metrics.clone(),
            stopping: stopping.clone(),
        };
        let (mut router, pages) = http::routers(app);
        let conversations = CancellationToken::new();
        if let Some(mcp) = &self.mcp {
            let mcp = mcp::http::routes(mcp.clone(), self.needs_token, conversations.clone());
            router = router.merge(mcp);
        }
        let router = http::guarded(router, pages, access, metrics);
        let told = async move {
            shutdown.await;
            stop.send_replace(true);
            conversations.cancel();
        };
        let serving = listen::serve(self.listener, router, self.options.connections, told);
        let grace_is_over = async move {
            wait_until_stopping(stopping).await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = grace_is_over => {}
        }
        self.driving.wind_down(&self.runner).await;
        Ok(())
    }
}

/// Returns when the server was told to stop, or is gone.
pub(crate) async fn wait_until_stopping(mut stopping: watch::Receiver<bool>) {
    // An error says that the sender is gone: with it, the server.
    let _ = stopping.wait_for(|told| *told).await.is_ok();
}
