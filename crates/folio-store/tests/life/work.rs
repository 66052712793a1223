//! Work that several agents share.

use folio_memory::{Change, EntryId, EntryKind, NewEntry, Owner, Status, ThreadKey};
use folio_store::workspace::Write;

use crate::{person, scene};

#[tokio::test]
async fn oldest_open_work_is_ready_behind_many_tasks_in_progress() {
    let scene = scene();
    let (me, thread) = (Owner::parse("me").unwrap(), ThreadKey::main());
    let oldest = scene.task().await;
    let mut fields = oldest.fields.clone();
    (fields.status, fields.owner) = (Status::InProgress, Owner::parse("another").unwrap());
    let newer = (0..1_001).map(|number: u32| {
        Change::AddEntry(Box::new(NewEntry {
            id: EntryId::derived(&["newer", &number.to_string()]),
            page: oldest.page,
            kind: EntryKind::Task,
            fields: fields.clone(),
        }))
    });
    scene
        .memory
        .record(&person(), Write::of(newer.collect()))
        .await
        .unwrap();
    let ready = scene.memory.ready_work(&thread, &me, 10).await.unwrap();
    let found: Vec<_> = ready.items.iter().map(|item| item.id).collect();
    assert_eq!(found, [oldest.id]);
    let taken = scene
        .memory
        .claim_work(&person(), &thread, None, &me, None)
        .await
        .unwrap();
    assert_eq!(taken.unwrap().entry.id, oldest.id);
}
