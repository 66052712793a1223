mod book;
mod fake;
mod follow;
mod notes;
mod observations;
mod pages;
mod policy;
mod reads;
mod trace;
mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_memory::id::Ref;
use folio_memory::observation::{ObservationInput, ObservationPatch};
use folio_memory::scratchbook::{ItemInput, ItemPatch};
use folio_memory::{
    Actor, EntryQuery, FieldChange, PageRole, Role, Seq, SpaceName, State, Status, ThreadKey, Timestamp,
};
use serde_json::json;

use self::fake::{CountingIds, FakeStore, StillClock};
use super::*;
use crate::commit::{Commit, Record};
use crate::error::ErrorKind;

struct Fixture {
    workspace: Workspace,
    store: Arc<FakeStore>,
    clock: StillClock,
}

fn fixture() -> Fixture {
    let store = Arc::new(FakeStore::default());
    let clock = StillClock::default();
    *clock.0.lock().unwrap() = Timestamp::from_millis(1_000);
    let ids = Arc::new(CountingIds::default());
    let workspace = Workspace::new(Arc::clone(&store) as _, Arc::new(clock.clone()), ids, SpaceName::main());
    Fixture {
        workspace,
        store,
        clock,
    }
}

/// A thread that no system can start: its stack would not fit anywhere.
pub(super) fn no_thread() -> std::thread::Builder {
    std::thread::Builder::new().stack_size(1 << 60)
}

fn person() -> Actor {
    Actor::new(Role::Human, "ada")
}

fn input(value: serde_json::Value) -> ObservationInput {
    serde_json::from_value(value).unwrap()
}

fn saying(content: &str) -> ObservationInput {
    ObservationInput {
        content: content.to_owned(),
        ..ObservationInput::default()
    }
}

fn todo(title: &str) -> ItemInput {
    serde_json::from_value(json!({"kind": "todo", "title": title})).unwrap()
}

impl Fixture {
    async fn add(&self, content: &str) -> Entry {
        self.workspace
            .add_observation(&person(), saying(content), None)
            .await
            .unwrap()
            .entry
    }

    async fn todo(&self, title: &str) -> Entry {
        self.workspace
            .add_item(&person(), &ThreadKey::main(), todo(title), None)
            .await
            .unwrap()
            .entry
    }
}
