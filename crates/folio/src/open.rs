//! Opens the store at a URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{ErrorKind, OUTBOX_SUFFIX, PostgresStore, Store, StoreError, postgres};

/// Why a store could not be opened. Contains only the scheme of the URL: the rest may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL has no scheme, like a path.
    #[error("{given:?} does not begin with a kind of store and a colon")]
    NoScheme {
        /// The whole text: without a colon it contains no password.
        given: String,
    },
    /// The scheme of the URL is unknown.
    #[error("{scheme:?} is not a kind of store")]
    UnknownScheme {
        /// The text before the first colon.
        scheme: String,
    },
    /// The URL of a file store has no path.
    #[error("the store URL names no file")]
    NoPath,
    /// The path of a file store begins at the home folder as in a shell, and no shell has replaced that.
    #[error("only a shell replaces the `~` at the beginning of {path}")]
    Home {
        /// The path.
        path: String,
    },
    /// The URL of a file store has settings after a question mark, like those of other kinds of stores.
    #[error(
        "the URL of a store in a file takes no settings, and there is no file whose name includes the question mark"
    )]
    NoSettings,
    /// The URL of a store in memory names something, as if it were a file.
    #[error("a store in memory has no name: its URL is `memory:`")]
    InMemory,
    /// The store does not exist, and was not to be created.
    #[error("there is no {what} {place}")]
    NotThere {
        /// `file`, `store in the empty file`, or `store in the database`.
        what: &'static str,
        /// Its location, without a password.
        place: String,
    },
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    /// The stable name of this error, which every surface shows.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoScheme { .. }
            | Self::UnknownScheme { .. }
            | Self::NoPath
            | Self::Home { .. }
            | Self::NoSettings
            | Self::InMemory => "store_url_invalid",
            Self::NotThere { .. } => "not_found",
            Self::Store(error) => error.code(),
        }
    }

    /// What the caller should do next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotThere { .. } => ErrorKind::NotFound,
            Self::Store(error) => error.kind(),
            _ => ErrorKind::Invalid,
        }
    }
}

/// The outbox of the store at `url`: beside it, if it is a file. If that is a link to another file, beside that one:
/// all who use the file share the outbox.
pub(crate) fn outbox_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() {
        return None;
    }
    let file = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let mut outbox = file.into_os_string();
    outbox.push(OUTBOX_SUFFIX);
    Some(outbox.into())
}

/// Calls [`open`] on a separate thread, where it may block on disks and servers.
pub(crate) async fn open_on_thread(url: &str, may_create: bool) -> Result<Arc<dyn Store>, OpenError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        // Without a runtime the caller's own thread has to do.
        return open(url, may_create);
    };
    let (answer, opened) = tokio::sync::oneshot::channel();
    let owned = url.to_owned();
    // A separate thread rather than one of the runtime, which panics if it cannot start one.
    let thread = std::thread::Builder::new()
        .name("folio-open".to_owned())
        .spawn(move || {
            let _entered = runtime.enter();
            // The caller may no longer wait for it.
            drop(answer.send(open(&owned, may_create)));
        });
    let thread = thread.map_err(|error| StoreError::Unavailable {
        doing: "open",
        location: "a store".to_owned(),
        reason: format!("no thread can be started: {error}"),
        source: Some(Box::new(error)),
    })?;
    match opened.await {
        Ok(opened) => opened,
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a thread that ends has answered"),
        },
    }
}

/// Opens the store at `url`; creates it if it does not exist and `may_create` is true.
pub(crate) fn open(url: &str, may_create: bool) -> Result<Arc<dyn Store>, OpenError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(OpenError::NoScheme { given: url.to_owned() });
    };
    match scheme {
        // Other programs write `sqlite:///absolute`.
        "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
            "" => Err(OpenError::NoPath),
            // It would be a folder with this name below the current one.
            path if path == "~" || path.starts_with("~/") => Err(OpenError::Home { path: path.to_owned() }),
            // Other programs would read settings here, and nobody wants a file with such a name.
            path if path.contains('?') && is_missing(path) => Err(OpenError::NoSettings),
            path if !may_create && is_missing(path) => Err(OpenError::NotThere {
                what: "file",
                place: path.to_owned(),
            }),
            path if !may_create && is_empty(path) => Err(OpenError::NotThere {
                what: "store in the empty file",
                place: path.to_owned(),
            }),
            path => Ok(SqliteStore::open(&OpenOptions {
                reads_if_full: !may_create,
                ..OpenOptions::at(path)
            })?),
        },
        "memory" if !rest.is_empty() => Err(OpenError::InMemory),
        "memory" => Ok(SqliteStore::open(&OpenOptions::in_memory())?),
        "postgres" | "postgresql" => {
            let options = postgres::OpenOptions {
                make: may_create,
                ..postgres::OpenOptions::at(url)
            };
            match PostgresStore::open(&options) {
                Ok(store) => Ok(store),
                Err(StoreError::NotFound { name, .. }) => Err(OpenError::NotThere {
                    what: "store in the database",
                    place: name,
                }),
                Err(error) => Err(error.into()),
            }
        }
        _ => Err(OpenError::UnknownScheme {
            scheme: scheme.to_owned(),
        }),
    }
}

/// Whether there is no file at `path`. Without permission to look, this is false, and opening the file reports the
/// reason.
fn is_missing(path: &str) -> bool {
    matches!(Path::new(path).try_exists(), Ok(false))
}

/// Whether the file at `path` is empty and belongs to no store: whoever only reads makes none of it.
fn is_empty(path: &str) -> bool {
    let is_empty = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    is_empty && is_missing(&format!("{path}-wal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_error_does_not_reveal_the_password_of_a_url() {
        // That of a server that cannot be reached is only given up after ten seconds; the program's tests have that case.
        for url in [
            "postgres://me:hunter2@127.0.0.1",
            "postgres://me:hunter2@db/x?what=hunter2",
            "mysql://me:hunter2@db/x",
            "sqlite:",
            "folio.db",
            "",
        ] {
            let error = open(url, true).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn open_error_says_what_to_do_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        std::fs::write(
            folder.path().join("none.db"),
            "no database, but a text that is long enough",
        )
        .unwrap();
        std::fs::write(folder.path().join("folder"), "").unwrap();
        for (url, may_create, code, kind) in [
            ("folio.db".to_owned(), true, "store_url_invalid", ErrorKind::Invalid),
            ("mysql:x".to_owned(), true, "store_url_invalid", ErrorKind::Invalid),
            (file("gone.db"), false, "not_found", ErrorKind::NotFound),
            (
                file("folder/folio.db"),
                true,
                "store_unavailable",
                ErrorKind::Unavailable,
            ),
            (file("none.db"), true, "store_damaged", ErrorKind::Corrupt),
        ] {
            let error = open(&url, may_create).unwrap_err();
            assert_eq!((error.code(), error.kind()), (code, kind), "{url}: {error}");
        }
    }

    #[test]
    fn sqlite_url_is_accepted_with_and_without_slashes() {
        let folder = tempfile::tempdir().unwrap();
        for prefix in ["sqlite:", "sqlite://"] {
            let path = folder.path().join("a/folio.db");
            let url = format!("{prefix}{}", path.display());
            assert!(matches!(open(&url, false), Err(OpenError::NotThere { .. })) || path.exists());
            let store = open(&url, true).unwrap();
            assert_eq!(store.location(), path.display().to_string());
        }
    }

    #[test]
    fn empty_file_becomes_a_store_only_if_one_may_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        std::fs::write(&path, "").unwrap();
        let url = format!("sqlite:{}", path.display());
        let error = open(&url, false).unwrap_err();
        assert!(matches!(error, OpenError::NotThere { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("there is no store in the empty file {}", path.display())
        );
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        open(&url, true).unwrap();
    }

    #[test]
    fn inaccessible_file_is_reported_as_unavailable_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let circle = folder.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        for name in ["folio.db", "folio.db?mode=ro"] {
            let url = format!("sqlite:{}", circle.join(name).display());
            let error = open(&url, false).unwrap_err();
            assert!(
                matches!(error, OpenError::Store(StoreError::Unavailable { .. })),
                "{error}"
            );
        }
    }

    #[test]
    fn sqlite_url_with_query_settings_is_refused_without_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db?mode=ro");
        let url = format!("sqlite:{}", path.display());
        assert!(matches!(open(&url, true), Err(OpenError::NoSettings)));
        assert!(!path.exists());
    }

    #[test]
    fn unrecognized_store_url_is_quoted_in_the_error() {
        let error = open("./folio.db", true).unwrap_err();
        assert!(error.to_string().contains("\"./folio.db\""), "{error}");
    }

    #[tokio::test]
    async fn opening_a_store_does_not_block_other_async_tasks() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        // The server of this test runs on the thread that waits for the store.
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://me@{}/x?sslmode=disable", server.local_addr().unwrap());
        let opening = tokio::spawn(async move { open_on_thread(&url, true).await });
        let (mut client, _) = server.accept().await.unwrap();
        let mut greeting = [0; 1_024];
        assert!(client.read(&mut greeting).await.unwrap() > 0);
        // The server requires Kerberos authentication.
        client.write_all(b"R\0\0\0\x08\0\0\0\x02").await.unwrap();
        let error = opening.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("another way to log in"), "{error}");
    }

    #[test]
    fn memory_url_opens_a_store_without_a_file() {
        assert_eq!(open("memory:", true).unwrap().location(), "memory:");
        // It would be lost, whatever it is called.
        assert!(matches!(open("memory:notes", true), Err(OpenError::InMemory)));
    }
}
