//! Restate servers for a single test, to be killed, stopped and restarted; `./test` installs the program.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The environment variable with the path of the program.
pub const PROGRAM: &str = "FOLIO_TEST_RESTATE";

/// The private key of servers that sign their requests. It is not secret.
const PRIVATE_KEY: [&str; 4] = [
    "-----BEGIN PRIVATE KEY-----",
    "MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH",
    "-----END PRIVATE KEY-----",
    "",
];

/// How many times a server is polled until it answers, twenty times a second.
const ATTEMPTS: u32 = 1_800;
/// How often servers are started again if another program takes one of their ports first.
const STARTS: u32 = 5;
/// What a server logs in that case.
const PORT_TAKEN: &str = "Address in use";

/// A server, or several that form a cluster. They and their files are removed when this is dropped.
#[derive(Debug)]
pub struct Restate {
    nodes: Vec<Node>,
    _folder: TempDir,
}

#[derive(Debug)]
struct Node {
    child: Option<Child>,
    conf: PathBuf,
    ports: Ports,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    fabric: u16,
    ingress: u16,
    admin: u16,
}

impl Restate {
    /// Starts one server, which answers requests when this returns.
    ///
    /// # Panics
    ///
    /// If the program is not configured, or does not start. Tests that need it are skipped where it is missing, so this
    /// is a mistake.
    #[must_use]
    pub fn start() -> Self {
        Self::of(1)
    }

    /// Starts a cluster of three servers, which stores everything twice and continues without one of them.
    ///
    /// # Panics
    ///
    /// As [`Restate::start`].
    #[must_use]
    pub fn three() -> Self {
        Self::of(3)
    }

    /// Starts one server that signs its requests, and returns the public key to verify them.
    ///
    /// # Panics
    ///
    /// As [`Restate::start`].
    #[must_use]
    pub fn signing() -> (Self, String) {
        let restate = Self::with(1, true);
        let log = std::fs::read_to_string(restate.nodes[0].conf.with_extension("log")).expect("its log");
        let (_, named) = log.split_once("publickeyv1_").expect("the key that it signs with");
        let key: String = named.chars().take_while(char::is_ascii_alphanumeric).collect();
        (restate, format!("publickeyv1_{key}"))
    }

    fn of(count: usize) -> Self {
        Self::with(count, false)
    }

    fn with(count: usize, signs: bool) -> Self {
        for _ in 1..STARTS {
            match Self::begun(count, signs) {
                Ok(restate) => return restate,
                Err(log) => assert!(log.contains(PORT_TAKEN), "Restate does not start: {log}"),
            }
        }
        Self::begun(count, signs).unwrap_or_else(|log| panic!("Restate does not start: {log}"))
    }

    /// Starts servers and waits until they answer; otherwise returns the log of the first that does not.
    fn begun(count: usize, signs: bool) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key.pem");
        std::fs::write(&key, PRIVATE_KEY.join("\n")).expect("a file");
        let ports = Ports::free(count);
        let nodes = ports.iter().enumerate().map(|(number, own)| {
            let conf = folder.path().join(format!("node{number}.toml"));
            let mut text = settings(number, *own, &ports, &folder);
            if signs {
                writeln!(text, "request-identity-private-key-pem-file = {key:?}").expect("a text");
            }
            std::fs::write(&conf, text).expect("a file");
            Node {
                child: None,
                conf,
                ports: *own,
            }
        });
        let mut restate = Self {
            nodes: nodes.collect(),
            _folder: folder,
        };
        for number in 0..count {
            restate.begin(number);
        }
        for node in &mut restate.nodes {
            node.wait_until_ready()?;
        }
        Ok(restate)
    }

    /// The ingress address of node `number`.
    #[must_use]
    pub fn ingress(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.nodes[number].ports.ingress)
    }

    /// The admin address of node `number`, where workers are registered.
    #[must_use]
    pub fn admin(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.nodes[number].ports.admin)
    }

    /// Kills a node, like `kill -9`.
    ///
    /// # Panics
    ///
    /// If it cannot be waited for.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.nodes[number].child.take() {
            // It may have ended by itself.
            child.kill().unwrap_or_default();
            child.wait().expect("its end");
        }
    }

    /// Starts a node again with its existing files; it answers requests when this returns.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_again(&mut self, number: usize) {
        self.begin(number);
        let answers = self.nodes[number].wait_until_ready();
        answers.unwrap_or_else(|log| panic!("Restate does not start again: {log}"));
    }

    /// Kills a node, removes its files, and starts it again.
    ///
    /// # Panics
    ///
    /// If its files cannot be removed.
    pub fn lose(&mut self, number: usize) {
        self.kill(number);
        let data = self.nodes[number].conf.with_file_name(format!("data{number}"));
        std::fs::remove_dir_all(data).expect("its files");
        self.start_again(number);
    }

    /// Sends a node a signal.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn signal(&self, number: usize, signal: Signal) {
        let child = self.nodes[number].child.as_ref().expect("a node that is there");
        kill_process(Pid::from_child(child), signal).expect("a signal");
    }

    fn begin(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let log = std::fs::File::create(node.conf.with_extension("log")).expect("a file");
        let child = Command::new(program())
            .args(["--no-logo", "-c"])
            .arg(&node.conf)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("the program of Restate");
        node.child = Some(child);
    }
}

impl Drop for Restate {
    fn drop(&mut self) {
        for number in 0..self.nodes.len() {
            self.kill(number);
        }
    }
}

impl Node {
    /// Waits until it answers; otherwise returns its log.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let doors = [(self.ports.admin, "/health"), (self.ports.ingress, "/restate/health")];
        for _ in 0..ATTEMPTS {
            let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
            if self.child.as_mut().is_none_or(has_ended) {
                break;
            }
            if doors.iter().all(|(port, path)| is_well(*port, path)) {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.conf.with_extension("log"));
        Err(log.unwrap_or_default())
    }
}

impl Ports {
    /// Free ports for `count` servers. They are not reserved: another program may take one before its server does.
    fn free(count: usize) -> Vec<Self> {
        let bind = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let listeners: Vec<[TcpListener; 3]> = (0..count).map(|_| [(); 3].map(|()| bind())).collect();
        let number = |listener: &TcpListener| listener.local_addr().expect("its number").port();
        let ports = listeners.iter().map(|[fabric, ingress, admin]| Self {
            fabric: number(fabric),
            ingress: number(ingress),
            admin: number(admin),
        });
        ports.collect()
    }
}

fn settings(number: usize, own: Ports, all: &[Ports], folder: &TempDir) -> String {
    let fabric = |ports: &Ports| format!("http://127.0.0.1:{}/", ports.fabric);
    let mut text = format!(
        "cluster-name = \"folio-test\"\nnode-name = \"node{number}\"\nbase-dir = {:?}\nlisten-mode = \"tcp\"\n\
         bind-address = \"127.0.0.1:{}\"\nadvertised-address = \"{}\"\ndefault-num-partitions = 4\n\
         default-replication = {}\nauto-provision = {}\nrocksdb-total-memory-size = \"128 MiB\"\nlog-filter = \"warn,restate_service_client::request_identity=info\"\n\
         disable-telemetry = true\n",
        folder.path().join(format!("data{number}")),
        own.fabric,
        fabric(&own),
        all.len().div_ceil(2),
        number == 0,
    );
    let addresses: Vec<String> = all.iter().map(fabric).collect();
    // A worker that hangs is detected within a second instead of a minute.
    write!(
        text,
        "[metadata-client]\naddresses = {addresses:?}\n[admin]\nbind-address = \"127.0.0.1:{}\"\ndisable-web-ui = true\n\
         [ingress]\nbind-address = \"127.0.0.1:{}\"\n[worker.invoker]\nhttp2-keep-alive-interval = \"1s\"\n\
         http2-keep-alive-timeout = \"1s\"\nconnect-timeout = \"1s\"\n",
        own.admin, own.ingress,
    )
    .expect("a text");
    text
}

fn program() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the script that runs them")]
    let named = std::env::var(PROGRAM);
    named.unwrap_or_else(|_| panic!("{PROGRAM} names no program of Restate: run ./test, which installs it"))
}

/// Whether a request for `path` succeeds.
fn is_well(port: u16, path: &str) -> bool {
    let request = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    request().is_ok_and(|answer| answer.ends_with(b" 200"))
}
