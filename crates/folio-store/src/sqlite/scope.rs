//! What is known during a transaction, in which nobody else can write.

use std::collections::HashMap;

use folio_memory::{EntryId, PageId, RunId, Seq, SpaceName, Timestamp, TurnId};
use parking_lot::RwLock;
use rusqlite::{Connection, OptionalExtension};

use super::error::{Failure, damaged};
use super::marks::Wrote;
use super::place::{Place, SpaceId, Touched};
use super::{entry, journal, page, policy, run};
use crate::plan::Ends;
use crate::store::OwnerId;

/// How many pages have their places cached.
const PAGES_KNOWN: usize = 16_384;

/// How many steps of plans have their places cached.
const STEPS_KNOWN: usize = 16_384;

/// How many turns of a space are cached.
const TURNS_KNOWN: usize = 4096;

/// How many runs are cached.
const RUNS_KNOWN: usize = 4096;

/// Cached facts about a run.
#[derive(Debug, Default, Clone)]
struct KnownRun {
    /// The commit at which its journal ends.
    head: Option<Seq>,
    /// Its driver, and the fence of its last claim.
    driver: Option<(Option<OwnerId>, u64)>,
}

/// The last commits that changed memory in turns, of all commits after one of them.
#[derive(Debug)]
struct KnownTurns {
    after: Seq,
    last: HashMap<TurnId, Seq>,
}

/// What need not be looked up again from one transaction to the next.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Spaces and pages are never removed, so these stay valid unless the transaction that adds them fails.
    spaces: HashMap<SpaceName, SpaceId>,
    pages: HashMap<(SpaceId, PageId), (Place, Option<RunId>)>,
    runs: HashMap<(SpaceId, RunId), Place>,
    /// Steps of plans, which change again and again; valid as long as no other process writes and no tombstone is
    /// dropped.
    steps_of_plans: HashMap<(SpaceId, EntryId), Place>,
    /// Valid as long as no other process writes.
    ends: HashMap<SpaceId, Ends>,
    /// What every step of a run needs; valid as long as no other process writes.
    steps: HashMap<Place, KnownRun>,
    /// The versions of policies; valid as long as no other process writes.
    policies: HashMap<SpaceId, u32>,
    /// Which turns wrote to memory; valid as long as no other process writes.
    turns: HashMap<SpaceId, KnownTurns>,
    /// Changes when another process has written.
    data_version: Option<i64>,
}

/// The operations within one transaction.
#[derive(Debug)]
pub(super) struct Scope<'w> {
    pub(super) conn: &'w Connection,
    known: &'w mut Known,
    /// The commits of this transaction.
    pub(super) wrote: Vec<Wrote>,
}

impl<'w> Scope<'w> {
    /// The scope of a transaction that has just begun.
    pub(super) fn new(conn: &'w Connection, known: &'w mut Known) -> Result<Self, Failure> {
        let version = conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if known.data_version != Some(version) {
            known.data_version = Some(version);
            known.ends.clear();
            known.policies.clear();
            known.steps.clear();
            known.steps_of_plans.clear();
            known.turns.clear();
        }
        Ok(Self {
            conn,
            known,
            wrote: Vec::new(),
        })
    }

    /// The row of the space `name`, if it has one.
    pub(super) fn space(&mut self, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
        if let Some(space) = self.known.spaces.get(name) {
            return Ok(Some(*space));
        }
        let space = space_id(self.conn, name)?;
        if let Some(space) = space {
            self.known.spaces.insert(name.clone(), space);
        }
        Ok(space)
    }

    /// The place of the page with the id `id`, and the run to which it belongs.
    pub(super) fn page(&mut self, space: SpaceId, id: PageId) -> Result<Option<(Place, Option<RunId>)>, Failure> {
        if let Some(known) = self.known.pages.get(&(space, id)) {
            return Ok(Some(*known));
        }
        let found = page::place_and_run(self.conn, space, id)?;
        if let Some((place, run)) = found {
            self.knows_page(space, id, place, run);
        }
        Ok(found)
    }

    /// Caches the place of the page with the id `id`, and the run to which it belongs.
    pub(super) fn knows_page(&mut self, space: SpaceId, id: PageId, place: Place, run: Option<RunId>) {
        if self.known.pages.len() >= PAGES_KNOWN {
            self.known.pages.clear();
        }
        self.known.pages.insert((space, id), (place, run));
    }

    /// The place of the entry with the id `id`.
    pub(super) fn entry(&mut self, space: SpaceId, id: EntryId) -> Result<Option<Place>, Failure> {
        match self.known.steps_of_plans.get(&(space, id)) {
            Some(place) => Ok(Some(*place)),
            None => entry::place_of(self.conn, space, id),
        }
    }

    /// Caches the place of the step with the id `id`.
    pub(super) fn knows_step(&mut self, space: SpaceId, id: EntryId, place: Place) {
        if self.known.steps_of_plans.len() >= STEPS_KNOWN {
            self.known.steps_of_plans.clear();
        }
        self.known.steps_of_plans.insert((space, id), place);
    }

    /// Must be called before rows of entries may be removed.
    pub(super) fn forget_steps(&mut self) {
        self.known.steps_of_plans.clear();
    }

    /// The place of the run with the id `id`.
    pub(super) fn run(&mut self, space: SpaceId, id: RunId) -> Result<Option<Place>, Failure> {
        if let Some(place) = self.known.runs.get(&(space, id)) {
            return Ok(Some(*place));
        }
        let place = run::place_of(self.conn, space, id)?;
        if let Some(place) = place {
            self.knows_run(space, id, place);
        }
        Ok(place)
    }

    fn knows_run(&mut self, space: SpaceId, id: RunId, place: Place) {
        if self.known.runs.len() >= RUNS_KNOWN {
            self.known.runs.clear();
        }
        self.known.runs.insert((space, id), place);
    }

    /// The cached facts about the run at `place`.
    fn known_run(&mut self, place: Place) -> &mut KnownRun {
        if self.known.steps.len() >= RUNS_KNOWN && !self.known.steps.contains_key(&place) {
            self.known.steps.clear();
        }
        self.known.steps.entry(place).or_default()
    }

    /// The last commit that wrote to the run at `place`.
    pub(super) fn run_head(&mut self, place: Place) -> Result<Seq, Failure> {
        if let Some(head) = self.known_run(place).head {
            return Ok(head);
        }
        let head = journal::last_touch(self.conn, Touched::Run, place)?;
        self.known_run(place).head = Some(head);
        Ok(head)
    }

    /// Records that commit `seq` wrote to the run with the id `id`.
    pub(super) fn wrote_run(&mut self, space: SpaceId, id: RunId, place: Place, seq: Seq) {
        self.knows_run(space, id, place);
        self.known_run(place).head = Some(seq);
    }

    /// The driver of the run at `place`, and the fence of its last claim.
    pub(super) fn driver(&mut self, place: Place) -> Result<(Option<OwnerId>, u64), Failure> {
        if let Some(driver) = &self.known_run(place).driver {
            return Ok(driver.clone());
        }
        let driver = run::owner_of(self.conn, place)?;
        self.known_run(place).driver = Some(driver.clone());
        Ok(driver)
    }

    /// Records that a run is claimed or released, so that its driver has to be looked up again.
    pub(super) fn changes_driver(&mut self, space: Option<SpaceId>, id: RunId) {
        let place = space.and_then(|space| self.known.runs.get(&(space, id)));
        if let Some(place) = place.copied() {
            self.known_run(place).driver = None;
        } else {
            // It may be cached by its place only.
            self.known.steps.clear();
        }
    }

    /// Records that nobody drives `runs` any more.
    pub(super) fn forget_drivers_of(&mut self, runs: &[Place]) {
        for run in runs {
            self.known_run(*run).driver = None;
        }
    }

    /// The version of the policy of `space`.
    pub(super) fn policy_version(&mut self, space: SpaceId) -> Result<u32, Failure> {
        if let Some(version) = self.known.policies.get(&space) {
            return Ok(*version);
        }
        let version = policy::version(self.conn, space)?;
        self.known.policies.insert(space, version);
        Ok(version)
    }

    /// Records that the policy of `space` is at `version` now.
    pub(super) fn wrote_policy(&mut self, space: SpaceId, version: u32) {
        self.known.policies.insert(space, version);
    }

    /// The last commit after `since` that changed memory in `turn`. Many turns may end at once, each as of a moment with
    /// many commits after it, so the log is read only for what is not cached.
    pub(super) fn turn_written(&mut self, space: SpaceId, turn: TurnId, since: Seq) -> Result<Option<Seq>, Failure> {
        let known = self.known_turns(space)?;
        match known.last.get(&turn) {
            Some(last) => Ok((*last > since).then_some(*last)),
            None if known.after <= since => Ok(None),
            None => {
                let until = known.after;
                journal::last_in_turn(self.conn, space, turn, since, until)
            }
        }
    }

    /// Records that commit `seq`, which is being written, changes memory in `turn`.
    pub(super) fn wrote_in_turn(&mut self, space: SpaceId, turn: TurnId, seq: Seq) -> Result<(), Failure> {
        let known = self.known_turns(space)?;
        if known.last.len() >= TURNS_KNOWN {
            known.after = Seq(seq.0.saturating_sub(1));
            known.last.clear();
        }
        known.last.insert(turn, seq);
        Ok(())
    }

    /// The cached turns of `space`: nothing is known of commits before the present one if none are cached.
    fn known_turns(&mut self, space: SpaceId) -> Result<&mut KnownTurns, Failure> {
        let after = self.ends(space)?.head;
        let nothing = || KnownTurns {
            after,
            last: HashMap::new(),
        };
        Ok(self.known.turns.entry(space).or_insert_with(nothing))
    }

    /// The row id for the next new space.
    pub(super) fn next_space(&self) -> Result<SpaceId, Failure> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM space";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// Inserts the row `space` for the space `name`.
    pub(super) fn add_space(&mut self, name: &SpaceName, space: SpaceId) -> Result<(), Failure> {
        let sql = "INSERT INTO space (id, name) VALUES (?1, ?2)";
        self.conn.prepare_cached(sql)?.execute((space, name.as_str()))?;
        self.known.spaces.insert(name.clone(), space);
        Ok(())
    }

    /// The last numbers assigned in `space`.
    pub(super) fn ends(&mut self, space: SpaceId) -> Result<Ends, Failure> {
        if let Some(ends) = self.known.ends.get(&space) {
            return Ok(*ends);
        }
        let (head, at) = journal::last(self.conn, space)?.unwrap_or((Seq(0), Timestamp::MIN));
        let ends = Ends {
            head,
            at,
            entries: last_number(
                self.conn,
                "SELECT max(place) FROM entry WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
            pages: last_number(
                self.conn,
                "SELECT max(place) FROM page WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
            runs: last_number(
                self.conn,
                "SELECT max(place) FROM run WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
            turns: last_number(
                self.conn,
                "SELECT max(place) FROM turn WHERE place BETWEEN ?1 AND ?2",
                space,
            )?,
        };
        self.known.ends.insert(space, ends);
        Ok(ends)
    }

    /// Records a commit after which the last numbers are `ends`, whether it changes what lists of memory show, and
    /// whether it writes to pages of runs in another way than the run itself does.
    pub(super) fn committed(&mut self, space: SpaceId, ends: Ends, changes_memory: bool, changes_pages: bool) {
        self.known.ends.insert(space, ends);
        self.wrote.push(Wrote {
            space,
            seq: ends.head,
            changes_memory,
            changes_pages,
        });
    }
}

/// A cache of spaces that were asked for. Spaces are never removed, so it stays valid.
#[derive(Debug, Default)]
pub(super) struct FoundSpaces(RwLock<HashMap<SpaceName, SpaceId>>);

impl FoundSpaces {
    /// The row of the space `name`, if it has one.
    pub(super) fn id(&self, conn: &Connection, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
        let known = self.0.read().get(name).copied();
        if known.is_some() {
            return Ok(known);
        }
        let found = space_id(conn, name)?;
        if let Some(space) = found {
            let mut known = self.0.write();
            known.insert(name.clone(), space);
        }
        Ok(found)
    }
}

/// The row of the space `name`.
pub(super) fn space_id(conn: &Connection, name: &SpaceName) -> Result<Option<SpaceId>, Failure> {
    let mut statement = conn.prepare_cached("SELECT id FROM space WHERE name = ?1")?;
    Ok(statement.query_row([name.as_str()], |row| row.get(0)).optional()?)
}

/// The names of all spaces with a commit, sorted.
pub(super) fn spaces(conn: &Connection) -> Result<Vec<SpaceName>, Failure> {
    let mut statement = conn.prepare("SELECT id, name FROM space ORDER BY name")?;
    let mut rows = statement.query([])?;
    let mut spaces = Vec::new();
    while let Some(row) = rows.next()? {
        if journal::last(conn, row.get(0)?)?.is_some() {
            let name = SpaceName::parse(&row.get::<_, String>(1)?);
            spaces.push(name.map_err(|error| damaged("the name of a space", error))?);
        }
    }
    Ok(spaces)
}

fn last_number(conn: &Connection, sql: &str, space: SpaceId) -> Result<u64, Failure> {
    let last: Option<Place> = conn
        .prepare_cached(sql)?
        .query_row((Place::start(space), Place::end(space)), |row| row.get(0))?;
    Ok(last.map_or(0, Place::number))
}
