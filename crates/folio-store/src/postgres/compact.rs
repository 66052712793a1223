//! Making smaller what is kept: archived content is packed, and of old tombstones only the numbers stay.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::keeping::{ErasedFor, Watch};
use folio_memory::{Change, Entry, EntryId, Seq, Timestamp};

use super::column::{count, get, seq};
use super::error::{Failure, damaged};
use super::session::Session;
use super::{entry, rewrite, unclaimed, watch};
use crate::commit::{Folded, Record};
use crate::fold::{self, Rewritten};
use crate::place::to_column;
use crate::upkeep::{Compacted, Compaction, WatchQuery};
use crate::{packed, prepare};

/// Bytes of a record from which on it is packed.
const RECORD_FROM: usize = 512;

/// Does it, for as many entries as it says at most.
pub(super) async fn compact(session: &Session, compaction: &Compaction) -> Result<Compacted, Failure> {
    let query = |what, until| WatchQuery {
        what,
        until,
        idle_since: Timestamp::MAX,
        after: None,
        limit: compaction.limit,
    };
    let is_full = |found: &[(Timestamp, u64)]| found.len() >= usize::try_from(compaction.limit).unwrap_or(usize::MAX);
    let mut done = Compacted::default();
    let archived = watch::numbers(session, &query(Watch::Archived, Timestamp::MAX)).await?;
    done.more |= is_full(&archived);
    for (at, number) in archived {
        done.packed += u64::from(pack(session, number).await?);
        watch::remove(session, number, Watch::Archived, at).await?;
    }
    if let Some(until) = compaction.bury_until {
        let tombstones = watch::numbers(session, &query(Watch::Tombstone, until)).await?;
        done.more |= is_full(&tombstones);
        done.buried = Burial::new(session, until).bury(&tombstones).await?;
        for (at, number) in tombstones {
            // What has to stay is not looked at again.
            watch::remove(session, number, Watch::Tombstone, at).await?;
        }
    }
    if let Some(until) = compaction.give_up_until {
        let (given_up, more) = unclaimed::give_up(session, until).await?;
        done.given_up = given_up;
        done.more |= more;
    }
    Ok(done)
}

/// Packs the body of entry `number`, and the record of the commit that added it; whether it got smaller.
async fn pack(session: &Session, number: u64) -> Result<bool, Failure> {
    let Some(mut found) = entry::at(session, number).await? else {
        return Ok(false);
    };
    let Some(body) = packed::pack(&found.fields.body) else {
        return Ok(false);
    };
    found.fields.body.clear();
    entry::pack(session, number, &prepare::entry_fields_json(&found.fields)?, &body).await?;
    let record = rewrite::record_text(session, found.created_seq)
        .await?
        .unwrap_or_default();
    // A run reads its commits again and again.
    if record.len() > RECORD_FROM
        && fold::run_of(&record).is_none()
        && let Some(packed) = packed::pack(&record)
    {
        rewrite::pack(session, found.created_seq, &packed).await?;
    }
    Ok(true)
}

/// Giving up tombstones.
struct Burial<'s> {
    session: &'s Session,
    until: Timestamp,
    /// The last entry keeps its row, so that whoever checks sees how many numbers were given.
    last: u64,
    gone: BTreeMap<EntryId, u64>,
    commits: BTreeSet<Seq>,
}

impl<'s> Burial<'s> {
    fn new(session: &'s Session, until: Timestamp) -> Self {
        Self {
            session,
            until,
            last: 0,
            gone: BTreeMap::new(),
            commits: BTreeSet::new(),
        }
    }

    /// Gives up as many of `tombstones` as can be.
    async fn bury(mut self, tombstones: &[(Timestamp, u64)]) -> Result<u64, Failure> {
        let sql = "SELECT coalesce(max(number), 0) FROM entry WHERE space = $1";
        let last = self.session.one(sql, &[&self.session.space.0]).await?;
        self.last = last.map_or(Ok(0), |row| count(&row, 0))?;
        for (_, number) in tombstones {
            if let Some(entry) = entry::at(self.session, *number).await?
                && !self.gone.contains_key(&entry.id)
            {
                self.choose(&entry).await?;
            }
        }
        let mut empty = Vec::new();
        for seq in &self.commits {
            let mut record = self.record(*seq).await?;
            let before = record.changes.len();
            let added = record
                .changes
                .iter()
                .filter(|c| matches!(c, Change::AddEntry(_)))
                .count() as u64;
            record.changes.retain(|change| !self.concerns_gone(change));
            if record.changes.is_empty() && !record.is_of_run() {
                empty.push((*seq, added));
            } else if record.changes.len() < before {
                rewrite::rewrite(self.session, *seq, &fold::record_json(&record)?).await?;
            }
        }
        for number in self.gone.values() {
            entry::remove(self.session, *number).await?;
        }
        for (seq, added) in empty {
            self.fold(seq, added).await?;
        }
        Ok(self.gone.len() as u64)
    }

    /// Notes `entry` as one that goes, with all that were added by the same commit; none of them if one has to stay.
    async fn choose(&mut self, entry: &Entry) -> Result<(), Failure> {
        let record = self.record(entry.created_seq).await?;
        if record.is_of_run() {
            return Ok(());
        }
        let mut chosen = Vec::new();
        for change in &record.changes {
            match change {
                Change::AddEntry(new) => {
                    let found = entry::by_id(self.session, new.id).await?;
                    let Some(found) = found.filter(|found| self.may_go(found)) else {
                        return Ok(());
                    };
                    chosen.push(found);
                }
                // Its entry was added before, and stands or goes with another commit.
                Change::PatchEntry { .. } | Change::EraseEntry { .. } => {}
                _ => return Ok(()),
            }
        }
        let ids: BTreeSet<_> = chosen.iter().map(|entry| entry.id).collect();
        let is_of_others = |change: &Change| match change {
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => !ids.contains(entry),
            _ => false,
        };
        if record.changes.iter().any(is_of_others) {
            return Ok(());
        }
        for entry in chosen {
            self.commits.insert(entry.created_seq);
            self.commits
                .extend(rewrite::touches(self.session, entry.handle.0).await?);
            self.gone.insert(entry.id, entry.handle.0);
        }
        Ok(())
    }

    fn may_go(&self, entry: &Entry) -> bool {
        let is_purged = entry.fields.erased.is_some_and(|why| why != ErasedFor::Forgotten);
        is_purged && entry.updated_at <= self.until && entry.handle.0 != self.last
    }

    fn concerns_gone(&self, change: &Change) -> bool {
        match change {
            Change::AddEntry(new) => self.gone.contains_key(&new.id),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => self.gone.contains_key(entry),
            _ => false,
        }
    }

    async fn record(&self, seq: Seq) -> Result<Rewritten, Failure> {
        let text = rewrite::record_text(self.session, seq).await?;
        let text = text.ok_or_else(|| damaged(&format!("commit {seq}"), "it is not there"))?;
        serde_json::from_str(&text).map_err(|error| damaged(&format!("commit {seq}"), error))
    }

    /// Makes commit `of`, of which nothing is left but the numbers of `added` entries, one with its neighbours of whom the
    /// same is true.
    async fn fold(&self, of: Seq, added: u64) -> Result<(), Failure> {
        let mut folded = Folded {
            from: of,
            entries: added,
        };
        let before = "SELECT seq, record FROM log WHERE space = $1 AND seq < $2 ORDER BY seq DESC LIMIT 1";
        if let Some((neighbour, before)) = self.neighbour(before, of).await? {
            rewrite::remove(self.session, neighbour).await?;
            folded.from = before.from;
            folded.entries += before.entries;
        }
        let mut last = of;
        let after = "SELECT seq, record FROM log WHERE space = $1 AND seq > $2 ORDER BY seq LIMIT 1";
        if let Some((neighbour, after)) = self.neighbour(after, of).await? {
            rewrite::remove(self.session, of).await?;
            folded.entries += after.entries;
            last = neighbour;
        }
        let record = Record {
            folded: Some(folded),
            ..Record::of(Vec::new())
        };
        rewrite::fold_into(self.session, last, &fold::record_json(&record)?).await
    }

    async fn neighbour(&self, sql: &str, of: Seq) -> Result<Option<(Seq, Folded)>, Failure> {
        let Some(row) = self
            .session
            .one(sql, &[&self.session.space.0, &to_column(of.0)])
            .await?
        else {
            return Ok(None);
        };
        let record: Option<Record> = serde_json::from_str(get(&row, 1)?).ok();
        let folded = record.and_then(|record| record.folded);
        folded.map(|folded| Ok((seq(&row, 0)?, folded))).transpose()
    }
}
