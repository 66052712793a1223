//! Turns errors of PostgreSQL into messages that people understand.

use std::time::Duration;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{Severity, SqlState};

use super::patience::Wait;
use crate::error::StoreError;
pub(super) use crate::error::not_found;

/// Why a step of the shared store failed, before the caller adds what the step belonged to.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call is refused. Nothing was written for it.
    Refused(StoreError),
    /// An error of the server, or it could not be asked.
    Sql(tokio_postgres::Error),
    /// No connection was available.
    Pool(PoolError),
    /// Something that was read cannot be right.
    Damaged(String),
    /// The server has not been reached for this long, so it was not tried again.
    Away(Duration),
    /// The server has stopped answering on a connection that is there.
    Silent,
    /// Another transaction had locked what the operation needs for as long as it could wait.
    Locked {
        /// What was locked.
        lock: Lock,
        /// How long the operation had taken by then.
        waited: Duration,
        /// The error of the server.
        source: tokio_postgres::Error,
    },
    /// All connections were used by others for as long as the operation could wait.
    Busy {
        /// How long the operation had taken by then.
        waited: Duration,
    },
}

/// What another transaction has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lock {
    /// A space, by a writer of it.
    Space,
    /// A row of this table.
    Row(String),
    /// Something that the server does not name, or not in English.
    Other,
}

impl Lock {
    /// What `error` says about the lock that was waited for.
    fn of(error: &tokio_postgres::Error) -> Self {
        // "while updating tuple (0,1) in relation "run"": the server says it nowhere else.
        let context = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default();
        let named = context.lines().find_map(|line| line.split_once(" in relation \""));
        match named.and_then(|(_, rest)| rest.split_once('"')) {
            Some((table, _)) => Self::Row(table.to_owned()),
            None => Self::Other,
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Space => "another writer of this space to end its transaction".to_owned(),
            Self::Row(table) => format!("another transaction that has locked a row of the table {table}"),
            Self::Other => {
                "another transaction, or something that has locked a table, as CREATE INDEX and VACUUM FULL do"
                    .to_owned()
            }
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Sql(error),
            error => Self::Pool(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// Whether another connection, now or in a moment, may succeed: the server went away, is starting, or is not the
    /// one that writes.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Sql(error) => match error.code() {
                Some(code) => {
                    [
                        SqlState::ADMIN_SHUTDOWN,
                        SqlState::CRASH_SHUTDOWN,
                        SqlState::CANNOT_CONNECT_NOW,
                        SqlState::READ_ONLY_SQL_TRANSACTION,
                        SqlState::T_R_DEADLOCK_DETECTED,
                        SqlState::T_R_SERIALIZATION_FAILURE,
                        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                        SqlState::IDLE_SESSION_TIMEOUT,
                        SqlState::TOO_MANY_CONNECTIONS,
                    ]
                    .contains(code)
                        || code.code().starts_with("08")
                        || is_lost_session(error)
                }
                None => is_connection(error) && tls_reason(error).is_none(),
            },
            Self::Silent => true,
            Self::Refused(_)
            | Self::Pool(_)
            | Self::Damaged(_)
            | Self::Away(_)
            | Self::Locked { .. }
            | Self::Busy { .. } => false,
        }
    }

    /// Whether the connections that are there may be of no use any more, although they are not closed: the server does
    /// not answer on them, or has lost what this program has set up on them.
    pub(super) fn is_of_useless_connection(&self) -> bool {
        match self {
            Self::Sql(error) => is_lost_session(error),
            Self::Silent => true,
            _ => false,
        }
    }

    /// Whether what others have locked, or the connections that they use, kept the operation waiting for too long.
    pub(super) fn is_waited_out(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Busy { .. })
    }

    /// The failure of an operation that waited as `wait` says: of one that waited for others in vain, it says how long,
    /// and for what.
    pub(super) fn after_waiting(self, wait: Wait) -> Self {
        let waited = wait.waited();
        match self {
            Self::Sql(source) if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Self::Locked {
                lock: Lock::of(&source),
                waited,
                source,
            },
            Self::Pool(PoolError::Timeout(TimeoutType::Wait)) => Self::Busy { waited },
            other => other,
        }
    }

    /// The same, of the statement that locks a space. Its time is limited as a whole as well ([`super::session`]).
    pub(super) fn after_waiting_for_space(self, wait: Wait) -> Self {
        let waited = wait.waited();
        match self {
            Self::Sql(source)
                if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
                    || source.code() == Some(&SqlState::QUERY_CANCELED) && wait.is_over() =>
            {
                Self::Locked {
                    lock: Lock::Space,
                    waited,
                    source,
                }
            }
            other => other,
        }
    }

    /// Whether this tells that the server is away: nobody answers, or only to say that it is stopping or starting.
    pub(super) fn is_loss(&self) -> bool {
        let is_away = |code: &SqlState| {
            let away = [
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::CANNOT_CONNECT_NOW,
            ];
            away.contains(code) || code.code().starts_with("08")
        };
        match self {
            Self::Sql(error) => error.code().map_or_else(|| self.is_transient(), is_away),
            Self::Silent => true,
            _ => false,
        }
    }

    /// Whether the server itself has given this answer, so that it is there.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code().is_some()) && !self.is_loss()
            || matches!(self, Self::Locked { .. })
    }

    /// Whether the server takes no more connections.
    pub(super) fn is_too_many(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS))
    }

    /// Whether the server itself rejected the statement, so that nothing of the transaction is written.
    ///
    /// An error that ends the connection may come from a pooler that lost its server: as the answer to the first open
    /// statement, whatever the server has done with it and with all that was sent after it. A server that ends the
    /// connection by itself gives a reason of its own.
    pub(super) fn is_refusal(error: &tokio_postgres::Error) -> bool {
        let of_server = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        error.as_db_error().is_some_and(|db_error| {
            let code = db_error.code();
            let ends_session = db_error.parsed_severity() != Some(Severity::Error) && db_error.severity() != "ERROR";
            !code.code().starts_with("08") && (!ends_session || of_server.contains(code))
        })
    }

    /// Whether the server is read-only, or the role in the URL may only read.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION))
    }

    /// The error for a caller that was `doing` something at `location`.
    pub(super) fn into_error(self, doing: &'static str, location: &str) -> StoreError {
        let location = location.to_owned();
        match self {
            Self::Refused(error) => error,
            Self::Sql(error) => explained(error, doing, location),
            Self::Pool(error) => {
                let reason = match &error {
                    PoolError::Timeout(_) => "the server does not answer",
                    _ => "no connection could be set up",
                };
                StoreError::Unavailable {
                    doing,
                    location,
                    reason: reason.to_owned(),
                    source: Some(Box::new(error)),
                }
            }
            Self::Damaged(reason) => StoreError::Corrupt {
                location,
                reason,
                source: None,
            },
            Self::Away(gone) => StoreError::Unavailable {
                doing,
                location,
                reason: format!(
                    "the server has not been reached for {} s; it is looked for all the time",
                    gone.as_secs()
                ),
                source: None,
            },
            Self::Silent => StoreError::Unavailable {
                doing,
                location,
                reason: "the server has stopped answering".to_owned(),
                source: None,
            },
            Self::Locked { lock, waited, source } => StoreError::Unavailable {
                doing,
                location,
                reason: format!("waited {} s for {}; try again", seconds(waited), lock.in_words()),
                source: Some(Box::new(source)),
            },
            Self::Busy { waited } => StoreError::Unavailable {
                doing,
                location,
                reason: format!(
                    "waited {} s for a connection, and others used all of them; try again, or allow more with \
                     connections=N in the store URL",
                    seconds(waited)
                ),
                source: None,
            },
        }
    }
}

/// The failure that `label` could not be read.
pub(super) fn damaged(label: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Damaged(format!("{label} cannot be read: {error}"))
}

/// A time for people, in seconds.
fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

/// Whether the session behind the connection is not the one that this program has set up: what was prepared there is
/// gone, or a transaction that was not begun here has failed there. As a rule, a pooler has put another connection in
/// its place. Nothing was written, and on a new connection it may succeed.
fn is_lost_session(error: &tokio_postgres::Error) -> bool {
    let Some(error) = error.as_db_error() else {
        return false;
    };
    let lost = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::IN_FAILED_SQL_TRANSACTION,
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
    ];
    // A migration has changed a table since the statement was prepared.
    let is_outdated = *error.code() == SqlState::FEATURE_NOT_SUPPORTED && error.message().contains("cached plan");
    lost.contains(error.code()) || is_outdated
}

/// Whether the connection is at fault, and not what was sent over it.
fn is_connection(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// What is wrong with the certificate of the server, or with its TLS, if that prevented the connection.
fn tls_reason(error: &tokio_postgres::Error) -> Option<&'static str> {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
        UnknownIssuer,
    };
    use std::error::Error as _;
    let broken = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    let refused = broken.and_then(|error| error.get_ref()?.downcast_ref::<rustls::Error>());
    Some(match refused {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            UnknownIssuer => {
                "its certificate is not signed by a trusted authority; sslrootcert=FILE in the URL names one to trust"
            }
            NotValidForName | NotValidForNameContext { .. } => "its certificate is for another host than the URL names",
            Expired | ExpiredContext { .. } => "its certificate has expired",
            NotValidYet | NotValidYetContext { .. } => "its certificate is not valid yet",
            _ => "its certificate is not valid",
        },
        Some(_) => "its TLS is faulty",
        // The driver has no own error for this.
        None if error
            .source()
            .is_some_and(|source| source.to_string().contains("does not support TLS")) =>
        {
            "the server does not offer TLS, which the URL requires"
        }
        None => return None,
    })
}

/// Why a login failed before the server answered. The driver tells these cases apart only by its messages.
fn login_reason(error: &tokio_postgres::Error) -> Option<&'static str> {
    use std::error::Error as _;
    let lacks_password = || {
        error
            .source()
            .is_some_and(|source| source.to_string() == "password missing")
    };
    match error.to_string().as_str() {
        "invalid configuration" if lacks_password() => {
            Some("the server asks for a password, but the store URL has none; PGPASSWORD and ~/.pgpass are not read")
        }
        "invalid configuration" => Some("the store URL lacks something that a connection needs"),
        "authentication error" => Some(
            "the server requires another way to log in than a password, or cannot prove that it knows the password",
        ),
        "error performing TLS handshake" => Some("no TLS connection could be negotiated with the server"),
        _ => None,
    }
}

fn explained(error: tokio_postgres::Error, doing: &'static str, location: String) -> StoreError {
    let Some(code) = error.code() else {
        let lost = "the connection to the server was lost, or could not be made; try again";
        let unavailable = tls_reason(&error)
            .or_else(|| login_reason(&error))
            .or_else(|| is_connection(&error).then_some(lost));
        if let Some(reason) = unavailable {
            return StoreError::Unavailable {
                doing,
                location,
                reason: reason.to_owned(),
                source: Some(Box::new(error)),
            };
        }
        let reason = format!("an answer of the server cannot be read: {error}");
        return StoreError::Corrupt {
            location,
            reason,
            source: Some(Box::new(error)),
        };
    };
    if [
        SqlState::UNTRANSLATABLE_CHARACTER,
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
    ]
    .contains(code)
    {
        return StoreError::Invalid("the database cannot store a character of the text".to_owned());
    }
    let reason = reason(code).map_or_else(|| reported(&error, code), str::to_owned);
    let is_corrupt = ["22", "23", "XX"].iter().any(|class| code.code().starts_with(class));
    // The server's message about a login names the user, and others may know only what Folio says about it. The
    // server's log has the rest.
    let names_user = code.code().starts_with("28") || *code == SqlState::TOO_MANY_CONNECTIONS;
    let source = (!names_user).then(|| Box::new(error) as _);
    if is_corrupt {
        StoreError::Corrupt {
            location,
            reason,
            source,
        }
    } else {
        StoreError::Unavailable {
            doing,
            location,
            reason,
            source,
        }
    }
}

/// The words of the server, if Folio has none of its own.
fn reported(error: &tokio_postgres::Error, code: &SqlState) -> String {
    let message = error.as_db_error().map_or("no message", |error| error.message());
    format!(
        "the server reports SQLSTATE {}: {message}; its log may tell more",
        code.code()
    )
}

const NO_TABLES: &str = "tables are missing; open the store once with the role that owns it. If it has them, a pooler \
                         between this program and the server has to pool sessions, not transactions (docs/postgres.md)";
const LOST_SESSION: &str = "the connection lost what was set up on it; a pooler between this program and the server has \
                            to pool sessions, not transactions (docs/postgres.md); try again";

fn reason(code: &SqlState) -> Option<&'static str> {
    let known = [
        (
            SqlState::DISK_FULL,
            "the disk of the server is full; free some space and try again",
        ),
        (SqlState::OUT_OF_MEMORY, "the server is out of memory"),
        (
            SqlState::TOO_MANY_CONNECTIONS,
            "the server takes no more connections; try again, or allow more of them",
        ),
        (
            SqlState::ADMIN_SHUTDOWN,
            "the server was shut down; try again when it is up",
        ),
        (
            SqlState::CRASH_SHUTDOWN,
            "the server had to restart; try again in a moment",
        ),
        (
            SqlState::CANNOT_CONNECT_NOW,
            "the server is starting or stopping; try again in a moment",
        ),
        (
            SqlState::READ_ONLY_SQL_TRANSACTION,
            "the server is read-only (a standby, perhaps), or the role of the URL may only read; name a server and a role that can write",
        ),
        (SqlState::INVALID_PASSWORD, "the server does not accept the password"),
        (
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "the server does not accept this user, from this machine or without TLS; its log says which",
        ),
        (
            SqlState::INVALID_CATALOG_NAME,
            "there is no such database; create it with createdb",
        ),
        (
            SqlState::INSUFFICIENT_PRIVILEGE,
            "the role of the URL may not do that; see docs/postgres.md for what it needs",
        ),
        (
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "this program blocked other writers for five seconds and was disconnected; try again",
        ),
        (
            SqlState::QUERY_CANCELED,
            "it took longer than the server allows; try again",
        ),
        (SqlState::INVALID_SQL_STATEMENT_NAME, LOST_SESSION),
        (SqlState::DUPLICATE_PSTATEMENT, LOST_SESSION),
        (SqlState::IN_FAILED_SQL_TRANSACTION, LOST_SESSION),
        (SqlState::NO_ACTIVE_SQL_TRANSACTION, LOST_SESSION),
        (SqlState::UNDEFINED_TABLE, NO_TABLES),
        (SqlState::UNDEFINED_FUNCTION, NO_TABLES),
        (SqlState::INVALID_SCHEMA_NAME, NO_TABLES),
        (
            SqlState::IDLE_SESSION_TIMEOUT,
            "the server ended the connection because it was idle; try again",
        ),
        (
            SqlState::DATABASE_DROPPED,
            "the database was dropped; restore it from a backup, or name another one",
        ),
        (
            SqlState::IO_ERROR,
            "the server cannot read or write its files; see its log",
        ),
        (
            SqlState::T_R_DEADLOCK_DETECTED,
            "another transaction locked the same rows in another order, again and again; try again",
        ),
    ];
    if let Some((_, reason)) = known.iter().find(|(known, _)| known == code) {
        return Some(reason);
    }
    Some(match code.code().get(..2)? {
        "22" | "23" => "its rows contradict each other; run the doctor",
        "XX" => "the server reports damage; restore it from a backup",
        "08" => "the connection to the server was lost, or could not be made; try again",
        "53" => "the server lacks something that it needs; see its log",
        _ => return None,
    })
}
