//! What entries said, in all their versions: everything that is searched for once it is gone.

use std::collections::BTreeSet;

use folio_memory::entry::BodyRef;
use folio_memory::text::{Needle, spellings};
use folio_memory::{Change, Entry, EntryFields, EntryId, EntryKind, Turn, foreign};
use serde_json::Value;

use super::super::{Workspace, WorkspaceError};
use super::runs::RunSaid;
use crate::error::StoreError;
use crate::store::Revision;

/// Texts shorter than this many bytes are too common to be searched for afterwards.
const MIN_SEARCHED_BYTES: usize = 12;
/// How many versions of entries are in memory at a time.
const MAX_VERSIONS: u32 = 2_000;
/// How many parts of a long text are searched for afterwards, and how many bytes each has.
const LONG_PARTS: usize = 64;
const LONG_PART: usize = 256;

/// What an entry said in any of its versions.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// All texts.
    pub(super) texts: BTreeSet<String>,
    /// Titles and bodies among them: no other entry has the same ones by chance.
    written: BTreeSet<String>,
    /// The reasons for its changes. Other entries may have been changed for the same reason, and the program has
    /// reasons of its own.
    pub(super) reasons: BTreeSet<String>,
    /// The bodies of texts that were too long for the entry.
    pub(super) bodies: Vec<BodyRef>,
}

impl Said {
    fn of(fields: &EntryFields) -> Self {
        let mut said = Self::default();
        said.take_in(fields);
        said
    }

    fn take_in(&mut self, fields: &EntryFields) {
        collect(fields, &mut self.texts);
        self.written.extend([fields.title.clone(), fields.body.clone()]);
        self.bodies.extend(fields.body_ref.clone());
    }
}

/// What several entries said.
#[derive(Debug, Default)]
pub(super) struct AllSaid {
    texts: BTreeSet<String>,
    /// Titles and bodies.
    written: BTreeSet<String>,
    /// How many texts are too many to be searched for.
    too_many: usize,
}

/// What is searched for.
pub(super) struct Sought {
    pub(super) texts: BTreeSet<String>,
    /// Titles and bodies.
    pub(super) written: BTreeSet<String>,
    /// How many texts are too short or too many to be searched for.
    pub(super) not_looked_for: usize,
}

impl AllSaid {
    /// With what was said in `turns`, whose texts contain `asked`. Other turns have most reasons as well, so only those
    /// are meant that contain it.
    pub(super) fn with_turns(mut self, turns: &[Turn], asked: Option<&str>) -> Self {
        let asked = asked.map(Needle::new);
        let is_asked = |text: &&String| asked.as_ref().is_some_and(|asked| asked.is_in(text));
        for turn in turns {
            let reasons = turn.decisions().flat_map(|decision| &decision.reasons);
            self.texts.extend(reasons.filter(is_asked).cloned());
            self.texts.insert(turn.begun.input.clone());
        }
        self
    }

    /// With what a run said.
    pub(super) fn with_run(mut self, said: &RunSaid) -> Self {
        self.texts.extend(said.texts.iter().cloned());
        self.too_many += said.too_many;
        self
    }

    /// Takes in what `entry`, which stands on a page of a run, says now, unless the run itself wrote it: that follows
    /// from the journal.
    pub(super) fn take_entry_of_run(&mut self, entry: &Entry) {
        if !matches!(entry.kind, EntryKind::Log | EntryKind::Step | EntryKind::Summary) {
            let said = Said::of(&entry.fields);
            self.texts.extend(said.texts);
            self.written.extend(said.written);
        }
    }

    /// The texts that are long enough to be searched for, and `asked`, however short that is.
    pub(super) fn sought_with(self, asked: Option<&str>) -> Sought {
        let Self {
            mut texts,
            mut written,
            too_many,
        } = self;
        let asked: Vec<String> = asked.into_iter().flat_map(spellings).collect();
        texts.extend(asked.iter().cloned());
        texts.retain(|text| !text.trim().is_empty());
        let is_long = |text: &String| text.trim().len() >= MIN_SEARCHED_BYTES;
        written.retain(is_long);
        let all = texts.len();
        texts.retain(|text| is_long(text) || asked.contains(text));
        Sought {
            not_looked_for: all - texts.len() + too_many,
            texts,
            written,
        }
    }
}

impl Workspace {
    /// What `entries` said in any of their versions.
    pub(super) async fn all_said(&self, entries: &[Entry]) -> Result<AllSaid, WorkspaceError> {
        let mut all = AllSaid::default();
        // An entry that never changed says all that it ever said: the commit that added it need not be read.
        let (unchanged, changed): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.version == 1);
        for entry in unchanged {
            self.add_said(&mut all, Said::of(&entry.fields)).await?;
        }
        for some in few_versions_at_a_time(&changed) {
            for ever in self.texts_of_all_versions(some).await? {
                self.add_said(&mut all, ever).await?;
            }
        }
        Ok(all)
    }

    async fn add_said(&self, all: &mut AllSaid, ever: Said) -> Result<(), WorkspaceError> {
        all.texts.extend(ever.texts);
        all.written.extend(ever.written);
        for body in &ever.bodies {
            let text = self.kept_text(body).await?;
            all.texts.extend(parts_of(&text));
            all.written.insert(text);
        }
        Ok(())
    }

    /// The text kept as `body`; empty if it is gone.
    pub(super) async fn kept_text(&self, body: &BodyRef) -> Result<String, WorkspaceError> {
        match self.body_text(body).await {
            Err(WorkspaceError::Store(StoreError::NotFound { .. })) => Ok(String::new()),
            text => text,
        }
    }

    /// What each of `entries` said in any of its versions. All versions are in memory at once.
    pub(super) async fn texts_of_all_versions(&self, entries: &[&Entry]) -> Result<Vec<Said>, WorkspaceError> {
        let ids: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
        let histories = self.inner.store.histories(self.space(), &ids).await?;
        let each = entries.iter().zip(histories);
        Ok(each.map(|(entry, history)| Said::in_history(entry, history)).collect())
    }
}

/// `entries` in parts that have only so many versions together, or a single entry.
pub(super) fn few_versions_at_a_time<'e, 's>(entries: &'s [&'e Entry]) -> impl Iterator<Item = &'s [&'e Entry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut versions = 0;
        let fit = rest.iter().take_while(|entry| {
            versions += entry.version;
            versions <= MAX_VERSIONS
        });
        let count = fit.count().max(1).min(rest.len());
        let (some, after) = rest.split_at(count);
        rest = after;
        (!some.is_empty()).then_some(some)
    })
}

impl Said {
    /// What `entry` said in any of the versions of its `history`.
    fn in_history(entry: &Entry, history: Vec<Revision>) -> Self {
        let mut record = Self::default();
        for revision in history {
            record.reasons.extend(revision.reason);
            match revision.change {
                Change::AddEntry(new) => record.take_in(&new.fields),
                Change::PatchEntry { fields, .. } => {
                    // The fields that a patch sets, applied to an otherwise empty entry.
                    let mut set = EntryFields::new(entry.kind, entry.fields.owner.clone(), entry.fields.trust);
                    set.set(&fields);
                    record.take_in(&set);
                }
                _ => {}
            }
        }
        record
    }
}

/// All texts of `fields` that somebody wrote, and the keys in the context and the metadata.
pub(in super::super) fn texts_of(fields: &EntryFields) -> BTreeSet<String> {
    let mut texts = BTreeSet::new();
    collect(fields, &mut texts);
    for value in [&fields.context, &fields.metadata].into_iter().flatten() {
        collect_keys(value, &mut texts);
    }
    texts
}

/// The same without keys: others use the same keys, and so does the program.
fn collect(fields: &EntryFields, found_texts: &mut BTreeSet<String>) {
    let texts = [Some(&fields.title), Some(&fields.body), fields.phase.as_ref()];
    found_texts.extend(texts.into_iter().flatten().filter(|text| !text.is_empty()).cloned());
    found_texts.extend(fields.tags.iter().map(|tag| tag.as_str().to_owned()));
    let claimed = fields.claimed_source.as_ref().map(foreign::record_of);
    for value in [&fields.parts, &fields.context, &fields.metadata]
        .into_iter()
        .flatten()
        .chain(claimed)
    {
        collect_value(value, found_texts);
    }
}

pub(super) fn collect_value(value: &Value, found_texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(found_texts.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect_value(item, found_texts)),
        Value::Object(map) => map.values().for_each(|inner| collect_value(inner, found_texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn collect_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            keys.insert(key.clone());
            collect_keys(inner, keys);
        }),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Parts of a long `text` that are searched for afterwards: searching for all of it costs more than it tells.
pub(super) fn parts_of(text: &str) -> Vec<String> {
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
