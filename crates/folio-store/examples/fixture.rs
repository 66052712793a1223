#![allow(clippy::all, missing_docs)]
use folio_memory::*;
use folio_store::sqlite::*;
use folio_store::*;
use folio_testkit::contract::scene::*;
#[tokio::main]
async fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let scene = Scene::on(SqliteStore::open(&OpenOptions::at(&path)).unwrap());
    let page = scene.a_page().await;
    let mut note = scene.entry(page, EntryKind::Observation, "An old note");
    note.fields.type_name = Some("alert".into());
    note.fields.tags = vec![tag("a"), tag("b/c")];
    note.fields.confidence = Some(Confidence::DEFAULT);
    note.fields.lifetime = Lifetime::Until(scene.now().plus(std::time::Duration::from_secs(60)));
    let id = scene.add(note).await;
    scene.commit_as("a key", vec![patch(id, vec![FieldChange::PinRank(Some(1))])]).await.unwrap();
    let other = scene.a_note("Another").await;
    scene.commit(vec![Change::AddLink(Link { src: id.to_string(), rel: Relation::References, dst: other.to_string() }), Change::SetPageStatus { page, status: "ok".into() }]).await;
    let run = scene.a_run("A run").await;
    scene.append(run, vec![asked_by("ada")], Some("cancelled"), vec![]).await.unwrap();
    let blobs = vec![Blob::new(b"a body ".repeat(100)), Blob::new(b"short".to_vec())];
    scene.store.commit(Commit { blobs, ..scene.commit_of(Record::of(Vec::new())) }).await.unwrap();
    scene.other_space("other").a_note("Elsewhere").await;
}
