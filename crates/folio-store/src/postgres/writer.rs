//! The writer of commits: one transaction at a time for each space.
//!
//! Making a transaction durable takes longer than filling it, so while one is under way the commits for the next
//! gather, and all of them go into one. No commit is held back to wait for others. Spaces do not wait for one another,
//! and other processes only for the lock of a space.

use std::collections::{HashMap, HashSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use folio_memory::causes::with_causes;
use folio_memory::{Change, Seq, SpaceName};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinError;
use tokio_postgres::error::SqlState;

use super::Inner;
use super::commit::{self, Fate, InDoubt, Unapplied};
use super::error::Failure;
use super::patience::{Wait, patiently};
use super::session::Purpose;
use crate::commit::{Commit, Committed};
use crate::copy::CopiedCommit;
use crate::error::StoreError;
use crate::prepare::Prepared;

/// How many commits may wait before callers with more have to wait themselves.
const WAITING_MAX: usize = 4_096;
/// The most commits in one transaction.
const COMMITS_MAX: usize = 512;
/// The size in bytes at which a transaction is closed.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A commit that waits, and where its answer goes.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) commit: Prepared,
    pub(super) answer: oneshot::Sender<Result<Committed, StoreError>>,
    /// Counts from when the commit was handed in.
    pub(super) wait: Wait,
}

/// The waiting commits by space. A space is here as long as a task works on it.
#[derive(Debug)]
pub(super) struct Writer {
    spaces: Mutex<HashMap<SpaceName, VecDeque<Waiting>>>,
    room: Semaphore,
    /// A write in parts uses a connection for long, so the next one waits without a connection.
    pub(super) in_parts: Semaphore,
    busy: watch::Sender<usize>,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            spaces: Mutex::default(),
            room: Semaphore::new(WAITING_MAX),
            in_parts: Semaphore::new(1),
            busy: watch::Sender::new(0),
        }
    }
}

impl Writer {
    /// Waits until nothing is left to be written.
    pub(super) async fn is_idle(&self) {
        // The sender lives as long as the writer, so this ends only when nobody is busy.
        drop(self.busy.subscribe().wait_for(|busy| *busy == 0).await);
    }

    /// Puts `waiting` back to the front of the queue of `space`, on which a task works.
    fn put_back(&self, space: &SpaceName, waiting: Vec<Waiting>) {
        let mut spaces = self.spaces();
        let queue = spaces.entry(space.clone()).or_default();
        for one in waiting.into_iter().rev() {
            queue.push_front(one);
        }
    }

    /// Queues `waiting`; returns whether a task works on the space already.
    fn queue(&self, waiting: Waiting) -> bool {
        let mut spaces = self.spaces();
        if let Some(queue) = spaces.get_mut(&waiting.commit.space) {
            queue.push_back(waiting);
            return true;
        }
        self.busy.send_modify(|busy| *busy += 1);
        spaces.insert(waiting.commit.space.clone(), VecDeque::from([waiting]));
        false
    }

    /// Records that no task works on `space` any more. Commits that still wait there are answered with an error.
    fn leave(&self, spaces: &mut HashMap<SpaceName, VecDeque<Waiting>>, space: &SpaceName) {
        spaces.remove(space);
        self.busy.send_modify(|busy| *busy -= 1);
    }

    fn spaces(&self) -> MutexGuard<'_, HashMap<SpaceName, VecDeque<Waiting>>> {
        self.spaces.lock()
    }
}

/// Marks a space as being worked on until nothing is left there; or until this is dropped, because a write panicked or
/// its runtime ended: then the next commit of the space starts over, instead of waiting for ever.
#[derive(Debug)]
struct AtWork<'w> {
    writer: &'w Writer,
    space: &'w SpaceName,
    is_over: bool,
}

impl AtWork<'_> {
    /// The commits for the next transaction. If none is left, the space is no longer worked on.
    fn next(&mut self) -> Vec<Waiting> {
        let mut spaces = self.writer.spaces();
        let group = spaces.get_mut(self.space).map(group).unwrap_or_default();
        if group.is_empty() {
            self.is_over = true;
            self.writer.leave(&mut spaces, self.space);
        }
        group
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.writer.leave(&mut self.writer.spaces(), self.space);
        }
    }
}

/// Takes from `queue` what can be decided together: not a commit that must see in the log what another of them has
/// written.
fn group(queue: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut group: Vec<Waiting> = Vec::new();
    let (mut keys, mut changed, mut bytes) = (HashSet::new(), HashSet::new(), 0);
    while let Some(next) = queue.front() {
        let erases = |commit: &Prepared| {
            commit.record.changes.iter().any(|c| {
                matches!(
                    c,
                    Change::EraseEntry { .. } | Change::EraseTurn { .. } | Change::EraseRun { .. }
                )
            })
        };
        let looks_back = |change: &Change| match change {
            Change::PatchEntry {
                entry,
                base_version: Some(_),
                ..
            } => changed.contains(entry),
            _ => false,
        };
        let is_repeated = next.commit.key.as_ref().is_some_and(|key| keys.contains(key));
        let is_full = group.len() >= COMMITS_MAX || bytes >= BYTES_MAX;
        let is_alone = group.last().is_some_and(|last| erases(&last.commit)) || erases(&next.commit);
        if is_full
            || is_repeated
            || (is_alone && !group.is_empty())
            || next.commit.record.changes.iter().any(looks_back)
        {
            break;
        }
        keys.extend(next.commit.key.clone());
        bytes += next.commit.bytes();
        changed.extend(next.commit.record.changes.iter().filter_map(|change| match change {
            Change::PatchEntry { entry, .. } => Some(*entry),
            Change::AddEntry(new) => Some(new.id),
            _ => None,
        }));
        group.extend(queue.pop_front());
    }
    group
}

impl Inner {
    /// Writes `commit`, together with whatever else waits.
    pub(super) async fn write(self: Arc<Self>, commit: Prepared) -> Result<Committed, StoreError> {
        let unavailable = || StoreError::Unavailable {
            doing: "write to",
            location: self.target.location.clone(),
            reason: "the writer has stopped".to_owned(),
            source: None,
        };
        let wait = Wait::begin();
        let _room = self.writer.room.acquire().await.map_err(|_| unavailable())?;
        let space = commit.space.clone();
        let (answer, written) = oneshot::channel();
        if !self.writer.queue(Waiting { commit, answer, wait }) {
            let inner = Arc::clone(&self);
            // The caller may go away; what was begun goes on.
            tokio::spawn(async move {
                let mut at_work = AtWork {
                    writer: &inner.writer,
                    space: &space,
                    is_over: false,
                };
                loop {
                    let group = at_work.next();
                    if group.is_empty() {
                        break;
                    }
                    Box::pin(inner.write_group(&space, group)).await;
                }
            });
        }
        written.await.map_err(|_| unavailable())?
    }

    /// Prepares `commit` on a thread for blocking work.
    pub(super) async fn prepared(&self, commit: Commit) -> Result<Prepared, StoreError> {
        let prepared = tokio::task::spawn_blocking(move || Prepared::of(commit)).await;
        prepared.map_err(|error| self.unprepared(error))?
    }

    /// The error that the preparation of commits ended before it was done.
    fn unprepared(&self, error: JoinError) -> StoreError {
        StoreError::Unavailable {
            doing: "write to",
            location: self.target.location.clone(),
            reason: "the commit was not prepared".to_owned(),
            source: Some(Box::new(error)),
        }
    }

    /// Writes `commits` of another store, in order, as many in a transaction as can be decided together; returns the
    /// last number.
    pub(super) async fn take_over(&self, space: &SpaceName, commits: Vec<CopiedCommit>) -> Result<Seq, StoreError> {
        let name = space.clone();
        let prepared = tokio::task::spawn_blocking(move || Prepared::taken_over(&name, commits));
        let prepared = prepared.await.map_err(|error| self.unprepared(error))??;
        // Nobody waits for the single answers.
        let mut queue: VecDeque<_> = prepared
            .into_iter()
            .map(|commit| Waiting {
                commit,
                answer: oneshot::channel().0,
                wait: Wait::begin(),
            })
            .collect();
        let mut last = Seq(0);
        while !queue.is_empty() {
            let commits: Vec<_> = group(&mut queue).into_iter().map(|one| one.commit).collect();
            let done = self
                .write_together(space, &commits, Wait::begin())
                .await
                .map_err(|(failure, _)| failure);
            for done in done
                .and_then(|done| done.into_iter().collect::<Result<Vec<_>, _>>())
                .map_err(|failure| failure.into_error("write to", &self.target.location))?
            {
                last = done.seq;
            }
        }
        Ok(last)
    }

    async fn write_group(&self, space: &SpaceName, group: Vec<Waiting>) {
        // They stand in the queue in the order in which they came.
        let wait = group.first().map_or_else(Wait::begin, |first| first.wait);
        let waits: Vec<_> = group.iter().map(|one| one.wait).collect();
        let (commits, answers): (Vec<_>, Vec<_>) = group.into_iter().map(|one| (one.commit, one.answer)).unzip();
        let done = match self.write_together(space, &commits, wait).await {
            Ok(done) => done,
            // Whoever came later has time left, and waits on.
            Err((failure, false))
                if (failure.is_waited_out() || failure.is_transient())
                    && wait.is_over()
                    && !waits.iter().all(|wait| wait.is_over()) =>
            {
                let (mut over, mut left) = (Vec::new(), Vec::new());
                for ((commit, answer), wait) in commits.into_iter().zip(answers).zip(waits) {
                    if wait.is_over() {
                        over.push(answer);
                    } else {
                        left.push(Waiting { commit, answer, wait });
                    }
                }
                self.writer.put_back(space, left);
                self.refuse_all(over, failure);
                return;
            }
            // One of the commits, or all together, is more than the server can do, so each is written by itself.
            Err((failure, false)) if commits.len() > 1 && may_affect_one_commit(&failure) => {
                let mut done = Vec::with_capacity(commits.len());
                for commit in &commits {
                    let result = self.write_together(space, std::slice::from_ref(commit), wait).await;
                    let result = result.map_err(|(failure, _)| failure).map(|mut one| one.pop());
                    done.push(match result {
                        Ok(Some(done)) => done,
                        Ok(None) => Err(Failure::Damaged("a commit without an answer".to_owned())),
                        Err(failure) => Err(failure),
                    });
                }
                done
            }
            Err((failure, _)) => {
                self.refuse_all(answers, failure);
                return;
            }
        };
        for (answer, done) in answers.into_iter().zip(done) {
            // It does not matter if the caller does not wait any more.
            drop(answer.send(done.map_err(|failure| failure.into_error("write to", &self.target.location))));
        }
    }

    /// Gives all callers the same error.
    fn refuse_all(&self, mut answers: Vec<oneshot::Sender<Result<Committed, StoreError>>>, failure: Failure) {
        let error = failure.into_error("write to", &self.target.location);
        let last = answers.pop();
        for answer in answers {
            drop(answer.send(Err(repeated(&error))));
        }
        if let Some(last) = last {
            drop(last.send(Err(error)));
        }
    }

    /// Writes `commits` in one transaction, or none of them; returns the outcome of each. On failure, also whether they
    /// may have been written all the same: if the connection is lost before the server answers, the next one shows
    /// whether they are there.
    async fn write_together(
        &self,
        space: &SpaceName,
        commits: &[Prepared],
        wait: Wait,
    ) -> Result<Vec<Result<Committed, Failure>>, (Failure, bool)> {
        let mut in_doubt: Option<InDoubt> = None;
        let written = patiently!(self, wait, {
            let session = self.begin_write(space, true, Purpose::Write, wait).await?;
            let Some(session) = session else { return Ok(None) };
            if let Some(doubt) = &in_doubt {
                match commit::fate(&session, commits, doubt).await? {
                    Fate::Written => {
                        let applied = in_doubt.take().map(InDoubt::into_applied);
                        return Ok(applied.map(|(done, head)| (done, session.space, head)));
                    }
                    Fate::NotWritten => in_doubt = None,
                    Fate::Unknown => {
                        let error = outcome_unknown(&self.target.location);
                        return Err(Failure::Refused(error));
                    }
                }
            }
            match Box::pin(commit::apply(&session, commits, &self.owners)).await {
                Ok((done, head)) => Ok(Some((done, session.space, head))),
                Err(Unapplied::Perhaps(failure, doubt)) => {
                    in_doubt = Some(doubt);
                    Err(failure)
                }
                // A reader that only has expiries recorded need not wait until some server can be written to.
                Err(Unapplied::Certainly(failure))
                    if failure.is_read_only() && self.is_closing.load(Ordering::Acquire) =>
                {
                    Err(Failure::Refused(failure.into_error("write to", &self.target.location)))
                }
                Err(Unapplied::Certainly(failure)) => Err(failure),
            }
        });
        match written {
            Ok(Some((done, space, head))) => {
                if let Some(head) = head {
                    self.wake.ring(space, head);
                }
                Ok(done)
            }
            Ok(None) => Ok(Vec::new()),
            Err(failure) => Err((failure, in_doubt.is_some())),
        }
    }
}

/// Whether one commit alone may be at fault, so that the others can be written without it.
fn may_affect_one_commit(failure: &Failure) -> bool {
    match failure {
        // A shortage of the server affects all of them, and so does what makes the server slow: each by itself would
        // take as long again.
        Failure::Sql(error) => {
            let is_of_one = |code: &SqlState| !code.code().starts_with("53") && *code != SqlState::QUERY_CANCELED;
            error.code().is_some_and(is_of_one) && !failure.is_transient()
        }
        Failure::Damaged(_) | Failure::Refused(_) => true,
        Failure::Pool(_) | Failure::Away(_) | Failure::Silent | Failure::Locked { .. } | Failure::Busy { .. } => false,
    }
}

/// The error that commits were written, or not, and that it cannot be found out any more.
pub(super) fn outcome_unknown(location: &str) -> StoreError {
    StoreError::Unavailable {
        doing: "write to",
        location: location.to_owned(),
        reason: "the connection to the server was lost, and what was written was changed meanwhile".to_owned(),
        source: None,
    }
}

/// A copy of `error`, for another caller that it affects as well. Its source cannot be copied, and is kept as text.
fn repeated(error: &StoreError) -> StoreError {
    let copy_source = |source: &Option<Box<dyn Error + Send + Sync>>| Some(with_causes(&**source.as_ref()?).into());
    match error {
        StoreError::Unavailable {
            doing,
            location,
            reason,
            source,
        } => StoreError::Unavailable {
            doing,
            location: location.clone(),
            reason: reason.clone(),
            source: copy_source(source),
        },
        StoreError::Corrupt {
            location,
            reason,
            source,
        } => StoreError::Corrupt {
            location: location.clone(),
            reason: reason.clone(),
            source: copy_source(source),
        },
        StoreError::RunTooNew { run, found } => StoreError::RunTooNew {
            run: *run,
            found: *found,
        },
        other => StoreError::Invalid(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use folio_memory::{Actor, EntryId, Role, SpaceName, Timestamp};

    use super::*;
    use crate::commit::{Commit, Record};

    fn waiting(key: Option<&str>, changes: Vec<Change>) -> Waiting {
        let commit = Commit {
            space: SpaceName::main(),
            at: Timestamp::default(),
            actor: Actor::new(Role::Human, "ada"),
            idempotency_key: key.map(str::to_owned),
            expected: Vec::new(),
            record: Record::of(changes),
            blobs: Vec::new(),
        };
        Waiting {
            commit: Prepared::of(commit).unwrap(),
            answer: oneshot::channel().0,
            wait: Wait::begin(),
        }
    }

    fn patch(base_version: Option<u32>) -> Vec<Change> {
        vec![Change::PatchEntry {
            entry: EntryId::derived(&["one"]),
            fields: Vec::new(),
            expected_version: None,
            base_version,
        }]
    }

    fn sizes(waiting: Vec<Waiting>) -> Vec<usize> {
        let mut queue = VecDeque::from(waiting);
        let mut sizes = Vec::new();
        while !queue.is_empty() {
            sizes.push(group(&mut queue).len());
        }
        sizes
    }

    #[test]
    fn waiting_commits_are_written_in_groups_of_limited_size() {
        assert_eq!(sizes((0..5).map(|_| waiting(None, Vec::new())).collect()), [5]);
        assert_eq!(sizes((0..600).map(|_| waiting(None, Vec::new())).collect()), [512, 88]);
    }

    #[test]
    fn commit_that_depends_on_another_goes_into_a_later_group() {
        assert_eq!(
            sizes(vec![waiting(Some("k"), Vec::new()), waiting(Some("k"), Vec::new())]),
            [1, 1]
        );
        assert_eq!(
            sizes(vec![waiting(None, patch(None)), waiting(None, patch(Some(1)))]),
            [1, 1]
        );
        assert_eq!(
            sizes(vec![waiting(None, patch(Some(1))), waiting(None, patch(None))]),
            [2]
        );
    }

    #[tokio::test]
    async fn next_commit_becomes_the_writer_after_a_writer_panicked() {
        let writer = Writer::default();
        let space = SpaceName::main();
        let (mut second, heard) = (waiting(None, Vec::new()), oneshot::channel());
        second.answer = heard.0;
        assert!(!writer.queue(waiting(None, Vec::new())));
        let broke = std::panic::AssertUnwindSafe(async {
            let mut at_work = AtWork {
                writer: &writer,
                space: &space,
                is_over: false,
            };
            assert_eq!(at_work.next().len(), 1);
            assert!(writer.queue(second), "somebody is at it");
            panic!("in the middle of it");
        });
        assert!(futures_util::FutureExt::catch_unwind(broke).await.is_err());
        heard.1.await.expect_err("nobody will write it");
        writer.is_idle().await;
        assert!(!writer.queue(waiting(None, Vec::new())), "whoever comes now begins");
    }

    #[test]
    fn erasing_commit_forms_a_group_of_its_own() {
        let erase = || {
            waiting(
                None,
                vec![Change::EraseEntry {
                    entry: EntryId::derived(&["one"]),
                    why: folio_memory::keeping::ErasedFor::Forgotten,
                    expected_version: None,
                }],
            )
        };
        let plain = || waiting(None, Vec::new());
        assert_eq!(sizes(vec![plain(), erase(), plain(), plain()]), [1, 1, 2]);
    }
}
