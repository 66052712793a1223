//! What an export lists, read part by part: the manifest of a space may have any number of entries.

use std::collections::{BTreeSet, HashMap, VecDeque};

use folio_memory::roles::Visibility;
use folio_memory::turn::export::{Export, Listed, PartRef, hash_of, part_of};
use folio_memory::{Entry, EntryId, EntryQuery, Seq};

use super::super::reads::if_there;
use super::super::{Workspace, WorkspaceError};
use super::export::news;

/// How many entries are read at a time.
const AT_A_TIME: usize = 500;

/// An entry of an export, with its content then.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// The entry as the manifest lists it.
    pub listed: Listed,
    /// If the turn touched it: the version that the turn found, `None` if the turn added it.
    pub touched: Option<Option<u32>>,
    /// The entry as it was; `None` if it was forgotten since, or was not asked for.
    pub entry: Option<Entry>,
}

/// Which entries of an export are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportedEntries {
    /// Those that the turn touched, with their content then.
    Touched,
    /// All, without their content.
    Manifest,
    /// All, with their content then.
    All,
}

/// Reads the entries of an export in order, a few hundred at a time: [`Workspace::next_exported`].
#[derive(Debug)]
pub struct ExportReader {
    as_of: Seq,
    entries: ExportedEntries,
    touched: HashMap<EntryId, Option<u32>>,
    /// What was listed and not returned yet.
    listed: VecDeque<Listed>,
    /// The parts that are not listed yet.
    parts: VecDeque<PartRef>,
    /// Those that are.
    done: BTreeSet<u64>,
    /// What lists the entries of the other parts, once one of them is gone.
    anew: Option<Box<EntryQuery>>,
    sees_all: bool,
}

impl ExportReader {
    /// The number of entries that are still to be read. Some of them may not be shown to the asker.
    #[must_use]
    pub fn left(&self) -> u64 {
        let in_parts: u64 = self.parts.iter().map(|part| part.entries).sum();
        self.listed.len() as u64 + in_parts
    }
}

impl Workspace {
    /// Returns the entries of an export with their content then: those that the turn touched, or all of them, as far as
    /// the asker may read them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn exported(&self, export: &Export, all: bool) -> Result<Vec<Exported>, WorkspaceError> {
        let which = if all {
            ExportedEntries::All
        } else {
            ExportedEntries::Touched
        };
        self.all_exported(export, which).await
    }

    /// Returns all entries of an export without their content, as far as the asker may read them.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn manifest(&self, export: &Export) -> Result<Vec<Exported>, WorkspaceError> {
        self.all_exported(export, ExportedEntries::Manifest).await
    }

    /// Begins to read the entries of `export` part by part.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn read_exported(
        &self,
        export: &Export,
        entries: ExportedEntries,
    ) -> Result<ExportReader, WorkspaceError> {
        let sees_all = self.visibility().await? == Visibility::Space;
        // Parts list entries of the whole space.
        let by_parts = entries != ExportedEntries::Touched && sees_all;
        let touched = export.touched.iter();
        Ok(ExportReader {
            as_of: export.as_of,
            entries,
            touched: touched.clone().map(|one| (one.listed.id, one.old_version)).collect(),
            listed: match by_parts {
                true => VecDeque::new(),
                false => touched.map(|one| one.listed.clone()).collect(),
            },
            parts: match by_parts {
                true => export.parts.iter().cloned().collect(),
                false => VecDeque::new(),
            },
            done: BTreeSet::new(),
            anew: None,
            sees_all,
        })
    }

    /// Returns the next entries, as far as the asker may read them; `None` if there are no more.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn next_exported(&self, reader: &mut ExportReader) -> Result<Option<Vec<Exported>>, WorkspaceError> {
        while reader.listed.is_empty() {
            if !self.list_more(reader).await? {
                return Ok(None);
            }
        }
        let count = reader.listed.len().min(AT_A_TIME);
        let mut exported = Vec::with_capacity(count);
        for listed in reader.listed.drain(..count) {
            if reader.sees_all || self.is_visible(listed.id).await? {
                exported.push(Exported {
                    touched: reader.touched.get(&listed.id).copied(),
                    entry: None,
                    listed,
                });
            }
        }
        if reader.entries != ExportedEntries::Manifest {
            self.fill_in_entries(&mut exported, reader.as_of).await?;
        }
        Ok(Some(exported))
    }

    /// Lists more entries; returns whether there may be any.
    async fn list_more(&self, reader: &mut ExportReader) -> Result<bool, WorkspaceError> {
        if let Some(query) = &mut reader.anew {
            // Read as stored, since the hash is compared.
            let page = self.inner.store.entries(&self.inner.space, query, self.now()).await?;
            let left = page
                .items
                .iter()
                .filter(|entry| !reader.done.contains(&part_of(entry.handle)));
            reader.listed.extend(left.map(Listed::of));
            query.cursor = page.next;
            if query.cursor.is_none() {
                reader.anew = None;
                reader.parts.clear();
            }
            return Ok(true);
        }
        let Some(part) = reader.parts.pop_front() else {
            return Ok(false);
        };
        match if_there(self.read_part(&part).await)? {
            Some(listed) => {
                reader.done.insert(part.part);
                reader.listed.extend(listed);
            }
            None => reader.anew = Some(Box::new(news(Seq(0), reader.as_of))),
        }
        Ok(true)
    }

    async fn fill_in_entries(&self, exported: &mut [Exported], as_of: Seq) -> Result<(), WorkspaceError> {
        let mode = self.redaction_of_reads().await?;
        // Read as stored, since the hash is compared.
        let ids = exported.iter().map(|exported| exported.listed.id).collect();
        let entries = self.inner.store.entries_as_of(self.space(), ids, as_of).await?;
        let mut entries: HashMap<EntryId, Entry> = entries.into_iter().map(|entry| (entry.id, entry)).collect();
        for exported in exported {
            // A forgotten entry no longer has the hash that is listed.
            let entry = entries.remove(&exported.listed.id);
            let mut entry = entry.filter(|entry| hash_of(entry) == exported.listed.hash);
            if let Some(entry) = &mut entry {
                self.inner.recalled.entry(entry, mode);
            }
            exported.entry = entry;
        }
        Ok(())
    }

    async fn all_exported(&self, export: &Export, entries: ExportedEntries) -> Result<Vec<Exported>, WorkspaceError> {
        let mut reader = self.read_exported(export, entries).await?;
        let mut all = Vec::new();
        while let Some(exported) = self.next_exported(&mut reader).await? {
            all.extend(exported);
        }
        Ok(all)
    }
}
