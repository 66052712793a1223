//! A folder, a run and helpers for calls in the tests of this crate.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test program uses a part of it, and may stop where it fails"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use folio_tools::{
    Access, Registry, Root, Roots, RunFolder, ShellPolicy, ToolContext, ToolError, ToolLimits, ToolRequest,
    ToolResponse,
};
use serde_json::Value;

/// A granted folder `repo` and the folder of a run, both new.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) registry: Registry,
    pub(crate) context: ToolContext,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("repo")).unwrap();
        let root = Root::open("repo", folder.path().join("repo"), Access::Read).unwrap();
        let mut context = ToolContext::new(
            Roots::new(vec![root]).unwrap(),
            RunFolder::at(folder.path().join("runs/1")),
        );
        context.environment = Arc::new(vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
        Self {
            folder,
            registry: Registry::with_builtins(),
            context,
        }
    }

    pub(crate) fn with_limits(mut self, change: impl FnOnce(&mut ToolLimits)) -> Self {
        let mut limits = ToolLimits::default();
        change(&mut limits);
        self.context.limits = Arc::new(limits);
        self
    }

    pub(crate) fn with_shell(mut self, policy: ShellPolicy) -> Self {
        self.context.shell = Arc::new(policy);
        self
    }

    pub(crate) fn repo(&self) -> std::path::PathBuf {
        self.folder.path().join("repo")
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.repo().join(path), content);
    }

    pub(crate) async fn call(&self, tool: &str, args: Value) -> ToolResponse {
        self.call_as("call-1", tool, args).await
    }

    pub(crate) async fn call_as(&self, id: &str, tool: &str, args: Value) -> ToolResponse {
        self.registry.call(&request(id, tool, args), &self.context).await
    }

    /// The names of what a call writes.
    pub(crate) fn resources(&self, tool: &str, args: &Value) -> Vec<String> {
        self.registry.get(tool).unwrap().resources(args, &self.context)
    }

    /// The outputs of a call that works.
    pub(crate) async fn outputs(&self, tool: &str, args: Value) -> Value {
        let response = self.call(tool, args).await;
        assert!(response.is_ok(), "{response:#?}");
        response.outputs
    }

    /// The error of a call that does not.
    pub(crate) async fn error(&self, tool: &str, args: Value) -> ToolError {
        let response = self.call(tool, args).await;
        response
            .error
            .unwrap_or_else(|| panic!("it worked: {:#}", response.outputs))
    }

    pub(crate) fn git(&self, args: &[&str]) {
        git(&self.repo(), args);
    }

    /// Commits everything.
    pub(crate) fn commit(&self, subject: &str) {
        self.git(&["add", "--all", "--force"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", subject]);
    }
}

pub(crate) fn request(id: &str, tool: &str, args: Value) -> ToolRequest {
    ToolRequest {
        request_id: id.to_owned(),
        tool: tool.to_owned(),
        args,
        run_id: "run-1".to_owned(),
        node_id: "node-1".to_owned(),
        attempt: 1,
        scratch_page_context: Vec::new(),
    }
}

pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub(crate) fn git(folder: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(["-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
        .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// One field of every row.
pub(crate) fn column<'a>(rows: &'a Value, name: &str) -> Vec<&'a str> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| row[name].as_str().unwrap())
        .collect()
}
