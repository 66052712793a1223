//! Copies a whole store into another one: every commit with its number, every body, note and token (`folio migrate`).
//!
//! Rows follow from the log, so only the log is copied: the other store takes over the commits one after the other, and
//! they have the same outcome there as here. Others can go on writing meanwhile: what they add is copied in the next
//! round, until a round finds nothing more. An interrupted copy continues where it stopped.

mod compare;
mod notes;

use std::collections::HashSet;

use folio_engine::Run;
use folio_memory::turn::export;
use folio_memory::{Change, Seq, SpaceName};
use serde::Serialize;

pub use self::compare::Difference;

use crate::commit::{Blob, BlobHash, Record};
use crate::error::{ErrorKind, StoreError};
use crate::fold;
use crate::store::{LogRow, RunQuery, Store};

/// How many commits are handed over at a time.
const COMMITS: u32 = 128;
/// Size in bytes of commits and bodies after which they are handed over.
const BYTES: usize = 8 * 1024 * 1024;
/// How often commits are read again because bodies to which they refer were forgotten meanwhile.
const MAX_REREADS: u32 = 5;
/// How many forgotten runs are listed at a time.
const FORGOTTEN_RUNS: u32 = 100;

/// A commit of another store, with the bodies to which it refers.
#[derive(Debug, Clone)]
pub struct CopiedCommit {
    /// The commit as the log of the other store has it.
    pub row: LogRow,
    /// Bodies that this store may not have yet.
    pub bodies: Vec<Blob>,
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Copied {
    /// Number of spaces.
    pub spaces: u64,
    /// Number of commits that were taken over, without those of an earlier copy.
    pub commits: u64,
    /// Number of bodies that came with them.
    pub bodies: u64,
    /// Number of notes of the trace.
    pub notes: u64,
    /// Number of access tokens.
    pub tokens: u64,
}

/// Why a store could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// An error of one of the two stores.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target contains something of its own.
    #[error("{location} is not a copy of {of}: space {space} {difference}")]
    NotACopy {
        /// The target.
        location: String,
        /// The source.
        of: String,
        /// The space in which they differ.
        space: SpaceName,
        /// How they differ.
        difference: Difference,
    },
}

impl CopyError {
    /// A stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::NotACopy { .. } => "target_not_a_copy",
        }
    }

    /// What the caller should do next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::NotACopy { .. } => ErrorKind::Conflict,
        }
    }
}

/// Makes `target` a copy of `source`, or updates a copy, with everything that is committed when the last round begins.
///
/// `so_far` is called now and then with what was copied. In the copy, no run is driven by anybody.
///
/// # Errors
///
/// `NotACopy` if `target` contains something that `source` does not have: then nothing was written. `Store` if one of
/// them fails; a repeated call continues where it stopped.
pub async fn copy(
    source: &dyn Store,
    target: &dyn Store,
    so_far: &mut (dyn FnMut(Copied) + Send),
) -> Result<Copied, CopyError> {
    compare::must_be_a_copy(source, target).await?;
    let mut copied = Copied::default();
    // The notes last, so that they contain nothing that is forgotten meanwhile.
    loop {
        let before = copied.commits;
        let spaces = source.spaces().await?;
        copied.spaces = spaces.len() as u64;
        for space in &spaces {
            copy_log(source, target, space, &mut copied, so_far).await?;
        }
        if copied.commits == before {
            break;
        }
    }
    for space in source.spaces().await? {
        erase_forgotten_runs(target, &space).await?;
        copied.notes += notes::copy(source, target, &space).await?;
        so_far(copied);
    }
    // A token that was revoked in the copy stays revoked: this is recorded nowhere else.
    let target_tokens = target.tokens().await?.into_iter();
    let revoked_ids: HashSet<_> = target_tokens
        .filter(|token| token.revoked_at.is_some())
        .map(|token| token.id)
        .collect();
    for token in source.tokens().await? {
        if !revoked_ids.contains(&token.id) {
            target.keep_token(token).await?;
            copied.tokens += 1;
        }
    }
    Ok(copied)
}

/// Erases in `target` what the journals of forgotten runs say. A run that was forgotten after its journal was copied is
/// only marked by what was taken over, and so is one whose copy was interrupted; elsewhere, nothing is left to erase.
async fn erase_forgotten_runs(target: &dyn Store, space: &SpaceName) -> Result<(), StoreError> {
    let mut query = RunQuery {
        status: vec![Run::FORGOTTEN.to_owned()],
        limit: FORGOTTEN_RUNS,
        ..RunQuery::default()
    };
    loop {
        let runs = target.runs(space, &query).await?;
        for run in &runs {
            let mut after = Seq(0);
            while let Some(next) = target.erase_run_part(space, run.id, after).await? {
                after = next;
            }
        }
        let Some(last) = runs.last().filter(|_| runs.len() == FORGOTTEN_RUNS as usize) else {
            return Ok(());
        };
        query.before = Some(last.handle.0);
    }
}

/// What is wrong with `target` as a copy of `source`: empty if each of its commits is that of the source, and all of
/// its rows follow from them.
///
/// # Errors
///
/// `Unavailable`.
pub async fn verify(source: &dyn Store, target: &dyn Store) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for space in source.spaces().await? {
        if let Some(difference) = compare::compare(source, target, &space, true).await? {
            problems.push(format!("space {space} {difference}"));
        }
    }
    problems.extend(target.check().await?.problems);
    Ok(problems)
}

/// Copies the commits of `space` that the copy does not have yet.
async fn copy_log(
    source: &dyn Store,
    target: &dyn Store,
    space: &SpaceName,
    copied: &mut Copied,
    so_far: &mut (dyn FnMut(Copied) + Send),
) -> Result<(), CopyError> {
    let mut head = target.head(space).await?;
    let mut copied_hashes = HashSet::new();
    let mut attempts = 0;
    loop {
        let commits = next(source, space, head, &copied_hashes).await?;
        let Some(last) = commits.last() else {
            return Ok(());
        };
        let (last, count) = (last.row.seq, commits.len() as u64);
        let hashes: Vec<_> = commits
            .iter()
            .flat_map(|commit| &commit.bodies)
            .map(|body| body.hash().clone())
            .collect();
        match target.take_over(space, commits).await {
            Ok(_) => {}
            // A body of a commit was forgotten between two reads. By now the commit no longer refers to it.
            Err(StoreError::Invalid(_)) if attempts < MAX_REREADS => {
                attempts += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        (head, attempts) = (last, 0);
        copied.commits += count;
        copied.bodies += hashes.len() as u64;
        copied_hashes.extend(hashes);
        so_far(*copied);
    }
}

/// The next commits after `since`, with the bodies to which they refer and that are not among `copied_hashes`.
async fn next(
    source: &dyn Store,
    space: &SpaceName,
    since: Seq,
    copied_hashes: &HashSet<BlobHash>,
) -> Result<Vec<CopiedCommit>, StoreError> {
    let mut commits: Vec<CopiedCommit> = Vec::new();
    let (mut since, mut bytes, mut brings) = (since, 0, HashSet::new());
    // The numbers of dropped entries must come together with the next entry: a store may count what it has.
    let mut owes_entry = false;
    loop {
        let rows = source.changes(space, since, COMMITS).await?;
        let is_last = rows.is_empty();
        for row in rows {
            let text = fold::record_json(&row.record)?;
            let mut bodies = Vec::new();
            let mut named: Vec<String> = fold::hashes_in(&text).into_iter().collect();
            while let Some(hash) = named.pop() {
                let hash = BlobHash(hash);
                if copied_hashes.contains(&hash) || !brings.insert(hash.clone()) {
                    continue;
                }
                match source.blob(space, &hash).await {
                    Ok(body) => {
                        if ends_turn_with(&row.record, &hash) {
                            named.extend(export::part_bodies(&body));
                        }
                        bytes += body.len();
                        bodies.push(Blob::new(body));
                    }
                    // A number that looks like a hash, or a body that is gone.
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            bytes += text.len();
            since = row.seq;
            owes_entry |= row.record.folded.is_some_and(|folded| folded.entries > 0);
            owes_entry &= !row
                .record
                .changes
                .iter()
                .any(|change| matches!(change, Change::AddEntry(_)));
            commits.push(CopiedCommit { row, bodies });
            if bytes >= BYTES && !owes_entry {
                return Ok(commits);
            }
        }
        if is_last || !owes_entry {
            return Ok(commits);
        }
    }
}

/// Whether `record` ends a turn whose export is the body `hash`, which names further bodies.
fn ends_turn_with(record: &Record, hash: &BlobHash) -> bool {
    let is_end = |change: &Change| matches!(change, Change::EndTurn { end, .. } if end.export == hash.0);
    record.changes.iter().any(is_end)
}
