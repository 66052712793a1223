//! A workspace on a file, with helpers for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::{Actor, Entry, EntryQuery, Role, SpaceName, SpacePolicy, Timestamp};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::Tidied;
use folio_store::{Store, Workspace};
use folio_testkit::{SeededIds, SimClock};
use serde_json::{Value, json};

pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A workspace on a file of its own.
pub(crate) struct House {
    pub(crate) workspace: Workspace,
    pub(crate) clock: SimClock,
    pub(crate) path: PathBuf,
    pub(crate) folder: Option<tempfile::TempDir>,
}

impl House {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        let mut house = Self::at(&path, 1);
        house.folder = Some(folder);
        house
    }

    /// The workspace of another process on the same file.
    pub(crate) fn at(path: &Path, number: u16) -> Self {
        let clock = SimClock::default();
        let store: Arc<dyn Store> = SqliteStore::open(&OpenOptions::at(path)).unwrap();
        let ids = Arc::new(SeededIds::new(number));
        Self {
            workspace: Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main()),
            clock,
            path: path.to_owned(),
            folder: None,
        }
    }

    pub(crate) async fn add(&self, input: Value) -> Entry {
        let input: ObservationInput = serde_json::from_value(input).unwrap();
        let added = self.workspace.add_observation(&human(), input, None).await.unwrap();
        added.entry
    }

    pub(crate) async fn say(&self, content: &str) -> Entry {
        self.add(json!({ "content": content })).await
    }

    pub(crate) async fn get(&self, entry: &Entry) -> Entry {
        self.workspace.entry(Ref::Id(entry.id)).await.unwrap()
    }

    pub(crate) async fn update(&self, entry: &Entry, patch: Value) -> Entry {
        let patch = serde_json::from_value(patch).unwrap();
        let updated = self
            .workspace
            .update_observation(&human(), Ref::Id(entry.id), patch, None)
            .await;
        updated.unwrap().entry
    }

    pub(crate) async fn tidy(&self) -> Tidied {
        self.workspace.tidy(self.now()).await.unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.workspace.now()
    }

    pub(crate) async fn set_policy(&self, policy: Value) {
        let policy: SpacePolicy = serde_json::from_value(policy).unwrap();
        self.workspace.set_policy(&human(), policy, None, None).await.unwrap();
    }

    pub(crate) async fn total(&self, query: EntryQuery) -> u64 {
        self.workspace.observations(query).await.unwrap().total
    }

    /// Rewrites the file without its free space.
    pub(crate) async fn scrub(&self) {
        let store = self.workspace.store();
        store.scrub(&SpaceName::main(), Vec::new()).await.unwrap();
    }

    /// Asserts that the rows still follow from the log.
    pub(crate) async fn assert_sound(&self) {
        let checkup = self.workspace.store().check().await.unwrap();
        assert_eq!(checkup.problems, Vec::<String>::new());
    }

    /// The size of the file in bytes. The write-ahead log is left out: its length depends on when it was last moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.path.metadata().unwrap().len()
    }

    /// Whether the file, or any file that belongs to it, contains `text`.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let beside = std::fs::read_dir(self.path.parent().unwrap()).unwrap();
        beside.map(|file| file.unwrap().path()).any(|path| {
            // In another process, because closing the file here would drop the locks of the store.
            let mut search = std::process::Command::new("grep");
            search.args(["-q", "-a", "-F", "--", text]).arg(path);
            search.status().unwrap().success()
        })
    }
}

pub(crate) fn human() -> Actor {
    Actor::new(Role::Human, "jane")
}
