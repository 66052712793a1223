//! The files that changed most often.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::ControlFlow;

use bstr::ByteSlice as _;
use folio_memory::counted::counted;
use folio_process::Sink;
use serde_json::{Value, json};

use super::Answer;
use super::history::{LogReader, Record, format_argument, path_argument};
use super::repository::Repository;
use crate::paths::shown;
use crate::response::{FailureKind, ToolError};

/// The largest number of different paths that are counted.
const PATHS_MAX: usize = 1_000_000;

pub(super) struct Wanted<'a> {
    pub(super) max: usize,
    pub(super) since: Option<String>,
    /// A folder to count below.
    pub(super) path: Option<&'a str>,
    /// Whether to include files that no longer exist.
    pub(super) deleted: bool,
}

struct FileActivity {
    commits: u64,
    added: u64,
    deleted: u64,
    /// The authors, as indexes.
    authors: BTreeSet<u32>,
    /// Index into the list of last commits.
    last_commit: usize,
    still_exists: bool,
}

impl FileActivity {
    fn add(&mut self, added: u64, deleted: u64, author: u32) {
        self.commits += 1;
        self.added += added;
        self.deleted += deleted;
        self.authors.insert(author);
    }
}

#[derive(Default)]
struct Counter {
    files: HashMap<Vec<u8>, FileActivity>,
    authors: HashMap<Vec<u8>, u32>,
    commits_total: u64,
    /// Hash and date of each commit that is the last one to change some file.
    last_commits: Vec<(String, String)>,
    current: Current,
    too_many: bool,
}

#[derive(Default)]
struct Current {
    hash: Vec<u8>,
    date: Vec<u8>,
    author: u32,
    number: Option<usize>,
}

impl Counter {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Commit(fields) => {
                self.commits_total += 1;
                let field = |index: usize| fields.get(index).copied().unwrap_or_default();
                let next = u32::try_from(self.authors.len()).unwrap_or(u32::MAX);
                let author = match self.authors.get(field(2)) {
                    Some(author) => *author,
                    None => *self.authors.entry(field(2).to_vec()).or_insert(next),
                };
                self.current = Current {
                    hash: field(0).to_vec(),
                    date: field(1).to_vec(),
                    author,
                    number: None,
                };
            }
            Record::Change { added, deleted, path } => self.change(*added, *deleted, path),
        }
    }

    fn change(&mut self, added: u64, deleted: u64, path: &[u8]) {
        let author = self.current.author;
        if let Some(heat) = self.files.get_mut(path) {
            heat.add(added, deleted, author);
            return;
        }
        if self.files.len() >= PATHS_MAX {
            self.too_many = true;
            return;
        }
        let mut heat = FileActivity {
            commits: 0,
            added: 0,
            deleted: 0,
            authors: BTreeSet::new(),
            last_commit: self.keep_current(),
            still_exists: false,
        };
        heat.add(added, deleted, author);
        self.files.insert(path.to_vec(), heat);
    }

    /// Keeps the current commit. The log begins with the newest, so the commit is the last one of every file that is
    /// first seen in it.
    fn keep_current(&mut self) -> usize {
        let current = &mut self.current;
        *current.number.get_or_insert_with(|| {
            let text = |bytes: &[u8]| bytes.to_str_lossy().into_owned();
            self.last_commits.push((text(&current.hash), text(&current.date)));
            self.last_commits.len() - 1
        })
    }

    /// The hottest files, sorted by commits, then by lines, then by name.
    fn hottest(&self, max: usize, also_deleted: bool) -> Vec<Value> {
        let mut files: Vec<(&Vec<u8>, &FileActivity)> = self
            .files
            .iter()
            .filter(|(_, heat)| also_deleted || heat.still_exists)
            .collect();
        let lines = |heat: &FileActivity| heat.added + heat.deleted;
        files.sort_by(|(left_path, left), (right_path, right)| {
            (right.commits, lines(right))
                .cmp(&(left.commits, lines(left)))
                .then_with(|| left_path.cmp(right_path))
        });
        files
            .into_iter()
            .take(max)
            .map(|(path, heat)| {
                let (commit, date) = &self.last_commits[heat.last_commit];
                let mut row = json!({
                    "path": shown(path),
                    "commits": heat.commits,
                    "added": heat.added,
                    "deleted": heat.deleted,
                    "authors": heat.authors.len(),
                    "last_commit": commit,
                    "last_date": date,
                });
                if also_deleted {
                    row["is_there"] = json!(heat.still_exists);
                }
                row
            })
            .collect()
    }
}

/// Counts over the log as a stream, so that only one row per file is held in memory.
pub(super) async fn hot_files(repository: &Repository<'_>, query: &Wanted<'_>) -> Result<Answer, ToolError> {
    let mut counter = Counter::default();
    let mut timed_out = false;
    if repository.head().await?.is_some() {
        let mut args: Vec<OsString> = [
            "-z",
            "--numstat",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
        ]
        .map(OsString::from)
        .to_vec();
        args.push(format_argument(&["%H", "%aI", "%aE"]));
        if let Some(since) = &query.since {
            args.push(format!("--since={since}").into());
        }
        args.push("--".into());
        args.extend(query.path.map(path_argument));
        let mut reader = LogReader::new(|record| {
            counter.take(&record);
            ControlFlow::Continue(())
        });
        match repository.stream("log", args, &mut reader).await {
            Ok(()) => {}
            // What has been counted so far is the newest part of the history, and worth returning.
            Err(error) if error.kind == FailureKind::TimedOut => timed_out = true,
            Err(error) => return Err(error),
        }
        let args = ["-r", "-z", "--name-only", "--full-tree", "HEAD"]
            .map(OsString::from)
            .to_vec();
        let mut existing_names = ExistingPathsReader {
            counter: &mut counter,
            unfinished: Vec::new(),
        };
        repository.stream("ls-tree", args, &mut existing_names).await?;
    }
    let files = counter.hottest(query.max, query.deleted);
    let truncated = timed_out || counter.too_many;
    let mut notes = format!(
        "{} in {}",
        counted(files.len() as u64, "file"),
        counted(counter.commits_total, "commit")
    );
    if timed_out {
        notes.push_str("; there are older commits that were not counted in time");
    }
    Ok(Answer::new(
        json!({
            "files": files,
            "commits_total": counter.commits_total,
            "authors": counter.authors.len(),
            "truncated": truncated,
        }),
        notes,
    ))
}

/// Marks the files that still exist.
struct ExistingPathsReader<'a> {
    counter: &'a mut Counter,
    unfinished: Vec<u8>,
}

impl ExistingPathsReader<'_> {
    fn mark(&mut self, path: &[u8]) {
        if let Some(heat) = self.counter.files.get_mut(path) {
            heat.still_exists = true;
        }
    }
}

impl Sink for ExistingPathsReader<'_> {
    fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let mut rest = piece;
        while let Some(at) = rest.find_byte(0) {
            let mut path = std::mem::take(&mut self.unfinished);
            path.extend_from_slice(&rest[..at]);
            self.mark(&path);
            rest = &rest[at + 1..];
        }
        self.unfinished.extend_from_slice(rest);
        ControlFlow::Continue(())
    }
}
