use std::sync::Arc;

use folio_memory::{
    Actor, Change, EntryFields, EntryId, EntryKind, EntryQuery, FieldChange, NewEntry, NewPage, Owner, PageFields,
    PageId, PageRole, Role, SpaceName, TextMatch, Timestamp, Trust,
};

use super::*;
use crate::commit::{Commit, Record};
use crate::sqlite::open::Target;
use crate::sqlite::{OpenOptions, SqliteStore};
use crate::store::Store as _;

const SPACE: SpaceId = SpaceId(1);

/// A file with two notes whose text is indexed, and a connection that writes to it.
struct File {
    _folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    conn: Connection,
}

impl File {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::at(folder.path().join("folio.db"));
        let store = SqliteStore::open(&options).unwrap();
        let conn = Target::of(&options).prepare().unwrap();
        let file = Self {
            _folder: folder,
            store,
            conn,
        };
        let page = NewPage {
            id: page(),
            fields: PageFields::new(PageRole::Note, "A page", Owner::agent()),
        };
        file.commit(Change::EnsurePage(Box::new(page))).await;
        file.commit(note("a secretword of ours")).await;
        file.commit(note("something else")).await;
        assert_eq!(file.found("secretword").await, 1);
        file
    }

    async fn commit(&self, change: Change) {
        self.store.commit(commit(change)).await.unwrap();
    }

    async fn found(&self, words: &str) -> u64 {
        let query = EntryQuery {
            text: Some(words.to_owned()),
            text_match: TextMatch::Any,
            ..EntryQuery::default()
        };
        let answer = self
            .store
            .entries(&SpaceName::main(), &query, Timestamp::default())
            .await;
        answer.unwrap().total
    }

    /// Whether the index has `word` anywhere in its rows.
    fn has(&self, word: &str) -> bool {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {}_data WHERE instr(block, CAST(?1 AS BLOB)))",
            table(SPACE)
        );
        self.conn.query_row(&sql, [word], |row| row.get(0)).unwrap()
    }

    fn indexed(&self) -> Option<Seq> {
        indexed(&self.conn, SPACE).unwrap()
    }
}

fn page() -> PageId {
    PageId::derived(&["page"])
}

fn entry_id(title: &str) -> EntryId {
    EntryId::derived(&[title])
}

fn note(title: &str) -> Change {
    let mut fields = EntryFields::new(EntryKind::Note, Owner::agent(), Trust::User);
    title.clone_into(&mut fields.title);
    Change::AddEntry(Box::new(NewEntry {
        id: entry_id(title),
        page: page(),
        kind: EntryKind::Note,
        fields,
    }))
}

fn commit(change: Change) -> Commit {
    Commit {
        space: SpaceName::main(),
        at: Timestamp::default(),
        actor: Actor::new(Role::Human, "ada"),
        idempotency_key: None,
        expected: Vec::new(),
        record: Record::of(vec![change]),
        blobs: Vec::new(),
    }
}

#[tokio::test]
async fn removed_entry_is_not_found_and_leaves_the_word_index() {
    let file = File::new().await;
    assert!(file.has("secretword"));
    remove(&file.conn, Place::of(SPACE, 1)).unwrap();
    assert_eq!((file.found("secretword").await, file.found("else").await), (0, 1));
    let parts = (0..10).take_while(|_| !clean_up(&file.conn, SPACE).unwrap()).count();
    assert!(parts < 10, "it comes to an end");
    assert!(!file.has("secretword"));
    assert_eq!(file.found("else").await, 1);
}

#[tokio::test]
async fn commits_proceed_between_steps_of_the_word_index_cleanup() {
    let file = File::new().await;
    for number in 0..1_500 {
        let words: Vec<_> = (0..60).map(|word| format!("word{number}x{word}")).collect();
        file.commit(note(&words.join(" "))).await;
    }
    assert_eq!(file.found("word1499x59").await, 1);
    // Each part is a job of the writer, and what others want comes between two of them.
    let mut parts = 0;
    while !clean_up(&file.conn, SPACE).unwrap() {
        file.commit(note(&format!("meanwhile {parts}"))).await;
        parts += 1;
    }
    assert!(parts > 1, "{parts}");
    assert_eq!(file.found("word0x0").await, 1);
}

#[tokio::test]
async fn word_index_of_another_version_is_rebuilt_on_search() {
    let file = File::new().await;
    let sql = format!("DELETE FROM {}; UPDATE text_index SET version = 0", table(SPACE));
    file.conn.execute_batch(&sql).unwrap();
    assert_eq!(file.found("secretword").await, 1);
}

#[tokio::test]
async fn word_index_is_updated_by_searches_and_not_by_adds() {
    let file = File::new().await;
    assert_eq!(file.indexed(), Some(Seq(3)));
    file.commit(note("a third")).await;
    file.commit(note("a fourth")).await;
    assert_eq!(file.indexed(), Some(Seq(3)));
    assert_eq!(far_behind(&file.conn, 2).unwrap(), [SPACE]);
    assert!(far_behind(&file.conn, 3).unwrap().is_empty());
    assert_eq!(file.found("third").await, 1);
    assert_eq!(file.indexed(), Some(Seq(5)));
}

#[tokio::test]
async fn check_reports_a_word_index_that_differs_from_its_entries() {
    let file = File::new().await;
    file.commit(note("not yet indexed")).await;
    let change = Change::PatchEntry {
        entry: entry_id("something else"),
        fields: vec![FieldChange::Body("words that are not yet indexed".to_owned())],
        expected_version: None,
        base_version: None,
    };
    file.commit(change).await;
    let healthy = file.store.check().await.unwrap();
    assert_eq!(healthy.problems, Vec::<String>::new());
    assert!(healthy.checked.contains(&"1 word index".to_owned()), "{healthy:?}");
    remove(&file.conn, Place::of(SPACE, 1)).unwrap();
    file.conn.execute("UPDATE text_index SET seq = 99", []).unwrap();
    let problems = file.store.check().await.unwrap().problems.join("\n");
    assert!(
        problems.contains("the index of words does not match entry e1"),
        "{problems}"
    );
    assert!(problems.contains("has reached commit 99"), "{problems}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn word_index_far_behind_catches_up_without_a_search() {
    let file = File::new().await;
    let adds: Vec<_> = (0..FAR_BEHIND_COMMITS)
        .map(|number| {
            let (store, commit) = (Arc::clone(&file.store), commit(note(&format!("number {number}"))));
            tokio::spawn(async move { store.commit(commit).await.unwrap() })
        })
        .collect();
    for add in adds {
        add.await.unwrap();
    }
    // Nobody searches. The thread that keeps watch lets it catch up, and tells nobody when it has.
    while file.indexed().is_none_or(|seq| seq.0 < FAR_BEHIND_COMMITS / 2) {
        tokio::task::yield_now().await;
    }
}
