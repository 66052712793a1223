//! Checks whether the index of words matches the entries.

use folio_memory::Seq;
use folio_memory::counted::counted;
use folio_memory::text::{self, EntryTerms};
use rusqlite::{Connection, OptionalExtension};

use super::error::Failure;
use super::place::{Place, SpaceId, from_column};
use super::text::{fill_in_text, table};
use super::{entry, journal};
use crate::checkup::findings::Findings;

/// Checks the index of every space that has one: how far it has come, and for each entry how many words it contains. An
/// index without texts cannot tell whether those are the words of the entry.
pub(super) fn check(conn: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let spaces = {
        let sql = "SELECT text_index.space, text_index.seq, text_index.version, space.name
                   FROM text_index LEFT JOIN space ON space.id = text_index.space ORDER BY text_index.space";
        let mut statement = conn.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        rows.collect::<Result<Vec<(SpaceId, i64, u32, Option<String>)>, _>>()?
    };
    for (space, seq, version, name) in &spaces {
        let Some(name) = name else {
            findings.add(|| format!("there is an index of words for space {}, which does not exist", space.0));
            continue;
        };
        // An index by other rules is built anew by the next search.
        if *version == text::VERSION {
            let mut problems = Vec::new();
            check_space(conn, *space, Seq(from_column(*seq)), &mut problems)?;
            for problem in problems {
                findings.add(|| format!("space {name}: {problem}"));
            }
        }
    }
    findings.add_checked(counted(spaces.len() as u64, "word index"));
    Ok(())
}

fn check_space(conn: &Connection, space: SpaceId, seq: Seq, problems: &mut Vec<String>) -> Result<(), Failure> {
    let table = table(space);
    let head = journal::last(conn, space)?.map_or(Seq(0), |(head, _)| head);
    if seq > head {
        problems.push(format!(
            "the index of words has reached commit {seq}, but the last one is {head}"
        ));
    }
    let is_there: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)")?
        .query_row([&table], |row| row.get(0))?;
    if !is_there {
        problems.push("the index of words is missing".to_owned());
        return Ok(());
    }
    let mut known = 0_u64;
    let mut counted = conn.prepare(&format!("SELECT sz FROM {table}_docsize WHERE id = ?1"))?;
    let mut entries = conn.prepare("SELECT place FROM entry WHERE place BETWEEN ?1 AND ?2")?;
    let mut rows = entries.query((Place::start(space), Place::end(space)))?;
    while let Some(row) = rows.next()? {
        let place: Place = row.get(0)?;
        let sizes: Option<Vec<u8>> = counted.query_row([place], |row| row.get(0)).optional()?;
        known += u64::from(sizes.is_some());
        // Rebuilding the rows has reported entries that cannot be read.
        let Ok(Some(mut entry)) = entry::by_place(conn, place) else {
            continue;
        };
        if entry.updated_seq > seq {
            continue;
        }
        let terms = if text::is_searchable(entry.kind) {
            fill_in_text(conn, space, &mut entry)?;
            EntryTerms::of(&entry.fields)
        } else {
            EntryTerms::default()
        };
        let expected = [&terms.title, &terms.body, &terms.tags].map(Vec::len);
        let found = sizes.as_deref().map_or(Some([0; 3]), counts);
        if found != Some(expected) {
            problems.push(format!("the index of words does not match entry {}", entry.handle));
        }
    }
    let indexed: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}_docsize"), [], |row| row.get(0))?;
    if from_column(indexed) != known {
        problems.push(format!(
            "the index of words has {indexed} entries, of which {known} exist"
        ));
    }
    Ok(())
}

/// How many words FTS5 has counted in each of the three columns: numbers of seven bits to a byte, the highest first.
fn counts(sizes: &[u8]) -> Option<[usize; 3]> {
    let mut counts = [0_usize; 3];
    let mut at = 0;
    for byte in sizes {
        let count = counts.get_mut(at)?;
        *count = count.checked_mul(128)? + usize::from(byte & 0x7f);
        at += usize::from(byte & 0x80 == 0);
    }
    (at == counts.len()).then_some(counts)
}
