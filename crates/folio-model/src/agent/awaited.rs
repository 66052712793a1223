//! Conditions that tests of agent programs wait for.

use std::path::Path;
use std::time::Duration;

/// What a script wrote to `path`, as soon as there is a complete line.
pub(super) async fn wait_for_line(path: &Path) -> String {
    for _ in 0..2_000 {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    panic!("{} was not written", path.display());
}

/// Waits until process `pid` is gone; a zombie counts as gone.
pub(super) async fn wait_until_gone(pid: &str) {
    for _ in 0..2_000 {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(text) if !text.contains(") Z ") => tokio::time::sleep(Duration::from_millis(5)).await,
            _ => return,
        }
    }
    panic!("process {pid} is still there");
}
