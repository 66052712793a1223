//! Applies one commit: writes what was decided, or nothing if it was refused.

use std::collections::HashMap;

use folio_memory::{Entry, EntryId, EntryKind, KeptPolicy, Page, PageId, Relation, RunId, Seq, Turn, TurnId};

use super::error::Failure;
use super::job::{InParts, Next};
use super::lease::Owners;
use super::place::{Place, SpaceId};
use super::planned::{write_entry, write_page, write_run};
use super::scope::Scope;
use super::{blob, entry, erase, journal, link, page, policy, replay, run, turn, unclaimed, written};
use crate::commit::Committed;
use crate::parts::{self, CommittedParts};
use crate::plan::{Decided, Facts, OverlappingName, check_repeated, decide};
use crate::prepare::Prepared;
use crate::store::OwnerId;

/// Writes `commit`, or finds that it was written before.
///
/// # Errors
///
/// `Refused` with nothing written, or any error of the database; then the transaction must be rolled back.
pub(super) fn apply(scope: &mut Scope<'_>, commit: &Prepared, owners: &Owners) -> Result<Committed, Failure> {
    let known = scope.space(&commit.space)?;
    if let (Some(space), Some(key)) = (known, &commit.key)
        && let Some(row) = journal::with_key(scope.conn, space, key)?
    {
        check_repeated(commit, &row)?;
        return replay::committed(scope.conn, space, &row);
    }
    // A space gets its row with its first commit, once it is certain that this will be it, or with its first note.
    let space = known.map_or_else(|| scope.next_space(), Ok)?;
    let ends = scope.ends(space)?;
    let decided = decide(&mut InScope { scope, space, owners }, space, ends, commit)?;
    write(scope, space, known.is_none(), commit, decided)
}

/// Writes `commits` of another store, which must follow the last one of the space; returns the last number.
///
/// # Errors
///
/// `Refused` with nothing written if they do not follow, or any other failure; then the transaction must be rolled
/// back.
pub(super) fn take_over(scope: &mut Scope<'_>, commits: &[Prepared], owners: &Owners) -> Result<Seq, Failure> {
    let mut last = Seq(0);
    for (index, commit) in commits.iter().enumerate() {
        last = match apply(scope, commit, owners) {
            Ok(committed) => committed.seq,
            Err(failure) if index > 0 => return Err(undone(failure)),
            Err(failure) => return Err(failure),
        };
    }
    Ok(last)
}

/// Writes the commits that `parts` yields, until their end.
///
/// # Errors
///
/// As for [`apply`], if one of them is refused, or the parts stop without an end; then the transaction must be rolled
/// back.
pub(super) fn in_parts(scope: &mut Scope<'_>, parts: &InParts, owners: &Owners) -> Result<CommittedParts, Failure> {
    let mut rest = parts.rest.lock();
    let mut committed = CommittedParts::begin(apply(scope, &parts.first, owners)?);
    while !committed.first.replayed {
        match rest.blocking_recv() {
            Some(Next::Part(part)) => committed.add(&apply(scope, &part, owners).map_err(undone)?),
            Some(Next::End) => break,
            None => return Err(Failure::Undone(parts::abandoned_error())),
        }
    }
    // This tells the sender that no more parts are wanted.
    rest.close();
    Ok(committed)
}

/// Marks a refusal that comes after other commits were written in the same transaction.
fn undone(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(error) => Failure::Undone(error),
        other => other,
    }
}

/// A space as a transaction sees it.
struct InScope<'s, 'w> {
    scope: &'s mut Scope<'w>,
    space: SpaceId,
    owners: &'s Owners,
}

impl Facts for InScope<'_, '_> {
    type Failure = Failure;

    fn page_place(&mut self, id: PageId) -> Result<Option<Place>, Failure> {
        Ok(self.scope.page(self.space, id)?.map(|(place, _)| place))
    }

    fn page(&mut self, id: PageId) -> Result<Option<Page>, Failure> {
        match self.scope.page(self.space, id)? {
            Some((place, _)) => page::at(self.scope.conn, place),
            None => Ok(None),
        }
    }

    fn entry_place(&mut self, id: EntryId) -> Result<Option<Place>, Failure> {
        self.scope.entry(self.space, id)
    }

    fn entry(&mut self, _: EntryId, place: Place) -> Result<Option<Entry>, Failure> {
        entry::by_place(self.scope.conn, place)
    }

    fn led_to(&mut self, rel: Relation, id: EntryId) -> Result<Vec<EntryId>, Failure> {
        link::led_to(self.scope.conn, self.space, rel, id)
    }

    fn waited_for(&mut self, id: EntryId) -> Result<Vec<EntryId>, Failure> {
        link::leading_to(self.scope.conn, self.space, Relation::Blocks, id)
    }

    fn changed_since(&mut self, entry: &Entry, base: u32) -> Result<HashMap<&'static str, u32>, Failure> {
        journal::changed_since(self.scope.conn, entry, self.space, base)
    }

    fn run_place(&mut self, id: RunId) -> Result<Option<Place>, Failure> {
        self.scope.run(self.space, id)
    }

    fn run_head(&mut self, place: Place) -> Result<Seq, Failure> {
        self.scope.run_head(place)
    }

    fn run_status(&mut self, place: Place) -> Result<String, Failure> {
        run::status_of(self.scope.conn, place)
    }

    fn driver(&mut self, place: Place) -> Result<(Option<OwnerId>, u64), Failure> {
        self.scope.driver(place)
    }

    fn overlapping_names(&mut self, own: Place, names: &[String]) -> Result<Vec<OverlappingName>, Failure> {
        written::overlapping_names(self.scope.conn, self.space, own, names, self.owners)
    }

    fn policy_version(&mut self) -> Result<u32, Failure> {
        self.scope.policy_version(self.space)
    }

    fn policy(&mut self) -> Result<KeptPolicy, Failure> {
        policy::read(self.scope.conn, Some(self.space))
    }

    fn turn(&mut self, id: TurnId) -> Result<Option<Turn>, Failure> {
        turn::by_id(self.scope.conn, self.space, id)
    }

    fn turn_written(&mut self, id: TurnId, since: Seq) -> Result<Option<Seq>, Failure> {
        self.scope.turn_written(self.space, id, since)
    }

    fn is_kept(&mut self, hash: &str) -> Result<bool, Failure> {
        blob::is_kept(self.scope.conn, self.space, hash)
    }
}

fn write(
    scope: &mut Scope<'_>,
    space: SpaceId,
    is_new_space: bool,
    commit: &Prepared,
    decided: Decided<'_>,
) -> Result<Committed, Failure> {
    let (conn, seq, at) = (scope.conn, decided.seq, decided.at);
    let changes_pages = changes_pages(scope, space, commit, &decided)?;
    if is_new_space {
        scope.add_space(&commit.space, space)?;
    }
    if !decided.gone.is_empty() {
        erase::overwrite_deleted(conn, true)?;
    }
    journal::insert(conn, Place::of(space, seq.0), at, commit)?;
    for planned in &decided.pages {
        write_page(planned, conn, seq, at)?;
        if let Some((new, ..)) = planned.new {
            scope.knows_page(space, new.id, planned.place, new.fields.run);
        }
    }
    for planned in &decided.entries {
        write_entry(planned, conn, seq, at)?;
        if let Some((new, ..)) = planned.new
            && new.kind == EntryKind::Step
        {
            scope.knows_step(space, new.id, planned.place);
        }
    }
    for link in &decided.links {
        link::insert(conn, space, link)?;
    }
    unclaimed::keep(conn, space, commit, at)?;
    if let Some(run) = &decided.run {
        write_run(run, conn, seq, at)?;
        scope.wrote_run(space, run.append.run, run.place, seq);
    }
    for planned in &decided.turns {
        turn::write(conn, planned)?;
    }
    if let Some(turn) = commit.turn_written {
        scope.wrote_in_turn(space, turn, seq)?;
    }
    if let Some(planned) = &decided.writes {
        written::write(conn, space, planned)?;
        scope.forget_drivers_of(&planned.overtaken);
    }
    if let Some(kept) = &decided.policy {
        policy::write(conn, space, kept)?;
        scope.wrote_policy(space, kept.version);
    }
    if !decided.gone.is_empty() {
        erase::remove_content(conn, space, &decided.gone)?;
        erase::overwrite_deleted(conn, false)?;
        let forgotten: Vec<_> = decided.gone.runs.iter().map(|run| run.place).collect();
        scope.forget_drivers_of(&forgotten);
    }
    scope.committed(
        space,
        decided.ends,
        decided.changes_memory(&commit.record),
        changes_pages,
    );
    Ok(decided.answer())
}

/// Whether a commit writes to pages of runs in another way than the run itself does. In doubt, true.
fn changes_pages(
    scope: &mut Scope<'_>,
    space: SpaceId,
    commit: &Prepared,
    decided: &Decided<'_>,
) -> Result<bool, Failure> {
    let is_more = decided.policy.is_some() || !decided.gone.is_empty() || commit.record.folded.is_some();
    let run = decided.run.as_ref().map(|run| run.append.run);
    if is_more {
        return Ok(true);
    }
    let is_own = |of: Option<RunId>| of.is_some() && of == run;
    for page in &decided.pages {
        let named = match (&page.page, page.new) {
            (Some(page), _) => Some(page.fields.run),
            (None, Some((new, ..))) => Some(new.fields.run),
            (None, None) => None,
        };
        if named.is_some_and(|of| !is_own(of)) {
            return Ok(true);
        }
    }
    let mut new_pages = HashMap::new();
    new_pages.extend(
        decided
            .pages
            .iter()
            .filter_map(|page| page.new)
            .map(|(new, ..)| (new.id, new.fields.run)),
    );
    for entry in &decided.entries {
        let page = match (&entry.entry, entry.new) {
            (Some(entry), _) => entry.page,
            (None, Some((new, ..))) => new.page,
            (None, None) => continue,
        };
        let of = match new_pages.get(&page) {
            Some(of) => *of,
            None => scope.page(space, page)?.and_then(|(_, of)| of),
        };
        if !is_own(of) {
            return Ok(true);
        }
    }
    Ok(false)
}
