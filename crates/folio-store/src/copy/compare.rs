//! Checks whether one store is a copy of another.

use std::collections::HashSet;
use std::fmt;

use folio_memory::id::Ref;
use folio_memory::{Change, EntryId, Seq, SpaceName};

use super::CopyError;
use crate::error::StoreError;
use crate::fold::changed_entry;
use crate::store::{LogRow, Store};

/// How many commits are read at a time.
const CHUNK: u32 = 500;

/// How a supposed copy differs from its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// It has a commit that the source does not have.
    More(Seq),
    /// It has a different commit with that number.
    Other(Seq),
    /// It has only a part of the commits that the source has dropped together.
    InPart(Seq),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More(seq) => write!(f, "has a commit {seq} of its own"),
            Self::Other(seq) => write!(f, "has a different commit {seq}"),
            Self::InPart(seq) => write!(f, "ends within commits up to {seq} of which only numbers are left"),
        }
    }
}

/// Refuses a `target` that has anything which `source` does not have.
pub(super) async fn must_be_a_copy(source: &dyn Store, target: &dyn Store) -> Result<(), CopyError> {
    for space in target.spaces().await? {
        if let Some(difference) = compare(source, target, &space, false).await? {
            return Err(CopyError::NotACopy {
                location: target.location(),
                of: source.location(),
                space,
                difference,
            });
        }
    }
    Ok(())
}

/// The first difference between the commits of `space` in `target` and those in `source`. With `whole`, their content
/// is compared as well, which differs for a moment while something is being forgotten.
pub(super) async fn compare(
    source: &dyn Store,
    target: &dyn Store,
    space: &SpaceName,
    whole: bool,
) -> Result<Option<Difference>, StoreError> {
    let (mut target_rows, mut source_rows) = (Rows::of(target, space), Rows::of(source, space));
    while let Some(mine) = target_rows.next().await? {
        let Some(other) = source_rows.next().await? else {
            return Ok(Some(Difference::More(mine.seq)));
        };
        if mine.record.folded.is_none() && other.record.folded.is_none() {
            let is_same = is_of_same_commit(&mine, &other)
                && (!whole
                    || has_same_content(&mine, &other)
                    || has_same_content(
                        &without_dropped(mine.clone(), target, source, space).await?,
                        &without_dropped(other.clone(), target, source, space).await?,
                    ));
            if !is_same {
                return Ok(Some(Difference::Other(mine.seq.min(other.seq))));
            }
            continue;
        }
        // If one of them has dropped commits, only the numbers can be compared.
        let (mut mine, mut other) = (mine.seq, other.seq);
        while mine != other {
            let (lagging_seq, rows) = if mine < other {
                (&mut mine, &mut target_rows)
            } else {
                (&mut other, &mut source_rows)
            };
            let Some(row) = rows.next().await? else {
                let end = mine.max(other);
                return Ok(Some(Difference::InPart(end)));
            };
            *lagging_seq = row.seq;
        }
    }
    Ok(None)
}

fn is_of_same_commit(mine: &LogRow, other: &LogRow) -> bool {
    (mine.seq, mine.at, &mine.actor) == (other.seq, other.at, &other.actor)
}

fn has_same_content(mine: &LogRow, other: &LogRow) -> bool {
    mine.record == other.record && mine.idempotency_key == other.idempotency_key
}

/// `row` without the changes of entries of which one of the stores has only the numbers left: the other may not have
/// dropped them yet.
async fn without_dropped(
    mut row: LogRow,
    one: &dyn Store,
    other: &dyn Store,
    space: &SpaceName,
) -> Result<LogRow, StoreError> {
    let ids: Vec<EntryId> = row.record.changes.iter().filter_map(changed_entry).collect();
    let mut dropped = HashSet::new();
    for id in ids {
        for store in [one, other] {
            match store.entry(space, Ref::Id(id)).await {
                Ok(_) => {}
                Err(StoreError::NotFound { .. }) => {
                    dropped.insert(id);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let is_left = |change: &Change| changed_entry(change).is_none_or(|id| !dropped.contains(&id));
    row.record.changes.retain(is_left);
    Ok(row)
}

/// The commits of a space, one after the other.
struct Rows<'s> {
    store: &'s dyn Store,
    space: &'s SpaceName,
    read: std::vec::IntoIter<LogRow>,
    last: Seq,
}

impl<'s> Rows<'s> {
    fn of(store: &'s dyn Store, space: &'s SpaceName) -> Self {
        Self {
            store,
            space,
            read: Vec::new().into_iter(),
            last: Seq(0),
        }
    }

    async fn next(&mut self) -> Result<Option<LogRow>, StoreError> {
        if self.read.len() == 0 {
            self.read = self.store.changes(self.space, self.last, CHUNK).await?.into_iter();
        }
        let row = self.read.next();
        if let Some(row) = &row {
            self.last = row.seq;
        }
        Ok(row)
    }
}
