//! A client of `folio mcp` that writes and reads lines, and assumes nothing else.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::allow_attributes, reason = "an unused part cannot be expected in every file")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// The server's answer to the initialization.
    pub(crate) began: Value,
}

impl Host {
    /// Starts the server with `command` and begins a conversation with the session-based protocol.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut host = Self {
            child,
            stdin,
            stdout,
            next: 1,
            began: Value::Null,
        };
        let client = json!({"name": "host", "version": "1"});
        host.began = host.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        );
        host.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        host
    }

    fn write(&mut self, message: &Value) {
        let mut stdin = self.stdin.as_ref().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    /// Sends a request, and returns the result.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server is gone");
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is no message"));
            assert_eq!(message["jsonrpc"], "2.0");
            if message["id"] == id {
                return message.get("result").unwrap_or_else(|| panic!("{message}")).clone();
            }
        }
    }

    /// Calls a tool, and returns the text of its answer.
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> String {
        let result = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Closes the server's input. Returns its exit code, the rest of its output, and its standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        drop(self.stdin.take());
        self.wait()
    }

    /// Like [`Self::end`], without closing the input.
    pub(crate) fn wait(mut self) -> (Option<i32>, String, String) {
        let (mut rest, mut errors) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        (code, rest, errors)
    }

    /// The id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}
