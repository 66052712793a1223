//! The rows that result from commits, written table by table.

use std::collections::{BTreeSet, HashSet};

use folio_memory::keeping::{Watched, watched};
use folio_memory::terms::terms_of;
use folio_memory::{Link, Seq};

use super::column::encode_text;
use super::commit::update_space_end;
use super::error::Failure;
use super::loaded::{Loaded, LoadedEntry};
use super::session::{Write, values};
use super::{link, policy, run, turn, watch};
use crate::error::StoreError;
use crate::place::{SpaceId, Touched, to_column};
use crate::plan::{Decided, Ends};
use crate::prepare::{Prepared, entry_fields_json, page_fields_json};

/// Rows to be written.
#[derive(Debug)]
pub(super) struct Rows {
    space: SpaceId,
    log: Log,
    touches: Touches,
    links: HashSet<Link>,
    loaded: Option<Loaded>,
    new_entries: Entries,
    changed_entries: Entries,
    new_terms: Terms,
    terms: Terms,
    old_terms: Terms,
    new_watches: Watches,
    watches: Watches,
    old_watches: Watches,
    pages: Pages,
    changed_pages: Pages,
}

#[derive(Debug, Default)]
struct Log {
    seqs: Vec<i64>,
    at: Vec<i64>,
    keys: Vec<Option<Vec<u8>>>,
    actors: Vec<String>,
    records: Vec<String>,
}

#[derive(Debug, Default)]
struct Touches {
    what: Vec<&'static str>,
    numbers: Vec<i64>,
    seqs: Vec<i64>,
}

#[derive(Debug, Default)]
struct Terms {
    terms: Vec<String>,
    numbers: Vec<i64>,
}

#[derive(Debug, Default)]
struct Watches {
    what: Vec<i64>,
    at: Vec<i64>,
    numbers: Vec<i64>,
    since: Vec<i64>,
}

#[derive(Debug, Default)]
struct Entries {
    numbers: Vec<i64>,
    ids: Vec<Vec<u8>>,
    pages: Vec<i64>,
    page_ids: Vec<Vec<u8>>,
    kinds: Vec<&'static str>,
    types: Vec<Option<String>>,
    statuses: Vec<&'static str>,
    owners: Vec<String>,
    pinned: Vec<bool>,
    expires_at: Vec<Option<i64>>,
    superseded: Vec<bool>,
    confidences: Vec<Option<f64>>,
    versions: Vec<i64>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    created_seqs: Vec<i64>,
    updated_seqs: Vec<i64>,
    fields: Vec<String>,
}

#[derive(Debug, Default)]
struct Pages {
    numbers: Vec<i64>,
    ids: Vec<Vec<u8>>,
    parents: Vec<Option<i64>>,
    roles: Vec<&'static str>,
    runs: Vec<Option<Vec<u8>>>,
    threads: Vec<Option<String>>,
    versions: Vec<i64>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    created_seqs: Vec<i64>,
    fields: Vec<String>,
}

impl Rows {
    pub(super) fn new(space: SpaceId) -> Self {
        Self {
            space,
            log: Log::default(),
            touches: Touches::default(),
            links: HashSet::new(),
            loaded: None,
            new_entries: Entries::default(),
            changed_entries: Entries::default(),
            new_terms: Terms::default(),
            terms: Terms::default(),
            old_terms: Terms::default(),
            new_watches: Watches::default(),
            watches: Watches::default(),
            old_watches: Watches::default(),
            pages: Pages::default(),
            changed_pages: Pages::default(),
        }
    }

    /// Adds the row of the log, and links.
    pub(super) fn commit(&mut self, commit: &Prepared, decided: &Decided<'_>) {
        let log = &mut self.log;
        log.seqs.push(to_column(decided.seq.0));
        log.at.push(decided.at.as_nanos());
        log.keys.push(commit.key.as_ref().map(|key| key.as_bytes().to_vec()));
        log.actors.push(commit.actor_json.clone());
        log.records.push(commit.record_json.clone());
        self.links.extend(decided.links.iter().map(|link| (*link).clone()));
    }

    /// Records that commit `seq` touched entry or run `number`.
    pub(super) fn touch(&mut self, kind: Touched, number: u64, seq: Seq) {
        self.touches.what.push(kind.letter());
        self.touches.numbers.push(to_column(number));
        self.touches.seqs.push(to_column(seq.0));
    }

    /// Adds the final state of everything in `loaded`.
    pub(super) fn take(&mut self, loaded: Loaded) -> Result<(), StoreError> {
        for entry in loaded
            .entries
            .values()
            .filter(|entry| entry.is_changed || entry.before.is_none())
        {
            self.entry(entry)?;
        }
        for page in loaded.pages.values().filter(|page| page.is_new || page.is_changed) {
            let rows = if page.is_new {
                &mut self.pages
            } else {
                &mut self.changed_pages
            };
            let now = &page.now;
            rows.numbers.push(to_column(now.handle.0));
            rows.ids.push(now.id.to_bytes().to_vec());
            rows.parents.push(page.parent.map(to_column));
            rows.roles.push(now.fields.role.as_str());
            rows.runs.push(now.fields.run.map(|run| run.to_bytes().to_vec()));
            rows.threads.push(
                now.fields
                    .thread
                    .as_ref()
                    .map(|thread| encode_text(&thread.0).into_owned()),
            );
            rows.versions.push(i64::from(now.version));
            rows.created_at.push(now.created_at.as_nanos());
            rows.updated_at.push(now.updated_at.as_nanos());
            rows.created_seqs.push(to_column(now.created_seq.0));
            rows.fields.push(page_fields_json(&now.fields)?);
        }
        self.loaded = Some(loaded);
        Ok(())
    }

    fn entry(&mut self, entry: &LoadedEntry) -> Result<(), StoreError> {
        let now = &entry.now;
        let (number, fields) = (to_column(now.handle.0), &now.fields);
        let rows = if entry.before.is_none() {
            &mut self.new_entries
        } else {
            &mut self.changed_entries
        };
        rows.numbers.push(number);
        rows.ids.push(now.id.to_bytes().to_vec());
        rows.pages.push(to_column(entry.page));
        rows.page_ids.push(now.page.to_bytes().to_vec());
        rows.kinds.push(now.kind.as_str());
        rows.types
            .push(fields.type_name.as_deref().map(|name| encode_text(name).into_owned()));
        rows.statuses.push(fields.status.as_str());
        rows.owners.push(encode_text(fields.owner.as_str()).into_owned());
        rows.pinned.push(fields.pin_rank.is_some());
        rows.expires_at
            .push(fields.lifetime.expires_at().map(folio_memory::Timestamp::as_nanos));
        rows.superseded.push(fields.superseded_by.is_some());
        rows.confidences
            .push(fields.confidence.map(folio_memory::Confidence::value));
        rows.versions.push(i64::from(now.version));
        rows.created_at.push(now.created_at.as_nanos());
        rows.updated_at.push(now.updated_at.as_nanos());
        rows.created_seqs.push(to_column(now.created_seq.0));
        rows.updated_seqs.push(to_column(now.updated_seq.0));
        rows.fields.push(entry_fields_json(fields)?);
        let (terms, watches) = (terms_of(fields), watched(now));
        let Some((old_terms, old_watches)) = &entry.before else {
            // Paths that differ only in the place of their dots may result in the same term.
            let terms: BTreeSet<&String> = terms.iter().collect();
            self.new_terms.add(number, terms.into_iter());
            return self.new_watches.add(number, watches.iter());
        };
        self.old_terms
            .add(number, old_terms.iter().filter(|term| !terms.contains(term)));
        self.terms
            .add(number, terms.iter().filter(|term| !old_terms.contains(term)));
        self.old_watches
            .add(number, old_watches.iter().filter(|watch| !watches.contains(watch)))?;
        self.watches
            .add(number, watches.iter().filter(|watch| !old_watches.contains(watch)))
    }

    /// The statements that write all rows, and `ends` as the last numbers.
    pub(super) fn writes(self, ends: &Ends) -> Result<Vec<Write>, Failure> {
        let space = self.space;
        let mut writes = vec![self.log.insert(space)];
        if !self.pages.numbers.is_empty() {
            writes.push(self.pages.insert(space));
        }
        if !self.changed_pages.numbers.is_empty() {
            writes.push(self.changed_pages.update(space));
        }
        if !self.new_entries.numbers.is_empty() {
            writes.push(self.new_entries.insert(space));
        }
        if !self.changed_entries.numbers.is_empty() {
            writes.push(self.changed_entries.update(space));
        }
        if !self.old_terms.numbers.is_empty() {
            writes.push(self.old_terms.delete(space));
        }
        if !self.new_terms.numbers.is_empty() {
            writes.push(self.new_terms.insert_new(space));
        }
        if !self.terms.numbers.is_empty() {
            writes.push(self.terms.insert(space));
        }
        if !self.old_watches.numbers.is_empty() {
            writes.push(self.old_watches.delete(space));
        }
        if !self.new_watches.numbers.is_empty() {
            writes.push(self.new_watches.insert_new(space));
        }
        if !self.watches.numbers.is_empty() {
            writes.push(self.watches.insert(space));
        }
        if !self.touches.numbers.is_empty() {
            writes.push(self.touches.insert(space));
        }
        if !self.links.is_empty() {
            writes.push(link::insert(space, &self.links));
        }
        if let Some(loaded) = &self.loaded {
            for (id, run) in &loaded.runs {
                writes.extend(run::write(space, *id, run));
            }
            writes.extend(loaded.written.writes(space));
            for turn in loaded.turns.values().filter(|turn| turn.is_changed) {
                writes.push(turn::write(space, turn)?);
            }
            if let (kept, true) = &loaded.policy {
                writes.push(policy::write(space, kept)?);
            }
        }
        writes.push(update_space_end(space, ends));
        Ok(writes)
    }
}

impl Log {
    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO log (space, seq, at, key, actor, record)
                   SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::text[], $6::text[])";
        Write::new(
            sql,
            values![space.0, self.seqs, self.at, self.keys, self.actors, self.records],
        )
    }
}

impl Touches {
    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO touch (space, what, number, seq)
                   SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING";
        Write::new(sql, values![space.0, self.what, self.numbers, self.seqs])
    }
}

impl Terms {
    fn add<'t>(&mut self, number: i64, terms: impl Iterator<Item = &'t String>) {
        for term in terms {
            self.terms.push(encode_text(term).into_owned());
            self.numbers.push(number);
        }
    }

    /// For entries that have none yet: handling conflicts with existing rows takes twice the time.
    fn insert_new(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO entry_term (space, term, number) SELECT $1, * FROM unnest($2::text[], $3::bigint[])";
        Write::new(sql, values![space.0, self.terms, self.numbers])
    }

    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO entry_term (space, term, number) SELECT $1, * FROM unnest($2::text[], $3::bigint[])
                   ON CONFLICT DO NOTHING";
        Write::new(sql, values![space.0, self.terms, self.numbers])
    }

    fn delete(self, space: SpaceId) -> Write {
        let sql = "DELETE FROM entry_term USING unnest($2::text[], $3::bigint[]) AS old (term, number)
                   WHERE entry_term.space = $1 AND entry_term.term = old.term AND entry_term.number = old.number";
        Write::new(sql, values![space.0, self.terms, self.numbers])
    }
}

impl Watches {
    fn add<'w>(&mut self, number: i64, watches: impl Iterator<Item = &'w Watched>) -> Result<(), StoreError> {
        for watched in watches {
            self.what.push(watch::code(watched.what)?);
            self.at.push(watched.at.as_nanos());
            self.numbers.push(number);
            self.since.push(watched.since.as_nanos());
        }
        Ok(())
    }

    /// For entries that have none yet.
    fn insert_new(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO watch (space, what, at, number, since)
                   SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])";
        Write::new(sql, values![space.0, self.what, self.at, self.numbers, self.since])
    }

    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO watch (space, what, at, number, since)
                   SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                   ON CONFLICT (space, what, at, number) DO UPDATE SET since = excluded.since";
        Write::new(sql, values![space.0, self.what, self.at, self.numbers, self.since])
    }

    fn delete(self, space: SpaceId) -> Write {
        let sql = "DELETE FROM watch USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS old (what, at, number)
                   WHERE watch.space = $1 AND watch.what = old.what AND watch.at = old.at AND watch.number = old.number";
        Write::new(sql, values![space.0, self.what, self.at, self.numbers])
    }
}

impl Entries {
    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO entry (space, number, id, page, page_id, kind, type, status, owner, pinned, expires_at,
                       superseded, confidence, version, created_at, updated_at, created_seq, updated_seq, fields)
                   SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[], $6::text[], $7::text[],
                       $8::text[], $9::text[], $10::boolean[], $11::bigint[], $12::boolean[], $13::float8[], $14::bigint[],
                       $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::text[])";
        Write::new(
            sql,
            values![
                space.0,
                self.numbers,
                self.ids,
                self.pages,
                self.page_ids,
                self.kinds,
                self.types,
                self.statuses,
                self.owners,
                self.pinned,
                self.expires_at,
                self.superseded,
                self.confidences,
                self.versions,
                self.created_at,
                self.updated_at,
                self.created_seqs,
                self.updated_seqs,
                self.fields
            ],
        )
    }

    fn update(self, space: SpaceId) -> Write {
        let sql = "UPDATE entry SET type = new.type, status = new.status, owner = new.owner, pinned = new.pinned,
                       expires_at = new.expires_at, superseded = new.superseded, confidence = new.confidence,
                       version = new.version, updated_at = new.updated_at, updated_seq = new.updated_seq,
                       fields = new.fields, packed = NULL
                   FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::bigint[], $8::boolean[],
                       $9::float8[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[])
                       AS new (number, type, status, owner, pinned, expires_at, superseded, confidence, version, updated_at,
                       updated_seq, fields)
                   WHERE entry.space = $1 AND entry.number = new.number";
        Write::new(
            sql,
            values![
                space.0,
                self.numbers,
                self.types,
                self.statuses,
                self.owners,
                self.pinned,
                self.expires_at,
                self.superseded,
                self.confidences,
                self.versions,
                self.updated_at,
                self.updated_seqs,
                self.fields
            ],
        )
    }
}

impl Pages {
    fn insert(self, space: SpaceId) -> Write {
        let sql = "INSERT INTO page (space, number, id, parent, role, run, thread, version, created_at, updated_at,
                       created_seq, fields)
                   SELECT $1, * FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::text[], $6::bytea[], $7::text[],
                       $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])";
        Write::new(
            sql,
            values![
                space.0,
                self.numbers,
                self.ids,
                self.parents,
                self.roles,
                self.runs,
                self.threads,
                self.versions,
                self.created_at,
                self.updated_at,
                self.created_seqs,
                self.fields
            ],
        )
    }

    fn update(self, space: SpaceId) -> Write {
        let sql = "UPDATE page SET version = new.version, updated_at = new.updated_at, fields = new.fields
                   FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS new (number, version, updated_at, fields)
                   WHERE page.space = $1 AND page.number = new.number";
        Write::new(
            sql,
            values![space.0, self.numbers, self.versions, self.updated_at, self.fields],
        )
    }
}
