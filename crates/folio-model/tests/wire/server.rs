//! The server, for the duration of a test.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use folio_model::{Model, ModelKeys, ModelOptions, SchemaForm, Secret, open};

/// The wires, as model addresses begin.
pub(crate) const WIRES: [&str; 5] = ["openai", "openai-responses", "anthropic", "gemini", "ollama"];

/// The key that the server accepts.
pub(crate) const KEY: &str = "sk-test-4711";

/// How many lines of the server's output may precede its address.
const LINES_MAX: usize = 50;

/// A server on a port of its own.
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = here.join("../../target/tools/aimock/node_modules/@copilotkit/aimock/dist/cli.js");
        assert!(program.is_file(), "aimock is not installed; ./test installs it");
        // The program itself: a starter in between would leave it alive.
        let mut child = Command::new("node")
            .arg(&program)
            .args(["--port", "0", "--chunk-size", "8", "--log-level", "info", "--fixtures"])
            .arg(here.join("tests/wire/fixtures.json"))
            .env("AIMOCK_API_KEYS", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.take(LINES_MAX).find_map(|line| {
            let line = line.ok()?;
            line.split_once("listening on ").map(|(_, url)| url.trim().to_owned())
        });
        Self {
            child,
            url: url.expect("aimock did not say where it listens"),
        }
    }

    pub(crate) fn model(&self, wire: &str, key: &str, schema: SchemaForm) -> Arc<dyn Model> {
        let path = if wire == "gemini" { "v1beta" } else { "v1" };
        let options = ModelOptions {
            keys: ModelKeys {
                own: Some(Secret::new(key)),
                ..ModelKeys::default()
            },
            schema,
            ..ModelOptions::default()
        };
        open(&format!("{wire}+{}/{path}:m", self.url).parse().unwrap(), &options).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
