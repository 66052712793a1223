//! Makes stored data smaller: packs archived content, and drops old tombstones except for their numbers.

use std::collections::BTreeSet;

use folio_memory::keeping::Watch;
use folio_memory::{Entry, Seq, SpaceName, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Failure, damaged};
use super::packed::{self, Packed};
use super::place::{Place, SpaceId};
use super::{entry, rewrite, trace, unclaimed, watch};
use crate::burial::{self, Burial, RemainingCommit};
use crate::commit::Folded;
use crate::fold;
use crate::rewritten::Rewritten;
use crate::upkeep::{Compacted, Compaction, WatchQuery};

/// Which space to make smaller, and how.
#[derive(Debug)]
pub(super) struct Compact {
    pub(super) space: SpaceName,
    pub(super) compaction: Compaction,
}

/// Does so, for no more entries than `compaction` allows.
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
        done.buried = Tombstones::of(conn, space, until)?.bury(&tombstones)?;
        for (at, place) in tombstones {
            // A tombstone that has to stay is not looked at again.
            watch::remove(conn, place, Watch::Tombstone, at)?;
        }
    }
    if let Some(until) = compaction.give_up_until {
        let (given_up, more) = unclaimed::drop_unclaimed(conn, space, until)?;
        done.given_up = given_up;
        done.more |= more;
    }
    if let Some(kept) = compaction.notes {
        done.more |= trace::clean_up(conn, space, kept)?;
    }
    Ok(done)
}

/// Packs the body of the entry at `place`, and the record of the commit that added it; returns whether that saved
/// space.
fn pack(conn: &Connection, place: Place) -> Result<bool, Failure> {
    let Some(mut entry) = entry::by_place(conn, place)? else {
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
    if let Some(packed) = crate::packed::pack_record(&record) {
        rewrite::set_record(conn, commit, rewrite::PACKED_RECORD)?;
        packed::insert(conn, Packed::Record, commit, &packed)?;
    }
    Ok(true)
}

/// The dropping of tombstones.
struct Tombstones<'c> {
    conn: &'c Connection,
    space: SpaceId,
    burial: Burial,
    commits: BTreeSet<Seq>,
}

impl<'c> Tombstones<'c> {
    fn of(conn: &'c Connection, space: SpaceId, until: Timestamp) -> Result<Self, Failure> {
        let sql = "SELECT max(place) FROM entry WHERE place BETWEEN ?1 AND ?2";
        let range = params![Place::start(space), Place::end(space)];
        let last: Option<Place> = conn.prepare_cached(sql)?.query_row(range, |row| row.get(0))?;
        Ok(Self {
            conn,
            space,
            burial: Burial::new(until, last.map_or(0, Place::number)),
            commits: BTreeSet::new(),
        })
    }

    /// Drops as many of `tombstones` as possible.
    fn bury(mut self, tombstones: &[(Timestamp, Place)]) -> Result<u64, Failure> {
        for (_, place) in tombstones {
            if let Some(entry) = entry::by_place(self.conn, *place)?
                && !self.burial.has(entry.id)
            {
                self.choose(&entry)?;
            }
        }
        let mut empty = Vec::new();
        for seq in &self.commits {
            match self.burial.left_of(self.record(*seq)?) {
                RemainingCommit::Whole => {}
                RemainingCommit::Part(record) => {
                    let place = Place::of(self.space, seq.0);
                    rewrite::rewrite(self.conn, place, &fold::record_json(&record)?)?;
                }
                RemainingCommit::Numbers(entries) => empty.push((*seq, entries)),
            }
        }
        let mut buried = 0;
        for number in self.burial.numbers() {
            entry::remove(self.conn, Place::of(self.space, number))?;
            buried += 1;
        }
        for (seq, entries) in empty {
            self.fold(seq, entries)?;
        }
        Ok(buried)
    }

    /// Marks `entry` as one to drop, with all entries that the same commit added; none of them if one has to stay.
    fn choose(&mut self, entry: &Entry) -> Result<(), Failure> {
        let Some(together) = burial::added_together(&self.record(entry.created_seq)?) else {
            return Ok(());
        };
        let mut chosen = Vec::new();
        for id in together {
            match entry::by_id(self.conn, self.space, id)? {
                Some(found) if self.burial.can_drop(&found) => chosen.push(found),
                _ => return Ok(()),
            }
        }
        for entry in &chosen {
            let place = Place::of(self.space, entry.handle.0);
            self.commits.insert(entry.created_seq);
            self.commits.extend(rewrite::touches(self.conn, place)?);
        }
        self.burial.drop_entries(&chosen);
        Ok(())
    }

    fn record(&self, seq: Seq) -> Result<Rewritten, Failure> {
        let text = rewrite::record_text(self.conn, Place::of(self.space, seq.0))?;
        let text = text.ok_or_else(|| damaged(&format!("commit {seq}"), "it is not there"))?;
        serde_json::from_str(&text).map_err(|error| damaged(&format!("commit {seq}"), error))
    }

    /// Merges commit `seq`, of which only the numbers of `entries` are left, with neighbouring commits of which the
    /// same is true.
    fn fold(&self, seq: Seq, entries: u64) -> Result<(), Failure> {
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
            Ok(record.and_then(|(place, text)| Some((place, burial::folded_in(&text)?))))
        };
        let before = neighbour(
            "SELECT place, record FROM log WHERE place < ?1 AND place >= ?2 AND place <= ?3 ORDER BY place DESC LIMIT 1",
        )?;
        let after = neighbour(
            "SELECT place, record FROM log WHERE place > ?1 AND place >= ?2 AND place <= ?3 ORDER BY place LIMIT 1",
        )?;
        let record = burial::folded(
            seq,
            entries,
            before.map(|(_, folded)| folded),
            after.map(|(_, folded)| folded),
        );
        if let Some((place, _)) = before {
            rewrite::remove(self.conn, place)?;
        }
        let mut last = Place::of(self.space, seq.0);
        if let Some((place, _)) = after {
            rewrite::remove(self.conn, last)?;
            last = place;
        }
        rewrite::fold_into(self.conn, last, &fold::record_json(&record)?)
    }
}
