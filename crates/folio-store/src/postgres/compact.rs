//! Makes stored data smaller: packs archived content, and drops old tombstones except for their numbers.

use std::collections::BTreeSet;

use folio_memory::keeping::Watch;
use folio_memory::{Entry, Seq, Timestamp};

use super::column::{count, get, seq};
use super::error::{Failure, damaged};
use super::session::Session;
use super::{entry, rewrite, trace, unclaimed, watch};
use crate::burial::{self, Burial, RemainingCommit};
use crate::commit::Folded;
use crate::fold;
use crate::place::to_column;
use crate::rewritten::Rewritten;
use crate::upkeep::{Compacted, Compaction, WatchQuery};
use crate::{packed, prepare};

/// Does so, for no more entries than `compaction` allows.
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
        done.buried = Tombstones::of(session, until).await?.bury(&tombstones).await?;
        for (at, number) in tombstones {
            // A tombstone that has to stay is not looked at again.
            watch::remove(session, number, Watch::Tombstone, at).await?;
        }
    }
    if let Some(until) = compaction.give_up_until {
        let (given_up, more) = unclaimed::drop_unclaimed(session, until).await?;
        done.given_up = given_up;
        done.more |= more;
    }
    if let Some(kept) = compaction.notes {
        done.more |= trace::clean_up(session, kept).await?;
    }
    Ok(done)
}

/// Packs the body of entry `number`, and the record of the commit that added it; returns whether that saved space.
async fn pack(session: &Session, number: u64) -> Result<bool, Failure> {
    let Some(mut found) = entry::by_number(session, number).await? else {
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
    if let Some(packed) = packed::pack_record(&record) {
        rewrite::pack(session, found.created_seq, &packed).await?;
    }
    Ok(true)
}

/// The dropping of tombstones.
struct Tombstones<'s> {
    session: &'s Session,
    burial: Burial,
    commits: BTreeSet<Seq>,
}

impl<'s> Tombstones<'s> {
    async fn of(session: &'s Session, until: Timestamp) -> Result<Self, Failure> {
        let sql = "SELECT coalesce(max(number), 0) FROM entry WHERE space = $1";
        let last = session.one(sql, &[&session.space.0]).await?;
        Ok(Self {
            session,
            burial: Burial::new(until, last.map_or(Ok(0), |row| count(&row, 0))?),
            commits: BTreeSet::new(),
        })
    }

    /// Drops as many of `tombstones` as possible.
    async fn bury(mut self, tombstones: &[(Timestamp, u64)]) -> Result<u64, Failure> {
        for (_, number) in tombstones {
            if let Some(entry) = entry::by_number(self.session, *number).await?
                && !self.burial.has(entry.id)
            {
                self.choose(&entry).await?;
            }
        }
        let mut empty = Vec::new();
        for seq in &self.commits {
            match self.burial.left_of(self.record(*seq).await?) {
                RemainingCommit::Whole => {}
                RemainingCommit::Part(record) => {
                    rewrite::rewrite(self.session, *seq, &fold::record_json(&record)?).await?;
                }
                RemainingCommit::Numbers(entries) => empty.push((*seq, entries)),
            }
        }
        let mut buried = 0;
        for number in self.burial.numbers() {
            entry::remove(self.session, number).await?;
            buried += 1;
        }
        for (seq, entries) in empty {
            self.fold(seq, entries).await?;
        }
        Ok(buried)
    }

    /// Marks `entry` as one to drop, with all entries that the same commit added; none of them if one has to stay.
    async fn choose(&mut self, entry: &Entry) -> Result<(), Failure> {
        let Some(together) = burial::added_together(&self.record(entry.created_seq).await?) else {
            return Ok(());
        };
        let mut chosen = Vec::new();
        for id in together {
            match entry::by_id(self.session, id).await? {
                Some(found) if self.burial.can_drop(&found) => chosen.push(found),
                _ => return Ok(()),
            }
        }
        for entry in &chosen {
            self.commits.insert(entry.created_seq);
            self.commits
                .extend(rewrite::touches(self.session, entry.handle.0).await?);
        }
        self.burial.drop_entries(&chosen);
        Ok(())
    }

    async fn record(&self, seq: Seq) -> Result<Rewritten, Failure> {
        let text = rewrite::record_text(self.session, seq).await?;
        let text = text.ok_or_else(|| damaged(&format!("commit {seq}"), "it is not there"))?;
        serde_json::from_str(&text).map_err(|error| damaged(&format!("commit {seq}"), error))
    }

    /// Merges commit `folded_seq`, of which only the numbers of `entries` are left, with neighbouring commits of which
    /// the same is true.
    async fn fold(&self, folded_seq: Seq, entries: u64) -> Result<(), Failure> {
        let before = "SELECT seq, record FROM log WHERE space = $1 AND seq < $2 ORDER BY seq DESC LIMIT 1";
        let before = self.neighbour(before, folded_seq).await?;
        let after = "SELECT seq, record FROM log WHERE space = $1 AND seq > $2 ORDER BY seq LIMIT 1";
        let after = self.neighbour(after, folded_seq).await?;
        let record = burial::folded(
            folded_seq,
            entries,
            before.map(|(_, folded)| folded),
            after.map(|(_, folded)| folded),
        );
        if let Some((neighbour, _)) = before {
            rewrite::remove(self.session, neighbour).await?;
        }
        let mut last = folded_seq;
        if let Some((neighbour, _)) = after {
            rewrite::remove(self.session, folded_seq).await?;
            last = neighbour;
        }
        rewrite::fold_into(self.session, last, &fold::record_json(&record)?).await
    }

    async fn neighbour(&self, sql: &str, near_seq: Seq) -> Result<Option<(Seq, Folded)>, Failure> {
        let row = self
            .session
            .one(sql, &[&self.session.space.0, &to_column(near_seq.0)])
            .await?;
        let Some(row) = row else { return Ok(None) };
        let folded = burial::folded_in(get(&row, 1)?);
        folded.map(|folded| Ok((seq(&row, 0)?, folded))).transpose()
    }
}
