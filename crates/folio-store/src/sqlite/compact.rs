//! Making smaller what is kept: archived content is packed, and of old tombstones only the numbers stay.

use std::collections::{BTreeMap, BTreeSet};

use folio_memory::keeping::{ErasedFor, Watch};
use folio_memory::{Change, Entry, EntryId, Seq, SpaceName, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Failure, damaged};
use super::packed::{self, Packed};
use super::place::{Place, SpaceId};
use super::{entry, rewrite, unclaimed, watch};
use crate::commit::{Folded, Record};
use crate::fold::{self, Rewritten};
use crate::upkeep::{Compacted, Compaction, WatchQuery};

/// Which space is to be made smaller, and how.
#[derive(Debug)]
pub(super) struct Compact {
    pub(super) space: SpaceName,
    pub(super) compaction: Compaction,
}

/// Bytes of a record from which on it is packed.
const RECORD_FROM: usize = 512;

/// Does it, for as many entries as it says at most.
pub(super) fn compact(conn: &Connection, space: SpaceId, compaction: &Compaction) -> Result<Compacted, Failure> {
    let query = |what, until| WatchQuery {
        what,
        until,
        idle_since: Timestamp::MAX,
        after: None,
        limit: compaction.limit,
    };
    let is_full =
        |places: &[(Timestamp, Place)]| places.len() >= usize::try_from(compaction.limit).unwrap_or(usize::MAX);
    let mut done = Compacted::default();
    let archived = watch::places(conn, space, &query(Watch::Archived, Timestamp::MAX))?;
    done.more |= is_full(&archived);
    for (at, place) in archived {
        done.packed += u64::from(pack(conn, place)?);
        watch::remove(conn, place, Watch::Archived, at)?;
    }
    if let Some(until) = compaction.bury_until {
        let tombstones = watch::places(conn, space, &query(Watch::Tombstone, until))?;
        done.more |= is_full(&tombstones);
        done.buried = Burial::new(conn, space, until).bury(&tombstones)?;
        for (at, place) in tombstones {
            // What has to stay is not looked at again.
            watch::remove(conn, place, Watch::Tombstone, at)?;
        }
    }
    if let Some(until) = compaction.give_up_until {
        let (given_up, more) = unclaimed::give_up(conn, space, until)?;
        done.given_up = given_up;
        done.more |= more;
    }
    Ok(done)
}

/// Packs the body of the entry at `place`, and the record of the commit that added it; whether it got smaller.
fn pack(conn: &Connection, place: Place) -> Result<bool, Failure> {
    let Some(mut entry) = entry::at(conn, place)? else {
        return Ok(false);
    };
    let Some(body) = packed::pack(&entry.fields.body) else {
        return Ok(false);
    };
    packed::insert(conn, Packed::Body, place, &body)?;
    entry.fields.body.clear();
    entry::set_fields(conn, place, &crate::prepare::entry_fields_json(&entry.fields)?)?;
    let commit = Place::of(place.space(), entry.created_seq.0);
    let record = rewrite::record_text(conn, commit)?.unwrap_or_default();
    // A run reads its commits again and again.
    if record.len() > RECORD_FROM
        && fold::run_of(&record).is_none()
        && let Some(packed) = packed::pack(&record)
    {
        rewrite::set_record(conn, commit, rewrite::PACKED_RECORD)?;
        packed::insert(conn, Packed::Record, commit, &packed)?;
    }
    Ok(true)
}

/// Giving up tombstones.
struct Burial<'c> {
    conn: &'c Connection,
    space: SpaceId,
    until: Timestamp,
    /// The last entry keeps its row, so that its number is not given again.
    last: Option<Place>,
    gone: BTreeMap<EntryId, Place>,
    commits: BTreeSet<Seq>,
}

impl<'c> Burial<'c> {
    fn new(conn: &'c Connection, space: SpaceId, until: Timestamp) -> Self {
        Self {
            conn,
            space,
            until,
            last: None,
            gone: BTreeMap::new(),
            commits: BTreeSet::new(),
        }
    }

    /// Gives up as many of `tombstones` as can be.
    fn bury(mut self, tombstones: &[(Timestamp, Place)]) -> Result<u64, Failure> {
        let sql = "SELECT max(place) FROM entry WHERE place BETWEEN ?1 AND ?2";
        let range = params![Place::start(self.space), Place::end(self.space)];
        self.last = self.conn.prepare_cached(sql)?.query_row(range, |row| row.get(0))?;
        for (_, place) in tombstones {
            if let Some(entry) = entry::at(self.conn, *place)?
                && !self.gone.contains_key(&entry.id)
            {
                self.choose(&entry)?;
            }
        }
        let mut empty = Vec::new();
        for seq in &self.commits {
            let place = Place::of(self.space, seq.0);
            let mut record = self.record(place, *seq)?;
            let before = record.changes.len();
            let adds = |record: &Rewritten| {
                let adds = record.changes.iter().filter(|c| matches!(c, Change::AddEntry(_)));
                adds.count() as u64
            };
            let added = adds(&record);
            record.changes.retain(|change| !self.concerns_gone(change));
            if record.changes.is_empty() && !record.is_of_run() {
                empty.push((*seq, added));
            } else if record.changes.len() < before {
                rewrite::rewrite(self.conn, place, &fold::record_json(&record)?)?;
            }
        }
        for place in self.gone.values() {
            entry::remove(self.conn, *place)?;
        }
        for (seq, added) in empty {
            self.fold(seq, added)?;
        }
        Ok(self.gone.len() as u64)
    }

    /// Notes `entry` as one that goes, with all that were added by the same commit; none of them if one has to stay.
    fn choose(&mut self, entry: &Entry) -> Result<(), Failure> {
        let seq = entry.created_seq;
        let record = self.record(Place::of(self.space, seq.0), seq)?;
        if record.is_of_run() {
            return Ok(());
        }
        let mut chosen = Vec::new();
        for change in &record.changes {
            match change {
                Change::AddEntry(new) => {
                    let found = entry::by_id(self.conn, self.space, new.id)?;
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
            let place = Place::of(self.space, entry.handle.0);
            self.commits.insert(entry.created_seq);
            self.commits.extend(rewrite::touches(self.conn, place)?);
            self.gone.insert(entry.id, place);
        }
        Ok(())
    }

    fn may_go(&self, entry: &Entry) -> bool {
        let is_purged = entry.fields.erased.is_some_and(|why| why != ErasedFor::Forgotten);
        let is_last = self.last == Some(Place::of(self.space, entry.handle.0));
        is_purged && entry.updated_at <= self.until && !is_last
    }

    fn concerns_gone(&self, change: &Change) -> bool {
        match change {
            Change::AddEntry(new) => self.gone.contains_key(&new.id),
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => self.gone.contains_key(entry),
            _ => false,
        }
    }

    fn record(&self, place: Place, seq: Seq) -> Result<Rewritten, Failure> {
        let text = rewrite::record_text(self.conn, place)?;
        let text = text.ok_or_else(|| damaged(&format!("commit {seq}"), "it is not there"))?;
        serde_json::from_str(&text).map_err(|error| damaged(&format!("commit {seq}"), error))
    }

    /// Makes commit `seq`, of which nothing is left but the numbers of `added` entries, one with its neighbours of whom the
    /// same is true.
    fn fold(&self, seq: Seq, added: u64) -> Result<(), Failure> {
        let mut folded = Folded {
            from: seq,
            entries: added,
        };
        let neighbour = |sql: &str| -> Result<Option<(Place, Folded)>, Failure> {
            let values = params![
                Place::of(self.space, seq.0),
                Place::start(self.space),
                Place::end(self.space)
            ];
            let row = self
                .conn
                .prepare_cached(sql)?
                .query_row(values, |row| Ok((row.get::<_, Place>(0)?, row.get::<_, String>(1)?)));
            let record = row.optional()?;
            Ok(record.and_then(|(place, text)| Some((place, serde_json::from_str::<Record>(&text).ok()?.folded?))))
        };
        let before = neighbour(
            "SELECT place, record FROM log WHERE place < ?1 AND place >= ?2 AND place <= ?3 ORDER BY place DESC LIMIT 1",
        )?;
        if let Some((place, before)) = before {
            rewrite::remove(self.conn, place)?;
            folded.from = before.from;
            folded.entries += before.entries;
        }
        let after = neighbour(
            "SELECT place, record FROM log WHERE place > ?1 AND place >= ?2 AND place <= ?3 ORDER BY place LIMIT 1",
        )?;
        let mut place = Place::of(self.space, seq.0);
        if let Some((next, after)) = after {
            rewrite::remove(self.conn, place)?;
            folded.entries += after.entries;
            place = next;
        }
        let record = Record {
            folded: Some(folded),
            ..Record::of(Vec::new())
        };
        rewrite::fold_into(self.conn, place, &fold::record_json(&record)?)
    }
}
