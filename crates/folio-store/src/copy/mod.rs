//! A whole store in another one: every commit with its number, every body, note and token (`folio migrate`).
//!
//! Rows follow from the log, so the log is what is copied: the other store takes its commits over one after the other, and
//! what is made of them there is what was made of them here. Others may go on writing meanwhile: whatever they have added is
//! copied in the next round, until a round finds nothing more. A copy that was broken off goes on where it was.

mod compare;
mod notes;

use std::collections::HashSet;

use folio_memory::{Change, Seq, SpaceName};
use serde::Serialize;

pub use self::compare::Difference;

use crate::commit::{Blob, BlobHash};
use crate::error::StoreError;
use crate::fold;
use crate::store::{LogRow, Store};

/// Commits that are handed over at a time.
const COMMITS: u32 = 128;
/// Bytes of commits and bodies after which they are handed over.
const BYTES: usize = 8 * 1024 * 1024;
/// How often commits are read anew because what they name was forgotten meanwhile.
const AGAIN: u32 = 5;

/// A commit of another store, with the bodies that it names.
#[derive(Debug, Clone)]
pub struct CopiedCommit {
    /// As the log of the other store has it.
    pub row: LogRow,
    /// Bodies that this store may not have yet.
    pub bodies: Vec<Blob>,
}

/// What was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Copied {
    /// Spaces that there are.
    pub spaces: u64,
    /// Commits that were taken over; those of an earlier copy are not counted.
    pub commits: u64,
    /// Bodies that came with them.
    pub bodies: u64,
    /// Notes of what happened besides.
    pub notes: u64,
    /// Tokens of servers.
    pub tokens: u64,
}

/// Why a store could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One of the two stores could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is to become the copy has something of its own.
    #[error("{location} is no copy of {of}: space {space} {difference}")]
    NotACopy {
        /// What was to become the copy.
        location: String,
        /// What was to be copied.
        of: String,
        /// Where they differ.
        space: SpaceName,
        /// How.
        difference: Difference,
    },
}

/// Makes `target` a copy of `source`, or brings a copy up to date: everything that is committed when the last round begins.
///
/// `so_far` is told now and then what was copied. Runs are driven by nobody in the copy.
///
/// # Errors
///
/// `NotACopy` if there is something in `target` that `source` does not have: then nothing was written. `Store` if one of
/// them fails; asked again, it goes on where it was.
pub async fn copy(
    source: &dyn Store,
    target: &dyn Store,
    so_far: &mut (dyn FnMut(Copied) + Send),
) -> Result<Copied, CopyError> {
    compare::must_be_a_copy(source, target).await?;
    let mut copied = Copied::default();
    // The notes last: what is forgotten meanwhile is in none of those that are left.
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
        copied.notes += notes::copy(source, target, &space).await?;
        so_far(copied);
    }
    // What was taken back in the copy stays so: it says so nowhere else.
    let there = target.tokens().await?.into_iter();
    let taken_back: HashSet<_> = there
        .filter(|token| token.revoked_at.is_some())
        .map(|token| token.id)
        .collect();
    for token in source.tokens().await? {
        if !taken_back.contains(&token.id) {
            target.keep_token(token).await?;
            copied.tokens += 1;
        }
    }
    Ok(copied)
}

/// What is wrong with `target` as a copy of `source`: nothing if every commit that it has is that of the source, and all of
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

/// Copies what `space` has beyond what the copy has.
async fn copy_log(
    source: &dyn Store,
    target: &dyn Store,
    space: &SpaceName,
    copied: &mut Copied,
    so_far: &mut (dyn FnMut(Copied) + Send),
) -> Result<(), CopyError> {
    let mut head = target.head(space).await?;
    let mut brought = HashSet::new();
    let mut attempts = 0;
    loop {
        let commits = next(source, space, head, &brought).await?;
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
            // A body that a commit names was forgotten between two questions. Now the commit does not name it any more.
            Err(StoreError::Invalid(_)) if attempts < AGAIN => {
                attempts += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        (head, attempts) = (last, 0);
        copied.commits += count;
        copied.bodies += hashes.len() as u64;
        brought.extend(hashes);
        so_far(*copied);
    }
}

/// The next commits after `since`, with the bodies that they name and that are not among `brought`.
async fn next(
    source: &dyn Store,
    space: &SpaceName,
    since: Seq,
    brought: &HashSet<BlobHash>,
) -> Result<Vec<CopiedCommit>, StoreError> {
    let mut commits: Vec<CopiedCommit> = Vec::new();
    let (mut since, mut bytes, mut brings) = (since, 0, HashSet::new());
    // Numbers of entries of which nothing is left go with the next entry: a store may count what it has.
    let mut owes_entry = false;
    loop {
        let rows = source.changes(space, since, COMMITS).await?;
        let is_last = rows.is_empty();
        for row in rows {
            let text = fold::record_json(&row.record)?;
            let mut bodies = Vec::new();
            for hash in fold::hashes_in(&text) {
                let hash = BlobHash(hash);
                if brought.contains(&hash) || !brings.insert(hash.clone()) {
                    continue;
                }
                match source.blob(space, &hash).await {
                    Ok(body) => {
                        bytes += body.len();
                        bodies.push(Blob::new(body));
                    }
                    // A number that looks like a name, or a body that is not there any more.
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
