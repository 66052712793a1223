#![allow(clippy::all, clippy::disallowed_methods, missing_docs)]
use std::time::Instant;
use std::sync::Arc;
use folio_memory::{Change, EntryKind};
use folio_store::sqlite::{OpenOptions, SqliteStore};
use folio_store::{Commit, Record};
use folio_testkit::contract::scene::{Scene, tag};
use rusqlite::Connection;
fn an_add(scene: &Scene, page: folio_memory::PageId) -> Commit {
    let mut new = scene.entry(page, EntryKind::Observation, "A file is changed more often than all others");
    new.fields.type_name = Some("contextual_insight".to_owned());
    new.fields.body = "src/lib.rs was touched by 41 of the last 100 commits. ".repeat(4);
    new.fields.tags = vec![tag("hot-file"), tag("lang/rust")];
    scene.commit_of(Record::of(vec![Change::AddEntry(Box::new(new))]))
}
fn med(v: &mut Vec<f64>) -> f64 { v.sort_by(|a,b| a.total_cmp(b)); v[v.len()/2] }
fn main() {
    let dir = tempfile::tempdir().unwrap();
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let scene = Arc::new(Scene::on(SqliteStore::open(&OpenOptions::at(dir.path().join("folio.db"))).unwrap()));
    let page = rt.block_on(scene.a_page());
    let conn = Connection::open(dir.path().join("bare.db")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = wal; PRAGMA synchronous = full; CREATE TABLE log (id INTEGER PRIMARY KEY, record TEXT)").unwrap();
    let bytes = serde_json::to_string(&an_add(&scene, page).record).unwrap();
    let rounds: usize = std::env::args().nth(1).map_or(30, |s| s.parse().unwrap());
    let mut res: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let n = 300;
        let s = Instant::now();
        for _ in 0..n { conn.prepare_cached("INSERT INTO log (record) VALUES (?1)").unwrap().execute([&bytes]).unwrap(); }
        res[0].push(s.elapsed().as_secs_f64() * 1e6 / n as f64);
        for (i, w) in [1usize, 8, 64].into_iter().enumerate() {
            let n = if w == 1 { 300 } else { 40 };
            let s = Instant::now();
            rt.block_on(async { let mut t = Vec::new(); for _ in 0..w { let scene = scene.clone(); t.push(tokio::spawn(async move { for _ in 0..n { scene.store.commit(an_add(&scene, page)).await.unwrap(); } })); } for t in t { t.await.unwrap(); } });
            res[i+1].push(s.elapsed().as_secs_f64() * 1e6 / (n * w) as f64);
        }
    }
    let m: Vec<f64> = res.iter_mut().map(med).collect();
    println!("bare {:.1} us; 1: {:.1} ({:.2}x); 8: {:.1} ({:.1}x); 64: {:.1} ({:.1}x rate)   [min bare {:.1}, min 1 {:.1} = {:.2}x]", m[0], m[1], m[1]/m[0], m[2], m[1]/m[2], m[3], m[1]/m[3], res[0][0], res[1][0], res[1][0]/res[0][0]);
}
