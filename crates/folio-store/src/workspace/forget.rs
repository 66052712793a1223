//! Forgetting (M7.6.50): removes the content of entries, turns and runs from the log, from the rows, and from the bytes
//! of the files.

mod find;
mod runs;
mod said;

use std::collections::{BTreeSet, HashSet};

use folio_memory::id::{EntryRef, Ref, RunHandle, RunRef, TurnHandle};
use folio_memory::keeping::ErasedFor;
use folio_memory::roles::Operation;
use folio_memory::view::is_blank;
use folio_memory::{
    Actor, Change, Entry, EntryId, EntryQuery, Invalid, Order, RunId, Seq, TextMatch, TraceNote, Turn, TurnId,
    TypeRanks,
};
use serde::Serialize;

use self::find::Fitting;
use self::runs::{NamedRuns, RunSaid};
use self::said::Sought;
pub(super) use self::said::texts_of;
use super::outbox::Unwanted;
use super::{Workspace, WorkspaceError, Write};
use crate::error::StoreError;
use crate::text_search::report_place;
use crate::upkeep::Residue;

/// How many entries or turns one commit erases.
const BATCH: usize = 500;

/// What is to be forgotten. All conditions given must hold. A filter without any is refused: a list of entries may
/// happen to be empty, and forgetting cannot be undone. [`ForgetFilter::everything`] is for whoever means all of them.
#[derive(Debug, Clone, Default)]
pub struct ForgetFilter {
    /// The entry is one of these; empty restricts nothing if there is another condition.
    pub entries: Vec<EntryRef>,
    /// Runs that have ended, to be forgotten as a whole: everything that their journals say, their titles, the titles of
    /// their pages and what stands on them, and what was said in their turns. If any is given, entries have to be named,
    /// too, and no other condition may be given.
    pub runs: Vec<RunRef>,
    /// The entry matches this query, whatever its status, its lifetime and its place in a list.
    pub query: EntryQuery,
    /// The entry contains this text, as [`Needle`](folio_memory::text::Needle) finds it, ignoring case and whitespace: in the title, the body, a
    /// tag, the context, the metadata, in an earlier version of them, or in the reason for a change. Alone, it also finds
    /// turns: by their input, or by the reason for a decision.
    pub text: Option<String>,
    /// Every entry of the space, in any state. No other condition may be given; runs, and what was said in turns, stay.
    pub everything: bool,
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Forgotten {
    /// The entries as they are now: their tombstones.
    pub entries: Vec<Entry>,
    /// The turns of which it is no longer known what was said.
    pub turns: Vec<TurnHandle>,
    /// The runs that were forgotten.
    pub runs: Vec<RunHandle>,
    /// All runs that were named, also those that were forgotten before: what is left of them elsewhere can go, too.
    pub of_runs: Vec<RunId>,
    /// How many items that waited in the outbox, and were not yet entries, were removed.
    pub waiting: usize,
    /// What is left of their texts in everything that belongs to the store.
    pub residue: Residue,
    /// Whether an earlier call with the same key requested it.
    pub replayed: bool,
}

impl ForgetFilter {
    /// Every entry of the space.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Checks that the filter says what is meant, and that the text can be searched for: nearly everything contains
    /// whitespace, and forgetting cannot be undone.
    fn check(&self) -> Result<(), Invalid> {
        let has_condition = self.names_something() || self.text.is_some() || selects_some(&self.query);
        if !has_condition && !self.everything {
            let message = "names none, and nothing else is given; name what to forget: entries, runs, or what entries have in common";
            return Err(Invalid::new("filter_invalid", "entries", message));
        }
        if has_condition && self.everything {
            let message = "is given beside a condition; leave out one of them";
            return Err(Invalid::new("filter_invalid", "everything", message));
        }
        if self.text.as_deref().is_some_and(is_blank) {
            let message = "has no word in it; leave it out to restrict nothing";
            return Err(Invalid::new("filter_invalid", "text", message));
        }
        if !self.runs.is_empty() && (self.text.is_some() || self.query != EntryQuery::default()) {
            let message = "names a run, which is forgotten as a whole; name entries beside it, or leave out what they have in common";
            return Err(Invalid::new("filter_invalid", "runs", message));
        }
        Ok(())
    }

    /// Whether it names what to forget: then nothing else is meant.
    pub(super) fn names_something(&self) -> bool {
        !self.entries.is_empty() || !self.runs.is_empty()
    }

    /// The text, if that is all that the filter requires: a turn has nothing else in common with an entry.
    fn text_alone(&self) -> Option<&str> {
        let is_alone = !self.names_something() && self.query == EntryQuery::default();
        self.text.as_deref().filter(|_| is_alone)
    }

    /// Whether the filter contains words that somebody wrote, and not only names and kinds.
    fn has_words(&self) -> bool {
        let EntryQuery {
            tags, context, owner, ..
        } = &self.query;
        self.text.is_some() || !tags.is_empty() || !context.is_empty() || !owner.is_empty() || self.query.text.is_some()
    }
}

/// Whether `query` selects some of the entries by what they are or say. Their state, and the order and size of a list,
/// select nothing here.
fn selects_some(query: &EntryQuery) -> bool {
    let selection = EntryQuery {
        status: Vec::new(),
        include_expired: false,
        include_superseded: false,
        text: query.text.clone().filter(|text| !is_blank(text)),
        text_match: TextMatch::default(),
        order: Order::default(),
        ranks: TypeRanks::default(),
        limit: 0,
        cursor: None,
        uncounted: false,
        ..query.clone()
    };
    selection != EntryQuery::default()
}

impl Workspace {
    /// Returns the entries that [`Workspace::forget`] would erase. It reads everything, whoever may see it, so only
    /// those who may forget may call it (M7.7).
    ///
    /// # Errors
    ///
    /// `Refused` unless the asker is a person; `Invalid` if the filter names nothing; `NotFound` if a named entry does not
    /// exist; `Unavailable` or `Corrupt`.
    pub async fn to_forget(&self, filter: &ForgetFilter) -> Result<Vec<Entry>, WorkspaceError> {
        Ok(self.find_forgettable(filter).await?.entries)
    }

    /// Returns the turns that [`Workspace::forget`] would erase, newest first.
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn turns_to_forget(&self, filter: &ForgetFilter) -> Result<Vec<Turn>, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        self.turns_mentioning(filter).await
    }

    /// How many entries and runs that `filter` names, or finds if it finds nothing else, were forgotten before. Nobody knows any
    /// more what they said; but that call may have been interrupted, and [`Workspace::forget`] completes what it left
    /// undone.
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn forgotten_before(&self, filter: &ForgetFilter) -> Result<usize, WorkspaceError> {
        let entries = self.find_forgettable(filter).await?.gone.len();
        Ok(entries + self.named_runs(filter).await?.gone.len())
    }

    fn authorise_forgetting(&self, actor: &Actor) -> Result<(), WorkspaceError> {
        self.authorise(actor, Operation::Forget, "what entries say", ("memory", "forget"))
    }

    /// How many items waiting in the outbox [`Workspace::forget`] would remove for `filter`.
    ///
    /// # Errors
    ///
    /// `Refused` unless the asker is a person; `Unavailable` if the outbox cannot be read.
    pub async fn waiting_to_forget(&self, filter: &ForgetFilter) -> Result<usize, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        let unwanted = Unwanted::of(self.space(), filter, Vec::new(), &BTreeSet::new(), self.now());
        self.forget_waiting(unwanted, false).await
    }

    /// Removes the content of what `filter` finds from everything: the entries, all their revisions in the log, turns,
    /// runs, the indexes, bodies that nothing else refers to, and the free space of the files. What remains is that there was
    /// something, when, by whom, and `reason`. From the outbox, and from items set apart there, it removes everything
    /// that `filter` would find or that has the title or the text of an erased entry.
    ///
    /// Once the contents are known, forgetting runs to its end even if the caller stops waiting. What merely repeats
    /// the contents goes first. Then runs are marked, from when on nobody reads their journals, and those are erased; then
    /// the entries, and the turns. Each batch is atomic. After an interruption, call it again: nobody
    /// knows any more what the entries that were already erased said, so everything is rewritten instead of searched.
    /// Finally everything that belongs to the store is searched for what the entries said, and the answer tells where
    /// it still remains: in another entry, in a run's journal, in a copy made before a migration. It also tells how
    /// many texts were too short to be searched for.
    ///
    /// # Errors
    ///
    /// `Conflict` unless the actor is a person, or if a run has not ended; otherwise as [`Workspace::to_forget`] and [`Workspace::record`].
    pub async fn forget(
        &self,
        actor: &Actor,
        filter: &ForgetFilter,
        reason: &str,
    ) -> Result<Forgotten, WorkspaceError> {
        self.forget_under(actor, filter, reason, None).await
    }

    /// Like [`Workspace::forget`], under a key. A second call with the key continues what the first one began, reports
    /// its outcome, and forgets nothing that was added in between. For a different request it is refused with
    /// `KeyReused`.
    ///
    /// # Errors
    ///
    /// As [`Workspace::forget`].
    pub async fn forget_under(
        &self,
        actor: &Actor,
        filter: &ForgetFilter,
        reason: &str,
        key: Option<String>,
    ) -> Result<Forgotten, WorkspaceError> {
        self.authorise_forgetting(actor)?;
        let mut key = key.map(|key| BatchKey { key, batch: 0 });
        let mut before = self.erased_under(actor, &mut key).await?;
        let Fitting {
            entries: mut found,
            gone,
        } = self.find_forgettable(filter).await?;
        let mut turns = self.turns_mentioning(filter).await?;
        let runs = self.named_runs(filter).await?;
        turns.extend(self.turns_of_runs(&runs.ids()).await?);
        if let Some(before) = before.as_mut().filter(|before| !before.runs.is_empty()) {
            // The others stand on the pages of the runs.
            before.entries.retain(|entry| gone.contains(entry));
        }
        let no_longer_known = match &before {
            Some(before) => {
                found.retain(|entry| entry.created_seq <= before.seq);
                turns.retain(|turn| turn.started_seq <= before.seq);
                before.entries.len() + runs.gone.len()
            }
            None => gone.len() + runs.gone.len(),
        };
        let mut all_said = self.all_said(&found).await?.with_turns(&turns, filter.text.as_deref());
        let mut of_runs = self.entries_of_runs(&runs.ids(), &mut all_said).await?;
        let mut said_by_runs = Vec::with_capacity(runs.found.len());
        for run in &runs.found {
            let said = self.said_by_run(run).await?;
            all_said = all_said.with_run(&said);
            said_by_runs.push(said);
        }
        let Sought {
            texts: said,
            written,
            not_looked_for,
        } = all_said.sought_with(filter.text.as_deref());
        let named: HashSet<EntryId> = found.iter().map(|entry| entry.id).collect();
        of_runs.retain(|entry| !named.contains(entry));
        let forgetting = Forgetting {
            actor: actor.clone(),
            filter: filter.clone(),
            reason: reason.to_owned(),
            key,
            found,
            of_runs,
            turns,
            runs,
            said_by_runs,
            before,
            no_longer_known,
            not_looked_for,
            said,
            written,
        };
        let workspace = self.clone();
        // From here on it does not depend on the caller: a repeated call would not know what the entries said.
        tokio::spawn(Box::pin(
            async move { workspace.carry_out_forgetting(forgetting).await },
        ))
        .await
        .unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()))
    }

    async fn carry_out_forgetting(&self, forgetting: Forgetting) -> Result<Forgotten, WorkspaceError> {
        let Forgetting {
            actor,
            filter,
            reason,
            mut key,
            found,
            of_runs,
            turns,
            runs,
            said_by_runs,
            before,
            no_longer_known,
            not_looked_for,
            said,
            written,
        } = forgetting;
        // This comes before the entries: afterwards nobody would know what they said.
        let ids: Vec<_> = found.iter().map(|entry| entry.id).chain(of_runs).collect();
        let unwanted = Unwanted::of(self.space(), &filter, ids.iter().copied(), &written, self.now());
        let waiting = self.forget_waiting(unwanted, true).await?;
        let texts: Vec<String> = said.iter().cloned().collect();
        let says_something = !(ids.is_empty() && said.is_empty() && runs.found.is_empty());
        let began = self.now();
        if says_something {
            self.note_forgetting(&actor).await?;
            self.inner.store.forget_notes(self.space(), texts.clone()).await?;
        }
        // A request under a key leaves a fingerprint, against which guesses could be tested: none is kept if the filter
        // has words.
        let silent = Self {
            asked: self.asked.clone().filter(|_| !filter.has_words()),
            ..self.clone()
        };
        // A journal that is erased in part makes no run, so nobody may read it from here on.
        for (run, said) in runs.found.iter().zip(&said_by_runs) {
            silent
                .mark_as_forgotten(&actor, run, said, (&reason, key.as_mut()))
                .await?;
        }
        for run in runs.ids() {
            self.erase_journal(run).await?;
        }
        let turns: Vec<TurnId> = turns.iter().map(|turn| turn.begun.id).collect();
        // No versions are expected: what is added meanwhile is erased with the rest.
        let erase_entry = |entry: &EntryId| Change::EraseEntry {
            entry: *entry,
            why: ErasedFor::Forgotten,
            expected_version: None,
        };
        let entries = ids.chunks(BATCH).map(|batch| batch.iter().map(erase_entry).collect());
        let erase_turn = |turn: &TurnId| Change::EraseTurn { turn: *turn };
        let of_turns = turns.chunks(BATCH).map(|batch| batch.iter().map(erase_turn).collect());
        for changes in entries.chain(of_turns).collect::<Vec<Vec<Change>>>() {
            silent.erase(&actor, changes, &reason, key.as_mut()).await?;
        }
        // Removes what was asked or noted meanwhile.
        if says_something && TraceNote::may_keep_words(self.now(), began) {
            self.note_forgetting(&actor).await?;
        }
        let left = match no_longer_known {
            0 => Residue::default(),
            _ => self.inner.store.write_anew().await?,
        };
        let mut residue = self.inner.store.scrub(self.space(), texts).await?;
        for place in left.found {
            report_place(&mut residue, place);
        }
        let counted = |count| u64::try_from(count).unwrap_or(u64::MAX);
        residue.not_looked_for = counted(not_looked_for);
        residue.no_longer_known = counted(no_longer_known);
        if !said.is_empty() {
            self.look_into_outbox(&said, &mut residue).await?;
        }
        let replayed = before.is_some();
        let (mut ids, mut all_turns, mut all_runs) = before
            .map(|before| (before.entries, before.turns, before.runs))
            .unwrap_or_default();
        all_runs.extend(runs.found.iter().map(|run| run.id));
        let mut run_handles = Vec::with_capacity(all_runs.len());
        for run in all_runs {
            run_handles.push(self.inner.store.run(self.space(), Ref::Id(run)).await?.handle);
        }
        run_handles.dedup();
        all_turns.extend(turns);
        let mut handles = Vec::with_capacity(all_turns.len());
        for turn in all_turns {
            handles.push(self.stored_turn(Ref::Id(turn)).await?.handle);
        }
        ids.extend(found.iter().map(|entry| entry.id));
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.push(self.entry(Ref::Id(id)).await?);
        }
        Ok(Forgotten {
            entries,
            turns: handles,
            runs: run_handles,
            of_runs: runs.ids(),
            waiting,
            residue,
            replayed,
        })
    }

    /// Adds to `residue` whether items that wait in the outbox say what was `said`.
    async fn look_into_outbox(&self, said: &BTreeSet<String>, residue: &mut Residue) -> Result<(), WorkspaceError> {
        let Some(outbox) = self.outbox() else {
            return Ok(());
        };
        let name = outbox.display().to_string();
        let unwanted_texts = Unwanted::saying(self.space(), said, self.now());
        let left = self.forget_waiting(unwanted_texts, false).await?;
        residue
            .found
            .extend((left > 0).then(|| format!("{left} items that wait in {name}")));
        residue.searched.push(name);
        Ok(())
    }

    /// Notes that `actor` has something forgotten, and flushes all pending notes, which would otherwise be written
    /// later. If other processes write notes from before this moment later on, the store drops their words.
    async fn note_forgetting(&self, actor: &Actor) -> Result<(), StoreError> {
        self.note(TraceNote::of_forgetting(self.now(), actor));
        self.flush_trace().await
    }

    /// What was erased under `key` before; afterwards the key is that of the next batch.
    async fn erased_under(
        &self,
        actor: &Actor,
        key: &mut Option<BatchKey>,
    ) -> Result<Option<ErasedBefore>, WorkspaceError> {
        let Some(key) = key else { return Ok(None) };
        let mut before: Option<ErasedBefore> = None;
        while let Some(committed) = self.replayed(actor, &key.name()).await? {
            key.batch += 1;
            let ids = committed.entries.iter().map(|entry| entry.id);
            let erased = before.get_or_insert_with(|| ErasedBefore {
                seq: committed.seq,
                entries: Vec::new(),
                turns: Vec::new(),
                runs: Vec::new(),
            });
            erased.entries.extend(ids);
            let before = Seq(committed.seq.0.saturating_sub(1));
            let rows = self.inner.store.changes(self.space(), before, 1).await?;
            for change in rows.iter().flat_map(|row| &row.record.changes) {
                match change {
                    Change::EraseTurn { turn } => erased.turns.push(*turn),
                    Change::EraseRun { run, .. } => erased.runs.push(*run),
                    _ => {}
                }
            }
        }
        Ok(before)
    }

    async fn erase(
        &self,
        actor: &Actor,
        changes: Vec<Change>,
        reason: &str,
        key: Option<&mut BatchKey>,
    ) -> Result<(), WorkspaceError> {
        let write = Write {
            reason: Some(reason.to_owned()),
            idempotency_key: key.map(BatchKey::next),
            ..Write::of(changes)
        };
        self.record(actor, write).await.map(drop)
    }
}

/// What is to be forgotten, with everything that it says: once it is gone, nobody else knows.
struct Forgetting {
    actor: Actor,
    filter: ForgetFilter,
    reason: String,
    key: Option<BatchKey>,
    found: Vec<Entry>,
    /// Further entries: those on the pages of runs.
    of_runs: Vec<EntryId>,
    turns: Vec<Turn>,
    runs: NamedRuns,
    /// What those of the runs said that were not forgotten before, in their order.
    said_by_runs: Vec<RunSaid>,
    before: Option<ErasedBefore>,
    /// For how many entries and runs this is unknown, because they are gone already.
    no_longer_known: usize,
    /// How many texts are too short to be searched for.
    not_looked_for: usize,
    /// The other texts.
    said: BTreeSet<String>,
    /// Titles and bodies.
    written: BTreeSet<String>,
}

/// What was erased under a key, and the commit with which that began.
struct ErasedBefore {
    seq: Seq,
    entries: Vec<EntryId>,
    turns: Vec<TurnId>,
    runs: Vec<RunId>,
}

/// The key of a batch: that of the request, with a number from the second batch on.
struct BatchKey {
    key: String,
    batch: u32,
}

impl BatchKey {
    fn name(&self) -> String {
        match self.batch {
            0 => self.key.clone(),
            more => format!("{}:{more}", self.key),
        }
    }

    fn next(&mut self) -> String {
        let name = self.name();
        self.batch += 1;
        name
    }
}
