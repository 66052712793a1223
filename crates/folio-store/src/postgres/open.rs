//! Opening the database: where it is, how to connect, and how many connections there are.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::{CONNECT_WITHIN, Connected, Connector, connect};
use super::error::Failure;
use crate::error::StoreError;
use crate::live::LiveOptions;

/// How long to wait for a connection, or for a lock that another process holds.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long unacknowledged TCP data may keep a connection alive.
const TCP_TIMEOUT: Duration = Duration::from_secs(20);
/// The time between two probes of a silent connection, and how many are sent. The system's defaults take more than ten
/// minutes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
/// How long a transaction of a process that hangs, or whose machine is gone, blocks other writers of its space.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);
/// Number of connections that only write. Commits of a space share one, so these are for different spaces.
const WRITERS: usize = 4;
/// The least number of connections of a store.
const CONNECTIONS_MIN: usize = 8;

/// What to open, and how.
#[derive(Clone)]
pub struct OpenOptions {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with `sslmode=disable|prefer|require`, `sslrootcert=FILE`,
    /// `lease=SECONDS` and `connections=N`, which override the fields below.
    pub url: String,
    /// How long a process that drives runs may be silent before another one may take them over. Default: 15 s.
    pub lease: Duration,
    /// The most connections of this store, in addition to one that listens. At least 8. Default: 16.
    pub connections_max: usize,
    /// Whether to create the tables if there are none; otherwise such a database counts as not found. Default: yes.
    pub make: bool,
    /// The indexes of live entries in memory. Answers are the same without them. Default: from 2,000 entries on and
    /// after 32 lists, because building one reads the whole space from a server that others use, too.
    pub live: LiveOptions,
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("OpenOptions")
            .field("lease", &self.lease)
            .field("connections_max", &self.connections_max)
            .field("make", &self.make)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

impl OpenOptions {
    /// Options for the database at `url`, with a lease of fifteen seconds.
    #[must_use]
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            lease: Duration::from_secs(15),
            connections_max: 16,
            make: true,
            live: LiveOptions {
                after: 32,
                ..LiveOptions::default()
            },
        }
    }
}

/// The number of the advisory lock that every connection of this store holds, so that others see that the process
/// lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessLock(pub(super) i64);

impl ProcessLock {
    /// A number that nobody else has.
    fn drawn() -> Result<Self, StoreError> {
        let mut bytes = [0; 8];
        let filled = getrandom::fill(&mut bytes);
        filled.map_err(|error| StoreError::Invalid(format!("the system gives no random numbers: {error}")))?;
        // Not negative, so that it is the same number however the server shows it.
        Ok(Self(i64::from_be_bytes(bytes) & i64::MAX))
    }
}

/// The database that connections lead to.
#[derive(Clone)]
pub(super) struct Target {
    /// The location as people see it: without user and password.
    pub(super) location: String,
    /// How long a process that drives runs may be silent.
    pub(super) lease: Duration,
    pub(super) lock: ProcessLock,
    pub(super) live: LiveOptions,
    /// Whether its tables may be created.
    pub(super) make: bool,
    connections_max: usize,
    config: Config,
    tls: MakeRustlsConnect,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location)
    }
}

impl Target {
    /// The target that `options` name.
    ///
    /// # Errors
    ///
    /// `Invalid` if the URL cannot be read; the error does not quote it, because it may contain a password.
    pub(super) fn of(options: &OpenOptions) -> Result<Self, StoreError> {
        let own = Own::of(options)?;
        let mut config = Config::from_str(&own.rest).map_err(|_| unreadable(&own.rest))?;
        if config.get_dbname().is_none() {
            let reason = "the store URL does not name a database: add its name after the host and a slash".to_owned();
            return Err(StoreError::Invalid(reason));
        }
        config.application_name("folio");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_TIMEOUT);
        }
        if !own.says_idle {
            config.keepalives_idle(TCP_TIMEOUT);
        }
        // Probes follow one another fast: whoever does not answer is gone within the time that the probes may take.
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_PROBES);
        }
        let location = location(&config);
        // Without TLS no certificates are loaded.
        let roots = if config.get_ssl_mode() == SslMode::Disable {
            RootCertStore::empty()
        } else {
            roots(own.root.as_deref())?
        };
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::Invalid(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            location,
            lease: own.lease,
            lock: ProcessLock::drawn()?,
            live: options.live.clone(),
            make: options.make,
            connections_max: own.connections_max,
            config,
            tls: MakeRustlsConnect::new(tls),
        })
    }

    /// Opens a separate connection, with the future that must be polled to keep it alive.
    pub(super) async fn connect(&self) -> Result<Connected, Failure> {
        Ok(connect(&self.config, &self.tls, &self.first()).await?)
    }

    /// The SQL that is sent first on each connection. Poolers reject settings in the startup message, or silently drop
    /// them.
    fn first(&self) -> String {
        // Folio's tables have a schema of their own, beside whatever else is in the database.
        format!(
            "SET search_path = folio; SET jit = off; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SELECT pg_try_advisory_lock_shared({})",
            WAIT_TIMEOUT.as_millis(),
            IDLE_IN_TRANSACTION.as_millis(),
            self.lock.0
        )
    }

    /// The pools of connections to read and to write with.
    pub(super) fn pools(&self) -> Result<(Pool, Pool), StoreError> {
        let readers = self.connections_max.max(CONNECTIONS_MIN) - WRITERS;
        Ok((self.pool(readers)?, self.pool(WRITERS)?))
    }

    fn pool(&self, size: usize) -> Result<Pool, StoreError> {
        let settings = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let connector = Connector {
            tls: self.tls.clone(),
            first: self.first(),
        };
        let manager = Manager::from_connect(self.config.clone(), connector, settings);
        Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            // How long a new connection takes is limited for each address.
            .wait_timeout(Some(WAIT_TIMEOUT))
            .build()
            .map_err(|error| StoreError::Unavailable {
                doing: "open",
                location: self.location.clone(),
                reason: "no connection pool can be created".to_owned(),
                source: Some(Box::new(error)),
            })
    }
}

/// The settings of a URL that are only for this program, and the rest of the URL.
struct Own {
    rest: String,
    root: Option<String>,
    lease: Duration,
    connections_max: usize,
    /// Whether the URL sets the TCP keepalive idle time. The driver does not tell that apart from its own default.
    says_idle: bool,
}

impl Own {
    fn of(options: &OpenOptions) -> Result<Self, StoreError> {
        let mut own = Self {
            rest: options.url.clone(),
            root: None,
            lease: options.lease,
            connections_max: options.connections_max,
            says_idle: false,
        };
        let Some((address, settings)) = options.url.split_once('?') else {
            return Ok(own);
        };
        let mut rest = Vec::new();
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                Some(("sslrootcert", path)) => own.root = Some(path.to_owned()),
                // Certificates are always verified, so these mean the same as `require`.
                Some(("sslmode", "verify-ca" | "verify-full")) => rest.push("sslmode=require"),
                Some(("lease", seconds)) => own.lease = lease(seconds)?,
                Some(("connections", max_text)) => own.connections_max = connections(max_text)?,
                Some(("keepalives_idle", _)) => {
                    own.says_idle = true;
                    rest.push(setting);
                }
                _ => rest.push(setting),
            }
        }
        own.rest = format!("{address}?{}", rest.join("&"));
        if own.root.as_deref().is_some_and(|root| root.contains('%')) {
            let reason = "the path after sslrootcert= in the store URL must not have percent signs".to_owned();
            return Err(StoreError::Invalid(reason));
        }
        Ok(own)
    }
}

/// What is wrong with a URL, without quoting it, because it may contain a password.
fn unreadable(url: &str) -> StoreError {
    let settings = url.split_once('?').map_or("", |(_, settings)| settings);
    let is_wrong = |setting: &&str| Config::from_str(&format!("postgres://h/d?{setting}")).is_err();
    // If an `@` follows, the question mark may belong to a password.
    let wrong = settings.split('&').find(is_wrong).filter(|_| !settings.contains('@'));
    let name = wrong.and_then(|setting| Some(setting.split_once('=')?.0));
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    StoreError::Invalid(match name.filter(is_name) {
        Some(name) => {
            format!(
                "{name}= in the store URL is not a setting, or its value is invalid; docs/postgres.md lists the settings"
            )
        }
        None => {
            let form = "postgres://USER:PASSWORD@HOST:PORT/DATABASE";
            format!("the store URL cannot be read; it has the form {form}")
        }
    })
}

/// A lease that is long enough to be renewed in time, and short enough that somebody can wait for its end.
fn lease(seconds: &str) -> Result<Duration, StoreError> {
    let seconds = seconds.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        let reason = "lease= in the store URL must be a number of seconds from 1 to 3600";
        StoreError::Invalid(reason.to_owned())
    })
}

fn connections(max_text: &str) -> Result<usize, StoreError> {
    let max = max_text
        .parse()
        .ok()
        .filter(|max| (CONNECTIONS_MIN..=1_000).contains(max));
    max.ok_or_else(|| {
        let reason = format!("connections= in the store URL must be a number from {CONNECTIONS_MIN} to 1000");
        StoreError::Invalid(reason)
    })
}

/// The trusted root certificates: those in the file at `path`, or those of the system.
fn roots(path: Option<&str>) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    match path {
        Some(path) => {
            let unreadable =
                |why: String| StoreError::Invalid(format!("the certificates in {path} cannot be read: {why}"));
            let found = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
        }
        None => {
            // A system without any can still connect without TLS.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// Where the database is, without user and password.
fn location(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        let ports = config.get_ports();
        match ports.get(index).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    });
    let hosts: Vec<_> = hosts.collect();
    format!(
        "postgres://{}/{}",
        hosts.join(","),
        config.get_dbname().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn target(url: &str) -> Result<Target, StoreError> {
        Target::of(&OpenOptions::at(url))
    }

    #[test]
    fn location_and_errors_reveal_neither_user_nor_password() {
        let found = target("postgres://me:hunter2@db.example:5433/memory?sslmode=disable").unwrap();
        assert_eq!(found.location, "postgres://db.example:5433/memory");
        let options = OpenOptions::at("postgres://me:hunter2@db/x");
        assert!(!format!("{found:?} {options:?}").contains("hunter2"));
        for wrong in [
            "postgres://me:hunter2@db/x?what=hunter2",
            "postgres://me:hunter2@db",
            "postgres://me:hunter2@db:port/x",
        ] {
            let error = target(wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn error_names_the_unreadable_url_setting() {
        for (settings, name) in [
            ("sslmode=disable&what=1", "what= "),
            ("sslmode=never", "sslmode= "),
            ("connect_timeout=soon&sslmode=disable", "connect_timeout= "),
        ] {
            let error = target(&format!("postgres://me:hunter2@db/x?{settings}")).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        // The question mark may be one of a password.
        let error = unreadable("postgres://me:a?hunter2=b@db:port/x");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn url_sets_lease_and_connection_limit() {
        let found = target("postgres://db/x?lease=2&sslmode=disable&connections=40").unwrap();
        assert_eq!((found.lease, found.connections_max), (Duration::from_secs(2), 40));
        let usual = target("postgres://db/x?sslmode=disable").unwrap();
        assert_eq!((usual.lease, usual.connections_max), (Duration::from_secs(15), 16));
        for wrong in ["lease=0", "lease=soon", "connections=7", "connections=1001"] {
            let error = target(&format!("postgres://db/x?sslmode=disable&{wrong}")).unwrap_err();
            let (name, _) = wrong.split_once('=').unwrap();
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }

    #[test]
    fn url_sets_connect_and_keepalive_timeouts() {
        let times = |settings: &str| {
            let config = target(&format!("postgres://db/x?sslmode=disable{settings}"))
                .unwrap()
                .config;
            let [connect, user] = [config.get_connect_timeout(), config.get_tcp_user_timeout()];
            [connect.copied(), Some(config.get_keepalives_idle()), user.copied()].map(|time| time.unwrap().as_secs())
        };
        assert_eq!(times(""), [5, 20, 20]);
        assert_eq!(times("&connect_timeout=30"), [30, 20, 20]);
        assert_eq!(times("&keepalives_idle=7200&tcp_user_timeout=60"), [5, 7200, 60]);
        let probes = |settings: &str| {
            let config = target(&format!("postgres://db/x?sslmode=disable{settings}"))
                .unwrap()
                .config;
            let interval = config.get_keepalives_interval().unwrap().as_secs();
            (interval, config.get_keepalives_retries().unwrap())
        };
        assert_eq!(probes(""), (5, 3));
        assert_eq!(probes("&keepalives_interval=9&keepalives_retries=2"), (9, 2));
    }

    /// Takes connections and never says a word.
    async fn silent() -> (tokio::net::TcpListener, u16) {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        (silent, port)
    }

    #[tokio::test]
    async fn connecting_to_an_unresponsive_server_ends_after_the_connect_timeout() {
        let (_silent, port) = silent().await;
        let target = target(&format!(
            "postgres://me@127.0.0.1:{port}/x?sslmode=disable&connect_timeout=1"
        ))
        .unwrap();
        let Err(failure) = target.connect().await else {
            panic!("nobody answers");
        };
        assert!(failure.is_transient());
        let error = failure.into_error("open", "there");
        let cause = error.source().unwrap().source().unwrap().to_string();
        assert!(cause.contains("did not answer within 1 s"), "{cause}");
        let (readers, _) = target.pools().unwrap();
        assert!(readers.get().await.is_err());
    }

    #[tokio::test]
    async fn startup_message_carries_no_options_that_a_pooler_would_reject() {
        use tokio::io::AsyncReadExt as _;
        let (server, port) = silent().await;
        let target = target(&format!(
            "postgres://me@127.0.0.1:{port}/x?sslmode=disable&connect_timeout=1"
        ))
        .unwrap();
        let greeting = async {
            let (mut client, _) = server.accept().await.unwrap();
            let mut bytes = vec![0; 1_024];
            let read = client.read(&mut bytes).await.unwrap();
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        };
        let (_, greeting) = tokio::join!(target.connect(), greeting);
        assert!(
            greeting.contains("application_name") && !greeting.contains("options"),
            "{greeting:?}"
        );
    }

    #[tokio::test]
    async fn next_host_is_tried_after_an_unresponsive_one() {
        let (_silent, port) = silent().await;
        let (next, next_port) = silent().await;
        let hosts = format!("127.0.0.1:{port},127.0.0.1:{next_port}");
        let target = target(&format!("postgres://me@{hosts}/x?sslmode=disable&connect_timeout=1")).unwrap();
        let (_, tried) = tokio::join!(target.connect(), next.accept());
        tried.unwrap();
    }

    #[test]
    fn sslrootcert_file_is_read_only_when_tls_is_enabled() {
        let error = target("postgres://db/x?sslmode=verify-full&sslrootcert=/nowhere/ca.pem").unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        assert!(target("postgres://db/x?sslmode=disable&sslrootcert=/nowhere/ca.pem").is_ok());
    }
}
