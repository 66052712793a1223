//! Answers to questions about memory that are asked again and again, before each call of a model for example: kept as long as nothing
//! of memory changes. And what was noted of contexts and views, so that the same is noted once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use folio_memory::{Actor, Entry, EntryHandle, EntryQuery, ListAnswer, NewEntry, Seq, ThreadKey, TurnId};

use super::observations::Whose;
use super::redact::recall;
use super::{PolicyInForce, Workspace, WorkspaceError, long_text};
use crate::store::MemoryMark;

/// Answers that are kept.
const KEPT: usize = 32;
/// Entries of an answer that is kept; a longer one is asked for each time.
const ITEMS_MAX: usize = 256;

/// A question, and who asks it from where: what they may not read is not in the answer (M7.7).
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    query: EntryQuery,
    asker: Actor,
    seen_from: ThreadKey,
    whose: Whose,
}

/// Turns of which it is remembered what was last noted.
const NOTED: usize = 4_096;

/// The answers that were given at the last mark.
#[derive(Debug, Default)]
pub(super) struct KeptAnswers(Mutex<State>);

/// What each turn was last noted to be shown, as a hash.
#[derive(Debug, Default)]
pub(super) struct LastNoted(Mutex<HashMap<TurnId, u64>>);

impl LastNoted {
    /// Whether `shown` is not what `turn` was last noted to be shown; then it is from now on.
    pub(super) fn is_news(&self, turn: TurnId, shown: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        shown.hash(&mut hasher);
        let hash = hasher.finish();
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= NOTED && !noted.contains_key(&turn) {
            noted.clear();
        }
        noted.insert(turn, hash) != Some(hash)
    }
}

#[derive(Debug, Default)]
struct State {
    mark: Option<u64>,
    answers: Vec<(Asked, Arc<ListAnswer<Entry>>)>,
    policy: Option<Arc<PolicyInForce>>,
}

impl State {
    /// Forgets what was true before `mark`.
    fn stand_at(&mut self, mark: u64) {
        if self.mark != Some(mark) {
            *self = Self {
                mark: Some(mark),
                ..Self::default()
            };
        }
    }
}

impl KeptAnswers {
    fn get(&self, mark: u64, asked: &Asked) -> Option<Arc<ListAnswer<Entry>>> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.mark != Some(mark) {
            return None;
        }
        let mut answers = state.answers.iter();
        answers
            .find(|(kept, _)| kept == asked)
            .map(|(_, answer)| Arc::clone(answer))
    }

    fn put(&self, mark: u64, asked: Asked, answer: &Arc<ListAnswer<Entry>>) {
        if answer.items.len() > ITEMS_MAX {
            return;
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stand_at(mark);
        if state.answers.len() < KEPT && state.answers.iter().all(|(kept, _)| *kept != asked) {
            state.answers.push((asked, Arc::clone(answer)));
        }
    }
}

/// What memory stands at. An answer that is asked for at a moment is no older than that.
#[derive(Debug, Clone, Copy)]
pub struct Moment(pub(super) Option<MemoryMark>);

impl Moment {
    /// A mark of what others than the runs themselves wrote onto pages of runs: as long as it is the same, a run finds on its pages what it
    /// wrote, and what it found there before. None if nobody keeps account of it, or something changes at this moment.
    #[must_use]
    pub fn mark_of_pages(self) -> Option<u64> {
        self.0.map(|mark| mark.pages)
    }
}

impl Workspace {
    /// A mark of what memory tells now. What is asked after it and kept under it stays true as long as the mark is the same.
    pub(super) async fn mark(&self) -> Result<Option<MemoryMark>, WorkspaceError> {
        Ok(self.inner.store.memory_mark(self.space(), self.now()).await?)
    }

    /// What memory stands at now, for several questions in a row: whether something has changed is found out once for all of them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn moment(&self) -> Result<Moment, WorkspaceError> {
        Ok(Moment(self.mark().await?))
    }

    /// `new`, which is about to be written onto a page, as it will be read there, but for its handle, which is `place`.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn as_read(&self, new: &NewEntry, place: u64) -> Result<Entry, WorkspaceError> {
        let mut entry = Entry::added(new.clone(), EntryHandle(place), Seq(0), self.now());
        recall::unwritten(&mut entry, self.redaction_of_reads().await?);
        long_text::shorten(&mut entry.fields);
        Ok(entry)
    }

    /// What holds in the space, as it did before if memory still stands at `mark`.
    pub(super) async fn policy_at(&self, mark: Option<MemoryMark>) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        let Some(mark) = mark else { return self.policy().await };
        {
            let state = self.inner.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.mark == Some(mark.number)
                && let Some(policy) = &state.policy
            {
                return Ok(Arc::clone(policy));
            }
        }
        let policy = self.policy().await?;
        let mut state = self.inner.kept.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.stand_at(mark.number);
        state.policy = Some(Arc::clone(&policy));
        Ok(policy)
    }

    /// What `query` gives as `whose` sees it, as it was given before if memory still stands at `mark`.
    pub(super) async fn kept_entries(
        &self,
        mark: Option<MemoryMark>,
        whose: Whose,
        query: &EntryQuery,
    ) -> Result<Arc<ListAnswer<Entry>>, WorkspaceError> {
        let Some(mark) = mark else {
            return Ok(Arc::new(self.entries_as(whose, query).await?));
        };
        let asked = Asked {
            query: query.clone(),
            asker: Actor {
                turn: None,
                ..(*self.asker).clone()
            },
            seen_from: self.thread().clone(),
            whose,
        };
        if let Some(kept) = self.inner.kept.get(mark.number, &asked) {
            return Ok(kept);
        }
        let answer = Arc::new(self.entries_as(whose, query).await?);
        self.inner.kept.put(mark.number, asked, &answer);
        Ok(answer)
    }
}
