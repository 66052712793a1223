//! What several commits need to know, looked up with a few queries, and updated by what each of them changes
//! (`absorb`).

mod absorb;

use std::collections::{HashMap, HashSet};

use folio_memory::keeping::{Watched, watched};
use folio_memory::terms::terms_of;
use folio_memory::{Change, Entry, EntryId, FieldChange, KeptPolicy, Page, PageId, Relation, RunId, Seq, Turn, TurnId};
use futures_util::future::try_join_all;

use super::commit::each_once;
use super::error::Failure;
use super::session::Session;
use super::written::Written;
use super::{blob, entry, journal, link, page, policy, run, turn};
use crate::body::parse_hash;
use crate::commit::Expected;
use crate::error::StoreError;
use crate::place::{Place, SpaceId};
use crate::plan::{Facts, OverlappingName, body_hashes};
use crate::prepare::Prepared;
use crate::store::OwnerId;

/// The things that some commits refer to, in the state in which the last commit so far leaves them.
#[derive(Debug)]
pub(super) struct Loaded {
    space: SpaceId,
    pub(super) entries: HashMap<EntryId, LoadedEntry>,
    pub(super) pages: HashMap<PageId, LoadedPage>,
    pub(super) runs: HashMap<RunId, LoadedRun>,
    /// The runs by number: there may be as many as commits.
    by_number: HashMap<u64, RunId>,
    pub(super) turns: HashMap<TurnId, LoadedTurn>,
    /// The policy, and whether it has changed.
    pub(super) policy: (KeptPolicy, bool),
    kept: HashSet<[u8; 32]>,
    changed: HashMap<(EntryId, u32), HashMap<&'static str, u32>>,
    /// Where links lead that must not close a circle, as far as a commit asks.
    leading: HashMap<(Relation, EntryId), Vec<EntryId>>,
    /// What has to be done before a piece of work, as far as a commit asks.
    waited_for: HashMap<EntryId, Vec<EntryId>>,
    /// The last commits that changed memory in turns, as far as a commit asks.
    pub(super) turns_written: HashMap<TurnId, Seq>,
    /// What calls of runs write.
    pub(super) written: Written,
}

#[derive(Debug)]
pub(super) struct LoadedEntry {
    pub(super) now: Entry,
    pub(super) page: u64,
    /// The terms by which it was found, and what it was watched for; `None` for a new entry.
    pub(super) before: Option<(Vec<String>, Vec<Watched>)>,
    pub(super) is_changed: bool,
}

impl LoadedEntry {
    /// An entry that was there, with the number of its page.
    fn found((now, page): (Entry, u64)) -> (EntryId, Self) {
        let before = Some((terms_of(&now.fields), watched(&now)));
        let id = now.id;
        let loaded = Self {
            now,
            page,
            before,
            is_changed: false,
        };
        (id, loaded)
    }
}

/// How many entries have their changes looked up together: the commits needed for that are in memory at the same time.
const LOOKED_BACK: usize = 16;

#[derive(Debug)]
pub(super) struct LoadedPage {
    pub(super) now: Page,
    pub(super) parent: Option<u64>,
    pub(super) is_new: bool,
    pub(super) is_changed: bool,
}

#[derive(Debug)]
pub(super) struct LoadedRun {
    pub(super) number: u64,
    pub(super) head: Seq,
    pub(super) owner: Option<OwnerId>,
    pub(super) fence: u64,
    /// The status that it had.
    pub(super) before: String,
    /// The status that it gets.
    pub(super) status: Option<String>,
    /// If it is new: its title, and when it began.
    pub(super) begun: Option<(String, Seq, folio_memory::Timestamp)>,
}

#[derive(Debug)]
pub(super) struct LoadedTurn {
    pub(super) now: Turn,
    pub(super) is_new: bool,
    pub(super) is_changed: bool,
}

/// The ids of things to which some commits refer.
#[derive(Debug, Default)]
struct Names {
    entries: Vec<EntryId>,
    pages: Vec<PageId>,
    runs: Vec<RunId>,
    turns: Vec<TurnId>,
    bodies: Vec<[u8; 32]>,
    policy: bool,
}

impl Names {
    fn of(commits: &[Prepared]) -> Self {
        let mut names = Self::default();
        for commit in commits {
            for expected in &commit.expected {
                match expected {
                    Expected::RunHead { run, .. } => names.runs.push(*run),
                    Expected::Policy(_) => names.policy = true,
                    Expected::Writes { run, .. } => names.runs.push(*run),
                    Expected::SpaceHead(_) | Expected::TurnHead { .. } | Expected::NoCircle => {}
                    Expected::MayReplace { by, entries } => {
                        names.entries.push(*by);
                        names.entries.extend(entries);
                    }
                    Expected::MayBegin { entry } => names.entries.push(*entry),
                    Expected::MayWait { entry, others } => {
                        names.entries.push(*entry);
                        names.entries.extend(others);
                    }
                }
            }
            for change in &commit.record.changes {
                names.add(change);
            }
            names.runs.extend(commit.record.run.as_ref().map(|append| append.run));
            names
                .bodies
                .extend(body_hashes(commit).filter_map(|hash| parse_hash(hash)));
        }
        names
    }

    fn add(&mut self, change: &Change) {
        match change {
            Change::EnsurePage(new) => {
                self.pages.push(new.id);
                self.pages.extend(new.fields.parent);
            }
            Change::SetPageStatus { page, .. } => self.pages.push(*page),
            Change::AddEntry(new) => {
                self.entries.push(new.id);
                self.pages.push(new.page);
            }
            Change::PatchEntry { entry, .. } | Change::EraseEntry { entry, .. } => self.entries.push(*entry),
            Change::AddLink(link) => {
                for end in [&link.src, &link.dst] {
                    self.entries.extend(end.parse::<EntryId>().ok());
                    self.pages.extend(end.parse::<PageId>().ok());
                }
            }
            Change::BeginTurn(new) => self.turns.push(new.id),
            Change::EndTurn { turn, .. } | Change::EraseTurn { turn } => self.turns.push(*turn),
            Change::EraseRun { run, .. } => self.runs.push(*run),
            Change::SetPolicy { .. } | Change::RegisterType { .. } => self.policy = true,
            _ => {}
        }
    }
}

impl Loaded {
    /// Loads what `commits` refer to.
    pub(super) async fn of(session: &Session, commits: &[Prepared]) -> Result<Self, Failure> {
        let Names {
            entries,
            pages,
            runs,
            turns,
            bodies,
            policy: asks_for_policy,
        } = Names::of(commits);
        let (entries, pages, runs) = (
            each_once(entries.into_iter()),
            each_once(pages.into_iter()),
            each_once(runs.into_iter()),
        );
        let (turns, bodies) = (each_once(turns.into_iter()), each_once(bodies.into_iter()));
        // Pipelined, without waiting in between; nothing is sent for kinds to which no commit refers.
        let first = futures_util::future::join3(
            entry::by_ids(session, &entries),
            page::by_ids(session, &pages),
            run::by_ids(session, &runs),
        );
        let second = futures_util::future::join3(
            turn::by_ids(session, &turns),
            blob::stored_hashes(session, &bodies),
            async {
                if asks_for_policy {
                    policy::read(session).await
                } else {
                    Ok(KeptPolicy::default())
                }
            },
        );
        let ((entries, pages, runs), (turns, kept, policy)) =
            futures_util::future::join(Box::pin(first), Box::pin(second)).await;
        let page = |found: Page| {
            let loaded = LoadedPage {
                parent: None,
                is_new: false,
                is_changed: false,
                now: found,
            };
            (loaded.now.id, loaded)
        };
        let turn = |found: Turn| {
            let loaded = LoadedTurn {
                is_new: false,
                is_changed: false,
                now: found,
            };
            (loaded.now.begun.id, loaded)
        };
        let runs: HashMap<RunId, LoadedRun> = runs?.into_iter().collect();
        Ok(Self {
            space: session.space,
            entries: entries?.into_iter().map(LoadedEntry::found).collect(),
            pages: pages?.into_iter().map(page).collect(),
            by_number: runs.iter().map(|(id, run)| (run.number, *id)).collect(),
            runs,
            turns: turns?.into_iter().map(turn).collect(),
            policy: (policy?, false),
            kept: kept?,
            changed: HashMap::new(),
            leading: HashMap::new(),
            waited_for: HashMap::new(),
            turns_written: HashMap::new(),
            written: Written::default(),
        })
    }

    /// Looks up what others have changed since the versions that the writers of `commits` had read.
    pub(super) async fn load_concurrent_changes(
        &mut self,
        session: &Session,
        commits: &[Prepared],
    ) -> Result<(), Failure> {
        let mut stale: HashMap<(EntryId, u32), &Entry> = HashMap::new();
        for change in commits.iter().flat_map(|commit| &commit.record.changes) {
            let Change::PatchEntry {
                entry,
                base_version: Some(base),
                ..
            } = change
            else {
                continue;
            };
            if let Some(found) = self.entries.get(entry).filter(|found| *base < found.now.version) {
                stale.insert((*entry, *base), &found.now);
            }
        }
        let stale: Vec<_> = stale.into_iter().collect();
        // Together, to avoid a round trip for each.
        for chunk in stale.chunks(LOOKED_BACK) {
            let lookups = chunk
                .iter()
                .map(|((_, base), entry)| journal::changed_since(session, entry, *base));
            let changed = try_join_all(lookups).await?;
            self.changed.extend(chunk.iter().map(|(key, _)| *key).zip(changed));
        }
        Ok(())
    }

    /// Looks up what took the place of what, and what waits for what, if one of `commits` depends on it. An earlier one
    /// of them may lead on from there, so where each of them leads is looked up, too.
    pub(super) async fn load_order(&mut self, session: &Session, commits: &[Prepared]) -> Result<(), Failure> {
        let expected = || commits.iter().flat_map(|commit| &commit.expected);
        let changes = || commits.iter().flat_map(|commit| &commit.record.changes);
        if expected().any(|expected| matches!(expected, Expected::MayReplace { .. } | Expected::NoCircle)) {
            let known = self.entries.values().filter_map(|entry| entry.now.fields.superseded_by);
            let mut next: Vec<EntryId> = known.chain(changes().flat_map(successors)).collect();
            let mut tried = HashSet::new();
            loop {
                next.retain(|id| !self.entries.contains_key(id) && tried.insert(*id));
                if next.is_empty() {
                    break;
                }
                let found = entry::by_ids(session, &next).await?;
                next = found
                    .iter()
                    .filter_map(|(entry, _)| entry.fields.superseded_by)
                    .collect();
                self.entries.extend(found.into_iter().map(LoadedEntry::found));
            }
        }
        let asked = expected().filter_map(|expected| match expected {
            Expected::MayWait { entry, .. } => Some(*entry),
            _ => None,
        });
        let waiting: Vec<EntryId> = asked.collect();
        let begun = expected().filter_map(|expected| match expected {
            Expected::MayBegin { entry } => Some(*entry),
            _ => None,
        });
        let begun = each_once(begun);
        if !begun.is_empty() {
            self.waited_for = link::leading_to(session, Relation::Blocks, &begun).await?;
            let before = self.waited_for.values().flatten().copied();
            let before = each_once(before.filter(|id| !self.entries.contains_key(id)));
            let found = entry::by_ids(session, &before).await?;
            self.entries.extend(found.into_iter().map(LoadedEntry::found));
        }
        let adds_links = expected().any(|expected| *expected == Expected::NoCircle);
        for (rel, mut from) in [(Relation::Blocks, waiting), (Relation::Supersedes, Vec::new())] {
            if !from.is_empty() || adds_links {
                from.extend(changes().filter_map(|change| match change {
                    Change::AddLink(link) if link.rel == rel => link.dst.parse::<EntryId>().ok(),
                    _ => None,
                }));
            }
            if !from.is_empty() {
                let found = link::leading_on(session, rel, &each_once(from.into_iter())).await?;
                self.leading.extend(found);
            }
        }
        Ok(())
    }

    /// Looks up in which turns memory was changed after the commits up to which the writers of `commits` have read, if
    /// there are more: `head` is the last one.
    pub(super) async fn load_turns_written(
        &mut self,
        session: &Session,
        commits: &[Prepared],
        head: Seq,
    ) -> Result<(), Failure> {
        let expected = commits.iter().flat_map(|commit| &commit.expected);
        let turns = expected.filter_map(|expected| match expected {
            Expected::TurnHead { turn, head: read } if *read < head => Some((*turn, *read)),
            _ => None,
        });
        let (turns, read): (Vec<TurnId>, Vec<Seq>) = turns.unzip();
        if let Some(since) = read.into_iter().min() {
            self.turns_written = journal::last_in_turns(session, &turns, since).await?;
        }
        Ok(())
    }

    fn place(&self, number: u64) -> Place {
        Place::of(self.space, number)
    }

    fn run_at(&self, place: Place) -> Option<&LoadedRun> {
        self.runs.get(self.by_number.get(&place.number())?)
    }
}

/// The entries of which `change` says that they took the place of another.
fn successors(change: &Change) -> Vec<EntryId> {
    match change {
        Change::AddEntry(new) => new.fields.superseded_by.into_iter().collect(),
        Change::PatchEntry { fields, .. } => fields
            .iter()
            .filter_map(|field| match field {
                FieldChange::SupersededBy(by) => *by,
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

impl Facts for Loaded {
    type Failure = StoreError;

    fn page_place(&mut self, id: PageId) -> Result<Option<Place>, StoreError> {
        Ok(self.pages.get(&id).map(|page| self.place(page.now.handle.0)))
    }

    fn page(&mut self, id: PageId) -> Result<Option<Page>, StoreError> {
        Ok(self.pages.get(&id).map(|page| page.now.clone()))
    }

    fn entry_place(&mut self, id: EntryId) -> Result<Option<Place>, StoreError> {
        Ok(self.entries.get(&id).map(|entry| self.place(entry.now.handle.0)))
    }

    fn entry(&mut self, id: EntryId, _: Place) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries.get(&id).map(|entry| entry.now.clone()))
    }

    fn led_to(&mut self, rel: Relation, id: EntryId) -> Result<Vec<EntryId>, StoreError> {
        Ok(self.leading.get(&(rel, id)).cloned().unwrap_or_default())
    }

    fn waited_for(&mut self, id: EntryId) -> Result<Vec<EntryId>, StoreError> {
        Ok(self.waited_for.get(&id).cloned().unwrap_or_default())
    }

    fn changed_since(&mut self, entry: &Entry, base: u32) -> Result<HashMap<&'static str, u32>, StoreError> {
        Ok(self.changed.get(&(entry.id, base)).cloned().unwrap_or_default())
    }

    fn run_place(&mut self, id: RunId) -> Result<Option<Place>, StoreError> {
        Ok(self.runs.get(&id).map(|run| self.place(run.number)))
    }

    fn run_head(&mut self, place: Place) -> Result<Seq, StoreError> {
        Ok(self.run_at(place).map_or(Seq(0), |run| run.head))
    }

    fn run_status(&mut self, place: Place) -> Result<String, StoreError> {
        let status = self.run_at(place).map(|run| run.status.as_ref().unwrap_or(&run.before));
        Ok(status.cloned().unwrap_or_default())
    }

    fn driver(&mut self, place: Place) -> Result<(Option<OwnerId>, u64), StoreError> {
        Ok(self
            .run_at(place)
            .map_or((None, 0), |run| (run.owner.clone(), run.fence)))
    }

    fn overlapping_names(&mut self, own: Place, names: &[String]) -> Result<Vec<OverlappingName>, StoreError> {
        Ok(self.written.overlapping_names(own, names))
    }

    fn policy_version(&mut self) -> Result<u32, StoreError> {
        Ok(self.policy.0.version)
    }

    fn policy(&mut self) -> Result<KeptPolicy, StoreError> {
        Ok(self.policy.0.clone())
    }

    fn turn(&mut self, id: TurnId) -> Result<Option<Turn>, StoreError> {
        Ok(self.turns.get(&id).map(|turn| turn.now.clone()))
    }

    fn turn_written(&mut self, id: TurnId, since: Seq) -> Result<Option<Seq>, StoreError> {
        Ok(self.turns_written.get(&id).copied().filter(|last| *last > since))
    }

    fn is_kept(&mut self, hash: &str) -> Result<bool, StoreError> {
        Ok(parse_hash(hash).is_some_and(|hash| self.kept.contains(&hash)))
    }
}
