//! Databases of a PostgreSQL that `./test` starts: one for each test.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names the server for tests, as a URL of somebody who may make databases.
pub const SERVER: &str = "FOLIO_TEST_POSTGRES";

/// A database of its own, gone when it is dropped.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Makes an empty one.
    ///
    /// # Panics
    ///
    /// If there is no server. Tests that need one are left out where none is named, so this is a mistake.
    #[must_use]
    pub fn fresh() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let server = server();
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run(&server, &format!("CREATE DATABASE {name}"));
        Self { server, name }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_for(&self.server)
    }

    /// Where it is for `user`, who has `password`.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let (_, place) = self.server.split_once('@').expect("a server with a user");
        self.url_for(&format!("postgres://{user}:{password}@{place}"))
    }

    /// What `psql` prints for `sql`, or what is wrong with it.
    ///
    /// # Errors
    ///
    /// What the server says.
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
        // A test that stops the server leaves it to whoever removes the whole of it.
        drop(ask(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name)));
    }
}

/// The server that `./test` has started.
///
/// # Panics
///
/// If none is named.
#[must_use]
pub fn server() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the script that runs them")]
    let named = std::env::var(SERVER);
    named.unwrap_or_else(|_| panic!("{SERVER} names no PostgreSQL: run ./test, which starts one"))
}

/// What `psql` prints for `sql` at `url`, or what is wrong with it.
///
/// # Errors
///
/// What the server says.
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
