//! Reads the log of a repository as a stream, and the history of one file.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt as _;

use bstr::ByteSlice as _;
use folio_memory::counted::counted;
use folio_process::Sink;
use serde_json::{Map, Value, json};

use super::Answer;
use super::repository::Repository;
use crate::paths::{named, shown};
use crate::response::ToolError;

/// The byte that begins a commit. Everything else in the log begins with a digit or `-`.
const COMMIT: u8 = 0x1e;
/// The byte between the fields of a commit.
const FIELD: u8 = 0x1f;
/// The largest size of one path or commit, in bytes; longer ones are skipped.
const TOKEN_MAX: usize = 256 * 1024;

/// The argument that makes git print commits as [`LogReader`] reads them.
pub(super) fn format_argument(fields: &[&str]) -> OsString {
    OsString::from(format!("--format=tformat:%x1e{}", fields.join("%x1f")))
}

/// A record of the log.
pub(super) enum Record<'a> {
    /// The fields of a commit.
    Commit(Vec<&'a [u8]>),
    /// A file that the commit changed. The numbers of lines are 0 for a binary file.
    Change { added: u64, deleted: u64, path: &'a [u8] },
}

/// Reads the output of `git log -z --numstat` with [`format_argument`].
pub(super) struct LogReader<F> {
    unfinished: Vec<u8>,
    /// The numbers of lines of a renamed file, whose old and new name follow, and how many of the names are still to
    /// come.
    renamed: Option<(u64, u64, u8)>,
    each: F,
}

impl<F: FnMut(Record<'_>) -> ControlFlow<()> + Send> LogReader<F> {
    pub(super) fn new(each: F) -> Self {
        Self {
            unfinished: Vec::new(),
            renamed: None,
            each,
        }
    }

    fn token(&mut self, token: &[u8]) -> ControlFlow<()> {
        if let Some((added, deleted, names_left)) = self.renamed {
            if names_left > 1 {
                self.renamed = Some((added, deleted, names_left - 1));
                return ControlFlow::Continue(());
            }
            self.renamed = None;
            return (self.each)(Record::Change {
                added,
                deleted,
                path: token,
            });
        }
        let token = token.strip_prefix(b"\n").unwrap_or(token);
        if let Some(commit) = token.strip_prefix(&[COMMIT]) {
            return (self.each)(Record::Commit(commit.split(|byte| *byte == FIELD).collect()));
        }
        let mut parts = token.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(deleted), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return ControlFlow::Continue(());
        };
        let (added, deleted) = (number(added), number(deleted));
        if path.is_empty() {
            self.renamed = Some((added, deleted, 2));
            return ControlFlow::Continue(());
        }
        (self.each)(Record::Change { added, deleted, path })
    }
}

impl<F: FnMut(Record<'_>) -> ControlFlow<()> + Send> Sink for LogReader<F> {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let mut rest = piece;
        while let Some(at) = rest.find_byte(0) {
            if self.unfinished.is_empty() {
                self.token(&rest[..at])?;
            } else {
                let mut token = std::mem::take(&mut self.unfinished);
                token.extend_from_slice(&rest[..at]);
                self.token(&token)?;
            }
            rest = &rest[at + 1..];
        }
        if self.unfinished.len() < TOKEN_MAX {
            self.unfinished.extend_from_slice(rest);
        }
        ControlFlow::Continue(())
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

pub(super) fn text_of(field: Option<&&[u8]>) -> String {
    field.map(|field| field.to_str_lossy().into_owned()).unwrap_or_default()
}

pub(super) fn path_argument(path: &str) -> OsString {
    OsString::from_vec(named(path))
}

/// Returns the newest commits that changed a file, also under its earlier names.
pub(super) async fn file_history(repository: &Repository<'_>, path: &str, max: usize) -> Result<Answer, ToolError> {
    let mut commits: Vec<Map<String, Value>> = Vec::new();
    if repository.head().await?.is_some() {
        let mut args: Vec<OsString> = ["-z", "--numstat", "--follow", "--no-ext-diff", "--no-textconv"]
            .map(OsString::from)
            .to_vec();
        // One more than asked for, to learn whether there are more.
        args.push(format!("-n{}", max.saturating_add(1)).into());
        args.push(format_argument(&["%H", "%aI", "%aN", "%s"]));
        args.push("--".into());
        args.push(path_argument(path));
        let mut reader = LogReader::new(|record| {
            match record {
                Record::Commit(fields) => {
                    let mut commit = Map::new();
                    for (name, field) in ["commit", "date", "author", "subject"].iter().zip(0..) {
                        let text = text_of(fields.get(field));
                        commit.insert((*name).to_owned(), Value::String(text));
                    }
                    commits.push(commit);
                }
                Record::Change { added, deleted, path } => {
                    if let Some(commit) = commits.last_mut() {
                        commit.insert("added".to_owned(), json!(added));
                        commit.insert("deleted".to_owned(), json!(deleted));
                        commit.insert("path".to_owned(), json!(shown(path)));
                    }
                }
            }
            ControlFlow::Continue(())
        });
        repository.stream("log", args, &mut reader).await?;
    }
    let truncated = commits.len() > max;
    commits.truncate(max);
    let count = commits.len();
    let notes = format!("{path}: {}", counted(count as u64, "commit"));
    Ok(Answer::new(
        json!({"path": path, "commits": commits, "count": count, "truncated": truncated}),
        notes,
    ))
}
