//! What can be asked of the writer, and what becomes of it.

use std::sync::Arc;

use folio_memory::{RunId, Seq, SpaceName};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::compact::Compact;
use super::error::Failure;
use super::lease::Owners;
use super::place::SpaceId;
use super::scope::Scope;
use super::trace::{self, Notes};
use super::{commit, compact, run, text, token};
use crate::access::KeptToken;
use crate::commit::Committed;
use crate::error::StoreError;
use crate::parts::CommittedParts;
use crate::prepare::Prepared;
use crate::store::OwnerId;
use crate::upkeep::Compacted;

/// Bytes of a commit that is small.
const SMALL: usize = 64 * 1024;

/// What fills a transaction, so that nothing more comes into it.
const ENOUGH: usize = usize::MAX / 2;

/// Where an answer goes.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to write.
#[derive(Debug)]
pub(super) enum Job {
    /// Whoever brings it holds it, too: so it is taken apart there, and not by the thread that all wait for.
    Commit(Arc<Prepared>, Answer<Committed>),
    /// Commits that come one after the other: all of them, or none. Has a transaction to itself.
    Parts(Box<InParts>, Answer<CommittedParts>),
    /// Commits of another store, of one space: all of them, or none.
    TakeOver(Vec<Prepared>, Answer<Seq>),
    Claim(RunClaim, Answer<Option<u64>>),
    Release(RunRelease, Answer<()>),
    Trace(Notes, Answer<()>),
    /// The index of words of a space catches up with its log, for a while.
    Index(SpaceId, Answer<Seq>),
    Compact(Compact, Answer<Compacted>),
    /// Lets go of notes that say one of the texts.
    ForgetNotes(Gone, Answer<()>),
    /// A part of the index of words of a space is written anew; whether that was the last.
    CleanUp(SpaceId, Answer<bool>),
    Token(Box<KeptToken>, Answer<()>),
    /// The owners of this process say that they go on.
    Renew,
}

/// A write in parts.
#[derive(Debug)]
pub(super) struct InParts {
    /// Nothing is begun before there is one.
    pub(super) first: Prepared,
    pub(super) rest: Mutex<mpsc::Receiver<Next>>,
}

/// What comes behind a part. If nothing comes any more and nothing has said that there is an end, all of it was given up.
#[derive(Debug)]
pub(super) enum Next {
    Part(Box<Prepared>),
    End,
}

/// Who wants to drive which run.
#[derive(Debug, Clone)]
pub(super) struct RunClaim {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) owner: OwnerId,
}

/// Which run is given up, and under which number it was held.
#[derive(Debug)]
pub(super) struct RunRelease {
    pub(super) space: SpaceName,
    pub(super) run: RunId,
    pub(super) fence: u64,
}

/// Texts that are to be gone from the notes of a space.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) space: SpaceName,
    pub(super) texts: Arc<Vec<String>>,
}

/// What became of a job.
#[derive(Debug)]
pub(super) enum Done {
    Committed(Box<Committed>),
    InParts(Box<CommittedParts>),
    /// Under this fence, or not yet.
    Claimed(Option<u64>),
    TakenOver(Seq),
    Indexed(Seq),
    Compacted(Compacted),
    Cleaned(bool),
    Nothing,
}

impl Job {
    /// About how much it adds to a transaction.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.bytes(),
            Self::TakeOver(commits, _) => commits.iter().map(Prepared::bytes).sum(),
            Self::Trace(notes, _) => notes.bytes(),
            Self::Parts(..) | Self::Index(..) | Self::ForgetNotes(..) | Self::CleanUp(..) => ENOUGH,
            Self::Claim(..) | Self::Release(..) | Self::Compact(..) | Self::Token(..) | Self::Renew => 0,
        }
    }

    /// Whether it is done in a moment. Who claims a run may have to look at files, and wait for them.
    pub(super) fn is_small(&self) -> bool {
        match self {
            Self::Commit(commit, _) => commit.bytes() <= SMALL,
            Self::Release(..) | Self::Token(..) => true,
            // Nobody waits for what is only noted.
            Self::Parts(..)
            | Self::TakeOver(..)
            | Self::Claim(..)
            | Self::Trace(..)
            | Self::Index(..)
            | Self::Compact(..)
            | Self::ForgetNotes(..)
            | Self::CleanUp(..)
            | Self::Renew => false,
        }
    }

    /// Whether it may be lost when the power fails, so that nobody has to wait for the disk.
    pub(super) fn may_be_lost(&self) -> bool {
        matches!(self, Self::Trace(..) | Self::Index(..))
    }

    /// Whether it cannot be done a second time, and so not together with others, that may fail.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self, Self::Parts(..))
    }

    /// Does it within a transaction. Nothing is written by a job that is refused.
    pub(super) fn apply(&self, scope: &mut Scope<'_>, owners: &Owners) -> Result<Done, Failure> {
        Ok(match self {
            Self::Commit(prepared, _) => Done::Committed(Box::new(commit::apply(scope, prepared, owners)?)),
            Self::Parts(parts, _) => {
                let committed = commit::in_parts(scope, parts, owners)?;
                // Nobody could say so while they came.
                if owners.are_driving() {
                    owners.renew_all(scope.conn, owners.lease())?;
                }
                Done::InParts(Box::new(committed))
            }
            Self::TakeOver(commits, _) => Done::TakenOver(commit::take_over(scope, commits, owners)?),
            Self::Claim(RunClaim { space, run, owner }, _) => {
                let space = scope.space(space)?;
                scope.changes_driver(space, *run);
                Done::Claimed(run::claim(scope.conn, space, *run, owner, owners)?)
            }
            Self::Release(RunRelease { space, run, fence }, _) => {
                let space = scope.space(space)?;
                scope.changes_driver(space, *run);
                run::release(scope.conn, space, *run, *fence)?;
                Done::Nothing
            }
            Self::Trace(notes, _) => {
                trace::append(scope, notes)?;
                Done::Nothing
            }
            Self::Index(space, _) => Done::Indexed(text::catch_up(scope.conn, *space)?),
            Self::Compact(Compact { space, compaction }, _) => Done::Compacted(match scope.space(space)? {
                Some(space) => {
                    scope.gives_up_tombstones();
                    compact::compact(scope.conn, space, compaction)?
                }
                None => Compacted::default(),
            }),
            Self::Token(kept, _) => {
                token::keep(scope.conn, kept)?;
                Done::Nothing
            }
            Self::ForgetNotes(Gone { space, texts }, _) => {
                if let Some(space) = scope.space(space)? {
                    trace::forget_texts(scope.conn, space, texts)?;
                }
                Done::Nothing
            }
            Self::CleanUp(space, _) => Done::Cleaned(text::clean_up(scope.conn, *space)?),
            Self::Renew => {
                owners.renew_all(scope.conn, owners.lease())?;
                Done::Nothing
            }
        })
    }

    /// Tells whoever waits for it. Somebody who does not wait any more is no reason to do anything differently.
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
                    owners.drives(&claim.space, claim.run);
                }
                drop(answer.send(Ok(fence)));
            }
            (Self::Claim(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Release(release, answer), done) => {
                owners.gave_up(&release.space, release.run);
                drop(answer.send(done.map(drop)));
            }
            (Self::Trace(_, answer) | Self::Token(_, answer) | Self::ForgetNotes(_, answer), done) => {
                drop(answer.send(done.map(drop)));
            }
            (Self::Index(_, answer), Ok(Done::Indexed(seq))) => drop(answer.send(Ok(seq))),
            (Self::Index(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::Compact(_, answer), Ok(Done::Compacted(compacted))) => drop(answer.send(Ok(compacted))),
            (Self::Compact(_, answer), Err(error)) => drop(answer.send(Err(error))),
            (Self::CleanUp(_, answer), Ok(Done::Cleaned(is_last))) => drop(answer.send(Ok(is_last))),
            (Self::CleanUp(_, answer), Err(error)) => drop(answer.send(Err(error))),
            // A lease that could not be renewed is renewed next time, or another process takes over.
            (
                Self::Renew
                | Self::Commit(..)
                | Self::Parts(..)
                | Self::TakeOver(..)
                | Self::Claim(..)
                | Self::Index(..)
                | Self::Compact(..)
                | Self::CleanUp(..),
                _,
            ) => {}
        }
    }
}
