//! Databases on a PostgreSQL server that `./test` starts: one for each test.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable with the URL of the test server, with a user that may create databases.
pub const SERVER: &str = "FOLIO_TEST_POSTGRES";

/// A database for a single test, removed when this is dropped.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Creates an empty database.
    ///
    /// # Panics
    ///
    /// If there is no server. Tests that need one are skipped where none is configured, so this is a mistake.
    #[must_use]
    pub fn fresh() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server();
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run(&server, &format!("CREATE DATABASE {name}"));
        Self { server, name }
    }

    /// The URL of the database.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_for(&self.server)
    }

    /// The URL of the database for `user` with `password`.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let (_, place) = self.server.split_once('@').expect("a server with a user");
        self.url_for(&format!("postgres://{user}:{password}@{place}"))
    }

    /// What `psql` prints for `sql`, or the error.
    ///
    /// # Errors
    ///
    /// The server's message.
    pub fn ask(&self, sql: &str) -> Result<String, String> {
        ask(&self.url(), sql)
    }

    fn url_for(&self, server: &str) -> String {
        let (place, settings) = server.split_once('?').unwrap_or((server, ""));
        let (host, _) = place.rsplit_once('/').expect("a server with a database");
        format!("{host}/{}?{settings}", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // If a test has stopped the server, the database is removed with the whole server.
        drop(ask(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name)));
    }
}

/// The server that `./test` has started.
///
/// # Panics
///
/// If none is configured.
#[must_use]
pub fn server() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the script that runs them")]
    let named = std::env::var(SERVER);
    named.unwrap_or_else(|_| panic!("{SERVER} names no PostgreSQL: run ./test, which starts one"))
}

/// What `psql` prints for `sql` at `url`, or the error.
///
/// # Errors
///
/// The server's message.
pub fn ask(url: &str, sql: &str) -> Result<String, String> {
    let done = Command::new("psql")
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .env("PGOPTIONS", "-c search_path=folio,public")
        .output()
        .map_err(|error| error.to_string())?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).trim().to_owned())
    }
}

fn run(url: &str, sql: &str) {
    if let Err(error) = ask(url, sql) {
        panic!("{sql}: {error}");
    }
}
