//! Checks whether texts that should be gone are gone: from rows of all tables, and from the bytes of the files.
//!
//! Rows are searched in the form in which they are read, unpacked and decoded. Then the files are searched byte by byte
//! for what is in no row but still in free space, in the write-ahead log or in a file beside the store.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

use super::error::Failure;
use super::packed::{self, Packed};
use super::place::{Place, SpaceId, from_column};
use super::{backup, migrate};
use crate::error::StoreError;
use crate::needles::Needles;
use crate::text_search::{SearchTexts, forms, report_place, searchable_texts};
use crate::upkeep::OUTBOX_SUFFIX;
use crate::upkeep::Residue;

/// Length in bytes of the pieces into which a text is cut, because it may lie on several pages of the file.
const PIECE: usize = 40;
/// How many bytes of a file are in memory at a time.
const CHUNK: usize = 8 * 1024 * 1024;
/// What was found, and whether any of it is in free space.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) residue: Residue,
    pub(super) is_in_free_space: bool,
}

/// Searches for `texts` in the rows of `space` and in the files of the store; only in the rows if there is no file.
///
/// What another space contains is its own business: it is not reported, and a text that is found there is not searched
/// for in the bytes of the files, where it would be found as well.
pub(super) fn search(
    conn: &Connection,
    file: Option<&Path>,
    space: Option<SpaceId>,
    texts: &[String],
) -> Result<Search, Failure> {
    let texts = searchable_texts(texts);
    let mut search = Search::default();
    let in_rows = search_rows(conn, space, &texts, &mut search.residue)?;
    if let Some(file) = file {
        let hidden: BTreeSet<String> = texts.difference(&in_rows).flat_map(|text| forms(text)).collect();
        let mut pieces = Pieces::of(&hidden, &BTreeSet::new());
        let mut is_narrowed = false;
        for path in files_of(file) {
            let name = path.display().to_string();
            if name.starts_with(&migrate::backup_prefix(file)) || backup::is_copy(file, &path) {
                search.residue.backups.push(name);
                continue;
            }
            let contains = |pieces: &Pieces| contains(&path, pieces).map_err(|error| unavailable(&name, error));
            let mut is_found = contains(&pieces)?;
            if is_found && !is_narrowed {
                // What a row says as well is in the file for that row.
                pieces = Pieces::of(&hidden, &pieces_in_rows(conn, &hidden)?);
                is_narrowed = true;
                is_found = contains(&pieces)?;
            }
            if is_found {
                search.is_in_free_space = true;
                report_place(&mut search.residue, format!("free space of {name}"));
            }
            search.residue.searched.push(name);
        }
    }
    Ok(search)
}

fn unavailable(location: &str, error: std::io::Error) -> Failure {
    Failure::Refused(StoreError::Unavailable {
        doing: "search",
        location: location.to_owned(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    })
}

/// Searches every value of every table; returns the texts that were found in any.
fn search_rows<'t>(
    conn: &Connection,
    space: Option<SpaceId>,
    texts: &BTreeSet<&'t str>,
    residue: &mut Residue,
) -> Result<BTreeSet<&'t str>, Failure> {
    let searched = SearchTexts::of(texts.iter().copied());
    let mut seen = BTreeSet::new();
    let mut look = |place: &dyn Fn() -> String, of: Option<SpaceId>, bytes: &[u8], residue: &mut Residue| {
        for text in searched.in_bytes(bytes) {
            seen.insert(text);
            if of.is_none() || of == space {
                report_place(residue, place());
            }
        }
    };
    for table in tables(conn)? {
        let mut statement = conn.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns = statement.column_count();
        let of_space = Belongs::of(&statement);
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let number = match row.get_ref(0)? {
                ValueRef::Integer(number) => Some(number),
                _ => None,
            };
            let row_space = of_space.space_of(conn, row)?;
            for column in 0..columns {
                if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = row.get_ref(column)? {
                    look(&|| named(&table, number), row_space, bytes, residue);
                }
            }
        }
    }
    for (kind, table) in [(Packed::Body, "entry"), (Packed::Record, "log")] {
        packed::each(conn, kind, |place, text| {
            let text = text.unwrap_or_default();
            let name = || named(table, Some(place.raw()));
            look(&name, Some(place.space()), text.as_bytes(), residue);
        })?;
    }
    let mut statement = conn.prepare("SELECT hash, size, encoding, bytes, space FROM blob WHERE encoding <> 'raw'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let hash: Vec<u8> = row.get(0)?;
        let encoding: String = row.get(2)?;
        let bytes = crate::body::unpack(&hash, from_column(row.get(1)?), &encoding, row.get(3)?).unwrap_or_default();
        look(&|| "a body".to_owned(), Some(row.get(4)?), &bytes, residue);
    }
    residue.searched.push("every row of every table".to_owned());
    Ok(seen)
}

/// The column of a table that tells to which space a row belongs.
enum Belongs {
    Space(usize),
    Place(usize),
    /// The rows belong to the store itself, or name spaces.
    Nobody,
}

impl Belongs {
    fn of(statement: &rusqlite::Statement<'_>) -> Self {
        let column = |name| statement.column_index(name).ok();
        match (column("space"), column("place").or_else(|| column("entry"))) {
            (Some(column), _) => Self::Space(column),
            (None, Some(column)) => Self::Place(column),
            (None, None) => Self::Nobody,
        }
    }

    fn space_of(&self, conn: &Connection, row: &rusqlite::Row<'_>) -> Result<Option<SpaceId>, Failure> {
        Ok(match self {
            // A token names the space that it opens.
            Self::Space(column) if matches!(row.get_ref(*column)?, ValueRef::Text(_)) => {
                let sql = "SELECT id FROM space WHERE name = ?1";
                let name: String = row.get(*column)?;
                conn.prepare_cached(sql)?
                    .query_row([name], |row| row.get(0))
                    .optional()?
            }
            Self::Space(column) => Some(row.get(*column)?),
            Self::Place(column) => Some(row.get::<_, Place>(*column)?.space()),
            Self::Nobody => None,
        })
    }
}

fn tables(conn: &Connection) -> Result<Vec<String>, Failure> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND sql NOT LIKE 'CREATE VIRTUAL%'
               ORDER BY name";
    let mut statement = conn.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// The name by which people know the row of `table` whose first column is `number`.
fn named(table: &str, number: Option<i64>) -> String {
    let number = number.map(|number| Place::from_raw(number).number());
    match (table, number) {
        ("entry", Some(number)) => format!("e{number}"),
        ("page", Some(number)) => format!("p{number}"),
        ("run", Some(number)) => format!("r{number}"),
        ("turn", Some(number)) => format!("turn t{number}"),
        ("log", Some(number)) => format!("commit {number}"),
        ("blob", _) => "a body".to_owned(),
        (table, _) => format!("the table {table}"),
    }
}

/// The file, and the files beside it whose names begin with its name.
fn files_of(file: &Path) -> Vec<PathBuf> {
    let (Some(name), Some(folder)) = (file.file_name().map(OsStrExt::as_bytes), file.parent()) else {
        return vec![file.to_owned()];
    };
    let siblings = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = siblings
        .filter(|entry| {
            // The outbox contains lines of many spaces, for whoever delivers them.
            let file_name = entry.file_name();
            let end = file_name.as_bytes().strip_prefix(name);
            end.is_some_and(|end| !end.starts_with(OUTBOX_SUFFIX.as_bytes()))
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// What tells that a text is there, in lower case.
struct Pieces {
    needles: Needles<()>,
    /// The length of the longest.
    longest: usize,
}

impl Pieces {
    /// The pieces of `texts`, without those that are `shared` with what stays. Of a text that shares all of its pieces,
    /// only the whole tells that it is there.
    fn of(texts: &BTreeSet<String>, shared: &BTreeSet<&[u8]>) -> Self {
        let own: BTreeSet<&[u8]> = texts
            .iter()
            .flat_map(|text| {
                let own: Vec<_> = pieces_of(text).filter(|piece| !shared.contains(piece)).collect();
                if own.is_empty() { vec![text.as_bytes()] } else { own }
            })
            .collect();
        Self {
            longest: own.iter().map(|piece| piece.len()).max().unwrap_or(0),
            needles: Needles::of(own.into_iter().map(|piece| (piece, ()))),
        }
    }
}

/// Cuts `text` into pieces.
fn pieces_of(text: &str) -> impl Iterator<Item = &[u8]> {
    let bytes = text.as_bytes();
    // The last piece is as long as the others, so it overlaps with the one before.
    let starts = (0..bytes.len().div_ceil(PIECE)).map(|n| (n * PIECE).min(bytes.len().saturating_sub(PIECE)));
    starts.map(|start| &bytes[start..bytes.len().min(start + PIECE)])
}

/// Which pieces of `texts` stand in rows, as these are stored, of whatever space.
fn pieces_in_rows<'t>(conn: &Connection, texts: &'t BTreeSet<String>) -> Result<BTreeSet<&'t [u8]>, Failure> {
    let needles = Needles::of(
        texts
            .iter()
            .flat_map(|text| pieces_of(text))
            .map(|piece| (piece, piece)),
    );
    let mut found = BTreeSet::new();
    for table in tables(conn)? {
        let mut statement = conn.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = row.get_ref(column)? {
                    found.extend(needles.in_text(&bytes.to_ascii_lowercase()));
                }
            }
        }
    }
    Ok(found)
}

/// Whether the file at `path` contains any of `pieces`, ignoring case. A missing file contains
/// nothing.
fn contains(path: &Path, pieces: &Pieces) -> std::io::Result<bool> {
    let file = match opened(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut bytes = vec![0; CHUNK + pieces.longest];
    let (mut from, mut kept) = (0, 0);
    loop {
        let read = file.read_at(&mut bytes[kept..kept + CHUNK], from)?;
        let filled = kept + read;
        bytes[kept..filled].make_ascii_lowercase();
        if pieces.needles.are_in(&bytes[..filled]) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        from += read as u64;
        // What lies across the border of two chunks is found with the second.
        kept = filled.min(pieces.longest);
        bytes.copy_within(filled - kept..filled, 0);
    }
}

/// Open files by path, each with its inode.
type Opened = HashMap<PathBuf, (u64, Arc<File>)>;

/// The file at `path`, opened once and never closed: closing it would drop the locks that this process holds on it
/// through SQLite.
fn opened(path: &Path) -> std::io::Result<Arc<File>> {
    static OPENED: LazyLock<Mutex<Opened>> = LazyLock::new(Mutex::default);
    let number = std::fs::metadata(path)?.ino();
    let mut opened = OPENED.lock();
    if let Some((_, file)) = opened.get(path).filter(|(known, _)| *known == number) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    if let Some((_, old)) = opened.insert(path.to_owned(), (number, Arc::clone(&file))) {
        // Another file has taken its name since. Never closed, either.
        std::mem::forget(old);
    }
    Ok(file)
}
