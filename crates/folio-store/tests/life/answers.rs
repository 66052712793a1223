//! What a write answers, also when it is repeated or others write at the same moment.

use std::sync::Arc;

use folio_memory::id::Ref;
use folio_memory::observation::ObservationInput;
use folio_memory::{EntryHandle, SpaceName};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::workspace::Guard;
use folio_store::{Store, Workspace};
use folio_testkit::{FaultyStore, SeededIds, SimClock, Work};
use serde_json::json;

use crate::{person, scene, update};

#[tokio::test]
async fn answer_to_a_write_shows_what_it_made_whoever_wrote_since() {
    let inner = SqliteStore::open(&OpenOptions::in_memory()).unwrap();
    let store = Arc::new(FaultyStore::new(Arc::clone(&inner) as Arc<dyn Store>));
    let clock = SimClock::default();
    let on = |store: Arc<dyn Store>, number| {
        let ids = Arc::new(SeededIds::new(number));
        Workspace::new(store, Arc::new(clock.clone()), ids, SpaceName::main())
    };
    let (memory, others) = (on(Arc::clone(&store) as Arc<dyn Store>, 1), on(inner, 2));
    let input: ObservationInput = serde_json::from_value(json!({"content": "0"})).unwrap();
    let person = person();
    let gate = store.hold(Work::Committed);
    let adds = memory.add_observation(&person, input, None);
    let changes = async {
        gate.wait_until_reached().await;
        let entry = Ref::Handle(EntryHandle(1));
        let patch = update(json!({"content": "theirs"}));
        others.update_observation(&person, entry, patch, None).await.unwrap();
        gate.open();
    };
    let (added, ()) = tokio::join!(adds, changes);
    let added = added.unwrap().entry;
    assert_eq!((added.version, added.fields.body.as_str()), (1, "0"));
    let gate = store.hold(Work::Committed);
    let mine = memory.update_observation(&person, Ref::Id(added.id), update(json!({"content": "mine"})), None);
    let changes = async {
        gate.wait_until_reached().await;
        let patch = update(json!({"content": "theirs again"}));
        others
            .update_observation(&person, Ref::Id(added.id), patch, None)
            .await
            .unwrap();
        gate.open();
    };
    let (written, ()) = tokio::join!(mine, changes);
    let written = written.unwrap().entry;
    assert_eq!((written.version, written.fields.body.as_str()), (3, "mine"));
}

#[tokio::test]
async fn repeated_supersede_of_an_entry_archived_since_gets_the_first_answer() {
    let scene = scene();
    let (old, new) = (
        scene.add(json!({"content": "old"})).await,
        scene.add(json!({"content": "new"})).await,
    );
    let supersede = async || {
        let guard = Guard {
            idempotency_key: Some("s1".to_owned()),
            ..Guard::default()
        };
        let (old, new) = (Ref::Id(old.id), Ref::Id(new.id));
        scene.memory.supersede(&person(), old, new, guard).await.unwrap()
    };
    assert!(!supersede().await.replayed);
    scene.memory.archive(&person(), Ref::Id(old.id), None).await.unwrap();
    assert!(supersede().await.replayed);
}
