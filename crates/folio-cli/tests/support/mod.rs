//! The program in a clean environment with a store of its own.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::allow_attributes, reason = "an unused part cannot be expected in every file")]

pub(crate) mod mcp;
pub(crate) mod served;
pub(crate) mod working;

use std::io::Read as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

/// An empty folder, a home, and a store.
pub(crate) struct Folio {
    folder: TempDir,
}

/// The result of a call.
pub(crate) struct Called {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Folio {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder, or into one below it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Writes `folio.toml` into the folder, and trusts it unless it cannot be read as settings.
    pub(crate) fn settings(&self, content: impl AsRef<[u8]>) {
        self.file("folio.toml", content);
        self.call(&["trust"]);
    }

    /// The program with `arguments`, without the environment of the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("folio"));
        command.env_clear().current_dir(self.path()).args(arguments);
        command.env("HOME", self.path().join("home"));
        command
    }

    /// The same as a process with pipes.
    pub(crate) fn process(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("folio"));
        command
            .env_clear()
            .current_dir(self.path())
            .args(arguments)
            .env("HOME", self.path().join("home"));
        command
    }

    /// The same as a process that runs while the test does something else.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = self.process(arguments);
        let (stdout, stderr) = (Stdio::piped(), Stdio::piped());
        Running {
            child: command
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr)
                .spawn()
                .unwrap(),
        }
    }

    /// Repeats the call until its answer is as `wanted`.
    pub(crate) fn until(&self, arguments: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..400 {
            let seen = self.json(arguments);
            if wanted(&seen) {
                return seen;
            }
            std::thread::park_timeout(Duration::from_millis(25));
        }
        panic!("{arguments:?} did not come to what was waited for");
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Called {
        Called::of(self.command(arguments).output().unwrap())
    }

    /// Calls the program, asserts that it succeeds, and returns standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let called = self.call(arguments);
        assert_eq!(called.code, 0, "{arguments:?}: {}", called.stderr);
        called.stdout
    }

    /// The same with `--json`, parsed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Everything that a person sees of a call, without what varies between calls.
    pub(crate) fn seen(&self, arguments: &[&str]) -> String {
        self.without_accidents(&self.call(arguments).to_string())
    }

    /// `text` without ids, times and the name of the folder.
    pub(crate) fn without_accidents(&self, text: &str) -> String {
        let text = text.replace(&*self.path().to_string_lossy(), "FOLDER");
        let rules = [
            (r"\b(obs|page|run|turn)_[0-9A-HJKMNP-TV-Z]{26}\b", "${1}_ID"),
            (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z *", "TIME "),
            (r"TIME ([\x22,\n)])", "TIME$1"),
            // How much was written depends on every word that is.
            (r"\bbytes( +)[\d,]+ of ([\d,]+)", "bytes${1}N of $2"),
            (r"--cursor [0-9a-f]{16}\.\S+", "--cursor CURSOR"),
            (r"\[ *\d+(\.\d)?s\]", "[TIME]"),
            (r"\b\d+\.\ds\b", "0.0s"),
            // A step has a time only if it took long enough.
            (r"(?m) 0\.0s(  |$)", "$1"),
        ];
        rules.iter().fold(text, |text, (pattern, with)| {
            Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
        })
    }
}

/// A call that is under way.
pub(crate) struct Running {
    child: std::process::Child,
}

impl Running {
    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Limits the size of the files that it writes to `bytes`, as when the disk is full; `None` ends that.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let limit = rustix::process::Rlimit {
            current: bytes,
            maximum: None,
        };
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).unwrap();
    }

    /// Waits until it has written `part` to standard error, and returns all that it wrote there since the last time.
    pub(crate) fn said(&mut self, part: &str) -> String {
        let (mut told, stderr) = (Vec::new(), self.child.stderr.as_mut().unwrap());
        let mut byte = [0];
        while !String::from_utf8_lossy(&told).contains(part) {
            let text = String::from_utf8_lossy(&told);
            stderr
                .read_exact(&mut byte)
                .unwrap_or_else(|_| panic!("it ended: {text}"));
            told.push(byte[0]);
        }
        String::from_utf8(told).unwrap()
    }

    /// Sends the signal to terminate.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Sends the signal that cannot be caught.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(self) -> Called {
        Called::of(self.child.wait_with_output().unwrap())
    }
}

impl Called {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

impl std::fmt::Display for Called {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.stdout)?;
        for line in self.stderr.lines() {
            writeln!(f, "! {line}")?;
        }
        if self.code != 0 {
            writeln!(f, "= {}", self.code)?;
        }
        Ok(())
    }
}

/// What a person sees of several calls, one after the other. A line is split at white space, except in quotes.
pub(crate) fn session(folio: &Folio, lines: &[&str]) -> String {
    let words = |line: &str| -> Vec<String> {
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(position, part)| match position % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    };
    let mut text = String::new();
    for line in lines {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        text.push_str(&format!("$ folio {line}\n{}", folio.seen(&words)));
    }
    text
}

/// Waits until the file contains a whole line, and returns it.
pub(crate) fn line_of(folio: &Folio, file: &str) -> String {
    for _ in 0..2_000 {
        match std::fs::read_to_string(folio.path().join(file)) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => std::thread::park_timeout(Duration::from_millis(5)),
        }
    }
    panic!("{file} was not written");
}

/// Waits until the process `pid` is gone.
pub(crate) fn is_gone(pid: &str) {
    for _ in 0..2_000 {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) if !text.contains(") Z ") => std::thread::park_timeout(Duration::from_millis(5)),
            _ => return,
        }
    }
    panic!("process {pid} is still there");
}

/// The last node at `path` of what `folio show --json` or a tree gives; null if there is none.
pub(crate) fn node_at(value: &Value, path: &str) -> Value {
    let nodes = value["nodes"].as_array().unwrap();
    nodes
        .iter()
        .rfind(|node| node["path"] == path)
        .cloned()
        .unwrap_or(Value::Null)
}
