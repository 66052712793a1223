//! The export of a turn: made from the log when the turn ends; texts are read from the revisions (M7.6.47).

use std::collections::BTreeMap;

use folio_memory::id::TurnRef;
use folio_memory::patterns::News;
use folio_memory::query::MAX_LIMIT;
use folio_memory::roles::Visibility;
use folio_memory::turn::export::{Export, Listed, PartRef, Touched, parse_part, part_of, part_to_jsonl};
use folio_memory::turn::{Turn, TurnQuery};
use folio_memory::{Entry, EntryHandle, EntryKind, EntryQuery, Order, Seq, Status};

use super::super::reads::if_there;
use super::super::{Workspace, WorkspaceError};
use crate::commit::{Blob, BlobHash};
use crate::error::StoreError;

/// An export that was made, with what its making found.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) export: Export,
    /// Bodies that are not stored yet, the export's own first.
    pub(super) blobs: Vec<Blob>,
    /// The entries that the turn touched, as they are at its end.
    pub(super) touched: Vec<Entry>,
    /// Where something was noticed since the last export.
    pub(super) news: News,
}

impl Workspace {
    /// Returns the export of `turn`. Askers that may not read the whole space get only the touched entries that they
    /// may read, and no manifest of the rest.
    ///
    /// # Errors
    ///
    /// `Conflict` if the turn has not ended; `NotFound`; `Refused` as [`Workspace::turn`]; `Unavailable` or `Corrupt`.
    pub async fn turn_export(&self, turn: TurnRef) -> Result<Export, WorkspaceError> {
        let turn = self.turn(turn).await?;
        let Some(ended) = &turn.ended else {
            let turn = turn.handle.to_string();
            return Err(StoreError::TurnOpen { turn }.into());
        };
        let mut export = self.read_export(&ended.end.export).await?;
        if self.visibility().await? != Visibility::Space {
            export.parts.clear();
            let mut touched = Vec::new();
            for one in export.touched {
                if self.is_visible(one.listed.id).await? {
                    touched.push(one);
                }
            }
            export.touched = touched;
        }
        Ok(export)
    }

    /// The export of `turn` as of `as_of`, if nothing was remembered or changed since the turn began: `parts` list what
    /// there is.
    pub(super) fn export_without_news(&self, turn: &Turn, as_of: Seq, parts: &[PartRef]) -> Made {
        let export = Export {
            turn: turn.begun.id,
            at: self.now(),
            as_of,
            touched: Vec::new(),
            parts: parts.to_vec(),
        };
        Made {
            blobs: vec![Blob::new(export.to_jsonl().into_bytes())],
            export,
            touched: Vec::new(),
            news: News::default(),
        }
    }

    /// Makes the export of `turn` as of `as_of`, based on the last export, or on nothing if a part of that is gone.
    pub(super) async fn make_export(&self, turn: &Turn, as_of: Seq) -> Result<Made, WorkspaceError> {
        let base = if_there(self.last_export(turn).await)?.flatten();
        match if_there(self.export_on(base, turn, as_of).await)? {
            Some(made) => Ok(made),
            None => self.export_on(None, turn, as_of).await,
        }
    }

    /// The same, based on `base`.
    async fn export_on(&self, base: Option<Export>, turn: &Turn, as_of: Seq) -> Result<Made, WorkspaceError> {
        let base_seq = base.as_ref().map_or(Seq(0), |base| base.as_of);
        let mut parts: BTreeMap<u64, PartRef> = base
            .map(|base| base.parts.into_iter().map(|part| (part.part, part)).collect())
            .unwrap_or_default();
        let (mut blobs, mut recent, mut noticed) = (Vec::new(), Vec::new(), News::default());
        let policy = self.policy().await?;
        // Entries come oldest first, so a part is complete when the next one begins, and entries older than the turn
        // need not be kept in memory.
        let mut of_part: Vec<Listed> = Vec::new();
        let mut query = news(base_seq, as_of);
        loop {
            // Read as stored, since the hash is compared.
            let page = self.inner.store.entries(&self.inner.space, &query, self.now()).await?;
            for entry in page.items {
                if of_part
                    .last()
                    .is_some_and(|last| part_of(last.handle) != part_of(entry.handle))
                {
                    blobs.extend(self.list_part(std::mem::take(&mut of_part), &mut parts).await?);
                }
                of_part.push(Listed::of(&entry));
                noticed.add(&entry, policy.types());
                if entry.updated_seq >= turn.started_seq {
                    recent.push(entry);
                }
            }
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => break,
            }
        }
        blobs.extend(self.list_part(of_part, &mut parts).await?);
        let found = self.touched_by(turn, &recent, as_of).await?;
        let mut touched: Vec<_> = Vec::new();
        let mut touched_entries: Vec<_> = Vec::new();
        for entry in recent {
            let Some(old_version) = found.get(&entry.id) else {
                continue;
            };
            touched.push(Touched {
                kind: entry.kind,
                old_version: *old_version,
                listed: Listed::of(&entry),
            });
            touched_entries.push(entry);
        }
        touched.sort_by_key(|touched| touched.listed.handle);
        touched_entries.sort_by_key(|entry| entry.handle);
        let export = Export {
            turn: turn.begun.id,
            at: self.now(),
            as_of,
            touched,
            parts: parts.into_values().collect(),
        };
        blobs.insert(0, Blob::new(export.to_jsonl().into_bytes()));
        Ok(Made {
            export,
            blobs,
            touched: touched_entries,
            news: noticed,
        })
    }

    /// Adds `new_items`, all of one part, to the part of `parts` that they belong to. Returns its body; `None` if there
    /// is no news.
    async fn list_part(
        &self,
        new_items: Vec<Listed>,
        parts: &mut BTreeMap<u64, PartRef>,
    ) -> Result<Option<Blob>, WorkspaceError> {
        let Some(part) = new_items.first().map(|first| part_of(first.handle)) else {
            return Ok(None);
        };
        let before = match parts.get(&part) {
            Some(part) => self.read_part(part).await?,
            None => Vec::new(),
        };
        let listed: BTreeMap<EntryHandle, Listed> = before
            .into_iter()
            .chain(new_items)
            .map(|one| (one.handle, one))
            .collect();
        let listed: Vec<_> = listed.into_values().collect();
        let blob = Blob::new(part_to_jsonl(&listed).into_bytes());
        let (entries, body) = (listed.len() as u64, blob.hash().0.clone());
        parts.insert(part, PartRef { part, entries, body });
        Ok(Some(blob))
    }

    /// The newest export as of a commit before `turn` began, so that everything the turn touched is read again.
    async fn last_export(&self, turn: &Turn) -> Result<Option<Export>, WorkspaceError> {
        let query = TurnQuery {
            ended_by: Some(turn.started_seq),
            limit: 50,
            ..TurnQuery::default()
        };
        let ended = self.inner.store.turns(self.space(), &query).await?;
        let newest = ended
            .iter()
            .filter_map(|turn| turn.ended.as_ref())
            .max_by_key(|ended| ended.end.as_of);
        match newest {
            Some(ended) => self.read_export(&ended.end.export).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn read_export(&self, body: &str) -> Result<Export, WorkspaceError> {
        let text = self.text_of(body).await?;
        Export::parse(&text).map_err(|reason| self.damaged(body, &reason))
    }

    pub(super) async fn read_part(&self, part: &PartRef) -> Result<Vec<Listed>, WorkspaceError> {
        let text = self.text_of(&part.body).await?;
        parse_part(&text).map_err(|reason| self.damaged(&part.body, &reason))
    }

    async fn text_of(&self, body: &str) -> Result<String, WorkspaceError> {
        let bytes = self.read_blob(&BlobHash(body.to_owned())).await?;
        String::from_utf8(bytes).map_err(|_| self.damaged(body, "it is not text"))
    }

    fn damaged(&self, body: &str, reason: &str) -> WorkspaceError {
        let error = StoreError::Corrupt {
            location: self.inner.store.location(),
            reason: format!("the export {body} cannot be read: {reason}"),
            source: None,
        };
        error.into()
    }
}

/// Whether an entry of this kind is work that a turn may leave undone.
pub(super) fn is_work(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Task | EntryKind::Todo | EntryKind::PendingAction)
}

/// The query for memory that was added or changed after `base`, as of `as_of`.
pub(super) fn news(base: Seq, as_of: Seq) -> EntryQuery {
    EntryQuery {
        kinds: EntryKind::memory().collect(),
        status: Status::ALL.to_vec(),
        since: Some(base),
        as_of: Some(as_of),
        include_expired: true,
        include_superseded: true,
        order: Order::Oldest,
        limit: MAX_LIMIT,
        ..EntryQuery::default()
    }
}
