//! The jobs of the writer, and their outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use folio_memory::{RunId, Seq, SpaceName};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::compact::Compact;
use super::error::{Failure, not_found};
use super::lease::Owners;
use super::place::{Place, SpaceId};
use super::scope::Scope;
use super::trace::{self, Notes};
use super::{commit, compact, erase, run, text, token};
use crate::access::KeptToken;
use crate::commit::Committed;
use crate::error::StoreError;
use crate::parts::CommittedParts;
use crate::prepare::Prepared;
use crate::store::OwnerId;
use crate::upkeep::Compacted;

/// The most bytes of a small commit.
const SMALL: usize = 64 * 1024;

/// A size that fills a transaction, so that nothing else is added to it.
const FULL_TRANSACTION_BYTES: usize = usize::MAX / 2;

/// Where the answer to a job goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// A job for the writer.
#[derive(Debug)]
pub(super) enum Job {
    /// Shared with the caller, so that it is dropped there and not on the writer's thread, for which everybody waits.
    Commit(Arc<Prepared>, Answer<Committed>),
    /// Consecutive commits, all or none of which are written. Has a transaction to itself.
    Parts(Box<InParts>, Answer<CommittedParts>),
    /// Commits of another store, of one space, all or none of which are written.
    TakeOver(Vec<Prepared>, Answer<Seq>),
    Claim(RunClaim, Answer<Option<u64>>),
    Release(RunRelease, Answer<()>),
    /// Gives up what was granted to a claim for which nobody waits any more.
    Unclaim(RunClaim),
    Trace(Notes, Answer<()>),
    /// Lets the index of words of a space catch up with its log, for a limited time.
    Index(SpaceId, Answer<Seq>),
    Compact(Compact, Answer<Compacted>),
    /// Deletes notes that contain one of the texts.
    ForgetNotes(ForgottenTexts, Answer<Option<Place>>),
    /// Erases a part of what a forgotten run said; answers where the next part begins.
    EraseRun(ForgottenRunPart, Answer<Option<Seq>>),
    /// Rewrites a part of the index of words of a space; answers whether it was the last part.
    CleanUp(SpaceId, Answer<bool>),
    Token(Box<KeptToken>, Answer<()>),
    /// Renews the leases of this process's owners.
    Renew,
}

/// A write in parts.
#[derive(Debug)]
pub(super) struct InParts {
    /// Nothing is begun before the first part is there.
    pub(super) first: Prepared,
    pub(super) rest: Mutex<mpsc::Receiver<Next>>,
}

/// What follows a part. If nothing follows and there was no `End`, the whole write was given up.
#[derive(Debug)]
pub(super) enum Next {
    Part(Box<Prepared>),
    End,
}

/// A claim to drive a run.
#[derive(Debug, Clone)]
pub(super) struct RunClaim {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) owner: OwnerId,
    /// The fence that was granted; zero before.
    pub(super) granted: Arc<AtomicU64>,
}

/// A run to release, with the fence under which it was held.
#[derive(Debug)]
pub(super) struct RunRelease {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) fence: u64,
}

/// Texts that must disappear from the notes of a space, beginning after a note. Only some of the notes are searched.
#[derive(Debug)]
pub(super) struct ForgottenTexts {
    pub(super) space: SpaceName,
    pub(super) texts: Arc<Vec<String>>,
    pub(super) after: Option<Place>,
}

/// A part of a forgotten run: what it said after a commit.
#[derive(Debug)]
pub(super) struct ForgottenRunPart {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) after: Seq,
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum Done {
    Committed(Box<Committed>),
    InParts(Box<CommittedParts>),
    /// The fence of the claim; `None` if it has to be tried again later.
    Claimed(Option<u64>),
    TakenOver(Seq),
    Indexed(Seq),
    Compacted(Compacted),
    Cleaned(bool),
    ErasedUntil(Option<Seq>),
    /// The last note that was searched, if there are more.
    NotesSearched(Option<Place>),
    /// Whether the run was held under the fence that was given up.
    Released(bool),
    Nothing,
}

impl Job {
    /// Roughly how many bytes the job adds to a transaction.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.bytes(),
            Self::TakeOver(commits, _) => commits.iter().map(Prepared::bytes).sum(),
            Self::Trace(notes, _) => notes.bytes(),
            Self::Parts(..) | Self::Index(..) | Self::ForgetNotes(..) | Self::EraseRun(..) | Self::CleanUp(..) => {
                FULL_TRANSACTION_BYTES
            }
            Self::Claim(..)
            | Self::Release(..)
            | Self::Unclaim(..)
            | Self::Compact(..)
            | Self::Token(..)
            | Self::Renew => 0,
        }
    }

    /// Whether the job takes only a moment. A claim may have to look at files, and wait for them.
    pub(super) fn is_small(&self) -> bool {
        match self {
            Self::Commit(commit, _) => commit.bytes() <= SMALL,
            Self::Release(..) | Self::Token(..) => true,
            // Nobody waits for notes.
            Self::Parts(..)
            | Self::TakeOver(..)
            | Self::Claim(..)
            | Self::Unclaim(..)
            | Self::Trace(..)
            | Self::Index(..)
            | Self::Compact(..)
            | Self::ForgetNotes(..)
            | Self::EraseRun(..)
            | Self::CleanUp(..)
            | Self::Renew => false,
        }
    }

    /// Whether the job may be lost in a power failure, so that nobody has to wait for the disk.
    pub(super) fn may_be_lost(&self) -> bool {
        matches!(self, Self::Trace(..) | Self::Index(..))
    }

    /// Whether the job cannot be repeated, and so must not share a transaction with others that may fail.
    pub(super) fn needs_own_transaction(&self) -> bool {
        matches!(self, Self::Parts(..))
    }

    /// Does the job within a transaction. A refused job writes nothing.
    pub(super) fn apply(&self, scope: &mut Scope<'_>, owners: &Owners) -> Result<Done, Failure> {
        Ok(match self {
            Self::Commit(prepared, _) => Done::Committed(Box::new(commit::apply(scope, prepared, owners)?)),
            Self::Parts(parts, _) => {
                let committed = commit::in_parts(scope, parts, owners)?;
                // The leases could not be renewed while the parts came.
                if owners.are_driving() {
                    owners.renew_all(scope.conn, owners.lease())?;
                }
                Done::InParts(Box::new(committed))
            }
            Self::TakeOver(commits, _) => Done::TakenOver(commit::take_over(scope, commits, owners)?),
            // Its runtime may have ended while the claim waited for its turn.
            Self::Claim(claim, answer) if answer.is_closed() => {
                claim.granted.store(0, Ordering::Release);
                Done::Claimed(None)
            }
            Self::Claim(claim, _) => {
                // What an earlier attempt was granted may have been rolled back.
                claim.granted.store(0, Ordering::Release);
                let space = scope.space(&claim.space)?;
                scope.changes_driver(space, claim.run);
                let fence = run::claim(scope.conn, space, claim.run, &claim.owner, owners)?;
                claim.granted.store(fence.unwrap_or(0), Ordering::Release);
                Done::Claimed(fence)
            }
            Self::Unclaim(claim) => {
                let fence = claim.granted.load(Ordering::Acquire);
                Done::Released(if fence > 0 {
                    let space = scope.space(&claim.space)?;
                    scope.changes_driver(space, claim.run);
                    run::release(scope.conn, space, claim.run, fence)?
                } else {
                    false
                })
            }
            Self::Release(RunRelease { space, run, fence }, _) => {
                let space = scope.space(space)?;
                scope.changes_driver(space, *run);
                Done::Released(run::release(scope.conn, space, *run, *fence)?)
            }
            Self::Trace(notes, _) => {
                trace::append(scope, notes)?;
                Done::Nothing
            }
            Self::Index(space, _) => Done::Indexed(text::catch_up(scope.conn, *space)?),
            Self::Compact(Compact { space, compaction }, _) => Done::Compacted(match scope.space(space)? {
                Some(space) => {
                    scope.forget_steps();
                    compact::compact(scope.conn, space, compaction)?
                }
                None => Compacted::default(),
            }),
            Self::Token(kept, _) => {
                token::keep(scope.conn, kept)?;
                Done::Nothing
            }
            Self::ForgetNotes(ForgottenTexts { space, texts, after }, _) => {
                Done::NotesSearched(match scope.space(space)? {
                    Some(space) => trace::forget_texts(scope.conn, space, texts, *after)?,
                    None => None,
                })
            }
            Self::EraseRun(ForgottenRunPart { space, run, after }, _) => {
                let space = scope.space(space)?.ok_or_else(|| not_found("run", *run))?;
                Done::ErasedUntil(erase::remove_run_part(scope.conn, space, *run, *after)?)
            }
            Self::CleanUp(space, _) => Done::Cleaned(text::clean_up(scope.conn, *space)?),
            Self::Renew => {
                owners.renew_all(scope.conn, owners.lease())?;
                Done::Nothing
            }
        })
    }

    /// Sends the answer to whoever waits for it. It does not matter if nobody waits any more.
    pub(super) fn answer(self, done: Result<Done, StoreError>, owners: &Owners) {
        match (self, done) {
            (Self::Commit(prepared, answer), Ok(Done::Committed(committed))) => {
                drop(prepared);
                drop(answer.send(Ok(*committed)));
            }
            (Self::Commit(prepared, answer), Err(error)) => {
                drop(prepared);
                drop(answer.send(Err(error)));
            }
            (Self::Parts(_, answer), Ok(Done::InParts(committed))) => drop(answer.send(Ok(*committed))),
            (Self::Parts(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::TakeOver(_, answer), Ok(Done::TakenOver(seq))) => drop(answer.send(Ok(seq))),
            (Self::TakeOver(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Claim(claim, answer), Ok(Done::Claimed(fence))) => {
                if fence.is_some() {
                    owners.record_driving(&claim.space, claim.run, &claim.owner);
                }
                drop(answer.send(Ok(fence)));
            }
            (Self::Claim(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Release(release, answer), done) => {
                owners.record_release(&release.space, release.run);
                drop(answer.send(done.map(drop)));
            }
            // If it was not held any more, another claim of this process may hold it.
            (Self::Unclaim(claim), Ok(Done::Released(true))) => owners.record_release(&claim.space, claim.run),
            (Self::Trace(_, answer) | Self::Token(_, answer), done) => drop(answer.send(done.map(drop))),
            (Self::ForgetNotes(_, answer), Ok(Done::NotesSearched(last))) => drop(answer.send(Ok(last))),
            (Self::ForgetNotes(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Index(_, answer), Ok(Done::Indexed(seq))) => drop(answer.send(Ok(seq))),
            (Self::Index(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Compact(_, answer), Ok(Done::Compacted(compacted))) => drop(answer.send(Ok(compacted))),
            (Self::Compact(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::EraseRun(_, answer), Ok(Done::ErasedUntil(next))) => drop(answer.send(Ok(next))),
            (Self::EraseRun(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::CleanUp(_, answer), Ok(Done::Cleaned(is_last))) => drop(answer.send(Ok(is_last))),
            (Self::CleanUp(_, answer), Err(error)) => drop(answer.send(Err(error))),
            // A lease that could not be renewed is renewed next time, or another process takes over.
            (
                Self::Renew
                | Self::Commit(..)
                | Self::Parts(..)
                | Self::TakeOver(..)
                | Self::Claim(..)
                | Self::Unclaim(..)
                | Self::Index(..)
                | Self::Compact(..)
                | Self::ForgetNotes(..)
                | Self::EraseRun(..)
                | Self::CleanUp(..),
                _,
            ) => {}
        }
    }
}
