//! What calls of runs write, recorded for runs that other processes drive (E9.15).

use std::collections::{BTreeMap, HashMap};

use folio_memory::RunId;

use super::column::{count, decode_text, encode_text, get, id};
use super::error::Failure;
use super::lease::Owners;
use super::session::{Session, Write, values};
use crate::commit::Expected;
use crate::place::{Place, SpaceId, to_column};
use crate::plan::{OverlappingName, PlannedWrites, names_overlap};
use crate::prepare::Prepared;
use crate::store::OwnerId;

/// The names held by runs that overlap with what some commits take, in the state in which the last commit so far leaves
/// them.
#[derive(Debug, Default)]
pub(super) struct Written {
    had: Vec<OverlappingName>,
    /// The names that runs hold by now, with the fence; by run number.
    taken: BTreeMap<u64, (u64, Vec<String>)>,
    overtaken: Vec<u64>,
}

impl Written {
    /// Looks up what overlaps with what `commits` take, if they take anything. Runs under the lock of the space.
    pub(super) async fn of(session: &Session, commits: &[Prepared], owners: &Owners) -> Result<Self, Failure> {
        let mut written = Self::default();
        let expected = commits.iter().flat_map(|commit| &commit.expected);
        let wanted_names: Vec<&str> = expected
            .filter_map(|expected| match expected {
                Expected::Writes { names, .. } => Some(names.iter().map(String::as_str)),
                _ => None,
            })
            .flatten()
            .collect();
        if wanted_names.is_empty() {
            return Ok(written);
        }
        let sql = "SELECT name, run.id, run.number, run.owner FROM written JOIN run ON run.space = written.space
                       AND run.number = written.run
                   WHERE written.space = $1 AND written.fence = run.fence AND run.owner IS NOT NULL";
        let mut drivers: HashMap<String, bool> = HashMap::new();
        for row in session.query(sql, &[&session.space.0]).await? {
            let name = decode_text(get(&row, 0)?);
            if !wanted_names.iter().any(|wanted_name| names_overlap(wanted_name, &name)) {
                continue;
            }
            let owner = decode_text(get(&row, 3)?);
            let is_driven = match drivers.get(&owner) {
                Some(is_driven) => *is_driven,
                None => {
                    let is_driven = owners.is_alive(session, &OwnerId(owner.clone())).await?;
                    drivers.insert(owner, is_driven);
                    is_driven
                }
            };
            written.had.push(OverlappingName {
                name,
                run: RunId::from_bytes(id(&row, 1, "a run")?),
                place: Place::of(session.space, count(&row, 2)?),
                is_driven,
            });
        }
        Ok(written)
    }

    /// The names held by runs other than the one at `own` that overlap with any of `names`.
    pub(super) fn overlapping_names(&self, own: Place, names: &[String]) -> Vec<OverlappingName> {
        let is_met = |held_name: &&OverlappingName| {
            held_name.place != own && names.iter().any(|name| names_overlap(name, &held_name.name))
        };
        self.had.iter().filter(is_met).cloned().collect()
    }

    /// Takes in the outcome of a commit.
    pub(super) fn absorb(&mut self, planned: &PlannedWrites<'_>) {
        let PlannedWrites { run, place, .. } = *planned;
        self.had
            .retain(|held_name| held_name.place != place && !planned.overtaken.contains(&held_name.place));
        self.had.extend(planned.names.iter().map(|name| OverlappingName {
            name: name.clone(),
            run,
            place,
            is_driven: true,
        }));
        self.taken
            .insert(place.number(), (planned.fence, planned.names.to_vec()));
        for place in &planned.overtaken {
            self.taken.remove(&place.number());
            self.overtaken.push(place.number());
        }
    }

    /// The statements that write the changes.
    pub(super) fn writes(&self, space: SpaceId) -> Vec<Write> {
        if self.taken.is_empty() {
            return Vec::new();
        }
        let overtaken: Vec<i64> = self.overtaken.iter().map(|number| to_column(*number)).collect();
        let changed = self.taken.keys().map(|number| to_column(*number));
        let changed: Vec<i64> = changed.chain(overtaken.iter().copied()).collect();
        let mut writes = vec![Write::new(
            "DELETE FROM written WHERE space = $1 AND run = ANY($2)",
            values![space.0, changed],
        )];
        if !overtaken.is_empty() {
            writes.push(Write::new(
                "UPDATE run SET owner = NULL WHERE space = $1 AND number = ANY($2)",
                values![space.0, overtaken],
            ));
        }
        let (mut runs, mut fences, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (fence, names)) in &self.taken {
            for name in names {
                runs.push(to_column(*number));
                fences.push(to_column(*fence));
                all.push(encode_text(name).into_owned());
            }
        }
        if !all.is_empty() {
            let sql = "INSERT INTO written (space, run, fence, name)
                       SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[])";
            writes.push(Write::new(sql, values![space.0, runs, fences, all]));
        }
        writes
    }
}

/// The names of what calls of `run` write, as long as its driver is there.
pub(super) async fn names_of(session: &Session, run: RunId, owners: &Owners) -> Result<Vec<String>, Failure> {
    let sql = "SELECT name, run.owner FROM written JOIN run ON run.space = written.space AND run.number = written.run
               WHERE written.space = $1 AND run.id = $2 AND written.fence = run.fence AND run.owner IS NOT NULL";
    let rows = session
        .query(sql, &[&session.space.0, &run.to_bytes().as_slice()])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(Vec::new());
    };
    if !owners.is_alive(session, &OwnerId(decode_text(get(row, 1)?))).await? {
        return Ok(Vec::new());
    }
    rows.iter().map(|row| Ok(decode_text(get(row, 0)?))).collect()
}
