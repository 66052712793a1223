#![allow(clippy::all, clippy::disallowed_methods, missing_docs)]
use std::time::{Duration, Instant};
use std::sync::Arc;
use folio_memory::{Change, EntryKind};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Commit, Record};
use folio_testkit::contract::scene::{Scene, tag};
fn pct(mut v: Vec<Duration>) -> String { v.sort(); format!("p50 {:?} p90 {:?} p99 {:?} max {:?} mean {:?}", v[v.len()/2], v[v.len()*9/10], v[v.len()*99/100], v[v.len()-1], v.iter().sum::<Duration>()/v.len() as u32) }
fn an_add(scene: &Scene, page: folio_memory::PageId) -> Commit {
    let mut new = scene.entry(page, EntryKind::Observation, "A file is changed more often than all others");
    new.fields.type_name = Some("contextual_insight".to_owned());
    new.fields.body = "src/lib.rs was touched by 41 of the last 100 commits. ".repeat(4);
    new.fields.tags = vec![tag("hot-file"), tag("lang/rust")];
    scene.commit_of(Record::of(vec![Change::AddEntry(Box::new(new))]))
}
fn main() {
    let writers: usize = std::env::args().nth(1).map_or(1, |s| s.parse().unwrap());
    let n: usize = std::env::args().nth(2).map_or(5000, |s| s.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let path = dir.path().join("folio.db");
    let scene = Arc::new(Scene::on(SqliteStore::open(&OpenOptions::at(&path)).unwrap()));
    let start = Instant::now();
    let v = rt.block_on(async {
        let page = scene.a_page().await;
        let mut tasks = Vec::new();
        for _ in 0..writers {
            let scene = scene.clone();
            tasks.push(tokio::spawn(async move { let mut v = Vec::new(); for _ in 0..n { let c = an_add(&scene, page); let s = Instant::now(); scene.store.commit(c).await.unwrap(); v.push(s.elapsed()); } v }));
        }
        let mut v = Vec::new();
        for t in tasks { v.extend(t.await.unwrap()); }
        v
    });
    let total = start.elapsed();
    println!("{writers} writers: {} ; per add {:?}", pct(v), total / (n * writers) as u32);
    let wal = std::fs::metadata(dir.path().join("folio.db-wal")).map_or(0, |m| m.len());
    drop(scene);
    println!("file {} bytes per add, wal {wal}", std::fs::metadata(&path).unwrap().len() / (n * writers) as u64);
    let conn = rusqlite::Connection::open(&path).unwrap();
    let mut s = conn.prepare("SELECT name, sum(pgsize), sum(payload) FROM dbstat GROUP BY name ORDER BY 2 DESC").unwrap();
    let mut r = s.query([]).unwrap();
    while let Some(row) = r.next().unwrap() { let (a, b, c): (String, i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap()); if b > 8192 { println!("  {a}: {} per add ({} payload)", b / (n*writers) as i64, c / (n*writers) as i64); } }
}
