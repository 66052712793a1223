//! Opens one connection: tries every address that the URL stands for in turn, each with a time limit.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long an address may take until a connection is ready, if the URL does not say.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A connection, and the future that must be polled to keep it alive.
pub(super) type Connected = (
    Client,
    Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>,
);

/// Opens the connections of a pool.
pub(super) struct Connector {
    pub(super) tls: MakeRustlsConnect,
    /// The SQL that is sent first on each connection.
    pub(super) first: String,
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        async move {
            let (client, connection) = connect(&config, &self.tls, &self.first).await?;
            // The user of the client gets the error that ended it.
            Ok((client, tokio::spawn(connection.map(drop))))
        }
        .boxed()
    }
}

/// Connects to the first address that answers, and sends `first`.
///
/// The timeout of `config` covers the whole conversation, not only its first packets: a server may accept connections
/// and never answer.
pub(super) async fn connect(config: &Config, tls: &MakeRustlsConnect, first: &str) -> Result<Connected, Error> {
    let time_limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_WITHIN);
    let Some(mut hosts) = hosts(config) else {
        // This reports what the URL lacks, without contacting a server.
        return connect_to_host(config, tls, first).await;
    };
    take_turns(config, &mut hosts);
    let mut failed = None;
    for host in &hosts {
        let mut addresses = host.addresses(time_limit).await;
        take_turns(config, &mut addresses);
        for address in addresses {
            let host_config = host.alone(config, address);
            match timeout(time_limit, connect_to_host(&host_config, tls, first)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(silent(time_limit).await),
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None => connect_to_host(config, tls, first).await,
    }
}

/// Connects to where `config` leads, and sends `first`.
async fn connect_to_host(config: &Config, tls: &MakeRustlsConnect, first: &str) -> Result<Connected, Error> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    {
        let mut batch = std::pin::pin!(client.batch_execute(first));
        tokio::select! {
            done = &mut batch => done?,
            // The connection has the reason.
            ended = &mut connection => {
                ended?;
                batch.await?;
            }
        }
    }
    Ok((client, connection))
}

/// One of the hosts of a URL.
struct Place {
    host: Option<Host>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

/// The hosts that `config` names, unless its lists of them do not match.
fn hosts(config: &Config) -> Option<Vec<Place>> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fit = |len: usize| len == 0 || len == count;
    if count == 0 || !fit(hosts.len()) || !fit(addresses.len()) || !(ports.len() == 1 || fit(ports.len())) {
        return None;
    }
    let place = |index| Place {
        host: hosts.get(index).cloned(),
        address: addresses.get(index).copied(),
        port: ports.get(index).or(ports.first()).copied(),
    };
    Some((0..count).map(place).collect())
}

/// Starts at a random one of `places` if the URL says that hosts share the load.
fn take_turns<T>(config: &Config, places: &mut [T]) {
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random && !places.is_empty() {
        let mut byte = [0];
        // Without randomness all start at the first.
        getrandom::fill(&mut byte).unwrap_or_default();
        places.rotate_left(usize::from(byte[0]) % places.len());
    }
}

impl Place {
    /// The addresses of the host; a single `None` if it has none, or they cannot be resolved.
    async fn addresses(&self, time_limit: Duration) -> Vec<Option<IpAddr>> {
        let (Some(Host::Tcp(name)), None) = (&self.host, self.address) else {
            return vec![self.address];
        };
        let found = timeout(time_limit, tokio::net::lookup_host((name.as_str(), 0))).await;
        let found: Vec<_> = found.map_or_else(
            |_| Vec::new(),
            |found| found.map_or_else(|_| Vec::new(), |found| found.map(|found| Some(found.ip())).collect()),
        );
        // The driver then resolves the name as well, and reports why that fails.
        if found.is_empty() { vec![None] } else { found }
    }

    /// `config` restricted to this host at `address`.
    fn alone(&self, config: &Config, address: Option<IpAddr>) -> Config {
        let mut host_config = Config::new();
        match &self.host {
            Some(Host::Tcp(name)) => drop(host_config.host(name)),
            Some(Host::Unix(path)) => drop(host_config.host_path(path)),
            None => {}
        }
        if let Some(address) = address {
            host_config.hostaddr(address);
        }
        if let Some(port) = self.port {
            host_config.port(port);
        }
        for (value, setter) in [
            (
                config.get_user(),
                Config::user as fn(&mut Config, String) -> &mut Config,
            ),
            (config.get_dbname(), Config::dbname),
            (config.get_options(), Config::options),
            (config.get_application_name(), Config::application_name),
        ] {
            if let Some(value) = value {
                setter(&mut host_config, value.to_owned());
            }
        }
        if let Some(password) = config.get_password() {
            host_config.password(password);
        }
        for (value, setter) in [
            (
                config.get_connect_timeout().copied(),
                Config::connect_timeout as fn(&mut Config, Duration) -> &mut Config,
            ),
            (config.get_tcp_user_timeout().copied(), Config::tcp_user_timeout),
            (config.get_keepalives_interval(), Config::keepalives_interval),
        ] {
            if let Some(value) = value {
                setter(&mut host_config, value);
            }
        }
        if let Some(retries) = config.get_keepalives_retries() {
            host_config.keepalives_retries(retries);
        }
        host_config
            .keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle())
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .target_session_attrs(config.get_target_session_attrs())
            .channel_binding(config.get_channel_binding());
        host_config
    }
}

/// The error for a server that accepts a connection but has not answered within `time_limit`.
async fn silent(time_limit: Duration) -> Error {
    match Config::new()
        .user("nobody")
        .connect_raw(Silent(time_limit), NoTls)
        .await
    {
        Err(error) => error,
        Ok(_) => unreachable!("a stream that only fails has no server behind it"),
    }
}

/// A stream on which nothing arrives: the driver has no other way to report a timeout.
struct Silent(Duration);

impl Silent {
    fn error(&self) -> io::Error {
        let message = format!(
            "the server accepted the connection, but did not answer within {} s",
            self.0.as_secs()
        );
        io::Error::new(io::ErrorKind::TimedOut, message)
    }
}

impl AsyncRead for Silent {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.error()))
    }
}

impl AsyncWrite for Silent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(self.error()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.error()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
