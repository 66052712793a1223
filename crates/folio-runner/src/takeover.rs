//! The files that a run which begins at a moment of another one takes over: what that one had in its own folder by then.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use folio_engine::{Event, NodeId, Output};
use folio_memory::{RunId, Timestamp};
use folio_tools::paths::named;
use folio_tools::{TakenOver, Takeover};
use serde_json::Value;

/// What stands before the path of a file in the folder of a run.
const IN_FOLDER: &str = "run:";

/// Copies what `source` had in its folder below `folders` before event `cut` of its journal for the run `fork`. What is missing or
/// otherwise afterwards, in words.
pub(crate) async fn take_over(
    folders: Option<&Path>,
    (source, journal, cut): (RunId, &[(Timestamp, Event)], usize),
    fork: RunId,
) -> Option<String> {
    let folders = folders?;
    let (from, to) = (folders.join(source.to_string()), folders.join(fork.to_string()));
    let then = Then::of(&from, journal, cut);
    if !then.has_calls {
        return None;
    }
    let (takeover, shown) = (then.takeover, from.display().to_string());
    let copied = tokio::task::spawn_blocking(move || takeover.copy(&from, &to)).await;
    match copied {
        Ok(Ok(Some(taken))) => in_words(&taken),
        Ok(Ok(None)) if then.is_written => {
            let elsewhere = "another machine may have it, or it was removed";
            Some(format!(
                "its files are not there: there is no folder {shown} here ({elsewhere})"
            ))
        }
        Ok(Ok(None)) => None,
        Ok(Err(error)) => Some(format!("its files are not there: cannot copy {shown}: {error}")),
        Err(error) => Some(format!("its files are not there: copying {shown} broke off: {error}")),
    }
}

/// Removes what was copied for `fork`, which is none.
pub(crate) async fn give_up(folders: Option<&Path>, fork: RunId) {
    let Some(folder) = folders.map(|folders| folders.join(fork.to_string())) else {
        return;
    };
    // What is left there is in nobody's way.
    drop(tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await);
}

fn in_words(taken: &TakenOver) -> Option<String> {
    let parts = [
        (&taken.missing, "these files were not copied:"),
        (
            &taken.changed,
            "these files were changed since, and are as they are now:",
        ),
    ];
    let said = parts.into_iter().filter(|(names, _)| !names.is_empty());
    let words: Vec<String> = said
        .map(|(names, what)| format!("{what} {}", names.in_words()))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The folder of a run at a moment, as far as its journal knows.
#[derive(Debug, Default)]
struct Then {
    takeover: Takeover,
    /// Whether anything was called by then that could have written there.
    has_calls: bool,
    /// Whether a call that was done by then said that it writes there.
    is_written: bool,
}

/// What the names that calls write say of the folder of a run.
#[derive(Debug, Default)]
struct Written {
    /// Files and folders in it.
    inside: BTreeSet<PathBuf>,
    /// Whether all of it may have been written: something that it is in was.
    around: bool,
}

impl Then {
    /// What `journal` says of `folder` as it was before event `cut`.
    fn of(folder: &Path, journal: &[(Timestamp, Event)], cut: usize) -> Self {
        let (before, after) = journal.split_at(cut.min(journal.len()));
        let mut then = Self::default();
        let (mut kept, mut later) = (Written::default(), Written::default());
        let mut under_way: BTreeMap<NodeId, &[String]> = BTreeMap::new();
        for (_, event) in before {
            match event {
                Event::Started { node, writes, .. } => {
                    then.has_calls = true;
                    under_way.insert(*node, writes);
                }
                // Programs that do tasks by themselves do not say what they write.
                Event::Asked { is_opaque: true, .. } => {
                    then.has_calls = true;
                    kept.around = true;
                }
                Event::Finished { node, .. } | Event::AttemptFailed { node, .. } | Event::Proposed { node, .. } => {
                    kept.add(folder, under_way.remove(node).unwrap_or_default());
                }
                _ => {}
            }
            match event {
                Event::Finished { result, .. } => then.know(&result.output),
                Event::Proposed { proposal, .. } => then.know(&proposal.output),
                _ => {}
            }
        }
        let begun_later = after.iter().filter_map(|(_, event)| match event {
            Event::Started { writes, .. } => Some(writes.as_slice()),
            _ => None,
        });
        for names in under_way.into_values().chain(begun_later) {
            later.add(folder, names);
        }
        then.is_written = !kept.inside.is_empty();
        then.takeover.later = later.inside.into_iter().filter(|path| !kept.covers(path)).collect();
        let moment = after.first().map(|(at, _)| at.since(Timestamp::from_nanos(0)));
        then.takeover.moment = moment.map(|since| SystemTime::UNIX_EPOCH + since);
        then
    }

    /// Takes in what a call of `write` said of its file.
    fn know(&mut self, output: &Output) {
        let Output::Inline(inline) = output else { return };
        let output = inline.value();
        let path = output.get("path").and_then(Value::as_str);
        let hash = output.get("sha256").and_then(Value::as_str);
        let bytes = output.get("bytes").and_then(Value::as_u64);
        if let (Some(path), Some(hash), Some(bytes)) = (path.and_then(|path| path.strip_prefix(IN_FOLDER)), hash, bytes)
        {
            let left = (bytes, format!("sha256:{hash}"));
            self.takeover.known.insert(path_of(path), left);
        }
    }
}

impl Written {
    /// Adds what `names` are in `folder`, that of the run; it may have been somewhere else then, but was called the same.
    fn add(&mut self, folder: &Path, names: &[String]) {
        let called = folder.file_name();
        for name in names {
            let path = path_of(name);
            if folder.starts_with(&path) && folder != path {
                self.around = true;
            }
            let mut parts = path.components();
            if parts.any(|part| Some(part.as_os_str()) == called) {
                self.inside.insert(parts.as_path().to_owned());
            }
        }
    }

    /// Whether `path`, or something that it is in, is among what was written.
    fn covers(&self, path: &Path) -> bool {
        self.around || path.ancestors().any(|at| self.inside.contains(at))
    }
}

/// The path that a name says. What is only `/` is written as nothing.
fn path_of(name: &str) -> PathBuf {
    let name = if name.is_empty() { "/" } else { name };
    PathBuf::from(OsString::from_vec(named(name)))
}
