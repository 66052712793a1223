//! Learns from observations: patterns, facts, and how often stated confidences proved right.

use folio_memory::calibration::{Calibration, Reliability};
use folio_memory::entry::Status;
use folio_memory::observation::Class;
use folio_memory::patterns::{self, FACT, FoundPattern, PATTERN};
use folio_memory::query::MAX_LIMIT;
use folio_memory::turn::Used;
use folio_memory::{
    Actor, Change, Entry, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, Link, ListAnswer, NewEntry,
    Relation, Role,
};

use super::super::{Workspace, WorkspaceError, Write, source_of};

/// How many observations calibration counts: the newest.
const MAX_CALIBRATED: usize = 20_000;
/// How many observations are searched for patterns at the end of a turn: the newest.
const RECENT: usize = 5_000;

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
        let found = self.look_for_patterns().await?;
        let reflector = Actor {
            role: Role::Reflector,
            name: String::new(),
            ..actor.clone()
        };
        let changes = self.learn(&reflector, &found).await?;
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
        Ok(self.calibration_of(Vec::new()).await?.rows())
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
        self.calibration_of(types).await
    }

    async fn calibration_of(&self, types: Vec<String>) -> Result<Calibration, WorkspaceError> {
        let entries = self.all_observations(types, MAX_CALIBRATED).await?;
        // An answered question is not a forecast that came true.
        let policy = self.policy().await?;
        let asks =
            |entry: &&Entry| policy.types().class_of(entry.fields.type_name.as_deref()) == Class::PendingConfirmation;
        Ok(Calibration::of(entries.iter().filter(|entry| !asks(entry))))
    }

    pub(super) async fn look_for_patterns(&self) -> Result<Vec<FoundPattern>, WorkspaceError> {
        let policy = self.policy().await?;
        Ok(patterns::find(
            &self.all_observations(Vec::new(), RECENT).await?,
            policy.types(),
        ))
    }

    /// Observations whatever their status, newest first.
    async fn all_observations(&self, types: Vec<String>, max: usize) -> Result<Vec<Entry>, WorkspaceError> {
        let mut query = EntryQuery {
            kinds: vec![EntryKind::Observation],
            types,
            status: Status::ALL.into(),
            include_expired: true,
            include_superseded: true,
            limit: MAX_LIMIT,
            ..EntryQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let answer = self.read_entries(&query).await?;
            found.extend(answer.items);
            match answer.next {
                Some(next) if found.len() < max => query.cursor = Some(next),
                _ => return Ok(found),
            }
        }
    }

    /// The changes that add entries for what is new in `found`.
    pub(super) async fn learn(&self, actor: &Actor, found: &[FoundPattern]) -> Result<Vec<Change>, WorkspaceError> {
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
            if let Some(fact) = pattern.fact(source) {
                self.say(&mut changes, fact, &[pattern_id], &pattern.replaces_facts);
            }
        }
        if !changes.is_empty() {
            let (_, page) = self.scratch_page().await?;
            changes.splice(0..0, page);
        }
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
