//! Learns from observations: patterns, facts, and how often stated confidences proved right.

use std::collections::{BTreeMap, HashMap};

use folio_memory::calibration::{Calibration, Reliability, needs_first_confidence};
use folio_memory::entry::Status;
use folio_memory::observation::Class;
use folio_memory::patterns::{self, Among, FACT, FoundPattern, News, PATTERN};
use folio_memory::query::MAX_LIMIT;
use folio_memory::turn::Used;
use folio_memory::{
    Actor, Change, Confidence, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, Link, ListAnswer,
    NewEntry, Relation, Role, Seq,
};
use parking_lot::Mutex;

use super::super::{Workspace, WorkspaceError, Write, source_of};
use super::unlearn::archived;

/// How many marked observations calibration counts: the newest.
const MAX_CALIBRATED: usize = 20_000;
/// Among how many it looks for them: the newest that are resolved or archived, as marked ones are.
const MAX_LOOKED_AT: usize = 200_000;
/// How many alerts the router counts before each turn: the newest.
const MAX_CALIBRATED_FOR_ROUTER: usize = 1_000;
/// How many observations are searched for patterns: the newest.
const RECENT: usize = 5_000;
/// How many of them are searched at the end of a turn in each group in which something was noticed.
const OF_A_GROUP: usize = 300;

/// For how many observations it is remembered with what confidence they were added.
const FIRSTS_MAX: usize = 32_768;

/// With what confidence observations were added, as far as it was looked up. This never changes.
#[derive(Debug, Default)]
pub(in super::super) struct FirstConfidences(Mutex<HashMap<EntryId, Option<Confidence>>>);

impl FirstConfidences {
    fn get(&self, id: EntryId) -> Option<Option<Confidence>> {
        self.0.lock().get(&id).copied()
    }

    fn insert(&self, id: EntryId, first: Option<Confidence>) {
        let mut known = self.0.lock();
        if known.len() >= FIRSTS_MAX {
            known.clear();
        }
        known.insert(id, first);
    }
}

/// A query for the observations of a type among `types`, or of any type, whatever their status, newest first.
fn observations_of(types: Vec<String>) -> EntryQuery {
    EntryQuery {
        kinds: vec![EntryKind::Observation],
        types,
        status: Status::ALL.into(),
        include_expired: true,
        include_superseded: true,
        uncounted: true,
        ..EntryQuery::default()
    }
}

impl Workspace {
    /// Returns the patterns and facts that hold, newest first.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn patterns(&self, limit: u32) -> Result<ListAnswer<Entry>, WorkspaceError> {
        self.require_space_read("what was learned")?;
        let query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            types: vec![PATTERN.to_owned(), FACT.to_owned()],
            limit,
            ..EntryQuery::default()
        };
        self.read_entries(&query).await
    }

    /// Searches for patterns now, and writes those that no entry states yet (M7.9). A new entry supersedes those that
    /// stated the same before.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn find_patterns(&self, actor: &Actor) -> Result<Vec<FoundPattern>, WorkspaceError> {
        let found = self.look_for_patterns(&News::Anywhere).await?;
        let reflector = Actor {
            role: Role::Reflector,
            name: String::new(),
            ..actor.clone()
        };
        let changes = self.learn(&reflector, &found, &News::Anywhere).await?;
        if !changes.is_empty() {
            self.record(&reflector, Write::of(changes)).await?;
        }
        Ok(found)
    }

    /// Returns how often stated confidences came true, for each tool and type (M7.11.6).
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Corrupt`.
    pub async fn calibration(&self) -> Result<Vec<Reliability>, WorkspaceError> {
        self.require_space_read("what was learned")?;
        let settled = EntryQuery {
            status: vec![Status::Resolved, Status::Archived],
            ..observations_of(Vec::new())
        };
        let wanted = |entry: &Entry| entry.fields.outcome.is_some();
        let (mut marked, _) = self.newest(settled, wanted, MAX_CALIBRATED, MAX_LOOKED_AT).await?;
        // Of those that another one replaced, some are still active.
        let others = self.newest_observations(Vec::new(), MAX_CALIBRATED).await?;
        let is_settled = |entry: &Entry| matches!(entry.fields.status, Status::Resolved | Status::Archived);
        marked.extend(others.into_iter().filter(|entry| wanted(entry) && !is_settled(entry)));
        Ok(self.calibration_among(&marked).await?.rows())
    }

    /// The same for the types of one class.
    pub(super) async fn calibration_of_class(&self, class: Class) -> Result<Calibration, WorkspaceError> {
        let types = self
            .policy()
            .await?
            .types()
            .names_in(class)
            .map(str::to_owned)
            .collect();
        let entries = self.newest_observations(types, MAX_CALIBRATED_FOR_ROUTER).await?;
        self.calibration_among(&entries).await
    }

    async fn calibration_among(&self, entries: &[Entry]) -> Result<Calibration, WorkspaceError> {
        // An answered question is not a forecast that came true.
        let policy = self.policy().await?;
        let asks =
            |entry: &&Entry| policy.types().class_of(entry.fields.type_name.as_deref()) == Class::PendingConfirmation;
        let counted: Vec<&Entry> = entries.iter().filter(|entry| !asks(entry)).collect();
        let firsts = self.first_confidences(&counted).await?;
        let first_of = |entry: &Entry| firsts.get(&entry.id).copied().flatten();
        Ok(Calibration::of(
            counted.into_iter().map(|entry| (entry, first_of(entry))),
        ))
    }

    /// The confidence that those of `entries` were added with of which it is needed; `None` if the log does not tell any
    /// more. A commit that added several of them is read once.
    async fn first_confidences(
        &self,
        entries: &[&Entry],
    ) -> Result<HashMap<EntryId, Option<Confidence>>, WorkspaceError> {
        let known = &self.inner.first_confidences;
        let (mut firsts, mut added_in) = (HashMap::new(), BTreeMap::<Seq, Vec<EntryId>>::new());
        for entry in entries.iter().filter(|entry| needs_first_confidence(entry)) {
            if let Some(first) = known.get(entry.id) {
                firsts.insert(entry.id, first);
            } else {
                added_in.entry(entry.created_seq).or_default().push(entry.id);
            }
        }
        for (seq, ids) in added_in {
            let before = Seq(seq.0.saturating_sub(1));
            let rows = self.inner.store.changes(self.space(), before, 1).await?;
            let changes = rows.into_iter().flat_map(|row| row.record.changes);
            let added: HashMap<EntryId, Option<Confidence>> = changes
                .filter_map(|change| match change {
                    Change::AddEntry(new) => Some((new.id, new.fields.confidence)),
                    _ => None,
                })
                .collect();
            for id in ids {
                let first = added.get(&id).copied().flatten();
                known.insert(id, first);
                firsts.insert(id, first);
            }
        }
        Ok(firsts)
    }

    /// The patterns among what was noticed last, where there may be new ones.
    pub(super) async fn look_for_patterns(&self, news: &News) -> Result<Vec<FoundPattern>, WorkspaceError> {
        let policy = self.policy().await?;
        let types = policy.types();
        let groups = match news {
            News::In(groups) => groups,
            News::Anywhere => {
                let newest = self.newest_observations(Vec::new(), RECENT).await?;
                let among = if newest.len() < RECENT {
                    Among::All
                } else {
                    Among::Newest
                };
                return Ok(patterns::find(&newest, types, among));
            }
        };
        let mut found = Vec::new();
        for group in groups {
            let is_of_group = |entry: &Entry| group.has(entry, types);
            let (mut entries, among) = self
                .newest(group.members(types), is_of_group, OF_A_GROUP, RECENT)
                .await?;
            let mut recorded = self.read_entries(&group.recorded()).await?.items;
            // The newest may have them already.
            recorded.retain(|known| entries.iter().all(|entry| entry.id != known.id));
            entries.extend(recorded);
            found.extend(patterns::find(&entries, types, among));
        }
        Ok(found)
    }

    /// The newest observations of a type among `types`, or of any type, whatever their status.
    async fn newest_observations(&self, types: Vec<String>, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        Ok(self.newest(observations_of(types), |_| true, max, max).await?.0)
    }

    /// The newest entries that `query` finds and that are `wanted`: up to `max` of them, among the newest `among` that it
    /// finds.
    async fn newest(
        &self,
        mut query: EntryQuery,
        wanted: impl Fn(&Entry) -> bool,
        max: usize,
        among: usize,
    ) -> Result<(Vec<Entry>, Among), WorkspaceError> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        query.limit = u32::try_from(max).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        loop {
            let answer = self.read_entries(&query).await?;
            looked_at += answer.returned;
            found.extend(answer.items.into_iter().filter(&wanted));
            match answer.next {
                Some(next) if found.len() < max && looked_at < among => query.cursor = Some(next),
                None if found.len() <= max => return Ok((found, Among::All)),
                _ => {
                    found.truncate(max);
                    return Ok((found, Among::Newest));
                }
            }
        }
    }

    /// The changes that add entries for what is new in `found`, and archive what no longer holds where there is `news`.
    pub(super) async fn learn(
        &self,
        actor: &Actor,
        found: &[FoundPattern],
        news: &News,
    ) -> Result<Vec<Change>, WorkspaceError> {
        let mut changes = Vec::new();
        for pattern in found.iter().filter(|pattern| pattern.is_news) {
            let source = source_of(actor);
            let members: Vec<EntryId> = pattern.members.iter().map(|member| member.id).collect();
            let pattern_id = self.say(
                &mut changes,
                pattern.fields(source.clone()),
                &members,
                &pattern.replaces,
            );
            match pattern.fact(source) {
                Some(fact) => drop(self.say(&mut changes, fact, &[pattern_id], &pattern.replaces_facts)),
                None => changes.extend(pattern.replaces_facts.iter().copied().map(archived)),
            }
        }
        if !changes.is_empty() {
            let (_, page) = self.scratch_page().await?;
            changes.splice(0..0, page);
        }
        changes.extend(self.unlearned(found, news).await?);
        Ok(changes)
    }

    fn say(&self, changes: &mut Vec<Change>, fields: EntryFields, from: &[EntryId], replaces: &[Used]) -> EntryId {
        let id = EntryId::draw(&*self.inner.ids, self.now());
        let link = |rel, dst: EntryId| {
            Change::AddLink(Link {
                src: id.to_string(),
                rel,
                dst: dst.to_string(),
            })
        };
        changes.push(Change::AddEntry(Box::new(NewEntry {
            id,
            page: folio_memory::observation::page_of(self.space()).0,
            kind: EntryKind::Observation,
            fields,
        })));
        changes.extend(from.iter().map(|from| link(Relation::DerivedFrom, *from)));
        for old in replaces {
            changes.push(Change::PatchEntry {
                entry: old.id,
                fields: vec![FieldChange::SupersededBy(Some(id))],
                expected_version: Some(old.version),
                base_version: None,
            });
            changes.push(link(Relation::Supersedes, old.id));
        }
        id
    }
}
