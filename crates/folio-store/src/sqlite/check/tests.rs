use std::path::Path;
use std::sync::Arc;

use folio_memory::{
    Actor, Change, EntryFields, EntryId, EntryKind, FieldChange, NewEntry, NewPage, Owner, PageFields, PageId,
    PageRole, Role, SpaceName, Timestamp, Trust,
};

use super::*;
use crate::commit::{Commit, Record};
use crate::sqlite::open::Target;
use crate::sqlite::{OpenOptions, SqliteStore};
use crate::store::Store as _;

/// As many notes as need more than one read of the log, each in a commit of its own.
const NOTES: u64 = CHUNK as u64 + 100;

fn id(number: u64) -> EntryId {
    EntryId::derived(&[&number.to_string()])
}

async fn commit(store: &SqliteStore, changes: Vec<Change>) {
    let commit = Commit {
        space: SpaceName::main(),
        at: Timestamp::default(),
        actor: Actor::new(Role::Human, "test"),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(changes),
        blobs: Vec::new(),
    };
    store.commit(commit).await.unwrap();
}

fn pinned(number: u64, rank: Option<u32>) -> Change {
    Change::PatchEntry {
        entry: id(number),
        fields: vec![FieldChange::PinRank(rank)],
        expected_version: None,
        base_version: None,
    }
}

/// A page in the first commit, the notes in the next ones, then one commit that pins each of them, and changes of the
/// second and third note, some of which change nothing. Returns the last commit that changes the second note.
async fn fill(path: &Path) -> (Arc<SqliteStore>, u64) {
    let store = SqliteStore::open(&OpenOptions::at(path)).unwrap();
    let page = PageId::derived(&["page"]);
    let fields = PageFields::new(PageRole::Note, "A page", Owner::agent());
    commit(&store, vec![Change::EnsurePage(Box::new(NewPage { id: page, fields }))]).await;
    for number in 1..=NOTES {
        let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
        fields.body = format!("note {number}.");
        let new = NewEntry {
            id: id(number),
            page,
            kind: EntryKind::Note,
            fields,
        };
        commit(&store, vec![Change::AddEntry(Box::new(new))]).await;
    }
    commit(&store, (1..=NOTES).map(|number| pinned(number, Some(1))).collect()).await;
    commit(&store, vec![pinned(3, Some(1))]).await;
    commit(&store, vec![pinned(2, Some(7))]).await;
    let last = NOTES + 4;
    assert_eq!(store.head(&SpaceName::main()).await.unwrap(), Seq(last));
    (store, last)
}

/// What is found with entries in memory up to `bytes_max`, without the name of the space.
fn problems(path: &Path, bytes_max: usize) -> Vec<String> {
    let conn = Target::of(&OpenOptions::at(path)).prepare().unwrap();
    let mut problems = check_holding(&conn, bytes_max).unwrap().problems;
    problems.sort();
    let told = problems.iter().map(|problem| problem.replace("space main: ", ""));
    told.collect()
}

/// The damages that differ in what the check has to hold and to look up: each is found as if everything were in memory.
#[tokio::test]
async fn entries_compared_ahead_have_the_same_problems_as_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    let (store, last) = fill(&whole).await;
    drop(store);
    let of = |what: &str, number: u64| format!("{what} WHERE place & 1099511627775 = {number};");
    let untouched = |number: u64, seq: u64| {
        format!("DELETE FROM touch WHERE what = 'e' AND place & 1099511627775 = {number} AND seq = {seq};")
    };
    // The row as it was before its last change.
    let older = of(
        &format!(
            "UPDATE entry SET version = 2, updated_seq = {}, fields = replace(fields, '\"pin\":7', '\"pin\":1')",
            NOTES + 2
        ),
        2,
    );
    let lacks = |number: u64, seq: u64| format!("the list of changes to e{number} lacks commit {seq}");
    let differs = |number: u64| format!("entry e{number} does not match the log");
    for (damage, wanted) in [
        (String::new(), vec![]),
        (
            of("UPDATE entry SET fields = replace(fields, 'note 9.', 'x')", 9),
            vec![differs(9)],
        ),
        (untouched(5, NOTES + 2), vec![lacks(5, NOTES + 2)]),
        (untouched(2, last), vec![lacks(2, last)]),
        (untouched(2, NOTES + 2), vec![lacks(2, NOTES + 2)]),
        // A write of which only the log has got anything.
        (untouched(2, last) + &older, vec![differs(2), lacks(2, last)]),
        (older.clone(), vec![differs(2)]),
        (
            of("UPDATE entry SET pinned = 0", 4) + &of("UPDATE entry SET fields = '{'", 6),
            vec![
                "entry e4 has columns that do not match it".to_owned(),
                "entry e6".to_owned(),
            ],
        ),
    ] {
        let path = folder.path().join("damaged.db");
        std::fs::copy(&whole, &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(&damage).unwrap();
        for bytes_max in [0, 300_000, usize::MAX] {
            let found = problems(&path, bytes_max);
            assert_eq!(found.len(), wanted.len(), "{damage} {bytes_max}: {found:#?}");
            for (found, wanted) in found.iter().zip(&wanted) {
                assert!(
                    found.starts_with(wanted),
                    "{damage} {bytes_max}: {wanted} is told as {found}"
                );
            }
        }
    }
}

#[tokio::test]
async fn lost_rows_are_counted_alike_whether_compared_ahead_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let (store, _) = fill(&path).await;
    drop(store);
    let damage =
        "DELETE FROM entry WHERE place & 1099511627775 = 8; DELETE FROM touch WHERE seq > 600 AND place % 2 = 0;";
    Connection::open(&path).unwrap().execute_batch(damage).unwrap();
    let in_memory = problems(&path, usize::MAX);
    assert_eq!(in_memory.len(), Checkup::PROBLEMS_MAX);
    assert_eq!(problems(&path, 0).len(), Checkup::PROBLEMS_MAX);
}

/// What is in memory is bounded, however many entries are changed later.
#[tokio::test]
async fn check_never_holds_more_of_the_entries_than_it_may() {
    const BYTES: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    drop(fill(&path).await);
    let conn = Target::of(&OpenOptions::at(&path)).prepare().unwrap();
    let replay = |bytes_max| Replay {
        conn: &conn,
        space: SpaceId(1),
        bytes_max,
        rebuilt: Rebuilt::default(),
        findings: Findings::default(),
    };
    let mut all = replay(usize::MAX);
    assert!(matches!(all.read_on(), Ok(Progress::ThereIsMore)));
    assert!(all.rebuilt.take_held(BYTES).is_some(), "all of them take more");
    let mut bounded = replay(BYTES);
    while let Progress::ThereIsMore = bounded.read_on().unwrap() {
        assert!(bounded.rebuilt.take_held(BYTES).is_none());
    }
    bounded.rest().unwrap();
    assert_eq!(bounded.rebuilt.counts.entries, NOTES);
}
