//! Caches answers to questions about memory that are asked again and again, for example before each call of a model,
//! for as long as memory does not change. Also remembers which contexts and views were noted, so that the same one is
//! noted only once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use folio_memory::turn::export::PartRef;
use folio_memory::{
    Actor, Entry, EntryHandle, EntryQuery, ListAnswer, NewEntry, PageQuery, Seq, ThreadKey, Timestamp, TurnId,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OnceCell;

use super::observations::Whose;
use super::redact::recall;
use super::{PolicyInForce, Workspace, WorkspaceError, long_text};
use crate::store::MemoryMark;

/// How many answers of one sort are cached.
const MAX_CACHED: usize = 64;
/// How many entries a cached answer may have; a longer one is read each time.
const ITEMS_MAX: usize = 256;

/// A query with its asker and the thread it is asked from: the answer leaves out what they may not read (M7.7).
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    query: EntryQuery,
    asker: Actor,
    seen_from: ThreadKey,
    whose: Whose,
}

/// For how many turns it is remembered what was noted last.
const NOTED: usize = 4_096;

/// A cached answer, or one that is just being looked up: callers that ask the same wait for it.
type Shared<T> = Arc<OnceCell<T>>;

/// The answers given at the last mark.
#[derive(Debug, Default)]
pub(super) struct AnswerCache(Mutex<State>);

/// A hash of what each turn was last noted to have been shown.
#[derive(Debug, Default)]
pub(super) struct LastNoted(Mutex<HashMap<TurnId, u64>>);

impl LastNoted {
    /// Whether `view` differs from what `turn` was last noted to have been shown; remembers it.
    pub(super) fn record_if_changed(&self, turn: TurnId, view: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        view.hash(&mut hasher);
        let hash = hasher.finish();
        let mut last_hashes = self.0.lock();
        if last_hashes.len() >= NOTED && !last_hashes.contains_key(&turn) {
            last_hashes.clear();
        }
        last_hashes.insert(turn, hash) != Some(hash)
    }
}

#[derive(Debug, Default)]
struct State {
    mark: Option<MemoryMark>,
    answers: Vec<(Asked, Shared<Arc<ListAnswer<Entry>>>)>,
    /// Numbers of pages, by query.
    page_counts: Vec<(PageQuery, Shared<u64>)>,
    policy: Option<Arc<PolicyInForce>>,
    /// What exports say of all remembered entries.
    parts: Option<Arc<[PartRef]>>,
    /// When it was last found that nothing was due for tidying.
    tidy: Option<Timestamp>,
}

impl State {
    /// Drops what was true before `mark`; returns false if a newer mark is known.
    fn stand_at(&mut self, mark: MemoryMark) -> bool {
        let known = self.mark.map(|known| known.number);
        if known.is_none_or(|known| known < mark.number) {
            *self = Self {
                mark: Some(mark),
                ..Self::default()
            };
            return true;
        }
        known == Some(mark.number)
    }
}

/// The slot for the answer to `query` among `answers`, if there is one or room for one more.
fn place_for<Q: Clone + PartialEq, T>(answers: &mut Vec<(Q, Shared<T>)>, query: &Q) -> Option<Shared<T>> {
    if let Some((_, place)) = answers.iter().find(|(kept, _)| kept == query) {
        return Some(Arc::clone(place));
    }
    (answers.len() < MAX_CACHED).then(|| {
        let place = Shared::default();
        answers.push((query.clone(), Arc::clone(&place)));
        place
    })
}

impl AnswerCache {
    pub(super) fn forget(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// What `look` finds in the cache at `mark`; `None` if memory has changed since.
    fn at<T>(&self, mark: MemoryMark, look: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.state();
        if state.stand_at(mark) { look(&mut state) } else { None }
    }
}

/// A state of memory. An answer given at a moment is never older than that.
#[derive(Debug, Clone, Copy)]
pub struct Moment(pub(super) Option<MemoryMark>);

impl Moment {
    /// A mark of what others than the runs themselves wrote to pages of runs: while it stays the same, a run finds on
    /// its pages what it wrote and what it found there before. `None` if the store does not keep track of it, or
    /// something is just changing.
    #[must_use]
    pub fn mark_of_pages(self) -> Option<u64> {
        self.0.map(|mark| mark.pages)
    }
}

impl Workspace {
    /// A mark of the present state of memory. What is read after it and cached under it stays true as long as the mark
    /// is the same.
    pub(super) async fn mark(&self) -> Result<Option<MemoryMark>, WorkspaceError> {
        self.keep_up().await?;
        Ok(self.inner.store.memory_mark(self.space(), self.now()).await?)
    }

    /// The present state of memory, for several questions in a row: whether something has changed is checked once for
    /// all of them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn moment(&self) -> Result<Moment, WorkspaceError> {
        Ok(Moment(self.mark().await?))
    }

    /// Returns `new`, which is about to be written to a page, as it will be read there, except that its handle is
    /// `place`.
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

    /// The policy in force in the space, from the cache if memory is still at `mark`.
    pub(super) async fn policy_at(&self, mark: Option<MemoryMark>) -> Result<Arc<PolicyInForce>, WorkspaceError> {
        let Some(mark) = mark else { return self.policy().await };
        if let Some(policy) = self.inner.kept.at(mark, |state| state.policy.clone()) {
            return Ok(policy);
        }
        let policy = self.policy().await?;
        self.inner
            .kept
            .at(mark, |state| state.policy.replace(Arc::clone(&policy)));
        Ok(policy)
    }

    /// How many pages match `query`, whoever may see them, from the cache if memory is still at `mark`. Only for pages
    /// of a thread: a mark does not cover others.
    pub(super) async fn cached_page_count(
        &self,
        mark: Option<MemoryMark>,
        query: &PageQuery,
    ) -> Result<u64, WorkspaceError> {
        let count = || async { Ok(self.inner.store.page_count(self.space(), query).await?) };
        let place = mark.and_then(|mark| {
            self.inner
                .kept
                .at(mark, |state| place_for(&mut state.page_counts, query))
        });
        match place {
            Some(place) => place.get_or_try_init(count).await.copied(),
            None => count().await,
        }
    }

    /// What exports say of all remembered entries, if it is cached and nothing has changed since commit `since`.
    pub(super) fn cached_export_parts(&self, mark: Option<MemoryMark>, since: Seq) -> Option<Arc<[PartRef]>> {
        let mark = mark.filter(|mark| mark.since <= since)?;
        self.inner.kept.at(mark, |state| state.parts.clone())
    }

    /// Caches the parts of an export that are durable now, made from memory at `mark`.
    pub(super) fn keep_parts(&self, mark: Option<MemoryMark>, parts: &[PartRef]) {
        let Some(mark) = mark else { return };
        self.inner.kept.at(mark, |state| state.parts.replace(parts.into()));
    }

    /// Whether it was found at `mark`, no longer than `patience` before `now`, that nothing was due for tidying.
    pub(super) fn was_recently_tidy(&self, mark: Option<MemoryMark>, now: Timestamp, patience: Duration) -> bool {
        let found = mark.and_then(|mark| self.inner.kept.at(mark, |state| state.tidy));
        found.is_some_and(|at| at <= now && now.since(at) < patience)
    }

    /// Remembers that nothing was due at `now`.
    pub(super) fn remember_tidy(&self, mark: Option<MemoryMark>, now: Timestamp) {
        let Some(mark) = mark else { return };
        self.inner.kept.at(mark, |state| state.tidy.replace(now));
    }

    /// Everything that `query` finds with the visibility of `audience`; the first part comes from the cache.
    pub(super) async fn all_entries(
        &self,
        mark: Option<MemoryMark>,
        audience: Whose,
        query: &EntryQuery,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let first = self.cached_entries(mark, audience, query).await?;
        let (mut all, mut next) = (first.items.clone(), first.next.clone());
        while next.is_some() {
            let rest = EntryQuery {
                cursor: next,
                ..query.clone()
            };
            let answer = self.entries_as(audience, &rest).await?;
            all.extend(answer.items);
            next = answer.next;
        }
        Ok(all)
    }

    /// What `query` finds with the visibility of `audience`, from the cache if memory is still at `mark`.
    pub(super) async fn cached_entries(
        &self,
        mark: Option<MemoryMark>,
        audience: Whose,
        query: &EntryQuery,
    ) -> Result<Arc<ListAnswer<Entry>>, WorkspaceError> {
        let Some(mark) = mark else {
            return Ok(Arc::new(self.entries_as(audience, query).await?));
        };
        let key = Asked {
            query: query.clone(),
            asker: Actor {
                turn: None,
                ..(*self.asker).clone()
            },
            seen_from: self.thread().clone(),
            whose: audience,
        };
        let ask = || async { Ok::<_, WorkspaceError>(Arc::new(self.entries_as(audience, query).await?)) };
        let Some(place) = self.inner.kept.at(mark, |state| place_for(&mut state.answers, &key)) else {
            return ask().await;
        };
        let answer = Arc::clone(place.get_or_try_init(ask).await?);
        if answer.items.len() > ITEMS_MAX {
            self.inner.kept.at(mark, |state| {
                state.answers.retain(|(_, other)| !Arc::ptr_eq(other, &place));
                Some(())
            });
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64) -> MemoryMark {
        MemoryMark {
            number,
            pages: 0,
            since: Seq(number),
            as_of: Seq(100),
        }
    }

    fn place(kept: &AnswerCache, mark: MemoryMark, limit: u32) -> Option<Shared<u64>> {
        let query = PageQuery {
            limit,
            ..PageQuery::default()
        };
        kept.at(mark, |state| place_for(&mut state.page_counts, &query))
    }

    #[tokio::test]
    async fn concurrent_equal_queries_share_one_answer_until_memory_changes() {
        let kept = AnswerCache::default();
        let asked = Mutex::new(0);
        let answer = async |number, limit| {
            let ask = async || {
                *asked.lock() += 1;
                tokio::task::yield_now().await;
                Ok::<_, WorkspaceError>(number)
            };
            let place = place(&kept, mark(number), limit).unwrap();
            *place.get_or_try_init(ask).await.unwrap()
        };
        assert_eq!(tokio::join!(answer(1, 7), answer(1, 7), answer(1, 7)), (1, 1, 1));
        assert_eq!(*asked.lock(), 1);
        assert_eq!((answer(1, 8).await, answer(2, 7).await), (1, 2));
        assert_eq!(*asked.lock(), 3);
    }

    #[test]
    fn query_at_an_older_mark_does_not_evict_newer_answers() {
        let kept = AnswerCache::default();
        let first = place(&kept, mark(2), 7).unwrap();
        assert!(place(&kept, mark(1), 7).is_none());
        assert!(Arc::ptr_eq(&first, &place(&kept, mark(2), 7).unwrap()));
        for limit in 0..u32::try_from(MAX_CACHED).unwrap() - 1 {
            assert!(place(&kept, mark(2), 100 + limit).is_some());
        }
        assert!(place(&kept, mark(2), 1).is_none(), "there is room for so many");
    }
}
