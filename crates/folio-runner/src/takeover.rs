//! The files that a fork copies: what the source had in its run folder by then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use folio_engine::{Event, NodeId, Output};
use folio_memory::{RunId, Timestamp};
use folio_store::Workspace;
use folio_tools::paths::named;
use folio_tools::{TakenOver, Takeover};
use serde_json::Value;

use crate::left_folders;

/// The prefix of the path of a file in the run folder.
const RUN_FOLDER_PREFIX: &str = "run:";

/// Copies what `source` had in its folder below `folders` at the moment of `state`, for the run `fork`. Returns what is
/// missing or different afterwards, as text. A mark beside the copy stays until [`settled`].
pub(crate) async fn take_over(
    folders: Option<&Path>,
    workspace: &Workspace,
    source: RunId,
    state: FolderAtMoment,
    fork: RunId,
) -> Option<String> {
    let folders = folders?;
    let (from, to) = (folders.join(source.to_string()), folders.join(fork.to_string()));
    if !state.has_calls {
        return None;
    }
    if from.exists() {
        left_folders::mark(folders, workspace, fork);
    }
    let state = state.finish();
    let clock = workspace.clone();
    let (takeover, folder_text) = (state.takeover, from.display().to_string());
    let copied = tokio::task::spawn_blocking(move || takeover.copy(&from, &to, &|| system_time(clock.now()))).await;
    match copied {
        Ok(Ok(Some(taken_over))) => describe_taken_over(&taken_over),
        Ok(Ok(None)) if !state.kept.paths.is_empty() => {
            let elsewhere = "another machine may have it, or it was removed";
            Some(format!(
                "its files are not there: there is no folder {folder_text} here ({elsewhere})"
            ))
        }
        Ok(Ok(None)) => None,
        Ok(Err(error)) => Some(format!("its files are not there: cannot copy {folder_text}: {error}")),
        Err(error) => Some(format!(
            "its files are not there: copying {folder_text} broke off: {error}"
        )),
    }
}

/// Ends the copy for `fork`: removes its mark, and the files unless it `is_recorded`.
pub(crate) async fn finish_copy(folders: Option<&Path>, fork: RunId, is_recorded: bool) {
    let Some(folders) = folders else { return };
    if !is_recorded {
        let folder = folders.join(fork.to_string());
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
        // With its mark, `folio tidy` finds later what cannot be removed now.
        if removed.is_ok_and(|removed| removed.is_err_and(|error| error.kind() != std::io::ErrorKind::NotFound)) {
            return;
        }
    }
    left_folders::unmark(folders, fork);
}

fn describe_taken_over(taken_over: &TakenOver) -> Option<String> {
    let parts = [
        (&taken_over.missing, "these files were not copied:"),
        (
            &taken_over.changed,
            "these files were changed since, or may have been, and were copied in their present state:",
        ),
    ];
    let nonempty = parts.into_iter().filter(|(names, _)| !names.is_empty());
    let words: Vec<String> = nonempty
        .map(|(names, label)| format!("{label} {}", names.in_words()))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The run folder at a moment, as far as the journal tells, which is read event by event.
#[derive(Debug, Default)]
pub(crate) struct FolderAtMoment {
    /// The folder; `None` if there is none, and nothing has to be tracked.
    folder: Option<PathBuf>,
    takeover: Takeover,
    /// Whether any call had been made by then that could have written there.
    has_calls: bool,
    /// What calls that were done by then declared to write.
    kept: Written,
    /// What later calls, and those under way, declared to write.
    later: Written,
    under_way: BTreeMap<NodeId, Vec<String>>,
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + at.since(Timestamp::from_nanos(0))
}

/// What the names of written resources say about the run folder.
#[derive(Debug, Default)]
struct Written {
    /// Files and folders in it.
    paths: BTreeSet<PathBuf>,
    /// Whether all of it may have been written, since something that contains it was.
    may_be_everything: bool,
}

impl FolderAtMoment {
    /// The state of a run folder, with no events seen yet.
    pub(crate) fn of(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Takes in an event before the moment.
    pub(crate) fn apply_earlier_event(&mut self, event: &Event) {
        let Some(folder) = &self.folder else { return };
        match event {
            Event::Started { node, writes, .. } => {
                self.has_calls = true;
                self.under_way.insert(*node, writes.clone());
            }
            // Agent programs do not declare what they write.
            Event::Asked { is_opaque: true, .. } => {
                self.has_calls = true;
                self.kept.may_be_everything = true;
            }
            Event::Finished { node, .. } | Event::AttemptFailed { node, .. } | Event::Proposed { node, .. } => {
                let names = self.under_way.remove(node).unwrap_or_default();
                self.kept.add(folder, &names);
            }
            _ => {}
        }
        match event {
            Event::Finished { result, .. } => self.note_reported_file(&result.output),
            Event::Proposed { proposal, .. } => self.note_reported_file(&proposal.output),
            _ => {}
        }
    }

    /// Takes in an event after the moment, recorded at `at`.
    pub(crate) fn apply_later_event(&mut self, at: Timestamp, event: &Event) {
        let Some(folder) = &self.folder else { return };
        self.takeover.moment.get_or_insert_with(|| system_time(at));
        if let Event::Started { writes, .. } = event {
            self.later.add(folder, writes);
        }
    }

    /// Ends the reading of the journal.
    fn finish(mut self) -> Self {
        if let Some(folder) = &self.folder {
            for names in self.under_way.values() {
                self.later.add(folder, names);
            }
        }
        // Whoever may write in the whole folder need not have: what was changed there is seen by the times of the files.
        let later = std::mem::take(&mut self.later.paths).into_iter();
        let named = later.filter(|path| !path.as_os_str().is_empty());
        (self.takeover.rewritten, self.takeover.later) = named.partition(|path| self.kept.covers(path));
        self
    }

    /// Takes in what a call of `write` reported about its file.
    fn note_reported_file(&mut self, output: &Output) {
        let Output::Inline(inline) = output else { return };
        let output = inline.value();
        let path = output.get("path").and_then(Value::as_str);
        let hash = output.get("sha256").and_then(Value::as_str);
        let bytes = output.get("bytes").and_then(Value::as_u64);
        if let (Some(path), Some(hash), Some(bytes)) =
            (path.and_then(|path| path.strip_prefix(RUN_FOLDER_PREFIX)), hash, bytes)
        {
            let left = (bytes, format!("sha256:{hash}"));
            self.takeover.known.insert(path_of(path), left);
        }
    }
}

impl Written {
    /// Adds what `names` refer to in `folder`, the run folder. At that time it may have been somewhere else, but with
    /// the same name.
    fn add(&mut self, folder: &Path, names: &[String]) {
        let folder_name = folder.file_name();
        for name in names {
            let path = path_of(name);
            if folder.starts_with(&path) && folder != path {
                self.may_be_everything = true;
            }
            let mut parts = path.components();
            if parts.any(|part| Some(part.as_os_str()) == folder_name) {
                self.paths.insert(parts.as_path().to_owned());
            }
        }
    }

    /// Whether `path`, or something that contains it, was written.
    fn covers(&self, path: &Path) -> bool {
        self.may_be_everything || path.ancestors().any(|at| self.paths.contains(at))
    }
}

/// The path that a name stands for. The empty name stands for `/`.
fn path_of(name: &str) -> PathBuf {
    let name = if name.is_empty() { "/" } else { name };
    PathBuf::from(OsString::from_vec(named(name)))
}
