//! Forgetting (M7.6.50): the content of entries leaves the log, the rows, and the bytes of the files.

use std::collections::BTreeSet;

use folio_memory::entry::{BodyRef, Status};
use folio_memory::foreign;
use folio_memory::id::{EntryRef, Ref};
use folio_memory::keeping::ErasedFor;
use folio_memory::roles::Operation;
use folio_memory::text::{Sought, spellings};
use folio_memory::view::is_blank;
use folio_memory::{Actor, Change, Entry, EntryFields, EntryId, EntryQuery, Invalid, Order, Seq, TraceNote};
use serde_json::Value;

use super::outbox::Unwanted;
use super::{Workspace, WorkspaceError, Write};
use crate::error::StoreError;
use crate::upkeep::Residue;

/// Entries that one commit takes the content out of.
const BATCH: usize = 500;
/// Bytes of a text below which it is too common to be looked for afterwards.
const LOOKED_FOR: usize = 12;

/// In how many places a long text is looked for afterwards, and how many bytes of it there.
const LONG_PARTS: usize = 64;
const LONG_PART: usize = 256;

/// What is to be forgotten. Everything that is said has to hold.
#[derive(Debug, Clone, Default)]
pub struct ForgetFilter {
    /// One of these; empty restricts nothing.
    pub entries: Vec<EntryRef>,
    /// Found by this, whatever its status, its time and its place in a list.
    pub query: EntryQuery,
    /// With this text somewhere, as [`Sought`] finds it, whatever its case and its blanks: in the title, the body, a tag, the
    /// context, the metadata, in an earlier version of them, or in why they were changed.
    pub text: Option<String>,
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgotten {
    /// The entries as they are now: their tombstones.
    pub entries: Vec<Entry>,
    /// How many items of tools went that waited for the store and are no entries yet.
    pub waiting: usize,
    /// What is left of their texts in everything that belongs to the store.
    pub residue: Residue,
    /// Whether it was asked for before under the same key.
    pub replayed: bool,
}

impl ForgetFilter {
    /// Whether it can be looked for: blanks stand in nearly everything that anybody wrote, and what is forgotten does not come back.
    fn check(&self) -> Result<(), Invalid> {
        if self.text.as_deref().is_some_and(is_blank) {
            let message = "has no word in it; left out, it restricts nothing";
            return Err(Invalid::new("filter_invalid", "text", message));
        }
        Ok(())
    }

    /// Whether it says something that somebody wrote, and not only names and kinds.
    fn has_words(&self) -> bool {
        let EntryQuery {
            tags, context, owner, ..
        } = &self.query;
        self.text.is_some() || !tags.is_empty() || !context.is_empty() || !owner.is_empty() || self.query.text.is_some()
    }
}

impl Workspace {
    /// What [`Workspace::forget`] would take the content of. It looks at everything, whoever may read it: so it tells those only
    /// who may forget (M7.7).
    ///
    /// # Errors
    ///
    /// `Refused` if whoever asks is no person; `NotFound` if an entry is named that is not there; `Unavailable` or `Corrupt`.
    pub async fn to_forget(&self, filter: &ForgetFilter) -> Result<Vec<Entry>, WorkspaceError> {
        Ok(self.fitting(filter).await?.entries)
    }

    /// How many entries that `filter` names, or finds if it finds nothing else, were forgotten before. What they said nobody knows any
    /// more; but whoever forgot them may have been interrupted, and [`Workspace::forget`] does what he left.
    ///
    /// # Errors
    ///
    /// As [`Workspace::to_forget`].
    pub async fn forgotten_before(&self, filter: &ForgetFilter) -> Result<usize, WorkspaceError> {
        Ok(self.fitting(filter).await?.gone.len())
    }

    async fn fitting(&self, filter: &ForgetFilter) -> Result<Fitting, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        self.keep_up().await?;
        let mut found = Vec::new();
        if filter.entries.is_empty() {
            let mut query = EntryQuery {
                status: Status::ALL.to_vec(),
                include_expired: true,
                include_superseded: true,
                // By relevance a list ends somewhere, by age it does not.
                order: Order::Newest,
                limit: folio_memory::query::MAX_LIMIT,
                cursor: None,
                ..filter.query.clone()
            };
            loop {
                let answer = self.inner.store.entries(self.space(), &query, self.now()).await?;
                found.extend(self.saying(filter, answer.items).await?);
                match answer.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
        } else {
            let wanted = EntryQuery {
                status: Status::ALL.to_vec(),
                include_expired: true,
                include_superseded: true,
                ..filter.query.clone()
            };
            for entry in &filter.entries {
                let entry = self.inner.store.entry(self.space(), *entry).await?;
                if wanted.matches(&entry, self.now()) {
                    found.extend(self.saying(filter, vec![entry]).await?);
                }
            }
        }
        let is_gone = |entry: &Entry| entry.fields.erased == Some(ErasedFor::Forgotten);
        let (gone, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(is_gone);
        let mut gone: BTreeSet<_> = gone.iter().map(|entry| entry.id).collect();
        found.sort_by_key(|entry| entry.handle);
        found.dedup_by_key(|entry| entry.handle);
        let is_named = !filter.entries.is_empty();
        // Whoever asks for what has something in common means what is there; and of a text nobody knows whether they said it.
        if !is_named && (filter.text.is_some() || !found.is_empty()) {
            gone.clear();
        }
        Ok(Fitting { entries: found, gone })
    }

    /// Those of `entries` that say the text of `filter`, if it has one, or do not say anything any more: the others are not kept in memory while
    /// all of a space is gone through.
    async fn saying(&self, filter: &ForgetFilter, entries: Vec<Entry>) -> Result<Vec<Entry>, WorkspaceError> {
        let Some(text) = &filter.text else {
            return Ok(entries);
        };
        let mut saying = Vec::new();
        for entry in entries {
            if entry.fields.erased == Some(ErasedFor::Forgotten) || self.says(&entry, text).await? {
                saying.push(entry);
            }
        }
        Ok(saying)
    }

    fn authorise_forgetting(&self, actor: &Actor) -> Result<(), WorkspaceError> {
        self.authorise(actor, Operation::Forget, "what entries say", ("memory", "forget"))
    }

    /// How many items that wait for the store [`Workspace::forget`] would take away because of `filter`.
    ///
    /// # Errors
    ///
    /// `Refused` if whoever asks is no person; `Unavailable` if the outbox cannot be read.
    pub async fn waiting_to_forget(&self, filter: &ForgetFilter) -> Result<usize, WorkspaceError> {
        self.authorise_forgetting(&self.asker)?;
        filter.check()?;
        let unwanted = Unwanted::of(self.space(), filter, Vec::new(), &BTreeSet::new(), self.now());
        self.forget_waiting(unwanted, false).await
    }

    /// Whether `entry` says `text`, or ever did.
    async fn says(&self, entry: &Entry, text: &str) -> Result<bool, WorkspaceError> {
        let text = Sought::new(text);
        let says = |texts: &BTreeSet<String>| texts.iter().any(|said| text.is_in(said));
        if says(&texts_of(&entry.fields)) {
            return Ok(true);
        }
        if entry.version == 1 && entry.fields.body_ref.is_none() {
            return Ok(false);
        }
        let Said {
            texts, bodies, reasons, ..
        } = self.ever_said(entry).await?;
        if says(&texts) || says(&reasons) {
            return Ok(true);
        }
        for body in &bodies {
            if text.is_in(&self.kept_text(body).await?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The text that is kept as `body`; empty if it is gone.
    async fn kept_text(&self, body: &BodyRef) -> Result<String, WorkspaceError> {
        match self.body_text(body).await {
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Ok(String::new()),
            text => text,
        }
    }

    /// What `entry` said in any of its versions.
    async fn ever_said(&self, entry: &Entry) -> Result<Said, WorkspaceError> {
        let mut said = Said::default();
        for revision in self.inner.store.history(self.space(), entry.id).await? {
            said.reasons.extend(revision.reason);
            match revision.change {
                Change::AddEntry(new) => said.take_in(&new.fields),
                Change::PatchEntry { fields, .. } => {
                    // The fields that a patch sets are those of an entry that has no others.
                    let mut set = EntryFields::new(entry.kind, entry.fields.owner.clone(), entry.fields.trust);
                    set.set(&fields);
                    said.take_in(&set);
                }
                _ => {}
            }
        }
        Ok(said)
    }

    /// Takes the content of what `filter` finds out of everything: the entries, all their revisions in the log, what they
    /// are found by, bodies that nothing else refers to, and the free space of the files. What is left is that there was
    /// something, when, by whom, and `reason`. Of what waits in the outbox, and of what was put aside there, all goes that
    /// `filter` would find, or that has the title or the text of an entry that goes.
    ///
    /// Once it is known what they said, it is brought to its end whether somebody waits for it or not. First goes what only says what they
    /// said, then they go: each batch is there or is not. Whoever is interrupted asks again; of entries that were forgotten before nobody
    /// knows any more what they said, so that everything is written anew instead of looked at. In the end everything that belongs to the store is
    /// searched for what the entries said, and the answer tells where it still stands: in another entry, in a run's
    /// journal, in a copy that was made before a migration. It tells, too, how many texts were too short to be looked for.
    ///
    /// # Errors
    ///
    /// `Conflict` if the actor is no person; otherwise as [`Workspace::to_forget`] and [`Workspace::record`].
    pub async fn forget(
        &self,
        actor: &Actor,
        filter: &ForgetFilter,
        reason: &str,
    ) -> Result<Forgotten, WorkspaceError> {
        self.forget_under(actor, filter, reason, None).await
    }

    /// The same under a key. A second time with the same one goes on with what the first has begun, tells what that came to, and forgets
    /// nothing that came to be in between; for something else it is refused with `KeyReused`.
    ///
    /// # Errors
    ///
    /// As [`Workspace::forget`].
    pub async fn forget_under(
        &self,
        actor: &Actor,
        filter: &ForgetFilter,
        reason: &str,
        key: Option<&str>,
    ) -> Result<Forgotten, WorkspaceError> {
        self.authorise_forgetting(actor)?;
        let mut key = key.map(BatchKey::of);
        let before = self.erased_under(actor, &mut key).await?;
        let Fitting {
            entries: mut found,
            gone,
        } = self.fitting(filter).await?;
        let no_longer_known = match &before {
            Some(before) => {
                found.retain(|entry| entry.created_seq <= before.seq);
                before.entries.len()
            }
            None => gone.len(),
        };
        let (mut said, mut written) = (BTreeSet::new(), BTreeSet::new());
        for entry in &found {
            let ever = self.ever_said(entry).await?;
            said.extend(ever.texts);
            written.extend(ever.written);
            for body in &ever.bodies {
                let text = self.kept_text(body).await?;
                said.extend(parts_of(&text));
                written.insert(text);
            }
        }
        let asked: Vec<String> = filter.text.iter().flat_map(|text| spellings(text)).collect();
        said.extend(asked.iter().cloned());
        written.retain(|text| text.trim().len() >= LOOKED_FOR);
        said.retain(|text| !text.trim().is_empty());
        let all = said.len();
        said.retain(|text| text.trim().len() >= LOOKED_FOR || asked.contains(text));
        let forgetting = Forgetting {
            actor: actor.clone(),
            filter: filter.clone(),
            reason: reason.to_owned(),
            key,
            found,
            before,
            no_longer_known,
            not_looked_for: all - said.len(),
            said,
            written,
        };
        let workspace = self.clone();
        // From here on nobody has to wait for it: whoever asks again would not know what they said.
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
            before,
            no_longer_known,
            not_looked_for,
            said,
            written,
        } = forgetting;
        // Before the entries: afterwards nobody would know what they said.
        let ids: Vec<_> = found.iter().map(|entry| entry.id).collect();
        let unwanted = Unwanted::of(self.space(), &filter, ids, &written, self.now());
        let waiting = self.forget_waiting(unwanted, true).await?;
        let texts: Vec<String> = said.iter().cloned().collect();
        let says_something = !(found.is_empty() && said.is_empty());
        let began = self.now();
        if says_something {
            self.note_forgetting(&actor).await?;
            self.inner.store.forget_notes(self.space(), texts.clone()).await?;
        }
        // What is asked for under a key leaves a mark, against which a guess could be tried: of words there is none.
        let silent = Self {
            asked: self.asked.clone().filter(|_| !filter.has_words()),
            ..self.clone()
        };
        for batch in found.chunks(BATCH) {
            silent.erase(&actor, batch, &reason, key.as_mut()).await?;
        }
        // What somebody was asked or told meanwhile.
        if says_something && TraceNote::may_say(self.now(), began) {
            self.note_forgetting(&actor).await?;
        }
        if no_longer_known > 0 {
            self.inner.store.write_anew().await?;
        }
        let mut residue = self.inner.store.scrub(self.space(), texts).await?;
        let counted = |count| u64::try_from(count).unwrap_or(u64::MAX);
        residue.not_looked_for = counted(not_looked_for);
        residue.no_longer_known = counted(no_longer_known);
        if let Some(outbox) = self.outbox().filter(|_| !said.is_empty()) {
            let name = outbox.display().to_string();
            let saying = Unwanted::saying(self.space(), &said, self.now());
            let left = self.forget_waiting(saying, false).await?;
            residue
                .found
                .extend((left > 0).then(|| format!("{left} items that wait in {name}")));
            residue.searched.push(name);
        }
        let replayed = before.is_some();
        let mut ids: Vec<_> = before.map(|before| before.entries).unwrap_or_default();
        ids.extend(found.iter().map(|entry| entry.id));
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.push(self.entry(Ref::Id(id)).await?);
        }
        Ok(Forgotten {
            entries,
            waiting,
            residue,
            replayed,
        })
    }

    /// Notes that `actor` has something forgotten, with all that was noted and is not written yet: that would be written behind our back. Of
    /// what others write from now on and was noted before, the store takes no words.
    async fn note_forgetting(&self, actor: &Actor) -> Result<(), StoreError> {
        self.note(TraceNote::of_forgetting(self.now(), actor));
        self.flush_trace().await
    }

    /// What was erased under `key` before, which is that of the next batch afterwards.
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
            });
            erased.entries.extend(ids);
        }
        Ok(before)
    }

    async fn erase(
        &self,
        actor: &Actor,
        entries: &[Entry],
        reason: &str,
        key: Option<&mut BatchKey>,
    ) -> Result<(), WorkspaceError> {
        // Without versions: whatever somebody adds meanwhile goes with the rest.
        let erase = |entry: &Entry| Change::EraseEntry {
            entry: entry.id,
            why: ErasedFor::Forgotten,
            expected_version: None,
        };
        let write = Write {
            reason: Some(reason.to_owned()),
            idempotency_key: key.map(BatchKey::next),
            ..Write::of(entries.iter().map(erase).collect())
        };
        self.record(actor, write).await.map(drop)
    }
}

/// What a filter finds.
struct Fitting {
    /// What is to be forgotten, in the order of the handles.
    entries: Vec<Entry>,
    /// What was forgotten before, and is asked for again.
    gone: BTreeSet<EntryId>,
}

/// What is to be forgotten, with all that it says: as soon as it is gone nobody else knows that.
struct Forgetting {
    actor: Actor,
    filter: ForgetFilter,
    reason: String,
    key: Option<BatchKey>,
    found: Vec<Entry>,
    before: Option<ErasedBefore>,
    /// Of how many entries that is not known, because they are gone already.
    no_longer_known: usize,
    /// How many texts are too short to be looked for.
    not_looked_for: usize,
    /// The others.
    said: BTreeSet<String>,
    /// Titles and bodies.
    written: BTreeSet<String>,
}

/// What was erased under a key, and with which commit that began.
struct ErasedBefore {
    seq: Seq,
    entries: Vec<EntryId>,
}

/// The key of a batch: that of the request, and for those after the first one with their number.
struct BatchKey {
    key: String,
    batch: u32,
}

impl BatchKey {
    fn of(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            batch: 0,
        }
    }

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

/// Stretches of a long `text` by which it is looked for afterwards: looking for all of it costs more than it tells.
fn parts_of(text: &str) -> Vec<String> {
    let step = (text.len() / LONG_PARTS).max(LONG_PART);
    let starts = (0..text.len()).step_by(step);
    let part = |start| {
        let (start, end) = (
            text.floor_char_boundary(start),
            text.floor_char_boundary(start + LONG_PART),
        );
        text[start..end].trim().to_owned()
    };
    starts.map(part).collect()
}

/// What an entry said in any of its versions.
#[derive(Debug, Default)]
struct Said {
    /// Every text.
    texts: BTreeSet<String>,
    /// Titles and bodies among them: what no other entry has by chance.
    written: BTreeSet<String>,
    /// Why it was changed. Others may have been for the same reason, and the program has its own.
    reasons: BTreeSet<String>,
    /// Where those are that were too long to stand in the entry.
    bodies: Vec<BodyRef>,
}

impl Said {
    fn take_in(&mut self, fields: &EntryFields) {
        collect(fields, &mut self.texts);
        self.written.extend([fields.title.clone(), fields.body.clone()]);
        self.bodies.extend(fields.body_ref.clone());
    }
}

/// Every text of `fields` that somebody wrote, and the keys under which they stand in a context and beside it.
pub(super) fn texts_of(fields: &EntryFields) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    collect(fields, &mut texts);
    for value in [&fields.context, &fields.metadata].into_iter().flatten() {
        collect_keys(value, &mut texts);
    }
    texts
}

/// The same without keys: others use the same one, and the program its own.
fn collect(fields: &EntryFields, said: &mut BTreeSet<String>) {
    let texts = [Some(&fields.title), Some(&fields.body), fields.phase.as_ref()];
    said.extend(texts.into_iter().flatten().filter(|text| !text.is_empty()).cloned());
    said.extend(fields.tags.iter().map(|tag| tag.as_str().to_owned()));
    let claimed = fields.claimed_source.as_ref().map(foreign::record_of);
    for value in [&fields.parts, &fields.context, &fields.metadata]
        .into_iter()
        .flatten()
        .chain(claimed)
    {
        collect_value(value, said);
    }
}

fn collect_value(value: &Value, said: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(said.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect_value(item, said)),
        Value::Object(map) => map.values().for_each(|inner| collect_value(inner, said)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn collect_keys(value: &Value, said: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, said)),
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            said.insert(key.clone());
            collect_keys(inner, said);
        }),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
