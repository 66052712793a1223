//! Turns errors of PostgreSQL into messages that people understand.

use std::time::Duration;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::{Severity, SqlState};

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
                        SqlState::TOO_MANY_CONNECTIONS,
                    ]
                    .contains(code)
                        || code.code().starts_with("08")
                }
                None => is_connection(error) && tls_reason(error).is_none(),
            },
            Self::Silent => true,
            Self::Refused(_) | Self::Pool(_) | Self::Damaged(_) | Self::Away(_) => false,
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
            Self::Refused(_) | Self::Pool(_) | Self::Damaged(_) | Self::Away(_) => false,
        }
    }

    /// Whether the server itself has given this answer, so that it is there.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Sql(error) if error.code().is_some()) && !self.is_loss()
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
                    PoolError::Timeout(TimeoutType::Wait) => {
                        "all connections were busy for ten seconds; try again, or allow more of them"
                    }
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
        }
    }
}

/// The failure that `label` could not be read.
pub(super) fn damaged(label: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Damaged(format!("{label} cannot be read: {error}"))
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
    let reason = reason(code);
    let is_corrupt = ["22", "23", "XX"].iter().any(|class| code.code().starts_with(class));
    let reason = reason.to_owned();
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

fn reason(code: &SqlState) -> &'static str {
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
        (
            SqlState::LOCK_NOT_AVAILABLE,
            "another transaction kept a row locked for ten seconds; try again",
        ),
        (
            SqlState::UNDEFINED_TABLE,
            "tables are missing; open the store once with the role that owns it",
        ),
    ];
    if let Some((_, reason)) = known.iter().find(|(known, _)| known == code) {
        return reason;
    }
    match code.code().get(..2) {
        Some("22" | "23") => "its rows contradict each other; run the doctor",
        Some("XX") => "the server reports damage; restore it from a backup",
        Some("08") => "the connection to the server was lost, or could not be made; try again",
        Some("53") => "the server lacks something that it needs; see its log",
        _ => "the server reports a fault",
    }
}
