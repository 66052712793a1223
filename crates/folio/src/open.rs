//! From the URL of a store to the store.

use std::path::PathBuf;
use std::sync::Arc;

use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::OUTBOX_SUFFIX;
use folio_store::{PostgresStore, Store, StoreError, postgres};

/// Why a store could not be opened. Names the scheme only: the rest of a URL may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL has no scheme or none that is known.
    #[error("{}", unknown(scheme))]
    UnknownScheme {
        /// What stands before the first colon; empty if there is none.
        scheme: String,
    },
    /// The URL of a file without a path.
    #[error("the store URL names no file")]
    NoPath,
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn unknown(scheme: &str) -> String {
    match scheme {
        "" => "the store URL does not begin with a kind of store and a colon".to_owned(),
        scheme => format!("{scheme:?} is not a kind of store"),
    }
}

/// Where answers of tools wait when the store that `url` names cannot write: beside it, if it is a file.
pub(crate) fn outbox_of(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    (!path.is_empty()).then(|| PathBuf::from(format!("{path}{OUTBOX_SUFFIX}")))
}

pub(crate) fn open(url: &str) -> Result<Arc<dyn Store>, OpenError> {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    match scheme {
        // `sqlite:///absolute` is what other programs write.
        "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
            "" => Err(OpenError::NoPath),
            path => Ok(SqliteStore::open(&OpenOptions::at(path))?),
        },
        "memory" => Ok(SqliteStore::open(&OpenOptions::in_memory())?),
        "postgres" | "postgresql" => Ok(PostgresStore::open(&postgres::OpenOptions::at(url))?),
        _ => Err(OpenError::UnknownScheme {
            scheme: scheme.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_opened_is_refused_without_its_password() {
        for url in [
            "postgres://me:hunter2@127.0.0.1:1/x",
            "postgres://me:hunter2@127.0.0.1",
            "postgres://me:hunter2@db/x?what=hunter2",
            "mysql://me:hunter2@db/x",
            "sqlite:",
            "folio.db",
            "",
        ] {
            let error = open(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_file_is_named_with_or_without_slashes() {
        let folder = tempfile::tempdir().unwrap();
        for prefix in ["sqlite:", "sqlite://"] {
            let path = folder.path().join("a/folio.db");
            let store = open(&format!("{prefix}{}", path.display())).unwrap();
            assert_eq!(store.location(), path.display().to_string());
        }
    }

    #[test]
    fn a_store_in_memory_needs_no_file() {
        assert_eq!(open("memory:").unwrap().location(), "memory:");
    }
}
