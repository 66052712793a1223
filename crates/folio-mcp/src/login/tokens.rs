//! Stores the tokens of a server, in a file that only its owner can read.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

/// The most bytes of the file that are read.
const BYTES_MAX: u64 = 256 * 1024;
/// How often to retry while another process renews the tokens, and the pause between.
const LOCK_TRIES_MAX: u32 = 1_000;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The token file of one server.
#[derive(Debug, Clone)]
pub(super) struct TokenFile {
    file: PathBuf,
    /// The server whose tokens they are: those of another one are never sent to it.
    url: String,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    url: String,
    credentials: StoredCredentials,
}

impl TokenFile {
    pub(super) fn new(file: PathBuf, url: String) -> Self {
        Self { file, url }
    }

    fn read(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let about = match std::fs::metadata(&self.file) {
            Ok(about) => about,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.file_error("be read", error)),
        };
        if about.len() > BYTES_MAX {
            return Err(self.file_error("be read", format!("it has {} bytes", about.len())));
        }
        let text = std::fs::read(&self.file).map_err(|error| self.file_error("be read", error))?;
        // The parse error is dropped, since it might quote part of the content.
        let kept: Kept = serde_json::from_slice(&text).map_err(|_| self.file_error("be read", "it holds no tokens"))?;
        Ok((kept.url == self.url).then_some(kept.credentials))
    }

    fn write(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = Kept {
            url: self.url.clone(),
            credentials,
        };
        let text = serde_json::to_vec(&kept).map_err(|error| self.file_error("be written", error))?;
        self.replace(&text)
            .map_err(|error| self.file_error("be written", error))
    }

    /// Replaces the file atomically: renewing tokens invalidates the old ones, so both would be lost.
    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(text)?;
        new.as_file().sync_all()?;
        new.persist(&self.file)?;
        Ok(())
    }

    fn remove(&self) -> Result<(), AuthError> {
        match std::fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.file_error("be deleted", error)),
            _ => Ok(()),
        }
    }

    fn lock_file(&self) -> std::io::Result<File> {
        let mut name = self.file.clone().into_os_string();
        name.push(".lock");
        File::options().create(true).append(true).open(name)
    }

    fn file_error(&self, verb: &str, reason: impl std::fmt::Display) -> AuthError {
        AuthError::CredentialStoreError(format!("the tokens in {} cannot {verb}: {reason}", self.file.display()))
    }
}

#[async_trait]
impl CredentialStore for TokenFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let this = self.clone();
        let stored = run_blocking(move || this.read()).await?;
        Ok(stored.map(|stored| with_plausible_age(stored, seconds_since_epoch())))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let this = self.clone();
        run_blocking(move || this.write(credentials)).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let this = self.clone();
        run_blocking(move || this.remove()).await
    }

    /// Renewing tokens invalidates the old ones, so only one of several processes may renew them.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let lock = self.lock_file().map_err(|error| self.file_error("be locked", error))?;
        for _ in 0..LOCK_TRIES_MAX {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(lock))),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(self.file_error("be locked", error)),
            }
        }
        Err(self.file_error("be locked", "another process renews them and does not end"))
    }
}

/// Tokens that seem to come from the future were received while the clock was ahead. Nobody knows how old they are, so
/// they count as old and are renewed.
fn with_plausible_age(mut stored: StoredCredentials, now: u64) -> StoredCredentials {
    stored.token_received_at = stored.token_received_at.map(|at| if at > now { 0 } else { at });
    stored
}

#[expect(clippy::disallowed_methods, reason = "rmcp goes by this clock")]
fn seconds_since_epoch() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AuthError> + Send + 'static,
) -> Result<T, AuthError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(AuthError::CredentialStoreError(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_received_while_the_clock_was_ahead_count_as_old() {
        let received = |at| {
            let stored = StoredCredentials::new("folio".to_owned(), None, Vec::new(), at);
            with_plausible_age(stored, 1_000).token_received_at
        };
        assert_eq!(received(Some(1_001)), Some(0));
        assert_eq!(received(Some(1_000)), Some(1_000));
        assert_eq!(received(None), None);
    }
}
