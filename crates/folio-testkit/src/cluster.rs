//! PostgreSQL servers for a single test, to be killed, filled up and replaced.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The environment variable that names the folder for the files of test servers; the user that they run as must have
/// access.
pub const FOLDER: &str = "FOLIO_TEST_CLUSTERS";

/// A PostgreSQL server. It and its files are removed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    url: String,
}

/// Options for starting a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterOptions<'o> {
    /// Additional lines for its configuration.
    pub conf: &'o str,
    /// The size of a RAM disk for its files in MB; `None`: the usual folder for test files.
    pub disk_mb: Option<u32>,
}

impl Cluster {
    /// Creates a server and starts it.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed or does not start. Tests that need it are skipped where it is not installed.
    #[must_use]
    pub fn start(options: ClusterOptions<'_>) -> Self {
        let folder = folder();
        let mut command = script("start", &folder);
        command.env("FOLIO_CLUSTER_CONF", options.conf);
        if let Some(megabytes) = options.disk_mb {
            command.env("FOLIO_CLUSTER_MB", megabytes.to_string());
        }
        let url = done(command);
        Self { folder, url }
    }

    /// Creates a synchronous standby: it has everything that this server has acknowledged.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    #[must_use]
    pub fn standby(&self) -> Self {
        let folder = folder();
        let mut command = script("standby", &folder);
        command.arg(&self.folder);
        let url = done(command);
        self.ask("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.ask("SELECT pg_reload_conf()");
        Self { folder, url }
    }

    /// Its URL with the credentials of a superuser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its host and port.
    ///
    /// # Panics
    ///
    /// Never: every URL has one.
    #[must_use]
    pub fn address(&self) -> &str {
        let (_, place) = self.url.split_once('@').expect("a URL with a user");
        place.split_once('/').expect("a URL with a database").0
    }

    /// The folder with its files.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What `psql` prints for `sql`.
    ///
    /// # Panics
    ///
    /// If the server reports an error.
    pub fn ask(&self, sql: &str) -> String {
        crate::postgres::ask(&self.url, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// A command that runs `program` as the user of the server.
    #[must_use]
    pub fn at(&self, program: &str) -> Command {
        let mut command = script("at", &self.folder);
        command.arg(program);
        command
    }

    /// Kills all of its processes, like `kill -9`.
    pub fn kill(&self) {
        done(script("kill", &self.folder));
    }

    /// Starts it again with its existing files.
    pub fn start_again(&self) {
        done(script("again", &self.folder));
    }

    /// Copies its files as they are now; it is killed and started again for that.
    ///
    /// # Panics
    ///
    /// If they cannot be copied.
    #[must_use]
    pub fn copy(&self) -> ClusterCopy<'_> {
        self.kill();
        let copy = ClusterCopy(self);
        copy.run("cp", &["-a", "data", "copy"]);
        self.start_again();
        copy
    }

    /// Promotes a standby to a primary.
    pub fn promote(&self) {
        done(script("promote", &self.folder));
    }
}

/// A copy of the files of a server.
#[derive(Debug)]
pub struct ClusterCopy<'c>(&'c Cluster);

impl ClusterCopy<'_> {
    /// Kills the server, and starts it with the copy in place of its files: what it has written since is lost.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn replace(self) {
        self.0.kill();
        self.run("rm", &["-r", "data"]);
        self.run("mv", &["copy", "data"]);
        self.0.start_again();
    }

    /// Runs `program` with flags, and with files in the folder of the server.
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = self.0.at(program);
        for argument in arguments {
            match *argument {
                file @ ("data" | "copy") => command.arg(self.0.folder.join(file)),
                flag => command.arg(flag),
            };
        }
        done(command);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // If this fails, whoever started the tests stops it.
        drop(script("stop", &self.folder).output());
    }
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let parent = std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("folio-cluster-{}-{number}", std::process::id()))
}

fn script(action: &str, folder: &Path) -> Command {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/postgres/cluster.sh");
    let mut command = Command::new(path);
    command.arg(action).arg(folder);
    command
}

fn done(mut command: Command) -> String {
    let done = command.output().expect("a script that can be started");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}
